//! The state that says whether a partition can be used, the same for every engine.

use std::fmt::Display;

use pm::Memory;

use crate::error::EngineError;

/// The state of a partition: what it can still do.
#[derive(Default, Debug)]
pub(crate) enum State {
    /// The partition can do everything.
    #[default]
    Usable,
    /// A part of an operation could not be done: the transaction can only abort.
    MustAbort,
    /// The partition can do nothing until it is opened again.
    Stopped {
        /// The reason.
        why: String,
    },
}

impl State {
    /// Fails unless the partition can be used and `memory` is still good.
    #[inline]
    pub(crate) fn usable<M: Memory>(&self, memory: &M) -> Result<(), EngineError> {
        match self {
            Self::Usable => Ok(memory.healthy()?),
            _ => Err(self.refusal()),
        }
    }

    #[cold]
    fn refusal(&self) -> EngineError {
        match self {
            Self::Stopped { why } => EngineError::Stopped { why: why.clone() },
            _ => EngineError::MustAbort,
        }
    }

    /// Stops the partition, and returns the error that is the reason.
    #[cold]
    pub(crate) fn stop<T>(&mut self, error: impl Into<EngineError>) -> Result<T, EngineError> {
        let error = error.into();
        self.stop_after(&error);
        Err(error)
    }

    /// Stops the partition after a transaction that is committed all the same: what failed is
    /// housekeeping, on a damaged medium.
    #[cold]
    pub(crate) fn stop_after(&mut self, error: &impl Display) {
        *self = Self::Stopped { why: error.to_string() };
    }

    /// Returns whether the partition has stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self, Self::Stopped { .. })
    }

    /// The open transaction lost a part of itself and can only abort.
    #[cold]
    pub(crate) fn must_abort(&mut self) {
        if !self.is_stopped() {
            *self = Self::MustAbort;
        }
    }

    /// The open transaction aborts.
    pub(crate) fn abort(&mut self) {
        if !self.is_stopped() {
            *self = Self::Usable;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pm::Dram;

    #[test]
    fn abort_helps_a_missing_part_but_not_a_stopped_partition() {
        let memory = Dram::new(4096).unwrap();
        let mut state = State::default();
        assert!(state.usable(&memory).is_ok());
        state.must_abort();
        assert!(matches!(state.usable(&memory), Err(EngineError::MustAbort)));
        state.abort();
        assert!(state.usable(&memory).is_ok());
        let failed: Result<(), _> = state.stop(EngineError::Missing { what: "x".into() });
        assert!(matches!(failed, Err(EngineError::Missing { .. })));
        state.must_abort();
        state.abort();
        assert!(matches!(state.usable(&memory), Err(EngineError::Stopped { .. })));
    }
}
