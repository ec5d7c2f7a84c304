//! The partitions that this thread holds, so that it never waits for itself.
//!
//! Each thread keeps a list of the partitions that it reads, writes, copies or owns. A thread that
//! takes a partition adds it to the list. The list is searched only before a wait:
//!
//! - Waiting for a partition that this thread holds would never end.
//! - Waiting for another one while this thread holds any may never end either, if another thread
//!   waits the other way round. So that wait has a time limit.
//!
//! One that is leaked ([`std::mem::forget`]) stays in the list.

use std::cell::{Cell, RefCell};

use crate::sync::thread_local;

thread_local! {
    /// One of those that are held; the only one as a rule.
    static FIRST: Cell<Hold> = const { Cell::new(Hold::NONE) };
    /// The others.
    static MORE: RefCell<Vec<Hold>> = const { RefCell::new(Vec::new()) };
}

/// A place in memory, odd if it is held for itself alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hold(usize);

impl Hold {
    const NONE: Self = Self(0);

    /// Holds `what` together with others.
    #[inline]
    pub(crate) fn shared<T>(what: &T) -> Self {
        Self(std::ptr::from_ref(what) as usize & !1)
    }

    /// Holds `what` for itself alone.
    #[inline]
    pub(crate) fn alone<T>(what: &T) -> Self {
        Self(std::ptr::from_ref(what) as usize | 1)
    }
}

/// Notes that this thread holds it, perhaps once more.
#[inline]
pub(crate) fn take(hold: Hold) {
    FIRST.with(|first| {
        if first.get() == Hold::NONE {
            first.set(hold);
        } else {
            take_more(hold);
        }
    });
}

#[cold]
fn take_more(hold: Hold) {
    // At the end of the thread the list is gone, and is not needed any more.
    let _ = MORE.try_with(|more| more.borrow_mut().push(hold));
}

/// Notes that this thread holds it once less.
#[inline]
pub(crate) fn leave(hold: Hold) {
    FIRST.with(|first| {
        if first.get() == hold {
            first.set(Hold::NONE);
        } else {
            leave_more(hold);
        }
    });
}

#[cold]
fn leave_more(hold: Hold) {
    let _ = MORE.try_with(|more| {
        let mut more = more.borrow_mut();
        if let Some(at) = more.iter().rposition(|held| *held == hold) {
            more.remove(at);
        }
    });
}

/// Returns true if this thread has a hold for which `is` is true.
pub(crate) fn any(is: impl Fn(Hold) -> bool) -> bool {
    let first = FIRST.with(Cell::get);
    let more = || MORE.try_with(|more| more.borrow().iter().any(|held| is(*held)));
    first != Hold::NONE && is(first) || more().unwrap_or(false)
}

/// Returns true if this thread holds anything.
pub(crate) fn anything() -> bool {
    any(|_| true)
}

/// Returns true if this thread reads any partition.
pub(crate) fn reading() -> bool {
    any(|hold| hold.0 & 1 == 0)
}

/// Forgets a place that is given back and that no thread holds any more.
pub(crate) fn forget<T>(what: &T) {
    for hold in [Hold::shared(what), Hold::alone(what)] {
        while any(|held| held == hold) {
            leave(hold);
        }
    }
}
