//! The lock of a partition, the waking of the thread in the background, and the times of
//! transactions that wait to be continued, under a scheduler that chooses the interleaving. The
//! sources are those of the crate, compiled a second time over the scheduler's locks. A waiter that
//! is never woken is a deadlock, which the scheduler reports.

#![expect(dead_code, reason = "modules of a crate, compiled into a test")]

#[path = "../src/group.rs"]
mod group;
#[path = "../src/held.rs"]
mod held;
#[path = "../src/holder.rs"]
#[expect(unreachable_pub, reason = "it is reachable in the crate")]
mod holder;
#[path = "../src/partition_lock.rs"]
mod partition_lock;
#[path = "../src/sharing.rs"]
mod sharing;
#[path = "../src/waits.rs"]
mod waits;
#[path = "../src/wakeup.rs"]
mod wakeup;
mod sync {
    use std::cell::Cell;
    use std::time::Duration;

    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use shuttle::thread::yield_now;
    pub(crate) use shuttle::thread_local;

    pub(crate) use super::lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};

    pub(crate) const PASSES_AT_ONCE: u32 = 2;
    pub(crate) const MOST_PASSES: u32 = 4;

    /// Time passes by looking at it.
    #[derive(Debug)]
    pub(crate) struct Stopwatch(Cell<u32>);

    impl Stopwatch {
        pub(crate) fn start() -> Self {
            Self(Cell::new(0))
        }

        pub(crate) fn elapsed(&self) -> Duration {
            Duration::from_millis(1)
        }

        pub(crate) fn is_over(&self, most: Duration) -> bool {
            self.0.set(self.0.get() + 1);
            most.is_zero() || self.0.get() > 3
        }
    }
}

/// The promise of `parking_lot::RwLock`, over the scheduler's locks.
mod lock {
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
        /// Never waited for: the state says who may have it.
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
            let value = self.value.try_read().expect("nobody writes");
            RwLockReadGuard { value, leave: Leave { lock: self, writer: false } }
        }

        fn writing(&self) -> RwLockWriteGuard<'_, T> {
            let value = self.value.try_write().expect("nobody else is there");
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
}

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use engines::{EngineError, TxId};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner, thread};

use crate::partition_lock::PartitionLock;
use crate::sharing::Syncs;
use crate::sync::{AtomicU32, AtomicU64, Mutex};
use crate::waits::{IfTaken, Waits};
use crate::wakeup::Wakeup;

/// The time that one waits who holds another partition.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs `story` under so many random schedules, and as many that change threads rarely.
fn interleave(schedules: usize, story: impl Fn() + Send + Sync + Copy + 'static) -> usize {
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        let mut config = Config::new();
        config.failure_persistence = FailurePersistence::None;
        config.max_steps = MaxSteps::FailAfter(1 << 20);
        Runner::new(scheduler, config).run(story)
    };
    run(Box::new(RandomScheduler::new_from_seed(7, schedules)))
        + run(Box::new(PctScheduler::new_from_seed(8, 3, schedules)))
}

/// The contents of a partition: work that waits, and work that was done.
#[derive(Default)]
struct Partition {
    backlog: u32,
    commits: u32,
    steps: u32,
}

/// The loop of the thread in the background.
fn work(partitions: &[PartitionLock<Partition>], wakeup: &Wakeup) {
    while !wakeup.is_stopped() {
        let mut idle = true;
        for partition in partitions {
            if partition.has_backlog() {
                partition.step(|partition| {
                    partition.backlog -= 1;
                    partition.steps += 1;
                    ((), partition.backlog > 0)
                });
                idle = false;
            }
        }
        if idle {
            wakeup.sleep(|| partitions.iter().any(PartitionLock::has_backlog));
        }
    }
}

