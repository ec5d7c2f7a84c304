//! A single file of another moment, or of another database, in the place of the one that belongs
//! there: opening refuses it, or what is read is what was acknowledged.

use crate::support::{copy_file, few, small_logs};
use std::collections::BTreeMap;
use std::fs;
use std::ops::{ControlFlow, Range};
use std::path::Path;

use perdura::{
    ColumnType, Database, EngineKind, Error, Options, Scan, Schema, TableSchema, Value,
    examine_parts, salvage,
};

const PARTITIONS: usize = 2;

type Rows = Vec<BTreeMap<u64, String>>;

fn schema() -> Schema {
    let table = TableSchema::new("t");
    let table = table.column("id", ColumnType::U64).column("by", ColumnType::Text { max: 400 });
    Schema::new().table(table.key(&["id"]))
}

fn options(engine: EngineKind) -> Options {
    // Each file is copied often.
    let options = small_logs().tune("log_bytes", 1 << 20).tune("wal_reserve_bytes", 64 << 10);
    options.engine(engine).partitions(PARTITIONS as u32).domain(perdura::Domain::Process)
}

/// Adds a transaction for each key to each partition, with one that is aborted and one that reads.
fn fill(db: &Database, rows: &mut Rows, keys: Range<u64>, by: &str) {
    let table = db.table("t").unwrap();
    for (number, rows) in rows.iter_mut().enumerate() {
        let partition = db.partition(number);
        for key in keys.clone() {
            let text = format!("{by} {number} {key} {}", "x".repeat(300));
            partition
                .write(|tx| tx.insert(&table, &[Value::U64(key), Value::Text(&text)]))
                .unwrap();
            rows.insert(key, text);
        }
        let mut tx = partition.begin().unwrap();
        tx.delete(&table, &[Value::U64(keys.start)]).unwrap();
        tx.abort().unwrap();
        partition
            .write(|tx| tx.get_into(&table, &[Value::U64(1)], &mut perdura::Row::new()))
            .unwrap();
    }
}

fn contents(db: &Database) -> Result<Rows, Error> {
    let table = db.table("t")?;
    let mut all = Vec::new();
    for number in 0..PARTITIONS {
        let mut rows = BTreeMap::new();
        db.partition(number).read(|tx| {
            tx.scan(&table, &Scan::all(), |row| {
                rows.insert(row.u64(0), row.text(1).to_owned());
                ControlFlow::Continue(())
            })
        })?;
        all.push(rows);
    }
    Ok(all)
}

fn copy(from: &Path, to: &Path) {
    copy_file(from.join("db"), to.join("db"));
    fs::create_dir_all(to.join("db.files")).unwrap();
    for file in fs::read_dir(from.join("db.files")).unwrap() {
        let file = file.unwrap();
        copy_file(file.path(), to.join("db.files").join(file.file_name()));
    }
}

fn names(place: &Path) -> Vec<String> {
    let all = fs::read_dir(place.join("db.files")).unwrap();
    let names = all.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "identity").collect()
}

/// A database at three moments, and another one, each in a directory of its own.
struct Moments {
    place: tempfile::TempDir,
    rows: BTreeMap<&'static str, Rows>,
}

impl Moments {
    fn of(engine: EngineKind, checkpoints: bool, closes: bool) -> Self {
        let place = crate::support::in_memory();
        let mut kept = BTreeMap::new();
        for (name, by) in [("work", "own"), ("other", "other")] {
            let at = place.path().join(name);
            fs::create_dir(&at).unwrap();
            let mut db = Database::create(at.join("db"), &schema(), &options(engine)).unwrap();
            let mut rows = vec![BTreeMap::new(); PARTITIONS];
            for (moment, keys) in [("monday", 0..20), ("tuesday", 20..45), ("friday", 45..50)] {
                fill(&db, &mut rows, keys, by);
                if checkpoints {
                    db.checkpoint().unwrap();
                }
                // All moments but the last one are those of a closed database.
                if closes || moment != "friday" {
                    db.close().unwrap();
                } else {
                    db.abandon();
                }
                if name == "work" {
                    let to = place.path().join(moment);
                    fs::create_dir(&to).unwrap();
                    copy(&at, &to);
                    kept.insert(moment, rows.clone());
                }
                if moment == "friday" {
                    break;
                }
                db = Database::open(at.join("db"), &small_logs()).unwrap();
            }
        }
        Self { place, rows: kept }
    }

