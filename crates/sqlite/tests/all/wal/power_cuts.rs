//! Power cuts in WAL mode: connections run SQL over a recording of the database and its log, and stock SQLite alone
//! reads each state that a power cut could leave.
//!
//! *The model.* Each connection is a processor of its own, whose fences cover only what it has flushed. A length and a
//! name are words like others: they are durable once the file is synced. Calls of the kernel that write make nothing
//! durable.

use std::collections::HashMap;

use sim::{Replay, Trace};

use super::recorded::{
    DATABASE_AT, DATABASE_BYTES_AT, Fault, LOG_AT, LOG_BYTES_AT, LOG_NAME_AT, Part, State,
    as_processor,
};
use super::*;
use crate::register::open_recording;

pub(super) type Rows = Vec<(i64, Option<String>)>;

/// Databases by name.
pub(super) static OPEN: std::sync::Mutex<Vec<(String, std::sync::Arc<State>)>> =
    std::sync::Mutex::new(Vec::new());

/// The database of a name, for one of its connections.
pub(crate) fn part(path: &Path) -> Option<Part> {
    let (name, number) = path.file_name()?.to_str()?.rsplit_once("-in-wal-")?;
    let open = OPEN.lock().unwrap();
    let state = &open.iter().find(|(known, _)| known == name)?.1;
    Some(Part::new(state, number.parse().ok()?))
}

/// A statement of one of the connections.
pub(super) type By = (usize, String);

/// Connections of a scenario.
const CONNECTIONS: usize = 3;

pub(super) fn texts(by: &[usize], keys: std::ops::Range<i64>, len: usize) -> Vec<By> {
    keys.map(|key| {
        let by = by[key as usize % by.len()];
        (by, format!("INSERT INTO t VALUES({key}, hex(zeroblob({len})))"))
    })
    .collect()
}

/// Transactions, checkpoints of all kinds, rolled back frames, and changes of both lengths.
pub(super) fn statements() -> Vec<By> {
    let one = |sql: &str| vec![(0, sql.to_owned())];
    let two = |sql: &str| vec![(1, sql.to_owned())];
    let many = (700..740)
        .map(|key| format!("INSERT INTO t VALUES({key}, hex(zeroblob(200)));"))
        .collect::<String>();
    [
        texts(&[0, 1], 1..9, 40),
        one(&format!("BEGIN; {many} ROLLBACK")),
        texts(&[0], 9..11, 40),
        one("UPDATE t SET b = b || 'x' WHERE a % 3 = 0"),
        two("PRAGMA wal_checkpoint(PASSIVE)"),
        // The log begins anew.
        texts(&[0], 11..15, 60),
        two("UPDATE t SET b = b || 'y' WHERE a % 2 = 0"),
        one("PRAGMA wal_checkpoint(RESTART)"),
        texts(&[1], 15..18, 300),
        one("PRAGMA wal_checkpoint(TRUNCATE)"),
        texts(&[1, 0], 18..22, 30),
        // A checkpoint that a reader limits, and its end by another connection.
        vec![(2, "BEGIN; SELECT count(*) FROM t".to_owned())],
        texts(&[0], 22..26, 150),
        one("PRAGMA wal_checkpoint(PASSIVE)"),
        vec![(2, "COMMIT".to_owned()), (2, "BEGIN; SELECT count(*) FROM t".to_owned())],
        texts(&[1], 26..29, 150),
        one("PRAGMA wal_checkpoint(PASSIVE)"),
        vec![(2, "COMMIT".to_owned())],
        two("PRAGMA wal_checkpoint(PASSIVE)"),
        texts(&[1], 29..32, 20),
        // The database becomes shorter, and longer again.
        one(&format!("BEGIN; {many} COMMIT")),
        two("PRAGMA wal_checkpoint(FULL)"),
        one("DELETE FROM t WHERE a > 20"),
        one("PRAGMA wal_checkpoint(TRUNCATE)"),
        one(&format!("BEGIN; {many} COMMIT")),
        two("PRAGMA wal_checkpoint(TRUNCATE)"),
        texts(&[0, 1], 40..43, 20),
        // The log is truncated to a limit after it has begun anew.
        two("PRAGMA journal_size_limit = 3000; DELETE FROM t WHERE a > 600"),
        two("PRAGMA wal_checkpoint(RESTART)"),
        texts(&[1, 0, 0, 1], 44..52, 20),
        one("UPDATE t SET b = b || 'z'"),
        texts(&[1], 52..54, 20),
    ]
    .concat()
}

