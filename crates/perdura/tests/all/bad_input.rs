//! Inputs of users and the world (`docs/reliability.md`, "Bad inputs" 12, 13, 15): each bad path,
//! option and handle gives a clear error, or works, and nothing is lost.
//!
//! Damaged bytes are in `bad_pool.rs`, full pools in `full_pool.rs`, bad values and panics (18, 19)
//! in `conformance/`.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Model, Tables, compare, schema, small_logs};
use perdura::{
    ColumnType, Database, Domain, EngineKind, Error, Options, PoolError, Schema, TableSchema,
};

fn options() -> Options {
    small_logs()
        .engine(EngineKind::NvmInp)
        .domain(Domain::Process)
        .pool_limit(1 << 30)
        .volatile_limit(1 << 30)
        .chunk_bytes(16 << 10)
}

/// A pool with a few tuples in it, closed.
fn small_pool(directory: &Path) -> PathBuf {
    let path = directory.join("db");
    let db = Database::create(&path, &schema(), &options()).unwrap();
    fill(&db);
    db.close().unwrap();
    path
}

fn item(number: u64) -> crate::support::Item {
    crate::support::Item {
        name: format!("n{number}"),
        payload: vec![number as u8; 100],
        count: -1,
        flag: vec![],
        score: 1.5,
    }
}

fn fill(db: &Database) {
    let tables = Tables::of(db);
    for key in 0..20 {
        db.write(|tx| crate::support::insert_item(tx, &tables, key, &item(key))).unwrap();
    }
}

fn filled() -> Model {
    Model { items: (0..20).map(|key| (key, item(key))).collect(), ..Model::default() }
}

fn in_use(result: Result<Database, Error>) {
    match result {
        Err(Error::Pool(PoolError::InUse { .. })) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_handle_at_a_time_under_every_name() {
    let directory = crate::support::in_memory();
    let path = small_pool(directory.path());
    let (hard, soft) = (directory.path().join("hard"), directory.path().join("soft"));
    std::fs::hard_link(&path, &hard).unwrap();
    std::os::unix::fs::symlink(&path, &soft).unwrap();
    let roundabout = directory.path().join(".").join("db");
    let db = Database::open(&path, &options()).unwrap();
    for name in [&path, &hard, &soft, &roundabout] {
        in_use(Database::open(name, &options()));
        assert!(perdura::inspect(name).is_err(), "not even looked at");
    }
    compare(&db, &filled());
    db.close().unwrap();
    for name in [&hard, &soft, &roundabout, &path] {
        let db = Database::open(name, &options()).unwrap();
        compare(&db, &filled());
        db.close().unwrap();
    }
}

#[test]
fn the_files_of_an_engine_are_found_through_a_symbolic_link() {
    EngineKind::ALL
        .into_iter()
        .filter(|kind| kind.traits().needs_files())
        .for_each(found_through_a_link);
}

fn found_through_a_link(engine: EngineKind) {
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    let options = options().engine(engine);
    let db = Database::create(&path, &schema(), &options).unwrap();
    fill(&db);
    db.close().unwrap();
    let links = directory.path().join("links");
    std::fs::create_dir(&links).unwrap();
    std::os::unix::fs::symlink(&path, links.join("soft")).unwrap();
    let db = Database::open(links.join("soft"), &options).unwrap();
    compare(&db, &filled());
    db.close().unwrap();
    // A pool without its files is not an empty database.
    std::fs::hard_link(&path, links.join("hard")).unwrap();
    assert!(Database::open(links.join("hard"), &options).is_err());
    compare(&Database::open(&path, &options).unwrap(), &filled());
}

#[test]
fn a_pool_opens_twice_one_after_the_other_at_other_addresses() {
    let directory = crate::support::in_memory();
    let path = small_pool(directory.path());
    let mut others = Vec::new();
    for round in 0..6 {
        // Something else takes the addresses that were used before.
        let name = directory.path().join(format!("other-{round}"));
        others.push(Database::create(&name, &schema(), &options()).unwrap());
        let db = Database::open(&path, &options()).unwrap();
        compare(&db, &filled());
        if round % 2 == 0 { db.abandon() } else { db.close().unwrap() }
    }
}

const CHILD: &str = "PERDURA_TEST_CHILD_PATH";

/// Runs the test `name` of this binary in a process of its own, which finds `path` in [`CHILD`].
fn child(name: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &format!("bad_input::{name}"), "--nocapture", "--test-threads=1"])
        .env(CHILD, path);
    command
}

#[test]
fn another_process_is_kept_out() {
    if let Some(path) = std::env::var_os(CHILD) {
        in_use(Database::open(&path, &options()));
        in_use(Database::open_or_create(&path, &schema(), &options()));
        return;
    }
    let directory = crate::support::in_memory();
    let path = small_pool(directory.path());
    let db = Database::open(&path, &options()).unwrap();
    let done = child("another_process_is_kept_out", &path).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    compare(&db, &filled());
}

