//! What survives a crash: the walk over its states is the same whatever the medium.

use std::ops::ControlFlow;

use perdura::{Database, Error, Recorded};

use crate::mutation::Mutation;

/// A kind of medium that engines lie on.
pub trait Medium: Clone + Send + Sync {
    /// What a crash leaves behind.
    type Image: ?Sized + ToOwned;
    /// What was recorded.
    type Trace: Clone + Send + Sync;
    /// What an open database lies on.
    type Handle;

    /// Opens what a crash has left behind. What opening does is recorded, and what comes after it.
    ///
    /// # Errors
    /// The database does not open.
    fn open(&self, image: &Self::Image) -> Result<(Database<Recorded>, Self::Handle), Error>;

    /// Puts a note into the trace: so many transactions are acknowledged.
    fn note(handle: &Self::Handle, note: u64);

    /// What was recorded.
    fn stop(handle: &Self::Handle) -> Self::Trace;

    /// The contents now.
    fn now(handle: &Self::Handle) -> <Self::Image as ToOwned>::Owned;

    /// Calls `visit` with the crash points that `part` has of the trace, each in up to `bound`
    /// states, until it breaks. The same seed gives the same states.
    fn walk(
        trace: &Self::Trace,
        bound: u64,
        part: Part,
        seed: u64,
        visit: &mut dyn FnMut(State<'_, Self::Image>) -> ControlFlow<()>,
    ) -> Walked;

    /// Calls `visit` with every state that a kill of the process can leave behind, and the place in
    /// the trace and the last note before it, until it breaks.
    fn kills(trace: &Self::Trace, visit: &mut dyn FnMut(State<'_, Self::Image>) -> ControlFlow<()>);

    /// How many events a trace has.
    fn events(trace: &Self::Trace) -> usize;

    /// A number that two images have in common only if they are alike, or by a chance of 2^-64.
    fn fingerprint(image: &Self::Image) -> u64;

    /// The trace of a program that has a fault; and in how many places it shows.
    fn mutate(trace: &Self::Trace, mutation: &Mutation) -> (Self::Trace, u64);

    /// What a state has lost of what was done before the crash, and who had done it, for people.
    fn explain(trace: &Self::Trace, position: usize, image: &Self::Image) -> Vec<String>;
}

/// Every `of`-th crash point from number `index` on.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Which part.
    pub index: u64,
    /// Of how many.
    pub of: u64,
}

impl Part {
    /// All crash points.
    pub const ALL: Self = Self { index: 0, of: 1 };

    /// Whether crash point `number` is in it.
    pub fn has(self, number: u64) -> bool {
        number % self.of == self.index
    }
}

/// One state.
#[derive(Debug)]
pub struct State<'a, I: ?Sized> {
    /// How many events lie before the crash.
    pub position: usize,
    /// How many transactions were acknowledged.
    pub acknowledged: u64,
    /// What is left.
    pub image: &'a I,
}

/// How far a walk went.
#[derive(Clone, Copy, Default, Debug)]
pub struct Walked {
    /// Crash points.
    pub points: u64,
    /// Fences or syncs in the trace.
    pub barriers: u64,
}
