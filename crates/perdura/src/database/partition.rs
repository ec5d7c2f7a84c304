//! A partition of a database: transactions in it, and owning it.

use std::time::Duration;

use engines::below::{Catalog, Environment, Native, Row, Value};
use engines::{Begin, Isolation, VersionReader};

use super::{Copying, Database};
use crate::any_engine::AnyEngine;
use crate::columns::ColumnRef;
use crate::error::Error;
use crate::options::{WriteOptions, refuse_more};
use crate::partition_lock::{PartitionLock, ReadGuard, WriteGuard};
use crate::rerun::{Tries, Undone};
use crate::sessions::{PooledSession, SessionError, SessionPool, Still};
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::transaction::{Call, ReadTx, Reading, Tx, Writing};

/// One partition of a database. Its transactions run one after the other; those of different
/// partitions at the same time.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// let partition: Partition<'_> = db.partition(0);
/// partition.write(|tx| tx.update(&account, &[Value::from(1)], &[("balance", Value::from(70))]))?;
/// assert_eq!(partition.get(&account, &[Value::from(1)])?.unwrap().i64(2), 70);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Partition<'a, E: Environment = Native> {
    pub(super) database: &'a Database<E>,
    pub(super) number: usize,
}

impl<'a, E: Environment> Partition<'a, E> {
    #[inline]
    fn partition_lock(&self) -> &'a PartitionLock<AnyEngine<E>> {
        &self.database.partitions[self.number]
    }

    #[inline]
    pub(super) fn write_lock(&self) -> Result<WriteGuard<'a, AnyEngine<E>>, Error> {
        self.partition_lock().write().map_err(|taken| Error::taken(self.number, taken))
    }

    #[inline]
    pub(crate) fn read_lock(&self) -> Result<ReadGuard<'a, AnyEngine<E>>, Error> {
        self.partition_lock().read().map_err(|taken| Error::taken(self.number, taken))
    }

    /// Takes the partition for a long read, with no transaction open in it; waits for so long at
    /// most.
    pub(super) fn copy_lock(&self, most: Option<Duration>) -> Result<Copying<'a, E>, Error> {
        let taken = |taken| Error::taken(self.number, taken);
        let still = self.still(most)?;
        Ok(Copying { engine: self.partition_lock().copy(most).map_err(taken)?, _still: still })
    }

    /// Keeps the sessions still: no transaction is open in one from now on.
    pub(super) fn still(&self, most: Option<Duration>) -> Result<Option<Still<'a, E>>, Error> {
        let pool = self.database.sessions.get(self.number);
        let taken = |taken| Error::taken(self.number, taken);
        pool.map(|pool| pool.still(most)).transpose().map_err(taken)
    }

    /// Begins a transaction; waits for the one that is open in this partition, unless the engine
    /// runs many at the same time.
    ///
    /// # Errors
    /// [`Error::Nested`] if this thread has the partition already; [`Error::Busy`] if it has
    /// another one and this one is not free within [`crate::Options::retry_for`].
    #[inline]
    pub fn begin(&self) -> Result<Tx<'a, E>, Error> {
        self.begin_try(&mut Tries::default())
    }

    /// Works as [`Database::try_begin`], in this partition.
    ///
    /// # Errors
    /// As [`Database::try_begin`].
    pub fn try_begin(&self, wait: Duration) -> Result<Tx<'a, E>, Error> {
        self.begin_with(&mut Tries::default(), WriteOptions::new().wait(wait))
    }

    /// Begins a try of a transaction.
    #[inline]
    fn begin_try(&self, tries: &mut Tries) -> Result<Tx<'a, E>, Error> {
        if self.database.is_shared() {
            return self.begin_session(tries, WriteOptions::new());
        }
        let mut engine = self.partition_lock().join(|| self.write_lock())?;
        engine.begin();
        Ok(self.tx(Writing::Locked(engine)))
    }

    #[cold]
    fn begin_session(&self, tries: &mut Tries, how: WriteOptions) -> Result<Tx<'a, E>, Error> {
        Ok(self.tx(Writing::Session(self.session(tries, how, None)?)))
    }

    /// A session with a transaction in it, which may change something.
    pub(super) fn session(
        &self,
        tries: &mut Tries,
        how: WriteOptions,
        name: Option<&[u8]>,
    ) -> Result<PooledSession<'a, E>, Error> {
        self.session_for(false, tries, how, name)
    }

    fn session_for(
        &self,
        reads_only: bool,
        tries: &mut Tries,
        how: WriteOptions,
        name: Option<&[u8]>,
    ) -> Result<PooledSession<'a, E>, Error> {
        let pool = &self.database.sessions[self.number];
        let wait = how.wait.unwrap_or(self.database.retry_for);
        let begin = Begin {
            isolation: self.isolation(how)?,
            age: *tries.age.get_or_insert_with(|| pool.next_age()),
            // A rerun ends with the time for all of them.
            wait: Some(tries.left().map_or(wait, |left| wait.min(left))),
            reads_only,
        };
        pool.begin(&begin, name, wait).map_err(|error| self.no_session(error))
    }

    /// Returns the error of a partition in which no session can be had.
    pub(super) fn no_session(&self, error: SessionError) -> Error {
        match error {
            SessionError::Taken(taken) => Error::taken(self.number, taken),
            SessionError::Engine(error) => error.into(),
        }
    }

    /// The isolation that a transaction gets at least.
    fn isolation(&self, how: WriteOptions) -> Result<Isolation, Error> {
        refuse_more(how.isolation, self.database.engine.traits.isolation)?;
        Ok(how.isolation.unwrap_or(self.database.isolation))
    }

    #[inline]
    pub(super) fn tx(&self, engine: Writing<'a, E>) -> Tx<'a, E> {
        Tx {
            engine,
            call: self.database.call(self.number),
            catalog: &self.database.catalog,
            partition: self.number,
            statements: 0,
        }
    }

    /// Takes the partition for this thread alone, for as long as the result lives. A worker that
    /// owns a partition (P1 3) pays for no lock, so that reads of the next transaction overlap with
    /// the last fence of the one before.
    ///
    /// All other uses of the partition wait meanwhile, except readers in engines with snapshots, and
    /// in the paged ones as long as they need no locks. So
    /// do calls that look at the whole database, such as [`Database::footprint`] and
    /// [`Database::check`]; in the thread that owns the partition they return [`Error::Nested`].
    /// Only the background thread, if there is one, is let in between two transactions
    /// ([`crate::Background::Thread`]).
    ///
    /// # Errors
    /// [`Error::Nested`], [`Error::Busy`], as [`Partition::begin`].
    pub fn exclusive(&self) -> Result<Exclusive<'a, E>, Error> {
        let partition_lock = self.partition_lock();
        self.database.sessions.get(self.number).into_iter().for_each(SessionPool::end_overdue);
        let still = self.still(partition_lock.patience())?;
        let mut engine = partition_lock.join(|| self.write_lock())?;
        own(&mut engine);
        Ok(Exclusive {
            still,
            partition_lock,
            engine: Some(engine),
            call: self.database.call(self.number),
            catalog: &self.database.catalog,
            partition: self.number,
        })
    }

    /// Returns the number of transactions that wait: for the one that is open in this partition, or
    /// to become durable.
    pub fn waiting(&self) -> u32 {
        self.partition_lock().joining() + self.partition_lock().group.members()
    }

    /// Works as [`Database::snapshot`], for this partition.
    ///
    /// # Errors
    /// [`Error::NoSnapshots`]; the partition has stopped, or the medium has failed.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        let source = self.database.snapshots[self.number].as_ref();
        let reader = source
            .ok_or_else(|| Error::NoSnapshots { engine: self.database.engine.name.clone() })?
            .snapshot()?;
        Ok(Snapshot { reader, catalog: self.database.catalog.clone() })
    }

    /// Works as [`Database::write`], in this partition.
    ///
    /// # Errors
    /// As [`Database::write`].
    #[inline]
    pub fn write<R>(
        &self,
        work: impl FnMut(&mut Tx<'_, E>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.write_or(work)
    }

    /// Works as [`Database::write_or`], in this partition.
    ///
    /// # Errors
    /// As [`Database::write`].
    #[inline]
    pub fn write_or<R, X: From<Error>>(
        &self,
        mut work: impl FnMut(&mut Tx<'_, E>) -> Result<R, X>,
    ) -> Result<R, X> {
        let mut tries = Tries::default();
        loop {
            let done = match self.begin_try(&mut tries) {
                Ok(tx) => run(tx, &mut work),
                Err(error) => Err(error.into()),
            };
            match done {
                Ok(found) => return Ok(found),
                Err(Undone::Otherwise(error)) => return Err(error),
                Err(Undone::Conflict(reason)) => tries.again(reason, self.database.retry_for)?,
            }
        }
    }

    /// Works as [`Database::write_with`], in this partition.
    ///
    /// # Errors
    /// As [`Database::write_with`].
    pub fn write_with<R, X: From<Error>>(
        &self,
        options: WriteOptions,
        mut work: impl FnMut(&mut Tx<'_, E>) -> Result<R, X>,
    ) -> Result<R, X> {
        let retry_for = options.retry_for.unwrap_or(self.database.retry_for);
        let mut tries = Tries::default();
        loop {
            let done = match self.begin_with(&mut tries, options) {
                Ok(tx) => run(tx, &mut work),
                Err(error) => Err(error.into()),
            };
            match done {
                Ok(found) => return Ok(found),
                Err(Undone::Otherwise(error)) => return Err(error),
                Err(Undone::Conflict(reason)) => tries.again(reason, retry_for)?,
            }
        }
    }

    fn begin_with(&self, tries: &mut Tries, how: WriteOptions) -> Result<Tx<'a, E>, Error> {
        if self.database.is_shared() {
            return self.begin_session(tries, how);
        }
        // One at a time: serializable, whatever is asked for.
        self.isolation(how)?;
        let partition_lock = self.partition_lock();
        let mut engine = partition_lock.join(|| match how.wait {
            None => self.write_lock(),
            Some(wait) => {
                partition_lock.write_for(wait).map_err(|taken| Error::taken(self.number, taken))
            }
        })?;
        engine.begin();
        Ok(self.tx(Writing::Locked(engine)))
    }

    /// Updates columns, by number or name, of the tuple with this primary key: a transaction of one
    /// statement, as [`Tx::update_and_commit`]; durable unless commits are grouped.
    ///
    /// # Errors
    /// As [`Tx::update`] and [`Tx::commit`].
    #[inline]
    pub fn update<C: ColumnRef>(
        &self,
        table: &Table,
        key: &[Value<'_>],
        changes: &[(C, Value<'_>)],
    ) -> Result<(), Error> {
        let mut buffer = Vec::new();
        let changes = C::changes(table, changes, &mut buffer)?;
        let mut tries = Tries::default();
        loop {
            let tx = self.begin_try(&mut tries);
            match tx.and_then(|mut tx| tx.finish_with_update(table, key, changes)) {
                Err(Error::Conflict { reason, .. }) => {
                    tries.again(reason, self.database.retry_for)?;
                }
                done => return done.map(|_ticket| ()),
            }
        }
    }

    /// Works as [`Database::read`], in this partition.
    ///
    /// # Errors
    /// As [`Database::read`].
    #[inline]
    pub fn read<R>(
        &self,
        work: impl FnMut(&ReadTx<'a, E>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.read_or(work)
    }

    /// Works as [`Database::read_or`], in this partition.
    ///
    /// # Errors
    /// As [`Database::read`].
    #[inline]
    pub fn read_or<R, X: From<Error>>(
        &self,
        mut work: impl FnMut(&ReadTx<'a, E>) -> Result<R, X>,
    ) -> Result<R, X> {
        let (mut tries, mut locks) = (Tries::default(), false);
        loop {
            // The newest commit that a read in place has seen and that may not be durable yet.
            let mut seen = 0;
            let unlocked = self.database.unlocked[self.number].as_ref().filter(|_| !locks);
            let engine = if let Some(source) = unlocked {
                Reading::Version(VersionReader::new(&**source).map_err(Error::from)?)
            } else if self.database.is_shared() {
                self.read_session(&mut tries)?
            } else if let Some(source) = &self.database.snapshots[self.number] {
                Reading::Version(VersionReader::new(&**source).map_err(Error::from)?)
            } else {
                let engine = self.read_lock()?;
                seen = self.partition_lock().group.newest();
                Reading::Locked(engine)
            };
            let tx = ReadTx { engine, catalog: &self.database.catalog };
            let done = match work(&tx) {
                Ok(found) => tx.end().map(|()| found).map_err(Undone::from),
                Err(error) => {
                    let conflict = tx.conflict();
                    drop(tx);
                    Err(conflict.map_or(Undone::Otherwise(error), Undone::Conflict))
                }
            };
            self.partition_lock().wait_durable(seen).map_err(Error::from)?;
            match done {
                Ok(found) => return Ok(found),
                Err(Undone::Otherwise(error)) => return Err(error),
                // Others have changed what it was to see without locks.
                Err(Undone::Conflict(_)) if unlocked.is_some() => locks = true,
                Err(Undone::Conflict(reason)) => tries.again(reason, self.database.retry_for)?,
            }
        }
    }

    /// Works as [`Database::get`], in this partition.
    ///
    /// # Errors
    /// As [`Database::get`].
    pub fn get(&self, table: &Table, key: &[Value<'_>]) -> Result<Option<Row>, Error> {
        self.read(|tx| tx.get(table, key))
    }

    #[cold]
    fn read_session(&self, tries: &mut Tries) -> Result<Reading<'a, E>, Error> {
        Ok(Reading::Session(self.session_for(true, tries, WriteOptions::new(), None)?))
    }
}

/// Runs `work` in a transaction and commits it.
#[inline]
pub(super) fn run<'a, E: Environment, R, X: From<Error>>(
    mut tx: Tx<'a, E>,
    work: &mut impl FnMut(&mut Tx<'a, E>) -> Result<R, X>,
) -> Result<R, Undone<X>> {
    match work(&mut tx) {
        Ok(result) => {
            let _ticket = tx.finish()?;
            Ok(result)
        }
        Err(error) => Err(tx.fail(error)),
    }
}

/// Makes the partition owned, for long. Waiting commits are synced first, since no other thread
/// could do that meanwhile.
fn own<E: Environment>(engine: &mut WriteGuard<'_, AnyEngine<E>>) {
    engine.partition_lock().own(true);
    if engine.partition_lock().group.has_members() {
        // Where it fails the partition has stopped, and says so.
        let _ = engine.sync_all();
    }
}

/// A partition that this thread owns, so that nothing else uses it; see [`Partition::exclusive`].
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// let mut own: Exclusive<'_> = db.partition(0).exclusive()?;
/// for cents in [70, 80] {
///     own.update(&account, &[Value::from(1)], &[("balance", Value::from(cents))])?;
/// }
/// assert_eq!(own.get(&account, &[Value::from(1)])?.unwrap().i64(2), 80);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Exclusive<'a, E: Environment = Native> {
    partition_lock: &'a PartitionLock<AnyEngine<E>>,
    /// None only while the thread in the background is let in.
    engine: Option<WriteGuard<'a, AnyEngine<E>>>,
    call: Option<Call<'a, E>>,
    catalog: &'a Catalog,
    partition: usize,
    still: Option<Still<'a, E>>,
}

impl<E: Environment> Exclusive<'_, E> {
    #[cold]
    fn let_in(&mut self) {
        self.give_back();
        self.partition_lock.let_in();
        own(self.engine.insert(self.partition_lock.write_again()));
    }

    /// Gives the partition back, with no transaction open in it: a leaked one
    /// ([`std::mem::forget`]) would go on as a transaction of the next holder.
    fn give_back(&mut self) {
        if let Some(mut engine) = self.engine.take() {
            engine.abort_open();
            self.partition_lock.own(false);
        }
    }

    /// Begins a transaction. One that was leaked ([`std::mem::forget`]) is undone.
    #[inline]
    pub fn begin(&mut self) -> Tx<'_, E> {
        if self.partition_lock.is_wanted() {
            self.let_in();
        }
        if let Some(still) = &self.still {
            still.end_overdue();
        }
        let engine = &mut **self.engine.as_mut().expect("the partition is taken");
        engine.begin();
        Tx {
            engine: Writing::Owned(engine),
            call: self.call,
            catalog: self.catalog,
            partition: self.partition,
            statements: 0,
        }
    }

    /// Works as [`Database::write`], in this partition.
    ///
    /// # Errors
    /// As [`Database::write`].
    #[inline]
    pub fn write<R>(
        &mut self,
        work: impl for<'t> FnMut(&mut Tx<'t, E>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.write_or(work)
    }

    /// Works as [`Database::write_or`], in this partition; the closure is run once.
    ///
    /// # Errors
    /// As [`Database::write`].
    #[inline]
    pub fn write_or<R, X: From<Error>>(
        &mut self,
        mut work: impl for<'t> FnMut(&mut Tx<'t, E>) -> Result<R, X>,
    ) -> Result<R, X> {
        let mut tx = self.begin();
        let result = work(&mut tx)?;
        let _ticket = tx.finish()?;
        // It has ended, and holds nothing of its own.
        std::mem::forget(tx);
        Ok(result)
    }

    /// Updates columns, by number or name, of the tuple with this primary key: a transaction of one
    /// statement, as [`Tx::update_and_commit`]; durable unless commits are grouped.
    ///
    /// # Errors
    /// As [`Tx::update`] and [`Tx::commit`].
    #[inline]
    pub fn update<C: ColumnRef>(
        &mut self,
        table: &Table,
        key: &[Value<'_>],
        changes: &[(C, Value<'_>)],
    ) -> Result<(), Error> {
        let mut buffer = Vec::new();
        let changes = C::changes(table, changes, &mut buffer)?;
        let mut tx = self.begin();
        let _ticket = tx.finish_with_update(table, key, changes)?;
        // It has ended, and holds nothing of its own.
        std::mem::forget(tx);
        Ok(())
    }

    /// Works as [`Database::read`], in this partition. It sees what a transaction did that was
    /// leaked ([`std::mem::forget`]), until the next one begins.
    ///
    /// # Errors
    /// The error that `work` returned.
    #[inline]
    pub fn read<R>(
        &self,
        work: impl FnOnce(&ReadTx<'_, E>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.read_or(work)
    }

    /// Works as [`Database::read_or`], in this partition.
    ///
    /// # Errors
    /// The error that `work` returned.
    #[inline]
    pub fn read_or<R, X: From<Error>>(
        &self,
        work: impl FnOnce(&ReadTx<'_, E>) -> Result<R, X>,
    ) -> Result<R, X> {
        let tx = ReadTx {
            engine: Reading::Borrowed(self.engine.as_ref().expect("the partition is taken")),
            catalog: self.catalog,
        };
        let done = work(&tx);
        // It holds nothing of its own.
        std::mem::forget(tx);
        done
    }

    /// Works as [`Database::get`], in this partition.
    ///
    /// # Errors
    /// As [`Tx::get`].
    pub fn get(&self, table: &Table, key: &[Value<'_>]) -> Result<Option<Row>, Error> {
        self.read(|tx| tx.get(table, key))
    }

    /// Makes everything committed so far in this partition durable.
    ///
    /// # Errors
    /// The medium failed.
    pub fn sync(&mut self) -> Result<(), Error> {
        let engine = self.engine.as_mut().expect("the partition is taken");
        engine.abort_open();
        Ok(engine.sync()?)
    }
}

impl<E: Environment> Drop for Exclusive<'_, E> {
    fn drop(&mut self) {
        self.give_back();
    }
}
