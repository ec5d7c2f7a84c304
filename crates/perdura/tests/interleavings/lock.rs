//! The promise of `parking_lot::RwLock`, over the scheduler's locks.

use std::ops::{Deref, DerefMut};
use std::sync;
use std::time::Duration;

use shuttle::sync::{Condvar, Mutex};
use shuttle::thread::yield_now;

#[derive(Default, Debug)]
struct State {
    readers: u32,
    writer: bool,
    /// Writers that wait, and keep readers out.
    pending: u32,
}

impl State {
    fn may_read(&self, passing: bool) -> bool {
        !self.writer && (passing || self.pending == 0)
    }

    fn may_write(&self) -> bool {
        !self.writer && self.readers == 0
    }
}

#[derive(Debug)]
pub(crate) struct RwLock<T> {
    state: Mutex<State>,
    changed: Condvar,
    /// Never waited for: the state says which threads may have it.
    value: sync::RwLock<T>,
}

/// Times that a timed call looks again.
const LOOKS: u32 = 3;

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self { state, changed, value: sync::RwLock::new(value) }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    fn reading(&self) -> RwLockReadGuard<'_, T> {
        let value = self.value.try_read().expect("the state has no writer");
        RwLockReadGuard { value, leave: Leave { lock: self, writer: false } }
    }

    fn writing(&self) -> RwLockWriteGuard<'_, T> {
        let value = self.value.try_write().expect("the state has no reader and no writer");
        RwLockWriteGuard { value, leave: Leave { lock: self, writer: true } }
    }

    fn enter_reading(&self, passing: bool) -> RwLockReadGuard<'_, T> {
        let state = self.state.lock().unwrap();
        let waits = |state: &mut State| !state.may_read(passing);
        self.changed.wait_while(state, waits).unwrap().readers += 1;
        self.reading()
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.enter_reading(false)
    }

    pub(crate) fn read_recursive(&self) -> RwLockReadGuard<'_, T> {
        self.enter_reading(true)
    }

    pub(crate) fn try_read_recursive_for(&self, _: Duration) -> Option<RwLockReadGuard<'_, T>> {
        (0..LOOKS).find_map(|_| {
            yield_now();
            self.look(true)
        })
    }

    fn look(&self, passing: bool) -> Option<RwLockReadGuard<'_, T>> {
        let mut state = self.state.lock().unwrap();
        if !state.may_read(passing) {
            return None;
        }
        state.readers += 1;
        drop(state);
        Some(self.reading())
    }

    pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.look(false)
    }

    pub(crate) fn try_read_recursive(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.look(true)
    }

    pub(crate) fn try_read_for(&self, _: Duration) -> Option<RwLockReadGuard<'_, T>> {
        (0..LOOKS).find_map(|_| {
            yield_now();
            self.try_read()
        })
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        let mut state = self.state.lock().unwrap();
        state.pending += 1;
        let waits = |state: &mut State| !state.may_write();
        let mut state = self.changed.wait_while(state, waits).unwrap();
        state.pending -= 1;
        state.writer = true;
        drop(state);
        self.writing()
    }

    pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        let mut state = self.state.lock().unwrap();
        if !state.may_write() {
            return None;
        }
        state.writer = true;
        drop(state);
        Some(self.writing())
    }

    pub(crate) fn is_locked_exclusive(&self) -> bool {
        self.state.lock().unwrap().writer
    }

    pub(crate) fn is_locked(&self) -> bool {
        let state = self.state.lock().unwrap();
        state.writer || state.readers > 0
    }

    pub(crate) fn try_write_for(&self, _: Duration) -> Option<RwLockWriteGuard<'_, T>> {
        self.change(|state| state.pending += 1);
        let found = (0..LOOKS).find_map(|_| {
            yield_now();
            self.try_write()
        });
        self.change(|state| state.pending -= 1);
        found
    }
}

#[derive(Debug)]
struct Leave<'a, T> {
    lock: &'a RwLock<T>,
    writer: bool,
}

impl<T> Drop for Leave<'_, T> {
    fn drop(&mut self) {
        match self.writer {
            true => self.lock.change(|state| state.writer = false),
            false => self.lock.change(|state| state.readers -= 1),
        }
    }
}

/// Its fields are dropped in this order: the value is free before others are notified.
#[derive(Debug)]
pub(crate) struct RwLockReadGuard<'a, T> {
    value: sync::RwLockReadGuard<'a, T>,
    leave: Leave<'a, T>,
}

impl<'a, T> RwLockReadGuard<'a, T> {
    pub(crate) fn rwlock(guard: &Self) -> &'a RwLock<T> {
        guard.leave.lock
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

#[derive(Debug)]
pub(crate) struct RwLockWriteGuard<'a, T> {
    value: sync::RwLockWriteGuard<'a, T>,
    leave: Leave<'a, T>,
}

impl<'a, T> RwLockWriteGuard<'a, T> {
    pub(crate) fn rwlock(guard: &Self) -> &'a RwLock<T> {
        guard.leave.lock
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
