//! The cost of a transaction of NVM-CoW: flushed lines and fences.
//!
//! As in `budgets.rs`: YCSB's schema, random keys, slots that were freed one here, one there. What
//! happens once in a while (an extent, a segment of the list, a chunk) is recognised by its
//! mini-transaction or hint and bounded apart. The budgets were fixed before the first measurement.
//! N-store, the authors' own testbed, makes 60 flushes and 11.5 fences for an operation.

use crate::support::small_logs;
use perdura::{ColumnType, Commit, Database, EngineKind, Schema, Table, TableSchema, Value};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::{Event, Recorded, Recording, RecordingFiles, Trace};

const COLUMNS: usize = 10;
/// From `docs/format/heap.md`: the area of lane 0, its hints, the header word of its mini-log.
const LANE_AT: u64 = 12 << 10;
const MINI_LOG_AT: u64 = LANE_AT + 3 * 128 * 8;

fn schema() -> Schema {
    let mut table = TableSchema::new("usertable").column("key", ColumnType::U64).key(&["key"]);
    for column in 0..COLUMNS {
        table = table.column(format!("field{column}"), ColumnType::Bytes { max: 100 });
    }
    Schema::new().table(table)
}

#[derive(Clone, Copy, Default, Debug)]
struct Cost {
    lines: u64,
    fences: u64,
    minis: u64,
    chunks: u64,
}

struct Driver {
    db: Database<Recorded>,
    memory: Recording,
    table: Table,
    random: SmallRng,
    keys: Vec<u64>,
    next: u64,
}

impl Driver {
    /// A table of so many tuples, loaded in random order and worn in.
    fn new(tuples: u64, node_bytes: u32, group: u32) -> Self {
        let memory = Recording::pool(1 << 20, 1 << 30).unwrap();
        let media = faults::recorded(memory.clone(), RecordingFiles::new());
        let options = small_logs()
            .engine(EngineKind::NvmCow)
            .commit(Commit::grouped(group))
            .tune("tree_node_bytes", node_bytes.into());
        let db = Database::create_on(media, &schema(), &options).unwrap();
        let table = db.table("usertable").unwrap();
        let random = SmallRng::seed_from_u64(1);
        let mut driver = Self { db, memory, table, random, keys: Vec::new(), next: 0 };
        for _ in 0..tuples {
            driver.insert();
        }
        for round in 0..tuples / 8 {
            driver.update([100, 100, 60, 100, 24][round as usize % 5]);
            if round % 16 == 0 {
                driver.delete();
                driver.insert();
            }
        }
        for _ in 0..2000 {
            driver.update(100);
        }
        driver.db.sync().unwrap();
        driver
    }

    fn value(&mut self, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|_| self.random.random()).collect()
    }

    fn insert(&mut self) {
        self.next += 1;
        let key = self.next.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.keys.push(key);
        let value = self.value(100);
        let mut values = vec![Value::U64(key)];
        values.resize(COLUMNS + 1, Value::Bytes(&value));
        self.db.write(|tx| tx.insert(&self.table, &values)).unwrap();
    }

    fn update(&mut self, bytes: usize) {
        let key = self.keys[self.random.random_range(0..self.keys.len())];
        let column = self.random.random_range(1..=COLUMNS as u16);
        let value = self.value(bytes);
        let changes = [(column, Value::Bytes(&value))];
        self.db.write(|tx| tx.update(&self.table, &[Value::U64(key)], &changes)).unwrap();
    }

    fn delete(&mut self) {
        let at = self.random.random_range(0..self.keys.len());
        let key = self.keys.swap_remove(at);
        self.db.write(|tx| tx.delete(&self.table, &[Value::U64(key)])).unwrap();
    }

    /// Runs `act` so many times, with a note after each `every`th; returns what each stretch cost.
    fn measure(&mut self, times: u64, every: u64, mut act: impl FnMut(&mut Self)) -> Vec<Cost> {
        self.memory.start();
        for time in 1..=times {
            act(self);
            if time % every == 0 {
                self.memory.note(time);
            }
        }
        costs(&self.memory.stop())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.memory.stop();
    }
}

fn costs(trace: &Trace) -> Vec<Cost> {
    let mut costs = vec![Cost::default()];
    for recorded in &trace.events {
        let cost = costs.last_mut().unwrap();
        match recorded.event {
            Event::Flush { first, end } => cost.lines += end - first,
            Event::Fence => cost.fences += 1,
            Event::Store { at: MINI_LOG_AT, value } if value != 0 => cost.minis += 1,
            Event::Store { at: LANE_AT..MINI_LOG_AT, .. } => cost.chunks += 1,
            Event::Note(_) => costs.push(Cost::default()),
            _ => {}
        }
    }
    costs.pop();
    costs
}

