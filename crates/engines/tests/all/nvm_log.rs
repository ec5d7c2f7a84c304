//! NVM-Log's runs: MemTables that are frozen, merged over several levels, taken apart; what entries
//! of several runs say together; and that space comes back.

use std::collections::{BTreeMap, HashSet};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use engines::below::{
    Catalog, ColumnType, Direction, Dram, Heap, HeapOptions, Memory, Row, Schema, TableSchema,
    Value,
};
use engines::{
    Engine, Method, NvmLog, NvmLogOptions, OwnStats, Read, Resources, Scan, Setup, Write,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::{Recorded, Recording};

struct Subject {
    memory: Recording,
    heap: Heap<Recording>,
    engine: NvmLog<Recorded>,
}

fn catalog(text_key: bool) -> Arc<Catalog> {
    let kind = if text_key { ColumnType::Text { max: 12 } } else { ColumnType::U64 };
    let table = TableSchema::new("t")
        .column("id", kind)
        .column("a", ColumnType::Bytes { max: 200 })
        .column("b", ColumnType::Text { max: 40 })
        .column("c", ColumnType::I64)
        .column("d", ColumnType::Bytes { max: 6 })
        .key(&["id"])
        .index("by_c", &["c"]);
    Arc::new(Catalog::new(&Schema::new().table(table)).unwrap())
}

/// Small nodes, so that few tuples take several.
fn setup() -> Setup {
    Setup { node_bytes: 256, ..Setup::default() }
}

fn options() -> NvmLogOptions {
    NvmLogOptions { memtable_bytes: 4 << 10, growth: 2, ..NvmLogOptions::default() }
}

fn resources(heap: &Heap<Recording>) -> Resources<Recorded> {
    let volatile = Dram::new(1 << 20).unwrap();
    Resources { partition: 0, volatile, durable: heap.clone(), files: None }
}

impl Subject {
    fn new(catalog: &Arc<Catalog>) -> Self {
        Self::with(catalog, &options())
    }

    fn with(catalog: &Arc<Catalog>, options: &NvmLogOptions) -> Self {
        let memory = Recording::pool(64 << 10, 32 << 20).unwrap();
        let heap =
            Heap::format(memory.clone(), HeapOptions { chunk_bytes: 16 << 10, lanes: 1 }).unwrap();
        let engine = NvmLog::create(resources(&heap), catalog, &setup(), options).unwrap();
        Self { memory, heap, engine }
    }

    /// Returns it opened as after a kill: from what the memory holds now.
    fn reopened(&self, catalog: &Arc<Catalog>) -> Self {
        let memory = Recording::from_image(&self.memory.contents(), 32 << 20).unwrap();
        let heap = Heap::open(memory.clone()).unwrap();
        let (engine, _) = NvmLog::open(resources(&heap), catalog, &setup(), &options()).unwrap();
        Self { memory, heap, engine }
    }

    /// Checks the partition and the allocator; returns the number of tuples.
    fn check(&self) -> u64 {
        let mut reachable = HashSet::new();
        let tuples = self.engine.check(&mut |at| assert!(reachable.insert(at), "twice: {at}"));
        let mut persisted = HashSet::new();
        self.heap.for_each_persisted(|at, _| assert!(persisted.insert(at))).unwrap();
        assert_eq!(persisted.difference(&reachable).count(), 0, "leaked");
        assert_eq!(reachable.difference(&persisted).count(), 0, "dangling");
        tuples.unwrap()
    }

    fn insert(&mut self, id: Value<'_>, number: i64) {
        let a = vec![number as u8; 100];
        let b = format!("text number {number}");
        let (a, b) = (Value::Bytes(&a), Value::Text(&b));
        self.engine.insert(0, &[id, a, b, Value::I64(number), Value::Bytes(b"d")]).unwrap();
        self.engine.commit().unwrap();
    }

    fn update(&mut self, id: Value<'_>, changes: &[(u16, Value<'_>)]) {
        self.engine.update(0, &[id], changes).unwrap();
        self.engine.commit().unwrap();
    }

    fn delete(&mut self, id: Value<'_>) {
        self.engine.delete(0, &[id]).unwrap();
        self.engine.commit().unwrap();
    }

    fn runs(&self) -> usize {
        self.engine.runs_by_level().iter().sum()
    }

    /// Fills the MemTable with other tuples until it is frozen. Merges that end meanwhile make runs
    /// fewer: what counts is that there is another one.
    fn freeze(&mut self, text_key: bool, from: u64) {
        self.drain();
        let before = self.runs();
        for key in from.. {
            if text_key {
                self.insert(Value::Text(&format!("k{key}")), key as i64);
            } else {
                self.insert(Value::U64(key), key as i64);
            }
            if self.runs() > before {
                return;
            }
        }
    }

    fn drain(&mut self) {
        for _ in 0..100_000 {
            if self.engine.background(1 << 10).unwrap() == 0 {
                return;
            }
        }
        panic!("background work has no end");
    }

    fn get(&self, id: Value<'_>) -> Option<(Vec<u8>, String, i64, Vec<u8>)> {
        let mut row = Row::new();
        let found = self.engine.get(0, &[id], None, &mut row).unwrap();
        found.then(|| (row.bytes(1).into(), row.text(2).into(), row.i64(3), row.bytes(4).into()))
    }

    fn ids(&self, direction: Direction, index: Option<usize>) -> Vec<u64> {
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        let scan = Scan { index, low, high, direction, columns: Some(&[0]), ..Scan::ALL };
        let mut ids = Vec::new();
        let mut visit = |row: &Row| {
            ids.push(row.u64(0));
            ControlFlow::Continue(())
        };
        self.engine.scan(0, &scan, &mut Row::new(), &mut visit).unwrap();
        ids
    }
}