/// Two writers leave work in two partitions, a reader looks, and the thread does all of the work.
/// `early`: the thread is notified before the work is there, which is wrong.
fn writers_and_the_thread(early: bool) {
    let partitions: Arc<[PartitionLock<Partition>]> =
        (0..2).map(|_| PartitionLock::new(Partition::default(), PATIENCE, None)).collect();
    let wakeup = Arc::new(Wakeup::default());
    let worker = {
        let (partitions, wakeup) = (partitions.clone(), wakeup.clone());
        thread::spawn(move || work(&partitions, &wakeup))
    };
    let writers: Vec<_> = (0..2usize)
        .map(|number| {
            let (partitions, wakeup) = (partitions.clone(), wakeup.clone());
            thread::spawn(move || {
                for round in 0..3 {
                    if early {
                        wakeup.notify();
                        // The thread has time to look, and to fall asleep again.
                        (0..30).for_each(|_| thread::yield_now());
                    }
                    let mut partition = partitions[(number + round) % 2].write().unwrap();
                    partition.commits += 1;
                    partition.backlog += 1;
                    partitions[(number + round) % 2].leave_backlog();
                    if !early {
                        wakeup.notify();
                    }
                }
            })
        })
        .collect();
    for partition in &*partitions {
        let seen = partition.read().unwrap();
        assert_eq!(seen.commits, seen.backlog + seen.steps);
    }
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    // No more notifications come: what they were for is done, or the scheduler sees that nothing is
    // left to run but this loop.
    for _ in 0..2_000 {
        if partitions.iter().all(|partition| partition.read().unwrap().backlog == 0) {
            break;
        }
        thread::yield_now();
    }
    for partition in &*partitions {
        let seen = partition.read().unwrap();
        assert_eq!(
            (seen.commits, seen.backlog),
            (3, 0),
            "the thread sleeps through a notification"
        );
    }
    wakeup.stop();
    worker.join().unwrap();
}

#[test]
fn no_notification_is_slept_through_and_every_thread_ends() {
    let schedules = interleave(800, || writers_and_the_thread(false));
    println!("{schedules} schedules");
}

/// The test above sees a notification that comes too early.
#[test]
fn a_notification_that_comes_too_early_is_slept_through() {
    let found = catch_unwind(AssertUnwindSafe(|| interleave(800, || writers_and_the_thread(true))));
    assert!(found.is_err());
}

/// A writer that finds the partition taken by the thread waits for one step, although the thread
/// always has more to do.
fn a_writer_beside_a_busy_thread() {
    let partition_lock = Arc::new(PartitionLock::new(0u32, PATIENCE, None));
    let stop = Arc::new(AtomicU32::new(0));
    let worker = {
        let (partition_lock, stop) = (partition_lock.clone(), stop.clone());
        thread::spawn(move || {
            let mut last = None;
            while stop.load(SeqCst) == 0 {
                let queue = partition_lock.queue();
                assert!(queue.is_none() || queue != last, "a second step before who waits");
                last = queue;
                partition_lock.step(|steps| (*steps += 1, true));
                thread::yield_now();
            }
        })
    };
    for _ in 0..3 {
        drop(partition_lock.write().unwrap());
        drop(partition_lock.read().unwrap());
    }
    stop.store(1, SeqCst);
    worker.join().unwrap();
}

#[test]
fn a_writer_waits_for_a_step_at_most() {
    let schedules = interleave(300, a_writer_beside_a_busy_thread);
    println!("{schedules} schedules");
}

/// The owner of a partition lets the thread in between two transactions; another writer and a
/// reader want it too.
fn an_owner_lets_the_thread_in() {
    let partition_lock = Arc::new(PartitionLock::new(0u32, PATIENCE, None));
    let spawn = |act: fn(&PartitionLock<u32>)| {
        let partition_lock = partition_lock.clone();
        thread::spawn(move || act(&partition_lock))
    };
    let others = [
        spawn(|partition_lock| {
            for _ in 0..3 {
                while partition_lock.step(|steps| (*steps += 1, true)).is_none() {
                    thread::yield_now();
                }
            }
        }),
        spawn(|partition_lock| *partition_lock.write().unwrap() += 1),
        spawn(|partition_lock| assert!(*partition_lock.read().unwrap() <= 6)),
    ];
    let mut owned = Some(partition_lock.write().unwrap());
    for _ in 0..4 {
        if partition_lock.is_wanted() {
            drop(owned.take());
            partition_lock.let_in();
            owned = Some(partition_lock.write().unwrap());
        }
        thread::yield_now();
    }
    drop(owned);
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(*partition_lock.read().unwrap(), 4);
}

