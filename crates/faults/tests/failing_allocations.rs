//! A program of its own: its allocator fails, and it forks.
//!
//! Every allocation of global memory fails in turn, in a run that has everything
//! (`faults::failing`).
//!
//! Rust ends a process that gets no memory, and so would the kernel. What has to hold is what holds
//! after a kill: the next process finds every acknowledged transaction, and else at most
//! the one in flight. (What engines keep for their data does not come from the global allocator:
//! that it runs out is an ordinary error, see `failing_resources.rs` and `failing_calls.rs`.)
//!
//! This program's allocator fails one allocation of one thread. For each point the test forks; the
//! child runs into it, and says in shared memory what was acknowledged before. It is the only test
//! here, so no other thread holds a lock at the fork.

#![cfg(target_os = "linux")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use faults::failing::{Place, Plan, Run};
use faults::items::schema;
use perdura::{Database, Domain, EngineKind, Error, Native};

/// Seconds after which a child hangs.
const PATIENCE_S: u32 = 60;

struct Failing;

thread_local! {
    /// Allocations before the one that fails; `None`: none does.
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

fn fails() -> bool {
    let count = |left: &Cell<Option<u64>>| {
        let before = left.get();
        left.set(before.and_then(|more| more.checked_sub(1)));
        before == Some(0)
    };
    // A thread that is going away has no counter any more, and is none of ours.
    LEFT.try_with(count).unwrap_or(false)
}

// SAFETY: every call goes to the system's allocator unchanged, or fails.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if fails() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(at, layout) };
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if fails() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `GlobalAlloc::realloc`.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Failing = Failing;

/// The words of a child: transactions that are acknowledged, plus one, or zero while there is no
/// database; and allocations that it has made.
struct Said {
    acknowledged: AtomicU64,
    allocations: AtomicU64,
}

fn shared() -> &'static Said {
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: fresh memory of zeroes, which is never unmapped.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), size_of::<Said>(), access, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        &*at.cast::<Said>()
    }
}

struct OnHost<'a> {
    run: &'a Run,
    path: PathBuf,
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
        !self.path.exists()
    }

    fn mend(&self) {}
}

/// The work of a child: its exit code is 0 if it came to the end, 3 after an error.
fn child(place: &OnHost<'_>, plan: &Plan, left: u64, said: &Said) -> libc::c_int {
    // SAFETY: concerns this process, which has no other thread.
    unsafe {
        libc::alarm(PATIENCE_S);
        // Its last words and its core are not wanted.
        let nowhere = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY);
        libc::dup2(nowhere, libc::STDERR_FILENO);
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
    }
    LEFT.set(Some(left));
    let done = place.run.say(place, plan, &|acknowledged| {
        said.acknowledged.store(acknowledged + 1, Ordering::SeqCst);
    });
    if let Some(unused) = LEFT.take() {
        said.allocations.store(left - unused, Ordering::SeqCst);
    }
    if done.is_ok() { 0 } else { 3 }
}

/// Runs a child into its point; returns how it ended.
fn live(place: &OnHost<'_>, plan: &Plan, left: u64, said: &Said) -> libc::c_int {
    said.acknowledged.store(0, Ordering::SeqCst);
    // SAFETY: no other thread of this process holds a lock that the child could need; the child
    // leaves without running what its parent would run at its end.
    unsafe {
        let process = libc::fork();
        assert!(process >= 0, "a process");
        if process == 0 {
            let code = child(place, plan, left, said);
            libc::_exit(code);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(process, &mut status, 0), process);
        status
    }
}

fn remove(path: &Path) {
    // What the killed process has left.
    let _ = fs::remove_file(path);
    let _ = fs::remove_dir_all(path.with_extension("files"));
}

