//! Every call to the kernel fails in turn, in a run that has everything (`faults::failing` says what
//! that is, and what has to hold): of pools and files of the host, of all engines.
//!
//! The calls are real, and the engines those that ship. A seccomp filter of the running thread turns
//! each call of interest into a signal; its handler does the call, or says that it has failed. Calls
//! that nobody could act upon are left alone: close, munmap, madvise, and those of the allocator. Syncs are not done, which makes no difference to a process
//! that reads its files again, and spares the disk.
//!
//! One in 17 points is visited; all of them, which takes minutes, with
//! `cargo test -p perdura-faults -- --ignored long`.
//!
//! Each point is visited in several ways: it fails, once; it has no room, and neither has anything
//! after it until the error has been borne; a signal interrupts it; it does half of what it was asked
//! for. The last two are no errors.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Once;

use faults::driver::{Driver, Operation};
use faults::failing::{Place, Ran, Run};
use faults::items::{Model, Tables, compare, schema};
use perdura::{Database, Domain, DurableIn, EngineKind, Error, Native, Options};

/// The behaviour of the point that is visited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// It fails.
    Fails,
    /// It has no room, as all that take room after it.
    NoRoom,
    /// A signal comes before it has done anything.
    Interrupted,
    /// It does a half.
    Half,
    /// As the first, of the calls of this number alone.
    FailsAlone(libc::c_long),
}

/// Calls that are made to fail, and with what error.
const FAILING: [(libc::c_long, libc::c_int); 28] = [
    (libc::SYS_open, libc::EMFILE),
    (libc::SYS_openat, libc::EMFILE),
    (libc::SYS_read, libc::EIO),
    (libc::SYS_pread64, libc::EIO),
    (libc::SYS_write, libc::ENOSPC),
    (libc::SYS_pwrite64, libc::ENOSPC),
    (libc::SYS_lseek, libc::EIO),
    (libc::SYS_fstat, libc::EIO),
    (libc::SYS_newfstatat, libc::EIO),
    (libc::SYS_statx, libc::EIO),
    (libc::SYS_fstatfs, libc::EIO),
    (libc::SYS_getdents64, libc::EIO),
    (libc::SYS_mmap, libc::ENOMEM),
    (libc::SYS_mprotect, libc::ENOMEM),
    (libc::SYS_msync, libc::EIO),
    (libc::SYS_fsync, libc::EIO),
    (libc::SYS_fdatasync, libc::EIO),
    (libc::SYS_ftruncate, libc::EIO),
    (libc::SYS_fallocate, libc::ENOSPC),
    (libc::SYS_flock, libc::ENOLCK),
    (libc::SYS_mkdir, libc::ENOSPC),
    (libc::SYS_rename, libc::ENOSPC),
    (libc::SYS_renameat2, libc::ENOSPC),
    (libc::SYS_unlink, libc::EIO),
    (libc::SYS_unlinkat, libc::EIO),
    (libc::SYS_readlink, libc::EIO),
    (libc::SYS_readlinkat, libc::EIO),
    (libc::SYS_mkdirat, libc::ENOSPC),
];

/// Calls that do less than they were asked for, or are interrupted; all of them return a number of
/// bytes or can be made again.
const PARTIAL: [libc::c_long; 4] =
    [libc::SYS_read, libc::SYS_pread64, libc::SYS_write, libc::SYS_pwrite64];
const INTERRUPTED: [libc::c_long; 8] = [
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
];

const SYNCS: [libc::c_long; 3] = [libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_msync];

/// The state of a thread's calls.
#[derive(Clone, Copy)]
struct Calls {
    /// `None`: all succeed.
    way: Option<Way>,
    /// Calls of its kind that come before the one that fails.
    left: u64,
    /// The one that was hit.
    hit: libc::c_long,
}

thread_local! {
    static CALLS: Cell<Calls> = const { Cell::new(Calls { way: None, left: 0, hit: -1 }) };
    /// True while the thread is in the allocator.
    static ALLOCATES: Cell<bool> = const { Cell::new(false) };
}

