//! Transactions of one partition.

use std::ops::{ControlFlow, Deref, DerefMut};
use std::sync::Arc;

use engines::below::{Catalog, Environment, Native, Row, Value};
use engines::{ConflictReason, EngineError, Read, TxId, VersionReader};

use crate::any_engine::AnyEngine;
use crate::closer::Alarms;
use crate::columns::ColumnRef;
use crate::declared;
use crate::error::Error;
use crate::partition_lock::{PartitionLock, ReadGuard, WriteGuard};
use crate::rerun::Undone;
use crate::sessions::PooledSession;
use crate::table::Table;
use crate::wakeup::Wakeup;

/// A promise that a committed transaction becomes durable: see [`crate::Database::wait`].
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().commit(Commit::grouped(8)));
/// let mut tx = db.begin()?;
/// tx.delete(&account, &[Value::from(1)])?;
/// let ticket: Ticket = tx.commit()?;
/// db.wait(ticket)?;
/// assert!(db.durable(ticket)?);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a ticket says whether the transaction is durable"]
pub struct Ticket {
    pub(crate) partition: usize,
    pub(crate) number: u64,
    pub(crate) durable: bool,
}

impl Ticket {
    /// The transaction's number in its partition.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns true if the transaction was durable when `commit` returned.
    pub fn is_durable(&self) -> bool {
        self.durable
    }
}

/// A partition's engine, for a transaction that may change it.
#[derive(Debug)]
pub(crate) enum Writing<'a, E: Environment> {
    Locked(WriteGuard<'a, AnyEngine<E>>),
    Owned(&'a mut AnyEngine<E>),
    Session(PooledSession<'a, E>),
    /// The transaction has ended, and the partition is given back.
    Ended,
}

impl<'a, E: Environment> Writing<'a, E> {
    /// The partition, if it is taken for this transaction alone.
    #[inline]
    fn partition_lock(&self) -> Option<&'a PartitionLock<AnyEngine<E>>> {
        match self {
            Self::Locked(engine) => Some(engine.partition_lock()),
            Self::Owned(_) | Self::Session(_) | Self::Ended => None,
        }
    }

    /// Detaches the open transaction, so that it can be continued.
    fn detach(&mut self) -> Result<TxId, EngineError> {
        match self {
            Self::Session(session) => session.detach(),
            // It is alone there, so its engine knows of nothing that it has read.
            Self::Owned(_) => Err(EngineError::Unsupported {
                what: "leaving a transaction of one's own partition",
            }),
            other => (**other).detach(),
        }
    }

    /// Returns true if a commit should leave its sync to the group.
    #[inline]
    fn has_company(&self) -> bool {
        self.partition_lock().is_some_and(PartitionLock::has_company)
    }
}

impl<E: Environment> Deref for Writing<'_, E> {
    type Target = AnyEngine<E>;
    #[inline]
    fn deref(&self) -> &AnyEngine<E> {
        match self {
            Self::Locked(engine) => engine,
            Self::Owned(engine) => engine,
            Self::Session(session) => session,
            Self::Ended => unreachable!("a transaction that has ended does nothing"),
        }
    }
}

impl<E: Environment> DerefMut for Writing<'_, E> {
    #[inline]
    fn deref_mut(&mut self) -> &mut AnyEngine<E> {
        match self {
            Self::Locked(engine) => engine,
            Self::Owned(engine) => engine,
            Self::Session(session) => session,
            Self::Ended => unreachable!("a transaction that has ended does nothing"),
        }
    }
}

/// A partition as a reading transaction sees it.
#[derive(Debug)]
pub(crate) enum Reading<'a, E: Environment> {
    Locked(ReadGuard<'a, AnyEngine<E>>),
    Borrowed(&'a AnyEngine<E>),
    Session(PooledSession<'a, E>),
    /// A committed state, in engines that have snapshots: no wait. In the paged engines it is refused
    /// where others have changed what is read.
    Version(VersionReader<'a>),
}

impl<E: Environment> Read for Reading<'_, E> {
    #[inline]
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        match self {
            Self::Locked(engine) => engine.get(table, key, columns, row),
            Self::Borrowed(engine) => engine.get(table, key, columns, row),
            Self::Session(session) => session.get(table, key, columns, row),
            Self::Version(version) => version.get(table, key, columns, row),
        }
    }

    #[inline]
    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        match self {
            Self::Locked(engine) => engine.get_bytes(table, key, columns, out),
            Self::Borrowed(engine) => engine.get_bytes(table, key, columns, out),
            Self::Session(session) => session.get_bytes(table, key, columns, out),
            Self::Version(version) => version.get_bytes(table, key, columns, out),
        }
    }

    fn scan(
        &self,
        table: u16,
        what: &engines::Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        match self {
            Self::Locked(engine) => engine.scan(table, what, row, visit),
            Self::Borrowed(engine) => engine.scan(table, what, row, visit),
            Self::Session(session) => session.scan(table, what, row, visit),
            Self::Version(version) => version.scan(table, what, row, visit),
        }
    }
}

