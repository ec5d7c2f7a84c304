//! Who has a partition when, and what wakes the thread in the background, under a scheduler that
//! chooses the interleaving. The sources are those of the crate, compiled a second time over the
//! scheduler's locks. A waiter that nobody wakes is a deadlock, which the scheduler reports.

#![expect(dead_code, reason = "modules of a crate, compiled into a test")]

#[path = "../src/bell.rs"]
mod bell;
#[path = "../src/turns.rs"]
mod turns;
mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU32};
    pub(crate) use shuttle::sync::{
        Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    };
    pub(crate) use shuttle::thread::yield_now;
}

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner, thread};

use crate::bell::Bell;
use crate::sync::AtomicU32;
use crate::turns::Turns;

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

/// What is in a partition: work that waits, and work that was done.
#[derive(Default)]
struct Partition {
    backlog: u32,
    commits: u32,
    steps: u32,
}

/// The loop of the thread in the background.
fn work(partitions: &[Turns<Partition>], bell: &Bell) {
    while !bell.is_stopped() {
        let mut idle = true;
        for partition in partitions {
            if partition.read().backlog > 0 {
                partition.step(|partition| {
                    partition.backlog -= 1;
                    partition.steps += 1;
                });
                idle = false;
            }
        }
        if idle {
            bell.sleep(|| partitions.iter().any(|partition| partition.read().backlog > 0));
        }
    }
}

/// Two writers leave work in two partitions, a reader looks, and the thread does all of the work.
/// `early`: the bell is rung before the work is there, which is wrong.
fn writers_and_the_thread(early: bool) {
    let partitions: Arc<[Turns<Partition>]> =
        (0..2).map(|_| Turns::new(Partition::default())).collect();
    let bell = Arc::new(Bell::default());
    let worker = {
        let (partitions, bell) = (partitions.clone(), bell.clone());
        thread::spawn(move || work(&partitions, &bell))
    };
    let writers: Vec<_> = (0..2usize)
        .map(|number| {
            let (partitions, bell) = (partitions.clone(), bell.clone());
            thread::spawn(move || {
                for round in 0..3 {
                    if early {
                        bell.ring();
                    }
                    let mut partition = partitions[(number + round) % 2].write();
                    partition.commits += 1;
                    partition.backlog += 1;
                    if !early {
                        bell.ring();
                    }
                }
            })
        })
        .collect();
    for partition in &*partitions {
        let seen = partition.read();
        assert_eq!(seen.commits, seen.backlog + seen.steps);
    }
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    // Nobody rings any more: what was rung for is done, or the scheduler sees that nothing is left
    // to run but this loop.
    for _ in 0..2_000 {
        if partitions.iter().all(|partition| partition.read().backlog == 0) {
            break;
        }
        thread::yield_now();
    }
    for partition in &*partitions {
        let seen = partition.read();
        assert_eq!((seen.commits, seen.backlog), (3, 0), "the thread sleeps through a bell");
    }
    bell.stop();
    worker.join().unwrap();
}

#[test]
fn no_bell_is_slept_through_and_every_thread_ends() {
    let schedules = interleave(800, || writers_and_the_thread(false));
    println!("{schedules} schedules");
}

/// The test above sees a bell that is rung too early.
#[test]
fn a_bell_that_is_rung_too_early_is_slept_through() {
    let found = catch_unwind(AssertUnwindSafe(|| interleave(800, || writers_and_the_thread(true))));
    assert!(found.is_err());
}

/// A writer that finds the partition taken by the thread waits for one step, although the thread
/// always has more to do.
fn a_writer_beside_a_busy_thread() {
    let turns = Arc::new(Turns::new(0u32));
    let stop = Arc::new(AtomicU32::new(0));
    let worker = {
        let (turns, stop) = (turns.clone(), stop.clone());
        thread::spawn(move || {
            let mut last = None;
            while stop.load(SeqCst) == 0 {
                let queue = turns.queue();
                assert!(queue.is_none() || queue != last, "a second step before who waits");
                last = queue;
                turns.step(|steps| *steps += 1);
                thread::yield_now();
            }
        })
    };
    for _ in 0..3 {
        drop(turns.write());
        drop(turns.read());
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
    let turns = Arc::new(Turns::new(0u32));
    let spawn = |act: fn(&Turns<u32>)| {
        let turns = turns.clone();
        thread::spawn(move || act(&turns))
    };
    let others = [
        spawn(|turns| (0..3).for_each(|_| turns.step(|steps| *steps += 1))),
        spawn(|turns| *turns.write() += 1),
        spawn(|turns| assert!(*turns.read() <= 6)),
    ];
    let mut owned = Some(turns.write());
    for _ in 0..4 {
        if turns.is_wanted() {
            drop(owned.take());
            turns.let_in();
            owned = Some(turns.write());
        }
        thread::yield_now();
    }
    drop(owned);
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(*turns.read(), 4);
}

#[test]
fn an_owner_who_lets_the_thread_in_goes_on() {
    let schedules = interleave(600, an_owner_lets_the_thread_in);
    println!("{schedules} schedules");
}
