//! Commits that share syncs.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use engines::EngineError;
use shuttle::thread;

use crate::partition_lock::PartitionLock;
use crate::sharing::Syncs;
use crate::sync::{AtomicU32, AtomicU64, Mutex};
use crate::{PATIENCE, interleave};

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
    syncing: Mutex<()>,
    syncs: AtomicU32,
    /// Syncs that succeed before all fail.
    good: u32,
}

impl Log {
    fn new(good: u32) -> Arc<Self> {
        let (ended, durable) = (AtomicU64::new(0), AtomicU64::new(0));
        let (syncing, syncs) = (Mutex::new(()), AtomicU32::new(0));
        Arc::new(Self { ended, durable, syncing, syncs, good })
    }

    fn make_durable(&self) -> Result<u64, EngineError> {
        let _one = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
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
fn commits_are_acknowledged_after_the_shared_sync() {
    for outside in [false, true] {
        let schedules = interleave(400, move || commits_that_share_syncs(outside, u32::MAX));
        println!("{schedules} schedules");
    }
}

#[test]
fn a_sync_that_fails_acknowledges_no_commit() {
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
