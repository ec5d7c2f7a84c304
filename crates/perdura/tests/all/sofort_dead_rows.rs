//! The cost of scans of `sofort` after rows were deleted, given other keys, or left by aborted
//! transactions: it depends on the rows that are there, and not on those that were. Costs are
//! counts of index entries and versions.

use perdura::{
    ColumnType, Database, EngineKind, Media, Options, OwnStats, Scan, Schema, SofortStats, Table,
    TableSchema, Tx, Value,
};
use sim::{Recorded, Recording, RecordingFiles};

/// The most entries that a scan may pass without finding a row: less than two steps of the
/// collection free.
const DEAD: u64 = 128;
/// The sizes of transactions, in statements.
const SIZES: [u64; 5] = [1, 100, 200, 1_000, 10_000];
const LIMIT: u64 = 512 << 20;

struct Fixture {
    memory: Recording,
    db: Database<Recorded>,
    table: Table,
}

fn options(placement: u32) -> Options {
    Options::new()
        .engine(EngineKind::Sofort)
        .chunk_bytes(1 << 20)
        .set("placement", placement.into())
}

fn media(memory: &Recording) -> Media<Recorded> {
    faults::recorded(memory.clone(), RecordingFiles::new())
}

fn row(key: u64, group: u64) -> [Value<'static>; 3] {
    [Value::U64(key), Value::U64(group), Value::U64(key % 7)]
}

impl Fixture {
    fn new(placement: u32) -> Self {
        let memory = Recording::pool(64 << 20, LIMIT).unwrap();
        let table = TableSchema::new("t")
            .column("key", ColumnType::U64)
            .column("group", ColumnType::U64)
            .column("rest", ColumnType::U64)
            .key(&["key"])
            .index("by_group", &["group"]);
        let schema = Schema::new().table(table);
        let db = Database::create_on(media(&memory), &schema, &options(placement)).unwrap();
        let table = db.table("t").unwrap();
        Self { memory, db, table }
    }

    /// The database that a kill leaves.
    fn killed(self) -> Self {
        let memory = Recording::pool_from_image(&self.memory.contents(), LIMIT).unwrap();
        drop((self.db, self.memory));
        Self::opened(memory)
    }

    fn reopened(self) -> Self {
        self.db.close().unwrap();
        Self::opened(self.memory)
    }

    fn opened(memory: Recording) -> Self {
        let db = Database::open_on(media(&memory), &Options::new()).unwrap();
        let table = db.table("t").unwrap();
        Self { memory, db, table }
    }

    fn own(&self) -> SofortStats {
        match self.db.stats().unwrap().own {
            OwnStats::Sofort(own) => own,
            other => panic!("{other:?}"),
        }
    }

