//! The measuring of TATP: its transactions as the driver sees them.

use perdura::{Database, Environment, Error};

use super::inputs::{Kind, Workload};
use super::terminal::Terminal;
use crate::connection::Connection;
use crate::measure::{Observer, RunError, RunOptions};
use crate::terminals::{self, Measured, Script};

/// Runs the whole workload on a populated database. The observer counts the transactions of each lane
/// (see [`crate::Lanes`]), those that failed included.
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
    terminals::run(database, workload, workload.spec().partitions, options, observer)
}

impl<E: Environment> Script<E> for Workload {
    type Terminal<'a>
        = Terminal<'a, E>
    where
        E: 'a;

    const KINDS: usize = Kind::ALL.len();

    fn transactions(&self, partition: usize) -> usize {
        self.inputs(partition).len()
    }

    #[inline]
    fn kind(&self, partition: usize, number: usize) -> (usize, bool) {
        let kind = self.inputs(partition)[number].kind();
        (kind as usize, kind.is_read_only())
    }

    fn terminal<'a>(
        &'a self,
        database: &Database<E>,
        connection: Connection<'a, E>,
        partition: usize,
    ) -> Result<Terminal<'a, E>, Error> {
        Terminal::at(database, connection, self, partition)
    }
}
