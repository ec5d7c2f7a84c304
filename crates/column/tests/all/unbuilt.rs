//! The work of searches while indexes are not built, in rows that are looked at and in keys that are made of them:
//! deterministic.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use column::rebuild::MOST_BUILT_TOGETHER;
use column::{
    ColumnError, Field, IndexKey, KeyRange, Keys, Kind, Part, Store, Structure, Value, Waiting,
};
use heap::{Heap, HeapOptions};
use sim::Recording;

use crate::keyed::Keyed;
use crate::work::{from_image, small};

const LIMIT: u64 = 8 << 20;

/// Keys, and how many were made of rows.
#[derive(Debug)]
struct Counted {
    keyed: Keyed,
    made: AtomicU64,
}

impl Keys for Counted {
    fn count(&self, table: usize) -> usize {
        self.keyed.count(table)
    }

    fn columns(&self, table: usize, index: usize) -> &[usize] {
        self.keyed.columns(table, index)
    }

    fn key(&self, table: usize, index: usize, row: &[Field]) -> Result<IndexKey, ColumnError> {
        self.made.fetch_add(1, Ordering::Relaxed);
        self.keyed.key(table, index, row)
    }

    fn primary<'k>(&self, table: usize, index: usize, key: &'k [u8]) -> Cow<'k, [u8]> {
        self.keyed.primary(table, index, key)
    }

    fn is_exact(&self, table: usize) -> bool {
        self.keyed.is_exact(table)
    }
}

/// A store that was opened, with no index built. Each of its rows has had the value 7, and has another
/// one.
fn opened(rows: u64, unique: bool) -> (Store<Recording>, Arc<Counted>) {
    let keys = Arc::new(Counted { keyed: Keyed { unique }, made: AtomicU64::new(0) });
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let options = HeapOptions { chunk_bytes: 16 << 10, lanes: 1 };
    let heap = Heap::format(memory.clone(), options).unwrap();
    let tables: &[&[Kind]] = &[&[Kind::Word, Kind::Word]];
    let store = Store::create(heap.lane(0), small(), tables, &keys).unwrap();
    let mut session = store.session();
    for key in 1..=rows {
        session.begin().unwrap();
        session.insert(0, &[Value::Word(key), Value::Word(7)]).unwrap();
        session.commit().unwrap();
        session.begin().unwrap();
        session.update(0, Value::Word(key), &[(1, Value::Word(1000 + key))]).unwrap();
        session.commit().unwrap();
    }
    let (image, at) = (memory.contents(), store.at());
    let heap = Heap::open(from_image(&image, LIMIT).unwrap()).unwrap();
    let (store, _) = Store::open(heap.lane(0), at, &keys, &Waiting::default()).unwrap();
    keys.made.store(0, Ordering::Relaxed);
    (store, keys)
}

#[test]
fn a_scan_makes_a_few_keys_for_each_row_that_is_not_built() {
    for rows in [50, 100, 200] {
        let (store, keys) = opened(rows, false);
        let mut seen = 0;
        let visit = |_| {
            seen += 1;
            ControlFlow::Continue(())
        };
        store.session().scan(0, 1, KeyRange::ALL, None, visit).unwrap();
        assert_eq!(seen, rows);
        // Of both versions one for each index, and that of a row whose key has changed.
        assert!(keys.made.load(Ordering::Relaxed) <= 5 * rows, "{rows} rows: {keys:?}");
    }
}

#[test]
fn a_unique_check_makes_few_keys_for_each_unbuilt_row() {
    for rows in [50, 100, 200] {
        let (store, keys) = opened(rows, true);
        let mut session = store.session();
        session.begin().unwrap();
        session.insert(0, &[Value::Word(rows + 1), Value::Word(7)]).unwrap();
        // Of both versions one for each index, and those of the row itself.
        assert!(keys.made.load(Ordering::Relaxed) <= 4 * rows + 2, "{rows} rows: {keys:?}");
    }
}

/// Rows or values that are not in a structure of the table.
fn waiting(store: &Store<Recording>, part: Part) -> u64 {
    let all = store.structures();
    let is_it = |structure| structure == Structure { table: 0, part };
    all.iter().find(|state| is_it(state.structure)).unwrap().waiting
}

fn value(store: &Store<Recording>, key: u64) -> Field {
    store.session().get(0, Value::Word(key)).unwrap().unwrap().remove(1)
}

const KEYS: Part = Part::Keys(0);
const NUMBERS: Part = Part::Dictionary(0);

