//! Putting many tuples into a database, in transactions of some size each.

use engines::below::{Environment, Row, StorageError, Value};

use crate::administration::tuple_code::encode;
use crate::database::Database;
use crate::error::Error;
use crate::table::Table;
use crate::transaction::Tx;

/// Bytes of tuples after which a transaction ends.
const BATCH_BYTES: u64 = 1 << 20;

/// Inserts tuples in transactions: each is committed when it is large enough, or when the next
/// tuple belongs into another partition. What is not committed is undone when this is dropped.
pub(crate) struct Loader<'d, E: Environment> {
    database: &'d Database<E>,
    tx: Option<Tx<'d, E>>,
    partition: usize,
    /// Tuples after which a transaction ends.
    batch: u64,
    /// Tuples and bytes in the open transaction.
    tuples: u64,
    bytes: u64,
    commits: u64,
    row: Row,
    encoded: Vec<u8>,
}

impl<'d, E: Environment> Loader<'d, E> {
    pub(crate) fn new(database: &'d Database<E>, batch: u64) -> Self {
        let (row, encoded) = (Row::new(), Vec::new());
        Self {
            database,
            tx: None,
            partition: 0,
            batch,
            tuples: 0,
            bytes: 0,
            commits: 0,
            row,
            encoded,
        }
    }

    /// Returns the number of committed transactions. A call that increases it has committed all
    /// that was put in before the call, and nothing of its own.
    pub(crate) fn commits(&self) -> u64 {
        self.commits
    }

    /// The open transaction of this partition.
    fn tx(&mut self, partition: usize) -> Result<&mut Tx<'d, E>, Error> {
        let full = self.tuples >= self.batch || self.bytes >= BATCH_BYTES;
        if full || partition != self.partition {
            self.commit()?;
        }
        self.partition = partition;
        if self.tx.is_none() {
            self.tx = Some(self.database.partition(partition).begin()?);
        }
        Ok(self.tx.as_mut().expect("it has begun"))
    }

    /// Inserts a tuple of so many bytes.
    ///
    /// # Errors
    /// As [`Tx::insert`]; the open transaction is as before then. Or a transaction could not be
    /// committed.
    pub(crate) fn insert(
        &mut self,
        partition: usize,
        table: &Table,
        values: &[Value<'_>],
        bytes: u64,
    ) -> Result<(), Error> {
        self.change(partition, bytes, |tx| tx.insert(table, values))
    }

    /// Gives the tuple that has the primary key of these values the other values, too.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub(crate) fn replace(
        &mut self,
        partition: usize,
        table: &Table,
        values: &[Value<'_>],
        bytes: u64,
    ) -> Result<(), Error> {
        let key = key_of(table, values);
        let in_key: Vec<_> = table.layout.key_columns().collect();
        let others = (0..).zip(values).filter(|(column, _)| !in_key.contains(column));
        let changes: Vec<_> = others.map(|(column, value)| (column as u16, *value)).collect();
        self.change(partition, bytes, |tx| tx.update(table, &key, &changes))
    }

    fn change(
        &mut self,
        partition: usize,
        bytes: u64,
        mut change: impl FnMut(&mut Tx<'d, E>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut done = change(self.tx(partition)?);
        if let Err(Error::Invalid(StorageError::TransactionTooLarge { .. })) = done
            && self.tuples > 0
        {
            self.commit()?;
            done = change(self.tx(partition)?);
        }
        done?;
        self.tuples += 1;
        self.bytes += bytes;
        Ok(())
    }

    /// The bytes of the tuple that has the primary key of these values.
    pub(crate) fn stored(
        &mut self,
        partition: usize,
        table: &Table,
        values: &[Value<'_>],
    ) -> Result<&[u8], Error> {
        let key = key_of(table, values);
        let mut row = std::mem::take(&mut self.row);
        let found = self.tx(partition)?.get_into(table, &key, &mut row)?;
        self.encoded.clear();
        if found {
            encode(table.schema(), row.values(), &mut self.encoded);
        }
        self.row = row;
        Ok(&self.encoded)
    }

    /// Commits the open transaction, if there is one.
    pub(crate) fn commit(&mut self) -> Result<(), Error> {
        (self.tuples, self.bytes) = (0, 0);
        if let Some(tx) = self.tx.take() {
            let _ticket = tx.commit()?;
            self.commits += 1;
        }
        Ok(())
    }
}

fn key_of<'v>(table: &Table, values: &[Value<'v>]) -> Vec<Value<'v>> {
    table.layout.key_columns().map(|column| values[column]).collect()
}
