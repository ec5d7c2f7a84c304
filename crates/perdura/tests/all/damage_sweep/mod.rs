//! Damage at every place (`docs/reliability.md`, "Bad inputs" 6 to 11), for every engine: a small
//! database, closed or killed, of which each word of the pool that is in use, or each byte of a
//! file, is changed in turn. It is opened, checked, read in every way, changed, closed and opened
//! again.
//!
//! Allowed is an error, or right contents; other contents only where nothing can tell, that is in
//! the pools of the NVM engines, whose tuples have no checksum. Never a panic, a hang, or memory
//! without bound.
//!
//! By default a part of the places gets one of its values, other ones in each test: every fifth
//! word of a pool of an NVM engine, a byte in 29 of a file. `PERDURA_DAMAGE=all` gives each
//! place all of them (minutes).

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Item, Model, Tables, insert_item, item_of, update_item};
use perdura::{Database, Error, Row, Scan, Tx, Value};
use sim::Recorded;

pub(crate) mod files;
pub(crate) mod pools;

/// More rows than a scan of a small database can have, however damaged it is.
const MANY_ROWS: usize = 50_000;
/// A case that is still running after so many looks hangs: one takes milliseconds.
const HANGS: u32 = 200;
/// Pages of memory that all tests together never need.
const MANY_PAGES: u64 = 8 << 18;

/// Returns true if each place gets all of its values.
pub(crate) fn thorough() -> bool {
    std::env::var_os("PERDURA_DAMAGE").is_some()
}

/// The behaviour of a damaged database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// It does not open.
    Refused,
    /// It opens, and something is an error.
    Error,
    /// Nothing of it was noticed.
    Unnoticed,
}

/// The contents that a damaged database may show.
#[derive(Clone, Copy)]
pub(crate) enum Truth<'a> {
    /// One of these contents: a checksum covers everything.
    OneOf(&'a [Model]),
    /// Anything: no checksum covers values.
    Anything,
}

/// Keeps count of what has come of the cases, and an eye on the one that is running.
pub(crate) struct Sweep {
    name: String,
    /// Number and name of the case; no name between two cases.
    running: Arc<Mutex<(u64, String)>>,
    failed: Vec<String>,
    counts: [usize; 3],
}

impl Sweep {
    pub(crate) fn new(name: String) -> Self {
        let running = Arc::new(Mutex::new((0, String::new())));
        let watched = Arc::downgrade(&running);
        std::thread::spawn(move || {
            // Looks and not a clock, which goes on while the process is stopped.
            let (mut before, mut looks) = (0, 0);
            while let Some(running) = watched.upgrade() {
                let (number, case): (u64, String) = running.lock().unwrap().clone();
                drop(running);
                looks = if number == before { looks + 1 } else { 0 };
                before = number;
                let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
                let resident = pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
                if !case.is_empty() && (looks > HANGS || resident > MANY_PAGES) {
                    eprintln!("{case}: hangs, or takes {resident} pages of memory");
                    std::process::abort();
                }
                std::thread::sleep(Duration::from_millis(500));
            }
        });
        Self { name, running, failed: Vec::new(), counts: [0; 3] }
    }

    /// Runs a case, which is called `name` if it fails.
    pub(crate) fn case(&mut self, name: impl FnOnce() -> String, act: impl FnOnce() -> Outcome) {
        let name = name();
        let mut running = self.running.lock().unwrap();
        *running = (running.0 + 1, format!("{}: {name}", self.name));
        drop(running);
        match catch_unwind(AssertUnwindSafe(act)) {
            Ok(outcome) => self.counts[outcome as usize] += 1,
            Err(_) => {
                println!("FAILED {}: {name}", self.name);
                self.failed.push(name);
            }
        }
        assert!(self.failed.len() < 25, "{}: {:?}", self.name, self.failed);
        self.running.lock().unwrap().1.clear();
    }

    /// Ends the sweep, in which at least a part `1 / least` of the cases must have been noticed.
    pub(crate) fn finish(self, least: usize) {
        let [refused, error, unnoticed] = self.counts;
        let all = refused + error + unnoticed;
        println!(
            "{}: {all} cases: {refused} refused, {error} errors, {unnoticed} unnoticed",
            self.name
        );
        assert!(self.failed.is_empty(), "{}: {:?}", self.name, self.failed);
        assert!((refused + error) * least >= all, "{}: the damage hits something", self.name);
    }
}

/// The contents that are still possible, by what was seen so far; `None`: anything is.
struct Judge(Option<Vec<Model>>);

impl Judge {
    fn new(truth: Truth<'_>) -> Self {
        match truth {
            Truth::OneOf(models) => Self(Some(models.to_vec())),
            Truth::Anything => Self(None),
        }
    }

