//! The seven transactions.

use std::hint::black_box;
use std::ops::ControlFlow;

use perdura::Value::{Text, U64};
use perdura::{Database, Environment, Error, Row, Scan, Table, Tx};

use super::inputs::{Input, Kind, Workload};
use super::schema::{
    AI_DATA, BIT_1, BY_NUMBER, CF_END, CF_NUMBER, CF_START, DATA_A, Digits, IS_ACTIVE, S_ID,
    SF_TYPE, Tables, VLR_LOCATION,
};
use crate::connection::{Connection, Tries};
use crate::reads::{Reads, missing};
use crate::store::StoreError;
use crate::terminals::{Outcome, Perform};

/// A facility is not there whose calls are to be forwarded: as a foreign key would refuse it.
#[derive(Debug, thiserror::Error)]
#[error("the subscriber has no such facility")]
struct NoFacility;

/// Runs the transactions of a partition.
pub struct Terminal<'a, E: Environment> {
    connection: Connection<'a, E>,
    inputs: &'a [Input],
    tables: Tables,
    row: Row,
}

impl<'a, E: Environment> Terminal<'a, E> {
    /// Takes a partition, and owns it while it lives. Waits until it is free.
    ///
    /// # Errors
    /// The database has no TATP tables.
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

    /// Takes a place at a partition that others use, too.
    ///
    /// # Errors
    /// The database has no TATP tables.
    ///
    /// # Panics
    /// There is no such partition.
    pub fn beside_others(
        database: &'a Database<E>,
        workload: &'a Workload,
        partition: usize,
    ) -> Result<Self, Error> {
        Self::at(database, Connection::open(database, partition, false)?, workload, partition)
    }

    /// Takes a place at a partition for transactions that are not known before: see
    /// [`Terminal::submit`]. If it is `alone`, the partition is its own, as with [`Terminal::new`].
    ///
    /// # Errors
    /// The database has no TATP tables.
    ///
    /// # Panics
    /// There is no such partition.
    pub fn of_user(
        database: &'a Database<E>,
        partition: usize,
        alone: bool,
    ) -> Result<Self, Error> {
        let (connection, tables) =
            (Connection::open(database, partition, alone)?, Tables::of(database)?);
        Ok(Self { connection, inputs: &[], tables, row: Row::new() })
    }

    /// A terminal with this connection.
    pub(super) fn at(
        database: &Database<E>,
        connection: Connection<'a, E>,
        workload: &'a Workload,
        partition: usize,
    ) -> Result<Self, Error> {
        let (inputs, tables) = (workload.inputs(partition), Tables::of(database)?);
        Ok(Self { connection, inputs, tables, row: Row::new() })
    }

    /// Runs transaction `number` of the partition.
    ///
    /// # Errors
    /// The database's; nothing of the transaction is left then.
    ///
    /// # Panics
    /// There is no such transaction.
    pub fn run(&mut self, number: usize) -> Result<Outcome, Error> {
        self.submit(self.inputs[number])
    }

    /// Runs of its transactions after their first ones, and those whose time was over in a conflict and
    /// that were entered again.
    #[must_use]
    pub fn retries_and_conflicts(&self) -> (u64, u64) {
        let Tries { retries, conflicts } = self.connection.tries();
        (retries, conflicts)
    }

    /// Runs a transaction.
    ///
    /// # Errors
    /// The database's; nothing of the transaction is left then.
    pub fn submit(&mut self, input: Input) -> Result<Outcome, Error> {
        let Self { connection, tables, row, .. } = self;
        match input.kind {
            Kind::GetSubscriberData => {
                let key = [U64(input.subscriber.into())];
                let found = connection.read(|tx| tx.get_into(&tables.subscriber, &key, row))?;
                Ok(outcome(black_box(found)))
            }
            Kind::GetAccessData => {
                let key = [U64(input.subscriber.into()), U64(input.of.into())];
                let found =
                    connection.read(|tx| tx.find(&tables.access_info, &key, &AI_DATA, row))?;
                Ok(outcome(black_box(found)))
            }
            Kind::GetNewDestination => {
                let found = connection.read(|tx| destination(tx, tables, &input, row))?;
                Ok(outcome(black_box(found)))
            }
            Kind::UpdateLocation => {
                connection.write(|tx| update_location(tx, tables, &input))?;
                Ok(Outcome::Committed)
            }
            Kind::UpdateSubscriberData => {
                let done = connection.write(|tx| update_subscriber(tx, tables, &input));
                foreseen(done, &tables.special_facility)
            }
            Kind::InsertCallForwarding => {
                let done = connection.write(|tx| insert_forwarding(tx, tables, &input));
                foreseen(done, &tables.call_forwarding)
            }
            Kind::DeleteCallForwarding => {
                let done = connection.write(|tx| delete_forwarding(tx, tables, &input));
                foreseen(done, &tables.call_forwarding)
            }
        }
    }
}