/// Among many that create the same pool one succeeds; the others get an error and break nothing.
#[test]
fn processes_that_race_at_creating_leave_one_database() {
    let exit = |created: bool| std::process::exit(if created { 42 } else { 43 });
    if let Some(path) = std::env::var_os(CHILD) {
        match Database::create(&path, &schema(), &options()) {
            Ok(db) => {
                fill(&db);
                db.close().unwrap();
                exit(true);
            }
            // It is there, or is just being created.
            Err(Error::Pool(PoolError::Exists { .. } | PoolError::InUse { .. })) => exit(false),
            Err(other) => panic!("{other}"),
        }
    }
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    let name = "processes_that_race_at_creating_leave_one_database";
    let mut children: Vec<_> = (0..6)
        .map(|_| child(name, &path).stderr(std::process::Stdio::null()).spawn().unwrap())
        .collect();
    let codes: Vec<_> = children.iter_mut().map(|child| child.wait().unwrap().code()).collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(42)).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == Some(43)).count(), 5, "{codes:?}");
    let db = Database::open(&path, &options()).unwrap();
    compare(&db, &filled());
}

#[test]
fn threads_that_race_at_creating_leave_one_database() {
    for _ in 0..20 {
        let directory = crate::support::in_memory();
        let path = directory.path().join("db");
        let made = std::thread::scope(|scope| {
            let create = || Database::create(&path, &schema(), &options());
            let racers: Vec<_> = (0..4).map(|_| scope.spawn(create)).collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
        drop(made);
        Database::open(&path, &options()).unwrap();
    }
}

#[test]
fn starting_a_program_takes_neither_the_lock_nor_the_handle_away() {
    let directory = crate::support::in_memory();
    let path = small_pool(directory.path());
    let db = Database::open(&path, &options()).unwrap();
    assert!(Command::new("true").status().unwrap().success());
    compare(&db, &filled());
    in_use(Database::open(&path, &options()));
}

fn euid() -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid()
}

/// Such as the files of a database whose pool was moved away.
#[test]
fn files_that_are_in_the_way_are_left_alone() {
    let directory = crate::support::in_memory();
    for engine in EngineKind::ALL {
        let path = directory.path().join(engine.name());
        let files = path.with_extension("files");
        std::fs::create_dir(&files).unwrap();
        std::fs::write(files.join("precious"), b"data").unwrap();
        // An engine without files fails in another way.
        let options = options().engine(engine).pool_limit(16 << 10);
        let error = Database::create(&path, &schema(), &options).unwrap_err();
        println!("{engine}: {error}");
        assert_eq!(std::fs::read(files.join("precious")).unwrap(), b"data", "{engine}");
        assert!(!path.exists(), "{engine}");
    }
}

#[test]
fn without_permission_there_is_an_error_and_nothing_left_behind() {
    use std::os::unix::fs::PermissionsExt;
    if euid() == 0 {
        // Permissions do not bind root: another user tries, if that one may run this binary.
        let name = "without_permission_there_is_an_error_and_nothing_left_behind";
        match child(name, Path::new("/")).uid(65_534).gid(65_534).output() {
            Ok(done) => assert!(done.status.success(), "{done:?}"),
            Err(error) => println!("skipped: {error}"),
        }
        return;
    }
    let directory = crate::support::in_memory();
    let path = small_pool(directory.path());
    for mode in [0o400, 0o000] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let error = Database::open(&path, &options()).unwrap_err();
        assert!(matches!(error, Error::Pool(PoolError::Io { .. })), "{error}");
    }
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let closed = directory.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o500)).unwrap();
    let error = Database::create(closed.join("db"), &schema(), &options()).unwrap_err();
    assert!(matches!(error, Error::Pool(PoolError::Io { .. })), "{error}");
    compare(&Database::open(&path, &options()).unwrap(), &filled());
}

#[test]
fn what_is_not_a_regular_file_is_refused() {
    let directory = crate::support::in_memory();
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let socket = directory.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let zero = PathBuf::from("/dev/zero");
    for path in [directory.path(), &fifo, &socket, &zero] {
        // None of these may hang: a FIFO without a writer would, if it were opened.
        let error = Database::open(path, &options()).unwrap_err();
        assert!(matches!(error, Error::Pool(PoolError::NotAFile { .. })), "{error}");
        assert!(perdura::inspect(path).is_err());
        let error = Database::create(path, &schema(), &options()).unwrap_err();
        assert!(matches!(error, Error::Pool(PoolError::Exists { .. })), "{error}");
        assert!(path.exists(), "what was there stays");
    }
    let error = Database::open(directory.path().join("none"), &options()).unwrap_err();
    assert!(matches!(error, Error::Pool(PoolError::Io { .. })), "{error}");
    let error = Database::create(directory.path().join("no/db"), &schema(), &options());
    assert!(matches!(error, Err(Error::Pool(PoolError::Io { .. }))));
    let dangling = directory.path().join("dangling");
    std::os::unix::fs::symlink("nowhere", &dangling).unwrap();
    assert!(Database::open(&dangling, &options()).is_err());
    assert!(Database::create(&dangling, &schema(), &options()).is_err());
}

