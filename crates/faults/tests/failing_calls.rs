//! A program of its own: it filters system calls under an allocator of its own.
//!
//! Every call to the kernel fails in turn, in a run that has everything (`faults::failing` says
//! what that is, and what has to hold): of pools and files of the host, of all engines.
//!
//! The calls are real, and the engines those that ship.
//!
//! One in 71 points is visited, and one in 17 by a build of `.ci/run`; all of them, which takes minutes, with
//! `cargo test -p perdura-faults --test failing_calls -- --ignored long::`.
//!
//! Each point is visited in several ways: it fails, once; it has no room, and neither has anything
//! after it until the error has been borne; a signal interrupts it; it does half of what it was
//! asked for. The last two are no errors.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[expect(dead_code, reason = "processes are killed and stopped in another program")]
mod calls;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use calls::{CALLS, Calls, SYNCS, Way, with_stopped_calls};
use faults::driver::{Driver, Operation};
use faults::failing::{Place, Ran, Run};
use faults::items::{Model, Tables, compare, schema};
use perdura::{Database, Domain, DurableIn, EngineKind, Error, Native, Options};

struct OnHost<'a> {
    run: &'a Run,
    path: PathBuf,
    /// Calls that were left when the run said that nothing fails from now on.
    counted: Cell<u64>,
}

impl<'a> OnHost<'a> {
    fn new(run: &'a Run, directory: &tempfile::TempDir) -> Self {
        let path = directory.path().join("db");
        Self { run, path, counted: 0.into() }
    }

    fn files(&self) -> PathBuf {
        self.path.with_extension("files")
    }

    fn remove(&self) {
        fs::remove_file(&self.path).unwrap();
        if self.files().exists() {
            fs::remove_dir_all(self.files()).unwrap();
        }
    }

    /// Lets each call of number `call` that `work` makes fail in turn, in a database in which
    /// `before` was done, and hands what came of it to `after`. Returns how many there were.
    fn each<R>(
        &self,
        call: libc::c_long,
        before: impl Fn() -> R,
        work: impl Fn(R) -> Result<(), Error>,
        after: impl Fn(Result<(), Error>),
    ) -> u64 {
        for left in 0.. {
            let given = before();
            CALLS.set(Calls { way: Some(Way::FailsAlone(call)), left, hit: -1 });
            let done = work(given);
            let hit = CALLS.replace(Calls { way: None, left: 0, hit: -1 }).hit;
            if hit < 0 {
                done.unwrap();
                self.remove();
                return left;
            }
            after(done);
            if !self.is_empty() {
                self.remove();
            }
        }
        unreachable!("work ends")
    }
}

impl Place for OnHost<'_> {
    type World = Native;

    fn create(&self) -> Result<Database, Error> {
        Database::create(&self.path, &schema(), &self.run.options)
    }

    fn open(&self) -> Result<Database, Error> {
        Database::open(&self.path, &self.run.options)
    }

    fn is_empty(&self) -> bool {
        let unfinished = self.path.with_extension("perdura-new");
        !self.path.exists() && !self.files().exists() && !unfinished.exists()
    }

    fn mend(&self) {
        let calls = CALLS.replace(Calls { way: None, ..CALLS.get() });
        self.counted.set(calls.left);
    }
}

fn options(run: &Run, domain: Domain) -> Options {
    let options = run.options.clone().domain(domain).model(true);
    options.pool_limit(64 << 20).volatile_limit(64 << 20)
}

