//! Base backups: pages of a partition as its engine copies them, and the making of a new partition
//! from them and an archive of the log.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The part of a base backup that one partition has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BasePart {
    /// Bytes of a page.
    pub page_bytes: u32,
    /// A number that the pages and the archive of this partition have.
    pub stamp: u64,
    /// The oldest LSN that it needs of the log.
    pub keep: u64,
    /// The LSN from which recovery begins.
    pub start: u64,
    /// The LSN before which it is of no use.
    pub end: u64,
    /// The number of its pages.
    pub pages: u64,
    /// The pages of its file, used or not.
    pub count: u64,
    /// The number of the archive's last segment when it was copied, and a number that no other
    /// segment has.
    pub segment: (u64, u64),
    /// The LSN at which that ends.
    pub archived: u64,
}

/// A visitor of pages, with their numbers.
pub type VisitPage<'a> = &'a mut dyn FnMut(u64, &[u8]) -> io::Result<()>;

/// The moment in the log to which a partition is restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogUntil {
    /// The end of the archive.
    End,
    /// All that was acknowledged by a time of day, in microseconds since 1970.
    Micros(u64),
    /// The commit of this number, and all before it.
    Commit(u64),
}

/// A base backup that a database is made of.
pub trait BaseSource: Debug + Send + Sync {
    /// The part of a partition.
    fn part(&self, partition: u32) -> BasePart;

    /// Returns the LSN after the last record that is restored.
    fn until(&self, partition: u32) -> u64;

    /// The directory with the archive of the log.
    fn archive(&self) -> &Path;

    /// The next page of a partition, with its number. Partitions are read one after the other.
    ///
    /// # Errors
    /// The backup cannot be read, or is damaged.
    fn next_page(&self, partition: u32) -> io::Result<Option<(u64, Vec<u8>)>>;
}

/// The base backup that a partition is made of.
#[derive(Clone, Debug)]
pub struct Restoring(pub Arc<dyn BaseSource>);

impl PartialEq for Restoring {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Restoring {}
