//! Snapshots: a version of the data that stays as it is.

use std::sync::Arc;

use engines::Reader;
use engines::below::Catalog;

/// A partition as it was when the snapshot was taken: see [`crate::Database::snapshot`].
///
/// It can be sent to another thread, and read while transactions go on. It outlives the database;
/// the pool stays locked for as long as a snapshot of it lives. What it sees takes space until it
/// is dropped.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::NvmCow));
/// let before: Snapshot = db.snapshot()?;
/// db.delete(&account, &[Value::from(1)])?;
/// assert_eq!(before.rows(&account, Scan::all()).count(), 2);
/// assert_eq!(db.snapshot()?.rows(&account, Scan::all()).count(), 1);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) reader: Box<dyn Reader>,
    pub(crate) catalog: Arc<Catalog>,
}