/// A directory that is not on a disk, if that can be: which call fails does not depend on it.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Visits one in so many points of one way: an odd number, since the run goes on after every second
/// point. Returns how many points there are.
fn visit(engine: EngineKind, domain: Domain, way: Way, one_in: u64) -> u64 {
    const MANY: u64 = 1 << 40;
    let directory = in_memory();
    let mut run = Run::new(engine);
    run.options = options(&run, domain);
    let go = |run: &Run, left: u64| {
        let place = OnHost::new(run, &directory);
        CALLS.set(Calls { way: Some(way), left, hit: -1 });
        let ran = run.go(&place);
        let hit = CALLS.replace(Calls { way: None, left: 0, hit: -1 }).hit;
        place.remove();
        (ran, hit, place.counted.get())
    };
    // What is asked of the kernel once in a process has been asked then.
    go(&run, MANY).0.unwrap();
    let (whole, _, left) = go(&run, MANY);
    let whole = whole.unwrap();
    assert_eq!((whole.errors, whole.reopened), (0, 0), "{engine}");
    let points = MANY - left;
    let (mut sum, mut borne, mut visited) = (Ran::default(), BTreeMap::<_, u64>::new(), 0);
    for point in (0..points).step_by(one_in as usize) {
        run.goes_on = point % 2 == 1;
        visited += 1;
        let (ran, hit, _) = go(&run, point);
        let name = format!("{engine}, {domain}, {way:?}, call {point} of {points}, number {hit}");
        let ran = ran.unwrap_or_else(|what| panic!("{name}: {what}"));
        if hit < 0 {
            // Reading a directory may take the C library a call more or less.
            assert!(ran == whole && point + 8 >= points, "{name}: was not made");
            break;
        }
        if matches!(way, Way::Interrupted | Way::Half) {
            assert_eq!(ran, whole, "{name}: is no error");
        }
        if SYNCS.contains(&hit) && way == Way::Fails {
            // A file that is written in steps, a checkpoint's or a run's, is given up alone.
            let gives_up = engine.traits().needs_files() && hit != libc::SYS_msync;
            let heard = ran.errors + if gives_up { ran.failed_steps } else { 0 };
            assert!(heard > 0, "{name}: no caller has heard of a sync that failed: {ran:?}");
            // What it has lost may be anywhere in the pool.
            assert!(
                engine.traits().needs_files() || ran.went_on == 0,
                "{name}: the handle has gone on"
            );
        }
        sum.errors += ran.errors;
        sum.reopened += ran.reopened;
        if ran.errors == 0 {
            *borne.entry(hit).or_default() += 1;
        }
    }
    println!(
        "{engine}, {domain}, {way:?}: {visited} of {points} points, {} errors, {} reopened, unnoticed by number {borne:?}",
        sum.errors, sum.reopened
    );
    points
}

/// One in so many calls in every way.
fn some_calls_of(engine: EngineKind, domains: &[Domain], one_in: u64) {
    with_stopped_calls(|| {
        for &domain in domains {
            let points = visit(engine, domain, Way::Fails, one_in);
            assert!(points >= 30, "{engine}, {domain}: {points}");
            for way in [Way::NoRoom, Way::Interrupted, Way::Half] {
                visit(engine, domain, way, one_in);
            }
        }
    });
}

fn calls_of(engine: EngineKind) {
    some_calls_of(engine, &[Domain::Disk, Domain::Adr], 71);
}

/// Whatever else a file is asked for when it has been created: what there is of it then is no
/// damage to the next process, whether the database was closed or not.
#[test]
fn a_file_that_was_created_and_never_used_is_no_damage() {
    with_stopped_calls(|| {
        for engine in EngineKind::ALL.into_iter().filter(|engine| engine.traits().needs_files()) {
            let directory = in_memory();
            let mut run = Run::new(engine);
            run.options = options(&run, Domain::Disk);
            let place = OnHost::new(&run, &directory);
            for (call, closes) in [libc::SYS_statx, libc::SYS_openat, libc::SYS_fallocate]
                .into_iter()
                .flat_map(|call| [(call, false), (call, true)])
            {
                let db = Cell::new(None);
                let before = || {
                    let made = place.create().unwrap();
                    let (tables, mut model) = (Tables::of(&made), Model::default());
                    let mut driver = Driver::new(run.seed, 8);
                    driver.transaction(&made, &tables, &mut model, 3).unwrap();
                    db.set(Some(made));
                };
                let checkpoint = |()| {
                    let made = db.take().unwrap();
                    let done = made.checkpoint();
                    db.set(Some(made));
                    done
                };
                place.each(call, before, checkpoint, |_| {
                    let made = db.take().unwrap();
                    if closes {
                        made.close().unwrap();
                    } else {
                        made.abandon();
                    }
                    let opened = place.open();
                    let name = format!("{engine}, number {call}, closed: {closes}");
                    opened.unwrap_or_else(|error| panic!("{name}: {error}")).close().unwrap();
                });
            }
        }
    });
}

