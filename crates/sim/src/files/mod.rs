//! Files that record what is done to them, and what a power cut can leave of them.

mod crash;
mod recording;

pub use crash::{DiskPoint, DiskReplay};
pub use recording::{DiskEvent, DiskRecord, DiskTrace, RecordedFile, RecordingFiles};
