//! `perdura pool backup` and `dump` of a database that another process is writing: what comes out
//! is of one moment, and the process goes on, whatever becomes of the command.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use perdura::{ColumnType, Database, EngineKind, Options, Row, Schema, TableSchema, Value};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{perdura, run};

const ACCOUNTS: u64 = 50;
const EACH: i64 = 1000;
const PARTITIONS: u32 = 2;
/// Bytes of a pool to begin with.
const SMALL: u64 = 2 << 20;
/// So many that copying them takes a while.
const LARGE: u64 = 300 << 20;

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

/// A process that writes until this is dropped.
struct Writer {
    child: Child,
    rounds: Arc<AtomicU64>,
}

impl Writer {
    fn start(path: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_perdura-cli-children"))
            .args([ACCOUNTS.to_string(), PARTITIONS.to_string()])
            .arg(path)
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

    /// Returns true if all of its threads have stopped: the last one does when it runs next.
    fn has_stopped(&self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("threads");
        let mut names = threads.map(|one| one.unwrap().file_name().into_string().unwrap());
        names.all(|name| state(name.parse().expect("a number")) == Some('T'))
    }

    /// Waits until it stands still, or the backup has ended; whether it does.
    fn stands_still(&self, backup: &mut Child) -> bool {
        wait_until("the backup neither stops it nor ends", || {
            self.has_stopped() || backup.try_wait().expect("a child").is_some()
        });
        self.has_stopped()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process, if it is there.
fn send(signal: Signal, process: u32) {
    let process = Pid::from_raw(process.cast_signed()).expect("a process");
    // Who is gone needs none.
    let _ = kill_process(process, signal);
}

fn state(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

/// Processes that a process has started.
fn children(process: u32) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").expect("/proc").filter_map(|entry| {
        let name = entry.ok()?.file_name();
        name.to_str()?.parse().ok()
    });
    let child = |number: &u32| {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        stat.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()
    };
    numbers.filter(|number| child(number) == Some(process)).collect()
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is() {
        assert!(since.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_micros(100));
    }
}

/// A backup that takes a while.
fn begin_backup(path: &Path, to: &Path) -> Child {
    perdura()
        .args(["pool", "backup", text(path), text(to)])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a backup")
}

/// Waits for a backup that has to succeed.
fn end_backup(backup: Child) {
    let done = backup.wait_with_output().expect("its end");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Returns true if a command has not removed its directory.
fn scratch_in(directory: &Path) -> bool {
    let mut names = fs::read_dir(directory).unwrap().map(|one| one.unwrap().file_name());
    names.any(|name| name.to_string_lossy().starts_with("perdura-scratch"))
}

fn restored(backup: &Path) -> [u64; PARTITIONS as usize] {
    let copy = backup.with_extension("copy");
    let ran = run(&["pool", "restore", text(backup), text(&copy)]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    rounds_of_one_moment(&copy)
}

/// In memory, if that has room for a few large pools.
fn directory() -> tempfile::TempDir {
    let is_large = |place: &tempfile::TempDir| {
        let file = fs::File::open(place.path()).expect("there");
        perdura::free_bytes(&file).is_ok_and(|bytes| bytes > 6 * LARGE)
    };
    let memory = tempfile::tempdir_in("/dev/shm").ok().filter(is_large);
    memory.map_or_else(tempfile::tempdir, Ok).expect("a directory")
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
                assert!(tx.get_into(&account, &[Value::U64(id)], &mut row)?);
                sum += row.i64(1);
            }
            assert_eq!(sum, ACCOUNTS as i64 * EACH, "half of a transaction");
            assert!(tx.get_into(&counter, &[Value::U64(0)], &mut row)?);
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
fn busy_database_is_backed_up_as_it_is_at_one_moment() {
    let engines = [EngineKind::NvmInp, EngineKind::NvDisk, EngineKind::Fast, EngineKind::Sofort];
    busy_databases_are_backed_up(&engines);
}

pub(crate) fn busy_databases_are_backed_up(engines: &[EngineKind]) {
    for &engine in engines {
        let place = directory();
        let path = place.path().join("db");
        create(&path, engine, SMALL);
        let writer = Writer::start(&path);
        for number in 0..2 {
            let to = place.path().join(format!("backup-{number}"));
            let before = writer.rounds();
            let ran = run(&["pool", "backup", text(&path), text(&to)]);
            assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{engine}: {}", ran.out);
            assert!(ran.out.contains("stood still for"), "{engine}: {}", ran.out);
            let after = writer.goes_on();
            let rounds = restored(&to);
            assert!(
                before <= rounds[1] && rounds[0] <= after,
                "{engine}: {before} {rounds:?} {after}"
            );
        }
        drop(writer);
        rounds_of_one_moment(&path);
        assert!(!scratch_in(place.path()), "{engine}");
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
    create(&path, EngineKind::NvmInp, LARGE);
    let writer = Writer::start(&path);
    let mut killed_while_it_stood = 0;
    for number in 0..5 {
        let mut backup = begin_backup(&path, &place.path().join(format!("backup-{number}")));
        let stood = writer.stands_still(&mut backup);
        // In every second round its child processes are terminated, too, as when a service is
        // stopped.
        if number % 2 == 1 {
            children(backup.id()).into_iter().for_each(|child| send(Signal::TERM, child));
        }
        backup.kill().expect("killed");
        killed_while_it_stood += u32::from(stood);
        backup.wait().expect("gone");
        writer.goes_on();
        wait_until("the copy is still there", || !scratch_in(place.path()));
    }
    println!("killed {killed_while_it_stood} times while the writer stood still");
    assert!(killed_while_it_stood > 0, "copying was too fast each time: try with more");
}

#[test]
fn process_that_dies_while_copied_is_backed_up_as_it_died() {
    let place = directory();
    let path = place.path().join("db");
    create(&path, EngineKind::NvmInp, LARGE);
    let mut writer = Writer::start(&path);
    let to = place.path().join("backup");
    let mut backup = begin_backup(&path, &to);
    assert!(writer.stands_still(&mut backup), "copying was too fast: try with more");
    writer.child.kill().expect("killed");
    writer.child.wait().expect("gone");
    end_backup(backup);
    assert_eq!(restored(&to), rounds_of_one_moment(&path));
}

#[test]
fn backups_at_the_same_time_are_of_one_moment_each() {
    let place = directory();
    let path = place.path().join("db");
    create(&path, EngineKind::NvmInp, LARGE / 4);
    let writer = Writer::start(&path);
    let to = |number| place.path().join(format!("backup-{number}"));
    let backups = [0, 1, 2].map(|number| begin_backup(&path, &to(number)));
    backups.into_iter().for_each(end_backup);
    writer.goes_on();
    for number in 0..3 {
        restored(&to(number));
    }
}

#[test]
fn a_process_that_is_let_go_on_is_copied_again() {
    let place = directory();
    let path = place.path().join("db");
    create(&path, EngineKind::NvmInp, LARGE);
    let writer = Writer::start(&path);
    let to = |number| place.path().join(format!("backup-{number}"));
    // Another program lets it go on once.
    let mut backup = begin_backup(&path, &to(0));
    assert!(writer.stands_still(&mut backup), "copying was too fast: try with more");
    send(Signal::CONT, writer.child.id());
    end_backup(backup);
    restored(&to(0));
    // By the waker, since the command stands still itself.
    let mut backup = begin_backup(&path, &to(1));
    assert!(writer.stands_still(&mut backup), "copying was too fast: try with more");
    send(Signal::STOP, backup.id());
    writer.goes_on();
    assert_eq!(state(backup.id()), Some('T'));
    send(Signal::CONT, backup.id());
    end_backup(backup);
    restored(&to(1));
    // Another program lets it go on each time: it cannot be copied, and the error says so.
    let mut backup = begin_backup(&path, &to(2));
    while backup.try_wait().expect("a child").is_none() {
        send(Signal::CONT, writer.child.id());
        thread::sleep(Duration::from_millis(5));
    }
    let ended = backup.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("go on"), "{said}");
    writer.goes_on();
    assert!(!scratch_in(place.path()));
}

#[test]
fn a_process_that_was_stopped_before_stays_so() {
    let place = directory();
    let path = place.path().join("db");
    create(&path, EngineKind::NvmLog, SMALL);
    let writer = Writer::start(&path);
    send(Signal::STOP, writer.child.id());
    wait_until("it does not stop", || writer.has_stopped());
    let to = place.path().join("backup");
    let ran = run(&["pool", "backup", text(&path), text(&to)]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("had been stopped before"), "{}", ran.out);
    assert!(writer.has_stopped());
    send(Signal::CONT, writer.child.id());
    writer.goes_on();
}