    /// Something was read: only the contents stay possible that it fits.
    fn saw(&mut self, what: &str, fits: impl Fn(&Model) -> bool) {
        if let Some(possible) = &mut self.0 {
            possible.retain(|model| fits(model));
            assert!(!possible.is_empty(), "wrong, and nothing says so: {what}");
        }
    }

    /// A transaction was run: after an error it is unknown whether it is durable.
    fn changed(&mut self, done: bool, change: impl Fn(&mut Model)) {
        let Some(possible) = &mut self.0 else { return };
        if possible.len() > 40 {
            self.0 = None;
            return;
        }
        let before = if done { Vec::new() } else { possible.clone() };
        possible.iter_mut().for_each(change);
        possible.extend(before);
    }
}

type Items = Vec<(u64, Item)>;
type Pairs = Vec<((String, i64), Vec<u8>)>;

fn items(db: &Database<Recorded>, tables: &Tables, scan: &Scan<'_>) -> Result<Items, Error> {
    let mut rows = Items::new();
    db.read(|tx| {
        tx.scan(&tables.item, scan, |row| {
            rows.push(item_of(row));
            assert!(rows.len() < MANY_ROWS, "a scan without end");
            ControlFlow::Continue(())
        })
    })?;
    Ok(rows)
}

fn pairs(db: &Database<Recorded>, tables: &Tables, scan: &Scan<'_>) -> Result<Pairs, Error> {
    let mut rows = Pairs::new();
    db.read(|tx| {
        tx.scan(&tables.pair, scan, |row| {
            rows.push(((row.text(0).into(), row.i64(1)), row.bytes(2).into()));
            assert!(rows.len() < MANY_ROWS, "a scan without end");
            ControlFlow::Continue(())
        })
    })?;
    Ok(rows)
}

/// Reads everything, in every way; returns whether all of it could be read.
fn read(db: &Database<Recorded>, tables: &Tables, judge: &mut Judge) -> bool {
    let mut all = true;
    let mut see = |all: &mut bool, what: &str, found: Result<Items, Error>| match found {
        Ok(mut rows) => {
            rows.sort_by_key(|row| row.0);
            judge.saw(what, |model| {
                rows.len() == model.items.len()
                    && rows.iter().all(|(key, item)| model.items.get(key) == Some(item))
            });
        }
        Err(_) => *all = false,
    };
    let forward = Scan::all;
    for scan in [forward(), forward().by("by_name"), forward().by("by_count_flag")] {
        see(&mut all, "forward", items(db, tables, &scan));
        see(&mut all, "backward", items(db, tables, &scan.backward()));
    }
    if let Ok(snapshot) = db.snapshot() {
        let mut rows = Items::new();
        let done = snapshot.scan(&tables.item, &forward(), |row| {
            rows.push(item_of(row));
            ControlFlow::Continue(())
        });
        see(&mut all, "by a snapshot", done.map(|()| rows));
    }
    for scan in [forward(), forward().backward()] {
        match pairs(db, tables, &scan) {
            Ok(rows) => judge.saw("pairs", |model| {
                rows.len() == model.pairs.len()
                    && rows.iter().all(|(key, value)| model.pairs.get(key) == Some(value))
            }),
            Err(_) => all = false,
        }
    }
    match pairs(db, tables, &Scan::prefix(&[Value::Text("l3")][..])) {
        Ok(rows) => judge.saw("pairs of a prefix", |model| {
            rows.len() == model.pairs.keys().filter(|key| key.0 == "l3").count()
        }),
        Err(_) => all = false,
    }
    let mut row = Row::new();
    for key in (0..KEYS).step_by(3) {
        match db.read(|tx| tx.get_into(&tables.item, &[Value::U64(key)], &mut row)) {
            Ok(found) => judge.saw("by its key", |model| {
                let item = found.then(|| item_of(&row).1);
                item.as_ref() == model.items.get(&key)
            }),
            Err(_) => all = false,
        }
    }
    all
}

/// Keys of items are below.
const KEYS: u64 = 40;

fn item(number: u64) -> Item {
    Item {
        name: format!("n{}", number % 9),
        payload: vec![number as u8; if number.is_multiple_of(3) { 300 } else { 20 }],
        count: number as i64 % 3,
        flag: vec![b'f'; number as usize % 6],
        score: number as f64,
    }
}

