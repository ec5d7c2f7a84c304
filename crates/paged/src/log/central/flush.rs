//! Group commit: one of the waiting threads writes and syncs the group, the others wait for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::MutexGuard;
use pm::{File, Files};

use super::group::Group;
use super::{Central, State, space};
use crate::Result;
use crate::ids::Lsn;
use crate::threads::{Threads, Waiter};

/// A time that is not worth the waiting: a wake-up takes about as long.
const LEAST_GROUP_WAIT: Duration = Duration::from_micros(50);

impl<F: Files, T: Threads> Central<F, T> {
    /// Writes and syncs the filling group. No other thread is writing one.
    pub(super) fn write_group<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<F::File>>,
    ) -> Result<MutexGuard<'a, State<F::File>>> {
        let mut group = state.spare.take().unwrap_or_default();
        let emptied = Arc::get_mut(&mut group).expect("no other thread has a spare group");
        std::mem::swap(emptied, &mut state.filling);
        let longer = state.space.take_unsynced(group.runs.first().map(|run| run.file));
        state.writing = Some(Arc::clone(&group));
        drop(state);
        self.threads.point();
        let began = self.threads.now();
        // They have space for undoing what is in the group.
        let synced = space::sync_all(&longer).map_err(|error| ("syncing space of the log", error));
        let written = synced.and_then(|()| self.write_out(&group));
        let took = self.threads.now().saturating_sub(began);
        let mut state = self.lock();
        state.writing = None;
        state.sync_time = (3 * state.sync_time + took) / 4;
        state.company = state.waiting.len() + 1;
        if let Err((doing, source)) = written {
            return Err(self.stop(&mut state, doing, source));
        }
        self.durable.store(group.last.0, Ordering::Release);
        self.groups.fetch_add(1, Ordering::Relaxed);
        // One that has become large goes: two of them hold the options' bytes together, and no
        // third.
        if let Some(written) = Arc::get_mut(&mut group)
            && written.bytes.capacity() <= 2 * self.options.group_bytes
        {
            written.clear();
            state.spare = Some(group);
        }
        // The threads that are served, and one that writes the next group.
        let mut next = true;
        let durable = Lsn(self.durable.load(Ordering::Acquire));
        state.waiting.retain(|(to, waiter)| {
            let served = *to <= durable;
            if served || std::mem::take(&mut next) {
                self.threads.wake(waiter);
            }
            !served
        });
        Ok(state)
    }

    fn write_out(&self, group: &Group) -> std::result::Result<(), (&'static str, io::Error)> {
        for (run, bytes) in group.parts() {
            let file = &self.files[run.file];
            let mut offset = run.offset;
            for piece in bytes.chunks(self.options.group_bytes) {
                file.write_at(offset, piece).map_err(|error| ("writing the log", error))?;
                file.sync().map_err(|error| ("syncing the log", error))?;
                offset += piece.len() as u64;
            }
        }
        Ok(())
    }

    /// Waits for the threads of the last groups to join the group: their commits have just
    /// returned, and they are about to commit again. Otherwise half of them would always be in the
    /// group after.
    pub(super) fn gather<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<F::File>>,
    ) -> MutexGuard<'a, State<F::File>> {
        let wait = self.options.group_wait.min(state.sync_time / 2);
        if state.waiting.len() + 1 >= state.company || wait < LEAST_GROUP_WAIT {
            return state;
        }
        let waiter = Waiter::of_this_thread();
        let until = self.threads.now() + wait;
        state.gatherer = Some(Arc::clone(&waiter));
        while state.waiting.len() + 1 < state.company
            && state.stopped.is_none()
            && self.threads.now() < until
        {
            drop(state);
            self.threads.park(&waiter, Some(until));
            state = self.lock();
        }
        state.gatherer = None;
        // A thread that did not come is not waited for again.
        state.company = state.company.min(state.waiting.len() + 1);
        state
    }

    /// Waits until another thread has written its group; `at_once` if no other thread should join
    /// it.
    pub(super) fn await_group<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<F::File>>,
        to: Lsn,
        at_once: bool,
    ) -> MutexGuard<'a, State<F::File>> {
        let waiter = Waiter::of_this_thread();
        state.waiting.push((to, Arc::clone(&waiter)));
        if at_once {
            state.company = 0;
        }
        if let Some(gatherer) = &state.gatherer
            && state.waiting.len() + 1 >= state.company
        {
            self.threads.wake(gatherer);
        }
        drop(state);
        self.threads.park(&waiter, None);
        self.lock()
    }
}