#[test]
fn an_owner_who_lets_the_thread_in_goes_on() {
    let schedules = interleave(600, an_owner_lets_the_thread_in);
    println!("{schedules} schedules");
}

/// A thread copies the partition until a reader has been there; a writer and the thread in the
/// background wait for the end of it.
fn a_reader_beside_a_copy() {
    let partition_lock = Arc::new(PartitionLock::new(0u32, PATIENCE, None));
    let seen = Arc::new(AtomicU32::new(0));
    let copy = partition_lock.copy(None).unwrap();
    let spawn = |act: fn(&PartitionLock<u32>, &AtomicU32)| {
        let (partition_lock, seen) = (partition_lock.clone(), seen.clone());
        thread::spawn(move || act(&partition_lock, &seen))
    };
    let others = [
        spawn(|partition_lock, _| *partition_lock.write().unwrap() += 1),
        spawn(|partition_lock, _| while partition_lock.step(|_| ((), false)).is_none() {}),
        spawn(|partition_lock, seen| {
            drop(partition_lock.read().unwrap());
            seen.fetch_add(1, SeqCst);
        }),
        spawn(|partition_lock, seen| {
            drop(partition_lock.copy(None).unwrap());
            seen.fetch_add(1, SeqCst);
        }),
    ];
    while seen.load(SeqCst) < 2 {
        thread::yield_now();
    }
    assert_eq!(*copy, 0);
    drop(copy);
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(*partition_lock.read().unwrap(), 1);
}

#[test]
fn readers_do_not_wait_for_a_copy_though_writers_do() {
    let schedules = interleave(600, a_reader_beside_a_copy);
    println!("{schedules} schedules");
}

/// A thread comes to copy while a writer waits for a reader, and readers came before it.
fn a_copy_behind_a_writer() {
    let partition_lock = Arc::new(PartitionLock::new(0u32, PATIENCE, None));
    let reading = partition_lock.read().unwrap();
    let others: Vec<_> = (0..4u32)
        .map(|number| {
            let partition_lock = partition_lock.clone();
            thread::spawn(move || match number {
                0 => *partition_lock.write().unwrap() += 1,
                1 => assert!(*partition_lock.copy(None).unwrap() < 2),
                _ => assert!(*partition_lock.read().unwrap() < 2),
            })
        })
        .collect();
    thread::yield_now();
    // A read within a read, and a copy.
    assert_eq!(*partition_lock.read().unwrap(), 0);
    assert_eq!(*partition_lock.copy(None).unwrap(), 0);
    drop(reading);
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(*partition_lock.read().unwrap(), 1);
}

#[test]
fn one_who_reads_already_waits_for_no_writer() {
    let schedules = interleave(600, a_copy_behind_a_writer);
    println!("{schedules} schedules");
}

/// A thread reads until so many others have been there; a writer waits.
fn readers_behind_a_writer_that_waits(readers: u32) {
    let (partition_lock, seen) =
        (Arc::new(PartitionLock::new(0u32, PATIENCE, None)), Arc::new(AtomicU32::new(0)));
    let long = partition_lock.read().unwrap();
    let writer = {
        let partition_lock = partition_lock.clone();
        thread::spawn(move || *partition_lock.write().unwrap() += 1)
    };
    while partition_lock.queue().is_none() {
        thread::yield_now();
    }
    let others: Vec<_> = (0..readers)
        .map(|_| {
            let (partition_lock, seen) = (partition_lock.clone(), seen.clone());
            thread::spawn(move || {
                drop(partition_lock.read().unwrap());
                seen.fetch_add(1, SeqCst);
            })
        })
        .collect();
    while seen.load(SeqCst) < readers {
        thread::yield_now();
    }
    assert_eq!(*long, 0);
    drop(long);
    writer.join().unwrap();
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(*partition_lock.read().unwrap(), 1);
}

#[test]
fn a_reader_of_long_holds_up_no_reader_behind_a_writer_that_waits() {
    let schedules = interleave(300, || readers_behind_a_writer_that_waits(sync::MOST_PASSES));
    println!("{schedules} schedules");
}

/// One more reader would let the writer wait for ever: it waits itself, here for a reader that
/// waits for it.
#[test]
fn no_more_readers_than_are_let_pass_a_writer() {
    let found = catch_unwind(AssertUnwindSafe(|| {
        interleave(300, || readers_behind_a_writer_that_waits(sync::MOST_PASSES + 1))
    }));
    assert!(found.is_err());
}

