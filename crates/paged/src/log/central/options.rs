//! The options of a central log.

use std::time::Duration;

use super::MOST_GROUP_BYTES;
use super::layout::SECTOR;

/// The options with which a central log is made and used.
#[derive(Clone, Copy, Debug)]
pub struct CentralOptions {
    /// Number of partitions (P2 6.1: 8). Counts when the log is created.
    pub partitions: u32,
    /// Bytes of a partition (P2 6.1: 3 GB in all). Counts when the log is created.
    pub partition_bytes: u64,
    /// Bytes of the buffer (P2 6.1: 80 MB).
    pub buffer_bytes: usize,
    /// The most bytes that are written before they are synced.
    pub group_bytes: usize,
    /// Bytes of the largest record.
    pub record_bytes: usize,
    /// Bytes in which the space of files is reserved ahead, at most.
    pub reserve_bytes: u64,
    /// Bytes of log after which a checkpoint is due.
    pub checkpoint_bytes: u64,
    /// The longest time that the thread that writes a group waits for others to join it: for as
    /// many as waited when the last group was done, and no longer than half of a sync. Zero: it
    /// never waits.
    pub group_wait: Duration,
}

impl Default for CentralOptions {
    fn default() -> Self {
        Self {
            partitions: 8,
            partition_bytes: 384 << 20,
            buffer_bytes: 80 << 20,
            group_bytes: 4 << 20,
            record_bytes: 64 << 10,
            reserve_bytes: 16 << 20,
            checkpoint_bytes: 16 << 20,
            group_wait: Duration::from_millis(5),
        }
    }
}

impl CentralOptions {
    pub(super) fn check(&self) {
        assert!(self.partitions >= 2, "a log has at least two partitions");
        assert!(self.partition_bytes < 1 << 32, "an offset has 32 bits");
        assert!(self.partition_bytes.is_multiple_of(8), "records begin at multiples of eight");
        let largest = self.record_bytes as u64;
        assert!(
            largest >= 1024 && largest.is_multiple_of(8) && self.partition_bytes >= 4 * largest,
            "a partition has room for four records of the largest size"
        );
        assert!(
            (SECTOR..=MOST_GROUP_BYTES).contains(&self.group_bytes) && self.reserve_bytes > 0,
            "a group has at least a sector, at most 4 MiB, and space is reserved in steps"
        );
        assert!(
            self.buffer_bytes >= 2 * self.record_bytes + 1024,
            "the buffer has room for a record while another is written"
        );
    }
}
