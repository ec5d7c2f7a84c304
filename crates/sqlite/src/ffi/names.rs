//! The databases of ours that this process has open, by their names: how their journals are known.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Addresses in the memory of SQLite's where a connection has a main database of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Its open file.
    pub(crate) file: usize,
    /// Its name.
    pub(crate) name: usize,
}

/// Each name, and the connections that have the database open.
static OPEN: Mutex<Vec<(Vec<u8>, Vec<Place>)>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<(Vec<u8>, Vec<Place>)>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A database is open from now on.
pub(crate) fn add(name: &[u8], place: Place) {
    let mut open = lock();
    match open.iter_mut().find(|(known, _)| known == name) {
        Some((_, places)) => places.push(place),
        None => open.push((name.to_vec(), vec![place])),
    }
}

/// The connection at a place has closed it.
pub(crate) fn remove(name: &[u8], place: Place) {
    let mut open = lock();
    if let Some(at) = open.iter().position(|(known, _)| known == name) {
        let places = &mut open[at].1;
        if let Some(found) = places.iter().position(|known| *known == place) {
            places.swap_remove(found);
        }
        if places.is_empty() {
            open.swap_remove(at);
        }
    }
}

/// Returns whether SQLite itself opens a journal in a file at `journal`, for a connection that has a database of ours
/// and keeps its name at `database`. SQLite has the files of a connection and behind them its names in one piece of
/// memory; a VFS above has its own files, or names.
pub(crate) fn has(database: usize, journal: usize) -> bool {
    let found = |place: &Place| place.name == database && (place.file..database).contains(&journal);
    lock().iter().any(|(_, places)| places.iter().any(found))
}

/// Returns whether `name` is that of an open database and this ending.
pub(crate) fn belongs_to_one(name: &[u8], ending: &str) -> bool {
    name.strip_suffix(ending.as_bytes())
        .is_some_and(|database| lock().iter().any(|(known, _)| known == database))
}
