//! A partition as one worker uses it: its own, or shared with others.

use perdura::{Concurrency, Database, Environment, Error, Exclusive, Partition, ReadTx, Tx};

/// A worker's connection to a partition.
pub(crate) enum Connection<'a, E: Environment> {
    /// The partition belongs to this worker while it lives, as a partition does to a worker of P1's
    /// testbed (P1 3): it pays for no lock.
    Owned(Exclusive<'a, E>),
    /// Others use the partition, too; or its engine runs many transactions at the same time, and is
    /// used as a program with many threads would.
    Shared {
        /// The partition.
        partition: Partition<'a, E>,
        /// The conflicts of its transactions so far.
        tries: Tries,
    },
}

/// Counts of conflicts between transactions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tries {
    /// Runs of a transaction after its first one.
    pub(crate) retries: u64,
    /// Transactions that ended in a conflict when their time was over; each was entered again.
    pub(crate) conflicts: u64,
}

impl Tries {
    /// Runs a transaction, which adds one to its argument with each run, again until it ends without a
    /// conflict.
    ///
    /// # Errors
    /// The transaction's, all but a conflict.
    #[inline]
    fn until_done<R>(
        &mut self,
        mut transaction: impl FnMut(&mut u64) -> Result<R, Error>,
    ) -> Result<R, Error> {
        loop {
            let mut runs = 0;
            let done = transaction(&mut runs);
            self.retries += runs.saturating_sub(1);
            match done {
                Err(Error::Conflict { .. }) => self.conflicts += 1,
                done => return done,
            }
        }
    }
}

impl<'a, E: Environment> Connection<'a, E> {
    /// Opens a connection to a partition; if the worker is `alone`, waits until the partition is free.
    ///
    /// # Errors
    /// As [`Partition::exclusive`].
    pub(crate) fn open(
        database: &'a Database<E>,
        partition: usize,
        alone: bool,
    ) -> Result<Self, Error> {
        let partition = database.partition(partition);
        match database.traits().concurrency {
            Concurrency::Serial if alone => Ok(Self::Owned(partition.exclusive()?)),
            _ => Ok(Self::Shared { partition, tries: Tries::default() }),
        }
    }

    /// Runs a transaction, again if it was in a conflict, until it is done.
    ///
    /// # Errors
    /// The database's own, or what `work` returned.
    #[inline]
    pub(crate) fn write<R>(
        &mut self,
        mut work: impl for<'t> FnMut(&mut Tx<'t, E>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        match self {
            Self::Owned(partition) => partition.write(work),
            Self::Shared { partition, tries } => tries.until_done(|runs| {
                partition.write(|tx| {
                    *runs += 1;
                    work(tx)
                })
            }),
        }
    }

    /// Runs a transaction that only reads, as [`Connection::write`] does.
    ///
    /// # Errors
    /// As [`Connection::write`].
    #[inline]
    pub(crate) fn read<R>(
        &mut self,
        mut work: impl for<'t> FnMut(&ReadTx<'t, E>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        match self {
            Self::Owned(partition) => partition.read(work),
            Self::Shared { partition, tries } => tries.until_done(|runs| {
                partition.read(|tx| {
                    *runs += 1;
                    work(tx)
                })
            }),
        }
    }

    /// Makes everything committed so far in the partition durable.
    ///
    /// # Errors
    /// The medium failed.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        match self {
            Self::Owned(partition) => partition.sync(),
            Self::Shared { partition, .. } => partition.exclusive()?.sync(),
        }
    }

    /// The conflicts of its transactions so far.
    pub(crate) fn tries(&self) -> Tries {
        match self {
            Self::Owned(_) => Tries::default(),
            Self::Shared { tries, .. } => *tries,
        }
    }
}
