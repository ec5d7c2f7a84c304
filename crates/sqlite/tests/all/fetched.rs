//! Pages that SQLite reads in place: how many there are, and that they do not change while it does.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use perdura_sqlite::database::{
    Failure, Level, MainFile, MappedOpener, OpenOptions, Opened, Opener, SuperJournalNotice,
};
use perdura_sqlite::store::error::StoreError;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::children::child;
use crate::register::{open, register, stats};
use crate::sql::{check, folder, stock};
use crate::store_kills;

/// Pages that SQLite released; those that had changed by then; pages still held by connections that ended a read.
static GIVEN_BACK: AtomicU64 = AtomicU64::new(0);
static CHANGED: AtomicU64 = AtomicU64::new(0);
static KEPT: AtomicU64 = AtomicU64::new(0);

/// Opens databases of this VFS and watches the fetched pages.
#[derive(Debug)]
pub(crate) struct WatchedOpener;

impl Opener for WatchedOpener {
    fn open(&self, path: &Path, options: &OpenOptions) -> Opened {
        match MappedOpener.open(path, options) {
            Opened::File(file) => {
                Opened::File(Box::new(Watched { file, fetched: HashMap::new(), next: 0 }))
            }
            other => other,
        }
    }
}

#[derive(Debug)]
struct Watched {
    file: Box<dyn MainFile>,
    /// Copies of fetched pages by a number, since a page may be fetched twice.
    fetched: HashMap<u64, (usize, Vec<u8>)>,
    next: u64,
}

impl MainFile for Watched {
    fn fetch(&mut self, at: u64, len: u64) -> Result<Option<*const u8>, Failure> {
        let Some(page) = self.file.fetch(at, len)? else { return Ok(None) };
        // SAFETY: that many bytes were fetched.
        let bytes = unsafe { std::slice::from_raw_parts(page, len as usize) }.to_vec();
        self.fetched.insert(self.next, (page as usize, bytes));
        self.next += 1;
        Ok(Some(page))
    }
    fn unfetch(&mut self, at: u64, page: *const u8) {
        let same = |(_, (address, _)): &(&u64, &(usize, Vec<u8>))| *address == page as usize;
        let number = *self.fetched.iter().find(same).expect("it was fetched").0;
        let (_, before) = self.fetched.remove(&number).expect("it was found");
        // SAFETY: the page is valid until the call below.
        let now = unsafe { std::slice::from_raw_parts(page, before.len()) };
        CHANGED.fetch_add(u64::from(now != before), Ordering::Relaxed);
        GIVEN_BACK.fetch_add(1, Ordering::Relaxed);
        self.file.unfetch(at, page);
    }
    fn unlock(&mut self, to: Level) -> Result<(), Failure> {
        if to == Level::None {
            KEPT.fetch_add(self.fetched.len() as u64, Ordering::Relaxed);
        }
        self.file.unlock(to)
    }
    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<usize, Failure> {
        self.file.read(at, out)
    }
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write(at, bytes)
    }
    fn truncate(&mut self, to: u64) -> Result<(), Failure> {
        self.file.truncate(to)
    }
    fn size(&mut self) -> Result<u64, Failure> {
        self.file.size()
    }
    fn commit(&mut self, super_journal: Option<&[u8]>) -> Result<(), Failure> {
        self.file.commit(super_journal)
    }
    fn super_journal_notice(&self) -> Option<Arc<dyn SuperJournalNotice>> {
        self.file.super_journal_notice()
    }
    fn sync(&mut self) -> Result<(), Failure> {
        self.file.sync()
    }
    fn end_transaction(&mut self) -> Result<(), Failure> {
        self.file.end_transaction()
    }
    fn lock(&mut self, to: Level) -> Result<(), Failure> {
        self.file.lock(to)
    }
    fn level(&self) -> Level {
        self.file.level()
    }
    fn is_reserved(&mut self) -> Result<bool, Failure> {
        self.file.is_reserved()
    }
    fn has_moved(&self) -> bool {
        self.file.has_moved()
    }
    fn pragma(&mut self, name: &str, value: Option<&str>) -> Option<Result<String, String>> {
        self.file.pragma(name, value)
    }
    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.file.close()
    }
}

/// Opens a database whose pages are watched, and read in place.
fn open_watched(path: &Path) -> Connection {
    register();
    let connection =
        Connection::open_with_flags_and_vfs(path, OpenFlags::default(), "perdura-watched").unwrap();
    connection.busy_timeout(Duration::from_secs(60)).unwrap();
    connection.execute_batch("PRAGMA mmap_size = 1000000000; PRAGMA cache_size = 10").unwrap();
    connection
}

