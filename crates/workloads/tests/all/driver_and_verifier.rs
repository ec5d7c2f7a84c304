//! The driver drives and the verifier notices, checked on a store whose state can be tampered with.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use workloads::ycsb::{self, COLUMNS, Column, Mix, Spec, Verification, Workload};
use workloads::{
    Commit, Observer, Progress, RowBuffer, RunError, RunOptions, Session, Store, StoreError,
};

type Tuples = HashMap<u64, [Column; COLUMNS]>;

/// A store that counts its syncs.
struct Plain {
    partitions: Vec<Mutex<Tuples>>,
    syncs: AtomicU64,
}

struct PlainSession<'a> {
    tuples: std::sync::MutexGuard<'a, Tuples>,
    syncs: &'a AtomicU64,
}

impl Plain {
    fn loaded(workload: &Workload) -> Self {
        let partitions = (0..workload.spec().partitions).map(|_| Mutex::default()).collect();
        let store = Self { partitions, syncs: AtomicU64::new(0) };
        ycsb::load(&store, workload, 2, &()).expect("loads");
        store
    }

    fn apply(&self, workload: &Workload, partition: usize, range: std::ops::Range<usize>) {
        let mut session = self.session(partition).expect("free");
        for index in range {
            let operation = workload.operations(partition)[index];
            if operation.is_update() {
                let first = operation.first_column();
                let values: Vec<Column> = (first..first + workload.spec().update_columns)
                    .map(|column| {
                        workload.values().value(operation.key(), column, index as u64 + 1)
                    })
                    .collect();
                session.update(operation.key(), first, &values).expect("exists");
            }
        }
    }
}

impl Store for Plain {
    type Session<'a> = PlainSession<'a>;

    fn name(&self) -> &str {
        "plain"
    }

    fn partitions(&self) -> usize {
        self.partitions.len()
    }

    fn session(&self, partition: usize) -> Result<PlainSession<'_>, StoreError> {
        let tuples = self.partitions[partition].lock().expect("not poisoned");
        Ok(PlainSession { tuples, syncs: &self.syncs })
    }

    fn footprint_bytes(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
}

