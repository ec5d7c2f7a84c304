//! System calls that fail, once or from one on, or at which the process is killed: in commits, openings and
//! closings of one database and of two attached ones, in each mode, with and without stock SQLite.

pub(crate) mod child;
pub(crate) mod databases;
pub(crate) mod protocol;

use child::{HeldLocks, Size, Work};
use databases::{Counts, Databases, Fate};

use crate::ptrace::Fault;

/// How a database is opened: shared with stock SQLite or not, in each mode, and as on a disk, where a fence is a
/// system call.
pub(crate) const WAYS: [&str; 14] = [
    "perdura_share=stock&perdura_mode=fash1",
    "perdura_share=perdura&perdura_mode=fash1",
    "perdura_share=stock&perdura_mode=nvwal",
    "perdura_share=perdura&perdura_mode=nvwal",
    "perdura_share=stock&perdura_mode=fast",
    "perdura_share=perdura&perdura_mode=fast",
    "perdura_share=stock&perdura_mode=fash",
    "perdura_share=perdura&perdura_mode=fash",
    "perdura_share=stock&perdura_mode=full",
    "perdura_share=perdura&perdura_mode=full",
    "perdura_share=stock&perdura_mode=fash1&perdura_domain=disk",
    "perdura_share=perdura&perdura_mode=nvwal&perdura_domain=disk",
    "perdura_share=perdura&perdura_mode=fash1&perdura_domain=disk",
    "perdura_share=stock&perdura_mode=fash&perdura_domain=disk",
];

/// Processes with the same fate at successive calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    databases: usize,
    work: Work,
    fate: Fate,
    /// Every how many calls.
    step: usize,
    with_other: bool,
    held_locks: HeldLocks,
}

impl Scenario {
    pub(crate) fn new(databases: usize, work: Work, fate: Fate) -> Self {
        Self { databases, work, fate, step: 1, with_other: false, held_locks: HeldLocks::Normal }
    }

    /// Takes one of so many calls.
    fn step(self, step: usize) -> Self {
        Self { step, ..self }
    }

    /// With another connection.
    pub(crate) fn with_other(self) -> Self {
        Self { with_other: true, ..self }
    }

    /// With locks that outlast a transaction.
    pub(crate) fn held_locks(self, held_locks: HeldLocks) -> Self {
        Self { held_locks, ..self }
    }

    /// Runs a process for each call, in one way: with a transaction that grows the file, and with one that shrinks
    /// it.
    pub(crate) fn run(self, way: &'static str) -> Counts {
        let mut all = Databases::new(self.databases, way);
        let (mut number, mut key) = (1, 0);
        loop {
            let mut fails = false;
            for size in [Size::Grows, Size::Cuts] {
                key += 1;
                let fate = (self.fate, number);
                fails |= all.run((self.work, size, self.held_locks), fate, key, self.with_other);
                if self.step > 1 || self.work == Work::Open {
                    number += self.step;
                }
            }
            if !fails {
                break;
            }
            number += usize::from(self.step == 1 && self.work != Work::Open);
        }
        all.end();
        println!("{way}: {self:?}: {key} processes, {:?}", all.counts);
        all.counts
    }

    /// Runs a process for each call while it opens databases after a kill, with a prepared part that counts or does
    /// not.
    pub(crate) fn open_what_is_left(self, way: &'static str) -> Counts {
        let mut all = Databases::new(self.databases, way);
        let mut key = 0;
        for gone in [false, true] {
            key += 1;
            let left = all.cut_off(key, gone);
            for number in (1..).step_by(self.step) {
                all.put_back(&left);
                key += 1;
                if !all.run(
                    (Work::Open, Size::Stays, HeldLocks::Normal),
                    (self.fate, number),
                    key,
                    false,
                ) {
                    break;
                }
            }
        }
        all.end();
        println!("{way}: {self:?}: {key} processes, {:?}", all.counts);
        all.counts
    }
}

pub(crate) const ONCE: Fate = Fate::Fails(Fault::Once);
const AND_KILLED: Fate = Fate::Fails(Fault::Killed(1));
pub(crate) const ALIKE: Fate = Fate::Fails(Fault::Alike);
pub(crate) const CHANGES: Fate = Fate::Fails(Fault::Changes);

#[cfg_attr(not(target_arch = "x86_64"), ignore = "calls fail on x86_64 alone")]
#[test]
fn failed_call_in_a_commit_is_reported_or_harmless() {
    for way in &WAYS[..4] {
        let counts = Scenario::new(1, Work::Commits, ONCE).run(way);
        assert!(counts.with > 5 && counts.without > 2, "{way}: {counts:?}");
    }
}

#[test]
fn kill_at_any_call_leaves_a_commit_whole_or_absent() {
    for way in &WAYS[..4] {
        let counts = Scenario::new(1, Work::Commits, Fate::Killed).run(way);
        assert!(counts.with > 5 && counts.without > 2 && counts.refused > 2, "{way}: {counts:?}");
    }
}

/// After an end without a close, and after a clean close.
#[cfg_attr(not(target_arch = "x86_64"), ignore = "calls fail on x86_64 alone")]
#[test]
fn failed_call_in_open_or_close_loses_nothing() {
    for way in &WAYS[..4] {
        let counts = Scenario::new(1, Work::Open, ONCE).run(way);
        assert!(counts.errors > 2, "{way}: {counts:?}");
        Scenario::new(1, Work::Close, ONCE).run(way);
    }
}

#[cfg_attr(not(target_arch = "x86_64"), ignore = "calls fail on x86_64 alone")]
#[test]
fn failed_call_keeps_a_two_database_commit_atomic() {
    let (mut with, mut without) = (0, 0);
    for (number, way) in WAYS.iter().enumerate() {
        for fate in [ONCE, AND_KILLED] {
            let counts = Scenario::new(2, Work::Commits, fate).step(13 + number).run(way);
            with += counts.with;
            without += counts.without;
        }
    }
    assert!(with > 50 && without > 20, "{with}, {without}");
}

#[cfg_attr(not(target_arch = "x86_64"), ignore = "calls fail on x86_64 alone")]
#[test]
fn failed_call_in_opening_two_databases_keeps_them_alike() {
    for (number, way) in WAYS.iter().enumerate() {
        for fate in [ONCE, AND_KILLED] {
            Scenario::new(2, Work::Open, fate).step(13 + number).open_what_is_left(way);
            Scenario::new(2, Work::Close, fate).step(13 + number).run(way);
        }
    }
}

#[cfg_attr(not(target_arch = "x86_64"), ignore = "calls fail on x86_64 alone")]
#[test]
fn persistent_failures_lose_nothing_and_free_all_locks() {
    for (number, way) in WAYS.iter().enumerate() {
        for fate in [ALIKE, CHANGES] {
            let life = Scenario::new(1 + number % 2, Work::Life, fate).step(23 + number);
            life.run(way);
            life.with_other().run(way);
            Scenario::new(2, Work::Open, fate).step(13 + number).open_what_is_left(way);
        }
    }
}