/// Asserts that no fetched page changed, and all were released in time.
fn all_stayed() {
    let [changed, kept] = [&CHANGED, &KEPT].map(|count| count.load(Ordering::Relaxed));
    assert_eq!((changed, kept), (0, 0));
}

fn number(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

const MODES: [&str; 6] = ["lean", "fash1", "fash", "fast", "nvwal", "full"];

/// Fills a table in random key order, so that most pages move.
fn fill(connection: &Connection, rows: u64, len: usize) {
    let text = "x".repeat(len);
    connection.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER, c TEXT)").unwrap();
    for key in 0..rows {
        let key = (key * 7_919 % rows).cast_signed();
        connection.execute("INSERT INTO t VALUES(?1, 0, ?2)", (key, &text)).unwrap();
    }
}

#[test]
fn select_fetches_pages_without_copies() {
    let directory = folder();
    let connection = open(&directory.path().join("db")).unwrap();
    let set = "PRAGMA mmap_size = 0; PRAGMA cache_size = 10; PRAGMA perdura_mode = fash1";
    connection.execute_batch(set).unwrap();
    fill(&connection, 600, 400);
    assert!(stats(&connection, "moved") > 0);
    let counts = || ["lent", "copied"].map(|name| stats(&connection, name));
    let select = |before: [u64; 2]| {
        assert_eq!(number(&connection, "SELECT sum(length(c)) FROM t"), 240_000);
        let now = counts();
        [now[0] - before[0], now[1] - before[1]]
    };
    let pages = number(&connection, "PRAGMA page_count").cast_unsigned();
    assert_eq!((counts()[0], number(&connection, "PRAGMA mmap_size")), (0, 0));
    let [fetched, copied] = select(counts());
    assert!(fetched == 0 && copied >= pages - 2, "{fetched}, {copied}, {pages} pages");
    for size in [1 << 40, 65_536] {
        assert_eq!(number(&connection, &format!("PRAGMA mmap_size = {size}")), size);
    }
    // The first 16 pages, except for page 1.
    let [fetched, copied] = select(counts());
    assert!(
        (1..16).contains(&fetched) && copied >= pages - 16,
        "{fetched}, {copied}, {pages} pages"
    );
    connection.execute_batch("PRAGMA mmap_size = 1000000000").unwrap();
    let [fetched, copied] = select(counts());
    // Page 1, and the part of it by which SQLite validates its cache.
    assert!(fetched >= pages - 2 && copied <= 3, "{fetched}, {copied}, {pages} pages");
    // The limit cannot change while a page is fetched.
    let mut all = connection.prepare("SELECT a FROM t").unwrap();
    let mut rows = all.query([]).unwrap();
    assert!(rows.next().unwrap().is_some());
    assert_eq!(number(&connection, "PRAGMA mmap_size = 5"), 1_000_000_000);
    drop(rows);
    connection.execute_batch("PRAGMA mmap_size = 0").unwrap();
    assert_eq!(select(counts())[0], 0);
}

#[test]
fn last_page_of_a_plain_file_is_copied() {
    let directory = folder();
    let path = directory.path().join("db");
    fill(&open(&path).unwrap(), 100, 400);
    let connection = open_watched(&path);
    let select = || {
        assert_eq!(number(&connection, "SELECT sum(length(c)) FROM t"), 40_000);
        stats(&connection, "lent")
    };
    let pages = number(&connection, "PRAGMA page_count").cast_unsigned();
    let plain = select();
    // Page 1 and the last page are copied. In a file that has grown the last page is fetched, too.
    assert_eq!(plain, pages - 2);
    connection.execute_batch("UPDATE t SET b = 1 WHERE a = 50").unwrap();
    let before = stats(&connection, "lent");
    assert_eq!(select() - before, pages - if file_is_longer(&path, pages) { 1 } else { 2 });
}

fn file_is_longer(path: &Path, pages: u64) -> bool {
    std::fs::metadata(path).unwrap().len() > pages * 4096
}

/// One connection changes all rows in each transaction. Others, and the same one, read them one by one, and each
/// finds the rows of one transaction.
#[test]
fn fetched_rows_belong_to_one_snapshot() {
    for (seed, page_bytes) in [512, 1024, 4096, 8192].into_iter().enumerate() {
        let directory = folder();
        let path = directory.path().join("db");
        let writer = open_watched(&path);
        writer
            .execute_batch(&format!("PRAGMA page_size = {page_bytes}; PRAGMA auto_vacuum = 2"))
            .unwrap();
        fill(&writer, 150, 90);
        let ends = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let reader = open_watched(&path);
                    while !ends.load(Ordering::Relaxed) {
                        one_moment(&reader);
                    }
                    one_moment(&reader);
                    assert!(stats(&reader, "lent") > 0);
                });
            }
            let mut random = SmallRng::seed_from_u64(seed as u64);
            for step in 0..60 {
                // The last one leaves nothing in NVWAL's log, whose pages are copied.
                let mode =
                    if step == 59 { "fash1" } else { MODES[random.random_range(0..MODES.len())] };
                writer.execute_batch(&format!("PRAGMA perdura_mode = {mode}")).unwrap();
                change(&writer, &mut random, step);
                one_moment(&writer);
            }
            ends.store(true, Ordering::Relaxed);
        });
        check(&writer);
        writer.close().unwrap();
        check(&stock(&path));
    }
    all_stayed();
    assert!(GIVEN_BACK.load(Ordering::Relaxed) > 1_000);
}