/// A sync that fails is reported to the caller that creates, opens, or closes a database, or
/// commits.
#[test]
fn a_sync_that_fails_is_reported_at_once() {
    with_stopped_calls(|| {
        for engine in EngineKind::ALL {
            let directory = in_memory();
            let mut run = Run::new(engine);
            run.options = options(&run, Domain::Disk);
            let place = OnHost::new(&run, &directory);
            let created = || place.create().unwrap();
            // It ends when nothing fails any more: a session that ends does what its commits have
            // left over, which recovery does, too.
            let ends = Cell::new(None);
            let closed = || created().close().unwrap();
            let create = |()| place.create().map(Database::abandon);
            let open = |()| place.open().map(Database::abandon);
            let commit = |db: Database| {
                let (tables, mut tx) = (Tables::of(&db), db.begin()?);
                let (left, value) = ("left".into(), vec![1; 100]);
                let insert = Operation::InsertPair { left, right: 2, value };
                let done = insert.run(&mut tx, &tables).and_then(|()| tx.commit().map(drop));
                let next = db.begin().and_then(|tx| tx.commit().map(drop));
                assert!(done.is_ok() || next.is_err(), "{engine}: the handle has gone on");
                ends.set(Some(db));
                // A failure after a durable commit, in making room for the next one, shows there.
                done.and(next)
            };
            for call in SYNCS {
                let reported = |doing: &'static str| {
                    let (place, ends) = (&place, &ends);
                    move |done: Result<(), Error>| {
                        ends.take().into_iter().for_each(Database::abandon);
                        assert!(done.is_err(), "{engine}, {doing}, {call}: no error is reported");
                        let gone = place.is_empty();
                        assert_eq!(gone, doing == "create", "{engine}, {doing}: is gone: {gone}");
                        if !gone {
                            place.open().unwrap().close().unwrap();
                        }
                    }
                };
                let syncs = [
                    place.each(call, || (), create, reported("create")),
                    place.each(call, closed, open, reported("open")),
                    place.each(call, created, commit, reported("commit")),
                    place.each(call, created, Database::close, reported("close")),
                ];
                println!("{engine}, number {call}: {syncs:?} to create, open, commit and close");
                if call == libc::SYS_msync {
                    assert!(syncs[0] > 0 && syncs[1] > 0 && syncs[3] > 0, "{engine}: {syncs:?}");
                    let in_pool = engine.traits().durable_in != DurableIn::Files;
                    assert_eq!(syncs[2] > 0, in_pool, "{engine}: {syncs:?}");
                }
            }
        }
    });
}

/// The next segment is begun at once where the log is long at opening. When that fails, the
/// database is none that was closed any more, and what there is of the segment no damage.
#[test]
fn an_opening_that_fails_in_a_new_segment_does_no_damage() {
    with_stopped_calls(|| {
        for engine in [EngineKind::Inp, EngineKind::Log] {
            let directory = in_memory();
            let mut run = Run::new(engine);
            run.options = options(&run, Domain::Disk);
            let place = OnHost::new(&run, &directory);
            let long = run
                .options
                .clone()
                .tune("checkpoint_bytes", 8 << 20)
                .tune("memtable_bytes", 8 << 20);
            let short = run
                .options
                .clone()
                .tune("checkpoint_bytes", 1 << 10)
                .tune("memtable_bytes", 1 << 10);
            let mut model = Model::default();
            let made = |model: &mut Model| {
                let db = Database::create(&place.path, &schema(), &long).unwrap();
                let (tables, mut driver) = (Tables::of(&db), Driver::new(run.seed, 40));
                for transaction in 0..30 {
                    driver.transaction(&db, &tables, model, 1 + transaction % 5).unwrap();
                }
                db.close().unwrap();
            };
            made(&mut model);
            place.remove();
            let before = || made(&mut Model::default());
            let open = |()| Database::open(&place.path, &short).map(Database::abandon);
            let (mut refused, mut points) = (0, 0);
            for call in [libc::SYS_pwrite64, libc::SYS_fsync, libc::SYS_fdatasync] {
                let failed = Cell::new(0);
                points += place.each(call, before, open, |done| {
                    failed.set(failed.get() + u64::from(done.is_err()));
                    for _ in 0..2 {
                        let name = format!("{engine}, number {call}, after {done:?}");
                        let db = Database::open(&place.path, &short);
                        let db = db.unwrap_or_else(|error| panic!("{name}: {error}"));
                        compare(&db, &model);
                        db.close().unwrap();
                    }
                });
                refused += failed.get();
            }
            println!("{engine}: {refused} of {points} calls that failed made opening fail");
            assert!(refused >= 3, "{engine}: {refused}");
        }
    });
}

