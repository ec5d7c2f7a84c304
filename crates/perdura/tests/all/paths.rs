//! A path that changes its meaning while a database is open. Nothing is lost in what was opened,
//! nor in what another process has made at the path, and closing says so.
//!
//! A relative path and a change of the working directory need a process of their own:
//! `crates/pm/tests/working_directory.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::support::{Item, Model, Tables, compare, insert_item, schema, small_logs};
use perdura::{
    Backup, Concurrency, CopyProgress, CopyStep, Database, Domain, DurableIn, EngineKind, Error,
    LoadOptions, Options, PoolError, examine_parts, inspect, salvage,
};

fn options(engine: EngineKind) -> Options {
    small_logs()
        .engine(engine)
        .domain(Domain::Process)
        .pool_limit(1 << 30)
        .volatile_limit(1 << 30)
        .tune("memtable_bytes", 16 << 10)
        .tune("wal_reserve_bytes", 16 << 10)
        .tune("checkpoint_bytes", 32 << 10)
}

fn item(number: u64, by: &str) -> Item {
    Item {
        name: by.into(),
        payload: vec![number as u8; 200],
        count: number as i64,
        flag: vec![],
        score: 0.5,
    }
}

/// Writes enough that engines with files begin new ones and remove old ones.
fn fill(db: &Database, model: &mut Model, by: &str) -> Result<(), Error> {
    let tables = Tables::of(db);
    for _ in 0..200 {
        let key = model.items.len() as u64;
        let item = item(key, by);
        db.write(|tx| insert_item(tx, &tables, key, &item))?;
        model.items.insert(key, item);
    }
    db.checkpoint()
}

fn filled(path: &Path, engine: EngineKind, by: &str) -> (Database, Model) {
    let db = Database::create(path, &schema(), &options(engine)).unwrap();
    let mut model = Model::default();
    fill(&db, &mut model, by).unwrap();
    (db, model)
}

/// Asserts that the database at a path is whole and has exactly this.
fn holds(path: &Path, model: &Model) {
    let db = Database::open(path, &small_logs()).unwrap();
    let report = db.check().unwrap();
    assert_eq!((report.leaked, report.dangling), (0, 0));
    compare(&db, model);
    db.close().unwrap();
}

fn is_elsewhere(closed: Result<(), Error>, at: &Path) {
    match closed {
        Err(Error::Pool(PoolError::Elsewhere { now, .. })) => {
            assert_eq!(now.as_deref(), Some(at), "where the data are");
        }
        other => panic!("{other:?}"),
    }
}

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.at("")).unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn a_link_that_is_flipped_separates_two_databases() {
    for engine in EngineKind::ALL {
        let place = Scratch::new();
        fs::create_dir(place.at("one")).unwrap();
        fs::create_dir(place.at("two")).unwrap();
        symlink("one", place.at("current")).unwrap();
        let path = place.at("current/db");
        let (old, mut olds) = filled(&path, engine, "old");
        symlink("two", place.at("next")).unwrap();
        fs::rename(place.at("next"), place.at("current")).unwrap();
        let (new, mut news) = filled(&path, engine, "new");
        fill(&old, &mut olds, "old").unwrap();
        fill(&new, &mut news, "new").unwrap();
        is_elsewhere(old.close(), &place.at("one/db"));
        fill(&new, &mut news, "new").unwrap();
        new.close().unwrap();
        holds(&place.at("one/db"), &olds);
        holds(&path, &news);
    }
}

#[test]
fn a_database_that_is_removed_and_made_anew_keeps_what_is_new() {
    for engine in EngineKind::ALL {
        let place = Scratch::new();
        let path = place.at("db");
        let (old, mut olds) = filled(&path, engine, "old");
        fs::remove_file(&path).unwrap();
        if engine.traits().needs_files() {
            fs::remove_dir_all(place.at("db.files")).unwrap();
        }
        let (new, mut news) = filled(&path, engine, "new");
        // It goes on in what has no name any more, or fails.
        let _ = fill(&old, &mut olds, "old");
        fill(&new, &mut news, "new").unwrap();
        let error = old.close().unwrap_err().to_string();
        assert!(error.contains("removed"), "{engine}: {error}");
        fill(&new, &mut news, "new").unwrap();
        new.close().unwrap();
        holds(&path, &news);
    }
}

