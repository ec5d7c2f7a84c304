//! The databases of ours that this process has open, by their names: how their journals are known.

use std::sync::{Mutex, MutexGuard, PoisonError};

static OPEN: Mutex<Vec<(Vec<u8>, usize)>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<(Vec<u8>, usize)>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A database is open from now on.
pub(crate) fn add(name: &[u8]) {
    let mut open = lock();
    match open.iter_mut().find(|(known, _)| known == name) {
        Some((_, times)) => *times += 1,
        None => open.push((name.to_vec(), 1)),
    }
}

/// One connection less has it open.
pub(crate) fn remove(name: &[u8]) {
    let mut open = lock();
    if let Some(place) = open.iter().position(|(known, _)| known == name) {
        open[place].1 -= 1;
        if open[place].1 == 0 {
            open.swap_remove(place);
        }
    }
}

/// Returns whether `name` is that of an open database and this ending.
pub(crate) fn belongs_to_one(name: &[u8], ending: &str) -> bool {
    name.strip_suffix(ending.as_bytes())
        .is_some_and(|database| lock().iter().any(|(known, _)| known == database))
}