    /// Runs `act` for each key below `rows`, in transactions of `size` statements.
    fn change(
        &self,
        rows: u64,
        size: u64,
        mut act: impl FnMut(&mut Tx<'_, Recorded>, u64) -> Result<(), perdura::Error>,
    ) {
        for first in (0..rows).step_by(size as usize) {
            let mut tx = self.db.begin().unwrap();
            (first..first + size).try_for_each(|key| act(&mut tx, key)).unwrap();
            let _ticket = tx.commit().unwrap();
        }
    }

    /// Runs `act` while a transaction holds the snapshot of before.
    fn with_snapshot(&self, act: impl FnOnce()) {
        let reader = self.db.begin().unwrap();
        let before = reader.rows(&self.table, Scan::all()).count();
        act();
        assert_eq!(reader.rows(&self.table, Scan::all()).count(), before);
    }

    fn insert(&self, rows: u64, size: u64) {
        self.change(rows, size, |tx, key| tx.insert(&self.table, &row(key, key % 100)));
    }

    fn delete(&self, rows: u64, size: u64) {
        self.change(rows, size, |tx, key| tx.delete(&self.table, &[Value::U64(key)]));
    }

    fn regroup(&self, rows: u64, size: u64, first: u64) {
        self.change(rows, size, |tx, key| {
            let group = Value::U64(first + key % 100);
            tx.update(&self.table, &[Value::U64(key)], &[("group", group)])
        });
    }

    /// The entries and versions that a scan looks at, and the rows that it finds.
    fn cost(&self, scan: &Scan<'_>) -> (u64, u64, u64) {
        let before = self.own();
        let rows = self.db.read(|tx| Ok(tx.rows(&self.table, scan.clone()).count())).unwrap();
        let after = self.own();
        (after.scanned - before.scanned, after.versions - before.versions, rows as u64)
    }

    /// Checks that a scan passes only a few dead entries besides the `live` rows that are there.
    fn scans_are_short(&self, live: u64, what: &str) {
        let by = || Scan::all().by("by_group");
        let kinds = [
            ("all", Scan::all(), live),
            ("by index", by(), live),
            ("first", Scan::all().limit(1), live.min(1)),
            ("last", Scan::all().backward().limit(1), live.min(1)),
            ("first by index", by().limit(1), live.min(1)),
            ("last by index", by().backward().limit(1), live.min(1)),
        ];
        for (kind, scan, expected) in kinds {
            let (entries, versions, rows) = self.cost(&scan);
            assert_eq!(rows, expected, "{what}, {kind}");
            let most = expected + DEAD;
            assert!(
                entries <= most && versions <= 2 * most,
                "{what}, {kind}: {entries} entries, {versions} versions for {rows} rows"
            );
        }
    }

    /// The same after a close and after a kill, once all indexes are built; returns the database.
    fn and_after_opening(mut self, live: u64, what: &str) -> Self {
        self.scans_are_short(live, what);
        for is_killed in [false, true] {
            self = if is_killed { self.killed() } else { self.reopened() };
            while self.own().unbuilt > 0 {
                self.cost(&Scan::all());
            }
            self.scans_are_short(live, &format!("{what}, opened again, killed: {is_killed}"));
        }
        let report = self.db.check().unwrap();
        assert_eq!((report.leaked, report.dangling), (0, 0), "{what}");
        self
    }
}

fn rows(size: u64) -> u64 {
    size.max(2_000)
}

#[test]
fn deleted_rows_cost_scans_nothing() {
    for size in SIZES {
        let (all, mut fixture) = (rows(size), Fixture::new(0));
        for _ in 0..2 {
            fixture.insert(all, size);
            fixture.delete(all, size);
            fixture = fixture.and_after_opening(0, &format!("{size} deletes each"));
        }
    }
}

#[test]
fn old_index_keys_cost_scans_nothing() {
    for size in SIZES {
        let (all, fixture) = (rows(size), Fixture::new(0));
        fixture.insert(all, size);
        for round in 1..4 {
            fixture.regroup(all, size, round * 1_000);
        }
        for round in 1..4 {
            fixture.regroup(all, size, 10_000 - round * 1_000);
        }
        let _ = fixture.and_after_opening(all, &format!("{size} updates each"));
    }
}

#[test]
fn aborted_rows_cost_scans_nothing() {
    for size in SIZES {
        let (all, fixture) = (rows(size), Fixture::new(0));
        fixture.insert(50, 50);
        for first in (50..all).step_by(size as usize) {
            let mut tx = fixture.db.begin().unwrap();
            for key in first..first + size {
                tx.insert(&fixture.table, &row(key, key % 100)).unwrap();
            }
            tx.abort().unwrap();
            let mut tx = fixture.db.begin().unwrap();
            for number in 0..size {
                let (key, group) = (Value::U64(number % 50), Value::U64(1_000 + number));
                tx.update(&fixture.table, &[key], &[("group", group)]).unwrap();
            }
            tx.abort().unwrap();
        }
        let _ = fixture.and_after_opening(50, &format!("{size} aborted each"));
    }
}

/// Where indexes lie in persistent memory, they have the same entries after an opening as before.
#[test]
fn dead_entries_leave_persistent_indexes() {
    for size in [1, 200, 1_000] {
        let (all, fixture) = (rows(size), Fixture::new(100));
        fixture.insert(all, size);
        fixture.regroup(all, size, 1_000);
        let fixture = fixture.and_after_opening(all, &format!("{size} updates each, placed"));
        fixture.delete(all, size);
        let _ = fixture.and_after_opening(0, &format!("{size} deletes each, placed"));
    }
}

/// Versions that a snapshot keeps stay until it ends, and are dead afterwards: scans take them out
/// of the indexes, and writers free the rows.
#[test]
fn rows_that_a_snapshot_kept_are_dead_without_it() {
    for size in [1, 200, 2_000] {
        let (all, fixture) = (2_000, Fixture::new(0));
        fixture.insert(all, size);
        fixture.with_snapshot(|| {
            fixture.regroup(all, size, 1_000);
            fixture.delete(all, size);
        });
        fixture.cost(&Scan::all());
        fixture.cost(&Scan::all().by("by_group"));
        fixture.scans_are_short(0, &format!("{size} deletes each, by reads alone"));
        let garbage = fixture.own().garbage;
        for _ in 0..200 {
            fixture.insert(1, 1);
            fixture.delete(1, 1);
        }
        assert!(fixture.own().garbage <= DEAD, "{garbage}, {:?}", fixture.own());
        let _ = fixture.and_after_opening(0, &format!("{size} deletes each, in a snapshot"));
    }
}

/// A kill comes before the versions are collected.
#[test]
fn rows_that_died_before_a_kill_cost_scans_nothing() {
    for size in [200, 2_000] {
        let (all, fixture) = (2_000, Fixture::new(0));
        fixture.insert(all, size);
        let mut left = None;
        fixture.with_snapshot(|| {
            fixture.regroup(all, size, 1_000);
            fixture.delete(all, size);
            left = Some(Recording::pool_from_image(&fixture.memory.contents(), LIMIT).unwrap());
        });
        let fixture = Fixture::opened(left.unwrap());
        while fixture.own().unbuilt > 0 {
            fixture.cost(&Scan::all());
        }
        fixture.scans_are_short(0, &format!("{size} deletes each before the kill"));
        let _ = fixture.and_after_opening(0, &format!("{size} deletes each before a kill"));
    }
}

/// The background does what is left, also where no transaction begins.
#[test]
fn background_collects_all_that_it_can() {
    for placement in [0, 100] {
        let (all, fixture) = (2_000, Fixture::new(placement));
        fixture.insert(all, 500);
        fixture.with_snapshot(|| fixture.delete(all, 500));
        assert!(fixture.own().garbage >= all, "{:?}", fixture.own());
        assert_eq!(fixture.db.background(u64::MAX).unwrap(), 0);
        assert_eq!(fixture.own().garbage, 0, "{:?}", fixture.own());
        fixture.scans_are_short(0, &format!("placement {placement}"));
    }
}
