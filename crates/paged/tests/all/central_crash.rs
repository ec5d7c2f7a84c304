//! The central log under power cuts: the `disk` mode of the crash model, at every crash point.
//!
//! A note `n` in a trace says: all records below number `n` are acknowledged. A record's bytes
//! follow from its number and its generation, so that nothing can be invented unnoticed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use paged::ids::{Lsn, PageNo, TxNo};
use paged::log::central::{Central, CentralOptions};
use paged::log::record;
use paged::log::{Chain, Kind, LogManager, Record};
use paged::threads::Host;
use paged::{PagedError, Result};
use sim::{DiskEvent, DiskRecord, DiskReplay, DiskTrace, RecordingFiles};

type Log = Central<RecordingFiles, Host>;
type Image = BTreeMap<String, Vec<u8>>;

/// Records in the standard trace.
const RECORDS: u64 = 160;

const fn options() -> CentralOptions {
    CentralOptions {
        partitions: 4,
        partition_bytes: 4096,
        buffer_bytes: 8192,
        group_bytes: 4096,
        record_bytes: 1024,
        reserve_bytes: 1024,
        checkpoint_bytes: 1 << 20,
        group_wait: Duration::ZERO,
    }
}

fn create(files: &RecordingFiles) -> Log {
    Central::create(files, "log-", options(), Arc::default()).unwrap()
}

fn payload(number: u64, generation: u8, bytes: usize) -> Vec<u8> {
    let mut payload = number.to_le_bytes().to_vec();
    payload.push(generation);
    payload.extend((0..bytes as u64).map(|at| (at * 7 + number * 31) as u8 ^ generation));
    payload
}

fn append(log: &Log, number: u64, generation: u8, bytes: usize) -> Result<Lsn> {
    let payload = payload(number, generation, bytes);
    let record = Record { page: PageNo(number), payload: &payload, ..Record::bare(Kind::Change) };
    log.append(&mut Chain::default(), &record)
}

/// The log with number and generation of each record after its start.
fn recover(files: &RecordingFiles) -> Result<(Log, Vec<(u64, u8)>)> {
    let log: Log = Central::open(files, "log-", options(), Arc::default())?;
    let mut found: Vec<(u64, u8)> = Vec::new();
    log.scan(log.start(), &mut |read| {
        if read.kind == Kind::CheckpointBegin {
            return Ok(());
        }
        let number = u64::from_le_bytes(read.payload[..8].try_into().unwrap());
        let generation = read.payload[8];
        assert_eq!(read.payload, payload(number, generation, read.payload.len() - 9), "invented");
        if let Some((before, _)) = found.last() {
            assert_eq!(number, before + 1, "in order, without a gap");
        }
        found.push((number, generation));
        Ok(())
    })?;
    Ok((log, found))
}

/// Recovers, twice, appends, and recovers again. `starts` are the numbers at which the log may
/// begin.
fn check(
    image: &Image,
    acknowledged: Option<u64>,
    starts: &[u64],
) -> std::result::Result<(), String> {
    let files = RecordingFiles::from_image(image.clone());
    let (log, found) = match recover(&files) {
        Err(_) if acknowledged.is_none() => return Ok(()),
        recovered => recovered.map_err(|error| error.to_string())?,
    };
    // A log that begins after all records says nothing of their numbers.
    let next = found.last().map_or(acknowledged.unwrap_or(0), |(last, _)| last + 1);
    let first = found.first().map_or(next, |(first, _)| *first);
    if next < acknowledged.unwrap_or(0) || !starts.contains(&first) {
        return Err(format!("records {first}..{next}, acknowledged below {acknowledged:?}"));
    }
    drop(log);
    let (log, again) = recover(&files).map_err(|error| error.to_string())?;
    if again != found {
        return Err("a second recovery finds something else".into());
    }
    for number in next..next + 3 {
        append(&log, number, 9, 40).map_err(|error| error.to_string())?;
    }
    log.force(Lsn(u64::MAX)).map_err(|error| error.to_string())?;
    let (_, more) = recover(&files).map_err(|error| error.to_string())?;
    if more.len() != found.len() + 3 || !more.starts_with(&found) {
        return Err("what was appended after recovery is not there".into());
    }
    Ok(())
}

#[derive(Default, Debug)]
struct Explored {
    points: u64,
    states: u64,
    failures: u64,
    first: Option<String>,
}