#[test]
fn three_levels_and_more_hold_every_tuple() {
    let catalog = catalog(false);
    let mut subject = Subject::new(&catalog);
    let mut random = SmallRng::seed_from_u64(1);
    let mut model = BTreeMap::new();
    let mut deepest = 0;
    for round in 0..4_000i64 {
        let key = random.random_range(0..1_500u64);
        let id = Value::U64(key);
        match (model.contains_key(&key), random.random_range(0..10)) {
            (false, _) => {
                subject.insert(id, round);
                model.insert(key, round);
            }
            (true, 0..2) => {
                subject.delete(id);
                model.remove(&key);
            }
            (true, 2..5) => {
                subject.update(id, &[(3, Value::I64(round))]);
                model.insert(key, round);
            }
            (true, _) => subject.update(id, &[(1, Value::Bytes(&[round as u8; 90]))]),
        }
        deepest = deepest.max(subject.engine.runs_by_level().len());
        if round % 500 == 499 {
            assert_eq!(subject.check(), model.len() as u64, "round {round}");
            subject = subject.reopened(&catalog);
            assert_eq!(subject.check(), model.len() as u64, "round {round}, opened again");
        }
    }
    assert!(deepest >= 4, "level 0 and {} more", deepest - 1);
    for when in ["while merging", "merged"] {
        for key in 0..1_500 {
            let found = subject.get(Value::U64(key)).map(|tuple| tuple.2);
            assert_eq!(found, model.get(&key).copied(), "{when}: {key}");
        }
        assert!(subject.ids(Direction::Forward, None).iter().eq(model.keys()));
        assert!(subject.ids(Direction::Backward, None).iter().eq(model.keys().rev()));
        let mut by_c: Vec<_> = model.iter().map(|(key, c)| (*c, *key)).collect();
        by_c.sort_unstable();
        let ids: Vec<u64> = by_c.into_iter().map(|(_, key)| key).collect();
        assert_eq!(subject.ids(Direction::Forward, Some(0)), ids);
        subject.drain();
        assert_eq!(subject.check(), model.len() as u64);
    }
    let levels = subject.engine.runs_by_level();
    assert!(levels[0] < 4 && levels[1..].iter().all(|runs| *runs <= 1), "{levels:?}");
}