/// The owner goes on only when the thread has given up.
fn an_owner_who_keeps_the_partition() {
    let partition_lock = Arc::new(PartitionLock::new(0u32, PATIENCE, None));
    let owned = partition_lock.write().unwrap();
    let thread = {
        let partition_lock = partition_lock.clone();
        thread::spawn(move || partition_lock.step(|_| ((), false)))
    };
    assert_eq!(thread.join().unwrap(), None);
    assert!(!partition_lock.is_wanted());
    drop(owned);
}

#[test]
fn the_thread_does_not_wait_for_an_owner() {
    interleave(200, an_owner_who_keeps_the_partition);
}

/// A partition whose transactions end with a number, and are durable when it was synced. A sync
/// works with the partition, or without it.
#[derive(Debug)]
struct Ledger {
    log: Arc<Log>,
}

#[derive(Debug)]
struct Log {
    ended: AtomicU64,
    durable: AtomicU64,
    /// One sync at a time.
    syncing: sync::Mutex<()>,
    syncs: AtomicU32,
    /// Syncs that succeed before all fail.
    good: u32,
}

impl Log {
    fn new(good: u32) -> Arc<Self> {
        let (ended, durable) = (AtomicU64::new(0), AtomicU64::new(0));
        let (syncing, syncs) = (sync::Mutex::new(()), AtomicU32::new(0));
        Arc::new(Self { ended, durable, syncing, syncs, good })
    }

    fn make_durable(&self) -> Result<u64, EngineError> {
        let _one = self.syncing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let ended = self.ended.load(SeqCst);
        thread::yield_now();
        let number = self.syncs.fetch_add(1, SeqCst);
        if number >= self.good {
            return Err(EngineError::MustAbort);
        }
        self.durable.fetch_max(ended, SeqCst);
        Ok(ended)
    }
}

impl engines::Syncer for Log {
    fn sync(&self) -> Result<u64, EngineError> {
        self.make_durable()
    }
}

impl Syncs for Ledger {
    fn sync(&mut self) -> Result<(), EngineError> {
        if self.durable() < self.log.ended.load(SeqCst) {
            self.log.make_durable()?;
        }
        Ok(())
    }

    fn durable(&self) -> u64 {
        self.log.durable.load(SeqCst)
    }
}

fn ledger(log: &Arc<Log>, outside: bool) -> PartitionLock<Ledger> {
    let syncer = || -> Arc<dyn engines::Syncer> { log.clone() };
    PartitionLock::new(Ledger { log: log.clone() }, PATIENCE, outside.then(syncer))
}

/// Runs a transaction; returns its number if it was acknowledged.
fn commit(partition_lock: &PartitionLock<Ledger>) -> Option<u64> {
    let mut guard = partition_lock.join(|| partition_lock.write()).unwrap();
    let number = guard.log.ended.fetch_add(1, SeqCst) + 1;
    let done = match (partition_lock.has_company(), &partition_lock.syncer) {
        (true, _) => guard.leave_sync(number).is_ok(),
        // In the partition all the same.
        (false, Some(syncer)) => syncer.sync().is_ok(),
        (false, None) => guard.sync().is_ok(),
    };
    done.then_some(number)
}

/// Comes to the partition without a commit.
const OTHERS: [fn(&PartitionLock<Ledger>); 4] = [
    |partition_lock| drop(partition_lock.join(|| partition_lock.write()).unwrap()),
    |partition_lock| {
        let _ = partition_lock.join(|| partition_lock.write_for(Duration::ZERO)).ok();
    },
    |partition_lock| {
        // As `Partition::exclusive`.
        let mut owner = partition_lock.write().unwrap();
        if partition_lock.group.has_members() {
            let _ = owner.sync_all();
        }
        (0..10).for_each(|_| thread::yield_now());
    },
    |partition_lock| {
        let seen = {
            let _reading = partition_lock.read().unwrap();
            partition_lock.group.newest()
        };
        if partition_lock.wait_durable(seen).is_ok() {
            assert!(partition_lock.read().unwrap().durable() >= seen);
        }
    },
];

