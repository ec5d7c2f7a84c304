//! `perdura pool backup` and `dump` of a database that another process is writing: what comes out
//! is of one moment, and the process goes on, whatever becomes of the command.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{perdura, run};
use perdura::{ColumnType, Database, EngineKind, Options, Row, Schema, TableSchema, Value};

/// Where the writer's database is, for the process that is the writer.
const WRITER: &str = "PERDURA_TEST_WRITER";
const ACCOUNTS: u64 = 50;
const EACH: i64 = 1000;
const PARTITIONS: u32 = 2;
/// Bytes of a pool to begin with.
const SMALL: u64 = 2 << 20;

fn schema() -> Schema {
    let account = TableSchema::new("account")
        .column("id", ColumnType::U64)
        .column("balance", ColumnType::I64)
        .column("note", ColumnType::Bytes { max: 200 })
        .key(&["id"]);
    let counter = TableSchema::new("counter")
        .column("id", ColumnType::U64)
        .column("rounds", ColumnType::U64)
        .key(&["id"]);
    Schema::new().table(account).table(counter)
}

fn create(path: &Path, engine: EngineKind, bytes: u64) {
    let options = Options::new().engine(engine).partitions(PARTITIONS).pool_limit(1 << 30);
    let options = options.pool_initial(bytes);
    let db = Database::create(path, &schema(), &options).expect("created");
    let (account, counter) = (db.table("account").unwrap(), db.table("counter").unwrap());
    for partition in 0..PARTITIONS as usize {
        let filled = db.partition(partition).write(|tx| {
            tx.insert(&counter, &[Value::U64(0), Value::U64(0)])?;
            (0..ACCOUNTS).try_for_each(|id| {
                tx.insert(&account, &[Value::U64(id), Value::I64(EACH), Value::Bytes(&[])])
            })
        });
        filled.expect("filled");
    }
    db.close().expect("closed");
}

