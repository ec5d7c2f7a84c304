//! The log under power cuts: the `disk` mode of the crash model, at every crash point.
//!
//! A note `n` in a trace says: all transactions below `n` are acknowledged. The first transaction
//! is 1; what a record holds follows from its number and its generation, so that nothing can be
//! invented unnoticed.

use std::collections::BTreeMap;

use pm::{Dram, Files, Memory, Range};
use sim::{DiskEvent, DiskReplay, DiskTrace, RecordingFiles};
use storage::wal::{LogStart, Wal, WalError, WalOptions, WalReport};

type Log = Wal<RecordingFiles, Dram>;
type Image = BTreeMap<String, Vec<u8>>;

const PREFIX: &str = "wal-0-";
const START: LogStart = LogStart { sequence: 1, txn: 1 };
/// Records in the standard trace.
const RECORDS: u64 = 96;
const BUFFER: Range = Range::new(64, 256);

fn options(group: u32) -> WalOptions {
    WalOptions { reserve_bytes: 2048, group, ..WalOptions::default() }
}

fn memory() -> Dram {
    let memory = Dram::new(4096).unwrap();
    memory.grow(4096).unwrap();
    memory
}

fn create(files: &RecordingFiles, group: u32) -> Log {
    Wal::create(files.clone(), PREFIX, START, memory(), BUFFER, options(group)).unwrap()
}

/// The log with the generation of each record.
fn recover(files: &RecordingFiles) -> Result<(Log, WalReport, Vec<u8>), WalError> {
    let mut generations = Vec::new();
    let visit = |txn: u64, bytes: &[u8]| {
        assert_eq!(txn, generations.len() as u64 + 1, "in order, without a gap");
        assert_eq!(bytes, payload(txn, bytes[0], bytes.len()), "nothing is invented");
        generations.push(bytes[0]);
        Ok::<(), WalError>(())
    };
    let (log, report) =
        Wal::recover(files.clone(), PREFIX, START, memory(), BUFFER, options(1), visit)?;
    Ok((log, report, generations))
}

fn payload(txn: u64, generation: u8, bytes: usize) -> Vec<u8> {
    let mut payload: Vec<u8> =
        (0..bytes as u64).map(|at| (at * 7 + txn * 31 + u64::from(generation)) as u8 | 1).collect();
    payload[0] = generation;
    payload
}

fn append(log: &mut Log, generation: u8, bytes: usize) -> bool {
    let txn = log.next_txn();
    log.begin(txn).unwrap();
    let payload = payload(txn, generation, bytes);
    let (front, back) = payload.split_at(bytes / 3);
    log.put(front).unwrap();
    log.put(back).unwrap();
    log.end().unwrap().group_full
}

/// Recovers, twice, appends, and recovers again.
fn check(image: &Image, acknowledged: Option<u64>, most: u64) -> Result<(), String> {
    let files = RecordingFiles::from_image(image.clone());
    let (log, _, found) = match recover(&files) {
        Err(_) if acknowledged.is_none() => return Ok(()),
        Err(error) => return Err(error.to_string()),
        Ok(recovered) => recovered,
    };
    let count = found.len() as u64;
    if count + 1 < acknowledged.unwrap_or(1) || count > most {
        return Err(format!("{count} records, acknowledged below {acknowledged:?} of {most}"));
    }
    drop(log);
    let after = files.image();
    let (mut log, report, again) = recover(&files).map_err(|error| error.to_string())?;
    if again != found || report.torn_tail_bytes != 0 || files.image() != after {
        return Err("a second recovery finds something else".into());
    }
    for _ in 0..3 {
        append(&mut log, 9, 40);
    }
    log.flush().unwrap();
    let (_, _, more) = recover(&files).map_err(|error| error.to_string())?;
    if more.len() != found.len() + 3 || !more.starts_with(&found) {
        return Err("what was appended after recovery is not there".into());
    }
    Ok(())
}

/// Points, states, and the first failure, after which nothing more is looked at.
struct Explored {
    points: u64,
    states: u64,
    failures: u64,
    first: Option<String>,
}

fn explore(
    trace: &DiskTrace,
    bound: u64,
    mut check: impl FnMut(&Image, Option<u64>) -> Result<(), String>,
) -> Explored {
    let mut explored = Explored { points: 0, states: 0, failures: 0, first: None };
    let mut replay = DiskReplay::new(trace);
    while explored.failures == 0
        && let Some(point) = replay.next_point()
    {
        explored.points += 1;
        let (noted, position) = (point.last_note, point.position);
        let states = point.for_each_state(bound, 42, |image| {
            if explored.failures == 0
                && let Err(why) = check(image, noted)
            {
                explored.failures += 1;
                explored.first.get_or_insert(format!("before event {position}: {why}"));
            }
        });
        explored.states += states.visited;
    }
    explored
}