#[test]
fn a_database_that_is_renamed_while_it_is_open_goes_on_where_it_is() {
    for engine in EngineKind::ALL {
        let place = Scratch::new();
        let (path, moved) = (place.at("db"), place.at("moved"));
        let (old, mut olds) = filled(&path, engine, "old");
        fs::rename(&path, &moved).unwrap();
        if engine.traits().needs_files() {
            fs::rename(place.at("db.files"), place.at("moved.files")).unwrap();
        }
        let (new, mut news) = filled(&path, engine, "new");
        fill(&old, &mut olds, "old").unwrap();
        fill(&new, &mut news, "new").unwrap();
        is_elsewhere(old.close(), &moved);
        new.close().unwrap();
        holds(&moved, &olds);
        holds(&path, &news);
    }
}

#[test]
fn a_directory_above_that_is_renamed_or_replaced_changes_nothing() {
    for engine in [EngineKind::Inp, EngineKind::Log, EngineKind::NvmInp] {
        let place = Scratch::new();
        fs::create_dir(place.at("a")).unwrap();
        let path = place.at("a/db");
        let (old, mut olds) = filled(&path, engine, "old");
        fs::rename(place.at("a"), place.at("b")).unwrap();
        fill(&old, &mut olds, "old").unwrap();
        fs::create_dir(place.at("a")).unwrap();
        let (new, news) = filled(&path, engine, "new");
        is_elsewhere(old.close(), &place.at("b/db"));
        new.close().unwrap();
        holds(&place.at("b/db"), &olds);
        holds(&path, &news);
    }
}

#[test]
fn whoever_only_opens_and_closes_by_a_link_hears_nothing() {
    let place = Scratch::new();
    let (db, model) = filled(&place.at("db"), EngineKind::Inp, "old");
    db.close().unwrap();
    symlink("db", place.at("link")).unwrap();
    symlink(place.at("link"), place.at("link to link")).unwrap();
    fs::rename(place.at("db.files"), place.at("elsewhere")).unwrap();
    symlink("elsewhere", place.at("db.files")).unwrap();
    for name in ["db", "link", "link to link"] {
        holds(&place.at(name), &model);
    }
    symlink("round", place.at("round")).unwrap();
    let error = Database::open(place.at("round"), &small_logs()).unwrap_err();
    assert!(matches!(error, Error::Io { .. } | Error::Pool(PoolError::Io { .. })), "{error}");
}

/// The pools are two, the files are one database's.
#[test]
fn files_have_one_database_whatever_leads_to_them() {
    for engine in EngineKind::ALL.into_iter().filter(|engine| engine.traits().needs_files()) {
        let place = Scratch::new();
        let (db, model) = filled(&place.at("db"), engine, "old");
        db.close().unwrap();
        fs::copy(place.at("db"), place.at("second")).unwrap();
        symlink("db.files", place.at("second.files")).unwrap();
        let db = Database::open(place.at("db"), &small_logs()).unwrap();
        let error = Database::open(place.at("second"), &small_logs()).unwrap_err();
        let Error::Pool(PoolError::InUse { path, .. }) = &error else { panic!("{error}") };
        assert!(path.ends_with("db.files"), "{}", path.display());
        assert!(error.to_string().contains("by this process"), "{error}");
        compare(&db, &model);
        db.close().unwrap();
        holds(&place.at("db"), &model);
    }
}