/// Rounds: in each partition, the first one first, money goes from an account to another, and the
/// round is counted. Says how many rounds are acknowledged, now and then. Not a test: the process
/// that the tests start.
#[test]
#[ignore = "the process that the other tests start"]
fn writer() {
    let Some(path) = std::env::var_os(WRITER) else { return };
    let db = Database::open(PathBuf::from(path), &Options::new()).expect("a database");
    let (account, counter) = (db.table("account").unwrap(), db.table("counter").unwrap());
    thread::spawn(|| {
        // Ends with who started it.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let mut row = Row::new();
    for round in 1u64.. {
        for partition in 0..PARTITIONS as usize {
            let (from, to) = (round * 7 % ACCOUNTS, (round * 11 + 1) % ACCOUNTS);
            let moved = db.partition(partition).write(|tx| {
                for (id, change) in [(from, -3), (to, 3)] {
                    let key = [Value::U64(id)];
                    assert!(tx.get(&account, &key, &mut row)?);
                    let note = vec![round as u8; (round % 200) as usize];
                    let after = Value::I64(row.i64(1) + change);
                    tx.update(&account, &key, &[(1, after), (2, Value::Bytes(&note))])?;
                }
                tx.update(&counter, &[Value::U64(0)], &[(1, Value::U64(round))])
            });
            moved.expect("committed");
        }
        if round % 50 == 0 {
            println!("\nround {round}");
        }
    }
}

/// A process that writes until this is dropped.
struct Writer {
    child: Child,
    rounds: Arc<AtomicU64>,
}

impl Writer {
    fn start(path: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "--ignored", "--nocapture", "writer"])
            .env(WRITER, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("a writer");
        let (out, rounds) = (child.stdout.take().expect("its output"), Arc::<AtomicU64>::default());
        let heard = rounds.clone();
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if let Some(round) = line.strip_prefix("round ") {
                    heard.store(round.parse().expect("a number"), Ordering::SeqCst);
                }
            }
        });
        let writer = Self { child, rounds };
        writer.goes_on();
        writer
    }

    fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::SeqCst)
    }

    /// Waits until it has done more rounds; returns how many it has done.
    fn goes_on(&self) -> u64 {
        let (before, since) = (self.rounds(), Instant::now());
        while self.rounds() < before + 200 {
            assert!(since.elapsed() < Duration::from_secs(60), "the writer stands still");
            thread::sleep(Duration::from_millis(1));
        }
        self.rounds()
    }

    fn state(&self) -> char {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it lives");
        stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).expect("a state")
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn directory() -> tempfile::TempDir {
    let memory = tempfile::tempdir_in("/dev/shm");
    memory.or_else(|_| tempfile::tempdir()).expect("a directory")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Rounds of both partitions, if the database is of one moment.
fn rounds_of_one_moment(path: &Path) -> [u64; PARTITIONS as usize] {
    let db = Database::open(path, &Options::new()).expect("a database");
    let (account, counter) = (db.table("account").unwrap(), db.table("counter").unwrap());
    let mut row = Row::new();
    let rounds = [0, 1].map(|partition| {
        let rounds = db.partition(partition).read(|tx| {
            let mut sum = 0;
            for id in 0..ACCOUNTS {
                assert!(tx.get(&account, &[Value::U64(id)], &mut row)?);
                sum += row.i64(1);
            }
            assert_eq!(sum, ACCOUNTS as i64 * EACH, "half of a transaction");
            assert!(tx.get(&counter, &[Value::U64(0)], &mut row)?);
            Ok(row.u64(1))
        });
        rounds.expect("readable")
    });
    db.close().expect("closed");
    // The writer takes the partitions in turn.
    assert!(rounds[0] == rounds[1] || rounds[0] == rounds[1] + 1, "{rounds:?} are of two moments");
    rounds
}

#[test]
fn a_database_that_is_being_written_is_backed_up_as_it_is_at_one_moment() {
    for engine in EngineKind::ALL {
        let place = directory();
        let path = place.path().join("db");
        create(&path, engine, SMALL);
        let writer = Writer::start(&path);
        for number in 0..3 {
            let [to, copy] =
                ["backup", "copy"].map(|name| place.path().join(format!("{name}-{number}")));
            let before = writer.rounds();
            let ran = run(&["pool", "backup", text(&path), text(&to)]);
            assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{engine}: {}", ran.out);
            assert!(ran.out.contains("stood still for"), "{engine}: {}", ran.out);
            let after = writer.goes_on();
            let ran = run(&["pool", "restore", text(&to), text(&copy)]);
            assert_eq!(ran.code, Some(0), "{engine}: {}", ran.err);
            let rounds = rounds_of_one_moment(&copy);
            assert!(
                before <= rounds[1] && rounds[0] <= after,
                "{engine}: {before} {rounds:?} {after}"
            );
        }
        drop(writer);
        rounds_of_one_moment(&path);
        let names: Vec<_> =
            fs::read_dir(place.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
        let left = names.iter().any(|name| name.to_string_lossy().starts_with("perdura-scratch"));
        assert!(!left, "{engine}: {names:?}");
    }
}

#[test]
fn a_database_that_is_being_written_is_dumped_too() {
    let (place, other) = (directory(), directory());
    let path = place.path().join("db");
    create(&path, EngineKind::NvmInp, SMALL);
    let writer = Writer::start(&path);
    // Through a link, and copied elsewhere.
    let link = place.path().join("link");
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    let dump = place.path().join("dump");
    let ran =
        run(&["pool", "dump", text(&link), "--out", text(&dump), "--path", text(other.path())]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("stood still for"), "{}", ran.err);
    writer.goes_on();
    let copy = place.path().join("copy");
    let ran = run(&["pool", "load", text(&copy), text(&dump)]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    rounds_of_one_moment(&copy);
    // What could not be done says so, and the writer goes on.
    let ran = run(&["pool", "backup", text(&path), text(&dump)]);
    assert!(ran.code == Some(1) && ran.err.contains("dump"), "{ran:?}");
    let ran = run(&["pool", "backup", text(&path), "backup", "--path", "/nowhere"]);
    assert!(ran.code == Some(1) && ran.err.contains("/nowhere"), "{ran:?}");
    writer.goes_on();
}

#[test]
fn a_process_goes_on_when_the_backup_of_its_database_is_killed() {
    let place = directory();
    let path = place.path().join("db");
    // So large that copying it takes a while.
    create(&path, EngineKind::NvmInp, 300 << 20);
    let writer = Writer::start(&path);
    let mut killed_while_it_stood = 0;
    for number in 0..5 {
        let to = place.path().join(format!("backup-{number}"));
        let mut backup = perdura()
            .args(["pool", "backup", text(&path), text(&to)])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a backup");
        while writer.state() != 'T' && backup.try_wait().expect("a child").is_none() {
            thread::sleep(Duration::from_micros(100));
        }
        backup.kill().expect("killed");
        killed_while_it_stood += u32::from(writer.state() == 'T');
        backup.wait().expect("gone");
        writer.goes_on();
    }
    println!("killed {killed_while_it_stood} times while the writer stood still");
    assert!(killed_while_it_stood > 0, "copying was too fast each time: try with more");
}

#[test]
fn a_process_that_was_stopped_before_stays_so() {
    let place = directory();
    let path = place.path().join("db");
    create(&path, EngineKind::NvmLog, SMALL);
    let writer = Writer::start(&path);
    let send = |signal: &str| {
        let done = Command::new("kill").args([signal, &writer.child.id().to_string()]).status();
        assert!(done.expect("kill").success());
    };
    send("-STOP");
    let since = Instant::now();
    while writer.state() != 'T' {
        assert!(since.elapsed() < Duration::from_secs(10), "it does not stop");
    }
    let to = place.path().join("backup");
    let ran = run(&["pool", "backup", text(&path), text(&to)]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(writer.state(), 'T');
    send("-CONT");
    writer.goes_on();
}