impl Session for PlainSession<'_> {
    fn load(&mut self, key: u64, columns: &[Column; COLUMNS]) -> Result<(), StoreError> {
        self.tuples.insert(key, *columns);
        Ok(())
    }

    fn finish_load(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn read(&mut self, key: u64, row: &mut RowBuffer) -> Result<bool, StoreError> {
        let Some(columns) = self.tuples.get(&key) else { return Ok(false) };
        *row.columns_mut() = *columns;
        Ok(true)
    }

    fn update(&mut self, key: u64, first: usize, values: &[Column]) -> Result<(), StoreError> {
        let columns = self.tuples.get_mut(&key).ok_or(StoreError::Missing { key })?;
        columns[first..first + values.len()].copy_from_slice(values);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn workload(update_columns: usize) -> Workload {
    let spec = Spec {
        tuples: 500,
        transactions: 3001,
        mix: Mix::WriteHeavy,
        update_columns,
        partitions: 3,
        ..Spec::default()
    };
    Workload::generate(&spec).expect("valid")
}

fn all_transactions(workload: &Workload) -> Vec<u64> {
    (0..workload.spec().partitions).map(|p| workload.spec().transactions_of(p)).collect()
}

/// The index of the first update of a partition from `from` on.
fn update_from(workload: &Workload, partition: usize, from: usize) -> usize {
    let operations = &workload.operations(partition)[from..];
    from + operations.iter().position(|o| o.is_update()).expect("mostly updates")
}

#[test]
fn a_run_applies_every_transaction_once_whatever_the_workers() {
    for workers in [1, 2, 3, 64] {
        let workload = workload(2);
        let store = Plain::loaded(&workload);
        let progress = Progress::new(3);
        let options = RunOptions { workers, ..RunOptions::default() };
        let measured = ycsb::run(&store, &workload, &options, &progress).expect("runs");
        assert_eq!((measured.transactions, measured.aborted), (3001, 0));
        assert_eq!(progress.total(), 3001);
        // Every 16th of each partition's 1001, 1000 and 1000.
        assert_eq!(measured.latency_ns.len(), 3 * 63);
        let found =
            ycsb::verify(&store, &workload, &all_transactions(&workload), 0).expect("reads");
        assert_eq!(found, Verification { tuples: 500, ..Verification::default() });
    }
}

#[test]
fn grouped_commits_sync_once_a_group_and_time_every_sample() {
    let workload = workload(1);
    let store = Plain::loaded(&workload);
    let options = RunOptions { commit: Commit::Grouped(50), ..RunOptions::default() };
    let measured = ycsb::run(&store, &workload, &options, &()).expect("runs");
    let groups: u64 = (0..3)
        .map(|p| workload.operations(p).iter().filter(|o| o.is_update()).count() as u64 / 50 + 1)
        .sum();
    assert_eq!(store.syncs.load(Ordering::Relaxed), groups);
    assert_eq!(measured.latency_ns.len(), 3 * 63);
}

#[test]
fn an_observer_of_every_transaction_hears_of_each_in_order() {
    struct Each(Mutex<Vec<u64>>);
    impl Observer for Each {
        const EVERY: u64 = 1;
        fn completed(&self, partition: usize, transactions: u64) {
            if partition == 0 {
                self.0.lock().expect("not poisoned").push(transactions);
            }
        }
    }
    let workload = workload(1);
    let store = Plain::loaded(&workload);
    let heard = Each(Mutex::default());
    ycsb::run(&store, &workload, &RunOptions::default(), &heard).expect("runs");
    let mut heard = heard.0.into_inner().expect("not poisoned");
    heard.dedup();
    assert_eq!(heard, (1..=1001).collect::<Vec<u64>>());
}

#[test]
fn a_missing_tuple_stops_the_run_with_its_place() {
    let workload = workload(1);
    let store = Plain::loaded(&workload);
    let key = workload.operations(1)[5].key();
    let first = workload.operations(1).iter().position(|o| o.key() == key).expect("it is there");
    store.partitions[1].lock().expect("not poisoned").remove(&key);
    let error = ycsb::run(&store, &workload, &RunOptions::default(), &()).expect_err("missing");
    let RunError::Store { partition: 1, transaction, source, .. } = error else {
        panic!("another error: {error}")
    };
    assert_eq!(transaction, first as u64);
    assert!(matches!(source, StoreError::Missing { key: missing } if missing == key));
}

#[test]
fn stores_and_workloads_cut_differently_are_refused() {
    let store = Plain { partitions: vec![Mutex::default()], syncs: AtomicU64::new(0) };
    let error = ycsb::load(&store, &workload(1), 1, &()).expect_err("one against three");
    assert!(matches!(error, RunError::Partitions { store: 1, workload: 3 }));
}

#[test]
fn a_lost_transaction_is_counted() {
    let workload = workload(1);
    let store = Plain::loaded(&workload);
    let last = update_from(&workload, 0, 200);
    store.apply(&workload, 0, 0..last);
    let found = ycsb::verify(&store, &workload, &[last as u64 + 1, 0, 0], 1).expect("reads");
    assert_eq!(found, Verification { tuples: 500, lost: 1, ..Verification::default() });
    assert!(!found.is_clean());
}

#[test]
fn the_transaction_under_way_may_be_there_as_a_whole() {
    let workload = workload(3);
    let store = Plain::loaded(&workload);
    let last = update_from(&workload, 2, 100);
    store.apply(&workload, 2, 0..last + 1);
    let found = ycsb::verify(&store, &workload, &[0, 0, last as u64], 1).expect("reads");
    assert_eq!(found, Verification { tuples: 500, surplus: 1, ..Verification::default() });
    assert!(found.is_clean());
}

#[test]
fn the_transaction_under_way_may_not_be_there_in_part() {
    let workload = workload(3);
    let store = Plain::loaded(&workload);
    let last = update_from(&workload, 1, 100);
    store.apply(&workload, 1, 0..last);
    let (key, column) =
        (workload.operations(1)[last].key(), workload.operations(1)[last].first_column());
    let value = workload.values().value(key, column, last as u64 + 1);
    store.session(1).expect("free").update(key, column, &[value]).expect("exists");
    let found = ycsb::verify(&store, &workload, &[0, last as u64, 0], 1).expect("reads");
    assert_eq!(found, Verification { tuples: 500, torn: 1, ..Verification::default() });
    assert!(!found.is_clean());
}

#[test]
fn nothing_beyond_the_window_is_accepted() {
    let workload = workload(1);
    let store = Plain::loaded(&workload);
    let last = update_from(&workload, 0, 300);
    store.apply(&workload, 0, 0..last + 1);
    let found = ycsb::verify(&store, &workload, &[last as u64, 0, 0], 0).expect("reads");
    assert_eq!(found.damaged_columns, 1);
    assert!(!found.is_clean());
}

#[test]
fn damage_and_missing_tuples_are_counted() {
    let workload = workload(1);
    let store = Plain::loaded(&workload);
    store.partitions[0].lock().expect("not poisoned").get_mut(&3).expect("loaded")[4][50] ^= 1;
    store.partitions[1].lock().expect("not poisoned").remove(&4);
    let found = ycsb::verify(&store, &workload, &[0, 0, 0], 1).expect("reads");
    let expected = Verification {
        tuples: 500,
        missing_tuples: 1,
        damaged_columns: 1,
        ..Verification::default()
    };
    assert_eq!(found, expected);
}