/// The system's allocator, whose calls to the kernel are left alone: when it makes them depends on
/// what other threads do.
struct Alone;

impl Alone {
    fn within<R>(work: impl FnOnce() -> R) -> R {
        ALLOCATES.set(true);
        let done = work();
        ALLOCATES.set(false);
        done
    }
}

// SAFETY: the system's allocator does everything.
unsafe impl GlobalAlloc for Alone {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        Self::within(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        Self::within(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        Self::within(|| unsafe { System.realloc(pointer, layout, bytes) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        Self::within(|| unsafe { System.dealloc(pointer, layout) });
    }
}

#[global_allocator]
static ALLOCATOR: Alone = Alone;

fn counts(way: Way, call: libc::c_long) -> bool {
    match way {
        Way::Fails => true,
        Way::NoRoom => error_of(call) == libc::ENOSPC,
        Way::Interrupted => INTERRUPTED.contains(&call),
        Way::Half => PARTIAL.contains(&call),
        Way::FailsAlone(one) => one == call,
    }
}

fn error_of(call: libc::c_long) -> libc::c_int {
    FAILING.iter().find(|(one, _)| *one == call).map_or(libc::EIO, |(_, error)| *error)
}

/// Returns what a call returns that the filter has stopped.
fn answer(call: libc::c_long, mut arguments: [libc::c_long; 6]) -> libc::c_long {
    let mut calls = CALLS.get();
    // The test's own words, and the allocator's calls.
    let other = (call == libc::SYS_write && arguments[0] <= 2) || ALLOCATES.get();
    if let Some(way) = calls.way.filter(|way| counts(*way, call) && !other) {
        let hit = calls.left == 0;
        if hit && calls.hit < 0 {
            calls.hit = call;
        } else if !hit {
            calls.left -= 1;
        }
        let once = calls.hit == call && hit;
        if hit && way != Way::NoRoom {
            calls.left = u64::MAX;
        }
        CALLS.set(calls);
        match way {
            Way::Fails | Way::NoRoom | Way::FailsAlone(_) if hit => {
                return -libc::c_long::from(error_of(call));
            }
            Way::Interrupted if once => return -libc::c_long::from(libc::EINTR),
            Way::Half if once => arguments[2] = (arguments[2] + 1) / 2,
            _ => {}
        }
    }
    if SYNCS.contains(&call) {
        return 0;
    }
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the call that the program has made, with its own arguments, or a shorter one.
    let done = unsafe { libc::syscall(call, a, b, c, d, e, f) };
    if done != -1 {
        return done;
    }
    // SAFETY: this thread's own number.
    -libc::c_long::from(unsafe { *libc::__errno_location() })
}

extern "C" fn stopped(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel hands a handler with SA_SIGINFO the registers of the thread.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    // SAFETY: this thread's own number, which a signal must leave as it was.
    let errno = unsafe { *libc::__errno_location() };
    let at = |register: libc::c_int| registers[register as usize];
    let arguments =
        [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8, libc::REG_R9]
            .map(at);
    registers[libc::REG_RAX as usize] = answer(at(libc::REG_RAX), arguments);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Stops the calls of interest of this thread, but for those that the handler itself makes.
fn stop_calls_of_this_thread() {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| {
        // SAFETY: a handler that touches nothing but its own thread's numbers and registers.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = stopped as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut()), 0);
        }
    });
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    // The C library's function through which the handler calls; it is short.
    let own = libc::syscall as *const () as u64;
    let (from, until) = (own as u32, own as u32 + 64);
    assert!(until > from, "within 4 GiB");
    let mut filter = vec![
        // The address behind the call: low word at 8, high word at 12.
        step(LOAD, 12, 0, 0),
        step(IS, (own >> 32) as u32, 0, 4),
        step(LOAD, 8, 0, 0),
        step(AT_LEAST, until, 2, 0),
        step(AT_LEAST, from, 0, 1),
        step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
        // The call's number.
        step(LOAD, 0, 0, 0),
    ];
    for (call, _) in FAILING {
        filter.push(step(IS, call as u32, 0, 1));
        filter.push(step(RETURN, libc::SECCOMP_RET_TRAP, 0, 0));
    }
    filter.push(step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the filter is read by the kernel during the call. It binds this thread alone.
    unsafe {
        let (one, none): (libc::c_ulong, libc::c_ulong) = (1, 0);
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, one, none, none, none), 0);
        let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
        let done = libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program);
        assert_eq!(done, 0, "the kernel lets a thread filter its own calls");
    }
}

