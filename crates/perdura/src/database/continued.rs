//! Transactions that a crash has cut off, in engines that continue them.

use engines::below::Environment;
use engines::{InFlight, TxId};

use super::Partition;
use crate::error::Error;
use crate::transaction::{Tx, Writing};

impl<'a, E: Environment> Partition<'a, E> {
    /// The transactions that a crash had cut off and that wait to be continued; none in engines that
    /// undo them ([`crate::EngineTraits::unfinished`]).
    pub fn in_flight(&self) -> Vec<InFlight> {
        let pool = self.database.sessions.get(self.number);
        pool.map_or_else(Vec::new, |pool| pool.source().in_flight())
    }

    /// Goes on with a transaction that a crash had cut off, behind its last statement that was done.
    ///
    /// # Errors
    /// There is none of this number; [`Error::Unsupported`] in an engine that runs one transaction at
    /// a time.
    pub fn resume(&self, id: TxId) -> Result<Tx<'a, E>, Error> {
        let pool = self.database.sessions.get(self.number);
        let none = || Error::Unsupported { what: "transactions to be continued".into() };
        let session = pool.ok_or_else(none)?.resume(id, self.database.retry_for);
        Ok(self.tx(Writing::Session(session.map_err(|error| self.not_lent(error))?)))
    }
}