    /// Takes a file of another moment into a copy of `moment`; returns how often opening refused
    /// it.
    fn with_one_of(&self, moment: &str, other: &str, told: &str) -> (u32, u32) {
        let (mut tried, mut refused) = (0, 0);
        let from = self.place.path().join(other);
        for name in names(&from) {
            let base = self.place.path().join(moment);
            let own = base.join("db.files").join(&name);
            let theirs = fs::read(from.join("db.files").join(&name)).unwrap();
            if !own.exists() || fs::read(&own).unwrap() == theirs {
                continue;
            }
            tried += 1;
            let mixed = self.mixed(moment);
            let own = fs::read(&own).unwrap();
            fs::write(mixed.join("db.files").join(&name), &theirs).unwrap();
            match Database::open(mixed.join("db"), &small_logs()) {
                Ok(db) => {
                    let what = format!("{told}: {name} of {other} in {moment}");
                    assert!(contents(&db).unwrap() == self.rows[moment], "{what}");
                }
                Err(error) => {
                    refused += 1;
                    let text = error.to_string();
                    // A part of a log of another moment has no record where there has to be one.
                    let words = ["another", "missing", "is not the file", "the log is damaged"];
                    assert!(words.iter().any(|word| text.contains(word)), "{told}: {text}");
                    // Looking for damage finds it, too; and what can be saved is reported.
                    let found = examine_parts(mixed.join("db"), &small_logs()).unwrap();
                    assert!(!found.findings.is_empty(), "{told}: {name} of {other}");
                    if let Ok(saved) = salvage(mixed.join("db"), mixed.join("saved")) {
                        assert!(!saved.findings.is_empty(), "{told}: {name} of {other}");
                    }
                    fs::write(mixed.join("db.files").join(&name), &own).unwrap();
                    self.has_all(&mixed, moment, &format!("{told}: {name} of {other} taken back"));
                }
            }
        }
        (tried, refused)
    }

    /// Puts all files of another moment next to the pool of `moment`, opens the database, and takes
    /// them back if that was refused. Returns whether it was refused, or the files are the same.
    /// Otherwise they have become those of the log.
    fn with_all_of(&self, moment: &str, other: &str, told: &str) -> bool {
        let (mixed, mut differ) = (self.mixed(moment), false);
        for name in names(&self.place.path().join(other)) {
            let theirs = self.place.path().join(other).join("db.files").join(&name);
            let own = mixed.join("db.files").join(&name);
            differ |= fs::read(&theirs).ok() != fs::read(&own).ok();
            copy_file(theirs, own);
        }
        if !differ {
            // With a log in the pool nothing may have been written to files.
            return true;
        }
        let told = format!("{told}: all of {other} in {moment}");
        match Database::open(mixed.join("db"), &small_logs()) {
            Ok(db) => {
                assert!(contents(&db).unwrap() == self.rows[moment], "{told}");
                db.check().unwrap_or_else(|error| panic!("{told}: {error}"));
                return false;
            }
            Err(_) => drop(examine_parts(mixed.join("db"), &small_logs())),
        }
        let own = names(&self.place.path().join(moment));
        for name in names(&mixed).into_iter().filter(|name| !own.contains(name)) {
            fs::remove_file(mixed.join("db.files").join(name)).unwrap();
        }
        for name in own {
            let file = mixed.join("db.files").join(&name);
            assert!(file.exists(), "{told}: {name} is gone");
            copy_file(self.place.path().join(moment).join("db.files").join(&name), file);
        }
        self.has_all(&mixed, moment, &told);
        true
    }

    /// Makes a copy of a moment.
    fn mixed(&self, moment: &str) -> std::path::PathBuf {
        let mixed = self.place.path().join("mixed");
        let _ = fs::remove_dir_all(&mixed);
        fs::create_dir(&mixed).unwrap();
        copy(&self.place.path().join(moment), &mixed);
        mixed
    }