/// A new database in WAL mode, as stock SQLite makes it.
pub(super) fn new_database(directory: &Path) -> Vec<u8> {
    let path = directory.join("new");
    let stock = Connection::open(&path).unwrap();
    stock
        .execute_batch(
            "PRAGMA page_size = 512; PRAGMA auto_vacuum = FULL; PRAGMA journal_mode = WAL;
             CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)",
        )
        .unwrap();
    stock.close().unwrap();
    std::fs::read(path).unwrap()
}

/// A scenario that was recorded.
pub(super) struct Recorded {
    pub(super) trace: Trace,
    /// The rows after each statement.
    pub(super) models: Vec<Rows>,
}

/// Bits of a note: the statements that are done, and above them those that are durable.
pub(super) const DURABLE: u32 = 32;

fn recorded(
    name: &str,
    synchronous: &str,
    fault: Fault,
    statements: &[By],
) -> Result<Recorded, String> {
    record(name, (synchronous, false), fault, statements)
}

/// Records statements on a new database, with a value of `synchronous`, and with or without a differential log. The durable
/// ones are all, or with `NORMAL` and without that log those before a complete checkpoint.
pub(super) fn record(
    name: &str,
    (synchronous, has_records): (&str, bool),
    fault: Fault,
    statements: &[By],
) -> Result<Recorded, String> {
    let directory = folder();
    let state = State::new(&new_database(directory.path()), fault, has_records);
    let all_durable = has_records || synchronous == "FULL";
    OPEN.lock().unwrap().push((name.into(), state.clone()));
    state.memory.start();
    let all: Vec<Connection> = (0..CONNECTIONS)
        .map(|number| open_recording(&format!("{name}-in-wal-{number}")).unwrap())
        .collect();
    let model = Connection::open_in_memory().unwrap();
    model.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    for one in &all {
        let set = format!(
            "PRAGMA cache_size = 3; PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = {synchronous}"
        );
        one.execute_batch(&set).unwrap();
    }
    let (mut models, mut durable) = (vec![rows(&model)], 0);
    for (number, (by, sql)) in (1_u64..).zip(statements) {
        as_processor(*by, 0, || all[*by].execute_batch(sql))
            .map_err(|error| format!("{sql}: {error}"))?;
        if *by < 2 {
            model.execute_batch(sql).unwrap();
        }
        if all_durable || sql.contains("TRUNCATE") {
            durable = number;
        }
        state.memory.note(number | durable << DURABLE);
        models.push(rows(&model));
        for (sees, connection) in all[..2].iter().enumerate() {
            let found = as_processor(sees, 0, || {
                let mut select = connection.prepare("SELECT a, b FROM t ORDER BY a")?;
                let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
                rows.collect::<rusqlite::Result<Rows>>()
            });
            match found {
                Ok(found) if Some(&found) == models.last() => {}
                Ok(found) => return Err(format!("{sql}: {sees} sees {} rows", found.len())),
                Err(error) => return Err(format!("{sql}: {error}")),
            }
        }
    }
    Ok(Recorded { trace: state.memory.stop(), models })
}

/// A database and its log, if there is one.
pub(super) type Files = (Vec<u8>, Option<Vec<u8>>);

/// The files in a state of the recording.
pub(super) fn files(image: &[u8]) -> Files {
    let word = |at: u64| {
        u64::from_le_bytes(image[at as usize..][..8].try_into().expect("eight bytes")) as usize
    };
    let file = |at: u64, bytes: u64| image[at as usize..][..word(bytes)].to_vec();
    let log = (word(LOG_NAME_AT) == 1).then(|| file(LOG_AT, LOG_BYTES_AT));
    (file(DATABASE_AT, DATABASE_BYTES_AT), log)
}

