//! The NV log under power cuts and kills: what it keeps, which flushes and fences it needs.
//!
//! A note `thread << 32 | n` in a trace says: `n` records of this thread are acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use paged::ids::{Lsn, TxNo};
use paged::log::nv::{NvLog, Persist};
use paged::log::{Chain, Kind, LogManager};
use paged::threads::{Baton, Threads};
use pm::{Memory, Off};
use sim::{Event, Recording, Replay, Trace};

use super::nv::{
    AT, FORM, LIMIT, Log, change, create, create_with, memory, open, open_with, options, payload,
    records,
};

/// The notes before an event: for each thread the number of its acknowledged records.
fn acknowledged(trace: &Trace, position: usize) -> BTreeMap<u64, u64> {
    let notes = trace.events[..position].iter().filter_map(|recorded| match recorded.event {
        Event::Note(note) => Some((note >> 32, note & u64::from(u32::MAX))),
        _ => None,
    });
    notes.collect()
}

#[derive(Default, Debug)]
struct Explored {
    states: u64,
    failures: u64,
    holes: u64,
    first: Option<String>,
}

/// Opens each state of a trace, from the first note on, and checks what is found.
fn explore(trace: &Trace, bound: u64, persist: Persist) -> Explored {
    let mut explored = Explored::default();
    let mut replay = Replay::new(trace);
    while let Some(point) = replay.next_point() {
        let position = point.position;
        let promised = acknowledged(trace, position);
        let mut check = |image: &[u8]| -> std::result::Result<(), String> {
            if promised.is_empty() {
                return Ok(());
            }
            let memory = Recording::from_image(image, LIMIT).unwrap();
            let log = open_with(&memory, persist).map_err(|error| error.to_string())?;
            let found = records(&log);
            let (mut newest, mut last): (BTreeMap<u64, u64>, _) =
                (BTreeMap::new(), Lsn(log.start().0 - 1));
            for record in found.iter().filter(|record| record.kind == Kind::Change) {
                explored.holes += record.lsn.0 - last.0 - 1;
                if record.payload[2] == OLD {
                    return Err(format!("{record:?} is of an earlier log"));
                }
                last = record.lsn;
                let (thread, number) = (u64::from(record.payload[0]), u64::from(record.payload[1]));
                if record.payload != payload(thread, number, record.payload[2]) {
                    return Err(format!("{record:?} was never appended"));
                }
                if let Some(before) = newest.insert(thread, number)
                    && number != before + 1
                {
                    return Err(format!("thread {thread}: {number} after {before}"));
                }
            }
            for (thread, count) in &promised {
                let next = newest.get(thread).map_or(0, |newest| newest + 1);
                if next < *count {
                    return Err(format!("thread {thread}: {next} records of {count}"));
                }
            }
            let at = log.append(&mut Chain::default(), &change(&payload(99, 1, 1)));
            let at = at.map_err(|error| error.to_string())?;
            log.force(at).map_err(|error| error.to_string())?;
            drop(log);
            let opened = open_with(&memory, persist).map_err(|error| error.to_string())?;
            let again = records(&opened);
            if again.len() != found.len() + 1 || again.last().is_none_or(|last| last.lsn != at) {
                return Err("what was appended after a restart is not there".into());
            }
            Ok(())
        };
        let mut states = 0;
        let (mut failures, mut first) = (0, None);
        point.for_each_state(bound, 42, |image| {
            states += 1;
            if let Err(why) = check(image) {
                failures += 1;
                first.get_or_insert(format!("before event {position}: {why}"));
            }
        });
        explored.states += states;
        explored.failures += failures;
        explored.first = explored.first.take().or(first);
    }
    explored
}

/// The generation of an earlier log in the same memory.
const OLD: u8 = 3;

/// Memory in which a log of another database was.
fn memory_with_an_old_log(persist: Persist) -> Recording {
    let memory = memory();
    let old: Log = NvLog::create(memory.clone(), AT, FORM, 8, options(persist), Arc::default());
    for number in 0..50 {
        old.append(&mut Chain::default(), &change(&payload(0, number, OLD))).unwrap();
    }
    old.force(Lsn(50)).unwrap();
    memory
}

