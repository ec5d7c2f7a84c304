//! Does a database hold exactly what it acknowledged?
//!
//! All transactions follow from the seed, and each that changes something leaves its date in a row
//! where it is never overwritten: O_ENTRY_D, H_DATE or OL_DELIVERY_D. For each partition, with its
//! acknowledged transactions and those that may have been under way:
//!
//! 1. The dates that are found show which transactions are there, and how far the partition went
//!    beyond what was acknowledged.
//! 2. A reference database is populated from the same seed and runs the same transactions up to
//!    there. The dates that it has are those that have to be found, and no others may be.
//! 3. Both databases are compared tuple by tuple.

use std::collections::HashSet;

use perdura::Value::{Text, U64};
use perdura::{Database, Environment, Error, Row, Scan};

use super::inputs::{Inputs, Workload};
use super::schema::{FIRST_DATE, H_DATE, O_ENTRY_D, OL_DELIVERY_D, Tables, W_NAME};
use super::terminal::Terminal;
use super::{check_partitions, failed};
use crate::contents::{contents, each_tuple, tuple_digest};
use crate::measure::RunError;
use crate::reads::Reads;
use crate::store::Commit;

/// The findings of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// Acknowledged transactions that left no trace.
    pub lost: u64,
    /// Transactions that are there although they cannot be: they were not entered yet, or an
    /// earlier one of the same partition is not there.
    pub surplus: u64,
    /// Transactions that were not acknowledged and are there as a whole: allowed.
    pub in_flight: u64,
    /// Tuples that are not what they should be; only looked for if no transaction is lost or
    /// surplus.
    pub differing_tuples: u64,
    /// The tables in which they are.
    pub differing_tables: Vec<String>,
}

impl Verification {
    /// Returns true if the database kept its promise.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.lost == 0 && self.surplus == 0 && self.differing_tuples == 0
    }
}

/// Compares a database with what it should hold after the first `completed[p]` transactions of each
/// partition `p` and those that may have been under way with this form of commit. `reference` is an
/// empty database with as many partitions, best of another engine; it is filled.
///
/// # Errors
/// If one of the databases fails; what is wrong with the contents is not an error but the result.
///
/// # Panics
/// If `completed` names more transactions or another number of partitions than the workload has.
pub fn verify<E: Environment>(
    database: &Database<E>,
    reference: &Database<E>,
    workload: &Workload,
    completed: &[u64],
    commit: Commit,
) -> Result<Verification, RunError> {
    let spec = workload.spec();
    check_partitions(database, spec, 1)?;
    super::load(reference, spec, 1, &())?;
    let mut found = Verification::default();
    for partition in 0..spec.partitions {
        let inputs = workload.inputs(partition);
        let completed = completed[partition] as usize;
        let limit = completed + window(inputs, completed, commit);
        let there = traces(database, partition)
            .map_err(|error| failed(database, partition, completed as u64, error))?;
        let beyond = there.iter().map(|number| *number as usize + 1).filter(|end| *end <= limit);
        let end = beyond.max().unwrap_or(0).max(completed);
        replay(reference, workload, partition, end)?;
        let expected = traces(reference, partition)
            .map_err(|error| failed(reference, partition, end as u64, error))?;
        for number in expected.difference(&there) {
            if (*number as usize) < completed {
                found.lost += 1;
            } else {
                found.surplus += 1;
            }
        }
        found.surplus += there.difference(&expected).count() as u64;
        let both = expected.intersection(&there);
        found.in_flight += both.filter(|number| **number as usize >= completed).count() as u64;
    }
    if found.lost == 0 && found.surplus == 0 {
        compare(database, reference, &mut found).map_err(|error| failed(database, 0, 0, error))?;
    }
    Ok(found)
}

/// Returns how many transactions may have been under way after the first `completed`.
fn window(inputs: &Inputs, completed: usize, commit: Commit) -> usize {
    let open = &inputs.all()[completed..];
    let group = match commit {
        Commit::Durable => return open.len().min(1),
        Commit::Grouped(group) => group as usize,
    };
    let changes = |input: &super::Input| !input.kind().is_read_only() && !input.is_rolled_back();
    let ends = open.iter().enumerate().filter(|(_, input)| changes(input));
    ends.take(group).last().map_or(0, |(at, _)| at + 1)
}