/// The pool of a database was moved away, its files were not. Creating another one in its place is
/// refused, and takes nothing away: with `inp` all data are in the files.
#[test]
fn creating_beside_the_files_of_another_database_takes_none_of_them() {
    for engine in EngineKind::ALL {
        let directory = crate::support::in_memory();
        let (path, moved) = (directory.path().join("db"), directory.path().join("moved"));
        let files = directory.path().join("db.files");
        let first = options().engine(EngineKind::Inp);
        let db = Database::create(&path, &schema(), &first).unwrap();
        fill(&db);
        db.close().unwrap();
        std::fs::rename(&path, &moved).unwrap();
        let options = options().engine(engine);
        // Refused for the files, or for want of room.
        let small = options.clone().pool_limit(16 << 10);
        for options in [&options, &small] {
            if engine.traits().needs_files() || std::ptr::eq(options, &small) {
                Database::open_or_create(&path, &schema(), options).unwrap_err();
                Database::create(&path, &schema(), options).unwrap_err();
                assert!(!path.exists(), "{engine}");
            }
            assert!(std::fs::read_dir(&files).unwrap().next().is_some(), "{engine}");
        }
        std::fs::rename(&moved, &path).unwrap();
        compare(&Database::open(&path, &first).unwrap(), &filled());
    }
}

#[test]
fn contradictory_options_are_refused_and_change_nothing() {
    let directory = crate::support::in_memory();
    let path = small_pool(directory.path());
    let before = std::fs::read(&path).unwrap();
    let error = Database::open(&path, &options().engine(EngineKind::Inp)).unwrap_err();
    assert!(matches!(error, Error::WrongEngine { .. }), "{error}");
    let error = Database::open(&path, &options().partitions(3)).unwrap_err();
    assert!(matches!(error, Error::WrongPartitions { found: 1, wanted: 3 }), "{error}");
    let error = Database::open(&path, &options().domain(Domain::Disk)).unwrap_err();
    assert!(matches!(error, Error::Pool(PoolError::DomainDiffers { .. })), "{error}");
    let error = Database::create(&path, &schema(), &options()).unwrap_err();
    assert!(matches!(error, Error::Pool(PoolError::Exists { .. })), "{error}");
    let after = std::fs::read(&path).unwrap();
    assert_eq!(before[8192..], after[8192..], "behind the header nothing has changed");
    let other = Schema::new().table(TableSchema::new("t").column("a", ColumnType::U64).key(&["a"]));
    let error = Database::open_or_create(&path, &other, &options()).unwrap_err();
    assert!(matches!(error, Error::WrongSchema { .. }), "{error}");
    compare(&Database::open(&path, &options()).unwrap(), &filled());

    let fresh = directory.path().join("fresh");
    for (schema, options) in [
        (Schema::new(), options()),
        (schema(), options().partitions(0)),
        (schema(), options().partitions(257)),
        (schema(), options().tune("node_bytes", 100)),
        (schema(), options().chunk_bytes(5000)),
        (schema(), options().pool_limit(4096)),
        (schema(), options().pool_limit(u64::MAX)),
        (schema(), options().pool_limit(u64::MAX - 4095)),
        (schema(), options().engine(EngineKind::Inp).volatile_limit(u64::MAX)),
        (schema(), options().engine(EngineKind::Log).volatile_limit(u64::MAX - 4095)),
        (schema(), options().domain(Domain::Eadr)),
    ] {
        assert!(Database::create(&fresh, &schema, &options).is_err(), "{options:?}");
        assert!(!fresh.exists(), "nothing is left behind: {options:?}");
    }
    let large =
        options().engine(EngineKind::NvmCow).chunk_bytes(16 << 10).tune("tree_node_bytes", 8192);
    let error = Database::create(&fresh, &schema(), &large).unwrap_err().to_string();
    assert!(error.contains("8192 bytes are too large for chunks of 16384 bytes"), "{error}");
    assert!(!fresh.exists(), "nothing is left behind");
}

