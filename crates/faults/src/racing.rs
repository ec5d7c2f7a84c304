//! Real threads in one partition of a database, in every way that the API has, and what they saw.
//! Which thread runs when is the machine's affair, so that each run is another one; how much is
//! done is counted, not timed.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use perdura::{Database, Error};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::history::{Cell, History, Key, Pending, Range, Recorder};
use crate::sharing::Sharer;

/// A run.
#[derive(Clone, Copy, Debug)]
pub struct Racing {
    /// The number of threads.
    pub threads: usize,
    /// The number of transactions of all threads together.
    pub transactions: usize,
    /// Chooses the transactions.
    pub seed: u64,
}

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct Raced {
    /// The transactions with what they saw, followed by all that is there.
    pub history: History,
    /// The contents.
    pub contents: Vec<(Key, Cell)>,
    /// The number of times that [`Database::write`] or [`Database::read`] ran its work again.
    pub reruns: u64,
    /// The number of transactions that ended in a conflict and were not run again.
    pub conflicts: u64,
}

/// The state that the threads share.
struct Shared<'a> {
    db: &'a Database,
    sharer: &'a Sharer,
    recorder: Recorder,
    /// Writers that came to the end of their changes.
    writers: AtomicU64,
    reruns: AtomicU64,
    conflicts: AtomicU64,
}

impl Racing {
    /// Runs it on rows of which these are there.
    ///
    /// # Errors
    /// As the operations, but for conflicts; the two orders of the table are not alike.
    ///
    /// # Panics
    /// A thread panics.
    pub fn run(
        &self,
        db: &Database,
        sharer: &Sharer,
        initial: Vec<(Key, Cell)>,
    ) -> Result<Raced, Error> {
        let (recorder, left) = (Recorder::new(initial), AtomicUsize::new(self.transactions));
        let (reruns, conflicts) = (AtomicU64::new(0), AtomicU64::new(0));
        let writers = AtomicU64::new(0);
        let shared = Shared { db, sharer, recorder, writers, reruns, conflicts };
        let take = |left: usize| left.checked_sub(1);
        let work = |me: usize| -> Result<(), Error> {
            let mut random = SmallRng::seed_from_u64(self.seed * 16 + me as u64);
            while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
                shared.transaction(me, &mut random)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> =
                (0..self.threads).map(|me| scope.spawn(move || work(me))).collect();
            threads.into_iter().try_for_each(|one| one.join().expect("a thread has panicked"))
        })?;
        let contents = sharer.contents(db)?;
        let mut last = shared.recorder.begin(self.threads);
        last.scan(Range::ALL, contents.clone());
        shared.recorder.committed(last, None);
        Ok(Raced {
            history: shared.recorder.history(),
            contents,
            reruns: shared.reruns.into_inner(),
            conflicts: shared.conflicts.into_inner(),
        })
    }
}

impl Shared<'_> {
    /// The place among writers of one that is about to commit: a hint for the oracle. A thread that
    /// waits for the machine after its commit is recorded late. Of two that change one key the one
    /// that commits first has come to its end first, unless the engine keeps changes back until
    /// the commit.
    fn place(&self) -> Option<u64> {
        Some(self.writers.fetch_add(1, Ordering::SeqCst))
    }

    /// One transaction, in one of the ways.
    fn transaction(&self, me: usize, random: &mut SmallRng) -> Result<(), Error> {
        let Self { db, sharer, recorder, .. } = self;
        match random.random_range(0..8) {
            // On a snapshot, where there are some.
            0 if db.traits().snapshots => {
                let mut pending = recorder.begin(me);
                let snapshot = db.snapshot()?;
                sharer.read_snapshot(&snapshot, random, &mut pending)?;
                recorder.committed(pending, None);
            }
            0 | 1 => {
                let mut tries = Tries::new(self, me);
                let done = db.read(|tx| tries.run(|pending| sharer.read(tx, random, pending)));
                tries.end(done, None)?;
            }
            2 | 3 => {
                let mut tries = Tries::new(self, me);
                let mut place = None;
                let done = db.write(|tx| {
                    tries.run(|pending| {
                        sharer.change(tx, random, recorder, pending)?;
                        place = self.place();
                        Ok(())
                    })
                });
                tries.end(done, place)?;
            }
            // One that aborts.
            4 => {
                let mut pending = recorder.begin(me);
                let mut tx = db.begin()?;
                match sharer.change(&mut tx, random, recorder, &mut pending) {
                    Err(Error::Conflict { .. }) => drop(tx),
                    done => {
                        done?;
                        tx.abort()?;
                    }
                }
                recorder.aborted(pending);
            }
            _ => {
                let mut pending = recorder.begin(me);
                let mut tx = db.begin()?;
                let done = sharer.change(&mut tx, random, recorder, &mut pending);
                let place = self.place();
                match done.and_then(|()| tx.commit()) {
                    Err(Error::Conflict { .. }) => {
                        recorder.aborted(pending);
                        self.conflicts.fetch_add(1, Ordering::Relaxed);
                    }
                    done => {
                        let _ = done?;
                        recorder.committed(pending, place);
                    }
                }
            }
        }
        Ok(())
    }
}

/// The tries of one transaction.
struct Tries<'a> {
    shared: &'a Shared<'a>,
    me: usize,
    /// The one that runs, or runs next.
    pending: Pending,
    /// The one after it, if the one that runs has come to its end. Each is begun before the engine
    /// begins it: otherwise its snapshot could be older than its begin.
    next: Option<Pending>,
    reruns: u64,
}

impl<'a> Tries<'a> {
    fn new(shared: &'a Shared<'a>, me: usize) -> Self {
        Self { shared, me, pending: shared.recorder.begin(me), next: None, reruns: 0 }
    }

    /// Runs the work of a try. The one before it is undone.
    fn run<R>(&mut self, work: impl FnOnce(&mut Pending) -> R) -> R {
        if let Some(next) = self.next.take() {
            self.reruns += 1;
            self.shared.recorder.aborted(std::mem::replace(&mut self.pending, next));
        }
        let done = work(&mut self.pending);
        self.next = Some(self.shared.recorder.begin(self.me));
        done
    }

    /// The last try has ended, with its place among writers if that is known.
    fn end(self, done: Result<(), Error>, place: Option<u64>) -> Result<(), Error> {
        self.shared.reruns.fetch_add(self.reruns, Ordering::Relaxed);
        match done {
            Err(Error::Conflict { .. }) => {
                self.shared.conflicts.fetch_add(1, Ordering::Relaxed);
                self.shared.recorder.aborted(self.pending);
                Ok(())
            }
            done => {
                self.shared.recorder.committed(self.pending, place);
                done
            }
        }
    }
}