/// Asserts that all rows are in order and of one transaction.
fn one_moment(connection: &Connection) {
    let mut select = connection.prepare_cached("SELECT a, b, length(c) FROM t ORDER BY a").unwrap();
    let mut rows = select.query([]).unwrap();
    let (mut last, mut moment) = (-1, None);
    while let Some(row) = rows.next().unwrap() {
        let [key, number, len] = [0, 1, 2].map(|column| row.get::<_, i64>(column).unwrap());
        assert!(key > last && *moment.get_or_insert(number) == number && len >= 90);
        last = key;
        if key % 40 == 0 {
            thread::yield_now();
        }
    }
    assert!(last > 0);
}

/// A transaction that changes all rows, while a statement of the same connection reads some.
fn change(writer: &Connection, random: &mut SmallRng, step: i64) {
    let (key, len) = (random.random_range(1..150), random.random_range(90..300));
    let mut select = writer.prepare_cached("SELECT a, b FROM t WHERE a >= ?1").unwrap();
    let mut rows = select.query([key / 2]).unwrap();
    let open = step % 3 != 0 && rows.next().unwrap().is_some();
    writer
        .execute_batch(&format!(
            "BEGIN IMMEDIATE; DELETE FROM t WHERE a BETWEEN {key} AND {key} + {};
             UPDATE t SET b = {step}, c = printf('%.*c', {len}, 'y') WHERE a % 3 = {};
             WITH RECURSIVE n(i) AS (SELECT {key} UNION ALL SELECT i + 7 FROM n LIMIT 12)
             INSERT OR REPLACE INTO t SELECT i % 200, {step}, printf('%.*c', {len}, 'z') FROM n;
             UPDATE t SET b = {step}; PRAGMA incremental_vacuum(3)",
            step % 9,
            step % 3
        ))
        .unwrap();
    while open && step % 2 == 0 && rows.next().unwrap().is_some() {}
    // It waits for other readers.
    writer.execute_batch("COMMIT").unwrap();
    // SQLite does not define what the statement finds afterwards, but it finds rows.
    while open && rows.next().unwrap().is_some_and(|row| row.get::<_, i64>(1).is_ok()) {}
}

/// Runs a process that changes all rows; returns whether it could commit.
fn another_one_writes(path: &Path, mode: &str) -> bool {
    let mut child = child("one-commit")
        .arg(path)
        .arg(mode)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(child.wait().unwrap().success(), "{said:?}");
    let said = |word: &str| said.iter().any(|line| line.contains(word));
    assert!(said("=committed") != said("=busy"));
    said("=committed")
}

#[test]
fn no_other_process_commits_while_a_page_is_fetched() {
    for mode in MODES {
        let directory = folder();
        let path = directory.path().join("db");
        let reader = open_watched(&path);
        fill(&reader, 200, 300);
        for before in 0..3 {
            let mut select = reader.prepare("SELECT a, b FROM t ORDER BY a").unwrap();
            let mut rows = select.query([]).unwrap();
            let mut count = 0;
            while let Some(row) = rows.next().unwrap() {
                let found: [i64; 2] = [row.get_unwrap(0), row.get_unwrap(1)];
                assert_eq!(found, [count, before], "{mode}");
                if count % 100 == 50 {
                    assert!(!another_one_writes(&path, mode), "{mode}");
                }
                count += 1;
            }
            assert_eq!(count, 200);
            drop(rows);
            assert!(another_one_writes(&path, mode), "{mode}");
        }
        // Pages in NVWAL's log are copied.
        assert!(stats(&reader, "lent") > 10, "{mode}");
        drop(reader);
        check(&stock(&path));
    }
    all_stayed();
}

