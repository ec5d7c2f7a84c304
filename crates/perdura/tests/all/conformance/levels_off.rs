//! What an operation uses up is given back: each is repeated hundreds of times, and the files, the objects
//! in the heap, the work that waits, and the count of a fixed read level off.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use perdura::{
    ColumnType, Concurrency, Database, EngineKind, Error, Options, Scan, Schema, Table,
    TableSchema, Tx, Unfinished, Value, WriteOptions,
};

use super::{Store, small};
use crate::support::few;

/// Rounds of a phase. The first phase is for wearing in; the most of the others are compared.
const PHASE: u64 = 100;
const PHASES: u64 = 3;
/// Looks at what is used in a phase.
const LOOKS: u64 = 5;
/// Rows that stay, and are read.
const ROWS: u64 = 40;

fn schema() -> Schema {
    let rows = TableSchema::new("t")
        .column("id", ColumnType::U64)
        .column("group", ColumnType::U64)
        .column("text", ColumnType::Text { max: 2000 })
        .key(&["id"])
        .index("by_group", &["group"]);
    Schema::new().table(rows)
}

fn insert(tx: &mut Tx<'_>, table: &Table, id: u64) -> Result<(), Error> {
    tx.insert(table, &[id.into(), (id % 3).into(), "a text of some length".into()])
}

/// A database that operations are repeated in.
struct Worn {
    store: Store,
    table: Table,
}

impl Worn {
    fn new(engine: EngineKind) -> Self {
        // So small that the log has gone round before the second phase.
        let setup = small(engine).map(|options: Options| {
            options.tune("log_bytes", 384 << 10).tune("checkpoint_bytes", 32 << 10)
        });
        let store = Store::new(&schema(), setup);
        let table = store.db().table("t").unwrap();
        store
            .db()
            .write(|tx| (0..ROWS).try_for_each(|id| insert(tx, &table, 1_000_000 * id)))
            .unwrap();
        Self { store, table }
    }

    fn db(&self) -> &Database {
        self.store.db()
    }

    fn reopen(&mut self) {
        self.store.db.take().unwrap().close().unwrap();
        self.store.db = Some(self.store.setup.open(&self.store.path).unwrap());
        self.table = self.db().table("t").unwrap();
    }

    /// What a fixed read costs, as far as the engine counts it.
    fn read(&self) -> u64 {
        let counted = || {
            let stats = self.db().stats().unwrap();
            let buffer = stats.own.buffer().map(|own| own.lock_requests + own.hits + own.reads);
            let runs =
                stats.own.runs().map(|own| own.runs.iter().map(|runs| u64::from(*runs)).sum());
            (buffer, runs.unwrap_or(0))
        };
        let (before, runs) = counted();
        let read =
            |scan: Scan<'_>| self.db().read(|tx| Ok(tx.rows(&self.table, scan.clone()).count()));
        assert_eq!(read(Scan::all()).unwrap() as u64, ROWS);
        assert_eq!(read(Scan::all().by("by_group").backward().limit(1)).unwrap(), 1);
        let (after, _) = counted();
        after.zip(before).map_or(runs, |(after, before)| after - before)
    }

    /// Everything that is to level off, by name.
    fn used(&self) -> BTreeMap<String, u64> {
        let mut used = BTreeMap::new();
        let directory = self.store.path.parent().unwrap();
        let mut add = |path: &Path| {
            let name = path.strip_prefix(directory).unwrap().display().to_string();
            used.insert(name, fs::metadata(path).unwrap().len());
        };
        let files = |path: &Path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        for path in files(directory) {
            if path.is_dir() { files(&path).for_each(|file| add(&file)) } else { add(&path) }
        }
        // Files come and go with their numbers.
        let all: u64 = used.values().sum();
        used.retain(|name, _| !name.chars().any(|sign| sign.is_ascii_digit()));
        used.insert("all files".into(), all);
        used.insert("stored bytes".into(), self.db().stored_bytes().unwrap());
        used.insert("waiting bytes".into(), self.db().stats().unwrap().waiting_bytes);
        used.insert("count of a read".into(), self.read());
        used.insert("objects".into(), self.db().check().unwrap().objects);
        used
    }
}

