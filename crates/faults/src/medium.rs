//! Media that survive a crash: the walk over their states is the same whatever the medium.

use std::ops::ControlFlow;

use perdura::{Database, Error, Media, Options};
use sim::Recorded;

use crate::mutation::Mutation;

/// A kind of medium that engines lie on.
pub trait Medium: Clone + Send + Sync {
    /// The image that a crash leaves.
    type Image: ?Sized + ToOwned;
    /// The record.
    type Trace: Clone + Send + Sync;
    /// The recording medium under an open database.
    type Handle;
    /// The walk along a record.
    type Replay<'a>: CrashPoints<Self::Image>;
    /// True if images hold all that a database lies on. Only then is it visible that a creation was
    /// cut off.
    const WHOLE: bool;

    /// Opens what a crash has left. What opening does, and what comes after it, is recorded on
    /// demand.
    ///
    /// # Errors
    /// The database does not open.
    fn open(
        &self,
        image: &Self::Image,
        record: bool,
    ) -> Result<(Database<Recorded>, Self::Handle), Error>;

    /// The same, but for a database that is not to be opened where the memory of `handle` lies.
    #[must_use]
    fn away_from(&self, handle: Self::Handle) -> Self;

    /// Puts a note into the trace: so many transactions are acknowledged.
    fn note(handle: &Self::Handle, note: u64);

    /// Ends the recording and returns the record.
    fn stop(handle: &Self::Handle) -> Self::Trace;

    /// The contents now.
    fn now(handle: &Self::Handle) -> <Self::Image as ToOwned>::Owned;

    /// Returns true if the medium holds nothing that the database, which has no work left, does not
    /// need.
    ///
    /// # Errors
    /// The things that are left over.
    fn has_no_rest(db: &Database<Recorded>, handle: &Self::Handle) -> Result<(), String>;

    /// Starts a walk along a record, before its first event.
    fn replay(trace: &Self::Trace) -> Self::Replay<'_>;

    /// Returns the number of crash points in the trace.
    fn points(trace: &Self::Trace) -> u64 {
        let (mut replay, mut points) = (Self::replay(trace), 0);
        while replay.pass_point() {
            points += 1;
        }
        points
    }

    /// Calls `visit` with the crash points that `part` has of the trace, each in up to `bound`
    /// states, until it breaks. The same seed gives the same states.
    fn walk(
        trace: &Self::Trace,
        bound: u64,
        part: Part,
        seed: u64,
        visit: &mut dyn FnMut(State<'_, Self::Image>) -> ControlFlow<()>,
    ) -> Walked {
        let (mut replay, mut walked) = (Self::replay(trace), Walked::default());
        for number in 0..part.to {
            if part.has(number) {
                let Some(flow) = replay.visit_point(bound, seed, visit) else { break };
                walked.points += 1;
                if flow.is_break() {
                    break;
                }
            } else if !replay.pass_point() {
                break;
            }
        }
        walked.barriers = replay.barriers();
        walked
    }

    /// Calls `visit` with every state that a kill of the process can leave, and the place in the
    /// trace and the last note before it, until it breaks.
    fn kills(trace: &Self::Trace, visit: &mut dyn FnMut(State<'_, Self::Image>) -> ControlFlow<()>);

    /// Returns the number of events in a trace.
    fn events(trace: &Self::Trace) -> usize;

    /// The trace of a program that has a fault; and in how many places it shows.
    fn mutate(trace: &Self::Trace, mutation: &Mutation) -> (Self::Trace, u64);

    /// Explains which of the stores done before the crash a state has lost, and who had done them,
    /// for people.
    fn explain(trace: &Self::Trace, position: usize, image: &Self::Image) -> Vec<String>;
}

/// A walk along a record from crash point to crash point.
pub trait CrashPoints<I: ?Sized> {
    /// Goes past the next crash point. Returns false if there is none.
    fn pass_point(&mut self) -> bool;

    /// Goes to the next crash point and calls `visit` with up to `bound` of its states, until it
    /// breaks. Returns `None` if there is no crash point.
    fn visit_point(
        &mut self,
        bound: u64,
        seed: u64,
        visit: &mut dyn FnMut(State<'_, I>) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>>;

    /// Returns the number of fences and syncs up to here.
    fn barriers(&self) -> u64;
}

/// A medium that records a scenario in its pool from the pool's creation on.
pub trait InPool: Medium {
    /// An empty one.
    ///
    /// # Panics
    /// The kernel has no addresses left.
    fn fresh() -> Self::Handle;

    /// The media on which a database is created.
    fn media(handle: &Self::Handle) -> Media<Recorded>;

    /// Starts to record.
    fn start(handle: &Self::Handle);

    /// The medium on which the scenario's states are opened with these options.
    fn of(options: Options, handle: Self::Handle) -> Self;
}

/// Some of a trace's crash points: those with the numbers `from`, `from + stride` and so on, below
/// `to`.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The first.
    pub from: u64,
    /// The number after the last.
    pub to: u64,
    /// One in so many.
    pub stride: u64,
}

impl Part {
    /// All crash points.
    pub const ALL: Self = Self { from: 0, to: u64::MAX, stride: 1 };

    /// Piece `index` of `of` pieces, one after the other, of a trace with so many points: what is
    /// the same at neighbouring points is in one piece.
    pub fn piece(index: u64, of: u64, points: u64) -> Self {
        Self { from: points * index / of, to: points * (index + 1) / of, stride: 1 }
    }

    /// Returns true if crash point `number` is in it.
    pub fn has(self, number: u64) -> bool {
        (self.from..self.to).contains(&number) && (number - self.from).is_multiple_of(self.stride)
    }
}

/// One state.
#[derive(Debug)]
pub struct State<'a, I: ?Sized> {
    /// The number of events before the crash.
    pub position: usize,
    /// The number of transactions that were acknowledged. `None` until opening, or creation, has
    /// ended.
    pub acknowledged: Option<u64>,
    /// The image that is left.
    pub image: &'a I,
    /// A number that two images have in common only if they are alike, or by a chance of 2^-64.
    pub fingerprint: u64,
}

/// A visit to states one after the other, which ends when `visit` breaks.
pub(crate) struct Visit<'v, I: ?Sized> {
    visit: &'v mut dyn FnMut(State<'_, I>) -> ControlFlow<()>,
    pub(crate) flow: ControlFlow<()>,
}

impl<'v, I: ?Sized> Visit<'v, I> {
    pub(crate) fn new(visit: &'v mut dyn FnMut(State<'_, I>) -> ControlFlow<()>) -> Self {
        Self { visit, flow: ControlFlow::Continue(()) }
    }

    /// Shows the state with this image at a position, where so many transactions are acknowledged.
    pub(crate) fn show(
        &mut self,
        (position, acknowledged): (usize, Option<u64>),
        image: &I,
        fingerprint: impl FnOnce(&I) -> u64,
    ) {
        if self.flow.is_continue() {
            let fingerprint = fingerprint(image);
            self.flow = (self.visit)(State { position, acknowledged, image, fingerprint });
        }
    }
}

/// The distance that a walk went.
#[derive(Clone, Copy, Default, Debug)]
pub struct Walked {
    /// Crash points.
    pub points: u64,
    /// Fences or syncs in the trace.
    pub barriers: u64,
}