/// Groups of each size, records larger than the buffer, rotations, aborts, a removal.
fn standard_trace() -> DiskTrace {
    let files = RecordingFiles::new();
    files.start();
    let mut log = create(&files, 3);
    files.note(log.next_txn());
    for round in 0..RECORDS {
        if append(&mut log, 0, 1 + (round * 97 % 700) as usize) {
            log.flush().unwrap();
            files.note(log.next_txn());
        }
        if round % 5 == 4 {
            log.begin(log.next_txn()).unwrap();
            log.put(&vec![0xaa; (round * 40) as usize]).unwrap();
            log.discard().unwrap();
            files.note(log.first_pending_lsn());
        }
        if round % 9 == 8 {
            log.rotate().unwrap();
            files.note(log.next_txn());
        }
    }
    log.flush().unwrap();
    files.note(log.next_txn());
    files.stop()
}

#[test]
fn every_acknowledged_record_survives_and_nothing_is_invented() {
    every_acknowledged_record_survives(40, 500);
}

/// Looks at so many states of each crash point at most, and so many of all at least.
pub(crate) fn every_acknowledged_record_survives(bound: u64, least: u64) {
    let trace = standard_trace();
    let explored = explore(&trace, bound, |image, noted| check(image, noted, RECORDS));
    println!("{} crash points, {} states", explored.points, explored.states);
    assert_eq!(explored.first, None);
    assert!(explored.points >= 40 && explored.states >= least);
}

#[test]
fn the_check_fails_where_any_sync_of_the_log_is_left_out() {
    let trace = standard_trace();
    let sites = trace.sync_sites();
    assert_eq!(sites.len(), 4, "segment, directory, flush, dropped record");
    let mut caught = 0;
    for site in sites {
        let faulty = trace.without_syncs_of(site);
        let explored = explore(&faulty, 100, |image, noted| check(image, noted, RECORDS));
        println!("{site}: {:?}", explored.first);
        caught += u64::from(explored.failures > 0);
    }
    assert_eq!(caught, 4);
}

/// Payload of a record whose frame is two sectors long.
const TWO_SECTORS: usize = 1024 - 16;

/// Two acknowledged records and three that only reached the file. Frames start at sectors: the
/// torn one can then be written anew without a touch of the next.
fn unsynced_group() -> DiskTrace {
    let files = RecordingFiles::new();
    files.start();
    let mut log = create(&files, 10);
    append(&mut log, 0, 512 - 32 - 16);
    append(&mut log, 0, TWO_SECTORS);
    log.flush().unwrap();
    files.note(log.next_txn());
    for _ in 0..3 {
        append(&mut log, 0, TWO_SECTORS);
    }
    files.stop()
}

/// Recovers from every state of `first`, appends records that are exactly as long as those that
/// were lost, and explores the crashes of that, with `fault` put into its trace.
fn after_recovery(first: &DiskTrace, fault: impl Fn(&DiskTrace) -> DiskTrace) -> Explored {
    let mut total = Explored { points: 0, states: 0, failures: 0, first: None };
    let outer = explore(first, 400, |image, noted| {
        if noted.is_none() {
            return Ok(());
        }
        let files = RecordingFiles::from_image(image.clone());
        files.start();
        let (mut log, _, old) = recover(&files).map_err(|error| error.to_string())?;
        append(&mut log, 1, TWO_SECTORS);
        log.flush().unwrap();
        files.note(log.next_txn());
        let trace = fault(&files.stop());
        let inner = explore(&trace, 60, |image, noted| {
            let files = RecordingFiles::from_image(image.clone());
            let (_, _, found) = recover(&files).map_err(|error| error.to_string())?;
            let resurrected = found.windows(2).any(|pair| pair == [1, 0]);
            let lost = found.len() < old.len() || found.len() as u64 + 1 < noted.unwrap_or(0);
            if resurrected || lost { Err(format!("{old:?} became {found:?}")) } else { Ok(()) }
        });
        total.points += inner.points;
        total.states += inner.states;
        total.failures += inner.failures;
        total.first = total.first.take().or(inner.first);
        Ok(())
    });
    assert_eq!(outer.first, None);
    total
}

#[test]
fn a_record_after_a_torn_one_never_comes_back() {
    let explored = after_recovery(&unsynced_group(), Clone::clone);
    println!("{} crash points, {} states", explored.points, explored.states);
    assert_eq!(explored.first, None);
    assert!(explored.states >= 4_000);
}

