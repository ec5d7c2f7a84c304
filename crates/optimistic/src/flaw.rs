//! The hooks of tests: steps that are left out, and the points that a thread has reached with the
//! lock.

use std::sync::Arc;

/// A step that is left out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Flaw {
    /// A commit does not validate what was read.
    LostUpdate,
    /// Reads are never validated.
    NonRepeatableRead,
    /// Scans are not validated.
    Phantom,
    /// A reader does not undo what another transaction has done in the inner engine.
    DirtyRead,
    /// A commit is made in two parts, between which others are let in, and nothing is validated.
    DirtyWrite,
    /// A commit is made in two parts.
    TornCommit,
    /// A commit is acknowledged before it is done.
    EarlyAcknowledgement,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::LostUpdate,
        Self::NonRepeatableRead,
        Self::Phantom,
        Self::DirtyRead,
        Self::DirtyWrite,
        Self::TornCommit,
        Self::EarlyAcknowledgement,
    ];
}

/// The place of a thread with the engine's lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// The thread is going to take it.
    Before,
    /// Another one has it.
    Taken,
}

/// Called with the point that a thread has reached.
pub(crate) type Hook = Arc<dyn Fn(At) + Send + Sync>;