#[test]
fn a_tombstone_hides_the_tuple_below_it() {
    let catalog = catalog(false);
    let mut subject = Subject::new(&catalog);
    let id = Value::U64(5);
    subject.insert(id, 50);
    subject.freeze(false, 1_000);
    subject.delete(id);
    assert_eq!(subject.get(id), None, "in the MemTable");
    assert!(subject.engine.update(0, &[id], &[(3, Value::I64(1))]).is_err());
    assert!(subject.engine.delete(0, &[id]).is_err());
    subject.freeze(false, 2_000);
    assert_eq!(subject.get(id), None, "in a run above");
    assert!(!subject.ids(Direction::Forward, None).contains(&5));
    assert!(!subject.ids(Direction::Backward, Some(0)).contains(&5));
    // A new tuple with the key of the deleted one.
    subject.insert(id, 51);
    assert_eq!(subject.get(id).unwrap().2, 51);
    let (bytes, text) = (Value::Bytes(b""), Value::Text(""));
    assert!(subject.engine.insert(0, &[id, bytes, text, Value::I64(0), bytes]).is_err());
    subject.delete(id);
    for from in 3..12 {
        subject.freeze(false, from * 1_000);
        assert_eq!(subject.get(id), None);
        let tuples = subject.check();
        let again = subject.reopened(&catalog);
        assert_eq!((again.check(), again.get(id)), (tuples, None));
    }
}

/// The MemTable has an entry of the tuple, which goes; the one below must not come to light.
#[test]
fn a_tuple_that_was_updated_above_a_run_stays_deleted() {
    for runs in 1..4 {
        let catalog = catalog(false);
        let mut subject = Subject::new(&catalog);
        let id = Value::U64(5);
        subject.insert(id, 50);
        for run in 1..=runs {
            subject.freeze(false, run * 1_000);
        }
        for indexed in [false, true] {
            let change = if indexed { (3, Value::I64(51)) } else { (2, Value::Text("other")) };
            subject.update(id, &[change]);
            subject.delete(id);
            assert_eq!(subject.get(id), None, "{runs} runs");
            assert!(!subject.ids(Direction::Forward, None).contains(&5));
            assert!(!subject.ids(Direction::Forward, Some(0)).contains(&5));
            let tuples = subject.check();
            let again = subject.reopened(&catalog);
            assert_eq!((again.check(), again.get(id)), (tuples, None));
            // Once more, with a tombstone under the new tuple.
            subject.insert(id, 52);
        }
    }
}

#[test]
fn a_tuple_comes_together_from_three_runs() {
    for text_key in [false, true] {
        let catalog = catalog(text_key);
        let mut subject = Subject::new(&catalog);
        let id = if text_key { Value::Text("five") } else { Value::U64(5) };
        subject.insert(id, 50);
        subject.freeze(text_key, 1_000);
        subject.update(id, &[(1, Value::Bytes(b"new a"))]);
        subject.freeze(text_key, 2_000);
        subject.update(id, &[(2, Value::Text("new b, longer than before")), (3, Value::I64(-7))]);
        let expected =
            (b"new a".to_vec(), "new b, longer than before".to_owned(), -7, b"d".to_vec());
        assert_eq!(subject.get(id).as_ref(), Some(&expected));
        // Some columns only, the same one twice, and in one piece.
        let mut row = Row::new();
        assert!(subject.engine.get(0, &[id], Some(&[3, 1, 3]), &mut row).unwrap());
        assert_eq!((row.i64(0), row.bytes(1), row.i64(2)), (-7, &b"new a"[..], -7));
        let mut out = [0u8; 64];
        let bytes = subject.engine.get_bytes(0, &[id], &[4, 1], &mut out).unwrap().unwrap();
        assert_eq!(&out[..bytes], b"dnew a");
        // Columns that are there are changed in place, others are added; both can be undone.
        let changes = [(2, Value::Text("b")), (4, Value::Bytes(b"dd"))];
        subject.engine.update(0, &[id], &changes).unwrap();
        subject.engine.update(0, &[id], &[(2, Value::Text("bb"))]).unwrap();
        assert_eq!(subject.get(id).unwrap().1, "bb");
        subject.engine.update(0, &[id], &[(2, Value::Text("2"))]).unwrap();
        assert_eq!(subject.get(id).unwrap().1, "2");
        subject.engine.abort().unwrap();
        assert_eq!(subject.get(id).as_ref(), Some(&expected));
        for from in 3..12 {
            subject.freeze(text_key, from * 1_000);
            assert_eq!(subject.get(id).as_ref(), Some(&expected));
            subject.check();
            let again = subject.reopened(&catalog);
            assert_eq!(again.get(id).as_ref(), Some(&expected));
        }
    }
}