/// The most of each that was seen.
fn most(seen: &mut BTreeMap<String, u64>, now: BTreeMap<String, u64>) {
    for (name, used) in now {
        let most = seen.entry(name).or_default();
        *most = used.max(*most);
    }
}

/// Repeats an operation, and compares the last two phases.
fn repeat(engine: EngineKind, what: &str, mut act: impl FnMut(&mut Worn, u64)) -> Vec<String> {
    let mut worn = Worn::new(engine);
    let mut phases = Vec::new();
    for phase in 0..PHASES {
        let mut seen = BTreeMap::new();
        for round in 0..PHASE {
            act(&mut worn, phase * PHASE + round);
            if (round + 1) % (PHASE / LOOKS) == 0 {
                most(&mut seen, worn.used());
            }
        }
        phases.push(seen);
    }
    let (before, after) = (&phases[PHASES as usize - 2], &phases[PHASES as usize - 1]);
    let grown = after.iter().filter_map(|(name, after)| {
        let before = before.get(name).copied().unwrap_or(0);
        let first = phases[0].get(name).copied().unwrap_or(0);
        (*after > before + before / 10 + 8)
            .then(|| format!("{engine}, {what}: {name} {first}, {before}, {after}"))
    });
    grown.collect()
}

/// Rows of a large transaction.
const LARGE: u64 = 220;

fn ids(round: u64, count: u64) -> std::ops::Range<u64> {
    // Keys rise, and lie among those that stay.
    let first = 1 + round * 30_000;
    first..first + count
}

fn insert_and_delete(worn: &mut Worn, round: u64, count: u64) {
    let (db, table) = (worn.db(), &worn.table);
    db.write(|tx| ids(round, count).try_for_each(|id| insert(tx, table, id))).unwrap();
    let delete = |tx: &mut Tx<'_>, id: u64| tx.delete(table, &[id.into()]);
    db.write(|tx| ids(round, count).try_for_each(|id| delete(tx, id))).unwrap();
}

fn change(tx: &mut Tx<'_>, table: &Table, round: u64) -> Result<(), Error> {
    let key = [Value::from(1_000_000 * (round % ROWS))];
    let text = format!("round {round}");
    tx.update(table, &key, &[("group", (round % 5).into()), ("text", text.as_str().into())])
}

fn undo(worn: &mut Worn, round: u64) {
    let mut tx = worn.db().begin().unwrap();
    ids(round, 5).try_for_each(|id| insert(&mut tx, &worn.table, id)).unwrap();
    change(&mut tx, &worn.table, round).unwrap();
    tx.delete(&worn.table, &[(1_000_000 * ((round + 1) % ROWS)).into()]).unwrap();
    tx.abort().unwrap();
}

fn grow(worn: &mut Worn, round: u64) {
    let key = [Value::from(1_000_000 * (round % ROWS))];
    for bytes in [1, 100, 1000, 1900, 10] {
        let text = "x".repeat(bytes);
        worn.db().update(&worn.table, &key, &[("text", text.as_str().into())]).unwrap();
    }
}

fn refuse(worn: &mut Worn, round: u64) {
    let (db, table) = (worn.db(), &worn.table);
    let twice = db.write(|tx| {
        ids(round, 5).try_for_each(|id| insert(tx, table, id))?;
        insert(tx, table, 0)
    });
    assert!(matches!(twice, Err(Error::DuplicateKey { .. })), "{twice:?}");
}