fn explore(
    trace: &DiskTrace,
    bound: u64,
    mut check: impl FnMut(&Image, Option<u64>) -> std::result::Result<(), String>,
) -> Explored {
    let mut explored = Explored::default();
    let mut replay = DiskReplay::new(trace);
    while let Some(point) = replay.next_point() {
        explored.points += 1;
        let (noted, position) = (point.last_note, point.position);
        let states = point.for_each_state(bound, 42, |image| {
            let checked =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(image, noted)));
            let checked = checked.unwrap_or_else(|_| Err("a check of the test panicked".into()));
            if let Err(why) = checked {
                explored.failures += 1;
                explored.first.get_or_insert(format!("before event {position}: {why}"));
            }
        });
        explored.states += states.visited;
    }
    explored
}

/// Groups of many sizes, some larger than the buffer, several rounds, truncations.
fn standard_trace() -> (DiskTrace, Vec<u64>) {
    let files = RecordingFiles::new();
    files.start();
    let log = create(&files);
    files.note(0);
    let mut starts = vec![0];
    for number in 0..RECORDS {
        let at = append(&log, number, 0, (300 + number * 97 % 600) as usize).unwrap();
        if number % 7 == 6 || number % 11 == 9 {
            log.force(at).unwrap();
            files.note(number + 1);
        }
        if number % 8 == 7 {
            log.truncate(at, at).unwrap();
            starts.push(number);
            files.note(number + 1);
        }
    }
    log.force(Lsn(u64::MAX)).unwrap();
    files.note(RECORDS);
    assert!(log.end() >= Lsn(10 << 32), "more than three rounds");
    (files.stop(), starts)
}

/// Checkpoints begin partitions of their own, files are used again before others, what is free is
/// given back, and the medium gives so many bytes at most, after which others have them for a
/// while.
fn turning_trace(limit: u64) -> (DiskTrace, Vec<u64>) {
    const OPTIONS: CentralOptions = CentralOptions {
        partitions: 8,
        partition_bytes: 256 << 10,
        reserve_bytes: 8 << 10,
        checkpoint_bytes: 4 << 10,
        ..options()
    };
    let files = RecordingFiles::new();
    files.start();
    let mut log: Log = Central::create(&files, "log-", OPTIONS, Arc::default()).unwrap();
    files.note(0);
    files.limit(Some(limit));
    let (mut starts, mut number, mut turns) = (vec![0], 0, 0);
    for round in 0..12 {
        for _ in 0..30 {
            match append(&log, number, 0, (600 + number * 97 % 300) as usize) {
                Ok(_) => number += 1,
                Err(PagedError::LogFull { medium: true, .. }) => break,
                Err(error) => panic!("{error}"),
            }
            if number % 7 == 6 {
                log.force(Lsn(u64::MAX)).unwrap();
                files.note(number);
            }
        }
        let before = log.end().0 >> 32;
        let begin = Record::bare(Kind::CheckpointBegin);
        let start = log.append(&mut Chain::default(), &begin).unwrap();
        turns += (start.0 >> 32) - before;
        log.force(Lsn(u64::MAX)).unwrap();
        files.note(number);
        log.truncate(start, start).unwrap();
        starts.push(number);
        if round % 4 == 3 {
            log.close().unwrap();
            drop(log);
            log = Central::open(&files, "log-", OPTIONS, Arc::default()).unwrap();
        }
    }
    files.note(number);
    assert!(turns >= 3 && number > 60, "{turns} partitions, {number} records");
    (files.stop(), starts)
}

#[test]
fn every_crash_while_files_are_used_again_is_survived() {
    for limit in [u64::MAX, 150 << 10] {
        let (trace, starts) = turning_trace(limit);
        let explored = explore(&trace, 40, |image, noted| check(image, noted, &starts));
        println!("{} crash points, {} states", explored.points, explored.states);
        assert_eq!(explored.first, None, "{limit}");
        assert!(explored.points >= 60 && explored.states >= 1_000);
        let mut kills = 0;
        trace.process_states(|index, noted, image| {
            if index % 3 == 0 {
                check(image, noted, &starts).unwrap();
                kills += 1;
            }
        });
        assert!(kills > 50, "{kills}");
    }
}

#[test]
fn every_acknowledged_record_survives_and_nothing_is_invented() {
    let (trace, starts) = standard_trace();
    let explored = explore(&trace, 150, |image, noted| check(image, noted, &starts));
    println!("{} crash points, {} states", explored.points, explored.states);
    assert_eq!(explored.first, None);
    assert!(explored.points >= 60 && explored.states >= 2_000);
}

