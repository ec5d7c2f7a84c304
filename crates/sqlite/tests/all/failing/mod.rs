//! Calls to the kernel that fail, once or from one on, or at which the process is killed: in commits, openings and
//! closings of one database and of two that are attached, in each mode, also beside stock SQLite.

pub(crate) mod child;
mod databases;

use child::{Manner, Size, Work};
use databases::{Counts, Databases, Fate};

use crate::traced::Fault;

/// How a database is opened: beside stock SQLite or not, in each mode, and as on a disk, where a fence is a call.
const WAYS: [&str; 14] = [
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

/// Processes that have one fate at one call after the other.
#[derive(Clone, Copy, Debug)]
struct Story {
    databases: usize,
    work: Work,
    fate: Fate,
    /// One call in so many.
    step: usize,
    is_beside: bool,
    manner: Manner,
}

impl Story {
    fn new(databases: usize, work: Work, fate: Fate) -> Self {
        Self { databases, work, fate, step: 1, is_beside: false, manner: Manner::Normal }
    }

    /// Takes one call in so many.
    fn step(self, step: usize) -> Self {
        Self { step, ..self }
    }

    /// Beside another connection.
    fn beside(self) -> Self {
        Self { is_beside: true, ..self }
    }

    /// With locks that stay behind a transaction.
    fn manner(self, manner: Manner) -> Self {
        Self { manner, ..self }
    }

    /// Runs a process for each call, in one way: in a transaction with which the file grows, and in one that cuts it.
    fn run(self, way: &'static str) -> Counts {
        let mut all = Databases::new(self.databases, way);
        let (mut number, mut key) = (1, 0);
        loop {
            let mut fails = false;
            for size in [Size::Grows, Size::Cuts] {
                key += 1;
                let fate = (self.fate, number);
                fails |= all.run((self.work, size, self.manner), fate, key, self.is_beside);
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

    /// Runs a process for each call while it opens databases as a kill has left them: one of a part of a transaction,
    /// which counts or does not.
    fn open_what_is_left(self, way: &'static str) -> Counts {
        let mut all = Databases::new(self.databases, way);
        let mut key = 0;
        for gone in [false, true] {
            key += 1;
            let left = all.cut_off(key, gone);
            for number in (1..).step_by(self.step) {
                all.put_back(&left);
                key += 1;
                if !all.run(
                    (Work::Open, Size::Stays, Manner::Normal),
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

const ONCE: Fate = Fate::Fails(Fault::Once);
const AND_KILLED: Fate = Fate::Fails(Fault::Killed(1));
const ALIKE: Fate = Fate::Fails(Fault::Alike);
const CHANGES: Fate = Fate::Fails(Fault::Changes);

#[cfg_attr(not(target_arch = "x86_64"), ignore = "calls fail on x86_64 alone")]
#[test]
fn a_call_that_fails_in_a_commit_is_told_and_all_is_as_before_or_does_no_harm() {
    for way in &WAYS[..4] {
        let counts = Story::new(1, Work::Commits, ONCE).run(way);
        assert!(counts.with > 5 && counts.without > 2, "{way}: {counts:?}");
    }
}

#[test]
fn a_kill_at_any_call_of_a_commit_leaves_all_of_it_or_nothing() {
    for way in &WAYS[..4] {
        let counts = Story::new(1, Work::Commits, Fate::Killed).run(way);
        assert!(counts.with > 5 && counts.without > 2 && counts.refused > 2, "{way}: {counts:?}");
    }
}

/// Behind a kill, or rather an end without closing anything, and behind a clean close.
#[cfg_attr(not(target_arch = "x86_64"), ignore = "calls fail on x86_64 alone")]
#[test]
fn a_call_that_fails_while_a_database_is_opened_or_closed_loses_nothing() {
    for way in &WAYS[..4] {
        let counts = Story::new(1, Work::Open, ONCE).run(way);
        assert!(counts.errors > 2, "{way}: {counts:?}");
        Story::new(1, Work::Close, ONCE).run(way);
    }
}

#[cfg_attr(not(target_arch = "x86_64"), ignore = "calls fail on x86_64 alone")]
#[test]
fn a_call_that_fails_in_a_commit_to_two_databases_leaves_it_in_both_or_in_neither() {
    let (mut with, mut without) = (0, 0);
    for (number, way) in WAYS.iter().enumerate() {
        for fate in [ONCE, AND_KILLED] {
            let counts = Story::new(2, Work::Commits, fate).step(13 + number).run(way);
            with += counts.with;
            without += counts.without;
        }
    }
    assert!(with > 50 && without > 20, "{with}, {without}");
}

#[cfg_attr(not(target_arch = "x86_64"), ignore = "calls fail on x86_64 alone")]
#[test]
fn a_call_that_fails_while_two_databases_are_opened_or_closed_leaves_both_or_neither() {
    for (number, way) in WAYS.iter().enumerate() {
        for fate in [ONCE, AND_KILLED] {
            Story::new(2, Work::Open, fate).step(13 + number).open_what_is_left(way);
            Story::new(2, Work::Close, fate).step(13 + number).run(way);
        }
    }
}

#[cfg_attr(not(target_arch = "x86_64"), ignore = "calls fail on x86_64 alone")]
#[test]
fn calls_that_go_on_failing_lose_nothing_and_lock_nobody_out() {
    for (number, way) in WAYS.iter().enumerate() {
        for fate in [ALIKE, CHANGES] {
            let life = Story::new(1 + number % 2, Work::Life, fate).step(23 + number);
            life.run(way);
            life.beside().run(way);
            Story::new(2, Work::Open, fate).step(13 + number).open_what_is_left(way);
        }
    }
}

/// Each call, in all manners. Environment: `PERDURA_TEST_WAY` and `PERDURA_TEST_FATE`, parts of the ways and fates that
/// are run.
#[cfg_attr(not(target_arch = "x86_64"), ignore = "calls fail on x86_64 alone")]
#[test]
#[ignore = "takes minutes"]
fn long_every_call_fails_once_or_from_there_on_or_is_the_last_one() {
    let [way, fate] = ["PERDURA_TEST_WAY", "PERDURA_TEST_FATE"]
        .map(|name| std::env::var(name).unwrap_or_default());
    let kills = [1, 2, 3, 5, 8].map(|behind| Fate::Fails(Fault::Killed(behind)));
    let fates = [ONCE, ALIKE, CHANGES].into_iter().chain(kills);
    let fates: Vec<Fate> = fates.filter(|one| format!("{one:?}").contains(&fate)).collect();
    let mut wrong = Vec::new();
    for way in WAYS.iter().filter(|one| one.contains(&way)) {
        for fate in &fates {
            for databases in [1, 2] {
                for work in [Work::Commits, Work::Life, Work::Open, Work::Close] {
                    let story = Story::new(databases, work, *fate);
                    let mut stories = vec![story, story.beside()];
                    if work != Work::Open {
                        stories.push(story.manner(Manner::Exclusive));
                        stories.push(story.beside().manner(Manner::Reading));
                    }
                    for story in stories {
                        let run = || story.run(way);
                        let failed = std::panic::catch_unwind(run).is_err();
                        wrong.extend(failed.then_some((way, story)));
                    }
                }
            }
            let story = Story::new(2, Work::Open, *fate);
            let run = || story.open_what_is_left(way);
            wrong.extend(std::panic::catch_unwind(run).is_err().then_some((way, story)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
