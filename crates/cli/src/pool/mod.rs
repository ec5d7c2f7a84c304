//! `perdura pool`: one file for each command.
//!
//! Invariant: `info` changes nothing; every other command that takes a pool recovers it first, as
//! opening does.

mod archive;
mod backup;
mod check;
mod copy;
mod create;
mod dump;
mod info;
mod load;
mod options;
mod restore;
mod still;
mod threads;
mod waker;

use std::path::Path;

use command::failure::Failure;
use command::progress::timed;
use perdura::{Database, Error, Options, PoolError, PoolInfo};

use crate::args::{NewDatabase, OptionValue, PoolCommand};
use crate::signals;

pub(crate) use self::waker::{WAKER, wake};

/// Runs a command on a pool.
///
/// # Errors
/// What is wrong with the pool, or [`Failure::Found`] if a check found something.
pub(crate) fn run(command: &PoolCommand) -> Result<(), Failure> {
    signals::leave_nothing()?;
    match command {
        PoolCommand::Info { file, json } => info::run(file, json.as_ref()),
        PoolCommand::Check { file, accept_loss, repair_into, json } => {
            check::run(file, *accept_loss, repair_into.as_deref(), json.as_ref())
        }
        PoolCommand::Create(args) => create::run(args),
        PoolCommand::Backup(args) => backup::run(args),
        PoolCommand::Restore(args) => restore::run(args),
        PoolCommand::Archive(args) => archive::run(args),
        PoolCommand::Dump(args) => dump::run(args),
        PoolCommand::Load(args) => load::run(args),
        PoolCommand::Options(args) => options::run(args),
    }
}

/// Returns the damage of one copy of the header, if there is any.
fn damage_text(pool: &PoolInfo) -> Option<&'static str> {
    let damage = pool.header_damage.as_ref()?;
    Some(damage.what())
}

/// Opens a database.
///
/// # Errors
/// It cannot be opened; the text says what to do.
fn open(file: &Path, accept_loss: bool) -> Result<Database, Failure> {
    let options = Options::new().accept_loss(accept_loss);
    timed("opening", || Database::open(file, &options)).map_err(|error| not_open(file, &error))
}

/// Returns the reason why a database cannot be opened.
fn not_open(file: &Path, error: &Error) -> Failure {
    let rebooted = matches!(error, Error::Pool(PoolError::Rebooted { .. }));
    let hint = if rebooted { " (--accept-loss)" } else { "" };
    Failure::about(file.display(), format!("{error}{hint}"))
}

/// Returns the options with which a database is created.
fn options(new: &NewDatabase) -> Options {
    let mut options = Options::new().model(new.model);
    if let Some(engine) = &new.engine {
        options = options.engine(engine.clone());
    }
    if let Some(domain) = new.domain.and_then(|choice| choice.0) {
        options = options.domain(domain);
    }
    if let Some(partitions) = new.partitions {
        options = options.partitions(partitions);
    }
    if let Some(limit) = new.limit {
        options = options.pool_limit(limit);
    }
    for OptionValue { name, value } in &new.option {
        options = options.set(name, *value);
    }
    options
}

/// Returns the reason why a database could not be created.
fn about_new(file: &Path, error: &Error) -> Failure {
    let model = matches!(error, Error::Pool(PoolError::DomainTooStrong { .. }));
    let hint = if model { " (--model)" } else { "" };
    Failure::about(file.display(), format!("{error}{hint}"))
}
