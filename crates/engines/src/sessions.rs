//! Engines that run many transactions in a partition at the same time.
//!
//! Such an engine gives *sessions*. A session is an [`Engine`] with at most one open transaction,
//! so that code that runs transactions, and every test, is the same for all engines.
//!
//! For such an engine ([`crate::Concurrency::Shared`]) the contract of [`Engine`] reads so:
//!
//! 1. The object that [`Maker::create`] or [`Maker::open`] has made, the *root*, is asked once for
//!    [`Engine::sessions`]. Sessions come from there, and live no longer than the root does.
//! 2. A session is used by one thread at a time, and many sessions at the same time.
//!    [`Engine::begin`] comes before the first operation of each transaction. A session is used
//!    again, without [`Sessions::session`](crate::Sessions::session), for another transaction:
//!    after a commit that has succeeded, or an abort that has.
//! 3. The engine decides how locks are waited for, which transaction is the victim and what is
//!    validated. A transaction that cannot go on gets [`crate::EngineError::Conflict`], from any
//!    operation or from the commit. It is doomed then: the caller only aborts it. (The caller
//!    ensures that, so that the engine need not remember.)
//! 4. Of a session only [`Read`](crate::Read), [`Write`](crate::Write), `begin`,
//!    `update_and_commit`, `commit`, `abort`, `savepoint`, `rollback_to`, `transaction`,
//!    `is_stopped` and `has_backlog` are called.
//! 5. Of the root, `sync`, `durable`, `is_durable`, `checkpoint`, `background`, `footprint`,
//!    `stats` and `snapshot_source` may be called while sessions have open transactions (one caller
//!    at a time where the method takes `&mut self`). `check`, `close`, and reading and writing, as
//!    in a session of its own, happen only while no session has an open transaction.
//! 6. The number that `commit` returns is a place in one order of the partition, in which
//!    transactions become durable: [`Engine::is_durable`] answers for each.

use std::sync::Arc;

use pm::Environment;
use storage::Catalog;

use crate::contract::{Engine, RecoveryReport, Resources};
use crate::error::EngineError;
use crate::options::Setup;
use crate::traits::EngineTraits;

/// Makes partitions under an engine that [`crate::EngineKind`] does not have: for tests of the
/// contract, with an engine of their own.
pub trait Maker<E: Environment>: Send + Sync {
    /// The engine's name, as the description of a database has it. None of
    /// [`crate::EngineKind::ALL`] has it.
    fn name(&self) -> &str;

    /// The engine's properties.
    fn traits(&self) -> EngineTraits;

    /// Acts as [`crate::Method::create`].
    ///
    /// # Errors
    /// No room.
    fn create(
        &self,
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
    ) -> Result<Box<dyn Engine>, EngineError>;

    /// Acts as [`crate::Method::open`].
    ///
    /// # Errors
    /// Damage, or no room.
    fn open(
        &self,
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
    ) -> Result<(Box<dyn Engine>, RecoveryReport), EngineError>;
}
