//! The transaction (clause 1.2).

use perdura::Value::{Bytes, I64, U64};
use perdura::{Database, Environment, Error, Row, Table, Tx};

use super::inputs::{Input, Workload};
use super::schema::{A_BALANCE, B_BALANCE, HISTORY_FILLER, T_BALANCE, Tables, fill};
use crate::connection::{Connection, Tries};
use crate::reads::missing;
use crate::store::StoreError;
use crate::terminals::{Outcome, Perform};

/// Runs the transactions of a partition.
pub struct Terminal<'a, E: Environment> {
    connection: Connection<'a, E>,
    workload: &'a Workload,
    partition: usize,
    tables: Tables,
    row: Row,
}

impl<'a, E: Environment> Terminal<'a, E> {
    /// Takes a partition, and owns it while it lives. Waits until it is free.
    ///
    /// # Errors
    /// The database has no TPC-B tables.
    ///
    /// # Panics
    /// There is no such partition.
    pub fn new(
        database: &'a Database<E>,
        workload: &'a Workload,
        partition: usize,
    ) -> Result<Self, Error> {
        Self::at(database, Connection::open(database, partition, true)?, workload, partition)
    }

    /// A terminal with this connection.
    pub(super) fn at(
        database: &Database<E>,
        connection: Connection<'a, E>,
        workload: &'a Workload,
        partition: usize,
    ) -> Result<Self, Error> {
        let tables = Tables::of(database)?;
        Ok(Self { connection, workload, partition, tables, row: Row::new() })
    }

    /// Runs transaction `number` of the partition; returns the account's balance after it.
    ///
    /// # Errors
    /// The database's; nothing of the transaction is left then.
    ///
    /// # Panics
    /// There is no such transaction.
    pub fn run(&mut self, number: usize) -> Result<i64, Error> {
        let input = self.workload.inputs(self.partition)[number];
        let id = self.workload.id(self.partition, number);
        let Self { connection, tables, row, .. } = self;
        connection.write(|tx| enter(tx, tables, &input, id, row))
    }
}

/// Books an amount on an account, a teller and a branch, and notes it in the history.
fn enter<E: Environment>(
    tx: &mut Tx<'_, E>,
    tables: &Tables,
    input: &Input,
    id: u64,
    row: &mut Row,
) -> Result<i64, Error> {
    let (teller, branch, delta) = (u64::from(input.teller), input.branch(), i64::from(input.delta));
    let balance = add(tx, &tables.account, input.account, A_BALANCE, delta, row)?;
    add(tx, &tables.teller, teller, T_BALANCE, delta, row)?;
    add(tx, &tables.branch, branch, B_BALANCE, delta, row)?;
    let (teller, branch, account) = (U64(teller), U64(branch), U64(input.account));
    let filler = fill::<HISTORY_FILLER>(id);
    let history = [U64(id), teller, branch, account, I64(delta), U64(id + 1), Bytes(&filler)];
    tx.insert(&tables.history, &history)?;
    Ok(balance)
}

/// Adds to a balance and returns it. As [`Tx::modify`], in a buffer that is used again.
fn add<E: Environment>(
    tx: &mut Tx<'_, E>,
    table: &Table,
    id: u64,
    column: u16,
    delta: i64,
    row: &mut Row,
) -> Result<i64, Error> {
    let key = [U64(id)];
    if !tx.get_for_update_into(table, &key, row)? {
        return Err(missing(table, &key));
    }
    let balance = row.i64(usize::from(column)) + delta;
    tx.update(table, &key, &[(column, I64(balance))])?;
    Ok(balance)
}

impl<E: Environment> Perform for Terminal<'_, E> {
    #[inline]
    fn perform(&mut self, number: usize) -> Result<Outcome, StoreError> {
        std::hint::black_box(self.run(number).map_err(StoreError::engine)?);
        Ok(Outcome::Committed)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.connection.sync().map_err(StoreError::engine)
    }

    fn tries(&self) -> Tries {
        self.connection.tries()
    }
}