/// Updates, deletes and inserts at a fixed number of tuples: what merging frees is used again.
#[test]
fn churn_keeps_the_pool_as_large_as_it_is() {
    let catalog = catalog(false);
    let mut subject = Subject::new(&catalog);
    (0..400).for_each(|key| subject.insert(Value::U64(key), key as i64));
    let mut random = SmallRng::seed_from_u64(3);
    let mut largest = Vec::new();
    for _ in 0..6 {
        for _ in 0..3_000 {
            let id = Value::U64(random.random_range(0..400));
            if random.random_bool(0.1) {
                subject.delete(id);
                subject.insert(id, 1);
            } else {
                let value = [7u8; 100];
                let changes = [(1, Value::Bytes(&value)), (3, Value::I64(9))];
                subject.update(id, &[changes[random.random_range(0..2)]]);
            }
        }
        largest.push(subject.memory.len());
    }
    println!("pool after each round: {largest:?}");
    assert!(largest[5] <= largest[2] * 11 / 10, "{largest:?}");
    assert_eq!(subject.check(), 400);
    // The commits alone keep up: nothing piles up in level 0.
    assert!(subject.runs() < 14, "{:?}", subject.engine.runs_by_level());
}

/// Tuples that come and go, more than a MemTable holds: levels are as many as what stays calls for.
#[test]
fn runs_have_the_size_of_what_they_hold() {
    let catalog = catalog(false);
    let mut subject = Subject::new(&catalog);
    (0..20).for_each(|key| subject.insert(Value::U64(key), key as i64));
    let mut found = Vec::new();
    for round in 0..300 {
        let own = 100 * (round + 1)..100 * (round + 1) + 30;
        own.clone().for_each(|key| subject.insert(Value::U64(key), key as i64));
        own.for_each(|key| subject.delete(Value::U64(key)));
        subject.update(Value::U64(round % 20), &[(1, Value::Bytes(&[7; 100]))]);
        if (round + 1) % 100 == 0 {
            subject.drain();
            let OwnStats::NvmLog(stats) = subject.engine.stats().own else { unreachable!() };
            found.push((subject.engine.runs_by_level(), stats.levels.run_bytes));
        }
    }
    assert_eq!(subject.check(), 20);
    // Tuples of 220 bytes each, and as many that are deleted again; level 1 has 8 KiB at most.
    for (levels, bytes) in &found {
        assert!(levels.len() <= 3 && bytes[1..].iter().sum::<u64>() <= 16 << 10, "{found:?}");
    }
}

#[test]
fn level_0_has_as_many_runs_as_asked_for() {
    let catalog = catalog(false);
    for (wanted, most) in [(0, 1), (1, 1), (3, 3), (9, 9), (1_000, 12)] {
        let options = NvmLogOptions { level0_runs: wanted, ..options() };
        let mut subject = Subject::with(&catalog, &options);
        let mut runs = 0;
        for key in 0..1_000 {
            subject.insert(Value::U64(key), key as i64);
            subject.drain();
            runs = runs.max(subject.engine.runs_by_level().first().copied().unwrap_or(0));
        }
        assert_eq!(runs + 1, most, "{wanted}");
    }
}

