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

use std::collections::HashMap;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use perdura::{
    Background, ColumnType, Database, Domain, EngineKind, Error, Options, Row, Scan, Schema,
    TableSchema, Tx, Value,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Says to a process of this test what it is to do: `<load or write>:<rows>:<buffer>:<directory>`.
const ORDER: &str = "PERDURA_LARGER";
const THREADS: u64 = 4;
const PURSES: u64 = 16;
const SIGKILL: i32 = 9;
/// Buffer of the log.
const LOG_BUFFER: u64 = 1 << 20;
/// The process without buffers: its program, stacks, the database's description, tables of locks.
const FIXED: u64 = 16 << 20;

/// The work that is to be done.
#[derive(Clone)]
struct Order {
    rows: u64,
    buffer: u64,
    directory: PathBuf,
}

impl Order {
    fn options(&self) -> Options {
        Options::new()
            .engine(EngineKind::NvDisk)
            .set("buffer_bytes", self.buffer)
            .set("log_buffer_bytes", LOG_BUFFER)
            .set("log_bytes", 64 << 20)
            .set("checkpoint_bytes", 1 << 20)
            .pool_initial(1 << 20)
            .domain(Domain::Process)
            .background(Background::Thread)
    }

    fn path(&self) -> PathBuf {
        self.directory.join("db")
    }

    fn numbers(&self) -> PathBuf {
        self.directory.join("numbers")
    }

    fn start(&self, what: &str) -> Child {
        let order = format!("{what}:{}:{}:{}", self.rows, self.buffer, self.directory.display());
        Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "--ignored", "--nocapture", "larger::ordered"])
            .env(ORDER, order)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("a process")
    }

    /// The most memory that a process may have: the frames, the log's buffer twice, since it grows
    /// by doubling, and the rest.
    fn memory_bound(&self) -> u64 {
        self.buffer + self.buffer / 64 + 2 * LOG_BUFFER + FIXED
    }
}

fn schema() -> Schema {
    let table = |name: &str| TableSchema::new(name).column("id", ColumnType::U64);
    Schema::new()
        .table(
            table("row")
                .column("by", ColumnType::U64)
                .column("filler", ColumnType::Text { max: 400 })
                .key(&["id"]),
        )
        .table(table("journal").column("number", ColumnType::U64).key(&["id"]))
        .table(table("purse").column("cents", ColumnType::I64).key(&["id"]))
}

fn filler(id: u64, by: u64) -> String {
    let letter = char::from(b'a' + ((id ^ by) % 26) as u8);
    letter.to_string().repeat(150 + ((id + 7 * by) % 100) as usize)
}

/// Returns whether a transaction deletes a row of its thread. It writes the others.
fn goes(number: u64, place: u64, there: bool) -> bool {
    there && (number + place).is_multiple_of(5)
}

/// The rows that a transaction of a thread changes, and what it moves from one purse to another.
fn plan(order: &Order, thread: u64, number: u64) -> ([u64; 3], (u64, u64, i64)) {
    let mut random = SmallRng::seed_from_u64(thread << 40 | number);
    let mut ids = [0; 3];
    for place in 0..3 {
        ids[place] = loop {
            let id = random.random_range(0..order.rows / THREADS) * THREADS + thread;
            if !ids[..place].contains(&id) {
                break id;
            }
        };
    }
    let from = random.random_range(0..PURSES);
    let to = (from + random.random_range(1..PURSES)) % PURSES;
    (ids, (from, to, random.random_range(1..100)))
}

fn load(order: &Order) -> Result<(), Error> {
    let db = Database::create(order.path(), &schema(), &order.options())?;
    let (row, journal, purse) = (db.table("row")?, db.table("journal")?, db.table("purse")?);
    db.write(|tx| {
        for id in 0..THREADS {
            tx.insert(&journal, &[Value::U64(id), Value::U64(0)])?;
        }
        for id in 0..PURSES {
            tx.insert(&purse, &[Value::U64(id), Value::I64(0)])?;
        }
        Ok(())
    })?;
    for first in (0..order.rows).step_by(500) {
        db.write(|tx| {
            for id in first..order.rows.min(first + 500) {
                let filler = filler(id, 0);
                tx.insert(&row, &[Value::U64(id), Value::U64(0), Value::Text(&filler)])?;
            }
            Ok(())
        })?;
    }
    db.close()
}

fn number_of(db: &Database, thread: u64) -> Result<u64, Error> {
    let journal = db.table("journal")?;
    db.read(|tx| Ok(tx.get(&journal, &[Value::U64(thread)])?.expect("a row").u64(1)))
}

/// A transaction of a thread.
fn transaction(db: &Database, order: &Order, thread: u64, number: u64) -> Result<(), Error> {
    let (row, journal, purse) = (db.table("row")?, db.table("journal")?, db.table("purse")?);
    let (ids, (from, to, cents)) = plan(order, thread, number);
    let add = |tx: &mut Tx<'_>, id: u64, cents: i64| {
        let there = tx.get(&purse, &[Value::U64(id)])?.expect("a row").i64(1);
        tx.update(&purse, &[Value::U64(id)], &[(1, Value::I64(there + cents))])
    };
    db.write(|tx| {
        for (place, id) in ids.into_iter().enumerate() {
            let key = [Value::U64(id)];
            let there = tx.get(&row, &key)?.is_some();
            let filler = filler(id, number);
            if goes(number, place as u64, there) {
                tx.delete(&row, &key)?;
            } else if there {
                let changes = [(1, Value::U64(number)), (2, Value::Text(&filler))];
                tx.update(&row, &key, &changes)?;
            } else {
                tx.insert(&row, &[Value::U64(id), Value::U64(number), Value::Text(&filler)])?;
            }
        }
        tx.update(&journal, &[Value::U64(thread)], &[(1, Value::U64(number))])?;
        add(tx, from, -cents)?;
        add(tx, to, cents)
    })
}

/// Writes until it is killed.
fn write(order: &Order) -> Result<(), Error> {
    let db = Database::open(order.path(), &order.options())?;
    let numbers = File::options().write(true).open(order.numbers()).expect("the file of numbers");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, numbers) = (&db, &numbers);
            scope.spawn(move || {
                let say = |number: u64| {
                    numbers.write_all_at(&number.to_le_bytes(), thread * 8).expect("a number");
                };
                let mut number = number_of(db, thread).expect("a number");
                loop {
                    say(number);
                    number += 1;
                    transaction(db, order, thread, number).expect("a transaction");
                }
            });
        }
    });
    Ok(())
}

#[test]
#[ignore = "a process of the other tests"]
fn ordered() {
    let Ok(order) = std::env::var(ORDER) else { return };
    let parts: Vec<&str> = order.splitn(4, ':').collect();
    let [what, rows, buffer, directory] = parts[..] else { panic!("{order}") };
    let number = |text: &str| text.parse().expect("a number");
    let order = Order { rows: number(rows), buffer: number(buffer), directory: directory.into() };
    match what {
        "load" => load(&order).expect("loaded"),
        _ => write(&order).expect("written"),
    }
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
    let mut loading = order.start("load");
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
        let mut child = order.start("write");
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
    let bound = order.memory_bound();
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
