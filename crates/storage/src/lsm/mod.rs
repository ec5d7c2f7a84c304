//! The parts that both log-structured engines share (P1 3.3, 4.3): the meaning of a run's entry,
//! and the choice of runs to merge next ([`change`], [`levels`]). Also the parts that only the
//! engine with files needs: SSTables with their cache, the merging of runs in steps, the manifest
//! that says which runs count, the MemTable.

mod begun;
pub mod block;
pub mod cache;
pub mod change;
pub mod entry;
mod error;
pub mod levels;
pub mod manifest;
pub mod memtable;
pub mod merge;
pub mod record;
mod relief;
pub mod sstable;
mod tables;
pub mod tree;
pub mod trees;
mod work;

pub use error::LsmError;
