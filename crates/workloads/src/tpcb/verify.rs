//! Does a database hold exactly what it acknowledged?
//!
//! All transactions follow from the seed, and each leaves a row in the history that is never
//! changed.
//!
//! 1. The rows show which transactions are there. Each must be what its transaction writes.
//! 2. A lane runs its transactions in sequence: those that it acknowledged must be there. Of the
//!    later ones the first may be there, as many as may have been under way.
//! 3. All balances must be the sums of the history ([`super::check`]): so no transaction is there
//!    in part.

use perdura::Value::{Bytes, I64, U64};
use perdura::{Database, Environment, Error, Row, Scan};

use super::check::check;
use super::inputs::Workload;
use super::schema::{B_BALANCE, HISTORY_FILLER, Tables, fill};
use crate::lanes::Lanes;
use crate::measure::RunError;
use crate::reads::Reads;
use crate::store::Commit;
use crate::terminals::{check_partitions, failed};

/// The findings of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// Acknowledged transactions that left no trace.
    pub lost: u64,
    /// Rows of the history that no transaction wrote, or whose transaction cannot have been under
    /// way.
    pub surplus: u64,
    /// Transactions that were not acknowledged and are there: allowed.
    pub in_flight: u64,
    /// Balances that do not agree, and what is wrong with the population, in words.
    pub wrong: Vec<String>,
}

impl Verification {
    /// Returns true if the database kept its promise.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.lost == 0 && self.surplus == 0 && self.wrong.is_empty()
    }
}

/// Compares a database with what it should hold after so many workers ran the workload until lane `l`
/// had completed its first `completed[l]` transactions, and others may have been under way with this
/// form of commit.
///
/// # Errors
/// If the database fails; what is wrong with the contents is not an error but the result.
///
/// # Panics
/// If `completed` does not name each lane.
pub fn verify<E: Environment>(
    database: &Database<E>,
    workload: &Workload,
    workers: usize,
    completed: &[u64],
    commit: Commit,
) -> Result<Verification, RunError> {
    let partitions = check_partitions(database, workload.spec().partitions, workers)?;
    let lanes = Lanes::new(workers, partitions);
    let mut found = Verification::default();
    let mut there = Vec::new();
    for partition in 0..partitions {
        let (here, strange) = traces(database, workload, partition)
            .map_err(|error| failed(database, partition, 0, error))?;
        there.push(here);
        found.surplus += strange;
    }
    let window = match commit {
        Commit::Durable => 1,
        Commit::Grouped(group) => u64::from(group),
    };
    assert_eq!(completed.len(), lanes.count(), "a count for each lane");
    for (number, &completed) in completed.iter().enumerate() {
        let lane = lanes.lane(number);
        let there = &there[lane.partition];
        let mut gap = false;
        for (place, number) in (0..).zip(lane.numbers(there.len())) {
            match (there[number], place < completed) {
                (false, true) => found.lost += 1,
                (true, true) => {}
                (true, false) if place < completed + window && !gap => found.in_flight += 1,
                (true, false) => found.surplus += 1,
                (false, false) => gap = true,
            }
        }
    }
    let checks = check(database, workload.spec()).map_err(|error| failed(database, 0, 0, error))?;
    let wrong = checks.into_iter().filter_map(|check| Some((check.name, check.violation?)));
    found.wrong = wrong.map(|(name, violation)| format!("{name}: {violation}")).collect();
    Ok(found)
}

/// Returns for each of a partition's transactions whether it left the row that it writes, and
/// counts other rows.
fn traces<E: Environment>(
    database: &Database<E>,
    workload: &Workload,
    partition: usize,
) -> Result<(Vec<bool>, u64), Error> {
    let tables = Tables::of(database)?;
    let inputs = workload.inputs(partition);
    let (mut there, mut strange) = (vec![false; inputs.len()], 0);
    let partitions = workload.spec().partitions as u64;
    let first = workload.id(partition, 0);
    database.partition(partition).read(|tx| {
        there.fill(false);
        strange = 0;
        tx.each(&tables.history, &Scan::all(), |row| {
            let id = row.u64(0);
            let number =
                id.checked_sub(first).map_or(usize::MAX, |far| (far / partitions) as usize);
            let Some(input) = inputs.get(number) else {
                strange += 1;
                return;
            };
            let filler = fill::<HISTORY_FILLER>(id);
            let (teller, branch) = (U64(u64::from(input.teller)), U64(input.branch()));
            let (account, delta) = (U64(input.account), I64(i64::from(input.delta)));
            let expected = [
                U64(workload.id(partition, number)),
                teller,
                branch,
                account,
                delta,
                U64(id + 1),
                Bytes(&filler),
            ];
            if row.values().eq(expected) {
                there[number] = true;
            } else {
                strange += 1;
            }
        })
    })?;
    Ok((there, strange))
}

/// The balance of branch 1: what a process reads first that has opened a database.
///
/// # Errors
/// The database's own.
pub fn first_read<E: Environment>(database: &Database<E>) -> Result<i64, Error> {
    let tables = Tables::of(database)?;
    let mut row = Row::new();
    let partition = database.partition(0);
    partition.read(|tx| tx.need(&tables.branch, &[U64(1)], &[B_BALANCE], &mut row))?;
    Ok(row.i64(0))
}

/// Writes back what [`first_read`] has found: a durable commit that changes nothing.
///
/// # Errors
/// The database's own.
pub fn first_commit<E: Environment>(database: &Database<E>, balance: i64) -> Result<(), Error> {
    let tables = Tables::of(database)?;
    let mut partition = database.partition(0).exclusive()?;
    partition.write(|tx| tx.update(&tables.branch, &[U64(1)], &[(B_BALANCE, I64(balance))]))?;
    partition.sync()
}