/// Does `work` in a thread whose calls are stopped. What the C library itself allocates there, for
/// reading a directory, it finds in what it keeps.
fn with_stopped_calls(work: impl FnOnce() + Send) {
    // SAFETY: a setting of the C library's allocator.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX) };
    let done = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            stop_calls_of_this_thread();
            work();
        });
        thread.join()
    });
    if let Err(panic) = done {
        std::panic::resume_unwind(panic);
    }
}

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

    /// Lets each call of number `call` that `work` makes fail in turn, in a database in which `before`
    /// was done, and hands what came of it to `after`. Returns how many there were.
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
        !self.path.exists() && !self.files().exists()
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
            assert!(heard > 0, "{name}: nobody has heard of a sync that failed: {ran:?}");
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
    some_calls_of(engine, &[Domain::Disk, Domain::Adr], 17);
}

#[test]
#[ignore = "takes minutes"]
fn long_every_call_of_every_engine() {
    std::thread::scope(|scope| {
        for engine in EngineKind::ALL {
            let one_in = match engine {
                // They make ten times as many calls.
                EngineKind::NvDisk | EngineKind::NvLoggingFoi | EngineKind::NvLoggingFoc => 11,
                // They are `fast` but for their commits.
                EngineKind::Fash | EngineKind::Nvwal | EngineKind::Journal | EngineKind::Wal => 5,
                _ => 1,
            };
            scope.spawn(move || some_calls_of(engine, &[Domain::Disk, Domain::Adr], one_in));
        }
    });
}

/// Whatever else a file is asked for when it has been created: what there is of it then is no damage
/// to the next process, whether the database was closed or not.
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

/// A sync that fails is told to whoever creates, opens, or closes a database, or commits.
#[test]
fn a_sync_that_fails_is_told_at_once() {
    with_stopped_calls(|| {
        for engine in EngineKind::ALL {
            let directory = in_memory();
            let mut run = Run::new(engine);
            run.options = options(&run, Domain::Disk);
            let place = OnHost::new(&run, &directory);
            let created = || place.create().unwrap();
            // It ends when nothing fails any more: a session that ends does what its commits have left
            // over, which recovery does, too.
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
                // What fails behind a commit that is durable, room for the next one, shows there.
                done.and(next)
            };
            for call in SYNCS {
                let told = |doing: &'static str| {
                    let (place, ends) = (&place, &ends);
                    move |done: Result<(), Error>| {
                        ends.take().into_iter().for_each(Database::abandon);
                        assert!(done.is_err(), "{engine}, {doing}, {call}: nobody was told");
                        let gone = place.is_empty();
                        assert_eq!(gone, doing == "create", "{engine}, {doing}: is gone: {gone}");
                        if !gone {
                            place.open().unwrap().close().unwrap();
                        }
                    }
                };
                let syncs = [
                    place.each(call, || (), create, told("create")),
                    place.each(call, closed, open, told("open")),
                    place.each(call, created, commit, told("commit")),
                    place.each(call, created, Database::close, told("close")),
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
fn an_opening_that_fails_when_it_has_begun_a_segment_leaves_no_damage() {
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

/// A pool that is opened is marked so before anything is changed, and a database that is weaker than
/// its medium, or modelled, has no other sync: without it a pool that was open when power failed could
/// be taken for one that was closed.
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
                        assert!(done.is_err(), "{engine}, {domain}, {call}: nobody was told");
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
    some_calls_of(engine, &[Domain::Disk, Domain::Adr], 127);
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