fn conflict(worn: &mut Worn, round: u64) {
    let how = WriteOptions::new().wait(Duration::ZERO).retry_for(Duration::ZERO);
    let (db, table) = (worn.db(), &worn.table);
    let mut first = db.begin().unwrap();
    change(&mut first, table, round).unwrap();
    let second = db.write_with(how, |tx| {
        ids(round, 3).try_for_each(|id| insert(tx, table, id))?;
        change(tx, table, round)
    });
    assert!(matches!(second, Err(Error::Conflict { .. })), "{second:?}");
    // One that reads the gaps which the first one has changed.
    let _ = db.write_with(how, |tx| tx.rows(table, Scan::all()).try_for_each(|row| row.map(drop)));
    let _ = first.commit().unwrap();
}

fn go_back(worn: &mut Worn, round: u64) {
    let table = &worn.table;
    worn.db()
        .write(|tx| {
            let savepoint = tx.savepoint()?;
            for turn in 0..3 {
                ids(round, 3 + turn).try_for_each(|id| insert(tx, table, id))?;
                change(tx, table, round)?;
                tx.rollback_to(savepoint)?;
            }
            change(tx, table, round)
        })
        .unwrap();
}

fn look_back(worn: &mut Worn, round: u64) {
    let snapshot = worn.db().snapshot().unwrap();
    insert_and_delete(worn, round, 3);
    worn.db().write(|tx| change(tx, &worn.table, round)).unwrap();
    assert_eq!(snapshot.rows(&worn.table, Scan::all()).count() as u64, ROWS);
}

fn go_on(worn: &mut Worn, round: u64) {
    let mut tx = worn.db().begin_named(b"one that goes on").unwrap();
    ids(round, 3).try_for_each(|id| insert(&mut tx, &worn.table, id)).unwrap();
    let id = tx.detach().unwrap();
    let mut tx = worn.db().resume(id).unwrap();
    ids(round, 3).try_for_each(|id| tx.delete(&worn.table, &[id.into()])).unwrap();
    let _ = tx.commit().unwrap();
}

/// Rows are read to be changed, and then are not, or are.
fn claim(worn: &mut Worn, round: u64) {
    let (db, table) = (worn.db(), &worn.table);
    db.write(|tx| {
        let free = Scan::all().by("by_group").for_update().skip_locked().limit(3);
        let rows: Vec<_> = tx.rows(table, free).collect::<Result<_, _>>()?;
        let text = format!("claimed {round}");
        tx.update(table, &[rows[0].get(0)], &[("text", text.as_str().into())])
    })
    .unwrap();
}

type Act = fn(&mut Worn, u64);

/// The operations that an engine has, by name.
fn operations(engine: EngineKind) -> Vec<(&'static str, Act)> {
    let mut all: Vec<(&'static str, Act)> = vec![
        ("opening", |worn, _| worn.reopen()),
        ("commit", |worn, round| worn.db().write(|tx| change(tx, &worn.table, round)).unwrap()),
        ("abort", undo),
        ("refusal", refuse),
        ("small inserts and deletes", |worn, round| insert_and_delete(worn, round, 1)),
        ("large inserts and deletes", |worn, round| insert_and_delete(worn, round, LARGE)),
        ("updates that grow", grow),
        ("claims", claim),
    ];
    let traits = engine.traits();
    if traits.concurrency == Concurrency::Shared {
        all.push(("conflict", conflict));
    }
    let worn = Worn::new(engine);
    if worn.db().write(|tx| tx.savepoint().map(drop)).is_ok() {
        all.push(("savepoint", go_back));
    }
    if traits.snapshots {
        all.push(("snapshot", look_back));
    }
    if traits.unfinished == Unfinished::Continued {
        all.push(("transactions that go on", go_on));
    }
    all
}

fn levels_off(engine: EngineKind) {
    println!("engine {engine}");
    let grown: Vec<_> =
        operations(engine).into_iter().flat_map(|(name, act)| repeat(engine, name, act)).collect();
    assert!(grown.is_empty(), "{grown:#?}");
}

#[test]
fn what_is_used_up_levels_off() {
    few().for_each(levels_off);
}

#[test]
#[ignore = "as long as the one above; the engines that it stands for"]
fn whole_what_is_used_up_levels_off() {
    crate::support::the_others().for_each(levels_off);
}
