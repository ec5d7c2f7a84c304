//! A program of its own: a timer and a handler belong to the whole process.
//!
//! Signals at 1 kHz (`docs/reliability.md`, "Bad inputs" 17), whose handler does not let the kernel
//! restart what they interrupt: everything that asks the kernel for something goes on.
//!
//! All system calls of the engines are made here in `pm`.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use pm::{Access, Domain, File, Files, HostFiles, Memory, Off, Pool, PoolOptions};

static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

fn storm(microseconds: i64) {
    // SAFETY: the handler touches an atomic only; both structures are fully initialised.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count as extern "C" fn(_) as usize;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        let every = libc::timeval { tv_sec: 0, tv_usec: microseconds };
        let timer = libc::itimerval { it_interval: every, it_value: every };
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
}

/// Creates, grows, closes and opens a pool.
fn pool(directory: &Path, round: u64) {
    let path = directory.join("pool");
    let options = PoolOptions {
        initial_bytes: 64 << 10,
        limit_bytes: 1 << 30,
        domain: Some(Domain::Process),
        ..PoolOptions::default()
    };
    let pool = Pool::create(&path, &options).unwrap();
    for step in 1..20 {
        pool.grow(step << 18).unwrap();
        pool.store(Off::new((step << 18) - 8), step ^ round);
    }
    pool.close().unwrap();
    drop(pool);
    let pool = Pool::open(&path, &PoolOptions::default(), Access::ReadWrite).unwrap();
    pool.mark_open(&PoolOptions::default()).unwrap();
    for step in 1..20 {
        let at = Off::new((step << 18) - 8);
        assert_eq!(pool.load(at, Ordering::Relaxed), Ok(step ^ round));
    }
    assert_eq!(pool.healthy(), Ok(()));
    pool.discard().unwrap();
}

/// Creates, writes, syncs, renames and reads files.
fn files(directory: &Path, domain: Domain) {
    let path = directory.join("files");
    let files = HostFiles::create(&path, domain, domain != Domain::Process).unwrap();
    for number in 0..4u8 {
        let file = files.create("new").unwrap();
        file.reserve(4 << 20).unwrap();
        file.write_at(1000, &vec![number; 1 << 20]).unwrap();
        file.sync().unwrap();
        files.rename("new", &format!("file-{number}")).unwrap();
        files.sync_directory().unwrap();
    }
    assert_eq!(files.list().unwrap().len(), 4);
    for number in 0..4u8 {
        let mut bytes = vec![0; 1 << 20];
        let file = files.open(&format!("file-{number}")).unwrap();
        assert_eq!(file.read_at(1000, &mut bytes).unwrap(), 1 << 20);
        assert!(bytes.iter().all(|byte| *byte == number));
        file.set_len(10).unwrap();
    }
    files.sync_all().unwrap();
    files.discard().unwrap();
}

#[test]
fn a_storm_of_signals_delays_and_breaks_nothing() {
    let shared = Path::new("/dev/shm");
    let directory =
        if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() };
    let directory = directory.unwrap();
    storm(1000);
    for round in 0..10 {
        pool(directory.path(), round);
        files(directory.path(), Domain::Process);
        files(directory.path(), Domain::Disk);
    }
    // More than can be reserved between two signals: a file system that is interrupted takes
    // back what it has done.
    let path = directory.path().join("large");
    let options = PoolOptions { initial_bytes: 128 << 20, ..PoolOptions::default() };
    drop(Pool::create(&path, &options).unwrap());
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 128 << 20);
    storm(0);
    let signals = SIGNALS.load(Ordering::Relaxed);
    println!("{signals} signals");
    assert!(signals > 5, "there were signals");
}