#[test]
fn every_kill_of_the_process_leaves_a_log_that_goes_on() {
    let (trace, starts) = standard_trace();
    let mut states = 0;
    trace.process_states(|_, noted, image| {
        check(image, noted, &starts).unwrap();
        states += 1;
    });
    assert!(states > 100, "{states}");
}

#[test]
fn every_sync_and_every_write_left_out_is_noticed() {
    let (trace, starts) = standard_trace();
    let mut sites = Vec::new();
    for record in &trace.events {
        let sync = matches!(record.event, DiskEvent::Sync { .. } | DiskEvent::SyncDirectory);
        let counts = sync || matches!(record.event, DiskEvent::Write { .. });
        if counts && !sites.contains(&(sync, record.site)) {
            sites.push((sync, record.site));
        }
    }
    let parts = "partition, head, group: write and sync each; directory; space for undo";
    assert_eq!(sites.len(), 8, "{parts}");
    let undone = open_transaction(false);
    for (sync, site) in sites {
        let is_left_out = |record: &DiskRecord| {
            let is_sync = matches!(record.event, DiskEvent::Sync { .. } | DiskEvent::SyncDirectory);
            record.site == site && sync == is_sync
        };
        let faulty = trace.without(is_left_out);
        let mut explored = explore(&faulty, 60, |image, noted| check(image, noted, &starts));
        if explored.failures == 0 {
            explored = explore(&undone.without(is_left_out), 60, check_undo);
        }
        println!("{site}, sync {sync}: {:?}", explored.first);
        assert!(explored.failures > 0, "{site}, sync {sync}");
    }
}

/// Two acknowledged records and three that only reached the file, each of which fills sectors.
fn unsynced_group() -> DiskTrace {
    let files = RecordingFiles::new();
    files.start();
    let log = create(&files);
    append(&log, 0, 0, 512 - 64 - 9).unwrap();
    append(&log, 1, 0, 512 - 64 - 9).unwrap();
    log.force(Lsn(u64::MAX)).unwrap();
    files.note(2);
    for number in 2..5 {
        append(&log, number, 0, 512 - 64 - 9).unwrap();
    }
    log.force(Lsn(u64::MAX)).unwrap();
    let mut trace = files.stop();
    let last =
        trace.events.iter().rposition(|r| matches!(r.event, DiskEvent::Sync { .. })).unwrap();
    trace.events.truncate(last);
    trace
}

/// A sound record of the first generation that stands after the end of the log.
fn stale_behind(image: &Image, records: u64) -> bool {
    let at = 512 * (records as usize + 1);
    let Some(bytes) = image["log-1"].get(at..at + 512) else { return false };
    record::decode(bytes).is_some_and(|read| read.placed.lsn == Lsn(1 << 32 | at as u64))
}

#[test]
fn a_record_behind_a_torn_one_never_comes_back() {
    let (mut states, mut stale) = (0, 0);
    let outer = explore(&unsynced_group(), 100, |image, noted| {
        if noted.is_none() {
            return Ok(());
        }
        let files = RecordingFiles::from_image(image.clone());
        files.start();
        let (log, old) = recover(&files).map_err(|error| error.to_string())?;
        append(&log, old.len() as u64, 1, 512 - 64 - 9).unwrap();
        log.force(Lsn(u64::MAX)).unwrap();
        files.note(old.len() as u64 + 1);
        let inner = explore(&files.stop(), 60, |image, noted| {
            let files = RecordingFiles::from_image(image.clone());
            let (_, found) = recover(&files).map_err(|error| error.to_string())?;
            let generations: Vec<u8> = found.iter().map(|(_, generation)| *generation).collect();
            let resurrected = generations.windows(2).any(|pair| pair == [1, 0]);
            let lost = found.len() < old.len() || (found.len() as u64) < noted.unwrap_or(0);
            stale += u64::from(stale_behind(image, found.len() as u64));
            if resurrected || lost { Err(format!("{old:?} became {found:?}")) } else { Ok(()) }
        });
        states += inner.states;
        inner.first.map_or(Ok(()), Err)
    });
    println!("{states} states, {stale} with a sound record behind the end");
    assert_eq!(outer.first, None);
    assert!(states >= 100 && stale >= 10);
}

