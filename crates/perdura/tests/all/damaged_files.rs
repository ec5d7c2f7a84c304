//! Files of an engine that are missing, cut off or another database's (`docs/reliability.md`, "Bad
//! inputs" 6, 9 to 11): the error names the file and says what to do, nothing is written, and with
//! the right file in its place the database is as it was.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::{Driver, Model, Tables, compare, contents, schema, small_logs};
use perdura::{Database, Domain, EngineKind, Options, OwnStats};

type Files = BTreeMap<String, Vec<u8>>;

fn checkpoints(db: &Database) -> u64 {
    match db.stats().unwrap().own {
        OwnStats::Inp(own) => own.checkpoints,
        other => panic!("{other:?}"),
    }
}

fn options(engine: EngineKind) -> Options {
    small_logs()
        .engine(engine)
        .domain(Domain::Process)
        .tune("page_bytes", 512)
        .tune("cache_bytes", 64 << 10)
        .tune("memtable_bytes", 4 << 10)
        .tune("growth", 2)
        .tune("level0_runs", 2)
        .tune("block_bytes", 512)
        .tune("checkpoint_bytes", 16 << 10)
        .tune("wal_reserve_bytes", 8 << 10)
        .tune("buffer_bytes", 8 << 10)
        .tune("log_bytes", 128 << 10)
        .boot_id([1; 16])
}

fn engines() -> impl Iterator<Item = EngineKind> {
    EngineKind::ALL.into_iter().filter(|engine| engine.traits().needs_files())
}

fn files_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.files", path.display()))
}

fn read_files(path: &Path) -> Files {
    let list = std::fs::read_dir(files_of(path)).unwrap();
    list.map(|file| {
        let file = file.unwrap();
        (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap())
    })
    .collect()
}

fn write_files(path: &Path, files: &Files) {
    std::fs::remove_dir_all(files_of(path)).unwrap();
    std::fs::create_dir(files_of(path)).unwrap();
    for (name, bytes) in files {
        std::fs::write(files_of(path).join(name), bytes).unwrap();
    }
}

/// The file that says whose the others are: it notes each attempt to open, and takes it back.
fn without_identity(mut files: Files) -> Files {
    files.remove("identity");
    files
}

/// A database, closed, with everything that the engine keeps in files.
fn database(directory: &Path, engine: EngineKind, seed: u64) -> (PathBuf, Model) {
    std::fs::create_dir_all(directory).unwrap();
    let path = directory.join("db");
    let db = Database::create(&path, &schema(), &options(engine)).unwrap();
    let (tables, mut driver, mut model) =
        (Tables::of(&db), Driver::new(seed, 200), Model::default());
    for transaction in 0..150 {
        driver.transaction(&db, &tables, &mut model, 1 + transaction % 7).unwrap();
    }
    if engine == EngineKind::Inp {
        db.checkpoint().unwrap();
        // One that commits, so that there is something in the log.
        while !driver.transaction(&db, &tables, &mut model, 5).unwrap() {}
    }
    db.close().unwrap();
    (path, model)
}

struct Damaged {
    path: PathBuf,
    engine: EngineKind,
    model: Model,
    sound: Files,
    pool: Vec<u8>,
}

impl Damaged {
    fn new(directory: &Path, engine: EngineKind) -> Self {
        Self::of(directory, engine, 1)
    }

    fn of(directory: &Path, engine: EngineKind, seed: u64) -> Self {
        let (path, model) = database(directory, engine, seed);
        let (sound, pool) = (read_files(&path), std::fs::read(&path).unwrap());
        Self { path, engine, model, sound, pool }
    }

    /// Opens with these files, and puts the sound ones back; returns the error.
    fn opens(&self, files: &Files) -> Option<String> {
        write_files(&self.path, files);
        let error = match Database::open(&self.path, &options(self.engine)) {
            Ok(db) => {
                let checked = db.check().map(|_| ());
                let found = checked.and_then(|()| contents(&db));
                db.abandon();
                match found {
                    Ok(found) => {
                        assert!(found == self.model, "{}: wrong, and nothing says so", self.engine);
                        None
                    }
                    Err(error) => Some(error.to_string()),
                }
            }
            Err(error) => {
                let unchanged = without_identity(read_files(&self.path));
                let unchanged = unchanged == without_identity(files.clone());
                assert!(unchanged, "{}: a refused opening changes no file: {error}", self.engine);
                let pool = std::fs::read(&self.path).unwrap();
                assert!(pool[8192..] == self.pool[8192..], "nor the pool behind its header");
                Some(error.to_string())
            }
        };
        write_files(&self.path, &self.sound);
        std::fs::write(&self.path, &self.pool).unwrap();
        error
    }

