//! Does a store hold exactly what it acknowledged?
//!
//! For each partition, with `completed` acknowledged transactions and at most `window` more that
//! may have been under way:
//!
//! 1. The expected version of every column is that of its last writer among the acknowledged.
//! 2. The highest version found on the tuples of the window shows how far the store went beyond
//!    (transactions of a partition become durable in order); up to there they are expected too.
//! 3. Every column of every tuple is recomputed at its expected version and compared.

use std::collections::HashSet;

use super::{COLUMNS, Workload};
use crate::measure::RunError;
use crate::store::{RowBuffer, Session, Store, StoreError};

/// The findings of a verification. The transactions counted are updates; a read leaves no trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// Tuples compared.
    pub tuples: u64,
    /// Acknowledged transactions of which something is gone that was not replaced later.
    pub lost: u64,
    /// Transactions of the window that are there as a whole: allowed.
    pub surplus: u64,
    /// Transactions of the window of which only a part is there.
    pub torn: u64,
    /// Loaded tuples that are not there.
    pub missing_tuples: u64,
    /// Columns that hold what no transaction up to the end of the window wrote there.
    pub damaged_columns: u64,
}

impl Verification {
    /// Returns true if the store kept its promise.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.lost == 0 && self.torn == 0 && self.missing_tuples == 0 && self.damaged_columns == 0
    }
}

/// Compares a store with what it should hold after the first `completed[p]` transactions of each
/// partition `p` and at most `window` more (1 for durable commits, the group for grouped ones, 0
/// after an undisturbed run). Takes 40 bytes of memory a tuple of the largest partition.
///
/// # Errors
/// If the store fails; what is wrong with its contents is not an error but the result.
///
/// # Panics
/// If `completed` names more transactions or another number of partitions than the workload has.
pub fn verify<S: Store>(
    store: &S,
    workload: &Workload,
    completed: &[u64],
    window: u64,
) -> Result<Verification, RunError> {
    let (has, wants) = (store.partitions(), workload.spec().partitions);
    if has != wants {
        return Err(RunError::Partitions { store: has, workload: wants });
    }
    assert_eq!(completed.len(), wants, "a count for each partition");
    let mut found = Verification::default();
    for (partition, &completed) in completed.iter().enumerate() {
        let mut check = Check::new(workload, partition, completed);
        let result = store
            .session(partition)
            .and_then(|mut session| check.run(&mut session, window, &mut found));
        result.map_err(|source| RunError::Store {
            store: store.name().to_owned(),
            partition,
            transaction: completed,
            source,
        })?;
    }
    Ok(found)
}

/// The check of one partition.
struct Check<'a> {
    workload: &'a Workload,
    partition: usize,
    completed: usize,
    /// Transactions expected to be there: those completed and what the store has of the window.
    reached: usize,
    /// Expected version of each column of each tuple; 0 is as loaded.
    versions: Vec<[u32; COLUMNS]>,
    /// Version of each transaction of which something is missing.
    incomplete: HashSet<u32>,
    row: RowBuffer,
}

impl<'a> Check<'a> {
    fn new(workload: &'a Workload, partition: usize, completed: u64) -> Self {
        let tuples = workload.spec().tuples_of(partition);
        let total = workload.operations(partition).len();
        let completed = usize::try_from(completed).ok().filter(|&completed| completed <= total);
        let mut check = Self {
            workload,
            partition,
            completed: completed.expect("no more transactions completed than there are"),
            reached: 0,
            versions: vec![[0; COLUMNS]; usize::try_from(tuples).expect("tuples fit memory")],
            incomplete: HashSet::new(),
            row: RowBuffer::new(),
        };
        check.expect_up_to(check.completed);
        check
    }

    /// Expects the transactions before `end` to be there.
    fn expect_up_to(&mut self, end: usize) {
        let spec = self.workload.spec();
        let operations = &self.workload.operations(self.partition)[self.reached..end];
        for (index, operation) in (self.reached..end).zip(operations) {
            if operation.is_update() {
                let tuple = (operation.key() / spec.partitions as u64) as usize;
                let first = operation.first_column();
                let version = u32::try_from(index + 1).expect("checked with the specification");
                self.versions[tuple][first..first + spec.update_columns].fill(version);
            }
        }
        self.reached = end;
    }

    fn run<X: Session>(
        &mut self,
        session: &mut X,
        window: u64,
        found: &mut Verification,
    ) -> Result<(), StoreError> {
        let reached = self.look_beyond(session, window)?;
        self.expect_up_to(reached);
        for tuple in 0..self.versions.len() {
            self.compare(session, tuple, found)?;
        }
        let beyond = &self.workload.operations(self.partition)[self.completed..self.reached];
        let updates = beyond.iter().filter(|operation| operation.is_update()).count() as u64;
        let torn = self.incomplete.iter().filter(|&&v| v as usize > self.completed).count() as u64;
        found.torn += torn;
        found.lost += self.incomplete.len() as u64 - torn;
        found.surplus += updates - torn;
        Ok(())
    }

    /// Returns the most transactions that the store can have: the highest version in the window.
    fn look_beyond<X: Session>(
        &mut self,
        session: &mut X,
        window: u64,
    ) -> Result<usize, StoreError> {
        let operations = self.workload.operations(self.partition);
        let window = usize::try_from(window).unwrap_or(usize::MAX);
        let end = self.completed.saturating_add(window).min(operations.len());
        let mut reached = self.completed;
        for operation in operations[self.completed..end].iter().filter(|o| o.is_update()) {
            if !session.read(operation.key(), &mut self.row)? {
                continue;
            }
            let first = operation.first_column();
            for column in first..first + self.workload.spec().update_columns {
                let contents = &self.row.columns()[column];
                let version = self.workload.values().version_of(operation.key(), column, contents);
                let version = version.and_then(|version| usize::try_from(version).ok());
                reached = reached.max(version.filter(|&version| version <= end).unwrap_or(0));
            }
        }
        Ok(reached)
    }

    fn compare<X: Session>(
        &mut self,
        session: &mut X,
        tuple: usize,
        found: &mut Verification,
    ) -> Result<(), StoreError> {
        let key = self.partition as u64 + tuple as u64 * self.workload.spec().partitions as u64;
        let expected = self.versions[tuple];
        found.tuples += 1;
        if !session.read(key, &mut self.row)? {
            found.missing_tuples += 1;
            self.incomplete.extend(expected.into_iter().filter(|&version| version > 0));
            return Ok(());
        }
        for (column, &expected) in expected.iter().enumerate() {
            let contents = &self.row.columns()[column];
            match self.workload.values().version_of(key, column, contents) {
                Some(version) if version == u64::from(expected) => {}
                Some(version) if version < u64::from(expected) => {
                    self.incomplete.insert(expected);
                }
                _ => found.damaged_columns += 1,
            }
        }
        Ok(())
    }
}