#[test]
fn logged_or_written_pages_are_copied() {
    let directory = folder();
    let connection = open_watched(&directory.path().join("db"));
    fill(&connection, 100, 200);
    connection.execute_batch("PRAGMA perdura_mode = nvwal").unwrap();
    let select = || {
        let before = stats(&connection, "lent");
        number(&connection, "SELECT sum(length(c)) FROM t");
        stats(&connection, "lent") - before
    };
    let all = select();
    assert!(all > 5, "{all}");
    connection.execute_batch("UPDATE t SET c = c || 'x' WHERE a % 2 = 0").unwrap();
    assert!(select() <= 1, "all of its leaves are in the log");
    // Another mode applies the log.
    connection
        .execute_batch("PRAGMA perdura_mode = fash1; UPDATE t SET b = 7 WHERE a = 1")
        .unwrap();
    assert!(select() >= all);
    connection
        .execute_batch(
            "PRAGMA cache_size = 3; PRAGMA cache_spill = 1; BEGIN; UPDATE t SET b = b + 1, c = c || 'y'",
        )
        .unwrap();
    assert_eq!(number(&connection, "SELECT count(*) FROM t WHERE c LIKE '%y'"), 100);
    connection.execute_batch("ROLLBACK").unwrap();
    assert_eq!(number(&connection, "SELECT count(*) FROM t WHERE c LIKE '%y'"), 0);
    all_stayed();
}

#[test]
fn pages_do_not_move_while_one_is_fetched() {
    let random = (0..90)
        .map(|key| format!("INSERT INTO t VALUES({}, '{}')", key * 37 % 90, "x".repeat(key % 60)));
    let files = store_kills::files_of(random);
    let memory = store_kills::new();
    let mut one = store_kills::open(&memory, 1);
    files.iter().for_each(|file| store_kills::commit(&mut one, file));
    assert!(one.stats().moved > 0);
    let place = one.fetch(512, 512, Ok).unwrap().unwrap();
    // Page 1 gets another page size.
    let mut other = files[files.len() - 1].clone();
    other[16..18].copy_from_slice(&1024_u16.to_be_bytes());
    one.write(0, &other).unwrap();
    assert!(matches!(one.commit(), Err(StoreError::PagesInUse)));
    assert_eq!(one.fetch(512, 512, Ok).unwrap(), None, "it is staged");
    one.discard();
    assert_eq!(one.fetch(512, 512, Ok).unwrap(), Some(place), "nothing has changed");
    one.unfetch();
    one.unfetch();
    one.write(0, &other).unwrap();
    one.commit().unwrap();
    assert_eq!(one.fetch(512, 512, Ok).unwrap(), Some(pm::Range::new(512, 512)), "at home");
}

/// SQLite may compare a record that begins at the end of a damaged page.
#[test]
fn fetched_page_is_followed_by_a_pages_worth_of_bytes() {
    let memory = store_kills::new();
    let mut one = store_kills::open(&memory, 1);
    let page = store_kills::PAGE as u64;
    one.write(page, &[7; 3 * store_kills::PAGE]).unwrap();
    store_kills::commit(&mut one, &store_kills::page(1, 7));
    let data = crate::explore::media(&memory).data;
    data.grow(4 * page + page / 2).unwrap();
    let len = data.len();
    let fetched: Vec<bool> =
        [1, 2, 3].map(|number| one.fetch(number * page, page, Ok).unwrap().is_some()).into();
    assert_eq!(fetched, [1, 2, 3].map(|number| (number + 2) * page <= len), "{len}");
    assert!(fetched[0]);
}

#[test]
fn fetching_a_truncated_page_is_an_error() {
    let directory = folder();
    let path = directory.path().join("db");
    let connection = open(&path).unwrap();
    connection.execute_batch("PRAGMA mmap_size = 1000000000; PRAGMA cache_size = 10").unwrap();
    fill(&connection, 200, 300);
    let mut select = connection.prepare("SELECT a FROM t ORDER BY a").unwrap();
    let mut rows = select.query([]).unwrap();
    assert!(rows.next().unwrap().is_some());
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
    let error = loop {
        match rows.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it has read a file that is not there"),
            Err(error) => break error,
        }
    };
    // SQLite itself may notice the page.
    let errors = [ErrorCode::SystemIoFailure, ErrorCode::DatabaseCorrupt];
    assert!(error.sqlite_error_code().is_some_and(|code| errors.contains(&code)), "{error}");
    drop(rows);
    let error = connection.execute_batch("SELECT * FROM t").unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::SystemIoFailure));
}

/// A page that is read in place is looked up in the log and prepared again at each use. A copy in SQLite's cache is not.
#[test]
fn pages_are_copied_until_a_program_asks_otherwise() {
    let directory = folder();
    let connection = open(&directory.path().join("db")).unwrap();
    fill(&connection, 300, 300);
    let sum = "SELECT sum(length(c)) FROM t";
    number(&connection, sum);
    assert_eq!((number(&connection, "PRAGMA mmap_size"), stats(&connection, "lent")), (0, 0));
    connection.execute_batch("PRAGMA mmap_size = 1000000000").unwrap();
    number(&connection, sum);
    assert!(stats(&connection, "lent") > 20);
}
