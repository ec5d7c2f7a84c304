//! Receipts: proof, by type, that an object was written back before something points to it.
//!
//! `Flushed<T>` says that the lines of `T` have been flushed, `Durable<T>` that a fence has
//! followed. Neither can be cloned or made up outside of this module, and what publishes an object
//! takes its `Durable` receipt by value, so publishing too early or twice does not compile.
//!
//! ```compile_fail
//! use pm::{Dram, Durable, Flushed, LineSet};
//! fn publish(_: Durable<u64>) {}
//! let memory = Dram::new(4096).unwrap();
//! let flushed = Flushed::lines(&memory, &mut LineSet::new(), 7u64);
//! publish(flushed); // not fenced yet: a Flushed is no Durable
//! ```

use crate::line_set::LineSet;
use crate::memory::Memory;

/// `T` has been written and its lines flushed; a fence is still missing.
#[must_use = "a flushed object becomes durable only by a fence"]
#[derive(Debug)]
pub struct Flushed<T>(T);

/// `T` is durable in the domain of its memory.
#[must_use = "a durable object that nothing publishes is lost at the next crash"]
#[derive(Debug)]
pub struct Durable<T>(T);

impl<T> Flushed<T> {
    /// Flushes `lines`, which the caller wrote, and gives the receipt for `object`, which lives in
    /// them. `lines` is empty afterwards.
    #[inline]
    #[track_caller]
    pub fn lines<M: Memory>(memory: &M, lines: &mut LineSet, object: T) -> Self {
        lines.flush(memory);
        Self(object)
    }

    /// What was flushed.
    #[inline]
    pub fn get(&self) -> &T {
        &self.0
    }
}

impl<T> Durable<T> {
    /// What is durable.
    #[inline]
    pub fn get(&self) -> &T {
        &self.0
    }

    /// Gives the receipt up for its object, to publish it.
    #[inline]
    pub fn into_inner(self) -> T {
        self.0
    }

    /// The receipt of a part of the object, which was flushed with it.
    #[inline]
    pub fn part<U>(self, part: impl FnOnce(T) -> U) -> Durable<U> {
        Durable(part(self.0))
    }
}

impl<T> Durable<Vec<T>> {
    /// The receipts of all parts; the vector is left empty, to be used again.
    #[inline]
    pub fn drain(&mut self) -> impl Iterator<Item = Durable<T>> {
        self.0.drain(..).map(Durable)
    }
}

/// One or several `Flushed` receipts that one fence makes durable.
pub trait Receipts {
    /// The same receipts as `Durable` ones.
    type Durable;
    #[doc(hidden)]
    fn fenced(self) -> Self::Durable;
}

impl<T> Receipts for Flushed<T> {
    type Durable = Durable<T>;
    #[inline]
    fn fenced(self) -> Durable<T> {
        Durable(self.0)
    }
}
impl<A> Receipts for Option<Flushed<A>> {
    type Durable = Option<Durable<A>>;
    #[inline]
    fn fenced(self) -> Option<Durable<A>> {
        self.map(|flushed| Durable(flushed.0))
    }
}
impl<A, B> Receipts for (Flushed<A>, Flushed<B>) {
    type Durable = (Durable<A>, Durable<B>);
    #[inline]
    fn fenced(self) -> Self::Durable {
        (Durable(self.0.0), Durable(self.1.0))
    }
}
impl<A, B, C> Receipts for (Flushed<A>, Flushed<B>, Flushed<C>) {
    type Durable = (Durable<A>, Durable<B>, Durable<C>);
    #[inline]
    fn fenced(self) -> Self::Durable {
        (Durable(self.0.0), Durable(self.1.0), Durable(self.2.0))
    }
}

/// Fences once and turns the receipts into durable ones.
#[inline]
#[track_caller]
pub fn fence_for<M: Memory, R: Receipts>(memory: &M, receipts: R) -> R::Durable {
    memory.fence();
    receipts.fenced()
}
