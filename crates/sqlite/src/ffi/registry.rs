//! The databases of ours that this process has open, by their names: how their journals are known.

use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use pm::FolderTime;

use super::absent::{AbsentJournals, ENDINGS, Known};
use crate::database::SuperJournalNotice;

/// Addresses in the memory of SQLite's where a connection has a main database of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Addresses {
    /// The end of the room for its open file.
    pub(crate) file_end: usize,
    /// Its name.
    pub(crate) name: usize,
}

/// A connection that has a main database of ours open.
#[derive(Debug)]
struct Connection {
    addresses: Addresses,
    /// The address of the name by which it has opened a journal in memory, until it removes that.
    journal: Option<usize>,
    /// The thing that is told when that names a super-journal.
    notice: Option<Arc<dyn SuperJournalNotice>>,
}

/// A database that is open.
#[derive(Debug)]
struct Database {
    name: Vec<u8>,
    /// The connections that have it open.
    all: Vec<Connection>,
    absent: AbsentJournals,
}

/// The databases that are open.
static OPEN: Mutex<Vec<Database>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<Database>> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| pm::hold_over_forks(&OPEN));
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A database is open from now on.
pub(crate) fn add(name: &[u8], addresses: Addresses, notice: Option<Arc<dyn SuperJournalNotice>>) {
    let mut open = lock();
    let new = Connection { addresses, journal: None, notice };
    match open.iter_mut().find(|known| known.name == name) {
        Some(known) => known.all.push(new),
        None => {
            let absent = AbsentJournals::of(name);
            open.push(Database { name: name.to_vec(), all: vec![new], absent });
        }
    }
}

/// The connection at a place has closed it.
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

/// Returns whether a connection that has a database of ours open keeps that one's name at `database`.
pub(crate) fn holds_name_at(database: usize) -> bool {
    lock().iter().flat_map(|known| &known.all).any(|one| one.addresses.name == database)
}

/// Returns whether SQLite itself opens a journal in a file at `journal`, for a connection that has a database of ours
/// and keeps its name at `database`. A VFS above has its own files, or names, and its own reasons to write and to sync:
/// its journals are files.
pub(crate) fn is_own_journal(database: usize, journal: usize) -> bool {
    lock().iter().flat_map(|known| &known.all).any(|one| is_of(one.addresses, database, journal))
}

/// SQLite has these one behind the other: the database's file, a statement's journal, this one, a pointer, four bytes,
/// and the database's name. The room for both journals is the same. Where that is not so, a journal is a file.
fn is_of(addresses: Addresses, database: usize, journal: usize) -> bool {
    let room = journal.checked_sub(addresses.file_end);
    addresses.name == database
        && room.is_some()
        && room == database.checked_sub(journal + size_of::<usize>() + 4)
}

/// The connection that [`has`] speaks of has opened a journal in memory, by the name at `name`. Returns the thing that
/// is told when it names a super-journal.
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

/// Returns whether a connection has opened a journal in memory by the name at `name`, and not removed it since: it has
/// removed it now.
pub(crate) fn remove_journal(name: usize) -> bool {
    let mut open = lock();
    let found =
        open.iter_mut().flat_map(|known| &mut known.all).find(|one| one.journal == Some(name));
    found.is_some_and(|one| one.journal.take().is_some())
}

/// Returns whether `name` is that of an open database and this ending.
pub(crate) fn belongs_to_open(name: &[u8], ending: &str) -> bool {
    name.strip_suffix(ending.as_bytes())
        .is_some_and(|database| lock().iter().any(|known| known.name == database))
}

/// Returns what is known of a name: that it is the journal or the write-ahead log of an open database, and not there.
pub(crate) fn known(name: &[u8]) -> Known {
    of_one(&mut lock(), name).map_or(Known::Ask(None), |(open, ending)| open.absent.known(ending))
}

/// A name was not there, behind the look of which [`known`] has told.
pub(crate) fn note_absent(name: &[u8], looked: FolderTime) {
    if let Some((open, ending)) = of_one(&mut lock(), name) {
        open.absent.note(ending, name, looked);
    }
}

/// The open database that a name is beside, and the place of its ending in [`ENDINGS`].
fn of_one<'a>(open: &'a mut [Database], name: &[u8]) -> Option<(&'a mut Database, usize)> {
    let ending = ENDINGS.iter().position(|ending| name.ends_with(ending))?;
    let database = &name[..name.len() - ENDINGS[ending].len()];
    open.iter_mut().find(|known| known.name == database).map(|open| (open, ending))
}
