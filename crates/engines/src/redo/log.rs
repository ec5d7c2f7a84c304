//! The file log of a partition and its open transaction's record.

use std::sync::Arc;

use pm::{Environment, File, Files, Memory, Range};
use storage::Catalog;
use storage::operation::longest_deletion;
use storage::wal::{LogStart, Need, Wal, WalOptions, WalReport, WalSyncer};

use super::LogOf;
use crate::contract::{Early, Resources, Syncer};
use crate::error::EngineError;
use crate::options::Setup;
use crate::state::State;

/// Returns what the names of a partition's segments begin with.
fn wal_prefix(partition: u32) -> String {
    format!("wal-{partition}-")
}

/// Default bytes in which space for a log is reserved ahead.
const RESERVE_BYTES: u64 = 4 << 20;
/// Bytes that are reserved ahead in all partitions together.
const RESERVED_AHEAD: u64 = 64 << 20;
/// Bytes that a partition reserves ahead at least.
const LEAST_RESERVED: u64 = 256 << 10;

/// Bytes of log that are set aside for deletions, besides two of the longest tuple; at most what is
/// reserved ahead, and never less than the second number.
const ASIDE_BYTES: u64 = 64 << 10;
const LEAST_ASIDE: u64 = 4 << 10;

/// Returns the options with which a partition's log is written. Where there are many partitions,
/// each reserves less ahead, unless the amount was chosen.
fn wal_options(setup: &Setup, partition: u32, reserve_bytes: u64, catalog: &Catalog) -> WalOptions {
    let share = (RESERVED_AHEAD / u64::from(setup.partitions.max(1))).max(LEAST_RESERVED);
    let chosen = reserve_bytes != RESERVE_BYTES;
    let reserve_bytes = if chosen { reserve_bytes } else { reserve_bytes.min(share) };
    let aside_bytes = ASIDE_BYTES + 2 * longest_deletion(catalog);
    WalOptions {
        reserve_bytes,
        aside_bytes: aside_bytes.min(reserve_bytes.max(LEAST_ASIDE)),
        group: setup.group.max(1),
        closed: setup.closed,
        reaches: 0,
        end: setup.ends.get(partition as usize).copied(),
    }
}

/// The things of which a partition's log is made.
#[derive(Debug)]
pub(crate) struct LogParts<'a, E: Environment> {
    pub(crate) resources: &'a Resources<E>,
    pub(crate) setup: &'a Setup,
    pub(crate) catalog: &'a Catalog,
    pub(crate) reserve_bytes: u64,
    /// The place of its buffer in volatile memory.
    pub(crate) buffer: Range,
}

impl<E: Environment> LogParts<'_, E> {
    /// Creates an empty log.
    pub(crate) fn create(self, start: LogStart) -> Result<LogOf<E>, EngineError> {
        let Self { resources, setup, catalog, reserve_bytes, buffer } = self;
        Ok(Wal::create(
            resources.own_files()?,
            &wal_prefix(resources.partition),
            start,
            resources.volatile.clone(),
            buffer,
            wal_options(setup, resources.partition, reserve_bytes, catalog),
        )?)
    }

    /// Opens the log and calls `redo` with each whole record from `start` on. It is to reach the
    /// transaction `reaches` at least.
    pub(crate) fn recover(
        self,
        start: LogStart,
        reaches: u64,
        redo: impl FnMut(u64, &[u8]) -> Result<(), EngineError>,
    ) -> Result<(LogOf<E>, WalReport), EngineError> {
        let Self { resources, setup, catalog, reserve_bytes, buffer } = self;
        let options = wal_options(setup, resources.partition, reserve_bytes, catalog);
        Wal::recover(
            resources.own_files()?,
            &wal_prefix(resources.partition),
            start,
            resources.volatile.clone(),
            buffer,
            WalOptions { reaches, ..options },
            redo,
        )
    }
}

/// A file log of which each transaction that changes something has one record.
#[derive(Debug)]
pub(crate) struct RedoLog<F: Files, M: Memory> {
    pub(crate) wal: Wal<F, M>,
    /// The operation to be logged, encoded.
    pub(crate) operation: Vec<u8>,
    /// The open transaction has a record.
    open: bool,
}

impl<F: Files, M: Memory> RedoLog<F, M> {
    pub(crate) fn new(wal: Wal<F, M>) -> Self {
        Self { wal, operation: Vec::new(), open: false }
    }

    /// Returns whether the open transaction has a record.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Puts the operation into the open transaction's record. If there is no room for it nothing has
    /// changed; where it fails otherwise the transaction can only abort.
    pub(crate) fn put(&mut self, state: &mut State, need: Need) -> Result<(), EngineError> {
        self.wal.make_room(self.operation.len() as u64, need)?;
        if !self.open {
            self.wal.begin(self.wal.next_txn())?;
            self.open = true;
        }
        self.wal.put(&self.operation).map_err(|error| {
            state.must_abort();
            error.into()
        })
    }

    /// Ends the open transaction's record, and syncs a group that is full.
    pub(crate) fn commit(&mut self, state: &mut State) -> Result<(), EngineError> {
        let appended = match self.wal.end() {
            Ok(appended) => appended,
            Err(error) => return state.stop(error),
        };
        if appended.group_full
            && let Err(error) = self.wal.flush()
        {
            return state.stop(error);
        }
        self.open = false;
        Ok(())
    }

    /// Ends the open transaction's record. A group that is full is written out and left to the syncer.
    pub(crate) fn commit_early(&mut self, state: &mut State) -> Result<(), EngineError> {
        let appended = match self.wal.end() {
            Ok(appended) => appended,
            Err(error) => return state.stop(error),
        };
        if appended.group_full
            && let Err(error) = self.wal.write_out()
        {
            return state.stop(error);
        }
        self.open = false;
        Ok(())
    }

    /// Returns the last transaction that has ended, for a commit that leaves it to the syncer.
    pub(crate) fn early(&self) -> Early {
        let (number, durable) = self.last();
        Early { number, durable, due: !durable && self.wal.is_group_full() }
    }

    /// Makes durable what was written out.
    pub(crate) fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::new(LogSyncer(self.wal.syncer()))
    }

    /// The last transaction that has ended, and whether it is durable.
    pub(crate) fn last(&self) -> (u64, bool) {
        (self.wal.next_txn() - 1, self.wal.pending() == 0)
    }

    /// The last transaction that is durable.
    pub(crate) fn durable(&self) -> u64 {
        self.wal.first_pending_lsn().saturating_sub(1)
    }

    /// Drops the record of the open transaction, which aborts.
    pub(crate) fn discard(&mut self, state: &mut State) -> Result<(), EngineError> {
        if std::mem::take(&mut self.open)
            && let Err(error) = self.wal.discard()
        {
            return state.stop(error);
        }
        Ok(())
    }

    /// Makes all that has ended durable; waits for the end of an open transaction.
    pub(crate) fn sync(&mut self, state: &mut State) -> Result<(), EngineError> {
        if self.open {
            return Ok(());
        }
        match self.wal.flush() {
            Ok(()) => Ok(()),
            Err(error) => state.stop(error),
        }
    }
}

#[derive(Debug)]
struct LogSyncer<R>(WalSyncer<R>);

impl<R: File> Syncer for LogSyncer<R> {
    fn sync(&self) -> Result<u64, EngineError> {
        Ok(self.0.sync()? - 1)
    }
}
