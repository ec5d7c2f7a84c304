//! The work of scans while indexes are not built, in keys that are made of rows: deterministic.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use column::{ColumnError, Field, IndexKey, KeyRange, Keys, Kind, Store, Value, Waiting};
use heap::{Heap, HeapOptions};
use pm::Recording;

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
fn a_unique_value_is_sought_with_a_few_keys_for_each_row_that_is_not_built() {
    for rows in [50, 100, 200] {
        let (store, keys) = opened(rows, true);
        let mut session = store.session();
        session.begin().unwrap();
        session.insert(0, &[Value::Word(rows + 1), Value::Word(7)]).unwrap();
        // Of both versions one for each index, and those of the row itself.
        assert!(keys.made.load(Ordering::Relaxed) <= 4 * rows + 2, "{rows} rows: {keys:?}");
    }
}
