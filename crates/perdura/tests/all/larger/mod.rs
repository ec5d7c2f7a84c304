//! Data ten times the buffer pool, under the load of four threads, in a process that is killed over
//! and over: nothing is lost, nothing is there that was never written, and memory stays within its
//! bound.
//!
//! 1. A process loads the rows.
//! 2. Others write, in four threads, until they are killed. A thread changes rows of its own, says
//!    in its row of the journal which transaction that was, and moves an amount between two rows
//!    that all threads share. When a transaction is durable it puts its number into a file.
//! 3. After every other kill the rows are compared with what the transactions up to those numbers
//!    leave, which follows from the numbers. After the others the next process goes on at once, so
//!    that kills hit restarts, too.
//!
//! This tests the `process` domain alone: the kernel keeps the pages of a killed process.

#[expect(dead_code, reason = "the part of the child, tests/children")]
mod process;

use std::collections::HashMap;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use perdura::{Database, Error, Row, Scan};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use process::{LOG_BUFFER, Order, THREADS, filler, goes, number_of, plan};

const SIGKILL: i32 = 9;
/// The process without buffers: its program, stacks, the database's description, tables of locks.
const FIXED: u64 = 16 << 20;

/// Starts a process that loads the rows, or one that writes.
fn start(order: &Order, what: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_perdura-children"))
        .args([what, &order.rows.to_string(), &order.buffer.to_string()])
        .arg(&order.directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("a process")
}

/// The most memory that a process may have: the frames, the log's buffer twice, since it grows
/// by doubling, and the rest.
fn memory_bound(order: &Order) -> u64 {
    order.buffer + order.buffer / 64 + 2 * LOG_BUFFER + FIXED
}

/// The most memory that a process has had so far, in bytes.
fn most_memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(0, |kib| kib << 10)
}

/// The expected rows, by the numbers of the transactions that are done.
struct Model {
    order: Order,
    done: [u64; THREADS as usize],
    /// The last writer of each row.
    rows: HashMap<u64, u64>,
    moved: HashMap<u64, i64>,
}

impl Model {
    fn new(order: &Order) -> Self {
        let rows = (0..order.rows).map(|id| (id, 0)).collect();
        let (done, moved) = ([0; THREADS as usize], HashMap::new());
        Self { order: order.clone(), done, rows, moved }
    }

    fn advance(&mut self, thread: u64, to: u64) {
        while self.done[thread as usize] < to {
            let done = &mut self.done[thread as usize];
            *done += 1;
            let number = *done;
            let (ids, (from, to, cents)) = plan(&self.order, thread, number);
            for (place, id) in ids.into_iter().enumerate() {
                if goes(number, place as u64, self.rows.contains_key(&id)) {
                    self.rows.remove(&id);
                } else {
                    self.rows.insert(id, number);
                }
            }
            *self.moved.entry(from).or_default() -= cents;
            *self.moved.entry(to).or_default() += cents;
        }
    }

    /// Opens the database and compares it.
    fn compare(&mut self, whole: bool) -> Result<(), Error> {
        let db = Database::open(self.order.path(), &self.order.options())?;
        let said = fs::read(self.order.numbers()).expect("the file of numbers");
        for thread in 0..THREADS {
            let at = thread as usize * 8;
            let said = u64::from_le_bytes(said[at..at + 8].try_into().expect("eight bytes"));
            let found = number_of(&db, thread)?;
            assert!(found >= said, "thread {thread}: {said} was acknowledged, {found} is there");
            assert!(found <= said + 1, "thread {thread}: {found} is there, {said} acknowledged");
            self.advance(thread, found);
        }
        let (row, purse) = (db.table("row")?, db.table("purse")?);
        let mut count = 0;
        db.read(|tx| {
            count = 0;
            tx.scan(&row, &Scan::all(), |row: &Row| {
                let (id, by) = (row.u64(0), row.u64(1));
                assert_eq!(self.rows.get(&id), Some(&by), "row {id}");
                assert_eq!(row.text(2), filler(id, by), "row {id}");
                count += 1;
                ControlFlow::Continue(())
            })
        })?;
        assert_eq!(count, self.rows.len(), "every row is there");
        db.read(|tx| {
            tx.scan(&purse, &Scan::all(), |row: &Row| {
                let moved = self.moved.get(&row.u64(0)).copied().unwrap_or_default();
                assert_eq!(row.i64(1), moved, "purse {}", row.u64(0));
                ControlFlow::Continue(())
            })
        })?;
        if whole {
            db.check()?;
            db.close()?;
        }
        Ok(())
    }
}

pub(crate) fn kill_over_and_over(rows: u64, buffer: u64, kills: u64, life: Duration) {
    let directory = tempfile::tempdir().expect("a directory");
    let order = Order { rows, buffer, directory: directory.path().to_owned() };
    File::create(order.numbers()).expect("created").write_all_at(&[0; 32], 0).expect("written");
    let mut loading = start(&order, "load");
    let mut most = 0;
    while loading.try_wait().expect("waited").is_none() {
        most = most_memory(loading.id()).max(most);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(loading.wait().expect("waited").success(), "the rows are loaded");
    let pages = pages_bytes(&order.directory);
    assert!(pages >= 10 * buffer, "{pages} bytes of pages, {buffer} of frames");
    let mut model = Model::new(&order);
    let mut random = SmallRng::seed_from_u64(kills);
    for kill in 0..kills {
        let mut child = start(&order, "write");
        let before = fs::read(order.numbers()).expect("numbers");
        if kill % 2 == 0 {
            // From its first transaction on; else from its start, which hits the restart.
            let begun = Instant::now();
            while fs::read(order.numbers()).expect("numbers") == before {
                assert!(begun.elapsed() < Duration::from_secs(60), "it writes");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        std::thread::sleep(life.mul_f64(random.random()));
        most = most_memory(child.id()).max(most);
        child.kill().expect("killed");
        let status = child.wait().expect("waited");
        assert_eq!(status.signal(), Some(SIGKILL), "kill {kill}: it ended by itself");
        if kill % 2 == 1 {
            model.compare(kill % 10 == 9).unwrap_or_else(|why| panic!("kill {kill}: {why}"));
        }
    }
    model.compare(true).expect("whole");
    let transactions: u64 = model.done.iter().sum();
    let bound = memory_bound(&order);
    println!(
        "{kills} kills, {transactions} transactions, {pages} bytes of pages, {buffer} of frames, at most {most} bytes of memory, bound {bound}"
    );
    assert!(transactions > kills * THREADS, "{transactions} transactions");
    assert!(most > buffer && most <= bound, "{most} bytes of memory, bound {bound}");
}

/// Bytes of the file of pages.
fn pages_bytes(directory: &Path) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(directory).expect("a directory").map_while(Result::ok) {
        let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
        if kind.is_dir() {
            bytes += pages_bytes(&path);
        } else if path.to_string_lossy().ends_with("-pages") {
            bytes += entry.metadata().expect("a length").len();
        }
    }
    bytes
}

#[test]
fn kills_under_load_lose_nothing_of_data_larger_than_memory() {
    kill_over_and_over(50_000, 1 << 20, 6, Duration::from_millis(150));
}