    /// Must be refused with an error that names the file.
    fn refused(&self, files: &Files, name: &str) -> String {
        let error = self.opens(files);
        let error = error.unwrap_or_else(|| panic!("{}: {name}: it opens", self.engine));
        assert!(error.contains(name), "{}: not `{name}` but: {error}", self.engine);
        error
    }
}

/// Returns whether a file says nothing after a close: it has records that have left the log and of
/// which transactions that are open need some, or space that is set aside.
fn says_nothing(name: &str) -> bool {
    name.ends_with("-cold") || name.starts_with("spare-")
}

#[test]
fn a_missing_file_is_named() {
    for engine in engines() {
        let directory = crate::support::in_memory();
        let damaged = Damaged::new(directory.path(), engine);
        println!("{engine}: {:?}", damaged.sound.keys());
        for name in damaged.sound.keys().filter(|name| !says_nothing(name)) {
            let mut files = damaged.sound.clone();
            files.remove(name);
            let kind = name.split('-').next().unwrap();
            // Without a checkpoint the log would have to begin at the beginning.
            let said = if kind == "checkpoint" { "is missing" } else { kind };
            println!("{}", damaged.refused(&files, said));
        }
        let all = damaged.opens(&Files::new());
        assert!(all.is_some(), "{engine}: without any file");
    }
}

#[test]
fn a_file_that_was_cut_off_is_named() {
    for engine in engines() {
        let directory = crate::support::in_memory();
        let damaged = Damaged::new(directory.path(), engine);
        // The newest segment of a log may end anywhere: a crash leaves it so. The copies of pages
        // are needed where a page is torn.
        let may_end = |name: &str| {
            name.starts_with("wal") || name.ends_with("-staging") || says_nothing(name)
        };
        for (name, bytes) in damaged.sound.iter().filter(|(name, _)| !may_end(name)) {
            for keep in [0, 1, 31, 32, 80, bytes.len() / 2, bytes.len() * 9 / 10] {
                if keep < bytes.len() {
                    let mut files = damaged.sound.clone();
                    files.insert(name.clone(), bytes[..keep].into());
                    if let Some(error) = damaged.opens(&files) {
                        let kind = name.split('-').next().unwrap();
                        let known = error.contains(kind) || error.contains("is missing");
                        assert!(known, "{engine}, {name} of {keep}: {error}");
                    } else {
                        let one_copy = name == "identity" && keep == 80;
                        assert!(keep > 80 || one_copy, "{engine}, {name} of {keep} bytes opens");
                    }
                }
            }
        }
    }
}

/// A run of the same name, in a database with the same tables.
#[test]
fn a_run_of_another_database_is_refused() {
    let directory = crate::support::in_memory();
    let damaged = Damaged::new(directory.path(), EngineKind::Log);
    let (other, _) = database(&directory.path().join("other"), EngineKind::Log, 2);
    let other = read_files(&other);
    let mut tried = 0;
    let runs: Vec<_> = damaged.sound.keys().filter(|name| name.starts_with("sstable")).collect();
    for name in &runs {
        // One of the same name, or any.
        let foreign = other.get(*name).or_else(|| {
            other.iter().find(|(name, _)| name.starts_with("sstable")).map(|(_, bytes)| bytes)
        });
        let mut files = damaged.sound.clone();
        files.insert((*name).clone(), foreign.unwrap().clone());
        damaged.refused(&files, name);
        tried += 1;
    }
    assert!(tried >= 2, "{runs:?}");
    // A manifest of the other one asks for runs that are not there, or are not its own.
    let mut files = damaged.sound.clone();
    files.insert("manifest-0".into(), other["manifest-0"].clone());
    assert!(damaged.opens(&files).is_some());
}

/// A database that was closed and could not be opened, for want of a file, is still closed: after a
/// reboot it opens with the file in its place, though its domain does not survive reboots.
#[test]
fn a_refused_opening_leaves_a_closed_database_closed() {
    for engine in engines() {
        let directory = crate::support::in_memory();
        let (path, model) = database(directory.path(), engine, 3);
        let sound = read_files(&path);
        for name in sound.keys().filter(|name| !says_nothing(name)) {
            let mut files = sound.clone();
            files.remove(name);
            write_files(&path, &files);
            assert!(Database::open(&path, &options(engine)).is_err(), "{engine}: without {name}");
        }
        write_files(&path, &sound);
        let db = Database::open(&path, &options(engine).boot_id([2; 16])).unwrap();
        compare(&db, &model);
    }
}