const fn outcome(found: bool) -> Outcome {
    if found { Outcome::Committed } else { Outcome::Failed }
}

/// Only what is missing from this table, or there already, may end a transaction.
fn foreseen(done: Result<(), Error>, of: &Table) -> Result<Outcome, Error> {
    match done {
        Ok(()) => Ok(Outcome::Committed),
        Err(Error::MissingKey { table, .. } | Error::DuplicateKey { table, .. })
            if table == of.name() =>
        {
            Ok(Outcome::Failed)
        }
        Err(Error::User(why)) if why.is::<NoFacility>() => Ok(Outcome::Failed),
        Err(error) => Err(error),
    }
}

/// Copies the number to which a call goes, if it is forwarded and the facility active.
fn destination(
    tx: &impl Reads,
    tables: &Tables,
    input: &Input,
    row: &mut Row,
) -> Result<bool, Error> {
    let key = [U64(input.subscriber.into()), U64(input.of.into())];
    let active = tx.find(&tables.special_facility, &key, &[IS_ACTIVE], row)? && row.u64(0) == 1;
    if !active {
        return Ok(false);
    }
    let mut found = false;
    let (start, end) = (u64::from(input.start), u64::from(input.end));
    let forwarded = Scan::prefix(&key[..]).columns(&[CF_START, CF_END, CF_NUMBER]);
    tx.each(&tables.call_forwarding, &forwarded, |row| {
        if row.u64(0) <= start && end < row.u64(1) {
            black_box(row.text(2));
            found = true;
        }
    })?;
    Ok(found)
}

/// The subscriber with this number.
fn by_number(tx: &impl Reads, tables: &Tables, input: &Input) -> Result<u64, Error> {
    let digits = Digits::of(input.subscriber.into());
    let key = [Text(digits.as_str())];
    let mut found = None;
    let scan = Scan::prefix(&key[..]).by(BY_NUMBER).columns(&[S_ID]).limit(1);
    tx.scan(&tables.subscriber, &scan, |row| {
        found = Some(row.u64(0));
        ControlFlow::Break(())
    })?;
    found.ok_or_else(|| missing(&tables.subscriber, &key))
}

fn update_location<E: Environment>(
    tx: &mut Tx<'_, E>,
    tables: &Tables,
    input: &Input,
) -> Result<(), Error> {
    let subscriber = U64(by_number(tx, tables, input)?);
    tx.update(&tables.subscriber, &[subscriber], &[(VLR_LOCATION, U64(input.value.into()))])
}

fn update_subscriber<E: Environment>(
    tx: &mut Tx<'_, E>,
    tables: &Tables,
    input: &Input,
) -> Result<(), Error> {
    let (subscriber, value) = (U64(input.subscriber.into()), u64::from(input.value));
    tx.update(&tables.subscriber, &[subscriber], &[(BIT_1, U64(value & 1))])?;
    let key = [subscriber, U64(input.of.into())];
    tx.update(&tables.special_facility, &key, &[(DATA_A, U64(value >> 1))])
}

fn insert_forwarding<E: Environment>(
    tx: &mut Tx<'_, E>,
    tables: &Tables,
    input: &Input,
) -> Result<(), Error> {
    let subscriber = U64(by_number(tx, tables, input)?);
    let of = u64::from(input.of);
    let mut is_there = false;
    let prefix = [subscriber];
    let facilities = Scan::prefix(&prefix[..]).columns(&[SF_TYPE]);
    Reads::each(tx, &tables.special_facility, &facilities, |row| is_there |= row.u64(0) == of)?;
    if !is_there {
        return Err(Error::user(NoFacility));
    }
    let to = Digits::of(input.value.into());
    let (start, end) = (U64(input.start.into()), U64(input.end.into()));
    tx.insert(&tables.call_forwarding, &[subscriber, U64(of), start, end, Text(to.as_str())])
}

fn delete_forwarding<E: Environment>(
    tx: &mut Tx<'_, E>,
    tables: &Tables,
    input: &Input,
) -> Result<(), Error> {
    let subscriber = U64(by_number(tx, tables, input)?);
    let key = [subscriber, U64(input.of.into()), U64(input.start.into())];
    tx.delete(&tables.call_forwarding, &key)
}

impl<E: Environment> Perform for Terminal<'_, E> {
    #[inline]
    fn perform(&mut self, number: usize) -> Result<Outcome, StoreError> {
        self.run(number).map_err(StoreError::engine)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.connection.sync().map_err(StoreError::engine)
    }

    fn tries(&self) -> Tries {
        self.connection.tries()
    }
}