#[test]
fn a_lookup_checks_each_unbuilt_row_once_without_its_key() {
    for rows in [50, 1000, 5000] {
        let (store, keys) = opened(rows, false);
        let before = waiting(&store, KEYS) + waiting(&store, NUMBERS);
        for key in [1, rows / 2, rows] {
            let looked = store.built().looked;
            assert_eq!(value(&store, key), Field::Word(1000 + key));
            let looked = store.built().looked - looked;
            assert!((1..=before).contains(&looked), "{looked} of {before}, key {key}");
        }
        assert!(store.session().get(0, Value::Word(rows + 1)).unwrap().is_none());
        assert_eq!(keys.made.load(Ordering::Relaxed), 0, "{rows} rows");
        // At most a block after the row.
        let looked = store.built().looked;
        value(&store, rows);
        let looked = store.built().looked - looked;
        assert!(looked <= waiting(&store, NUMBERS) + 1024, "{looked}");
    }
}

/// Each search is for the row that is found last. The searches together look at a fixed number of rows for each that
/// is to be built, and answers are right meanwhile.
#[test]
fn lookups_add_to_the_backlog_of_their_own_index() {
    for rows in [200, 1000, 5000] {
        let (store, _) = opened(rows, false);
        let (others, all) = (Part::Keys(1), waiting(&store, KEYS));
        let (mut reads, mut values) = (0, waiting(&store, Part::Dictionary(1)));
        values += waiting(&store, others);
        // Its last version is the second row.
        while waiting(&store, KEYS) > 1 {
            let before = waiting(&store, KEYS);
            assert_eq!(value(&store, 1), Field::Word(1001));
            let key = 1 + reads * 7 % rows;
            assert_eq!(value(&store, key), Field::Word(1000 + key), "{reads} reads");
            store.build_pending().unwrap();
            assert!(waiting(&store, KEYS) < before, "{reads} reads");
            reads += 1;
        }
        // Four bytes of a row, eight of a value, and a row or a value for 1,024 bytes.
        let looked = store.built().looked;
        assert!(looked <= (256 + 128) * (all + 1), "{looked} of {all}");
        assert!(rows < 1000 || looked > 20 * all, "{looked} of {all}");
        // The more rows, the more become pending with a search: 256 (1 + ln(all / 256)) searches of all that is left.
        assert!(reads < 1200, "{reads} reads of {rows} rows");
        assert_eq!(waiting(&store, Part::Dictionary(1)) + waiting(&store, others), values);
        store.check().unwrap();
    }
}

#[test]
fn a_scan_adds_all_of_the_indexes_that_it_lacks() {
    let (store, keys) = opened(1000, false);
    let visit = |_| ControlFlow::Continue(());
    store.session().scan(0, 1, KeyRange::ALL, None, visit).unwrap();
    let indexed = store.build_pending().unwrap();
    assert!(indexed >= 4000, "{indexed}");
    assert_eq!((waiting(&store, KEYS), waiting(&store, Part::Keys(1))), (0, 0));
    assert!(waiting(&store, NUMBERS) > 0);
    // Nothing is pending twice, and nothing is looked through any more.
    assert_eq!(store.build_pending().unwrap(), 0);
    let (looked, made) = (store.built().looked, keys.made.load(Ordering::Relaxed));
    assert_eq!(value(&store, 1), Field::Word(1001));
    assert_eq!(store.built().looked, looked);
    assert_eq!(keys.made.load(Ordering::Relaxed), made);
    store.check().unwrap();
}

#[test]
fn the_backlog_of_a_large_scan_is_built_in_parts() {
    let (store, _) = opened(5000, false);
    let visit = |_| ControlFlow::Continue(());
    store.session().scan(0, 1, KeyRange::ALL, None, visit).unwrap();
    let waiting = || waiting(&store, KEYS) + waiting(&store, Part::Keys(1));
    let (before, mut calls) = (waiting(), 0);
    assert!(before > MOST_BUILT_TOGETHER, "{before}");
    while waiting() > 0 {
        let (left, indexed) = (waiting(), store.build_pending().unwrap());
        assert!((1..=MOST_BUILT_TOGETHER).contains(&indexed), "{indexed}");
        assert!((1..=indexed).contains(&(left - waiting())), "{indexed} of {left}");
        // Answers are right meanwhile; a search by key adds a little.
        assert_eq!(value(&store, 1 + calls), Field::Word(1001 + calls));
        calls += 1;
    }
    assert_eq!(calls, before.div_ceil(MOST_BUILT_TOGETHER));
    store.check().unwrap();
}

/// An update seeks the ids of its values, too.
#[test]
fn a_statement_adds_the_dictionary_that_it_lacks() {
    let (store, _) = opened(1000, false);
    let before = waiting(&store, Part::Dictionary(1));
    let mut session = store.session();
    session.begin().unwrap();
    session.update(0, Value::Word(5), &[(1, Value::Word(77))]).unwrap();
    session.commit().unwrap();
    drop(session);
    store.build_pending().unwrap();
    let after = waiting(&store, Part::Dictionary(1));
    assert_eq!(before - after, (before * 8).div_ceil(1024));
    assert_eq!(value(&store, 5), Field::Word(77));
}
