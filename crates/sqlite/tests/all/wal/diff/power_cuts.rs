//! Power cuts with a differential log: connections run SQL over a recording of the three files, each state is recovered, and
//! stock SQLite reads what that leaves. The model is that of `wal::power_cuts`.
//!
//! In each state that has commits to replay, stock SQLite has to refuse the database.

use std::collections::HashMap;

use perdura_sqlite::database::recover_records;
use sim::{Explored, Replay, Trace};

use super::super::power_cuts::{
    By, Reader, Recorded, Rows, explore_states, files, random_statements, record, statements, texts,
};
use super::super::recorded::{Fault, RECORDS_AT, RECORDS_BYTES_AT, State};
use super::bytes::Bytes;
use super::*;

/// Statements of `wal::power_cuts`, and what a differential log has to get right besides.
fn all_statements() -> Vec<By> {
    let one = |sql: &str| vec![(0, sql.to_owned())];
    let two = |sql: &str| vec![(1, sql.to_owned())];
    [
        statements(),
        two("PRAGMA wal_checkpoint(TRUNCATE)"),
        // Words that change, and change back.
        texts(&[0, 1], 100..104, 30),
        one("UPDATE t SET b = 'once' WHERE a = 100"),
        two("UPDATE t SET b = hex(zeroblob(30)) WHERE a = 100"),
        one("PRAGMA wal_checkpoint(PASSIVE)"),
        two("UPDATE t SET b = 'twice' WHERE a = 100"),
        one("UPDATE t SET b = hex(zeroblob(30)) WHERE a = 100"),
        // Frames that are spilled, given up, and written again.
        one("BEGIN; UPDATE t SET b = b || 'spilled'; SAVEPOINT s; UPDATE t SET b = hex(zeroblob(90));
             ROLLBACK TO s; UPDATE t SET b = b || 'x' WHERE a % 2 = 0; COMMIT"),
        two("BEGIN; UPDATE t SET b = hex(zeroblob(150)); ROLLBACK"),
        one("UPDATE t SET b = 'short' WHERE a > 40"),
        // Pages that are cut off and come back, in a log that a reader keeps from beginning anew.
        one("PRAGMA wal_checkpoint(TRUNCATE)"),
        vec![(2, "BEGIN; SELECT count(*) FROM t".to_owned())],
        one("UPDATE t SET b = hex(zeroblob(200))"),
        vec![(2, "COMMIT".to_owned()), (2, "BEGIN; SELECT count(*) FROM t".to_owned())],
        two("DELETE FROM t WHERE a > 5"),
        vec![(2, "COMMIT".to_owned())],
        one("PRAGMA wal_checkpoint(PASSIVE)"),
        vec![(2, "BEGIN; SELECT count(*) FROM t".to_owned())],
        one("INSERT INTO t SELECT a + 200, hex(zeroblob(180)) FROM t"),
        two("INSERT INTO t SELECT a + 300, hex(zeroblob(170)) FROM t"),
        vec![(2, "COMMIT".to_owned())],
        // Pages that a checkpoint has cut off after a small change, and that come back with what they had before.
        one("DELETE FROM t"),
        one("INSERT INTO t WITH RECURSIVE n(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n WHERE a < 32)
             SELECT a + 700, hex(zeroblob(200)) FROM n"),
        one("PRAGMA wal_checkpoint(TRUNCATE)"),
        two("UPDATE t SET b = substr(b, 1, 90) || 'x' || substr(b, 92)"),
        one("DELETE FROM t WHERE a > 703"),
        vec![(2, "BEGIN; SELECT count(*) FROM t".to_owned())],
        two("PRAGMA wal_checkpoint(PASSIVE)"),
        one("INSERT INTO t SELECT a + 60, hex(zeroblob(200)) FROM t"),
        two("INSERT INTO t SELECT a + 20, hex(zeroblob(200)) FROM t"),
        two("INSERT INTO t SELECT a + 200, hex(zeroblob(200)) FROM t"),
        vec![(2, "COMMIT".to_owned())],
        // Pages of other contents that come back with zeros, and that no checkpoint has cut off.
        one("UPDATE t SET b = hex(zeroblob(180))"),
        one("PRAGMA wal_checkpoint(TRUNCATE)"),
        two("DELETE FROM t WHERE a > 702"),
        one("INSERT INTO t SELECT a + 500, CAST(zeroblob(1800) AS TEXT) FROM t"),
        two("INSERT INTO t SELECT a + 600, CAST(zeroblob(300) AS TEXT) FROM t"),
        one("VACUUM"),
        texts(&[1], 400..404, 30),
    ]
    .concat()
}

/// Reads states after a recovery.
struct Recovered {
    reader: Reader,
    folder: tempfile::TempDir,
    fault: Fault,
    /// States by what was read, so that each is recovered once.
    known: HashMap<[Vec<u8>; 3], Result<Rows, String>>,
    replayed: u64,
}

impl Recovered {
    fn new(fault: Fault) -> Self {
        let (reader, folder, known) = (Reader::new(), folder(), HashMap::new());
        Self { reader, folder, fault, known, replayed: 0 }
    }

    fn read(&mut self, image: &[u8]) -> Result<Rows, String> {
        let (database, log) = files(image);
        let length = &image[RECORDS_BYTES_AT as usize..][..8];
        let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
        let records = image[RECORDS_AT as usize..][..length].to_vec();
        let state = [database, log.clone().unwrap_or_default(), records];
        if let Some(known) = self.known.get(&state) {
            return known.clone();
        }
        let found = self.recover(&state, log.is_some());
        self.known.insert(state, found.clone());
        found
    }

    fn recover(&mut self, state: &[Vec<u8>; 3], has_log: bool) -> Result<Rows, String> {
        let loses_zeros = self.fault == Fault::FreshMissing;
        let file = |at: usize| Bytes::new(state[at].clone(), loses_zeros && at == 0);
        let [database, log, records] = [0, 1, 2].map(file);
        let replayed = recover_records(Some(&records), &log, &database)
            .map_err(|failure| format!("{failure:?}"))?;
        if replayed > 0 {
            self.replayed += 1;
            let path = self.folder.path().join("db");
            let _ = std::fs::remove_file(index_of(&path));
            std::fs::write(&path, &state[0]).unwrap();
            let _ = std::fs::remove_file(log_of(&path));
            if has_log {
                std::fs::write(log_of(&path), &state[1]).unwrap();
            }
            if stocks_error(&path) != Some(ErrorCode::CannotOpen) {
                return Err(format!(
                    "stock SQLite reads it before {replayed} commits are replayed"
                ));
            }
        }
        let log = log.into_inner();
        self.reader.read((database.into_inner(), (!log.is_empty()).then_some(log)))
    }
}

fn recorded(
    name: &str,
    synchronous: &str,
    fault: Fault,
    statements: &[By],
) -> Result<Recorded, String> {
    record(name, (synchronous, true), fault, statements)
}

fn explore_by(recorded: &Recorded, replay: Replay<'_>, bound: u64, fault: Fault) -> Explored {
    let mut recovered = Recovered::new(fault);
    let explored = explore_states(recorded, replay, bound, |image| recovered.read(image));
    assert!(explored.failed.is_some() || recovered.replayed > 0, "nothing was replayed");
    explored
}

fn explore(recorded: &Recorded, trace: &Trace, bound: u64) -> Explored {
    explore_by(recorded, Replay::new(trace), bound, Fault::None)
}

pub(crate) fn explore_statements(ways: &[(&str, u64)]) {
    for (synchronous, bound) in ways {
        let name = format!("diff-{synchronous}");
        let recorded = recorded(&name, synchronous, Fault::None, &all_statements()).unwrap();
        let explored = explore(&recorded, &recorded.trace, *bound);
        assert_eq!(explored.failed, None, "{name}");
        println!("{name}: {} points, {} states", explored.points, explored.states);
        assert!(explored.states > 1_000, "{name}: {explored:?}");
    }
}

#[test]
fn power_cut_loses_no_acknowledged_transaction() {
    explore_statements(&[("FULL", 2)]);
}

pub(crate) fn explore_random(seeds: std::ops::Range<u64>, count: usize, bound: u64) {
    for seed in seeds {
        let synchronous = ["FULL", "NORMAL", "OFF"][seed as usize % 3];
        let (name, statements) = (format!("diff-random-{seed}"), random_statements(seed, count));
        let recorded = recorded(&name, synchronous, Fault::None, &statements).unwrap();
        let explored = explore(&recorded, &recorded.trace, bound);
        assert_eq!(explored.failed, None, "seed {seed}");
    }
}

#[test]
fn power_cut_in_random_sql_loses_nothing_acknowledged() {
    explore_random(0..3, 40, 2);
}

pub(crate) fn explore_weakly_ordered(bound: u64) {
    let recorded = recorded("diff-weak", "FULL", Fault::None, &all_statements()).unwrap();
    let weakly = Replay::new(&recorded.trace).weakly_ordered();
    assert_eq!(explore_by(&recorded, weakly, bound, Fault::None).failed, None);
}

/// Returns how a fault is noticed.
fn noticed(recorded: &Recorded, trace: &Trace, fault: Fault) -> Result<(), String> {
    let failed = |bound| explore_by(recorded, Replay::new(trace), bound, fault).failed;
    failed(8).or_else(|| failed(60)).or_else(|| failed(300)).map_or(Ok(()), Err)
}

pub(crate) const FAULTS: [Fault; 9] = [
    Fault::WrongImage,
    Fault::UncommittedLogged,
    Fault::TailUnflushed,
    Fault::RecordsLengthUnsynced,
    Fault::FreshMissing,
    Fault::LogLengthUnsynced,
    Fault::NameUnsynced,
    Fault::CheckpointUnfenced,
    Fault::DatabaseLengthUnsynced,
];

pub(crate) fn faults_are_noticed(faults: &[Fault]) {
    for fault in faults.iter().copied() {
        let noticed = recorded(&format!("diff-{fault:?}"), "FULL", fault, &all_statements())
            .and_then(|recorded| noticed(&recorded, &recorded.trace, fault));
        println!("{fault:?}: {noticed:?}");
        assert!(noticed.is_err(), "{fault:?}");
    }
}

#[test]
fn seeded_fault_is_noticed() {
    faults_are_noticed(&[Fault::WrongImage, Fault::UncommittedLogged]);
}

/// Among these: the line of a generation is not flushed, or not fenced before the log's header is stored.
#[test]
fn missing_flush_or_fence_is_noticed() {
    let recorded = recorded("diff-left-out", "FULL", Fault::None, &all_statements()).unwrap();
    let mut ours = 0;
    for one in recorded.trace.instructions() {
        let name = one.to_string();
        if !name.contains("src/database/wal/diff/") {
            continue;
        }
        ours += 1;
        let noticed = noticed(&recorded, &recorded.trace.without(one), Fault::None);
        println!("{name}: {noticed:?}");
        assert!(noticed.is_err(), "{name}");
    }
    // For a generation, the log's header, and a commit.
    assert_eq!(ours, 6);
}

/// Power is cut while a database is recovered, after a cut at one of so many points of the recording.
pub(crate) fn interrupted_recoveries_are_repeated(every: u64) {
    let recorded = recorded("diff-again", "FULL", Fault::None, &all_statements()).unwrap();
    let (mut images, mut points) = (Vec::new(), 0_u64);
    Replay::new(&recorded.trace).explore(1, 1, |image, noted| {
        points += 1;
        if points % every == 0 {
            images.push((image.to_vec(), noted as u32 as usize));
        }
        Ok(())
    });
    assert!(images.len() > 1, "{}", images.len());
    let mut left_out = HashMap::new();
    let mut replayed = 0;
    for (image, _) in &images {
        let wanted = Recovered::new(Fault::None).read(image).unwrap();
        let state = State::again(image);
        let [records, log, database] = state.files();
        state.memory.start();
        replayed += recover_records(Some(&records), &log, &database).unwrap();
        state.memory.note(1);
        let trace = state.memory.stop();
        let explore = |trace: &Trace, bound| {
            let mut recovered = Recovered::new(Fault::None);
            Replay::new(trace).explore(bound, 1, |image, _| {
                let found = recovered.read(image)?;
                if found == wanted { Ok(()) } else { Err(format!("{} rows", found.len())) }
            })
        };
        assert_eq!(explore(&trace, 20).failed, None);
        for one in trace.instructions() {
            let name = one.to_string();
            let is_noticed = explore(&trace.without(one), 20).failed.is_some();
            *left_out.entry(name).or_insert(false) |= is_noticed;
        }
    }
    assert!(replayed > 0);
    left_out.retain(|name, _| name.contains("src/database/wal/diff/"));
    println!("{left_out:?}");
    // The sync of a length fences in this model.
    let unnoticed = left_out.iter().filter(|one| !one.1).map(|one| &one.0[..5]);
    assert_eq!((left_out.len(), unnoticed.collect::<Vec<_>>()), (3, vec!["fence"]));
}
