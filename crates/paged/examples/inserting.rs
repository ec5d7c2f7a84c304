//! The time to insert a record into a log, by the number of threads and the record's bytes (P2,
//! figure 11): both policies of NV-Logging and the central log, on a tmpfs whose lines are written
//! back as those of persistent memory are.
//!
//! ```text
//! cargo run --release -p perdura-paged --example inserting -- [directory, default /dev/shm]
//! ```
//!
//! An insert ends where its thread may go on. With flush-on-insert the record is durable then; with
//! flush-on-commit it waits in DRAM, and in the central log in the buffer. Making these durable,
//! and truncating, are between the rounds and count for none. For each log stand the median of the
//! times that threads have measured, and the time that one in a hundred exceeds. Where there are
//! more threads than processors the others wait for one: means would say how long.

use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Instant;

use paged::ids::{PageNo, TxNo};
use paged::log::central::{Central, CentralOptions};
use paged::log::nv::{NvForm, NvLog, NvOptions, Persist};
use paged::log::record::HEADER_BYTES;
use paged::log::{Chain, Kind, LogManager, Record};
use paged::threads::Host;
use pm::{Domain, HostFiles, Memory, Plain, PlainOptions};

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// Bytes of payload.
const PAYLOADS: [usize; 4] = [64, 256, 1 << 10, 6 << 10];
const ROUNDS: usize = 40;
/// Bytes of a round: the central log keeps the buffer of a group that is not larger.
const ROUND_BYTES: usize = 6 << 20;
/// The place of an NV log.
const AT: u64 = 4096;

type Log = Arc<dyn LogManager>;
type Outcome<R> = Result<R, Box<dyn Error + Send + Sync>>;

fn central(directory: &Path) -> Outcome<Log> {
    let files = HostFiles::create(&directory.join("files"), Domain::Process, false)?;
    let options = CentralOptions { partition_bytes: 32 << 20, ..CentralOptions::default() };
    Ok(Arc::new(Central::create(&files, "log-", options, Arc::<Host>::default())?))
}

fn nv_logging(directory: &Path, persist: Persist) -> Outcome<Log> {
    let form = NvForm::of_bytes(80 << 20, 1 << 17, 16 << 10);
    let end = AT + form.bytes();
    let options = PlainOptions {
        create: true,
        domain: Some(Domain::Adr),
        reserved_bytes: 2 * end,
        ..PlainOptions::default()
    };
    let memory = Plain::open(&directory.join("memory"), &options)?;
    memory.grow(end)?;
    let options = NvOptions { persist, ..NvOptions::default() };
    Ok(Arc::new(NvLog::create(memory, AT, form, 1, options, Arc::<Host>::default())))
}

/// Inserts records in one thread; returns how many nanoseconds each took.
fn insert(
    log: &dyn LogManager,
    payload: &[u8],
    inserts: usize,
    start: &Barrier,
) -> Outcome<Vec<u32>> {
    let (mut chain, mut times) = (Chain::new(TxNo(0)), Vec::with_capacity(inserts));
    let record = Record { page: PageNo(1), payload, ..Record::bare(Kind::Change) };
    start.wait();
    let mut before = Instant::now();
    for _ in 0..inserts {
        log.append(&mut chain, &record)?;
        let now = Instant::now();
        times.push(u32::try_from((now - before).as_nanos()).unwrap_or(u32::MAX));
        before = now;
    }
    Ok(times)
}

/// A round: all threads insert, then the log is made durable and truncated. Returns the times of
/// inserts.
fn round(log: &dyn LogManager, threads: usize, payload: &[u8]) -> Outcome<Vec<u32>> {
    let inserts = ROUND_BYTES / (payload.len() + HEADER_BYTES + 64) / threads;
    let (start, mut times) = (Barrier::new(threads), Vec::new());
    let done: Vec<_> = thread::scope(|scope| {
        let work = || insert(log, payload, inserts, &start);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("no worker panics")).collect()
    });
    for of_thread in done {
        times.extend(of_thread?);
    }
    let end = log.end();
    log.force(end)?;
    log.truncate(end, end)?;
    Ok(times)
}

fn measure(log: &dyn LogManager, threads: usize, payload: &[u8]) -> Outcome<String> {
    let mut times = Vec::new();
    for number in 0..ROUNDS {
        let of_round = round(log, threads, payload)?;
        // The first rounds touch the memory for the first time, and do not count.
        if number >= ROUNDS / 4 {
            times.extend(of_round);
        }
    }
    times.sort_unstable();
    Ok(format!("{:>7} {:>7}", times[times.len() / 2], times[times.len() / 100 * 99]))
}

fn main() -> Outcome<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "/dev/shm".into());
    println!("nanoseconds of an insert: the median, and exceeded by one in a hundred");
    println!(
        "{:>5} {:>7}  {:>15}  {:>15}  {:>15}",
        "bytes", "threads", "flush-on-insert", "flush-on-commit", "central"
    );
    for bytes in PAYLOADS {
        let payload = vec![7; bytes];
        for threads in THREADS {
            let mut cells = Vec::new();
            for log in ["foi", "foc", "central"] {
                let place = tempfile::tempdir_in(&directory)?;
                let log = match log {
                    "foi" => nv_logging(place.path(), Persist::OnInsert)?,
                    "foc" => nv_logging(place.path(), Persist::OnCommit)?,
                    _ => central(place.path())?,
                };
                cells.push(measure(&*log, threads, &payload)?);
            }
            println!("{bytes:>5} {threads:>7}  {}", cells.join("  "));
        }
    }
    Ok(())
}
