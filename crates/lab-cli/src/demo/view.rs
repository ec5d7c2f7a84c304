//! An engine as the page shows it, and the record by which a loss is found.

use std::collections::VecDeque;

use command::args::demo::MOST_USERS;
use serde::Serialize;

use super::task::{Counter, Event, Held, LONG, Position, Settings};

/// Points that are kept: a minute.
const POINTS: usize = 600;
/// Crashes that are listed.
const CRASHES: usize = 50;

/// The state of an engine's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// It populates a new database.
    Loading,
    /// It has been started on a database that a crash has left.
    Recovering,
    /// It works.
    Running,
    /// It has ended by itself.
    Failed,
}

/// The measurements of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Point {
    /// Tenths of a second since the page was first served.
    pub(super) tick: u64,
    /// Acknowledged transactions a second.
    pub(super) txn_s: f64,
    /// The mean time in which they were answered; `None` if there were none.
    pub(super) mean_us: Option<f64>,
}

/// A crash, and what came after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Crash {
    tick: u64,
    pid_before: u32,
    pid_after: Option<u32>,
    /// Milliseconds of the open call.
    open_ms: Option<f64>,
    /// Milliseconds from the start of the new process to its first durable commit.
    first_commit_ms: Option<f64>,
    /// Acknowledged work that is gone; `None` until that was looked for.
    lost: Option<u64>,
}

/// Statements that one process has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Segment {
    pid: u32,
    from: u64,
    to: u64,
}

/// A long transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Long {
    name: String,
    /// Runs that are committed.
    runs: u64,
    /// Statements that are done.
    done: u64,
    /// Statements that a crash has undone in this run.
    undone: u64,
    segments: Vec<Segment>,
}

impl Long {
    /// It has come to a position, in this process.
    fn advance(&mut self, pid: u32, position: Position) {
        if position.runs != self.runs {
            self.segments.clear();
            (self.runs, self.done, self.undone) = (position.runs, 0, 0);
        }
        if position.statements <= self.done {
            return;
        }
        match self.segments.last_mut() {
            Some(segment) if segment.pid == pid => segment.to = position.statements,
            _ => {
                let (from, to) = (self.done + 1, position.statements);
                self.segments.push(Segment { pid, from, to });
            }
        }
        self.done = position.statements;
    }

    /// A process has opened what the one before has left.
    fn reopen(&mut self, pid_before: u32, found: Position) {
        if found.runs == self.runs && found.statements < self.done {
            self.undone += self.done - found.statements;
            self.done = 0;
            self.segments.clear();
        }
        self.advance(pid_before, found);
    }
}

/// The findings of all checks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Checks {
    /// Restarts after which was looked.
    restarts: u64,
    /// Acknowledged transactions and statements that were looked for the last time.
    acknowledged: u64,
    /// Those that were gone, of all restarts: must be zero.
    lost: u64,
    /// Those that were there and that no user has entered: must be zero.
    surplus: u64,
    /// Long transactions whose rows show other statements than were done.
    torn: u64,
}

/// An engine as the page shows it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct View {
    pub(super) engine: &'static str,
    /// Transactions go on after a crash.
    pub(super) continues: bool,
    pub(super) status: Status,
    pub(super) failure: Option<String>,
    pub(super) pid: u32,
    #[serde(rename = "told")]
    pub(super) settings: Settings,
    /// Statements of a long transaction.
    pub(super) statements: u64,
    transactions: u64,
    checks: Checks,
    crashes: Vec<Crash>,
    long: Vec<Long>,
    #[serde(skip)]
    points: VecDeque<Point>,
    /// The record: what had been acknowledged when the last process ended.
    #[serde(skip)]
    acknowledged: Vec<u64>,
}

impl View {
    /// An engine that has done nothing yet.
    pub(super) fn new(
        engine: &'static str,
        continues: bool,
        statements: u32,
        settings: Settings,
    ) -> Self {
        let long = |number| Long { name: format!("long {}", number + 1), ..Long::default() };
        Self {
            engine,
            continues,
            status: Status::Loading,
            failure: None,
            pid: 0,
            settings,
            statements: statements.into(),
            transactions: 0,
            checks: Checks::default(),
            crashes: Vec::new(),
            long: (0..LONG).map(long).collect(),
            points: VecDeque::new(),
            acknowledged: Vec::new(),
        }
    }

