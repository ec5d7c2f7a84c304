//! Memories and files for tests and for the laboratory: they record, crash, count or take the time.
//!
//! Structures and engines run on them as they are, through the seams [`pm::Memory`] and [`pm::Files`].
//!
//! | memory | what it is |
//! |---|---|
//! | [`Recording`] | private pages that remember every store, flush and fence, for crash tests |
//! | [`Emulated`] | another memory under a model of a cache, which counts what reaches the medium |
//! | [`Arena`] | private pages that stand for a pool |
//! | [`Traced`] | a native memory whose flushes a tracer of memory accesses can see |
//! | [`Timed`] | another memory, with the time of the phases of operations |
//!
//! | files | what they are |
//! |---|---|
//! | [`RecordingFiles`] | files in memory that remember every write and sync, for crash tests |
//! | [`MemoryFiles`] | files in a memory, such as an emulated one |
//!
//! [`Recorded`], [`Emulation`] and [`Tracing`] are environments of these. [`Replay`], [`DiskReplay`] and
//! [`CombinedReplay`] build from a record what a power cut can leave.

#![forbid(unsafe_code)]

mod combined;
mod crash;
mod delegate;
mod emulated;
mod environment;
mod explore;
mod files;
mod hook;
mod image;
mod kill;
mod picks;
mod recording;
mod split_mix;
mod timed;
mod weak;

pub use combined::{CombinedImage, CombinedPoint, CombinedReplay, CombinedTrace};
pub use crash::{CrashPoint, LineChoice, Replay};
pub use emulated::{
    Arena, CacheModel, Emulated, EmulatedView, Emulation, FRAME_BYTES, LineCounts, MemoryFile,
    MemoryFiles, Meter, MeterOptions, StepTotals, Touched, Traced, TracedRegion, Tracing, Wear,
};
pub use environment::Recorded;
pub use explore::{Explored, Instruction};
pub use files::{
    DiskEvent, DiskPoint, DiskRecord, DiskReplay, DiskTrace, RecordedFile, RecordingFiles,
};
pub use kill::Killed;
pub use picks::{CHOICES, CrashStates};
pub use recording::{Event, Recorded as RecordedEvent, Recording, Trace, record_as};
pub use timed::{PhaseTime, Timed};