/// Four threads commit, and others come and go. An acknowledged commit is durable, and no thread
/// waits for ever: the scheduler would see it.
fn commits_that_share_syncs(outside: bool, good: u32) {
    let log = Log::new(good);
    let partition_lock = Arc::new(ledger(&log, outside));
    let writer = |_| {
        let (partition_lock, log) = (partition_lock.clone(), log.clone());
        thread::spawn(move || {
            for _ in 0..2 {
                match commit(&partition_lock) {
                    Some(number) => assert!(log.durable.load(SeqCst) >= number),
                    None => assert!(good < u32::MAX, "every sync is good"),
                }
            }
        })
    };
    let mut threads: Vec<_> = (0..4).map(writer).collect();
    threads.extend(OTHERS.map(|other| {
        let partition_lock = partition_lock.clone();
        thread::spawn(move || other(&partition_lock))
    }));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(partition_lock.group.members(), 0);
}

#[test]
fn whoever_shares_a_sync_is_acknowledged_behind_it() {
    for outside in [false, true] {
        let schedules = interleave(400, move || commits_that_share_syncs(outside, u32::MAX));
        println!("{schedules} schedules");
    }
}

#[test]
fn a_sync_that_fails_acknowledges_nobody() {
    for outside in [false, true] {
        for good in 0..3 {
            interleave(150, move || commits_that_share_syncs(outside, good));
        }
    }
}

/// The number of times that two commits have had fewer than two syncs.
static SHARED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

#[test]
fn commits_of_the_same_time_share_syncs() {
    for outside in [false, true] {
        SHARED.store(0, SeqCst);
        let schedules = interleave(200, move || {
            let log = Log::new(u32::MAX);
            let partition_lock = Arc::new(ledger(&log, outside));
            let writer = |_| {
                let partition_lock = partition_lock.clone();
                thread::spawn(move || commit(&partition_lock).expect("a good sync"))
            };
            let threads: Vec<_> = (0..4).map(writer).collect();
            threads.into_iter().for_each(|thread| assert!(thread.join().unwrap() > 0));
            if log.syncs.load(SeqCst) < 4 {
                SHARED.fetch_add(1, SeqCst);
            }
        });
        println!("{} of {schedules} schedules", SHARED.load(SeqCst));
        assert!(SHARED.load(SeqCst) as usize > schedules / 4);
    }
}

/// Leaves a transaction to wait from this time on.
fn leave(waits: &Waits, id: u64, at: Instant) {
    waits.leave(|| at, || Ok::<_, ()>(TxId(id))).unwrap();
}

/// The transactions that are ended at this time.
fn ended(waits: &Waits, at: Instant) -> Vec<TxId> {
    let overdue = waits.overdue(IfTaken::Leave, || at);
    let mut ended = Vec::new();
    for id in overdue {
        waits.end_overdue(id, IfTaken::Leave, || at, || ended.push(id));
    }
    ended
}

fn times() {
    let (start, second) = (Instant::now(), Duration::from_secs(1));
    let waits = Waits::new(Some(10 * second));
    let at = |seconds: u32| start + seconds * second;
    assert!(ended(&waits, at(99)).is_empty(), "nobody waits");
    for (id, seconds) in [(1, 0), (2, 5), (3, 6)] {
        leave(&waits, id, at(seconds));
    }
    assert!(ended(&waits, at(9)).is_empty());
    waits.resume(TxId(2), || Ok::<_, ()>(())).unwrap();
    assert_eq!(ended(&waits, at(10)), [TxId(1)]);
    assert!(ended(&waits, at(15)).is_empty(), "one goes on, and one has a second left");
    leave(&waits, 2, at(15));
    assert_eq!(ended(&waits, at(25)), [TxId(2), TxId(3)]);
    assert!(ended(&waits, at(99)).is_empty());
}

fn no_limit() {
    let (waits, now) = (Waits::new(None), Instant::now());
    leave(&waits, 1, now);
    assert!(ended(&waits, now + Duration::from_secs(1 << 30)).is_empty());
}

#[test]
fn the_time_of_each_counts_from_its_own_moment() {
    interleave(1, times);
}

#[test]
fn without_a_limit_they_wait_for_ever() {
    interleave(1, no_limit);
}