/// One thread, several rounds of the ring, truncations.
fn trace_of_one() -> Trace {
    let memory = memory_with_an_old_log(Persist::OnInsert);
    memory.start();
    let log = create(&memory);
    memory.note(0);
    for number in 0..150 {
        let at = log.append(&mut Chain::default(), &change(&payload(0, number, 0))).unwrap();
        memory.note(number + 1);
        if number % 20 == 19 {
            log.truncate(at, at).unwrap();
        }
    }
    memory.stop()
}

#[test]
fn every_acknowledged_record_survives_a_power_cut() {
    let explored = explore(&trace_of_one(), 40, Persist::OnInsert);
    println!("{} states", explored.states);
    assert_eq!(explored.first, None);
    assert!(explored.states > 3_000);
}

#[test]
fn every_flush_and_every_fence_left_out_is_noticed() {
    let trace = trace_of_one();
    for site in trace.flush_sites() {
        let explored = explore(&trace.without_flushes_of(site), 12, Persist::OnInsert);
        println!("flush {site}: {:?}", explored.first);
        let unseen = NEEDED_NOT.iter().any(|file| site.file().ends_with(file));
        // The ring is cleared when a log is made: the marks of its objects make up for it.
        let ring = site.file().ends_with("nv/mod.rs");
        assert!(explored.failures > 0 || unseen || ring, "flush {site}");
    }
    for site in trace.fence_sites() {
        let explored = explore(&trace.without_fences_of(site), 12, Persist::OnInsert);
        println!("fence {site}: {:?}", explored.first);
        let unseen = NEEDED_NOT.iter().any(|file| site.file().ends_with(file));
        assert!(explored.failures > 0 || unseen, "fence {site}");
    }
}

/// The clearing of entries that the head has passed: their round's number makes up for it.
const NEEDED_NOT: [&str; 1] = ["ring.rs"];

#[test]
fn concurrent_appends_leave_only_unseen_holes() {
    let (mut states, mut holes) = (0, 0);
    for seed in 0..12 {
        let baton = Arc::new(Baton::new(seed));
        let memory = memory_with_an_old_log(Persist::OnInsert);
        let hooked = Arc::clone(&baton);
        memory.call_before_each(move |_| hooked.point());
        memory.start();
        let options = options(Persist::OnInsert);
        let log: Log<Baton> =
            NvLog::create(memory.clone(), AT, FORM, 7, options, Arc::clone(&baton));
        memory.note(0);
        baton.run(3, |thread| {
            sim::record_as(Some(thread as u32));
            for number in 0..6 {
                let payload = payload(thread as u64, number, 0);
                log.append(&mut Chain::default(), &change(&payload)).unwrap();
                memory.note((thread as u64) << 32 | (number + 1));
            }
        });
        let trace = memory.stop();
        let explored = explore(&trace, 60, Persist::OnInsert);
        assert_eq!(explored.first, None, "seed {seed}");
        states += explored.states;
        holes += explored.holes;
    }
    println!("{states} states, {holes} holes");
    assert!(states > 2_000 && holes > 50);
}

/// Two records reach their places in part; their LSNs are given again after a restart.
#[test]
fn a_lost_record_does_not_come_back_under_its_lsn() {
    let memory = memory();
    memory.start();
    let log = create(&memory);
    log.append(&mut Chain::default(), &change(&payload(0, 0, 0))).unwrap();
    memory.note(1);
    log.append(&mut Chain::default(), &change(&payload(0, 1, 0))).unwrap();
    let mut trace = memory.stop();
    let last = trace.events.iter().rposition(|r| matches!(r.event, Event::Fence)).unwrap();
    trace.events.truncate(last);
    let (mut states, mut lost) = (0, 0);
    let mut replay = Replay::new(&trace);
    while let Some(point) = replay.next_point() {
        if point.last_note != Some(1) {
            continue;
        }
        point.for_each_state(200, 1, |image| {
            let memory = Recording::from_image(image, LIMIT).unwrap();
            memory.start();
            let log = open(&memory).unwrap();
            let old = records(&log).len();
            lost += u64::from(old == 1);
            memory.note(1);
            for number in old as u64..4 {
                log.append(&mut Chain::default(), &change(&payload(0, number, 1))).unwrap();
            }
            let trace = memory.stop();
            let mut replay = Replay::new(&trace);
            while let Some(point) = replay.next_point() {
                point.for_each_state(12, 1, |image| {
                    states += 1;
                    let memory = Recording::from_image(image, LIMIT).unwrap();
                    let log = open(&memory).unwrap();
                    for (number, record) in records(&log).iter().enumerate() {
                        let generation = u8::from(number >= old);
                        assert_eq!(record.payload, payload(0, number as u64, generation));
                    }
                });
            }
        });
    }
    println!("{states} states, {lost} with a lost record");
    assert!(states > 500 && lost > 10);
}