/// A kill right after a MemTable was frozen: the new one is empty, and known to be.
#[test]
fn after_a_freeze_the_memtable_is_noted_as_empty() {
    let catalog = catalog(false);
    let mut subject = Subject::new(&catalog);
    for round in 1..6u64 {
        subject.freeze(false, round * 1_000);
        let mut again = subject.reopened(&catalog);
        again.drain();
        let before = again.runs();
        again.insert(Value::U64(round), 1);
        again.drain();
        assert_eq!(again.runs(), before, "an entry alone is no run");
        // And what was noted since is believed.
        let mut frozen = 0;
        for key in 0..100 {
            again.insert(Value::U64(100_000 + key), 2);
            again = again.reopened(&catalog);
            again.drain();
            frozen += usize::from(again.runs() != before);
        }
        assert!(frozen > 0);
    }
}

/// A kill does not make a MemTable forget how many entries it has: filters and the work that
/// commits pay for are measured by them.
#[test]
fn a_memtable_knows_its_entries_after_a_kill() {
    let catalog = catalog(false);
    let mut straight = Subject::new(&catalog);
    let mut keys = 0;
    while straight.runs() == 0 {
        keys += 1;
        straight.insert(Value::U64(keys), 1);
    }
    assert!(keys > 9, "{keys}");
    let mut killed = Subject::new(&catalog);
    (1..keys).for_each(|key| killed.insert(Value::U64(key), 1));
    let mut killed = killed.reopened(&catalog);
    killed.insert(Value::U64(keys), 1);
    assert_eq!((straight.runs(), killed.runs()), (1, 1));
    let waiting = |subject: &Subject| subject.engine.stats().waiting_bytes;
    assert!(waiting(&straight) > 0);
    assert_eq!(waiting(&killed), waiting(&straight));
}

/// A transaction is undone once more, since the crash came before its end was durable. What it has
/// both made and removed is not put back meanwhile: the leaf, full again, has no place for it.
#[test]
fn undoing_a_transaction_again_makes_no_node() {
    let catalog = catalog(false);
    let mut subject = Subject::with(&catalog, &NvmLogOptions::default());
    let nodes = |subject: &Subject| {
        let mut objects = 0;
        subject.heap.for_each_persisted(|_, _| objects += 1).unwrap();
        objects
    };
    let root = subject.heap.root("nvm-log/0").unwrap().unwrap() as usize;
    // Some number of tuples fills the last leaf of each index.
    for tuples in 1..=80 {
        let (last, other) = (Value::U64(tuples * 10), Value::U64(tuples * 10 + 1));
        subject.insert(last, tuples as i64 * 10);
        let committed = nodes(&subject);
        let (bytes, number) = (Value::Bytes(b""), Value::I64(tuples as i64 * 10 + 1));
        let engine = &mut subject.engine;
        engine.delete(0, &[last]).unwrap();
        engine.insert(0, &[other, bytes, Value::Text(""), number, bytes]).unwrap();
        engine.delete(0, &[other]).unwrap();
        let open = subject.memory.contents();
        subject.engine.abort().unwrap();
        assert_eq!(nodes(&subject), committed, "{tuples} tuples");
        // All is undone, but the log's state word does not say so.
        let mut image = subject.memory.contents();
        image[root..root + 8].copy_from_slice(&open[root..root + 8]);
        let memory = Recording::from_image(&image, 32 << 20).unwrap();
        let heap = Heap::open(memory.clone()).unwrap();
        let (engine, report) =
            NvmLog::open(resources(&heap), &catalog, &setup(), &NvmLogOptions::default()).unwrap();
        assert_eq!(report.undone, 3);
        let again = Subject { memory, heap, engine };
        assert_eq!(again.check(), tuples);
        assert_eq!(nodes(&again), committed, "{tuples} tuples, undone again");
    }
}
