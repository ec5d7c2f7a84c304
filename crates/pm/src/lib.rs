//! The layer that makes bytes durable.
//!
//! Everything above this crate reads and writes through two seams, [`Memory`] and [`Files`], and
//! never names an instruction set, a flush, a fence or `std::fs`. What is behind a seam is a
//! parameter:
//!
//! | memory | what it is |
//! |---|---|
//! | [`Dram`] | anonymous pages; flush and fence fold away |
//! | [`Pool`] | a mapped pool file with a durability [`Domain`] |
//! | [`Plain`] | a mapped file of another format, with locks on its bytes |
//! | [`Recording`] | private pages that remember every store, flush and fence, for crash tests |
//! | [`Emulated`] | another memory behind a model of a cache, which counts what reaches the medium |
//! | [`Timed`] | another memory, with the time of the phases of operations |
//!
//! | files | what they are |
//! |---|---|
//! | [`HostFiles`] | a directory of the host, held to the same durability domain as the pool |
//! | [`RecordingFiles`] | files in memory that remember every write and sync, for crash tests |
//! | [`MemoryFiles`] | files in a memory, such as an emulated one |
//!
//! [`Environment`] names one choice of each; [`Native`] is the one that ships.

mod beside;
mod both;
mod bulk;
mod bytes;
mod counters;
mod crash;
mod delegate;
mod domain;
mod dram;
mod emulated;
mod ends;
mod environment;
mod epoch;
mod error;
mod explore;
mod files;
mod flush;
mod folder;
mod forks;
mod header;
mod holder;
mod hook;
mod image;
mod kill;
mod limits;
mod line_set;
mod mapping;
mod media;
mod memory;
mod offset;
mod pairing;
mod picks;
mod place;
mod plain;
mod poison;
mod pool;
mod receipt;
mod recording;
mod split_mix;
mod sync;
mod timed;
mod unfinished;
mod watched;
mod weak;

pub use beside::{Beside, FileEnds};
pub use both::{BothImage, BothPoint, BothReplay, BothTrace};
pub use bytes::{Arrays, Bytes};
pub use counters::Counters;
pub use crash::{CHOICES, CrashPoint, CrashStates, LineChoice, Replay};
pub use domain::{Domain, ParseDomainError};
pub use dram::Dram;
pub use emulated::{
    Arena, CacheModel, Emulated, EmulatedView, Emulation, FRAME_BYTES, LineCounts, MemoryFile,
    MemoryFiles, Meter, MeterOptions, StepTotals, Touched, Traced, TracedRegion, Tracing, Wear,
    in_child,
};
pub use ends::{End, Ends};
pub use environment::{Environment, Native, Recorded};
pub use epoch::{Epoch, FilesOf, IDENTITY};
pub use error::{Bad, GrowError, PoolError};
pub use explore::{Explored, Instruction};
pub use files::{
    AroundFile, AroundPath, DiskEvent, DiskPoint, DiskRecord, DiskReplay, DiskTrace, File, Files,
    HostFile, HostFiles, NewFile, RecordedFile, RecordingFiles, Source,
};
pub use flush::FlushInstruction;
pub use folder::{Folder, FolderTime, is_gone};
pub use forks::hold_over_forks;
pub use header::{
    FORMAT_VERSION, HEADER_BYTES, Header, HeaderDamage, POOL_DATA_START, read_header,
};
pub use holder::{has_open, lock_holders};
pub use kill::Killed;
pub use limits::{addresses_left, share_of_addresses};
pub use line_set::LineSet;
pub use media::{Medium, boot_id, free_bytes, medium_of};
pub use memory::{Component, Memory, Pod, Step, View, checked_range};
pub use offset::{LINE_BYTES, Line, Off, Range};
pub use pairing::{Pairing, stamp_of};
pub use place::{Named, Place, Whereabouts};
pub use plain::{Lock, Plain, PlainOptions};
pub use pool::{Access, Pool, PoolInfo, PoolOptions, random_uuid};
pub use receipt::{Durable, Flushed, Receipts, fence_for};
pub use recording::{Event, Recorded as RecordedEvent, Recording, Site, Trace, record_as};
pub use timed::{PhaseTime, Timed};
pub use unfinished::{FOREIGN, Left, NothingMore, Unfinished, remove_unfinished};
