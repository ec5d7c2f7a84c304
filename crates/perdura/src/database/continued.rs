//! Transactions that go on after a crash, or in another thread, in engines that continue them.

use engines::below::Environment;
use engines::{EngineError, InFlight, TxId};

use super::partition::run;
use super::{Database, Partition};
use crate::error::Error;
use crate::options::WriteOptions;
use crate::rerun::{Tries, Undone};
use crate::sessions::{Continue, SessionPool};
use crate::transaction::{Tx, Writing};

impl<'a, E: Environment> Partition<'a, E> {
    /// Works as [`Database::begin_named`], in this partition.
    ///
    /// # Errors
    /// As [`Database::begin_named`].
    pub fn begin_named(&self, name: &[u8]) -> Result<Tx<'a, E>, Error> {
        self.begin_try_named(&mut Tries::default(), name)
    }

    fn begin_try_named(&self, tries: &mut Tries, name: &[u8]) -> Result<Tx<'a, E>, Error> {
        if !self.database.is_shared() {
            return Err(unsupported());
        }
        Ok(self.tx(Writing::Session(self.session(tries, WriteOptions::new(), Some(name))?)))
    }

    /// Returns the transactions that wait to be continued: a crash cut them off, or they were
    /// detached. None in engines that undo them ([`crate::EngineTraits::unfinished`]).
    pub fn in_flight(&self) -> Vec<InFlight> {
        let pool = self.database.sessions.get(self.number);
        pool.map_or_else(Vec::new, SessionPool::in_flight)
    }

    /// Works as [`Database::resume`], in this partition.
    ///
    /// # Errors
    /// As [`Database::resume`].
    pub fn resume(&self, id: TxId) -> Result<Tx<'a, E>, Error> {
        self.database.sessions.get(self.number).into_iter().for_each(SessionPool::end_overdue);
        self.continued(id, Continue::Last)
    }

    fn continued(&self, id: TxId, from: Continue) -> Result<Tx<'a, E>, Error> {
        let pool = self.database.sessions.get(self.number).ok_or_else(unsupported)?;
        let session = pool.resume(id, from, self.database.retry_for);
        Ok(self.tx(Writing::Session(session.map_err(|error| self.no_session(error))?)))
    }

    /// Works as [`Database::write_named`], in this partition.
    ///
    /// # Errors
    /// As [`Database::write_named`].
    pub fn write_named<R, X: From<Error>>(
        &self,
        name: &[u8],
        mut work: impl FnMut(&mut Tx<'_, E>) -> Result<R, X>,
    ) -> Result<R, X> {
        let mut tries = Tries::default();
        let waiting = || self.in_flight().into_iter().find(|open| open.name == name);
        let mut found = waiting();
        loop {
            let begun = match found.take() {
                Some(open) => match self.continued(open.id, Continue::Start) {
                    // Another call has ended it, or goes on with it.
                    Err(Error::Engine(EngineError::NotInFlight { .. })) => {
                        found = waiting();
                        continue;
                    }
                    begun => begun,
                },
                None => self.begin_try_named(&mut tries, name),
            };
            match begun.map_err(Undone::from).and_then(|tx| run(tx, &mut work)) {
                Ok(done) => return Ok(done),
                Err(Undone::Otherwise(error)) => return Err(error),
                Err(Undone::Conflict(reason)) => tries.again(reason, self.database.retry_for)?,
            }
        }
    }
}

impl<E: Environment> Database<E> {
    /// Begins a transaction that goes on after a crash, in engines that continue transactions
    /// (`sofort`). Each of its statements is durable when it returns; other transactions see them
    /// only after the commit. The name, of up to 48 bytes, is the one under which
    /// [`Self::in_flight`] lists it.
    ///
    /// # Errors
    /// [`Error::Unsupported`]; [`Error::PartitionNeeded`]; another open transaction has the name,
    /// or it is too long.
    pub fn begin_named(&self, name: &[u8]) -> Result<Tx<'_, E>, Error> {
        self.only_partition()?.begin_named(name)
    }

    /// Returns the transactions that wait to be continued: a crash cut them off, or they were
    /// detached. Others get a conflict on what these have changed, until they end.
    ///
    /// # Errors
    /// [`Error::PartitionNeeded`].
    pub fn in_flight(&self) -> Result<Vec<InFlight>, Error> {
        Ok(self.only_partition()?.in_flight())
    }

    /// Continues a transaction that waits for it, after its last completed statement
    /// ([`InFlight::statements`]).
    ///
    /// # Errors
    /// No such transaction waits; [`Error::Unsupported`]; [`Error::PartitionNeeded`].
    pub fn resume(&self, id: TxId) -> Result<Tx<'_, E>, Error> {
        self.only_partition()?.resume(id)
    }

    /// Runs `work` in a transaction of this name, and commits. If a transaction of the name waits
    /// to be continued, that one goes on: `work` runs from its start, statements that are done are
    /// compared and skipped, and reads see what they saw. So `work` has to do the same each time,
    /// up to where it was cut off. If it does not, the error is [`Error::Diverged`], and the
    /// transaction keeps waiting.
    ///
    /// After a crash that follows the commit there is no transaction of the name. A row that `work`
    /// inserts shows the next run that the work is done.
    ///
    /// # Errors
    /// The error that `work` returned; as [`Self::begin_named`] and [`Self::write`].
    pub fn write_named<R, X: From<Error>>(
        &self,
        name: &[u8],
        work: impl FnMut(&mut Tx<'_, E>) -> Result<R, X>,
    ) -> Result<R, X> {
        self.only_partition()?.write_named(name, work)
    }
}

fn unsupported() -> Error {
    Error::Unsupported { what: "transactions to be continued".into() }
}