/// Reads files with stock SQLite.
pub(super) struct Reader {
    directory: tempfile::TempDir,
    known: HashMap<Files, Result<Rows, String>>,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self { directory: folder(), known: HashMap::new() }
    }

    pub(super) fn read(&mut self, files: Files) -> Result<Rows, String> {
        if let Some(known) = self.known.get(&files) {
            return known.clone();
        }
        let path = self.directory.path().join("db");
        let _ = std::fs::remove_file(log_of(&path));
        let _ = std::fs::remove_file(index_of(&path));
        std::fs::write(&path, &files.0).unwrap();
        if let Some(log) = &files.1 {
            std::fs::write(log_of(&path), log).unwrap();
        }
        let found = read(&path).unwrap_or_else(|error| Err(error.to_string()));
        self.known.insert(files, found.clone());
        found
    }
}

fn read(path: &Path) -> rusqlite::Result<Result<Rows, String>> {
    let stock = Connection::open(path)?;
    let answer: String = stock.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if answer != "ok" {
        return Ok(Err(answer));
    }
    let mut select = stock.prepare("SELECT a, b FROM t ORDER BY a")?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Ok(rows.collect::<rusqlite::Result<Rows>>()?))
}

/// Explores a trace: each state has the durable transactions, and none or all of each later one, in their order.
fn explore(recorded: &Recorded, trace: &Trace, bound: u64) -> sim::Explored {
    explore_by(recorded, Replay::new(trace), bound)
}

fn explore_by(recorded: &Recorded, replay: Replay<'_>, bound: u64) -> sim::Explored {
    let mut reader = Reader::new();
    explore_states(recorded, replay, bound, |image| reader.read(files(image)))
}

/// Explores a trace, of which `read` reads each state.
pub(super) fn explore_states(
    recorded: &Recorded,
    replay: Replay<'_>,
    bound: u64,
    mut read: impl FnMut(&[u8]) -> Result<Rows, String>,
) -> sim::Explored {
    replay.explore(bound, 1, |image, noted| {
        let (done, durable) = (noted as u32 as usize, (noted >> DURABLE) as usize);
        let rows = read(image)?;
        // The transaction under way may have committed.
        let last = (done + 1).min(recorded.models.len() - 1);
        if recorded.models[durable..=last].contains(&rows) {
            return Ok(());
        }
        Err(format!("after statement {done}, of which {durable} are durable: {} rows", rows.len()))
    })
}

#[test]
fn power_cut_loses_no_durable_transaction() {
    for (name, synchronous, bound, least) in
        [("full", "FULL", 24, 2_000), ("normal", "NORMAL", 40, 300)]
    {
        let recorded = recorded(name, synchronous, Fault::None, &statements()).unwrap();
        let explored = explore(&recorded, &recorded.trace, bound);
        assert_eq!(explored.failed, None, "{name}");
        println!("{name}: {} points, {} states", explored.points, explored.states);
        assert!(explored.states > least, "{name}: {explored:?}");
        // Where a processor orders the stores to a line no more than those to several.
        let weakly = Replay::new(&recorded.trace).weakly_ordered();
        assert_eq!(explore_by(&recorded, weakly, bound / 2).failed, None, "{name}");
    }
}

/// The same for statements in a random order.
pub(super) fn random_statements(seed: u64, count: usize) -> Vec<By> {
    let mut random = SmallRng::seed_from_u64(seed);
    (0..count)
        .map(|number| {
            let (by, key) = (random.random_range(0..2), random.random_range(0..60));
            let many = random.random_range(1..400);
            let sql = match random.random_range(0..14) {
                0..6 => format!("INSERT OR REPLACE INTO t VALUES({key}, hex(zeroblob({many})))"),
                6..8 => format!("UPDATE t SET b = b || {number} WHERE a % 5 = {}", key % 5),
                8 => format!("DELETE FROM t WHERE a > {key}"),
                9 => format!("BEGIN; UPDATE t SET b = hex(zeroblob({many})); ROLLBACK"),
                10 => format!("PRAGMA journal_size_limit = {}", many * 20),
                _ => format!(
                    "PRAGMA wal_checkpoint({})",
                    ["PASSIVE", "FULL", "RESTART", "TRUNCATE"][many % 4]
                ),
            };
            (by, sql)
        })
        .collect()
}

pub(crate) fn explore_random(seeds: std::ops::Range<u64>, count: usize, bound: u64) {
    for seed in seeds {
        let synchronous = if seed % 3 == 2 { "NORMAL" } else { "FULL" };
        let statements = random_statements(seed, count);
        let recorded =
            recorded(&format!("random-{seed}"), synchronous, Fault::None, &statements).unwrap();
        let explored = explore(&recorded, &recorded.trace, bound);
        assert_eq!(explored.failed, None, "seed {seed}");
    }
}