/// A program that dies while a sync fails, and its successor: what that has read is durable.
#[test]
fn what_is_recovered_after_a_failed_call_is_durable() {
    let (mut states, mut kept) = (0, 0);
    for calls in 0..60 {
        let files = RecordingFiles::new();
        files.start();
        let log = create(&files);
        files.note(0);
        files.fail_once_after(calls);
        let mut acknowledged = 0;
        let mut starts = vec![0];
        let mut run = || -> Result<()> {
            for number in 0..30 {
                let at = append(&log, number, 0, (number * 97 % 700) as usize)?;
                log.force(at)?;
                acknowledged = number + 1;
                files.note(acknowledged);
                if number % 8 == 7 {
                    starts.push(number);
                    log.truncate(at, at)?;
                }
            }
            Ok(())
        };
        let failed = run();
        let refused = |error: &PagedError| {
            matches!(error, PagedError::Io { .. } | PagedError::LogFull { medium: true, .. })
        };
        assert!(failed.as_ref().err().is_none_or(refused), "after {calls} calls: {failed:?}");
        drop(log);
        let (log, found) = recover(&files).unwrap();
        let next = found.last().map_or(0, |(last, _)| last + 1);
        assert!(next >= acknowledged, "after {calls} calls");
        kept += next - acknowledged;
        files.note(next);
        append(&log, next, 0, 30).unwrap();
        log.force(Lsn(u64::MAX)).unwrap();
        files.note(next + 1);
        let explored = explore(&files.stop(), 30, |image, noted| check(image, noted, &starts));
        assert_eq!(explored.first, None, "after {calls} calls");
        states += explored.states;
    }
    println!("{states} states, {kept} records were read that had not been acknowledged");
    assert!(states > 2_000 && kept > 5);
}

/// Transactions of which one is open, in the first partition. It needs space of other files to be
/// undone; a program that was killed before may have reserved that.
fn open_transaction(killed: bool) -> DiskTrace {
    let files = RecordingFiles::new();
    files.start();
    let mut log: Log = Central::create(&files, "log-", SMALL, Arc::default()).unwrap();
    if killed {
        log.reserve(&mut Chain::new(TxNo(6)), 9 << 10).unwrap();
        drop(log);
        log = Central::open(&files, "log-", SMALL, Arc::default()).unwrap();
    }
    let mut chain = Chain::new(TxNo(7));
    for _ in 0..14 {
        let record = Record { page: PageNo(1), payload: &[7; 600], ..Record::bare(Kind::Change) };
        log.append(&mut chain, &record).unwrap();
    }
    log.force(chain.last).unwrap();
    files.note(chain.last.0);
    files.stop()
}

const SMALL: CentralOptions =
    CentralOptions { partition_bytes: 12 << 10, buffer_bytes: 64 << 10, ..options() };

/// Undoes what is there of transaction 7, on a medium whose rest others have taken.
fn undo_on_full_medium(image: &Image) -> Result<()> {
    let files = RecordingFiles::from_image(image.clone());
    files.limit(Some(image.values().map(|bytes| bytes.len() as u64).sum()));
    let log: Log = Central::open(&files, "log-", SMALL, Arc::default())?;
    let mut chain = Chain::new(TxNo(7));
    log.scan(log.start(), &mut |read| {
        if chain.first == Lsn::NONE {
            chain.first = read.lsn;
        }
        chain.last = read.lsn;
        chain.used += record::record_bytes(read.payload.len()) as u64;
        chain.records += 1;
        Ok(())
    })?;
    let changes = chain.records;
    log.adopt(&mut chain);
    for _ in 0..changes {
        let undo = Record { payload: &[7; 600], ..Record::bare(Kind::Compensation) };
        log.append(&mut chain, &undo)?;
    }
    log.append(&mut chain, &Record::bare(Kind::End))?;
    log.force(Lsn(u64::MAX))
}

fn check_undo(image: &Image, noted: Option<u64>) -> std::result::Result<(), String> {
    noted.map_or(Ok(()), |_| undo_on_full_medium(image)).map_err(|error| error.to_string())
}

#[test]
fn space_for_undo_survives_a_power_cut() {
    for killed in [false, true] {
        let explored = explore(&open_transaction(killed), 200, check_undo);
        println!("{} crash points, {} states", explored.points, explored.states);
        assert_eq!(explored.first, None, "killed before: {killed}");
        assert!(explored.states > 10);
    }
}