/// Runs transactions of all kinds; `judge` follows. Returns whether all of them could be run.
fn change(db: &Database<Recorded>, tables: &Tables, judge: &mut Judge) -> bool {
    let mut all = true;
    type Work<'w> = &'w dyn Fn(&mut Tx<'_, Recorded>) -> Result<(), Error>;
    let mut end = |judge: &mut Judge, done: Result<(), Error>, changes: &dyn Fn(&mut Model)| {
        match done {
            Ok(()) => judge.changed(true, changes),
            // Reported before anything was changed.
            Err(Error::DuplicateKey { .. } | Error::MissingKey { .. }) => {}
            Err(_) => {
                judge.changed(false, changes);
                all = false;
            }
        }
    };
    // Every pair that there may be: a damaged index leads updates astray that no scan shows.
    for number in 0..KEYS {
        let (left, right) = (format!("l{}", number % 7), number as i64 - KEYS as i64 / 2);
        let (key, value) = ([Value::Text(&left), Value::I64(right)], vec![number as u8; 90]);
        let changes = [(2, Value::Bytes(&value))];
        let done = match number % 2 {
            0 => db.update(&tables.pair, &key, &changes),
            _ => db.write(|tx| tx.update(&tables.pair, &key, &changes)),
        };
        end(judge, done, &|model| {
            if let Some(stored) = model.pairs.get_mut(&(left.clone(), right)) {
                stored.clone_from(&value);
            }
        });
    }
    let mut run = |judge: &mut Judge, work: Work<'_>, changes: &dyn Fn(&mut Model)| {
        end(judge, db.write(|tx| work(tx)), changes);
    };
    // Enough to split leaves and to freeze a MemTable, next to what is there and after it.
    for number in (1..KEYS).step_by(5).chain(1000..1012) {
        let new = item(number);
        run(judge, &|tx| insert_item(tx, tables, number, &new), &|model| {
            model.items.insert(number, item(number));
        });
    }
    for number in (0..KEYS).step_by(4) {
        let (columns, new) = (if number % 8 == 0 { 31 } else { 2 }, item(number + 1));
        run(judge, &|tx| update_item(tx, tables, number, &new, columns), &|model| {
            let Some(stored) = model.items.get_mut(&number) else { return };
            let payload = item(number + 1).payload;
            *stored =
                if columns == 31 { item(number + 1) } else { Item { payload, ..stored.clone() } };
        });
    }
    for number in (0..KEYS).step_by(2) {
        run(judge, &|tx| tx.delete(&tables.item, &[Value::U64(number)]), &|model| {
            model.items.remove(&number);
        });
    }
    // Several operations, given up.
    let given_up = db.begin().and_then(|mut tx| {
        let mut done = insert_item(&mut tx, tables, 2000, &item(1));
        done = done.and_then(|()| update_item(&mut tx, tables, 3, &item(2), 31));
        done = done.and_then(|()| tx.delete(&tables.item, &[Value::U64(5)]));
        match (done, tx.abort()) {
            (Ok(()) | Err(Error::DuplicateKey { .. } | Error::MissingKey { .. }), done) => done,
            (done, _) => done,
        }
    });
    all & given_up.is_ok()
}

/// Uses a database that is damaged, perhaps, in every way, and closes it. `again` opens it once
/// more.
pub(crate) fn exercise(
    db: Database<Recorded>,
    truth: Truth<'_>,
    again: impl FnOnce() -> Result<Database<Recorded>, Error>,
) -> Outcome {
    let mut judge = Judge::new(truth);
    // The description may be another one, where its checksum has been hit as well.
    let (Ok(item), Ok(pair)) = (db.table("item"), db.table("pair")) else { return Outcome::Error };
    let tables = Tables { item, pair };
    let checked = db.check();
    let mut good = checked.is_ok_and(|report| report.leaked == 0 && report.dangling == 0);
    good &= read(&db, &tables, &mut judge);
    if judge.0.as_ref().is_some_and(|possible| possible.len() > 1) {
        // Nothing of it could be read.
        judge.0 = None;
    }
    let _ = (db.footprint(), db.stats().unwrap());
    good &= change(&db, &tables, &mut judge);
    for _ in 0..20 {
        match db.background(4 << 10) {
            Ok(0) => break,
            Ok(_) => {}
            Err(_) => good = false,
        }
    }
    good &= db.checkpoint().is_ok();
    good &= read(&db, &tables, &mut judge);
    let _ = (db.check(), db.footprint(), db.stats().unwrap(), db.sync());
    good &= db.close().is_ok();
    match again() {
        Ok(db) => good &= read(&db, &tables_of(&db, &tables), &mut judge),
        Err(_) => good = false,
    }
    if good { Outcome::Unnoticed } else { Outcome::Error }
}

fn tables_of(db: &Database<Recorded>, before: &Tables) -> Tables {
    match (db.table("item"), db.table("pair")) {
        (Ok(item), Ok(pair)) => Tables { item, pair },
        _ => Tables { item: before.item.clone(), pair: before.pair.clone() },
    }
}
