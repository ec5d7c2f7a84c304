//! Receipts: proof, by type, that an object was written back before something points to it.
//!
//! `Flushed<T>` says that the lines of `T` have been flushed, `Durable<T>` that a fence has
//! followed. Neither can be cloned or made up outside of this module, and what publishes an object
//! takes its `Durable` receipt by value, so publishing before a flush and a fence, or twice, does not
//! compile. The types do not know which lines an object lies in: that the flush was of *its* lines is
//! shown by the crash tests, which leave every flush out in turn. Two calls say so themselves:
//! [`Flushed::lines`], which takes the caller's word for the lines (an empty set is a bug, and asserted
//! against), and [`Durable::vouch_for`], which takes it for a second object.
//!
//! ```compile_fail
//! use pm::{Dram, Durable, Flushed, LineSet};
//! fn publish(_: Durable<u64>) {}
//! let memory = Dram::new(4096).unwrap();
//! let flushed = Flushed::lines(&memory, &mut LineSet::new(), 7u64);
//! publish(flushed); // not fenced yet: a Flushed is no Durable
//! ```

use std::marker::PhantomData;

use crate::line_set::LineSet;
use crate::memory::Memory;

/// Misuse that does not compile.
#[cfg(doctest)]
#[doc = include_str!("receipt_misuse.md")]
struct Misuse;

/// `T` has been written and its lines flushed; a fence is still missing, of the same thread: a fence
/// covers what its own thread has flushed. So this stays with its thread.
///
/// ```compile_fail,E0277
/// use pm::{Dram, Flushed, LineSet, Memory, Off, fence_for};
/// let memory = Dram::new(4096).unwrap();
/// let mut lines = LineSet::new();
/// memory.store(Off::new(64), 7);
/// lines.add(Off::<u64>::new(64).range());
/// let flushed = Flushed::lines(&memory, &mut lines, 7u64);
/// // The fence of another thread covers nothing of it.
/// std::thread::spawn(move || fence_for(&memory, flushed));
/// ```
#[must_use = "a flushed object becomes durable only by a fence"]
#[derive(Debug)]
pub struct Flushed<T>(T, PhantomData<*const ()>);

/// `T` is durable in the domain of its memory, whichever thread has this.
///
/// ```
/// use pm::{Dram, Durable, Flushed, LineSet, Memory, Off, fence_for};
/// let memory = Dram::new(4096).unwrap();
/// memory.grow(4096).unwrap();
/// let mut lines = LineSet::new();
/// memory.store(Off::new(64), 7);
/// lines.add(Off::<u64>::new(64).range());
/// let durable = fence_for(&memory, Flushed::lines(&memory, &mut lines, 64u64));
/// let published = std::thread::spawn(move || durable.into_inner());
/// assert_eq!(published.join().unwrap(), 64);
/// ```
#[must_use = "a durable object that nothing publishes is lost at the next crash"]
#[derive(Debug)]
pub struct Durable<T>(T);

impl<T> Flushed<T> {
    /// Flushes `lines`, which the caller wrote, and gives the receipt for `object`, which lives in
    /// them. `lines` is empty afterwards.
    ///
    /// # Panics
    /// With debug assertions, if `lines` of a durable memory is empty: an object of which nothing was written cannot
    /// have been flushed.
    #[inline]
    #[track_caller]
    pub fn lines<M: Memory>(memory: &M, lines: &mut LineSet, object: T) -> Self {
        debug_assert!(
            !M::DURABLE || !lines.is_empty(),
            "a receipt for an object of which no line was written"
        );
        lines.flush(memory);
        Self(object, PhantomData)
    }

    /// Returns what was flushed.
    #[inline]
    pub fn get(&self) -> &T {
        &self.0
    }
}

impl<T> Durable<T> {
    /// Returns what is durable.
    #[inline]
    pub fn get(&self) -> &T {
        &self.0
    }

    /// Gives the receipt up for its object, to publish it.
    #[inline]
    pub fn into_inner(self) -> T {
        self.0
    }

    /// The receipt of a part of the object, which was flushed with it. `part` captures nothing, so
    /// that it can take the part from nowhere but the object.
    ///
    /// ```compile_fail
    /// use pm::{Dram, Flushed, LineSet, Memory, Off, fence_for};
    /// let memory = Dram::new(4096).unwrap();
    /// let mut lines = LineSet::new();
    /// memory.store(Off::new(64), 7);
    /// lines.add(Off::<u64>::new(64).range());
    /// let durable = fence_for(&memory, Flushed::lines(&memory, &mut lines, (7u64, 8u64)));
    /// let stranger = vec![9u64]; // never flushed
    /// let forged = durable.part(|_| stranger);
    /// ```
    #[inline]
    pub fn part<U>(self, part: fn(T) -> U) -> Durable<U> {
        Durable(part(self.0))
    }

    /// Gives the receipt up for one of `other`, which the caller has written to lines of the same
    /// set before it was flushed. Types do not check that; the crash tests do.
    ///
    /// It is for what is kept aside for speed: a value that is moved right after a fence is waited
    /// for until the fence is done.
    #[inline]
    pub fn vouch_for<U>(self, other: U) -> Durable<U> {
        Durable(other)
    }
}

impl<T> Durable<Vec<T>> {
    /// The receipts of all parts; the vector is left empty, to be used again.
    #[inline]
    pub fn drain(&mut self) -> impl Iterator<Item = Durable<T>> {
        self.0.drain(..).map(Durable)
    }
}

/// A single `Flushed` receipt or several that one fence makes durable.
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
