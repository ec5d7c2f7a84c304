//! Writers, readers, copies and the thread in the background at the lock of a partition.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use shuttle::thread;

use crate::holder::Holder;
use crate::partition_lock::{PartitionLock, Taken};
use crate::sync::{AtomicU32, MOST_PASSES};
use crate::wakeup::Wakeup;
use crate::{PATIENCE, interleave};

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
fn a_writer_and_a_busy_thread() {
    let partition_lock = Arc::new(PartitionLock::new(0u32, PATIENCE, None));
    let stop = Arc::new(AtomicU32::new(0));
    let worker = {
        let (partition_lock, stop) = (partition_lock.clone(), stop.clone());
        thread::spawn(move || {
            let mut last = None;
            while stop.load(SeqCst) == 0 {
                let queue = partition_lock.queue();
                assert!(queue.is_none() || queue != last, "a second step before a waiting thread");
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
    let schedules = interleave(300, a_writer_and_a_busy_thread);
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
fn a_reader_during_a_copy() {
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
    let schedules = interleave(600, a_reader_during_a_copy);
    println!("{schedules} schedules");
}

/// A thread comes to copy while a writer waits for a reader, and readers came before it.
fn a_copy_after_a_writer() {
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
fn a_thread_that_reads_already_waits_for_no_writer() {
    let schedules = interleave(600, a_copy_after_a_writer);
    println!("{schedules} schedules");
}

/// A thread reads until so many others have been there; a writer waits.
fn readers_after_a_writer_that_waits(readers: u32) {
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
fn a_long_read_stalls_no_reader_after_a_waiting_writer() {
    let schedules = interleave(300, || readers_after_a_writer_that_waits(MOST_PASSES));
    println!("{schedules} schedules");
}

/// One more reader would let the writer wait for ever: it waits itself, here for a reader that
/// waits for it.
#[test]
fn few_readers_pass_a_writer() {
    let found = catch_unwind(AssertUnwindSafe(|| {
        interleave(300, || readers_after_a_writer_that_waits(MOST_PASSES + 1))
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

/// Two threads want what the other one has. `copies`: one of them wants to copy it.
fn crossing(copies: bool) {
    let partitions: Arc<[_; 2]> =
        Arc::new([0; 2].map(|zero| PartitionLock::new(zero, PATIENCE, None)));
    let cross = move |partitions: &[PartitionLock<i32>; 2], mine: usize| {
        let _mine = partitions[mine].write_for(PATIENCE)?;
        if copies && mine == 0 {
            partitions[1].copy(Some(PATIENCE)).map(drop)
        } else {
            partitions[1 - mine].write().map(drop)
        }
    };
    let other = {
        let partitions = partitions.clone();
        thread::spawn(move || cross(&partitions, 1))
    };
    let ends = [cross(&partitions, 0), other.join().unwrap()];
    for (end, also) in ends.iter().zip([Holder::Writer, Holder::Copy]) {
        let known = match end {
            Ok(()) | Err(Taken::Busy(Holder::Writer)) => true,
            Err(Taken::Busy(by)) => copies && *by == also,
            Err(Taken::Nested) => false,
        };
        assert!(known, "{ends:?}");
    }
}

#[test]
fn a_thread_that_gives_up_names_the_one_that_had_the_partition() {
    interleave(2_000, || crossing(false));
    interleave(2_000, || crossing(true));
}