/// While a copy is made another process takes its name away, and makes something else of that name.
#[test]
fn what_somebody_else_makes_meanwhile_is_never_removed() {
    let place = Scratch::new();
    let (db, mut model) = filled(&place.at("db"), EngineKind::Inp, "old");
    fill(&db, &mut model, "old").unwrap();
    db.backup(place.at("backup")).unwrap();
    let mut lines = Vec::new();
    db.dump_to(&mut lines, "lines", &[], &mut |_| ()).unwrap();
    db.close().unwrap();
    let replaced = |names: &[&str]| {
        for name in names {
            let path = place.at(name);
            if path.is_dir() {
                fs::remove_dir_all(&path).unwrap();
                fs::create_dir(&path).unwrap();
                fs::write(path.join("precious"), "somebody's").unwrap();
            } else if path.exists() {
                fs::remove_file(&path).unwrap();
                fs::write(&path, "somebody's").unwrap();
            } else {
                continue;
            }
        }
    };
    let untouched = |names: &[&str]| {
        for name in names {
            let path = place.at(name);
            let path = if path.is_dir() { path.join("precious") } else { path };
            assert_eq!(fs::read(&path).unwrap(), b"somebody's", "{}", path.display());
            fs::remove_dir_all(place.at(name))
                .or_else(|_| fs::remove_file(place.at(name)))
                .unwrap();
        }
    };
    for engine in [EngineKind::Inp, EngineKind::Cow, EngineKind::NvmInp] {
        let all: &[&str] = &["copy.perdura-new", "copy.files"];
        let names = if engine.traits().needs_files() { all } else { &all[..1] };
        let mut first = true;
        let mut watch = |at: CopyProgress| {
            if at.step == CopyStep::Load && std::mem::take(&mut first) {
                replaced(names);
            }
        };
        let backup = Backup::open(place.at("backup")).unwrap();
        backup.restore(place.at("copy"), &options(engine), &mut watch).unwrap_err();
        untouched(names);
        first = true;
        let mut watch = |at: CopyProgress| {
            if at.step == CopyStep::Load && std::mem::take(&mut first) {
                replaced(names);
            }
        };
        let (path, load) = (place.at("copy"), LoadOptions::new("lines").batch(10));
        Database::create_from_lines(path, None, &options(engine), &mut &*lines, &load, &mut watch)
            .unwrap_err();
        untouched(names);
        assert_eq!(place.names(), ["backup", "db", "db.files"], "{engine}");
    }
    let db = Database::open(place.at("db"), &small_logs()).unwrap();
    db.backup_watched(place.at("next"), &mut |_| replaced(&["next.perdura-new"])).unwrap_err();
    untouched(&["next.perdura-new"]);
    db.dump(place.at("next"), &[], &mut |_| replaced(&["next.perdura-new"])).unwrap_err();
    untouched(&["next.perdura-new"]);
    db.close().unwrap();
    salvage(place.at("db"), place.at("saved")).unwrap();
    assert_eq!(place.names(), ["backup", "db", "db.files", "saved", "saved.files"]);
    holds(&place.at("saved"), &model);
}

