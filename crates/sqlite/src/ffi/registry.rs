//! The databases of this VFS that the process has open, by name. By them journals are recognized.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use super::absent::{AbsentJournals, ENDINGS, Known, Since};
use crate::database::{JournalEpoch, LogOpener, SuperJournalNotice};

/// Addresses in SQLite's memory of a connection's main database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Addresses {
    /// The end of the memory for its open file.
    pub(crate) file_end: usize,
    /// Its name.
    pub(crate) name: usize,
    /// Its open file.
    pub(crate) file: usize,
}

/// A connection that has a main database of this VFS open.
#[derive(Debug)]
struct Connection {
    addresses: Addresses,
    /// The address of the name by which it opened an in-memory journal, until it removes that.
    journal: Option<usize>,
    /// Where the journal publishes the name of its super-journal.
    notice: Option<Arc<dyn SuperJournalNotice>>,
    /// Opens its write-ahead log.
    log: Option<Arc<dyn LogOpener>>,
}

/// An open database.
#[derive(Debug)]
struct Database {
    name: Vec<u8>,
    /// Its connections.
    all: Vec<Connection>,
    absent: AbsentJournals,
}

impl Database {
    /// The epoch of its journals, if all connections have the same side file, and one of them knows that the marker keeps
    /// stock SQLite out.
    fn epoch(&self) -> Option<JournalEpoch> {
        let notices = || self.all.iter().map(|one| one.notice.as_deref());
        let first = notices().next()??.epoch()?;
        let mut is_marked = false;
        for notice in notices() {
            let notice = notice.filter(|notice| notice.epoch() == Some(first))?;
            is_marked |= notice.has_seen_marker(first.cleared);
        }
        is_marked.then_some(first)
    }
}

/// The open databases.
static OPEN: Mutex<Vec<Database>> = Mutex::new(Vec::new());
/// Addresses of the names by which the underlying VFS has opened databases. One stays until this VFS opens a database by
/// a name at that address.
static DELEGATED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn delegated() -> MutexGuard<'static, BTreeSet<usize>> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| pm::hold_over_forks(&DELEGATED));
    DELEGATED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes that the underlying VFS opens a database by the name at this address.
pub(crate) fn add_delegated(name: usize) {
    delegated().insert(name);
}

fn lock() -> MutexGuard<'static, Vec<Database>> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| pm::hold_over_forks(&OPEN));
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds an open database.
pub(crate) fn add(
    name: &[u8],
    addresses: Addresses,
    notice: Option<Arc<dyn SuperJournalNotice>>,
    log: Option<Arc<dyn LogOpener>>,
) {
    delegated().remove(&addresses.name);
    let mut open = lock();
    let new = Connection { addresses, journal: None, notice, log };
    match open.iter_mut().find(|known| known.name == name) {
        Some(known) => known.all.push(new),
        None => {
            let absent = AbsentJournals::of(name);
            open.push(Database { name: name.to_vec(), all: vec![new], absent });
        }
    }
}

/// Removes a closed one.
pub(crate) fn remove(name: &[u8], addresses: Addresses) {
    let mut open = lock();
    if let Some(at) = open.iter().position(|known| known.name == name) {
        let all = &mut open[at].all;
        if let Some(found) = all.iter().position(|known| known.addresses == addresses) {
            all.swap_remove(found);
        }
        if all.is_empty() {
            open.swap_remove(at);
        }
    }
}

/// The database of a log.
pub(crate) struct LogOwner {
    /// Opens the log; `None` if the database has no WAL mode.
    pub(crate) opener: Option<Arc<dyn LogOpener>>,
    /// The address of the database's open file.
    pub(crate) file: usize,
}

/// Returns the database of a log: that of the connection whose database name is at `database`. `None` if there is no
/// such connection.
pub(crate) fn log_owner(database: usize) -> Option<LogOwner> {
    let open = lock();
    let mut all = open.iter().flat_map(|known| &known.all);
    let one = all.find(|one| one.addresses.name == database)?;
    Some(LogOwner { opener: one.log.clone(), file: one.addresses.file })
}

