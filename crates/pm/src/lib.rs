//! The layer that makes bytes durable.
//!
//! Everything above this crate reads and writes through two seams, [`Memory`] and [`Files`], and
//! never names an instruction set, a flush, a fence or `std::fs`. The implementation of a seam is a
//! parameter:
//!
//! | memory | what it is |
//! |---|---|
//! | [`Dram`] | anonymous pages; flush and fence fold away |
//! | [`Pool`] | a mapped pool file with a durability [`Domain`] |
//! | [`Plain`] | a mapped file of another format, with locks on its bytes |
//!
//! The files that ship are [`HostFiles`], a directory of the host, held to the same durability domain
//! as the pool. [`Environment`] names one choice of each; [`Native`] is the one that ships. Memories
//! and files that record, crash, count and take the time are in the crate `sim`.

mod bulk;
mod bytes;
mod child;
mod counters;
mod delegate;
mod domain;
mod dram;
mod environment;
mod epoch;
mod error;
mod escaped;
mod file_access;
mod files;
mod flush;
mod folder;
mod forks;
mod frame;
mod header;
mod holder;
mod last_transactions;
mod limits;
mod line_set;
mod mapping;
mod marker_file;
mod media;
mod memory;
mod names;
mod offset;
mod pairing;
mod place;
mod plain;
mod poison;
mod pool;
mod random;
mod receipt;
mod registry;
mod scratch_file;
mod space;
mod sync;
mod unfinished;
mod watched;

pub use bytes::{Arrays, Bytes};
pub use child::in_child;
pub use counters::Counters;
pub use domain::{Domain, ParseDomainError};
pub use dram::Dram;
pub use environment::{Environment, Native};
pub use epoch::{Epoch, FilesOf};
pub use error::{Bad, GrowError, PoolError};
pub use escaped::{Escaped, is_invisible, visible_json};
pub use file_access::FileAccess;
pub use files::{
    AroundFile, AroundPath, File, Files, HostFile, HostFiles, NewFile, Source, check_name,
    failed_sync,
};
pub use flush::FlushInstruction;
pub use folder::{Folder, FolderTime, is_gone};
pub use forks::hold_over_forks;
pub use frame::{FrameArena, FrameBytes, Peek};
pub use header::{
    FORMAT_VERSION, HEADER_BYTES, Header, HeaderDamage, POOL_DATA_START, read_header,
};
pub use holder::{has_open, lock_holders};
pub use last_transactions::{LastTransaction, LastTransactions};
pub use limits::{addresses_left, page_bytes, share_of_addresses};
pub use line_set::LineSet;
pub use marker_file::{FileEnds, MarkerFile};
pub use media::{Medium, boot_id, free_bytes, medium_of};
pub use memory::{Component, Memory, Pod, Site, Step, View, checked_range};
pub use names::IDENTITY;
pub use offset::{LINE_BYTES, Line, Off, Range};
pub use pairing::{Pairing, stamp_of};
pub use place::{Named, Place, Whereabouts};
pub use plain::{Lock, Plain, PlainOptions, Tick, is_locked, monotonic_us};
pub use pool::{Access, NewPool, Pool, PoolInfo, PoolOptions, grown};
pub use random::random_uuid;
pub use receipt::{Durable, Flushed, Receipts, fence_for};
pub use scratch_file::ScratchFile;
pub use unfinished::{Left, NothingMore, Unfinished, remove_unfinished};