/// The numbers of the transactions that left their date in a partition.
fn traces<E: Environment>(database: &Database<E>, partition: usize) -> Result<HashSet<u64>, Error> {
    let tables = Tables::of(database)?;
    let mut numbers = HashSet::new();
    database.partition(partition).read(|tx| {
        for (table, column) in [
            (&tables.orders, O_ENTRY_D),
            (&tables.history, H_DATE),
            (&tables.order_line, OL_DELIVERY_D),
        ] {
            tx.each(table, &Scan::all().columns(&[column]), |row| {
                numbers.extend(row.u64(0).checked_sub(FIRST_DATE));
            })?;
        }
        Ok(())
    })?;
    Ok(numbers)
}

/// Runs the first transactions of a partition.
fn replay<E: Environment>(
    reference: &Database<E>,
    workload: &Workload,
    partition: usize,
    transactions: usize,
) -> Result<(), RunError> {
    let failed = |at: usize| move |error| failed(reference, partition, at as u64, error);
    let mut terminal = Terminal::new(reference, workload.spec(), partition).map_err(failed(0))?;
    for index in 0..transactions {
        terminal.run(workload.inputs(partition), index).map_err(failed(index))?;
    }
    terminal.sync().map_err(failed(transactions))
}

/// Counts the tuples that only one of the two has.
fn compare<E: Environment>(
    database: &Database<E>,
    reference: &Database<E>,
    found: &mut Verification,
) -> Result<(), Error> {
    let (one, other) = (contents(database)?, contents(reference)?);
    let both = one.tables.iter().zip(&other.tables);
    for (table, _) in both.filter(|(one, other)| one != other) {
        let sorted = |database| -> Result<Vec<u64>, Error> {
            let mut all = Vec::new();
            each_tuple(database, &table.name, |row| all.push(tuple_digest(row)))?;
            all.sort_unstable();
            Ok(all)
        };
        let (one, other) = (sorted(database)?, sorted(reference)?);
        found.differing_tuples += only_in(&one, &other).max(only_in(&other, &one));
        found.differing_tables.push(table.name.clone());
    }
    Ok(())
}

/// Returns how many of the sorted `one` are not in the sorted `other`.
fn only_in(one: &[u64], other: &[u64]) -> u64 {
    let mut other = other.iter().peekable();
    let mut only = 0;
    for digest in one {
        while other.next_if(|next| *next < digest).is_some() {}
        only += u64::from(other.next_if_eq(&digest).is_none());
    }
    only
}

/// The name of warehouse 1: what a process reads first that has opened a database.
///
/// # Errors
/// The database's own.
pub fn first_read<E: Environment>(database: &Database<E>) -> Result<String, Error> {
    let tables = Tables::of(database)?;
    let mut row = Row::new();
    let partition = database.partition(0);
    partition.read(|tx| tx.need(&tables.warehouse, &[U64(1)], &[W_NAME], &mut row))?;
    Ok(row.text(0).to_owned())
}

/// Writes back what [`first_read`] has found: a durable commit that changes nothing.
///
/// # Errors
/// The database's own.
pub fn first_commit<E: Environment>(database: &Database<E>, name: &str) -> Result<(), Error> {
    let tables = Tables::of(database)?;
    let mut partition = database.partition(0).exclusive()?;
    partition.write(|tx| tx.update(&tables.warehouse, &[U64(1)], &[(W_NAME, Text(name))]))?;
    partition.sync()
}

#[cfg(test)]
mod tests {
    use super::only_in;

    #[test]
    fn what_only_one_has_is_counted_as_often_as_it_is_there() {
        assert_eq!(only_in(&[1, 2, 2, 5], &[2, 3, 5]), 2);
        assert_eq!(only_in(&[2, 3, 5], &[1, 2, 2, 5]), 1);
        assert_eq!(only_in(&[], &[1]) + only_in(&[7], &[7]), 0);
    }
}