/// A crash tears the end of the newest log, and what was in it is not reported. A database that was
/// closed has no such end: there it is damage, and transactions are missing.
#[test]
fn a_torn_log_of_a_closed_database_is_damage() {
    for engine in [EngineKind::Inp, EngineKind::Log] {
        let directory = crate::support::in_memory();
        // A database whose newest segment has something in it.
        let found = (1..20).find_map(|seed| {
            let damaged = Damaged::of(&directory.path().join(seed.to_string()), engine, seed);
            let name = damaged.sound.keys().rfind(|name| name.starts_with("wal"))?.clone();
            let end = damaged.sound[&name].iter().rposition(|byte| *byte != 0)?;
            (end > 100).then_some((damaged, name, end))
        });
        let (damaged, name, end) = found.expect("one of many");
        let name = &name;
        let log = &damaged.sound[name];
        for at in (32..end.min(600)).step_by(7).chain([end, log.len() - 1]) {
            let mut files = damaged.sound.clone();
            files.get_mut(name).unwrap()[at] ^= 0x40;
            let error = damaged.refused(&files, name);
            assert!(error.contains("closed"), "{engine}, byte {at}: {error}");
        }
        // Killed, it opens without what was torn.
        let mut files = damaged.sound.clone();
        files.get_mut(name).unwrap()[end] ^= 0x40;
        let db = Database::open(&damaged.path, &options(engine)).unwrap();
        db.abandon();
        let mark = read_files(&damaged.path).remove("identity").unwrap();
        files.insert("identity".into(), mark);
        write_files(&damaged.path, &files);
        let refused = Database::open(&damaged.path, &options(engine)).unwrap_err().to_string();
        assert!(refused.contains("another moment"), "{engine}: it was there when it was closed");
        // As if it had never been closed.
        let mut mark = read_files(&damaged.path).remove("identity").unwrap();
        mark[4608..].fill(0);
        files.insert("identity".into(), mark);
        write_files(&damaged.path, &files);
        let db = Database::open(&damaged.path, &options(engine)).unwrap();
        assert!(contents(&db).unwrap() != damaged.model);
        db.check().unwrap();
    }
}

/// A checkpoint that is written while transactions go on has parts of them, and needs the log up to
/// its own end. Of a database that was killed a log may end anywhere, but not before that.
#[test]
fn a_log_that_ends_before_its_checkpoint_does_is_refused() {
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    let options = options(EngineKind::Inp)
        .tune("checkpoint_bytes", 1 << 20)
        .tune("wal_reserve_bytes", 64 << 10);
    let db = Database::create(&path, &schema(), &options).unwrap();
    let (tables, mut driver, mut model) = (Tables::of(&db), Driver::new(5, 300), Model::default());
    for transaction in 0..200 {
        driver.transaction(&db, &tables, &mut model, 1 + transaction % 7).unwrap();
    }
    db.close().unwrap();
    // Now one is due; it is written in steps.
    let options = options.tune("checkpoint_bytes", 30 << 10);
    let db = Database::open(&path, &options).unwrap();
    let tables = Tables::of(&db);
    let last = |path: &Path| read_files(path).keys().rfind(|name| name.starts_with("wal")).cloned();
    let mut during = 0;
    for transaction in 0.. {
        let before = checkpoints(&db);
        driver.transaction(&db, &tables, &mut model, 1 + transaction % 3).unwrap();
        db.background(512).unwrap();
        during += 1;
        if checkpoints(&db) > before {
            break;
        }
    }
    assert!(during > 5, "{during} transactions while it was written");
    let name = last(&path).unwrap();
    while !driver.transaction(&db, &tables, &mut model, 4).unwrap() {}
    assert_eq!(last(&path).as_ref(), Some(&name), "the log goes on in the same segment");
    db.abandon();
    let sound = read_files(&path);
    let pool = std::fs::read(&path).unwrap();
    let end = sound[&name].iter().rposition(|byte| *byte != 0).unwrap();
    let (mut refused, mut shorter) = (0, 0);
    for at in (32..=end).step_by(97).chain([end]) {
        let mut files = sound.clone();
        files.get_mut(&name).unwrap()[at] ^= 0x40;
        write_files(&path, &files);
        std::fs::write(&path, &pool).unwrap();
        match Database::open(&path, &options) {
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains(&name) && error.contains("checkpoint needs"), "{error}");
                let left = without_identity(read_files(&path));
                assert!(left == without_identity(files.clone()), "nothing was cut off");
                let to = directory.path().join(format!("saved-{at}"));
                let saved = perdura::salvage(&path, &to).unwrap();
                assert!(!saved.findings.is_empty() && saved.tuples() > 0);
                Database::open(&to, &small_logs()).unwrap().check().unwrap();
                refused += 1;
            }
            Ok(db) => {
                // Damaged after what the checkpoint needs: as a crash may have torn it.
                db.check().unwrap();
                assert!(contents(&db).unwrap() != model);
                db.abandon();
                shorter += 1;
            }
        }
    }
    println!("{refused} refused, {shorter} taken for the end");
    assert!(refused > 3 && shorter > 0, "{refused} refused, {shorter} taken for the end");
}