/// A copy belongs where its path led when it began.
#[test]
fn a_link_that_is_flipped_while_a_copy_is_made_is_told() {
    let place = Scratch::new();
    let (db, model) = filled(&place.at("db"), EngineKind::Log, "old");
    db.backup(place.at("backup")).unwrap();
    fs::create_dir(place.at("one")).unwrap();
    fs::create_dir(place.at("two")).unwrap();
    symlink("one", place.at("current")).unwrap();
    let mut first = true;
    let mut flip = |_| {
        if std::mem::take(&mut first) {
            symlink("two", place.at("next")).unwrap();
            fs::rename(place.at("next"), place.at("current")).unwrap();
        }
    };
    let backup = Backup::open(place.at("backup")).unwrap();
    let made = backup.restore(place.at("current/copy"), &options(EngineKind::Log), &mut flip);
    // Verifying comes before anything is made.
    made.unwrap();
    holds(&place.at("two/copy"), &model);
    let mut calls = 0;
    let mut flip = |at: CopyProgress| {
        calls += u32::from(at.step == CopyStep::Load);
        if calls == 1 {
            symlink("one", place.at("next")).unwrap();
            fs::rename(place.at("next"), place.at("current")).unwrap();
            calls += 1;
        }
    };
    let backup = Backup::open(place.at("backup")).unwrap();
    let made = backup.restore(place.at("current/other"), &options(EngineKind::Log), &mut flip);
    assert!(made.unwrap_err().to_string().contains("leads elsewhere"));
    assert_eq!(fs::read_dir(place.at("one")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(place.at("two")).unwrap().count(), 2, "nothing is left");
}

/// A creation that fails leaves what was there before it, the same inode.
#[test]
fn a_creation_that_fails_removes_only_what_it_made() {
    for engine in EngineKind::ALL {
        let place = Scratch::new();
        fs::create_dir(place.at("db.files")).unwrap();
        let before = fs::metadata(place.at("db.files")).unwrap().ino();
        let options = options(engine).pool_limit(16 << 10);
        Database::create(place.at("db"), &schema(), &options).unwrap_err();
        assert_eq!(place.names(), ["db.files"], "{engine}");
        assert_eq!(fs::metadata(place.at("db.files")).unwrap().ino(), before);
        assert_eq!(fs::read_dir(place.at("db.files")).unwrap().count(), 0);
    }
}

/// A user who may read or write a database's files may so those that are made later.
#[test]
fn new_files_have_the_mode_of_their_directory() {
    for engine in EngineKind::ALL.into_iter().filter(|engine| engine.traits().needs_files()) {
        let place = Scratch::new();
        let (db, mut model) = filled(&place.at("db"), engine, "old");
        db.close().unwrap();
        let files = place.at("db.files");
        let modes = || {
            let each = fs::read_dir(&files).unwrap().map(|entry| {
                let entry = entry.unwrap();
                (entry.file_name(), entry.metadata().unwrap().mode() & 0o7777)
            });
            each.collect::<BTreeMap<_, _>>()
        };
        let before = modes();
        assert!(before.values().all(|mode| *mode == 0o600), "{before:?}");
        fs::set_permissions(&files, fs::Permissions::from_mode(0o750)).unwrap();
        let db = Database::open(place.at("db"), &options(engine)).unwrap();
        for _ in 0..3 {
            fill(&db, &mut model, "new").unwrap();
        }
        db.close().unwrap();
        let mut new = modes();
        new.retain(|name, _| !before.contains_key(name));
        assert!(new.values().all(|mode| *mode == 0o640), "{engine}: {new:?}");
        // The file of `cow` is one for ever, and paged engines have all of theirs from the
        // beginning.
        let paged = engine.traits().concurrency == Concurrency::Shared;
        assert_eq!(
            new.is_empty(),
            engine == EngineKind::Cow || paged,
            "{engine}: {before:?}, {new:?}"
        );
        holds(&place.at("db"), &model);
    }
}

#[test]
fn files_that_are_missing_or_something_else_are_named_with_their_place() {
    for engine in EngineKind::ALL.into_iter().filter(|engine| engine.traits().needs_files()) {
        let place = Scratch::new();
        let (db, model) = filled(&place.at("db"), engine, "old");
        db.close().unwrap();
        let before = fs::read(place.at("db")).unwrap();
        let refused = |said: &str| {
            let (path, options) = (place.at("db"), small_logs());
            for error in [
                Database::open(&path, &options).unwrap_err(),
                Database::open_or_create(&path, &schema(), &options).unwrap_err(),
                examine_parts(&path, &options).unwrap_err(),
                salvage(&path, place.at("saved")).unwrap_err(),
            ] {
                let text = error.to_string();
                assert!(text.contains(said), "{text}");
                assert!(text.contains(&place.at("db.files").display().to_string()), "{text}");
            }
            let inspected = inspect(&path).unwrap().files.unwrap();
            assert!(inspected.missing.unwrap().contains(said));
        };
        fs::rename(place.at("db.files"), place.at("left")).unwrap();
        refused("its files are missing");
        fs::write(place.at("db.files"), "no directory").unwrap();
        refused("is a regular file, not a directory");
        fs::remove_file(place.at("db.files")).unwrap();
        assert!(fs::read(place.at("db")).unwrap() == before, "{engine}: the pool is as it was");
        fs::rename(place.at("left"), place.at("db.files")).unwrap();
        assert!(inspect(place.at("db")).unwrap().files.unwrap().missing.is_none());
        assert_eq!(place.names(), ["db", "db.files"]);
        holds(&place.at("db"), &model);
    }
}

/// A pool with the files of another database, or of another moment of its own.
#[test]
fn only_a_pool_and_files_that_belong_together_are_opened() {
    for engine in EngineKind::ALL.into_iter().filter(|engine| engine.traits().needs_files()) {
        let place = Scratch::new();
        let (db, mut model) = filled(&place.at("db"), engine, "monday");
        db.close().unwrap();
        filled(&place.at("other"), engine, "other").0.close().unwrap();
        fs::copy(place.at("db"), place.at("monday")).unwrap();
        let db = Database::open(place.at("db"), &small_logs()).unwrap();
        fill(&db, &mut model, "tuesday").unwrap();
        db.close().unwrap();
        let refused = |pool: &str, said: &str| {
            symlink(place.at("db.files"), place.at(&format!("{pool}.files"))).unwrap();
            let before = fs::read(place.at(pool)).unwrap();
            let error = Database::open(place.at(pool), &small_logs()).unwrap_err();
            assert!(matches!(error, Error::OtherFiles { .. }), "{error}");
            assert!(error.to_string().contains(said), "{error}");
            let inspected = inspect(place.at(pool)).unwrap();
            let missing = inspected.files.unwrap().missing.unwrap();
            assert!(missing.contains(said), "{missing}");
            let of_the_pool = fs::metadata(place.at(pool)).unwrap().blocks() * 512;
            assert_eq!(
                inspected.stored_bytes, of_the_pool,
                "{engine}: without what is not its own"
            );
            let parts = examine_parts(place.at(pool), &small_logs()).unwrap_err();
            assert!(matches!(parts, Error::OtherFiles { .. }), "{parts}");
            // The files that are taken over are reported as another database's.
            let saved = salvage(place.at(pool), place.at("saved")).unwrap();
            // A log in the pool says what is in the pages: those of another moment are not read.
            let both = engine.traits().durable_in == DurableIn::Both;
            assert!(saved.tuples() > 0 || both, "{engine}");
            let finding = saved.findings.listed[0].to_string();
            let theirs = "what is taken over is theirs";
            assert!(finding.contains(said) && finding.contains(theirs), "{finding}");
            assert!(!finding.contains("--repair-into"), "it is what is being done: {finding}");
            fs::remove_file(place.at("saved")).unwrap();
            fs::remove_dir_all(place.at("saved.files")).unwrap();
            assert!(fs::read(place.at(pool)).unwrap() == before, "{engine}: as it was");
            fs::remove_file(place.at(&format!("{pool}.files"))).unwrap();
        };
        refused("monday", "the pool must be of an older copy");
        fs::rename(place.at("other.files"), place.at("others")).unwrap();
        refused("other", "another database");
        let identity = place.at("db.files").join("identity");
        let sound = fs::read(&identity).unwrap();
        fs::write(&identity, &sound[..79]).unwrap();
        refused("monday", "`identity`, which says whose they are, is damaged");
        fs::remove_file(&identity).unwrap();
        refused("monday", "there is no `identity` among them, which says whose they are");
        fs::write(&identity, &sound).unwrap();
        holds(&place.at("db"), &model);
    }
}
