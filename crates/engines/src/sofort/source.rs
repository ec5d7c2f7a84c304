//! The sessions of a partition, and the transactions that wait to be continued.

use std::fmt::{self, Debug};
use std::sync::Arc;

use column::{ColumnError, Session};
use pm::Environment;

use super::Sofort;
use super::shared::Shared;
use crate::contract::{Engine, Sessions};
use crate::error::EngineError;
use crate::transaction::{InFlight, TxId};

/// Gives sessions.
pub(super) struct Source<E: Environment>(Arc<Shared<E>>);

impl<E: Environment> Debug for Source<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Source").field(&self.0.store.at()).finish()
    }
}

impl<E: Environment> Sessions for Source<E> {
    fn session(&self) -> Result<Box<dyn Engine>, EngineError> {
        Ok(Box::new(Sofort::over(Arc::clone(&self.0))))
    }

    fn in_flight(&self) -> Vec<InFlight> {
        let found = self.0.store.in_flight().into_iter();
        let each = found.map(|one| InFlight {
            id: TxId(one.id.number()),
            name: one.name,
            statements: one.statements,
            openings: one.openings,
        });
        each.collect()
    }

    fn numbers(&self) -> Vec<TxId> {
        self.0.store.in_flight_numbers().into_iter().map(|id| TxId(id.number())).collect()
    }

    fn resume(&self, id: TxId) -> Result<Box<dyn Engine>, EngineError> {
        self.0.usable()?;
        self.continued(id, self.0.store.resume(id.0.into()))
    }

    fn replay(&self, id: TxId) -> Result<Box<dyn Engine>, EngineError> {
        self.0.usable()?;
        self.continued(id, self.0.store.replay(id.0.into()))
    }
}

impl<E: Environment> Source<E> {
    pub(super) fn of(shared: &Arc<Shared<E>>) -> Self {
        Self(Arc::clone(shared))
    }

    fn continued(
        &self,
        id: TxId,
        session: column::Result<Session<E::Durable>>,
    ) -> Result<Box<dyn Engine>, EngineError> {
        let session = session.map_err(|error| match error {
            ColumnError::NotInFlight => EngineError::NotInFlight { id },
            other => other.into(),
        })?;
        let shared = Arc::clone(&self.0);
        Ok(Box::new(Sofort { shared, session, diverged: false }))
    }
}
