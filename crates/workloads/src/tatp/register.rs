//! TATP on other databases: the peers.
//!
//! A [`Register`] has its own way of holding the four tables. It runs the same transactions in the
//! same loop as our engines, in one partition that all workers share, and the same [`Inspection`]
//! checks its rows afterwards.

pub use perdura::Value;

use super::check::Inspection;
use super::inputs::{Input, Workload};
use super::population::rows_of;
use super::schema::TableOf;
use super::spec::Spec;
use crate::connection::Tries;
use crate::lanes::Lane;
use crate::measure::{Observer, RunError, RunOptions};
use crate::store::StoreError;
use crate::terminals::{self, Backend, Measured, Outcome, Perform};

/// A database with the four tables, to which many workers may come.
pub trait Register: Sync {
    /// The place at which one worker enters transactions.
    type Connection<'a>: RegisterConnection
    where
        Self: 'a;

    /// Its name in errors.
    fn name(&self) -> &str;

    /// A place for one more worker.
    ///
    /// # Errors
    /// The database's.
    fn connect(&self) -> Result<Self::Connection<'_>, StoreError>;

    /// Populates it; durable when it returns. [`Population`] has the rows.
    ///
    /// # Errors
    /// The database's.
    fn load<O: Observer>(&self, spec: &Spec, progress: &O) -> Result<(), StoreError>;

    /// Shows all rows, each table in the order of its key; returns how many these are.
    ///
    /// # Errors
    /// The database's.
    fn show(&self, to: &mut Inspection<'_>) -> Result<u64, StoreError>;

    /// Runs a workload on it. The progress counts the transactions of each worker.
    ///
    /// # Errors
    /// The first error of any worker. Peers have one partition, and commits that are durable.
    fn run<O: Observer>(
        &self,
        workload: &Workload,
        options: &RunOptions,
        progress: &O,
    ) -> Result<Measured, RunError>
    where
        Self: Sized,
    {
        let partitions = workload.spec().partitions;
        terminals::check_peer(self.name(), "TATP", partitions, options)?;
        terminals::drive(&RegisterBackend { register: self, workload }, 1, options, progress)
    }
}

/// A place at which transactions are entered.
pub trait RegisterConnection {
    /// Runs a transaction, durably.
    ///
    /// # Errors
    /// The database's; nothing of the transaction is left then.
    fn submit(&mut self, input: &Input) -> Result<Outcome, StoreError>;
}

struct RegisterBackend<'a, R> {
    register: &'a R,
    workload: &'a Workload,
}

impl<R: Register> Backend for RegisterBackend<'_, R> {
    type Terminal<'a>
        = RegisterTerminal<'a, R>
    where
        Self: 'a;

    const KINDS: usize = super::Kind::ALL.len();

    fn name(&self) -> &str {
        self.register.name()
    }

    fn transactions(&self, partition: usize) -> usize {
        self.workload.inputs(partition).len()
    }

    #[inline]
    fn kind(&self, partition: usize, number: usize) -> (usize, bool) {
        let kind = self.workload.inputs(partition)[number].kind();
        (kind as usize, kind.is_read_only())
    }

    fn terminal(&self, _: Lane) -> Result<RegisterTerminal<'_, R>, StoreError> {
        Ok(RegisterTerminal {
            connection: self.register.connect()?,
            inputs: self.workload.inputs(0),
        })
    }
}

struct RegisterTerminal<'a, R: Register + 'a> {
    connection: R::Connection<'a>,
    inputs: &'a [Input],
}

impl<R: Register> Perform for RegisterTerminal<'_, R> {
    fn perform(&mut self, number: usize) -> Result<Outcome, StoreError> {
        self.connection.submit(&self.inputs[number])
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn tries(&self) -> Tries {
        Tries::default()
    }
}

/// The rows of a population of one partition.
#[derive(Debug, Clone, Copy)]
pub struct Population<'a>(
    /// The specification.
    pub &'a Spec,
);

impl Population<'_> {
    /// Passes on all rows of each subscriber, one subscriber after the other, each row with its table and in
    /// the order of the table's columns; a call of `subscriber` follows with the number of rows so far.
    ///
    /// # Errors
    /// The first one that is returned.
    pub fn each<E>(
        &self,
        mut row: impl FnMut(TableOf, &[Value<'_>]) -> Result<(), E>,
        mut subscriber: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rows = 0;
        for id in self.0.subscribers_of(0) {
            rows += rows_of(self.0.seed, id, &mut row)?;
            subscriber(rows)?;
        }
        Ok(())
    }
}
