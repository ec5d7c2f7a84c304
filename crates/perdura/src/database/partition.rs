//! A partition of a database: transactions in it, and owning it.

use engines::below::{Catalog, Environment, Native, Value};

use super::Database;
use crate::any_engine::AnyEngine;
use crate::bell::Bell;
use crate::error::Error;
use crate::snapshot::Snapshot;
use crate::sync::RwLockWriteGuard;
use crate::table::Table;
use crate::transaction::{Call, ReadTx, Reading, Tx, Writing};
use crate::turns::{ReadGuard, Turns};

/// One partition of a database. Its transactions run one after the other; those of different
/// partitions at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Partition<'a, E: Environment = Native> {
    pub(super) database: &'a Database<E>,
    pub(super) number: usize,
}

impl<'a, E: Environment> Partition<'a, E> {
    #[inline]
    fn turns(&self) -> &'a Turns<AnyEngine<E>> {
        &self.database.partitions[self.number]
    }

    #[inline]
    pub(super) fn write_lock(&self) -> RwLockWriteGuard<'a, AnyEngine<E>> {
        self.turns().write()
    }

    #[inline]
    pub(super) fn read_lock(&self) -> ReadGuard<'a, AnyEngine<E>> {
        self.turns().read()
    }

    /// Begins a transaction; waits for the one that is open in this partition.
    #[inline]
    pub fn begin(&self) -> Tx<'a, E> {
        let mut engine = self.write_lock();
        engine.begin();
        Tx {
            engine: Writing::Locked(engine),
            call: self.database.bell().map(|bell| Call { bell, turns: self.turns() }),
            catalog: &self.database.catalog,
            partition: self.number,
            statements: 0,
        }
    }

    /// Takes the partition for oneself, for as long as the result lives: a worker that owns a
    /// partition (P1 3) pays for no lock, so that reads of the next transaction overlap with the
    /// last fence of the one before.
    ///
    /// Everybody else waits meanwhile, also calls that look at the whole database, such as
    /// [`Database::footprint`] and [`Database::check`]: do not make them in the thread that has
    /// the partition. Only the thread in the background, if there is one, is let in between two
    /// transactions ([`crate::Background::Thread`]).
    pub fn exclusive(&self) -> Exclusive<'a, E> {
        let turns = self.turns();
        Exclusive {
            turns,
            engine: Some(turns.write()),
            bell: self.database.bell(),
            catalog: &self.database.catalog,
            partition: self.number,
        }
    }

    /// As [`Database::snapshot`], of this partition.
    ///
    /// # Errors
    /// [`Error::NoSnapshots`]; the partition has stopped, or the medium has failed.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        let source = self.database.snapshots[self.number].as_ref();
        let reader = source.ok_or(Error::NoSnapshots { engine: self.database.kind })?.snapshot()?;
        Ok(Snapshot { reader, catalog: self.database.catalog.clone() })
    }

    /// As [`Database::write`], in this partition.
    ///
    /// # Errors
    /// As [`Database::write`].
    #[inline]
    pub fn write<R>(
        &self,
        mut work: impl FnMut(&mut Tx<'_, E>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut tx = self.begin();
        let result = work(&mut tx)?;
        let _ticket = tx.finish()?;
        Ok(result)
    }

    /// Updates columns, given by number, of the tuple with this primary key: a transaction of one
    /// statement, as [`Tx::update_and_commit`]; durable unless commits are grouped.
    ///
    /// # Errors
    /// As [`Tx::update`] and [`Tx::commit`].
    #[inline]
    pub fn update(
        &self,
        table: &Table,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), Error> {
        let _ticket = self.begin().finish_with_update(table, key, changes)?;
        Ok(())
    }

    /// As [`Database::read`], in this partition.
    ///
    /// # Errors
    /// What `work` returned.
    #[inline]
    pub fn read<R>(
        &self,
        work: impl FnOnce(&ReadTx<'a, E>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let engine = Reading::Locked(self.read_lock());
        work(&ReadTx { engine, catalog: &self.database.catalog })
    }
}

/// A partition that nobody else can use meanwhile; see [`Partition::exclusive`].
#[derive(Debug)]
pub struct Exclusive<'a, E: Environment = Native> {
    turns: &'a Turns<AnyEngine<E>>,
    /// None only while the thread in the background is let in.
    engine: Option<RwLockWriteGuard<'a, AnyEngine<E>>>,
    bell: Option<&'a Bell>,
    catalog: &'a Catalog,
    partition: usize,
}

impl<E: Environment> Exclusive<'_, E> {
    #[cold]
    fn let_in(&mut self) {
        self.give_back();
        self.turns.let_in();
        self.engine = Some(self.turns.write());
    }

    /// Lets go of the partition, in which no transaction is open then: one that was leaked
    /// ([`std::mem::forget`]) would go on as that of whoever has it next.
    fn give_back(&mut self) {
        if let Some(mut engine) = self.engine.take() {
            engine.abort_open();
        }
    }

    /// Begins a transaction. One that was leaked ([`std::mem::forget`]) is undone.
    #[inline]
    pub fn begin(&mut self) -> Tx<'_, E> {
        if self.turns.is_wanted() {
            self.let_in();
        }
        let engine = &mut **self.engine.as_mut().expect("the partition is taken");
        engine.begin();
        Tx {
            engine: Writing::Owned(engine),
            call: self.bell.map(|bell| Call { bell, turns: self.turns }),
            catalog: self.catalog,
            partition: self.partition,
            statements: 0,
        }
    }

    /// As [`Database::write`], in this partition.
    ///
    /// # Errors
    /// As [`Database::write`].
    #[inline]
    pub fn write<R>(
        &mut self,
        mut work: impl for<'t> FnMut(&mut Tx<'t, E>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut tx = self.begin();
        let result = work(&mut tx)?;
        let _ticket = tx.finish()?;
        Ok(result)
    }

    /// Updates columns, given by number, of the tuple with this primary key: a transaction of one
    /// statement, as [`Tx::update_and_commit`]; durable unless commits are grouped.
    ///
    /// # Errors
    /// As [`Tx::update`] and [`Tx::commit`].
    #[inline]
    pub fn update(
        &mut self,
        table: &Table,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), Error> {
        let _ticket = self.begin().finish_with_update(table, key, changes)?;
        Ok(())
    }

    /// As [`Database::read`], in this partition. It sees what a transaction did that was leaked
    /// ([`std::mem::forget`]), until the next one begins.
    ///
    /// # Errors
    /// What `work` returned.
    #[inline]
    pub fn read<R>(
        &self,
        work: impl FnOnce(&ReadTx<'_, E>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        work(&ReadTx {
            engine: Reading::Borrowed(self.engine.as_ref().expect("the partition is taken")),
            catalog: self.catalog,
        })
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