thread_local! {
    /// The seconds that have passed, as the schedule has it.
    static SECONDS: Cell<u32> = const { Cell::new(0) };
}

/// The place of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    /// It waits since then.
    Waits(u32),
    /// A session goes on with it.
    Session,
    Ending,
    Over,
}

/// Two go on with a transaction that waits, and leave it again; it is a moment before its time is
/// over, and then the time is. Two others look for those whose time is over.
fn one_goes_on_as_its_time_is_over() {
    const ID: TxId = TxId(1);
    let start = Instant::now();
    let now = move || start + Duration::from_secs(SECONDS.get().into());
    SECONDS.set(0);
    let waits = Arc::new(Waits::new(Some(Duration::from_secs(10))));
    let at = Arc::new(Mutex::new(At::Waits(0)));
    waits.leave(now, || Ok::<_, ()>(ID)).unwrap();
    let goes_on = || {
        let (waits, at) = (waits.clone(), at.clone());
        thread::spawn(move || {
            let taken = waits.resume(ID, || {
                let mut at = at.lock().unwrap();
                if matches!(*at, At::Waits(_)) {
                    *at = At::Session;
                    return Ok(());
                }
                Err(())
            });
            if taken.is_ok() {
                thread::yield_now();
                let left = waits.leave(now, || {
                    *at.lock().unwrap() = At::Waits(SECONDS.get());
                    Ok::<_, ()>(ID)
                });
                left.unwrap();
            }
        })
    };
    let end = |at: &Mutex<At>| {
        let before = std::mem::replace(&mut *at.lock().unwrap(), At::Ending);
        let At::Waits(left) = before else { panic!("{before:?}") };
        assert!(SECONDS.get() - left >= 10, "it was left at {left}");
        thread::yield_now();
        *at.lock().unwrap() = At::Over;
    };
    let looks = |if_taken| {
        let (waits, at) = (waits.clone(), at.clone());
        thread::spawn(move || {
            for id in waits.overdue(if_taken, now) {
                thread::yield_now();
                waits.end_overdue(id, if_taken, now, || end(&at));
            }
            let found = waits.look(|| *at.lock().unwrap());
            assert_ne!(found, At::Ending, "it is neither there nor over");
            waits.note_all(|| match *at.lock().unwrap() {
                At::Waits(_) => vec![ID],
                _ => Vec::new(),
            });
        })
    };
    let others = [goes_on(), looks(IfTaken::Wait), goes_on(), looks(IfTaken::Leave)];
    for seconds in [9, 10] {
        thread::yield_now();
        SECONDS.set(seconds);
    }
    others.into_iter().for_each(|other| other.join().unwrap());
    // Sooner or later it is ended, if that has not happened yet.
    SECONDS.set(99);
    for id in waits.overdue(IfTaken::Leave, now) {
        waits.end_overdue(id, IfTaken::Leave, now, || end(&at));
    }
    assert_eq!(*at.lock().unwrap(), At::Over);
}

/// A look that does not wait comes to an end while another thread has the latch for ever.
fn one_has_the_latch_for_ever() {
    let (start, over) = (Instant::now(), Instant::now() + Duration::from_secs(1 << 20));
    let waits = Arc::new(Waits::new(Some(Duration::from_secs(10))));
    leave(&waits, 1, start);
    let is_told = Arc::new(sync::AtomicBool::new(false));
    let taker = {
        let (waits, is_told) = (waits.clone(), is_told.clone());
        thread::spawn(move || {
            waits.look(|| {
                while !is_told.load(SeqCst) {
                    thread::yield_now();
                }
            });
        })
    };
    let before = ended(&waits, over);
    is_told.store(true, SeqCst);
    taker.join().unwrap();
    let behind = ended(&waits, over);
    assert_eq!([before, behind].concat(), [TxId(1)], "it is ended once");
}

#[test]
fn whoever_does_not_wait_for_the_times_does_not_hang() {
    interleave(500, one_has_the_latch_for_ever);
}

#[test]
fn a_transaction_that_was_left_in_time_is_not_ended_for_what_it_had_waited_before() {
    let schedules = interleave(2_000, one_goes_on_as_its_time_is_over);
    println!("{schedules} schedules");
}
