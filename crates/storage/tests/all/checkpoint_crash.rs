//! Checkpoints and the log together under power cuts: the `disk` mode of the crash model.
//!
//! The "engine" is a sum: its state is a list of numbers, a record appends one, a checkpoint holds
//! them all. A [`note`] in a trace says which transactions are acknowledged, and which checkpoint:
//! the log may lie in another directory, whose operations are not ordered with these.

use std::collections::BTreeMap;
use std::io::Read;

use pm::{Dram, Memory, Range};
use sim::{DiskEvent, DiskReplay, DiskTrace, RecordingFiles};
use storage::checkpoint::{self, CheckpointError};
use storage::wal::{LogStart, Wal, WalError, WalOptions};

type Log = Wal<RecordingFiles, Dram>;

const BUFFER: Range = Range::new(0, 512);
const OPTIONS: WalOptions =
    WalOptions { reserve_bytes: 1024, group: 1, closed: false, reaches: 0, end: None };

fn memory() -> Dram {
    let memory = Dram::new(4096).unwrap();
    memory.grow(4096).unwrap();
    memory
}

/// Records in the standard trace.
const RECORDS: u64 = 60;

/// All transactions below `txn` are acknowledged, and the checkpoint that starts at `sequence`.
fn note(sequence: u64, txn: u64) -> u64 {
    sequence << 32 | txn
}

fn value(txn: u64) -> Vec<u8> {
    (0..90).map(|at| (txn.wrapping_mul(0x9e37_79b9) >> (at % 23)) as u8 ^ at).collect()
}

fn commit(log: &mut Log, state: &mut Vec<Vec<u8>>) {
    let txn = log.next_txn();
    log.begin(txn).unwrap();
    log.put(&value(txn)).unwrap();
    assert!(log.end().unwrap().group_full);
    log.flush().unwrap();
    state.push(value(txn));
}

fn write_checkpoint(
    files: &RecordingFiles,
    start: LogStart,
    state: &[Vec<u8>],
) -> Result<u64, CheckpointError> {
    checkpoint::write(files, "checkpoint-0-", start, |out| {
        for value in state {
            out.write_all(value).unwrap();
        }
        Ok::<(), CheckpointError>(())
    })
}

fn recover(files: &RecordingFiles) -> Result<(Log, LogStart, Vec<Vec<u8>>), String> {
    let mut state = Vec::new();
    let mut start = LogStart { sequence: 1, txn: 0 };
    let latest = checkpoint::open_latest(files, "checkpoint-0-").map_err(|e| e.to_string())?;
    if let Some(mut reader) = latest {
        start = reader.log_start();
        for _ in 0..start.txn {
            let mut value = vec![0; 90];
            reader.read_exact(&mut value).map_err(|e| e.to_string())?;
            state.push(value);
        }
        reader.finish().map_err(|e| e.to_string())?;
    }
    let visit = |_, bytes: &[u8]| {
        state.push(bytes.to_vec());
        Ok::<(), WalError>(())
    };
    let (log, _) = Wal::recover(files.clone(), "wal-0-", start, memory(), BUFFER, OPTIONS, visit)
        .map_err(|e| e.to_string())?;
    Ok((log, start, state))
}

/// Commits with three checkpoints among them.
fn standard_trace() -> DiskTrace {
    let files = RecordingFiles::new();
    files.start();
    let start = LogStart { sequence: 1, txn: 0 };
    let mut log = Wal::create(files.clone(), "wal-0-", start, memory(), BUFFER, OPTIONS).unwrap();
    let mut state = Vec::new();
    let mut checkpoint = start.sequence;
    files.note(note(checkpoint, 0));
    for round in 0..RECORDS {
        commit(&mut log, &mut state);
        files.note(note(checkpoint, log.next_txn()));
        if round % 6 == 5 {
            let start = log.rotate().unwrap();
            write_checkpoint(&files, start, &state).unwrap();
            checkpoint = start.sequence;
            files.note(note(checkpoint, start.txn));
            log.remove_before(start.sequence).unwrap();
        }
    }
    files.stop()
}