pub(crate) fn own_table(catalog: &Catalog, table: &Table) -> Result<u16, Error> {
    match catalog.tables.get(usize::from(table.number)) {
        Some(layout) if Arc::ptr_eq(layout, &table.layout) => Ok(table.number),
        _ => Err(Error::ForeignTable { table: table.name().into() }),
    }
}

/// A transaction that can change things. Dropping it without a commit aborts it, also when a panic
/// unwinds through it.
///
/// It stays in its thread, since a fence covers what its own thread has flushed. The example
/// `tokio` shows what that means for a program with tasks.
///
/// ```compile_fail,E0277
/// fn to_another_thread<T: Send>(_: T) {}
/// fn begin(db: &perdura::Database) {
///     to_another_thread(db.begin());
/// }
/// ```
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// fn transfer(tx: &mut Tx<'_>, account: &Table, cents: i64) -> Result<(), Error> {
///     tx.modify(account, &[Value::from(1)], |row| vec![(2, Value::from(row.i64(2) - cents))])?;
///     tx.modify(account, &[Value::from(2)], |row| vec![(2, Value::from(row.i64(2) + cents))])
/// }
/// db.write(|tx| transfer(tx, &account, 30))?;
/// assert_eq!(db.get(&account, &[Value::from(2)])?.unwrap().i64(2), 80);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Tx<'a, E: Environment = Native> {
    pub(crate) engine: Writing<'a, E>,
    /// The database's threads to notify, if there are any.
    pub(crate) call: Option<Call<'a, E>>,
    pub(crate) catalog: &'a Catalog,
    pub(crate) partition: usize,
    pub(crate) statements: u64,
}

/// Notifies the database's threads that a partition has work for them.
#[derive(Debug)]
pub(crate) struct Call<'a, E: Environment> {
    pub(crate) wakeup: Option<&'a Wakeup>,
    /// Alarms for groups with a time limit.
    pub(crate) alarms: Option<&'a Alarms>,
    pub(crate) partition_lock: &'a PartitionLock<AnyEngine<E>>,
}

impl<E: Environment> Clone for Call<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E: Environment> Copy for Call<'_, E> {}

impl<E: Environment> Call<'_, E> {
    /// A transaction has ended.
    #[inline]
    fn after(&self, engine: &AnyEngine<E>, partition: usize, durable: bool) {
        if let Some(wakeup) = self.wakeup
            && engine.has_backlog()
        {
            self.partition_lock.leave_backlog();
            wakeup.notify();
        }
        if let (Some(alarms), false) = (self.alarms, durable) {
            alarms.left_open(partition);
        }
    }
}

