//! The NV log without crashes: its room, rounds, flushes and fences, and what is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use paged::ids::{Lsn, PageNo, TxNo};
use paged::log::nv::{NvForm, NvLog, NvOptions, Persist};
use paged::log::{Chain, Kind, LogManager, Logged, Record};
use paged::threads::{Baton, Host, Threads, Waiter};
use paged::{PagedError, Result};
use pm::{Memory, Off};
use sim::Recording;

use super::toy::reserve;

pub(super) type Log<T = Host> = NvLog<Recording, T>;

const ENTRIES: u64 = 64;
pub(super) const FORM: NvForm =
    NvForm { entries: ENTRIES, segments: 16, segment_bytes: 2048, record_bytes: 512 };
/// The place of the log.
pub(super) const AT: u64 = 64;
pub(super) const LIMIT: u64 = 1 << 20;

pub(super) fn options(persist: Persist) -> NvOptions {
    NvOptions { persist, lanes: 4, checkpoint_records: 24 }
}

pub(super) fn memory() -> Recording {
    let memory = Recording::new(LIMIT).unwrap();
    memory.grow(AT + FORM.bytes()).unwrap();
    memory
}

pub(super) fn create_with(memory: &Recording, persist: Persist) -> Log {
    NvLog::create(memory.clone(), AT, FORM, 7, options(persist), Arc::default())
}

pub(super) fn open_with(memory: &Recording, persist: Persist) -> Result<Log> {
    NvLog::open(memory.clone(), AT, 7, options(persist), Arc::default())
}

pub(super) fn create(memory: &Recording) -> Log {
    create_with(memory, Persist::OnInsert)
}

pub(super) fn open(memory: &Recording) -> Result<Log> {
    open_with(memory, Persist::OnInsert)
}

pub(super) fn change(payload: &[u8]) -> Record<'_> {
    Record { page: PageNo(3), payload, ..Record::bare(Kind::Change) }
}

/// The bytes of the `number`-th record of a thread.
pub(super) fn payload(thread: u64, number: u64, generation: u8) -> Vec<u8> {
    let mut payload = vec![thread as u8, number as u8, generation];
    payload.extend(
        (0..number * 37 % 200).map(|at| (at * 7 + number + thread * 31) as u8 ^ generation),
    );
    payload
}

pub(super) fn records(log: &dyn LogManager) -> Vec<Logged> {
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

/// With flush-on-commit and no persister, all of a transaction is made durable at once (P2-F12).
#[test]
fn flush_on_commit_has_one_fence_a_transaction() {
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

#[test]
fn threads_commit_while_a_persister_runs() {
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

/// A record for each line would be more than the ring has entries: a large value has records of many lines.
#[test]
fn a_large_value_reserves_no_more_than_allowed() {
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

/// The head may stop at the newest record of a segment that is filled.
#[test]
fn a_segment_with_the_oldest_kept_record_is_not_used_again() {
    let one_lane = NvOptions { lanes: 1, ..options(Persist::OnInsert) };
    let log: Log = NvLog::create(memory(), AT, FORM, 7, one_lane, Arc::default());
    let mut kept = 1;
    for number in 1..1000_u64 {
        let lsn = log.append(&mut Chain::default(), &change(&[number as u8; 180])).unwrap();
        assert_eq!(lsn, Lsn(number));
        for at in kept..=number {
            assert_eq!(log.read(Lsn(at)).unwrap().payload, [at as u8; 180], "{at} at {number}");
        }
        if number % 20 == 0 {
            kept = number - number / 20 % 16;
            log.truncate(Lsn(kept), Lsn(kept)).unwrap();
        }
    }
}