fn allocations_fail_in_turn(engine: EngineKind, one_in: u64) {
    const MANY: u64 = 1 << 40;
    let started = Instant::now();
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let mut run = Run::new(engine);
    run.options = run.options.domain(Domain::Process).pool_limit(64 << 20).volatile_limit(64 << 20);
    let (plan, said) = (Plan::new(&run), shared());
    let place = OnHost { run: &run, path: directory.path().join("db") };
    let status = live(&place, &plan, MANY, said);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{engine}: {status:#x}");
    assert_eq!(said.acknowledged.load(Ordering::SeqCst), plan.acknowledged() + 1);
    run.left(&place, &plan, Some(plan.acknowledged())).unwrap();
    remove(&place.path);
    let points = said.allocations.load(Ordering::SeqCst);
    let (mut visited, mut died, mut errors) = (0, 0, 0);
    for point in (0..points).step_by(one_in as usize) {
        visited += 1;
        let status = live(&place, &plan, point, said);
        let name = format!("{engine}, allocation {point} of {points}");
        if libc::WIFSIGNALED(status) {
            assert_eq!(libc::WTERMSIG(status), libc::SIGABRT, "{name}: hangs or is damaged");
            died += 1;
        } else {
            // A panic leaves by way of `in_a_process`, with 1.
            let code = libc::WEXITSTATUS(status);
            assert!([0, 3].contains(&code), "{name}: ends with {code}");
            errors += u64::from(code != 0);
        }
        let acknowledged = said.acknowledged.load(Ordering::SeqCst).checked_sub(1);
        if let Err(what) = run.left(&place, &plan, acknowledged) {
            panic!("{name}: the next process {what}");
        }
        remove(&place.path);
    }
    println!(
        "{engine}: {visited} of {points} points, {died} died, {errors} errors, {:.1} s",
        started.elapsed().as_secs_f64()
    );
    // A few may fail without harm, or are not made in each run: a persister has groups as large as
    // its pace makes them.
    let noticed = died + errors;
    assert!(
        points > 1000 && noticed + 10 + visited / 100 > visited,
        "{engine}: of {visited}, {died} died, {errors} ended with an error"
    );
}

/// Does some of the engines' work in a process of its own, whose number it returns.
fn in_a_process(engines: impl Iterator<Item = EngineKind>, one_in: u64) -> libc::pid_t {
    // SAFETY: as in `live`; the child has one thread.
    let process = unsafe { libc::fork() };
    assert!(process >= 0, "a process");
    if process > 0 {
        return process;
    }
    // Where it is asked for, who dies without memory looks for the names of its callers for ever.
    // SAFETY: the only thread of this process.
    unsafe { std::env::set_var("RUST_BACKTRACE", "0") };
    let each = |engine| {
        let one_in = match engine {
            // They make three times as many allocations, mostly of the same places.
            EngineKind::NvDisk | EngineKind::NvLoggingFoi | EngineKind::NvLoggingFoc => 3 * one_in,
            EngineKind::Sofort => 3 * one_in,
            // They are `fast` but for their commits.
            EngineKind::Fash | EngineKind::Nvwal | EngineKind::Journal | EngineKind::Wal => {
                5 * one_in
            }
            _ => one_in,
        };
        allocations_fail_in_turn(engine, one_in);
    };
    let ended = catch_unwind(AssertUnwindSafe(|| engines.for_each(each)));
    let code = ended.map_or_else(
        |panic| {
            let text = panic.downcast_ref::<String>().map_or("it panicked", String::as_str);
            // Past the harness, which keeps what is printed in a process that is about to end.
            let text = format!("{text}\n");
            // SAFETY: the text is there, with so many bytes.
            unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
            1
        },
        |()| 0,
    );
    // SAFETY: leaves without running what its parent would run at its end.
    unsafe { libc::_exit(code) }
}

fn in_two_processes(one_in: u64) {
    // A process has one point at a time: two, for two cores.
    let halves =
        [0, 1].map(|half| in_a_process(EngineKind::ALL.into_iter().skip(half).step_by(2), one_in));
    let codes = halves.map(|process| {
        let mut status = 0;
        // SAFETY: waits for a child of this process.
        assert_eq!(unsafe { libc::waitpid(process, &mut status, 0) }, process);
        status
    });
    assert_eq!(codes, [0, 0], "see above");
}

#[test]
fn allocations_of_every_engine_fail_in_turn() {
    in_two_processes(47);
}

/// The test that each build of `.ci/run` adds.
mod whole {
    use super::*;

    #[test]
    #[ignore = "a build of .ci/run runs it"]
    fn allocations_of_every_engine_fail_in_turn() {
        in_two_processes(9);
    }
}

/// Tests that `scripts/long` runs in a night, and no build.
mod long {
    use super::*;

    #[test]
    #[ignore = "scripts/long runs it"]
    fn allocations_of_every_engine_fail_in_turn() {
        in_two_processes(1);
    }
}