/// A pool that is opened is marked so before anything is changed, and a database that is weaker
/// than its medium, or modelled, has no other sync: without it a pool that was open when power
/// failed could be taken for one that was closed.
#[test]
fn an_opening_syncs_its_mark_whatever_the_domain() {
    with_stopped_calls(|| {
        for (engine, domain) in EngineKind::ALL
            .into_iter()
            .flat_map(|engine| [Domain::Process, Domain::Adr].map(|domain| (engine, domain)))
        {
            let directory = in_memory();
            let mut run = Run::new(engine);
            run.options = options(&run, domain);
            let place = OnHost::new(&run, &directory);
            let closed = || place.create().unwrap().close().unwrap();
            let open = |()| place.open().map(Database::abandon);
            let syncs: u64 = SYNCS
                .into_iter()
                .map(|call| {
                    place.each(call, closed, open, |done| {
                        assert!(done.is_err(), "{engine}, {domain}, {call}: no error is reported");
                    })
                })
                .sum();
            assert!(syncs > 0, "{engine}, {domain}: the mark of an open pool is not synced");
        }
    });
}

#[test]
fn calls_of_inp() {
    calls_of(EngineKind::Inp);
}

#[test]
fn calls_of_cow() {
    calls_of(EngineKind::Cow);
}

#[test]
fn calls_of_log() {
    calls_of(EngineKind::Log);
}

#[test]
fn calls_of_nvm_inp() {
    calls_of(EngineKind::NvmInp);
}

#[test]
fn calls_of_nvm_cow() {
    calls_of(EngineKind::NvmCow);
}

#[test]
fn calls_of_nvm_log() {
    calls_of(EngineKind::NvmLog);
}

/// The paged engines make many calls.
fn some_calls_of_paged(engine: EngineKind) {
    some_calls_of(engine, &[Domain::Disk, Domain::Adr], 509);
}

#[test]
fn calls_of_nv_disk() {
    some_calls_of_paged(EngineKind::NvDisk);
}

#[test]
fn calls_of_nv_logging_foi() {
    some_calls_of_paged(EngineKind::NvLoggingFoi);
}

#[test]
fn calls_of_nv_logging_foc() {
    some_calls_of_paged(EngineKind::NvLoggingFoc);
}

/// Tests that each build of `.ci/run` adds.
mod whole {
    use super::*;

    fn calls_of(engines: &[EngineKind], one_in: u64) {
        for &engine in engines {
            some_calls_of(engine, &[Domain::Disk, Domain::Adr], one_in);
        }
    }

    #[test]
    #[ignore = "a build of .ci/run runs it"]
    fn calls_of_inp_and_cow() {
        calls_of(&[EngineKind::Inp, EngineKind::Cow], 17);
    }

    #[test]
    #[ignore = "a build of .ci/run runs it"]
    fn calls_of_log_and_nvm_engines() {
        use EngineKind::{Log, NvmCow, NvmInp, NvmLog};
        calls_of(&[Log, NvmInp, NvmCow, NvmLog], 17);
    }

    #[test]
    #[ignore = "a build of .ci/run runs it"]
    fn calls_of_paged_engines() {
        use EngineKind::{NvDisk, NvLoggingFoc, NvLoggingFoi};
        calls_of(&[NvDisk, NvLoggingFoi, NvLoggingFoc], 127);
    }
}

/// Tests that `scripts/long` runs in a night, and no build.
mod long {
    use super::*;

    #[test]
    #[ignore = "scripts/long runs it"]
    fn every_call_of_every_engine() {
        std::thread::scope(|scope| {
            for engine in EngineKind::ALL {
                let one_in = match engine {
                    // They make ten times as many calls.
                    EngineKind::NvDisk | EngineKind::NvLoggingFoi | EngineKind::NvLoggingFoc => 11,
                    // They are `fast` but for their commits.
                    EngineKind::Fash
                    | EngineKind::Nvwal
                    | EngineKind::Journal
                    | EngineKind::Wal => 5,
                    _ => 1,
                };
                scope.spawn(move || some_calls_of(engine, &[Domain::Disk, Domain::Adr], one_in));
            }
        });
    }
}
