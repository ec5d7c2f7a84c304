//! A program of its own: it forks, and filters system calls under an allocator of its own.
//!
//! A creation that is killed at any of its calls to the kernel, or at which another process creates
//! the same database: of all engines. Backups, dumps, restores, loads and repairs that are killed.
//! `calls` says how.
//!
//! What has to hold:
//! - After a kill the same command succeeds, and nothing but what it makes is there.
//! - Of two processes one creates the database. The other one gets it once it is closed, or an
//!   error that says who has it.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[expect(dead_code, reason = "calls fail in another program")]
mod calls;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use calls::Way;
use calls::child::{Child, State};
use faults::driver::Driver;
use faults::items::{Model, Tables, compare, schema};
use faults::points::at_all;
use perdura::{Backup, Database, Domain, EngineKind, Error, LoadOptions, Options, PoolError};

/// The code of a child that has created the database, and of one that was refused.
const CREATED: i32 = 0;
const REFUSED: i32 = 1;
const WRONG: i32 = 2;
/// A creation or a copy is stopped at one call in so many by the ordinary tests, and by a build of `.ci/run`;
/// `PERDURA_POINTS=all` stops it at each.
const SOME: usize = 11;
const WHOLE: usize = 3;

fn at_each(step: usize) -> usize {
    if at_all() { 1 } else { step }
}

/// Lets no other test hold a lock while a child is forked.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A way to create a database.
type Create = fn(&Place) -> Result<Database, Error>;

struct Place {
    directory: tempfile::TempDir,
    options: Options,
    name: String,
}

impl Place {
    fn new(engine: EngineKind) -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let options = Options::new().engine(engine).domain(Domain::Disk).model(true);
        let options = options.pool_limit(64 << 20).volatile_limit(64 << 20);
        Self { directory, options, name: engine.to_string() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("db")
    }

    fn create(&self) -> Result<Database, Error> {
        Database::create(self.path(), &schema(), &self.options)
    }

    fn open_or_create(&self) -> Result<Database, Error> {
        Database::open_or_create(self.path(), &schema(), &self.options)
    }

    /// Starts a child that creates the database.
    fn child(&self, way: Way, number: u64) -> Child {
        Child::start(way, number, || match self.create() {
            Ok(database) => {
                database.abandon();
                CREATED
            }
            Err(error) if is_clear(&error) => REFUSED,
            Err(error) => {
                eprintln!("{}, call {number}: {error}", self.name);
                WRONG
            }
        })
    }

    /// The database is empty, and works; nothing else is there.
    fn is_whole(&self, database: Database, call: u64) {
        let mut model = Model::default();
        compare(&database, &model);
        let tables = Tables::of(&database);
        Driver::new(call, 20).transaction(&database, &tables, &mut model, 3).unwrap();
        database.close().unwrap();
        let database = Database::open(self.path(), &self.options).unwrap();
        compare(&database, &model);
        database.close().unwrap();
        let mut names = names(self.directory.path());
        names.retain(|name| !["db", "db.files"].contains(&name.as_str()));
        assert_eq!(names, [""; 0], "{}, call {call}", self.name);
    }

    fn remove(&self) {
        for entry in fs::read_dir(self.directory.path()).unwrap() {
            let path = entry.unwrap().path();
            fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)).unwrap();
        }
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The database is there, or another process has it.
fn is_clear(error: &Error) -> bool {
    matches!(error, Error::Pool(PoolError::Exists { .. } | PoolError::InUse { .. }))
}

#[test]
fn killed_creation_begins_anew() {
    killed_creations(SOME);
}

fn killed_creations(step: usize) {
    let _alone = alone();
    for engine in EngineKind::ALL {
        let place = Place::new(engine);
        let (mut calls, mut named) = (0, 0);
        for call in (0..).step_by(at_each(step)) {
            let both: [Create; 2] = [Place::open_or_create, Place::create];
            // The two take turns in a build.
            let turn = call as usize / step % 2;
            for create in if at_all() { &both[..] } else { &both[turn..=turn] } {
                match place.child(Way::Killed, call).wait() {
                    State::Killed => {}
                    State::Ended(CREATED) => calls = call,
                    other => panic!("{engine}, call {call}: {other:?}"),
                }
                let was_named = place.path().exists();
                named += u64::from(was_named);
                let database = match create(&place) {
                    // It has its name once it is whole.
                    Err(Error::Pool(PoolError::Exists { .. })) if was_named => {
                        place.open_or_create()
                    }
                    created => created,
                };
                let database = database.unwrap_or_else(|error| {
                    let left = names(place.directory.path());
                    panic!("{engine}, call {call}, left {left:?}: {error}")
                });
                place.is_whole(database, call);
                place.remove();
            }
            if calls > 0 {
                break;
            }
        }
        println!("{engine}: {calls} calls, {named} times it had its name");
        assert!(calls > 30, "{engine}: {calls}");
    }
}

#[test]
fn two_creations_leave_one_database() {
    two_creations(SOME);
}

