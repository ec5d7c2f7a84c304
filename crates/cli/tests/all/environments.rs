//! Commands where something of the surroundings is missing: which boot it is, a medium that keeps
//! what the database promises, the right to write.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use perdura::{ColumnType, Database, Domain, EngineKind, Options, Schema, TableSchema, Value};

use crate::common::{Ran, run};

const ENGINES: [EngineKind; 4] =
    [EngineKind::Inp, EngineKind::Cow, EngineKind::Log, EngineKind::NvmInp];

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.at(name).display().to_string()
    }
}

/// A database with a tuple, not closed.
fn left_open(path: &Path, options: &Options) {
    let table =
        TableSchema::new("t").column("k", ColumnType::U64).column("v", ColumnType::U64).key(&["k"]);
    let db = Database::create(path, &Schema::new().table(table), options).expect("created");
    let table = db.table("t").expect("a table");
    let tuple = [Value::U64(1), Value::U64(4711)];
    db.partition(0).write(|tx| tx.insert(&table, &tuple)).expect("inserted");
    db.abandon();
}

fn small(engine: EngineKind) -> Options {
    Options::new().engine(engine).pool_limit(1 << 30)
}

fn holds_the_tuple(path: &str) {
    let dumped = run(&["pool", "dump", path]);
    assert!(dumped.out.contains("4711"), "{path}: {dumped:?}");
}

/// Runs the command after `mount` with these arguments in a namespace of its own; `None` where the
/// kernel makes none for this user.
fn mounted(mount: &[&str], arguments: &[&str]) -> Option<Ran> {
    let within = |program: &str, more: &[&str]| {
        let script = format!("mount {} && exec \"$0\" \"$@\"", mount[0]);
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "sh", "-c", &script, program]).args(more);
        command.envs(mount.get(1).map(|place| ("PLACE", place)));
        command.output()
    };
    if !within("true", &[]).ok()?.status.success() {
        return None;
    }
    Some(within(env!("CARGO_BIN_EXE_perdura"), arguments).expect("it runs").into())
}

/// /proc without sys, as in some sandboxes. Where no namespace can be had, there is the pool's own
/// test.
#[test]
fn disk_database_works_without_a_boot_id() {
    let without = |arguments: &[&str]| mounted(&["-t tmpfs none /proc/sys"], arguments);
    let place = Place::new();
    let (disk, process, backup) = (place.text("disk"), place.text("process"), place.text("backup"));
    left_open(&place.at("disk"), &small(EngineKind::NvmInp));
    left_open(&place.at("process"), &small(EngineKind::NvmInp).domain(Domain::Process));
    for path in [&disk, &process] {
        let Some(info) = without(&["pool", "info", path]) else { return };
        assert_eq!(info.code, Some(0), "{info:?}");
    }
    let refused = without(&["pool", "check", &process]).expect("as before");
    assert!(refused.err.contains("boot id"), "{refused:?}");
    if !run(&["pool", "info", &disk]).out.contains("domain      disk\n") {
        return;
    }
    for more in [&["check", &disk][..], &["dump", &disk], &["backup", &disk, &backup]] {
        let ran = without(&[&["pool"], more].concat()).expect("as before");
        assert_eq!(ran.code, Some(0), "{more:?}: {ran:?}");
    }
    holds_the_tuple(&disk);
}

/// The advice of each command is followed, and leaves the database as it was.
#[test]
fn what_a_reboot_hit_is_taken_over_as_the_refusal_says() {
    let place = Place::new();
    let hit = place.text("hit");
    let options = small(EngineKind::NvmInp).domain(Domain::Process).boot_id([1; 16]);
    left_open(&place.at("hit"), &options);
    let before = fs::read(&hit).expect("read");
    let (backup, saved) = (place.text("backup"), place.text("saved"));
    for more in [&["check", &hit][..], &["dump", &hit], &["backup", &hit, &backup]] {
        let refused = run(&[&["pool"], more].concat());
        assert_eq!(refused.code, Some(1), "{refused:?}");
        for way in ["`perdura pool check FILE --repair-into NEW`", "(--accept-loss)"] {
            assert!(refused.err.contains(way), "{more:?}: {refused:?}");
        }
    }
    let taken = run(&["pool", "check", &hit, "--repair-into", &saved]);
    assert_eq!(taken.code, Some(0), "{taken:?}");
    assert!(fs::read(&hit).expect("read") == before, "it was changed");
    holds_the_tuple(&saved);
    let checked = run(&["pool", "check", &hit, "--accept-loss"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    holds_the_tuple(&hit);
}

/// A database of a disk that was copied to memory; where there is none of either, this shows nothing.
#[test]
fn a_copy_on_a_weaker_medium_says_how_it_is_taken_over() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm").map(Place) else { return };
    for engine in ENGINES {
        let place = Place::new();
        left_open(&place.at("db"), &small(engine));
        let copy = memory.text(&format!("{engine}"));
        let copied = Command::new("cp").arg("-r").arg(place.at("db")).arg(&copy).status();
        assert!(copied.expect("it runs").success());
        if place.at("db.files").exists() {
            let (from, to) = (place.at("db.files"), format!("{copy}.files"));
            assert!(Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap().success());
        }
        let info = run(&["pool", "info", &copy]);
        assert_eq!(info.code, Some(0), "{info:?}");
        if !info.out.contains("domain      disk\n") || !info.out.contains("tmpfs") {
            return;
        }
        let (backup, saved, near) =
            (place.text("backup"), place.text("saved"), memory.text("near"));
        for more in [&["check", &copy][..], &["dump", &copy], &["backup", &copy, &backup]] {
            let refused = run(&[&["pool"], more].concat());
            assert_eq!(refused.code, Some(1), "{refused:?}");
            let way = "take it over to one with `perdura pool check FILE --repair-into NEW`";
            assert!(refused.err.contains(way), "{more:?}: {refused:?}");
            assert!(!refused.err.contains("model"), "{more:?}: {refused:?}");
        }
        let refused = run(&["pool", "check", &copy, "--repair-into", &near]);
        assert!(refused.err.contains("put NEW on a medium that keeps it"), "{refused:?}");
        assert!(refused.err.starts_with(&format!("perdura: {near}")), "{refused:?}");
        let taken = run(&["pool", "check", &copy, "--repair-into", &saved]);
        assert_eq!(taken.code, Some(0), "{taken:?}");
        holds_the_tuple(&saved);
    }
}

/// Shows nothing where no namespace can be had.
#[test]
fn read_only_database_is_taken_over() {
    for engine in ENGINES {
        let (place, other) = (Place::new(), Place::new());
        left_open(&place.at("db"), &small(engine));
        let (db, saved, root) = (place.text("db"), other.text("saved"), place.text(""));
        let bind = "--bind \"$PLACE\" \"$PLACE\" && mount -o remount,bind,ro \"$PLACE\"";
        let read_only = |arguments: &[&str]| mounted(&[bind, &root], arguments);
        let Some(info) = read_only(&["pool", "info", &db]) else { return };
        assert_eq!(info.code, Some(0), "{info:?}");
        let refused = read_only(&["pool", "check", &db]).expect("as before");
        assert!(refused.err.contains("Read-only"), "{refused:?}");
        let taken = read_only(&["pool", "check", &db, "--repair-into", &saved]);
        let taken = taken.expect("as before");
        assert_eq!(taken.code, Some(0), "{engine}: {taken:?}");
        holds_the_tuple(&saved);
    }
}