#[test]
fn the_check_fails_where_the_torn_tail_is_not_cut_off_durably() {
    let not_cut = after_recovery(&unsynced_group(), |trace| {
        trace.without(|record| matches!(record.event, DiskEvent::SetLen { .. }))
    });
    assert!(not_cut.failures > 0);
    let not_synced = after_recovery(&unsynced_group(), |trace| {
        let site = trace.sync_sites()[0];
        assert!(site.file().ends_with("recovery.rs"));
        trace.without_syncs_of(site)
    });
    println!("{:?}; {:?}", not_cut.first, not_synced.first);
    assert!(not_synced.failures > 0);
}

/// A process that is killed, its successor, and a power cut: the kernel had the files throughout.
fn killed_then_cut(fault: impl Fn(&DiskTrace) -> DiskTrace) -> Explored {
    let files = RecordingFiles::new();
    files.start();
    let mut log = create(&files, 10);
    append(&mut log, 0, 300);
    log.flush().unwrap();
    append(&mut log, 0, 300);
    append(&mut log, 0, 300);
    drop(log);
    // The contents that this recovery shows count as acknowledged.
    let (mut log, _, found) = recover(&files).unwrap();
    assert!(found.len() > 1, "the buffer was written early");
    files.note(log.next_txn());
    // Killed again when the next segment has no durable name yet: at the sync of the directory.
    files.fail_after(Some(4));
    log.rotate().unwrap_err();
    files.fail_after(None);
    let (mut log, ..) = recover(&files).unwrap();
    append(&mut log, 0, 50);
    log.flush().unwrap();
    files.note(log.next_txn());
    explore(&fault(&files.stop()), 300, |image, noted| check(image, noted, 4))
}

#[test]
fn what_recovery_has_shown_is_durable() {
    let explored = killed_then_cut(Clone::clone);
    assert_eq!(explored.first, None);
    for (number, what) in ["the segment", "the directory"].into_iter().enumerate() {
        let faulty = killed_then_cut(|trace| {
            let mut sites = trace.sync_sites();
            sites.retain(|site| site.file().ends_with("recovery.rs"));
            trace.without_syncs_of(sites[number])
        });
        assert!(faulty.failures > 0, "{what}");
    }
}

#[test]
fn wherever_a_call_fails_nothing_acknowledged_is_lost() {
    for calls in 0..60 {
        let files = RecordingFiles::new();
        let mut log = create(&files, 2);
        files.fail_after(Some(calls));
        let mut acknowledged = 1;
        let mut run = || -> Result<(), WalError> {
            for round in 0..20u64 {
                let txn = log.next_txn();
                let result = log
                    .begin(txn)
                    .and_then(|()| log.put(&payload(txn, 0, 1 + (round * 97 % 700) as usize)))
                    .and_then(|()| log.end().map(|_| ()));
                if result.is_err() {
                    log.discard()?;
                    result?;
                }
                log.flush()?;
                acknowledged = log.first_pending_lsn();
                if round == 10 {
                    acknowledged = log.rotate()?.txn;
                }
            }
            Ok(())
        };
        let failed = run();
        files.fail_after(None);
        let usable = !log.is_poisoned();
        if failed.is_err() && usable {
            append(&mut log, 0, 30);
            log.flush().unwrap();
            acknowledged = log.first_pending_lsn();
        } else if failed.is_err() {
            assert!(matches!(log.flush(), Err(WalError::Poisoned)), "after {calls} calls");
        }
        let found = recover(&files).unwrap().2;
        assert!(found.len() as u64 + 1 >= acknowledged, "after {calls} calls");
        assert_eq!(files.list().unwrap().iter().filter(|name| name.ends_with(".tmp")).count(), 0);
    }
}

/// A sync fails, and the kernel takes what it could not write for written. What recovery then has
/// seen is durable all the same.
#[test]
fn what_is_recovered_after_a_failed_sync_is_durable() {
    let (mut states, mut kept) = (0, 0);
    for calls in 0..40 {
        let files = RecordingFiles::new();
        files.start();
        let mut log = create(&files, 1);
        files.note(log.next_txn());
        files.fail_once_after(calls);
        // So few bytes that no more space is reserved meanwhile.
        for round in 0..20 {
            append(&mut log, 0, 40 + round);
            if log.flush().is_err() {
                break;
            }
            files.note(log.next_txn());
        }
        if !log.is_poisoned() {
            continue;
        }
        let durable = log.first_pending_lsn();
        drop(log);
        let (log, _, _) = recover(&files).unwrap();
        files.note(log.next_txn());
        kept += log.next_txn() - durable;
        let explored = explore(&files.stop(), 40, |image, noted| check(image, noted, 20));
        assert_eq!(explored.first, None, "call {calls}");
        states += explored.states;
    }
    println!("{states} states, {kept} records were read that had not been acknowledged");
    assert!(states > 400 && kept > 5, "{states} {kept}");
}