/// A record is lost but for its object, its LSN is given again, and then the new object is lost but for
/// its entry, which leads to the old one.
#[test]
fn a_hole_stays_a_hole() {
    let memory = memory();
    // The entry of LSN 2 in the ring, which follows the head.
    let entry = Off::<u64>::new(AT + 64 + 2 * 64);
    let append = |log: &Log, number, generation| {
        let payload = payload(0, number, generation);
        // A change of a transaction, which says of no other that it was durable.
        log.append(&mut Chain::new(TxNo(number + 1)), &change(&payload)).unwrap()
    };
    let place = || (memory.load(entry, Ordering::Relaxed).unwrap() & u64::from(u32::MAX)) * 64;
    let log = create(&memory);
    assert_eq!((append(&log, 0, 0), append(&log, 1, 0)), (Lsn(1), Lsn(2)));
    let (at, mut old) = (place(), [0; 128]);
    memory.read_into(Off::new(at), &mut old).unwrap();
    memory.store(entry, 0);
    drop(log);
    let log = open(&memory).unwrap();
    assert_eq!((append(&log, 1, 1), append(&log, 2, 1), place()), (Lsn(2), Lsn(3), at));
    memory.copy(Off::new(at), &old);
    drop(log);
    for round in 0..3 {
        memory.start();
        let log = open(&memory).unwrap();
        let line = entry.get() / 64;
        let marked = memory.stop().events.into_iter().filter(|one| match one.event {
            Event::Flush { first, end } => (first..end).contains(&line),
            _ => false,
        });
        let marked = marked.count();
        assert_eq!(marked, usize::from(round == 0), "a mark is made durable once");
        let found: Vec<_> = records(&log).iter().map(|record| record.lsn).collect();
        assert_eq!(found, [Lsn(1), Lsn(3)]);
    }
}

/// One thread with flush-on-commit: groups of several sizes, reads of what is not durable, truncations.
fn trace_on_commit() -> Trace {
    let memory = memory_with_an_old_log(Persist::OnCommit);
    memory.start();
    let log = create_with(&memory, Persist::OnCommit);
    memory.note(0);
    for number in 0..150 {
        let at = log.append(&mut Chain::default(), &change(&payload(0, number, 0))).unwrap();
        if number % 3 == 2 || number % 7 == 6 {
            log.force(at).unwrap();
            memory.note(number + 1);
        }
        if number % 20 == 19 {
            log.truncate(at, at).unwrap();
            memory.note(number + 1);
        }
    }
    memory.stop()
}

#[test]
fn with_flush_on_commit_a_prefix_survives_a_power_cut() {
    let trace = trace_on_commit();
    let explored = explore(&trace, 60, Persist::OnCommit);
    println!("{} states", explored.states);
    assert_eq!((explored.first, explored.holes), (None, 0));
    assert!(explored.states > 3_000);
    for site in trace.flush_sites() {
        let explored = explore(&trace.without_flushes_of(site), 12, Persist::OnCommit);
        let unseen = NEEDED_NOT.iter().any(|file| site.file().ends_with(file));
        // The ring is cleared when a log is made: the marks of its objects make up for it.
        let ring = site.file().ends_with("nv/mod.rs");
        assert!(explored.failures > 0 || unseen || ring, "flush {site}");
    }
    for site in trace.fence_sites() {
        let explored = explore(&trace.without_fences_of(site), 12, Persist::OnCommit);
        let unseen = NEEDED_NOT.iter().any(|file| site.file().ends_with(file));
        assert!(explored.failures > 0 || unseen, "fence {site}");
    }
}