#[test]
fn power_cut_in_random_sql_loses_nothing_durable() {
    explore_random(0..6, 40, 8);
}

/// Another connection stores and commits between a checkpoint's flush of the log and its fence.
fn commit_between(name: &str, fault: Fault) -> Result<sim::Explored, String> {
    let directory = folder();
    let state = State::new(&new_database(directory.path()), fault, false);
    OPEN.lock().unwrap().push((name.into(), state.clone()));
    let [one, two] =
        [0, 1].map(|number| open_recording(&format!("{name}-in-wal-{number}")).unwrap());
    let insert = |by: &Connection, key: i64| {
        by.execute("INSERT INTO t VALUES(?1, hex(zeroblob(100)))", [key]).unwrap();
    };
    for connection in [&one, &two] {
        connection
            .execute_batch("PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = NORMAL")
            .unwrap();
    }
    state.memory.start();
    as_processor(0, 0, || (0..4).for_each(|key| insert(&one, key)));
    let model = Connection::open_in_memory().unwrap();
    model.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    (0..6).for_each(|key| insert(&model, key));
    let before: Rows = rows(&model).into_iter().filter(|row| row.0 < 4).collect();
    let (sent, ready) = std::sync::mpsc::channel();
    let between = Box::new(move || {
        as_processor(0, 1, || insert(&one, 4));
        sent.send(one).unwrap();
    });
    *state.between.lock().unwrap() = Some(between);
    as_processor(1, 0, || two.execute_batch("PRAGMA wal_checkpoint(PASSIVE)")).unwrap();
    let one = ready.recv().unwrap();
    one.execute_batch("PRAGMA synchronous = FULL").unwrap();
    as_processor(0, 0, || insert(&one, 5));
    state.memory.note(1 | 1 << DURABLE);
    let recorded = Recorded { trace: state.memory.stop(), models: vec![before, rows(&model)] };
    let mut reader = Reader::new();
    Ok(Replay::new(&recorded.trace).explore(60, 1, |image, noted| {
        let rows = reader.read(files(image))?;
        match noted {
            0 => Ok(()),
            _ if rows == recorded.models[1] => Ok(()),
            _ => Err(format!("{} rows", rows.len())),
        }
    }))
}

#[test]
fn seeded_fault_of_the_log_is_noticed() {
    let faults = [
        Fault::HeaderUnsynced,
        Fault::CheckpointUnfenced,
        Fault::DurableEarly,
        Fault::LogLengthUnsynced,
        Fault::DatabaseLengthUnsynced,
        Fault::NameUnsynced,
        Fault::CutsNotRaised,
        Fault::ResizesNotRaised,
    ];
    for fault in faults {
        let noticed =
            recorded(&format!("{fault:?}"), "FULL", fault, &statements()).and_then(|recorded| {
                let failed = |bound| explore(&recorded, &recorded.trace, bound).failed;
                failed(8).or_else(|| failed(100)).or_else(|| failed(500)).map_or(Ok(()), Err)
            });
        println!("{fault:?}: {noticed:?}");
        assert!(noticed.is_err(), "{fault:?}");
    }
    assert_eq!(commit_between("between", Fault::None).unwrap().failed, None);
    let noticed = commit_between("not-between", Fault::DurableOfAnothers).unwrap();
    assert!(noticed.failed.is_some(), "{noticed:?}");
}

#[test]
fn missing_flush_or_fence_of_the_log_is_noticed() {
    let recorded = recorded("left-out-wal", "FULL", Fault::None, &statements()).unwrap();
    let mut ours = 0;
    for one in recorded.trace.instructions() {
        let name = one.to_string();
        if !name.contains("src/database/wal/") || name.contains("src/database/wal/diff/") {
            continue;
        }
        ours += 1;
        let without = recorded.trace.without(one);
        let noticed = |bound| explore(&recorded, &without, bound).failed.is_some();
        assert!(noticed(8) || noticed(100) || noticed(500), "{name}");
    }
    // A flush and a fence for each of the two files.
    assert_eq!(ours, 4);
}