impl<E: Environment> Tx<'_, E> {
    /// Inserts a tuple with a value for each column.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`], [`Error::Invalid`], [`Error::Full`].
    #[inline]
    pub fn insert(&mut self, table: &Table, values: &[Value<'_>]) -> Result<(), Error> {
        let number = own_table(self.catalog, table)?;
        match declared::insert(&mut **self.engine, (number, &table.layout), values) {
            Ok(()) => self.statements += 1,
            Err(error) => return Err(Error::about_tuple(error, table, values)),
        }
        Ok(())
    }

    /// Inserts a tuple with values for some columns, by number or name. Each of the others gets its
    /// [default](crate::TableSchema::default), or is NULL if it may be.
    ///
    /// # Errors
    /// As [`Tx::insert`]; [`Error::Invalid`] also where a column has no value at all;
    /// [`Error::NoColumn`].
    pub fn insert_columns<C: ColumnRef>(
        &mut self,
        table: &Table,
        values: &[(C, Value<'_>)],
    ) -> Result<(), Error> {
        own_table(self.catalog, table)?;
        let mut buffer = Vec::new();
        let values = C::changes(table, values, &mut buffer)?;
        let all = declared::with_defaults(&table.layout, values)?;
        self.insert(table, &all)
    }

    /// Updates columns, by number or name, each once, of the tuple with this primary key.
    ///
    /// # Errors
    /// [`Error::MissingKey`], [`Error::NoColumn`], [`Error::Invalid`], [`Error::Full`].
    #[inline]
    pub fn update<C: ColumnRef>(
        &mut self,
        table: &Table,
        key: &[Value<'_>],
        changes: &[(C, Value<'_>)],
    ) -> Result<(), Error> {
        let mut buffer = Vec::new();
        let changes = C::changes(table, changes, &mut buffer)?;
        let number = own_table(self.catalog, table)?;
        if !table.layout.is_plain() {
            return self.update_declared(table, key, changes);
        }
        match self.engine.update(number, key, changes) {
            Ok(()) => self.statements += 1,
            Err(error) => return Err(Error::about_key(error, table, key)),
        }
        Ok(())
    }

    /// Deletes the tuple with this primary key.
    ///
    /// # Errors
    /// [`Error::MissingKey`], [`Error::Invalid`].
    #[inline]
    pub fn delete(&mut self, table: &Table, key: &[Value<'_>]) -> Result<(), Error> {
        let number = own_table(self.catalog, table)?;
        match self.engine.delete(number, key) {
            Ok(()) => self.statements += 1,
            Err(error) => return Err(Error::about_key(error, table, key)),
        }
        Ok(())
    }

    /// Leaves the transaction open, to be continued in any thread, or after a crash
    /// ([`crate::Database::resume`]), in engines that continue transactions. Each of its statements
    /// is durable.
    ///
    /// # Errors
    /// [`Error::Unsupported`], also where the partition is owned ([`crate::Exclusive`]); or the
    /// transaction has no statement. The transaction is undone then.
    pub fn detach(mut self) -> Result<TxId, Error> {
        let id = self.engine.detach()?;
        // Its session has none any more.
        self.engine = Writing::Ended;
        Ok(id)
    }

    /// Returns the number of statements that have succeeded in this transaction.
    pub fn statements_done(&self) -> u64 {
        self.statements
    }

    /// Commits.
    ///
    /// # Errors
    /// The medium failed: whether the transaction is committed shows when the database is opened
    /// again, and nothing more is acknowledged. Or it could only be aborted, and has been.
    #[inline]
    pub fn commit(mut self) -> Result<Ticket, Error> {
        self.finish()
    }

    /// Does [`Tx::update`] as the last statement of the transaction, and commits. If it is the only
    /// statement, engines that can (`nvm-inp`, with at most two columns and no indexed one among
    /// them) make both durable at once: with one fence, where an update and a commit take three.
    ///
    /// # Errors
    /// As [`Tx::update`] and [`Tx::commit`]; unless the medium failed, the transaction is undone.
    #[inline]
    pub fn update_and_commit<C: ColumnRef>(
        mut self,
        table: &Table,
        key: &[Value<'_>],
        changes: &[(C, Value<'_>)],
    ) -> Result<Ticket, Error> {
        let mut buffer = Vec::new();
        let changes = C::changes(table, changes, &mut buffer)?;
        self.finish_with_update(table, key, changes)
    }

    #[inline]
    pub(crate) fn finish_with_update(
        &mut self,
        table: &Table,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<Ticket, Error> {
        if self.statements > 0 || self.engine.has_company() {
            self.update(table, key, changes)?;
            return self.finish();
        }
        let number = own_table(self.catalog, table)?;
        // If it fails, dropping this undoes it.
        let done = if table.layout.is_plain() {
            self.engine.update_and_commit(number, key, changes)
        } else {
            self.update_declared_and_commit(table, key, changes)
        };
        let (number, durable) = match done {
            Ok(done) => done,
            Err(error) => return Err(Error::about_key(error, table, key)),
        };
        self.engine.end();
        Ok(self.ended(number, durable))
    }

    /// Works as [`Tx::update`], for a table that is not plain.
    #[inline(never)]
    fn update_declared(
        &mut self,
        table: &Table,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), Error> {
        let place = (table.number, &*table.layout);
        let done = declared::changes(&mut **self.engine, place, key, changes)
            .and_then(|changes| self.engine.update(table.number, key, &changes));
        done.map_err(|error| Error::about_key(error, table, key))?;
        self.statements += 1;
        Ok(())
    }

    /// Works as [`engines::Engine::update_and_commit`], for a table that is not plain.
    #[inline(never)]
    fn update_declared_and_commit(
        &mut self,
        table: &Table,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(u64, bool), EngineError> {
        let place = (table.number, &*table.layout);
        let changes = declared::changes(&mut **self.engine, place, key, changes)?;
        self.engine.update_and_commit(table.number, key, &changes)
    }

    /// Commits without moving the transaction: a value that is moved right after a fence is waited
    /// for until the fence is done.
    #[inline]
    pub(crate) fn finish(&mut self) -> Result<Ticket, Error> {
        if self.engine.has_company() {
            return self.finish_early();
        }
        self.engine.end();
        let done = self.engine.commit();
        let (number, durable) = self.abort_if_needed(done)?;
        Ok(self.ended(number, durable))
    }

    /// Handles a commit that failed: the transaction is undone if it has to be.
    #[inline]
    fn abort_if_needed<T>(&mut self, done: Result<T, EngineError>) -> Result<T, Error> {
        if let Err(EngineError::MustAbort | EngineError::Conflict { .. } | EngineError::Diverged) =
            done
        {
            self.engine.abort()?;
        }
        Ok(done?)
    }

    /// Commits, gives the partition to waiting threads, and returns when the transaction is
    /// durable.
    #[cold]
    fn finish_early(&mut self) -> Result<Ticket, Error> {
        self.engine.end();
        let done = self.engine.commit_early();
        let early = self.abort_if_needed(done)?;
        let ticket = self.ended(early.number, early.durable);
        if !early.due {
            return Ok(ticket);
        }
        if let Writing::Locked(engine) = std::mem::replace(&mut self.engine, Writing::Ended) {
            engine.leave_sync(early.number)?;
        }
        Ok(Ticket { durable: true, ..ticket })
    }

    /// Ends a transaction whose work has failed with `error`. The error may be due to what the
    /// transaction saw of others that have ended and are not durable yet. So it is returned only
    /// when they are durable.
    #[inline]
    pub(crate) fn fail<X: From<Error>>(self, error: X) -> Undone<X> {
        let Some(partition_lock) = self.engine.partition_lock() else {
            return self.engine.conflict().map_or(Undone::Otherwise(error), Undone::Conflict);
        };
        let seen = partition_lock.group.newest();
        drop(self);
        match partition_lock.wait_durable(seen) {
            Ok(()) => Undone::Otherwise(error),
            Err(failed) => Error::from(failed).into(),
        }
    }

    #[inline]
    fn ended(&self, number: u64, durable: bool) -> Ticket {
        if let Some(call) = &self.call {
            call.after(&self.engine, self.partition, durable);
        }
        Ticket { partition: self.partition, number, durable }
    }

    /// Undoes everything that the transaction has done.
    ///
    /// # Errors
    /// The medium failed; the next opening undoes it.
    pub fn abort(mut self) -> Result<(), Error> {
        self.engine.end();
        Ok(self.engine.abort()?)
    }
}

impl<E: Environment> Drop for Tx<'_, E> {
    fn drop(&mut self) {
        if !matches!(self.engine, Writing::Ended) {
            self.engine.abort_open();
        }
    }
}

/// A transaction that only reads. Several can run at the same time; in engines with snapshots
/// (`cow`, `nvm-cow`) each sees what was committed when it began, and neither waits for a writer
/// nor keeps one waiting.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// fn balance(tx: &ReadTx<'_>, account: &Table, id: u64) -> Result<i64, Error> {
///     Ok(tx.get(account, &[Value::from(id)])?.map_or(0, |row| row.i64(2)))
/// }
/// let both = db.read(|tx| Ok(balance(tx, &account, 1)? + balance(tx, &account, 2)?))?;
/// assert_eq!(both, 150);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct ReadTx<'a, E: Environment = Native> {
    pub(crate) engine: Reading<'a, E>,
    pub(crate) catalog: &'a Catalog,
}

impl<E: Environment> ReadTx<'_, E> {
    /// The conflict that it was in.
    #[inline]
    pub(crate) fn conflict(&self) -> Option<ConflictReason> {
        match &self.engine {
            Reading::Locked(_) | Reading::Borrowed(_) => None,
            Reading::Version(version) => {
                version.is_in_conflict().then_some(ConflictReason::Validation)
            }
            Reading::Session(session) => session.conflict(),
        }
    }

    /// Ends the transaction, which may turn out to have seen no consistent view.
    #[inline]
    pub(crate) fn end(self) -> Result<(), Error> {
        match self.engine {
            Reading::Version(version) if version.is_in_conflict() => {
                Err(Error::Conflict { reason: ConflictReason::Validation, tries: 1 })
            }
            Reading::Locked(_) | Reading::Borrowed(_) | Reading::Version(_) => Ok(()),
            Reading::Session(mut session) => {
                let _ = session.commit()?;
                session.end();
                Ok(())
            }
        }
    }
}