#[test]
fn a_process_pool_that_a_reboot_hit_is_refused_unless_it_was_closed() {
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    let boot = |number| options().boot_id([number; 16]);
    let db = Database::create(&path, &schema(), &boot(1)).unwrap();
    fill(&db);
    db.abandon();
    Database::open(&path, &boot(1)).unwrap().abandon();
    for _ in 0..2 {
        let error = Database::open(&path, &boot(2)).unwrap_err();
        assert!(matches!(error, Error::Pool(PoolError::Rebooted { .. })), "{error}");
        assert!(error.to_string().contains("accept_loss"), "it says what to do");
    }
    perdura::inspect(&path).unwrap();
    let db = Database::open(&path, &boot(2).accept_loss(true)).unwrap();
    compare(&db, &filled());
    db.abandon();
    // Accepted once is not accepted for ever, but this boot knows what is there.
    Database::open(&path, &boot(2)).unwrap().abandon();
    assert!(Database::open(&path, &boot(3)).is_err());
    Database::open(&path, &boot(3).accept_loss(true)).unwrap().close().unwrap();
    let db = Database::open(&path, &boot(4)).unwrap();
    compare(&db, &filled());
}

/// An opening that is refused leaves a pool that was closed cleanly as it was: a reboot later it
/// still opens.
#[test]
fn a_refused_opening_does_not_make_a_clean_pool_unclean() {
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    let boot = |number| options().boot_id([number; 16]);
    Database::create(&path, &schema(), &boot(1)).unwrap().close().unwrap();
    assert!(Database::open(&path, &boot(1).engine(EngineKind::Inp)).is_err());
    assert!(Database::open(&path, &boot(2).partitions(5)).is_err());
    Database::open(&path, &boot(3)).unwrap().close().unwrap();
}

/// A way to set one option to a number.
type Setting = (&'static str, fn(Options, u64) -> Options);

/// Every option that is a number.
const SETTINGS: [Setting; 15] = [
    ("partitions", |options, value| options.partitions(value as u32)),
    ("pool_limit", Options::pool_limit),
    ("pool_initial", Options::pool_initial),
    ("chunk_bytes", Options::chunk_bytes),
    ("node_bytes", |options, value| options.tune("node_bytes", value)),
    ("checkpoint_bytes", |options, value| options.tune("checkpoint_bytes", value)),
    ("wal_reserve_bytes", |options, value| options.tune("wal_reserve_bytes", value)),
    ("page_bytes", |options, value| options.tune("page_bytes", value)),
    ("memtable_bytes", |options, value| options.tune("memtable_bytes", value)),
    ("growth", |options, value| options.tune("growth", value)),
    ("level0_runs", |options, value| options.tune("level0_runs", value)),
    ("cache_bytes", |options, value| options.tune("cache_bytes", value)),
    ("tree_node_bytes", |options, value| options.tune("tree_node_bytes", value)),
    ("block_bytes", |options, value| options.tune("block_bytes", value)),
    ("volatile_limit", Options::volatile_limit),
];

/// Refused, with nothing left, or taken, and then it works. The same holds for opening what was
/// made with sound options and closed, which stays closed.
#[test]
fn an_option_of_nothing_or_next_to_it_is_refused_or_works() {
    for engine in EngineKind::ALL {
        for (name, set) in SETTINGS {
            for value in [0, 1, 3] {
                let what = format!("{engine}, {name} of {value}");
                let directory = crate::support::in_memory();
                let path = directory.path().join("db");
                let odd = set(options().engine(engine), value);
                match Database::create(&path, &schema(), &odd) {
                    Err(error) => {
                        assert!(!error.to_string().is_empty());
                        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
                        assert!(left.is_empty(), "{what}: {left:?}");
                        let db = Database::create(&path, &schema(), &options().engine(engine));
                        let db = db.unwrap_or_else(|error| panic!("{what}: {error}"));
                        fill(&db);
                        db.close().unwrap();
                    }
                    Ok(db) => {
                        // The pool may be too small for some.
                        let tables = Tables::of(&db);
                        let insert = |key| {
                            let first = db.partition(0);
                            first.write(|tx| {
                                crate::support::insert_item(tx, &tables, key, &item(key))
                            })
                        };
                        let done = (0..20).try_for_each(insert);
                        let small = name.contains("limit");
                        assert!(done.is_ok() || small, "{what}: {done:?}");
                        db.close().unwrap_or_else(|error| panic!("{what}: {error}"));
                    }
                }
                let opened = Database::open(&path, &set(small_logs(), value)).map(drop);
                // Whatever came of it, with sound options it opens, and is as it was.
                let db = Database::open(&path, &small_logs());
                let db = db.unwrap_or_else(|error| panic!("{what}: {opened:?}, then {error}"));
                db.check().unwrap_or_else(|error| panic!("{what}: {error}"));
            }
        }
    }
}
