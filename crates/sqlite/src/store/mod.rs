//! The store under a database. Safe, and generic over [`pm::Memory`].
//!
//! [`connection`] has the protocol, [`region`] what it runs on, [`page1`] the marker that keeps stock SQLite
//! out. A commit stores less than the bytes that differ, above all with random keys, by these parts. Each is without
//! a memory, and has its own tests:
//!
//! | module | its question |
//! |---|---|
//! | [`parse`] | is this a page of a b-tree, and where are its cells? |
//! | [`matching`] | which cells has a page kept, and in which frame do most of them lie? |
//! | [`place`] | where do the cells go, so that most bytes stay, or need no log? |
//! | [`permutation`] | which frame is a page in, and how do all of them go home? |
//! | [`record`], [`replay`] | what does the log have of such a commit, and what does recovery make of it? |
//! | [`carry`] | which lines need not be flushed yet? |
//!
//! `prepared` has commits that are parts of a transaction over several databases, `lend` pages that SQLite reads where
//! they are, `look` what others have committed, [`locks`] who reads and who writes, in shared words, whoever dies.

mod blocks;
mod bytes;
mod cache;
pub mod connection;
pub mod deferred_flush;
pub mod error;
mod fetch;
mod frame_log;
mod frames;
mod in_place;
pub(crate) mod layout;
pub mod locks;
mod log;
pub mod matching;
pub mod mode;
mod nvwal;
mod ordered;
pub mod page1;
mod pages;
pub mod parse;
pub mod permutation;
pub mod place;
mod plan;
mod prepared;
pub mod record;
mod recovery;
mod refresh;
pub mod region;
pub mod replay;
mod restore_layout;
mod sealed;
mod side;
mod slot;
pub mod span;
mod stage;
mod staging;
pub mod stats;
pub mod verdict;
