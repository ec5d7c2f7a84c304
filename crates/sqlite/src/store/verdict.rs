//! Decisions about prepared commits ([`crate::store`]'s `prepared` has the protocol).

use crate::store::error::{Result, StoreError};

/// The decision about a prepared commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The super-journal is gone: the transaction is committed.
    Apply,
    /// The super-journal exists: the transaction is not committed.
    Discard,
}

/// Decides by whether the super-journal of this name is gone.
pub type Decide<'d> = &'d dyn Fn(&[u8]) -> Result<Verdict>;

/// Refuses to decide: the caller does not handle super-journals.
pub(crate) fn undecided(name: &[u8]) -> Result<Verdict> {
    Err(StoreError::Undecided(String::from_utf8_lossy(name).into_owned()))
}
