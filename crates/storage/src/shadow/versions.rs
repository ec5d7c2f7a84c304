//! The versions and their readers: the current directory, as snapshots find it, and the snapshots
//! that live.
//!
//! The lock is held only while a directory is copied, by the writer when a transaction commits and
//! by a reader when it takes a snapshot or lets go of one; never while anything is read or synced.
//! A read that takes a snapshot for itself holds it twice, and allocates nothing: directories that
//! were given back are used again.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::directory::Directory;

#[derive(Debug)]
struct State {
    current: Directory,
    /// The transactions whose state a snapshot sees, one entry a snapshot.
    pins: Vec<u64>,
    /// Snapshots have gone since the writer asked last.
    gone: bool,
    /// Directories that have no reader, for the next readers.
    spare: Vec<Directory>,
}

/// Directories that are kept for the next readers, at most.
const SPARE: usize = 32;

/// The current directory and its snapshots, shared by the writer and all readers.
#[derive(Debug)]
pub struct Versions {
    state: Mutex<State>,
    /// The reason why the writer has stopped.
    stopped: OnceLock<String>,
}

impl Versions {
    /// Versions that begin with `current`.
    pub fn new(current: Directory) -> Arc<Self> {
        let state = Mutex::new(State { current, pins: Vec::new(), gone: false, spare: Vec::new() });
        Arc::new(Self { state, stopped: OnceLock::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes `committed` the current directory. Puts the transactions that snapshots see into
    /// `pins`; a snapshot taken later sees this directory or a later one. Returns whether snapshots
    /// have gone since the last call.
    pub fn publish(&self, committed: &Directory, pins: &mut Vec<u64>) -> bool {
        let mut state = self.state();
        state.current.copy_from(committed);
        pins.clear();
        pins.extend_from_slice(&state.pins);
        std::mem::take(&mut state.gone)
    }

    /// Acts as [`Self::publish`], with the current directory as it is.
    pub fn look(&self, pins: &mut Vec<u64>) -> bool {
        let mut state = self.state();
        pins.clear();
        pins.extend_from_slice(&state.pins);
        std::mem::take(&mut state.gone)
    }

    /// The writer has stopped: what snapshots show may never become durable.
    pub fn stop(&self, why: &str) {
        // The first reason stays.
        let _ = self.stopped.set(why.into());
    }

    /// Returns why the writer has stopped, if it has.
    #[inline]
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.get().map(String::as_str)
    }

    /// Returns the current directory, for a reader that reads below it until it is given to
    /// [`Self::take_back`].
    pub fn lend(&self) -> Directory {
        let mut state = self.state();
        let directory = match state.spare.pop() {
            Some(mut spare) => {
                spare.copy_from(&state.current);
                spare
            }
            None => state.current.clone(),
        };
        state.pins.push(directory.transaction);
        directory
    }

    /// Takes back a directory that [`Self::lend`] has given out: it has no reader any more.
    pub fn take_back(&self, directory: Directory) {
        let mut state = self.state();
        let number = directory.transaction;
        if let Some(at) = state.pins.iter().position(|pin| *pin == number) {
            state.pins.swap_remove(at);
        }
        state.gone = true;
        if state.spare.len() < SPARE {
            state.spare.push(directory);
        }
    }

    /// Takes a snapshot of the current directory.
    pub fn pin(self: &Arc<Self>) -> Pin {
        Pin { directory: self.lend(), versions: self.clone() }
    }
}

/// A version that is kept for as long as this lives.
#[derive(Debug)]
pub struct Pin {
    versions: Arc<Versions>,
    directory: Directory,
}

impl Pin {
    /// All versions.
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// The version's directory.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let empty = Directory::new(0, 0, 0);
        self.versions.take_back(std::mem::replace(&mut self.directory, empty));
    }
}
