//! The NV log: what it keeps across power cuts, which flushes and fences it needs, its room.
//!
//! A note `thread << 32 | n` in a trace says: `n` records of this thread are acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use paged::ids::{Lsn, PageNo, TxNo};
use paged::log::nv::{NvForm, NvLog, NvOptions, Persist};
use paged::log::{Chain, Kind, LogManager, Logged, Record};
use paged::threads::{Baton, Host, Threads, Waiter};
use paged::{PagedError, Result};
use pm::{Memory, Off};
use sim::{Event, Recording, Replay, Trace};

use super::toy::reserve;

type Log<T = Host> = NvLog<Recording, T>;

const ENTRIES: u64 = 64;
const FORM: NvForm =
    NvForm { entries: ENTRIES, segments: 16, segment_bytes: 2048, record_bytes: 512 };
/// The place of the log.
const AT: u64 = 64;
const LIMIT: u64 = 1 << 20;

fn options(persist: Persist) -> NvOptions {
    NvOptions { persist, lanes: 4, checkpoint_records: 24 }
}

fn memory() -> Recording {
    let memory = Recording::new(LIMIT).unwrap();
    memory.grow(AT + FORM.bytes()).unwrap();
    memory
}

fn create_with(memory: &Recording, persist: Persist) -> Log {
    NvLog::create(memory.clone(), AT, FORM, 7, options(persist), Arc::default())
}

fn open_with(memory: &Recording, persist: Persist) -> Result<Log> {
    NvLog::open(memory.clone(), AT, 7, options(persist), Arc::default())
}

fn create(memory: &Recording) -> Log {
    create_with(memory, Persist::OnInsert)
}

fn open(memory: &Recording) -> Result<Log> {
    open_with(memory, Persist::OnInsert)
}

fn change(payload: &[u8]) -> Record<'_> {
    Record { page: PageNo(3), payload, ..Record::bare(Kind::Change) }
}

/// The bytes of the `number`-th record of a thread.
fn payload(thread: u64, number: u64, generation: u8) -> Vec<u8> {
    let mut payload = vec![thread as u8, number as u8, generation];
    payload.extend(
        (0..number * 37 % 200).map(|at| (at * 7 + number + thread * 31) as u8 ^ generation),
    );
    payload
}

fn records(log: &dyn LogManager) -> Vec<Logged> {
    let mut found = Vec::new();
    log.scan(log.start(), &mut |record| {
        found.push(record);
        Ok(())
    })
    .unwrap();
    found
}

#[test]
fn an_appended_record_is_durable_and_read_again() {
    let memory = memory();
    let log = create(&memory);
    let mut chain = Chain::new(TxNo(5));
    let lsns: Vec<Lsn> = (0..8)
        .map(|n| log.append(&mut chain, &change(&vec![n; 60 * n as usize])).unwrap())
        .collect();
    assert_eq!(lsns, (1..9).map(Lsn).collect::<Vec<_>>());
    assert_eq!((log.durable(), log.end()), (Lsn(8), Lsn(9)));
    let check = |log: &Log| {
        for (n, lsn) in lsns.iter().enumerate() {
            let read = log.read(*lsn).unwrap();
            assert_eq!((read.payload, read.tx), (vec![n as u8; 60 * n], TxNo(5)));
            assert_eq!(read.prev, n.checked_sub(1).map_or(Lsn::NONE, |before| lsns[before]));
        }
        assert!(log.read(Lsn(9)).is_err() && log.read(Lsn(1 + ENTRIES)).is_err());
    };
    check(&log);
    drop(log);
    let log = open(&memory).unwrap();
    check(&log);
    assert_eq!(log.end(), Lsn(9));
    assert_eq!(records(&log).len(), 8);
}

#[test]
fn the_ring_and_the_segments_are_used_round_after_round() {
    let memory = memory();
    let mut log = create(&memory);
    let mut kept: Vec<(Lsn, usize)> = Vec::new();
    for round in 0..1000_u64 {
        let bytes = (round * 97 % 440) as usize;
        let lsn = log.append(&mut Chain::default(), &change(&vec![round as u8; bytes])).unwrap();
        kept.push((lsn, bytes));
        if round % 13 == 12 {
            log.truncate(lsn, lsn).unwrap();
            kept.retain(|(at, _)| *at >= lsn);
        }
        if round % 7 == 3 {
            // Again and again: a restart leaves no segment half used for ever.
            drop(log);
            log = open(&memory).unwrap();
            let found: Vec<_> =
                records(&log).iter().map(|read| (read.lsn, read.payload.len())).collect();
            assert_eq!(found, kept, "round {round}");
        }
    }
    assert!(log.end() > Lsn(10 * ENTRIES), "more than ten rounds");
}

