//! Buffers that the transactions of a terminal share.

use perdura::Row;

/// Buffers of transactions, used again by the next one.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    pub(super) row: Row,
    pub(super) other: Row,
    pub(super) numbers: Vec<u64>,
    pub(super) text: String,
}