#[test]
fn threads_and_a_persister_make_a_prefix_durable() {
    let mut states = 0;
    for seed in 0..12 {
        let baton = Arc::new(Baton::new(seed));
        let memory = memory();
        let hooked = Arc::clone(&baton);
        memory.call_before_each(move |_| hooked.point());
        memory.start();
        let options = options(Persist::OnCommit);
        let log: Log<Baton> =
            NvLog::create(memory.clone(), AT, FORM, 7, options, Arc::clone(&baton));
        memory.note(0);
        let left = AtomicU64::new(3);
        baton.run(4, |thread| {
            sim::record_as(Some(thread as u32));
            if thread == 3 {
                while left.load(Ordering::Relaxed) > 0 {
                    log.persist_some().unwrap();
                    baton.point();
                }
                return;
            }
            for number in 0..6 {
                let payload = payload(thread as u64, number, 0);
                let at = log.append(&mut Chain::default(), &change(&payload)).unwrap();
                if number % 2 == 1 {
                    log.force(at).unwrap();
                    memory.note((thread as u64) << 32 | (number + 1));
                }
            }
            left.fetch_sub(1, Ordering::Relaxed);
        });
        assert_eq!(log.durable(), Lsn(18));
        let explored = explore(&memory.stop(), 60, Persist::OnCommit);
        assert_eq!((explored.first, explored.holes), (None, 0), "seed {seed}");
        states += explored.states;
    }
    println!("{states} states");
    assert!(states > 1_500);
}

/// A program is killed at its `calls`-th call to the memory after three acknowledged records, its
/// successor reads the log, and then the power fails. Returns the trace, the number of records that the
/// successor has read, all of which count as promised, and that of the events before it.
fn killed_then_cut(persist: Persist, calls: u64) -> (Trace, usize, usize) {
    let memory = memory();
    let left = Arc::new(AtomicU64::new(u64::MAX));
    let counted = Arc::clone(&left);
    memory.call_before_each(move |_| {
        assert_ne!(counted.fetch_sub(1, Ordering::Relaxed), 1, "killed");
    });
    memory.start();
    let log = create_with(&memory, persist);
    for number in 0..3 {
        let at = log.append(&mut Chain::default(), &change(&payload(0, number, 0))).unwrap();
        log.force(at).unwrap();
    }
    memory.note(3);
    left.store(calls, Ordering::Relaxed);
    let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let at = log.append(&mut Chain::default(), &change(&payload(0, 3, 0))).unwrap();
        log.force(at).unwrap();
    }));
    left.store(u64::MAX, Ordering::Relaxed);
    assert!(killed.is_err(), "five calls make a record durable");
    let before = memory.stop();
    let (image, mut events) = (before.image, before.events);
    let count = events.len();
    // The same memory goes on: what is in the caches is still there, and not durable.
    memory.start();
    // Its successor's fences cover nothing of what it has flushed.
    sim::record_as(Some(1_000_000));
    let found = records(&open_with(&memory, persist).unwrap()).len();
    sim::record_as(None);
    memory.note(found as u64);
    events.extend(memory.stop().events);
    (Trace { image, events }, found, count)
}

#[test]
fn what_a_restart_has_read_after_a_kill_is_durable() {
    for persist in [Persist::OnInsert, Persist::OnCommit] {
        let mut kept = 0;
        let mut noticed: BTreeMap<u32, bool> = BTreeMap::new();
        for calls in 1..=5 {
            let (trace, found, before) = killed_then_cut(persist, calls);
            kept += found - 3;
            let explored = explore(&trace, 60, persist);
            assert_eq!(explored.first, None, "{persist:?}, killed at call {calls}");
            // The flushes of what was found, without which it could be lost again.
            let restart: Vec<_> = trace.events[before..]
                .iter()
                .filter(|recorded| matches!(recorded.event, Event::Flush { .. }))
                .map(|recorded| recorded.site)
                .collect();
            for site in restart {
                let faulty = explore(&trace.without_flushes_of(site), 60, persist);
                *noticed.entry(site.line()).or_default() |= faulty.failures > 0;
            }
        }
        println!("{persist:?}: {kept} kept, {noticed:?}");
        assert_eq!(kept, 2, "at the flush of the entry, and at the fence");
        let needed = noticed.values().filter(|noticed| **noticed).count();
        assert!(needed >= 2, "object and entry: {noticed:?}");
    }
}