#[test]
fn a_full_log_lets_every_transaction_be_undone() {
    for bytes in [0_usize, 40, 150, 430] {
        let log = create(&memory());
        let mut chains: Vec<Chain> = (1..=5).map(|tx| Chain::new(TxNo(tx))).collect();
        let mut changes = Vec::new();
        let refused = 'full: loop {
            for (number, chain) in chains.iter_mut().enumerate() {
                match log.append(chain, &change(&vec![9; bytes])) {
                    Ok(_) => changes.push(number),
                    Err(error) => break 'full error,
                }
            }
        };
        assert!(matches!(refused, PagedError::LogFull { .. }), "{refused}");
        assert!(changes.len() > 8, "{}", changes.len());
        log.append(&mut Chain::default(), &Record::bare(Kind::CheckpointBegin)).unwrap();
        while let Some(number) = changes.pop() {
            let payload = vec![9; bytes];
            let undo = Record { kind: Kind::Compensation, ..change(&payload) };
            log.append(&mut chains[number], &undo).unwrap();
        }
        for chain in &mut chains {
            log.append(chain, &Record::bare(Kind::Abort)).unwrap();
            log.append(chain, &Record::bare(Kind::End)).unwrap();
            assert_eq!((chain.aside, chain.ahead), (0, 0));
        }
    }
}

#[test]
fn a_transaction_over_half_of_the_log_is_refused() {
    let log = create(&memory());
    let mut chain = Chain::new(TxNo(1));
    let refused = loop {
        if let Err(error) = log.append(&mut chain, &change(&[9; 10])) {
            break error;
        }
    };
    assert!(matches!(refused, PagedError::TransactionTooLarge { .. }), "{refused}");
    let refused = log.append(&mut chain, &change(&[9; 449])).unwrap_err();
    assert!(matches!(refused, PagedError::TooLarge { bytes: 576, most: 512, .. }), "{refused}");
}

#[test]
fn writers_wait_while_a_checkpoint_makes_room() {
    for seed in 0..20 {
        let baton = Arc::new(Baton::new(seed));
        let log: Log<Baton> =
            NvLog::create(memory(), AT, FORM, 7, options(Persist::OnInsert), Arc::clone(&baton));
        let daemon = Arc::new(Waiter::default());
        log.attend(Arc::clone(&daemon));
        let (left, freed) = (AtomicU64::new(3), AtomicU64::new(0));
        baton.run(4, |thread| {
            if thread == 3 {
                while left.load(Ordering::Relaxed) > 0 {
                    baton.park(&daemon, Some(baton.now() + Duration::from_millis(5)));
                    if log.is_due() {
                        let begin = Record::bare(Kind::CheckpointBegin);
                        let start = log.append(&mut Chain::default(), &begin).unwrap();
                        log.truncate(start, start).unwrap();
                        freed.fetch_add(1, Ordering::Relaxed);
                    }
                }
                return;
            }
            for round in 0..60 {
                let mut chain = Chain::new(TxNo(thread as u64 * 1000 + round + 1));
                reserve(&log, &*baton, &mut chain, 300);
                log.append(&mut chain, &change(&[7; 200])).unwrap();
                let at = log.commit(&mut chain).unwrap();
                assert!(log.durable() >= at);
            }
            left.fetch_sub(1, Ordering::Relaxed);
            baton.wake(&daemon);
        });
        assert!(freed.load(Ordering::Relaxed) >= 4, "360 records are many times the ring");
    }
}

#[test]
fn the_log_of_another_database_is_refused() {
    let memory = memory();
    drop(create(&memory));
    let refused = |stamp, persist| -> String {
        let host = Arc::new(Host::default());
        NvLog::open(memory.clone(), AT, stamp, options(persist), host).unwrap_err().to_string()
    };
    assert!(refused(8, Persist::OnInsert).contains("another database"));
    assert!(refused(7, Persist::OnCommit).contains("another form"));
    for (word, bit) in (0..8).flat_map(|word| (0..64).map(move |bit| (word, bit))) {
        let at = Off::new(AT + word * 8);
        let was = memory.load(at, Ordering::Relaxed).unwrap();
        for changed in [!was, was ^ 1 << bit] {
            memory.store(at, changed);
            let refused = open(&memory).unwrap_err().to_string();
            let version = refused.contains("version") || refused.contains("another");
            assert!(refused.contains("damaged") || version, "word {word}: {refused}");
        }
        memory.store(at, was);
    }
    let short = Recording::new(LIMIT).unwrap();
    short.grow(AT + 4096).unwrap();
    for word in 0..8 {
        let at = Off::new(AT + word * 8);
        short.store(at, memory.load(at, Ordering::Relaxed).unwrap());
    }
    let refused = open(&short).unwrap_err().to_string();
    assert!(refused.contains("damaged"), "{refused}");
}