/// The mean number of lines of a transaction, and the most.
fn summary(what: &str, costs: &[Cost], every: u64) -> (f64, f64) {
    let transactions = (costs.len() as u64 * every) as f64;
    let lines = costs.iter().map(|cost| cost.lines).sum::<u64>() as f64 / transactions;
    let fences = costs.iter().map(|cost| cost.fences).sum::<u64>() as f64 / transactions;
    let most = costs.iter().map(|cost| cost.lines).max().unwrap_or(0) as f64 / every as f64;
    println!("{what}: {lines:.2} lines (at most {most:.2}), {fences:.3} fences a transaction");
    (lines, most)
}

/// The budget: 2 fences, at most 20 lines a transaction in groups of 64; durable one by one, at
/// most 30 lines on average, with 200,000 tuples. Of these 18 or so are the copied path.
#[test]
fn an_update_of_one_column_is_two_fences_a_batch() {
    updates_are_two_fences_a_batch(20_000);
}

pub(crate) fn updates_are_two_fences_a_batch(tuples: u64) {
    let mut driver = Driver::new(tuples, 256, 64);
    let costs = driver.measure(64 * 100, 64, |driver| driver.update(100));
    let (mean, _) = summary("update, groups of 64", &costs, 64);
    assert!(
        costs.iter().all(|cost| cost.fences <= 2 + 3 * (cost.minis + cost.chunks)),
        "{costs:?}"
    );
    let plain = costs.iter().filter(|cost| cost.minis + cost.chunks == 0).count();
    assert!(plain > 90 && mean <= 20.0, "{plain} plain, mean {mean}");
    let memory = driver.memory.clone();
    let (image, keys) = (memory.contents(), driver.keys.clone());
    drop(driver);
    // The same database, durable at each commit.
    let memory = Recording::from_image(&image, 1 << 30).unwrap();
    let media = faults::recorded(memory.clone(), RecordingFiles::new());
    let db = Database::open_on(media, &small_logs()).unwrap();
    let table = db.table("usertable").unwrap();
    let random = SmallRng::seed_from_u64(2);
    let mut driver = Driver { db, memory, table, random, keys, next: tuples * 2 };
    // Until what the opening has to collect is collected, pages are fresh.
    (0..3000).for_each(|_| driver.update(100));
    let costs = driver.measure(2000, 1, |driver| driver.update(100));
    let (mean, most) = summary("update, durable", &costs, 1);
    assert!(
        costs.iter().all(|cost| cost.fences <= 2 + 3 * (cost.minis + cost.chunks)),
        "{costs:?}"
    );
    assert!(mean <= 30.0 && most <= 40.0, "mean {mean}, at most {most} lines");
}

/// The default size of a node is chosen by this table.
#[test]
fn lines_of_an_update_by_size_of_node() {
    let mut means = Vec::new();
    for node_bytes in [128, 256, 512, 1024, 4096] {
        let mut driver = Driver::new(20_000, node_bytes, 1);
        let costs = driver.measure(500, 1, |driver| driver.update(100));
        let (mean, _) = summary(&format!("nodes of {node_bytes} bytes"), &costs, 1);
        means.push(mean);
    }
    assert!(means[1] < means[2] && means[2] < means[3] && means[3] < means[4], "{means:?}");
}

#[test]
fn an_insert_and_a_delete_are_two_fences() {
    let mut driver = Driver::new(20_000, 256, 1);
    let inserts = driver.measure(500, 1, Driver::insert);
    let (_, most) = summary("insert", &inserts, 1);
    for cost in &inserts {
        assert!(cost.fences <= 2 + 3 * (cost.minis + cost.chunks), "{cost:?}");
    }
    assert!(most <= 90.0, "eleven slots with their bits, and a path: {most}");
    let deletes = driver.measure(500, 1, Driver::delete);
    let (_, most) = summary("delete", &deletes, 1);
    assert!(deletes.iter().all(|cost| cost.fences == 2), "{deletes:?}");
    assert!(most <= 60.0, "eleven bits, and a path: {most}");
}

#[test]
fn reading_and_aborting_cost_nothing() {
    let mut driver = Driver::new(2_000, 256, 1);
    let costs = driver.measure(200, 1, |driver| {
        let key = driver.keys[driver.random.random_range(0..driver.keys.len())];
        let mut row = perdura::Row::new();
        let (db, table) = (&driver.db, &driver.table);
        assert!(db.read(|tx| tx.get_into(table, &[Value::U64(key)], &mut row)).unwrap());
        let mut tx = db.begin().unwrap();
        tx.update(table, &[Value::U64(key)], &[(2, Value::Bytes(&[1; 100]))]).unwrap();
        tx.delete(table, &[Value::U64(key)]).unwrap();
        tx.abort().unwrap();
    });
    summary("read, and update and delete and abort", &costs, 1);
    let (lines, fences) = costs
        .iter()
        .fold((0, 0), |(lines, fences), cost| (lines + cost.lines, fences + cost.fences));
    // Each size class takes a chunk once.
    assert!(lines <= 10 && fences <= 4, "{lines} lines, {fences} fences");
}