fn check(image: &BTreeMap<String, Vec<u8>>, acknowledged: Option<u64>) -> Result<(), String> {
    let files = RecordingFiles::from_image(image.clone());
    let (mut log, start, mut state) = match recover(&files) {
        Err(_) if acknowledged.is_none() => return Ok(()),
        recovered => recovered?,
    };
    let expected: Vec<_> = (0..state.len() as u64).map(value).collect();
    let count = state.len() as u64;
    let least = acknowledged.unwrap_or(0);
    if state != expected || count < least & 0xffff_ffff || count > RECORDS {
        return Err(format!("{count} values, acknowledged {acknowledged:x?}"));
    }
    if start.sequence < least >> 32 {
        return Err(format!("checkpoint {}, acknowledged {acknowledged:x?}", start.sequence));
    }
    commit(&mut log, &mut state);
    let start = log.rotate().unwrap();
    write_checkpoint(&files, start, &state).unwrap();
    log.remove_before(start.sequence).unwrap();
    commit(&mut log, &mut state);
    let (_, _, again) = recover(&files)?;
    let names = files.image();
    if again != state || names.len() != 2 {
        return Err(format!("after recovery: {} values in {:?}", again.len(), names.keys()));
    }
    Ok(())
}

/// Points, states, and the first failure, after which nothing more is looked at.
fn explore(trace: &DiskTrace) -> (u64, u64, Option<String>) {
    let (mut points, mut states, mut failed) = (0, 0, None);
    let mut replay = DiskReplay::new(trace);
    while failed.is_none()
        && let Some(point) = replay.next_point()
    {
        points += 1;
        let (noted, position) = (point.last_note, point.position);
        let visited = point.for_each_state(400, 7, |image| {
            if failed.is_none()
                && let Err(why) = check(image, noted)
            {
                failed = Some(format!("before event {position}: {why}"));
            }
        });
        states += visited.visited;
    }
    (points, states, failed)
}

#[test]
fn state_is_checkpoint_plus_log_at_every_crash_point() {
    let (points, states, failed) = explore(&standard_trace());
    println!("{points} crash points, {states} states");
    assert_eq!(failed, None);
    assert!(points >= 80 && states >= 600);
}

#[test]
fn the_check_fails_where_a_sync_of_the_checkpoint_is_left_out() {
    let trace = standard_trace();
    let mut sites = trace.sync_sites();
    sites.retain(|site| site.file().ends_with("checkpoint.rs"));
    assert_eq!(sites.len(), 2);
    for (site, directory) in sites.into_iter().zip([false, true]) {
        let of_directory = trace
            .events
            .iter()
            .any(|record| record.site == site && record.event == DiskEvent::SyncDirectory);
        assert_eq!(of_directory, directory, "the file first, then its name");
        let (_, _, failed) = explore(&trace.without_syncs_of(site));
        println!("{site}: {failed:?}");
        assert!(failed.is_some(), "{site}");
    }
}

#[test]
fn wherever_a_call_fails_the_older_checkpoint_still_counts() {
    for (calls, once) in (0..12).flat_map(|calls| [(calls, false), (calls, true)]) {
        let files = RecordingFiles::new();
        let start = LogStart { sequence: 1, txn: 0 };
        let mut log =
            Wal::create(files.clone(), "wal-0-", start, memory(), BUFFER, OPTIONS).unwrap();
        let mut state = Vec::new();
        for _ in 0..4 {
            commit(&mut log, &mut state);
            let start = log.rotate().unwrap();
            write_checkpoint(&files, start, &state).unwrap();
            log.remove_before(start.sequence).unwrap();
        }
        let start = log.rotate().unwrap();
        if once {
            files.fail_once_after(calls);
        } else {
            files.fail_after(Some(calls));
        }
        let written = write_checkpoint(&files, start, &state);
        files.fail_after(None);
        assert_eq!(written.is_ok(), calls >= 8, "after {calls} calls");
        let half = files.image().into_keys().any(|name| name.ends_with(".tmp"));
        assert!(!half || !once, "after {calls} calls: what is half written stays");
        assert_eq!(recover(&files).unwrap().2, state, "after {calls} calls");
        assert!(files.image().keys().all(|name| !name.ends_with(".tmp")));
    }
}
