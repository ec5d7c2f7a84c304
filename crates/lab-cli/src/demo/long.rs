//! A long transaction: hundreds of statements at a pace that one can watch, over and over.
//!
//! Each statement but the last adds one to a row; the last one adds one to the number of runs. So
//! the rows show how many statements were done, whatever happened in between, and a statement that
//! was done twice, or not at all, is found.

use std::thread;
use std::time::Duration;

use command::failure::Failure;
use perdura::{Error, InFlight, Partition, Table, Tx, Value};

use super::state::{self, DemoState, ROWS, name_of, row_of};
use super::task::{Counter, Position};

/// Runs a long transaction again and again until the process ends, at first from where it was.
///
/// # Errors
/// The database's.
pub(super) fn work(state: &DemoState, number: usize) -> Result<(), Failure> {
    let partition = state.database.partition(state::partition(&state.database, number));
    let name = name_of(number);
    let mut found = partition.in_flight().into_iter().find(|one| one.name == name.as_bytes());
    let key = [Value::from(number as u64)];
    let mut runs = partition.get(&state.tables.run, &key)?.map_or(0, |row| row.u64(1));
    loop {
        run(state, number, &partition, runs, found.take())?;
        runs += 1;
        note(state, number, Position { runs, statements: 0 });
    }
}

/// Runs it once, or goes on with the one that was found.
fn run(
    state: &DemoState,
    number: usize,
    partition: &Partition<'_>,
    runs: u64,
    found: Option<InFlight>,
) -> Result<(), Failure> {
    let done = found.as_ref().map_or(0, |found| found.statements);
    let mut tx = match found {
        Some(found) => partition.resume(found.id)?,
        None if state.continues() => partition.begin_named(name_of(number).as_bytes())?,
        None => partition.begin()?,
    };
    let statements = u64::from(state.task.statements);
    note(state, number, Position { runs, statements: done });
    for statement in done..statements {
        thread::sleep(Duration::from_millis(state.task.pace_ms.into()));
        if statement + 1 < statements {
            add_one(&mut tx, &state.tables.work, row_of(number, statement % ROWS))?;
        } else {
            add_one(&mut tx, &state.tables.run, number as u64)?;
        }
        note(state, number, Position { runs, statements: statement + 1 });
    }
    // Commits are durable here: there is nothing to wait for.
    let _ticket = tx.commit()?;
    Ok(())
}

fn add_one(tx: &mut Tx<'_>, table: &Table, id: u64) -> Result<(), Error> {
    tx.modify(table, &[Value::from(id)], |row| vec![(1_u16, Value::from(row.u64(1) + 1))])
}

fn note(state: &DemoState, number: usize, position: Position) {
    state.acknowledge(Counter::Long(number), position.packed());
}