fn two_creations(step: usize) {
    let _alone = alone();
    for engine in EngineKind::ALL {
        let place = Place::new(engine);
        let (mut calls, mut first, mut second) = (0, 0, 0);
        for call in (0..).step_by(at_each(step)) {
            for create in [Place::open_or_create, Place::create] {
                let child = place.child(Way::Stopped, call);
                let state = child.wait();
                if state == State::Ended(CREATED) {
                    calls = call;
                    place.remove();
                    continue;
                }
                assert_eq!(state, State::Stopped, "{engine}, call {call}");
                let other = create(&place);
                let ended = child.go_on();
                match (&other, ended) {
                    (Ok(_), State::Ended(REFUSED)) => second += 1,
                    (Err(error), State::Ended(CREATED)) if is_clear(error) => first += 1,
                    // The first one had finished but for its end.
                    (Ok(_), State::Ended(CREATED)) => {}
                    _ => panic!("{engine}, call {call}: {:?}, {ended:?}", other.map(drop)),
                }
                drop(other);
                place.is_whole(place.open_or_create().unwrap(), call);
                place.remove();
            }
            if calls > 0 {
                break;
            }
        }
        println!("{engine}: {calls} calls, won by the first {first} times, by the second {second}");
        assert!(first > 0 && second > 0, "{engine}: {first}, {second}");
    }
}

/// The database that is made has what the other one has.
fn has_all(path: &Path, options: &Options, model: &Model) {
    let database = Database::open(path, options).unwrap();
    compare(&database, model);
    database.close().unwrap();
}

/// Kills a child at one in `step` calls of `work`, does `work` once more each time, and hands what is there
/// then to `check`, which removes what was made. Returns how many calls there are.
fn repeat_after_kills(
    name: &str,
    directory: &Path,
    step: usize,
    work: impl Fn() -> Result<(), Error>,
    check: impl Fn(),
) -> u64 {
    let before = names(directory);
    for call in (0..).step_by(at_each(step)) {
        let child = Child::start(Way::Killed, call, || match work() {
            Ok(()) => CREATED,
            Err(error) => {
                eprintln!("{name}, call {call}: {error}");
                WRONG
            }
        });
        let state = child.wait();
        assert!([State::Killed, State::Ended(CREATED)].contains(&state), "{name}: {state:?}");
        let left = names(directory);
        // It may have been cut off after its last step.
        if !directory.join("made").exists() {
            let done = work();
            done.unwrap_or_else(|error| panic!("{name}, call {call}, left {left:?}: {error}"));
        }
        check();
        let (mut now, mut wanted) = (names(directory), before.clone());
        now.sort();
        wanted.sort();
        assert_eq!(now, wanted, "{name}, call {call}, left {left:?}");
        if state != State::Killed {
            return call;
        }
    }
    unreachable!("work ends")
}

#[test]
fn killed_copies_can_be_repeated() {
    killed_copies(SOME);
}

fn killed_copies(step: usize) {
    let _alone = alone();
    for engine in [EngineKind::Inp, EngineKind::NvmInp, EngineKind::NvDisk] {
        let place = Place::new(engine);
        let (path, at) = (place.path(), |name: &str| place.directory.path().join(name));
        let database = place.create().unwrap();
        let (tables, mut model) = (Tables::of(&database), Model::default());
        let mut driver = Driver::new(7, 20);
        for _ in 0..5 {
            driver.transaction(&database, &tables, &mut model, 3).unwrap();
        }
        database.backup(at("backup")).unwrap();
        database.dump(at("dump"), &[], &mut |_| ()).unwrap();
        database.close().unwrap();
        let (options, made) = (&place.options, at("made"));
        let remove = || {
            fs::remove_file(&made).unwrap();
            let _ = fs::remove_dir_all(at("made.files"));
        };
        let opened = || Database::open(&path, options);
        let whole = || {
            has_all(&made, options, &model);
            remove();
        };
        let lines = fs::read(at("dump")).unwrap();
        let load = |path: &Path| {
            let load = LoadOptions::new("lines");
            Database::create_from_lines(path, None, options, &mut &lines[..], &load, &mut |_| ())
        };
        let again = at("again");
        let restored = || {
            Backup::open(&made).unwrap().restore(&again, options, &mut |_| ()).unwrap();
            has_all(&again, options, &model);
            fs::remove_file(&again).unwrap();
            let _ = fs::remove_dir_all(at("again.files"));
            remove();
        };
        let loaded = || {
            assert_eq!(fs::read(&made).unwrap(), lines);
            remove();
        };
        let directory = place.directory.path();
        let counts = [
            repeat_after_kills(
                "backup",
                directory,
                step,
                || opened()?.backup(&made).map(drop),
                restored,
            ),
            repeat_after_kills(
                "dump",
                directory,
                step,
                || opened()?.dump(&made, &[], &mut |_| ()).map(drop),
                loaded,
            ),
            repeat_after_kills(
                "restore",
                directory,
                step,
                || Backup::open(at("backup"))?.restore(&made, options, &mut |_| ()).map(drop),
                whole,
            ),
            repeat_after_kills("load", directory, step, || load(&made).map(drop), whole),
        ];
        println!("{engine}: calls of backup, dump, restore and load: {counts:?}");
    }
}

/// Those that each build of `.ci/run` adds.
mod whole {
    use super::*;

    #[test]
    #[ignore = "a build of .ci/run runs it"]
    fn killed_creation_begins_anew() {
        killed_creations(WHOLE);
    }

    #[test]
    #[ignore = "a build of .ci/run runs it"]
    fn two_creations_leave_one_database() {
        two_creations(WHOLE);
    }

    #[test]
    #[ignore = "a build of .ci/run runs it"]
    fn killed_copies_can_be_repeated() {
        killed_copies(WHOLE);
    }
}