    /// Returns the points after a tick.
    pub(super) fn points_since(&self, tick: u64) -> Vec<Point> {
        self.points.iter().copied().filter(|point| point.tick > tick).collect()
    }

    /// Takes what was measured in a tick.
    pub(super) fn measure(&mut self, point: Point) {
        if self.points.len() == POINTS {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    /// Takes the counts of the process that works, or has just ended.
    pub(super) fn count(&mut self, counts: &[u64]) {
        let of = |counter: Counter| counts[counter.place()];
        let users = 0..MOST_USERS as usize;
        self.transactions = users.map(|user| of(Counter::Transactions(user))).sum();
        if self.status == Status::Running {
            for (number, long) in self.long.iter_mut().enumerate() {
                long.advance(self.pid, Position::of(of(Counter::Long(number))));
            }
        }
    }

    /// The process has been killed; this is what it had acknowledged.
    pub(super) fn crash(&mut self, tick: u64, acknowledged: Vec<u64>) {
        self.count(&acknowledged);
        self.acknowledged = acknowledged;
        if self.crashes.len() == CRASHES {
            self.crashes.remove(0);
        }
        self.crashes.push(Crash {
            tick,
            pid_before: self.pid,
            pid_after: None,
            open_ms: None,
            first_commit_ms: None,
            lost: None,
        });
    }

    /// Hears what the process says, so many milliseconds after its start.
    pub(super) fn hear(&mut self, said: &Event, ms: f64) {
        match said {
            Event::Loaded => self.status = Status::Running,
            Event::Opened { open_ms, held } => {
                let lost = self.check(held);
                let before = self.crashes.last().map_or(self.pid, |crash| crash.pid_before);
                for (long, found) in self.long.iter_mut().zip(&held.long) {
                    long.reopen(before, found.position);
                }
                if let Some(crash) = self.crashes.last_mut() {
                    crash.pid_after = Some(self.pid);
                    crash.open_ms = Some(*open_ms);
                    crash.lost = Some(lost);
                }
                self.status = Status::Running;
            }
            Event::Committed => {
                let last = self.crashes.last_mut();
                if let Some(crash) = last.filter(|crash| crash.pid_after == Some(self.pid)) {
                    crash.first_commit_ms.get_or_insert(ms);
                }
            }
        }
    }

    /// Compares what a process has found with the record; returns how much is lost.
    fn check(&mut self, held: &Held) -> u64 {
        let of = |counter: Counter| self.acknowledged.get(counter.place()).copied().unwrap_or(0);
        let users = 0..MOST_USERS as usize;
        let mut pairs: Vec<(u64, u64)> =
            users.map(|user| (of(Counter::Receipts(user)), held.receipts[user])).collect();
        for (number, found) in held.long.iter().enumerate() {
            let was = Position::of(of(Counter::Long(number)));
            pairs.push(if self.continues {
                (was.total(self.statements), found.position.total(self.statements))
            } else {
                // An open transaction may be gone; a committed one may not.
                (was.runs, found.position.runs)
            });
            let checks = &mut self.checks;
            checks.torn += u64::from(found.shown != found.position.runs * (self.statements - 1));
        }
        let lost = pairs.iter().map(|(was, found)| was.saturating_sub(*found)).sum();
        // One of each may have been durable that was not acknowledged yet.
        let surplus = pairs.iter().map(|(was, found)| found.saturating_sub(was + 1)).sum::<u64>();
        self.checks.restarts += 1;
        self.checks.acknowledged = pairs.iter().map(|(was, _)| was).sum();
        self.checks.lost += lost;
        self.checks.surplus += surplus;
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::super::task::{COUNTERS, HeldLong};
    use super::*;

    const SETTINGS: Settings = Settings { users: 1, latency_ns: 0 };
    const STATEMENTS: u64 = 10;

    fn position(runs: u64, statements: u64) -> Position {
        Position { runs, statements }
    }

    /// A view whose process was killed when a user had so many receipts, and each long transaction had
    /// come to a position.
    fn killed(continues: bool, receipts: u64, at: Position) -> View {
        let mut view = View::new("an engine", continues, STATEMENTS as u32, SETTINGS);
        (view.pid, view.status) = (7, Status::Running);
        let mut counts = vec![0; COUNTERS];
        counts[Counter::Receipts(0).place()] = receipts;
        for number in 0..LONG {
            counts[Counter::Long(number).place()] = at.packed();
        }
        view.crash(1, counts);
        (view.pid, view.status) = (8, Status::Recovering);
        view
    }

    /// The checks after the next process has found this.
    fn checked(view: &mut View, receipts: u64, at: Position, shown: u64) -> [u64; 3] {
        let mut held = Held {
            receipts: vec![0; MOST_USERS as usize],
            long: vec![HeldLong { position: at, shown }; LONG],
        };
        held.receipts[0] = receipts;
        view.hear(&Event::Opened { open_ms: 1.0, held }, 2.0);
        [view.checks.lost, view.checks.surplus, view.checks.torn]
    }

    #[test]
    fn one_more_than_was_acknowledged_may_be_there_and_not_one_less() {
        let at = position(2, 3);
        for (receipts, lost, surplus) in [(5, 0, 0), (6, 0, 0), (4, 1, 0), (0, 5, 0), (8, 0, 2)] {
            let mut view = killed(true, 5, at);
            assert_eq!(checked(&mut view, receipts, at, 18), [lost, surplus, 0], "{receipts}");
            assert_eq!(view.crashes[0].lost, Some(lost));
        }
    }

    #[test]
    fn continued_statements_count_and_undone_ones_do_not() {
        for (found, lost, surplus) in [
            (position(2, 3), 0, 0),
            (position(2, 4), 0, 0),
            (position(2, 2), 1, 0),
            (position(2, 0), 3, 0),
            (position(2, 6), 0, 2),
            (position(1, 9), 4, 0),
        ] {
            let mut view = killed(true, 0, position(2, 3));
            let [lost, surplus] = [lost, surplus].map(|each| each * LONG as u64);
            let found = checked(&mut view, 0, found, found.runs * (STATEMENTS - 1));
            assert_eq!(found, [lost, surplus, 0]);
        }
        let mut view = killed(false, 0, position(2, 3));
        assert_eq!(checked(&mut view, 0, position(2, 0), 18), [0, 0, 0]);
        let mut view = killed(false, 0, position(2, 3));
        assert_eq!(checked(&mut view, 0, position(1, 0), 9), [LONG as u64, 0, 0]);
    }

    #[test]
    fn rows_that_show_other_statements_than_were_done_are_torn() {
        for shown in [17, 19] {
            let mut view = killed(true, 0, position(2, 3));
            assert_eq!(checked(&mut view, 0, position(2, 3), shown), [0, 0, LONG as u64]);
        }
    }

    #[test]
    fn statements_are_of_the_process_that_did_them() {
        let segment = |pid, from, to| Segment { pid, from, to };
        let mut view = killed(true, 0, position(2, 3));
        // Durable, and not acknowledged before the kill.
        checked(&mut view, 0, position(2, 4), 18);
        let long = &mut view.long[0];
        long.advance(8, position(2, 6));
        assert_eq!(long.segments, [segment(7, 1, 4), segment(8, 5, 6)]);
        long.advance(8, position(3, 1));
        assert_eq!((long.runs, &long.segments[..]), (3, &[segment(8, 1, 1)][..]));

        let mut view = killed(false, 0, position(2, 3));
        checked(&mut view, 0, position(2, 0), 18);
        let long = &mut view.long[0];
        long.advance(8, position(2, 2));
        assert_eq!((long.undone, &long.segments[..]), (3, &[segment(8, 1, 2)][..]));
    }
}