    /// Asserts that a refused database, with its own files, has all that it had.
    fn has_all(&self, place: &Path, moment: &str, told: &str) {
        let db = Database::open(place.join("db"), &small_logs());
        let db = db.unwrap_or_else(|error| panic!("{told}: {error}"));
        assert!(contents(&db).unwrap() == self.rows[moment], "{told}");
        db.close().unwrap();
    }
}

/// The moment of a database, and the one that a file is of.
type Mixed = (&'static str, &'static str);

const SOME: [Mixed; 2] = [("friday", "monday"), ("friday", "other")];

pub(crate) const ALL: [Mixed; 6] = [
    ("friday", "monday"),
    ("friday", "tuesday"),
    ("tuesday", "monday"),
    ("tuesday", "friday"),
    ("monday", "friday"),
    ("friday", "other"),
];

/// With checkpoints or without, closed or killed.
pub(crate) fn a_single_file_is_refused(
    engines: impl Iterator<Item = EngineKind>,
    moments: &[(bool, bool)],
    mixed: &[Mixed],
) {
    for engine in engines {
        for &(checkpoints, closes) in moments {
            let moments = Moments::of(engine, checkpoints, closes);
            let (mut tried, mut refused) = (0, 0);
            for &(moment, other) in mixed {
                if !closes && (moment, other) == ("friday", "tuesday") {
                    // Nothing records how far a killed process had come since the database was
                    // opened.
                    continue;
                }
                let told = format!("{engine}, checkpoints {checkpoints}, closed {closes}");
                let (more, no) = moments.with_one_of(moment, other, &told);
                (tried, refused) = (tried + more, refused + no);
            }
            assert!(refused > 0, "{engine}: {refused} of {tried}");
            let told = format!("{engine}, checkpoints {checkpoints}, closed {closes}");
            for (moment, other) in
                [("monday", "tuesday"), ("tuesday", "friday"), ("monday", "other")]
            {
                // A killed process may have log in the pool that its files lack.
                let may_open = is_logged(engine) && !closes;
                let refused = moments.with_all_of(moment, other, &told);
                assert!(refused || may_open, "{told}: {other} in {moment}");
            }
        }
    }
}

#[test]
fn a_single_file_of_another_moment_or_database_is_refused() {
    let engines = few().filter(|engine| engine.traits().needs_files());
    a_single_file_is_refused(engines, &[(false, true), (true, false)], &SOME);
}

#[test]
fn after_a_kill_files_beside_a_log_in_the_pool_are_refused_or_become_those_of_the_log() {
    a_single_file_is_refused(few().filter(|engine| is_logged(*engine)), &[(false, false)], &SOME);
}

pub(crate) fn with_files() -> impl Iterator<Item = EngineKind> {
    EngineKind::ALL.into_iter().filter(|engine| engine.traits().needs_files())
}

/// Returns whether its log lies in the pool, and its pages in files.
fn is_logged(engine: EngineKind) -> bool {
    engine.traits().durable_in == perdura::DurableIn::Both
}

/// The record of where partitions end is durable before the pool says that it is closed.
#[test]
fn a_damaged_record_of_ends_is_damage_in_a_closed_database_and_nothing_in_a_killed_one() {
    for engine in EngineKind::ALL.into_iter().filter(|engine| engine.traits().needs_files()) {
        for closes in [true, false] {
            let moments = Moments::of(engine, false, closes);
            let mixed = moments.mixed("friday");
            let identity = mixed.join("db.files").join("identity");
            let mut bytes = fs::read(&identity).unwrap();
            bytes[4650] ^= 1;
            fs::write(&identity, bytes).unwrap();
            match Database::open(mixed.join("db"), &small_logs()) {
                Ok(db) => {
                    assert!(!closes, "{engine}: it is closed");
                    assert!(contents(&db).unwrap() == moments.rows["friday"], "{engine}");
                }
                Err(error) => {
                    assert!(closes, "{engine}: {error}");
                    assert!(error.to_string().contains("`identity`"), "{engine}: {error}");
                    let saved = salvage(mixed.join("db"), mixed.join("saved")).unwrap();
                    assert!(!saved.findings.is_empty(), "{engine}");
                }
            }
        }
    }
}
