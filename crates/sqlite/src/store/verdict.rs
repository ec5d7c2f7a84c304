//! Decisions about a commit that is prepared ([`crate::store`]'s `prepared` has the protocol).

use crate::store::error::{Result, StoreError};

/// A decision about a commit that is prepared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The super-journal is gone: the transaction is committed.
    Apply,
    /// The super-journal is there: it is not.
    Discard,
}

/// Says whether the super-journal of this name is gone.
pub type Decide<'d> = &'d dyn Fn(&[u8]) -> Result<Verdict>;

/// Decides nothing: the caller does not know of super-journals.
pub(crate) fn undecided(name: &[u8]) -> Result<Verdict> {
    Err(StoreError::Undecided(String::from_utf8_lossy(name).into_owned()))
}
