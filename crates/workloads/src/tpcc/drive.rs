//! TPC-C as it is measured: its figures, and its transactions as the driver sees them.

use hdrhistogram::Histogram;
use perdura::{Database, Environment, Error};

use super::inputs::{Kind, Workload};
use super::terminal::{Outcome, Terminal};
use crate::connection::{Connection, Tries};
use crate::measure::{Observer, RunError, RunOptions};
use crate::store::StoreError;
use crate::terminals::{self, Perform, Script};

/// The figures of a run.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The time from the start of the first worker to the end of the last one.
    pub seconds: f64,
    /// Latencies in nanoseconds to durability, of each of [`Kind::ALL`], of every committed
    /// transaction.
    pub latency_ns: [Histogram<u64>; 5],
    /// New orders that were rolled back; they have no latency.
    pub aborted: u64,
    /// Runs of a transaction after its first one, for a conflict with others.
    pub retries: u64,
    /// Transactions whose time was over while they were in a conflict; each was entered again.
    pub conflicts: u64,
}

impl Measured {
    /// Committed transactions of a kind.
    #[must_use]
    pub fn committed(&self, kind: Kind) -> u64 {
        self.latency_ns[kind as usize].len()
    }

    /// Committed transactions of all kinds.
    #[must_use]
    pub fn transactions(&self) -> u64 {
        Kind::ALL.into_iter().map(|kind| self.committed(kind)).sum()
    }

    /// Durable transactions a second, reads included.
    #[must_use]
    pub fn throughput_txn_s(&self) -> f64 {
        self.transactions() as f64 / self.seconds.max(1e-9)
    }

    /// Durable new orders a minute; those that were rolled back do not count.
    #[must_use]
    pub fn new_orders_per_minute(&self) -> f64 {
        self.committed(Kind::NewOrder) as f64 * 60.0 / self.seconds.max(1e-9)
    }
}

/// Runs the whole workload on a populated database. The observer counts the transactions of each lane
/// (see [`crate::Lanes`]), those that were rolled back included.
///
/// With more workers than partitions the order in which transactions meet in a partition is open, and
/// so are the contents that the run leaves.
///
/// # Errors
/// The first error of any worker.
pub fn run<E: Environment, O: Observer>(
    database: &Database<E>,
    workload: &Workload,
    options: &RunOptions,
    observer: &O,
) -> Result<Measured, RunError> {
    let partitions = workload.spec().partitions;
    let ran = terminals::run(database, workload, partitions, options, observer)?;
    Ok(Measured {
        seconds: ran.seconds,
        latency_ns: ran.latency_ns.try_into().expect("a histogram for each kind"),
        aborted: ran.failed.iter().sum(),
        retries: ran.retries,
        conflicts: ran.conflicts,
    })
}

impl<E: Environment> Script<E> for Workload {
    type Terminal<'a>
        = InputTerminal<'a, E>
    where
        E: 'a;

    const KINDS: usize = Kind::ALL.len();

    fn transactions(&self, partition: usize) -> usize {
        self.inputs(partition).len()
    }

    #[inline]
    fn kind(&self, partition: usize, number: usize) -> (usize, bool) {
        let kind = self.inputs(partition).all()[number].kind();
        (kind as usize, kind.is_read_only())
    }

    fn terminal<'a>(
        &'a self,
        database: &Database<E>,
        connection: Connection<'a, E>,
        partition: usize,
    ) -> Result<InputTerminal<'a, E>, Error> {
        let terminal = Terminal::at(database, connection, self.spec())?;
        Ok(InputTerminal { terminal, inputs: self.inputs(partition) })
    }
}

/// A terminal with what is entered there.
pub(crate) struct InputTerminal<'a, E: Environment> {
    terminal: Terminal<'a, E>,
    inputs: &'a super::Inputs,
}

impl<E: Environment> Perform for InputTerminal<'_, E> {
    #[inline]
    fn perform(&mut self, number: usize) -> Result<terminals::Outcome, StoreError> {
        let outcome = self.terminal.run(self.inputs, number).map_err(StoreError::engine)?;
        Ok(match outcome {
            Outcome::Committed => terminals::Outcome::Committed,
            Outcome::RolledBack => terminals::Outcome::Failed,
        })
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.terminal.sync().map_err(StoreError::engine)
    }

    fn tries(&self) -> Tries {
        self.terminal.tries()
    }
}