/// Returns whether a log, whose database name is at `database`, belongs to an open database by its own name only: a VFS
/// above has made that name.
pub(crate) fn is_foreign_log(log: &[u8], database: usize) -> bool {
    belongs_to_open(log, "-wal") && !delegated().contains(&database)
}

/// Returns whether SQLite itself opens a journal in the file at `journal`, for a connection whose database name is
/// at `database`. A VFS above has its own files and names, and its own reasons to write and to sync: its journals
/// are files.
pub(crate) fn is_own_journal(database: usize, journal: usize) -> bool {
    lock().iter().flat_map(|known| &known.all).any(|one| is_of(one.addresses, database, journal))
}

/// SQLite allocates these in one block, in this order: the database's file, a statement's journal, this journal, a
/// pointer, four bytes, the database's name. Both journals have the same size. If the addresses do not match, the
/// journal is a file.
fn is_of(addresses: Addresses, database: usize, journal: usize) -> bool {
    let room = journal.checked_sub(addresses.file_end);
    addresses.name == database
        && room.is_some()
        && room == database.checked_sub(journal + size_of::<usize>() + 4)
}

/// Notes that the connection of [`is_own_journal`] has opened an in-memory journal by the name at `name`. Returns
/// where to publish its super-journal.
pub(crate) fn add_journal(
    database: usize,
    journal: usize,
    name: usize,
) -> Option<Arc<dyn SuperJournalNotice>> {
    let mut open = lock();
    let mut all = open.iter_mut().flat_map(|known| &mut known.all);
    let one = all.find(|one| is_of(one.addresses, database, journal))?;
    one.journal = Some(name);
    one.notice.clone()
}

/// Forgets the in-memory journal by the name at `name`; returns whether there was one.
pub(crate) fn remove_journal(name: usize) -> bool {
    let mut open = lock();
    let found =
        open.iter_mut().flat_map(|known| &mut known.all).find(|one| one.journal == Some(name));
    found.is_some_and(|one| one.journal.take().is_some())
}

/// Returns whether `name` is an open database's name with this suffix.
pub(crate) fn belongs_to_open(name: &[u8], ending: &str) -> bool {
    name.strip_suffix(ending.as_bytes())
        .is_some_and(|database| lock().iter().any(|known| known.name == database))
}

/// Returns what is known about a journal or write-ahead log of an open database.
pub(crate) fn known(name: &[u8]) -> Known {
    of_one(&mut lock(), name).map_or(Known::Ask(Since::default()), |(open, ending)| {
        let epoch = open.epoch();
        open.absent.known(ending, epoch)
    })
}

/// Notes that a file with a name may be created, before and after that: a journal or write-ahead log of an open database
/// then does not count as absent any more, in any process.
pub(crate) fn announce_file(name: &[u8], is_created: bool) {
    // A connection may still have a side file that has lost its name.
    if let Some((open, _)) = of_one(&mut lock(), name) {
        let notices = open.all.iter().filter_map(|one| one.notice.as_ref());
        notices.for_each(|notice| notice.announce_file(is_created));
    }
}

/// Notes that a file was absent at the moment that [`known`] returned.
pub(crate) fn note_absent(name: &[u8], looked: Since) {
    if let Some((open, ending)) = of_one(&mut lock(), name) {
        open.absent.note(ending, name, looked);
    }
}

/// The open database that a journal's name belongs to, and the suffix's index in [`ENDINGS`].
fn of_one<'a>(open: &'a mut [Database], name: &[u8]) -> Option<(&'a mut Database, usize)> {
    let ending = ENDINGS.iter().position(|ending| name.ends_with(ending))?;
    let database = &name[..name.len() - ENDINGS[ending].len()];
    open.iter_mut().find(|known| known.name == database).map(|open| (open, ending))
}
