//! Who looks at which version: the current directory, as snapshots find it, and the snapshots that
//! live.
//!
//! The lock is held only while a directory is copied, by the writer when a transaction commits and
//! by a reader when it takes a snapshot or lets go of one; never while anything is read or synced.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::directory::Directory;

#[derive(Debug)]
struct State {
    current: Directory,
    /// The transactions whose state a snapshot sees, one entry a snapshot.
    pins: Vec<u64>,
    /// Snapshots have gone since the writer asked last.
    gone: bool,
}

/// The current directory and its snapshots, shared by the writer and all readers.
#[derive(Debug)]
pub struct Versions(Mutex<State>);

impl Versions {
    /// Versions that begin with `current`.
    pub fn new(current: Directory) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { current, pins: Vec::new(), gone: false })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes `committed` the current directory. Puts the transactions that snapshots see into
    /// `pins`; whoever takes one later sees this directory or a later one. Returns whether
    /// snapshots have gone since the last call.
    pub fn publish(&self, committed: &Directory, pins: &mut Vec<u64>) -> bool {
        let mut state = self.state();
        state.current.copy_from(committed);
        pins.clear();
        pins.extend_from_slice(&state.pins);
        std::mem::take(&mut state.gone)
    }

    /// Takes a snapshot of the current directory.
    pub fn pin(self: &Arc<Self>) -> Pin {
        let mut state = self.state();
        let directory = state.current.clone();
        state.pins.push(directory.transaction);
        drop(state);
        Pin { versions: self.clone(), directory }
    }
}

/// A version that is kept for as long as this lives.
#[derive(Debug)]
pub struct Pin {
    versions: Arc<Versions>,
    directory: Directory,
}

impl Pin {
    /// The version's directory.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut state = self.versions.state();
        let number = self.directory.transaction;
        if let Some(at) = state.pins.iter().position(|pin| *pin == number) {
            state.pins.swap_remove(at);
        }
        state.gone = true;
    }
}
