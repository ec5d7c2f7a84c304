//! Snapshots: a version of the data that stays as it is.

use std::sync::Arc;

use engines::Reader;
use engines::below::Catalog;

/// A partition as it was when the snapshot was taken: see [`crate::Database::snapshot`].
///
/// It can be sent to another thread, and read while transactions go on. It outlives the database;
/// the pool stays locked for as long as a snapshot of it lives. What it sees takes space until it
/// is dropped.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) reader: Box<dyn Reader>,
    pub(crate) catalog: Arc<Catalog>,
}