/// TPC-B's four changes and a commit (P2-F12): one fence a record.
#[test]
fn a_transaction_of_four_changes_has_five_fences() {
    let memory = memory();
    let log = create(&memory);
    memory.start();
    let mut chain = Chain::new(TxNo(1));
    for _ in 0..4 {
        log.append(&mut chain, &change(&[1; 128])).unwrap();
    }
    log.commit(&mut chain).unwrap();
    let counters = memory.stop().counters();
    assert_eq!((counters.fences, counters.flushed_lines), (5, 4 * 4 + 2));
}

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
                    return Err(format!("thread {thread}: {number} behind {before}"));
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
fn threads_that_append_at_once_leave_holes_that_nobody_has_seen() {
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
fn a_record_that_was_lost_does_not_come_back_when_its_lsn_is_given_again() {
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
fn a_hole_stays_one_whatever_lies_where_its_entry_leads() {
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

/// With flush-on-commit and no persister, all of a transaction is made durable at once (P2-F12).
#[test]
fn a_transaction_of_four_changes_has_one_fence_with_flush_on_commit() {
    let memory = memory();
    let log = create_with(&memory, Persist::OnCommit);
    memory.start();
    let mut chain = Chain::new(TxNo(1));
    for _ in 0..4 {
        log.append(&mut chain, &change(&[1; 128])).unwrap();
    }
    let at = log.commit(&mut chain).unwrap();
    assert_eq!((log.durable(), log.end()), (Lsn::NONE, Lsn(6)));
    log.force(at).unwrap();
    let counters = memory.stop().counters();
    assert_eq!((counters.fences, counters.flushed_lines, log.durable()), (1, 4 * 4 + 2, at));
    // The persister has done it all before: the commit has its own record to write.
    for _ in 0..4 {
        log.append(&mut chain, &change(&[1; 128])).unwrap();
    }
    log.persist_some().unwrap();
    memory.start();
    let at = log.commit(&mut chain).unwrap();
    log.force(at).unwrap();
    let counters = memory.stop().counters();
    assert_eq!((counters.fences, counters.flushed_lines), (1, 2));
    assert_eq!(log.read(Lsn(8)).unwrap().payload, [1; 128]);
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

#[test]
fn threads_of_the_system_commit_with_a_persister_beside_them() {
    let form = NvForm { entries: 4096, segments: 40, segment_bytes: 16_384, record_bytes: 512 };
    let memory = pm::Dram::new(1 << 20).unwrap();
    memory.grow(1 << 20).unwrap();
    let options = NvOptions { lanes: 8, ..options(Persist::OnCommit) };
    let log = NvLog::create(memory, AT, form, 7, options, Arc::new(Host::default()));
    let (stop, waiter) = (std::sync::atomic::AtomicBool::new(false), Arc::new(Waiter::default()));
    std::thread::scope(|scope| {
        let persister =
            scope.spawn(|| log.serve(&waiter, Duration::from_micros(50), &stop).unwrap());
        let workers: Vec<_> = (0..4_u64)
            .map(|thread| {
                let log = &log;
                scope.spawn(move || {
                    for round in 0..200 {
                        let mut chain = Chain::new(TxNo(thread * 1000 + round + 1));
                        log.append(&mut chain, &change(&[7; 40])).unwrap();
                        let at = log.commit(&mut chain).unwrap();
                        log.force(at).unwrap();
                        assert!(log.durable() >= at);
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.join().unwrap();
        }
        stop.store(true, Ordering::Release);
        Host::default().wake(&waiter);
        persister.join().unwrap();
    });
    assert_eq!((log.durable(), records(&log).len()), (Lsn(1600), 1600));
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

/// A record for each line would be more than the ring has entries: a large value has records of many lines.
#[test]
fn a_large_value_reserves_no_more_records_than_a_transaction_may_have() {
    const VALUE: usize = 3000;
    for persist in [Persist::OnInsert, Persist::OnCommit] {
        let log = create_with(&memory(), persist);
        for tx in 1..=ENTRIES {
            let (mut large, mut small) = (Chain::new(TxNo(2 * tx)), Chain::new(TxNo(2 * tx + 1)));
            log.reserve(&mut large, VALUE as u64).unwrap();
            for part in [tx as u8; VALUE].chunks(400) {
                log.append(&mut large, &change(part)).unwrap();
            }
            log.unreserve(&mut large);
            // The records that were not needed are there for others.
            log.reserve(&mut small, 200).unwrap();
            log.append(&mut small, &change(&[1; 200])).unwrap();
            log.commit(&mut small).unwrap();
            let end = log.commit(&mut large).unwrap();
            log.force(end).unwrap();
            log.truncate(end, end).unwrap();
        }
    }
}

/// So that a checkpoint is due when many programs have died before theirs.
#[test]
fn a_restart_counts_what_it_has_read_as_consumed() {
    for persist in [Persist::OnInsert, Persist::OnCommit] {
        let memory = memory();
        let log = create_with(&memory, persist);
        for part in 0..3 {
            let log = if part == 0 { &log } else { &open_with(&memory, persist).unwrap() };
            assert_eq!(log.consumed(), 5 * part, "{persist:?}");
            let mut chain = Chain::new(TxNo(part + 1));
            for _ in 0..4 {
                log.append(&mut chain, &change(&[1; 90])).unwrap();
            }
            let end = log.commit(&mut chain).unwrap();
            log.force(end).unwrap();
        }
    }
}
