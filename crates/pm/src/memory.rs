//! The seam through which every structure reads and writes: [`Memory`].
//!
//! No reference into a memory is ever handed out: a reader gets copies. A value is built on the
//! stack and copied in, and stores whose order matters are 8-byte stores: that is the only way in
//! which every store can be seen, recorded and counted, and it makes the crash model
//! (`docs/format/crash-model.md`) exact.

use std::panic::Location;
use std::sync::atomic::Ordering;

use crate::bytes::Bytes;
use crate::error::{Bad, GrowError};
use crate::offset::{LINE_BYTES, Line, Off, Range};

/// A plain value: any bit pattern is valid, there is no padding, and it can be copied byte for
/// byte into and out of a memory.
pub trait Pod:
    zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable + Copy + 'static
{
}
impl<T> Pod for T where
    T: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable + Copy + 'static
{
}

/// A point in an engine's work that tests and the laboratory want to see, such as a step of P1's
/// Table 2. Costs nothing in a native memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Step(pub &'static str);

/// The place in the source where a store, a flush or a fence was asked for: the caller of a method of
/// [`Memory`] or [`Files`](crate::Files), which track it.
pub type Site = &'static Location<'static>;

/// The purposes of an engine's work, as P1's breakdown of the execution time divides it (P1 5.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Component {
    /// Tuples and fields: reading, writing, and finding room for them.
    Storage,
    /// Logs, checkpoints, master records, and what makes them durable.
    Recovery,
    /// Indexes and directories.
    Index,
    /// All else.
    Other,
}

impl Component {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Self; 4] = [Self::Storage, Self::Recovery, Self::Index, Self::Other];
}

/// A node or record, validated once and then read field by field.
///
/// Natively a checked range of addresses; an emulated memory counts the lines that the reads touch.
///
/// The holder of the view keeps stores away from what is read: by the lock of their owner, or by
/// a snapshot, which keeps what it leads to from being used again. Types do not check that; the tests
/// called `two_threads` do, under Miri. Where it fails, the processor gives aligned words that are old
/// or new and, of longer reads, a mixture of them, and in the letter of the language it is a data race,
/// as [`Memory::read_into`] would be. But no slice of a memory exists whose bytes could change
/// (`docs/decisions/0024-views-are-sound.md`).
pub trait View: Copy {
    /// The 8-byte little-endian word at byte `at` of the view. It need not be aligned; one that is, is
    /// read by one instruction. [`Memory::load`] is atomic.
    ///
    /// # Panics
    /// If the word does not lie within the view: the caller validated the range.
    fn word(&self, at: usize) -> u64;
    /// `len` bytes from byte `at` on, to be copied or compared. An emulated memory counts their
    /// lines now, as read all together, and no more when they are copied.
    ///
    /// # Panics
    /// As [`View::word`].
    fn bytes(&self, at: usize, len: usize) -> Bytes<'_>;
    /// Returns how many of the `count` ascending words from byte `at` on are at most `key`.
    ///
    /// # Panics
    /// As [`View::word`].
    fn rank(&self, at: usize, count: usize, key: u64) -> usize {
        let (mut low, mut size) = (0, count);
        while size > 0 {
            let half = size / 2;
            if self.word(at + (low + half) * 8) <= key {
                low += half + 1;
                size -= half + 1;
            } else {
                size = half;
            }
        }
        low
    }
    /// A bit for each of `count` (at most 64) pairs of words from byte `at` on whose first word
    /// is `key`.
    ///
    /// # Panics
    /// As [`View::word`].
    fn matches(&self, at: usize, count: usize, key: u64) -> u64 {
        (0..count)
            .fold(0, |found, index| found | u64::from(self.word(at + index * 16) == key) << index)
    }
}

/// Reports something to the observer of a memory, as in
/// `observe!(M: memory.enter(Component::Index))`.
///
/// Where `M` has no observer ([`Memory::OBSERVED`]) there is no call. An empty function would not do:
/// it is gone only after the compiler has decided, counting it, what to inline. What the call would
/// have kept alive at its place can still matter, so `scripts/native-instructions` counts.
#[macro_export]
macro_rules! observe {
    ($memory:ty: $said:expr) => {
        if <$memory as $crate::Memory>::OBSERVED {
            $said;
        }
    };
}

/// Byte-addressable memory, volatile or durable.
///
/// Offsets are relative to the memory's base. Reads check bounds and return [`Bad`], since the
/// offset may come from a damaged medium; writes go to places that the caller allocated, so an
/// offset outside the memory is a bug of ours and panics.
pub trait Memory: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// True if contents can outlive the process. Where not, flush and fence fold away.
    const DURABLE: bool;
    /// True if an observer listens to [`Memory::mark`], [`Memory::phase`], [`Memory::enter`] or
    /// [`Memory::hold`]; what overrides one of them sets this. See [`observe!`].
    ///
    /// [`observe!`]: crate::observe
    const OBSERVED: bool = false;
    /// The type with which one node is read: see [`View`].
    type View<'a>: View
    where
        Self: 'a;

    /// Bytes that may be used now.
    fn len(&self) -> u64;
    /// Returns whether no byte may be used yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Makes at least `to` bytes usable; new bytes are zero. Never moves the base.
    ///
    /// # Errors
    /// The limit is reached, or the medium is full; nothing has changed then.
    fn grow(&self, to: u64) -> Result<(), GrowError>;
    /// Bytes by which the memory can still grow: up to its limit, or what its medium has free,
    /// whichever is less. An estimate, since others use the medium, too.
    fn headroom(&self) -> u64;
    /// Returns an error if the medium is no longer sound. Commit, open and read paths ask before
    /// they return.
    ///
    /// # Errors
    /// [`Bad::Poisoned`] after a media error or a failed sync.
    fn healthy(&self) -> Result<(), Bad>;

    /// A copy of the value at `at`. No atomic load: the lock of the owner of the bytes keeps stores
    /// away, as for a [`View`].
    ///
    /// # Errors
    /// The value does not lie within the memory.
    fn read<T: Pod>(&self, at: Off<T>) -> Result<T, Bad>;
    /// Copies `out.len()` bytes from `at` on. A concurrent store to them would give a mixture of old
    /// and new words, so their owner's lock keeps stores away: see [`View`].
    ///
    /// # Errors
    /// The bytes do not lie within the memory.
    fn read_into(&self, at: Off<u8>, out: &mut [u8]) -> Result<(), Bad>;
    /// A validated view of the range.
    ///
    /// # Errors
    /// The range does not lie within the memory.
    fn view(&self, at: Range) -> Result<Self::View<'_>, Bad>;
    /// Copies several ranges one after the other into `out`, whose length is their sum. The
    /// cache misses of the ranges overlap. Concurrent stores are as for [`Memory::read_into`].
    ///
    /// # Errors
    /// A range does not lie within the memory.
    fn gather(&self, parts: &[Range], out: &mut [u8]) -> Result<(), Bad>;
    /// An atomic 8-byte load.
    ///
    /// # Errors
    /// The word does not lie within the memory, or is not aligned.
    fn load(&self, at: Off<u64>, order: Ordering) -> Result<u64, Bad>;

    /// An atomic 8-byte store, ordered with every other store of this thread.
    #[track_caller]
    fn store(&self, at: Off<u64>, value: u64);
    /// Compare and exchange of an 8-byte word.
    ///
    /// # Errors
    /// The value found, if it was not `old`.
    #[track_caller]
    fn cas(&self, at: Off<u64>, old: u64, new: u64) -> Result<u64, u64>;
    /// A bulk copy. Its 8-byte atoms are unordered among themselves, but ordered with the stores
    /// before and after the copy.
    #[track_caller]
    fn copy(&self, at: Off<u8>, src: &[u8]);
    /// Starts the write-back of every line that the range touches; its start is rounded down.
    /// Durable only after the next [`Memory::fence`] of the same thread.
    #[track_caller]
    fn flush(&self, at: Range);
    /// Waits until every flush of this thread before it is durable.
    #[track_caller]
    fn fence(&self);
    /// Says that a range is not needed for a while: this process need not keep its pages. Only a hint; the bytes stay.
    fn release(&self, at: Range) {
        let _ = at;
    }
    /// Brings a range closer; only a hint.
    fn prefetch(&self, at: Range);

    /// Returns whether [`Memory::store_line`] can be called: on a durable medium, whether the processor
    /// has an instruction that stores a line whole.
    fn has_store_line(&self) -> bool {
        false
    }
    /// A store of a whole line that persists whole or not at all, after all stores to it so far. It is
    /// not flushed: the next [`Memory::fence`] of the same thread makes it durable, and the line may not be
    /// stored to before.
    ///
    /// # Panics
    /// There is none ([`Memory::has_store_line`]), or the line does not lie within the memory.
    #[track_caller]
    fn store_line(&self, line: Line, _: &[u8; LINE_BYTES as usize]) {
        panic!("no store of whole lines, of line {} or any", line.0);
    }
    /// Reports to an observer which step has just been done. Said through [`observe!`](crate::observe).
    #[inline]
    fn mark(&self, _step: Step) {}
    /// Reports to an observer what the work is for that begins here; it ends where the next one begins.
    /// Said through [`observe!`](crate::observe).
    #[inline]
    fn enter(&self, _component: Component) {}
    /// Reports to an observer that all work is for this component, whatever is entered, until this is
    /// called with `None`. Said through [`observe!`](crate::observe).
    #[inline]
    fn hold(&self, _component: Option<Component>) {}

    /// Reports to an observer that measures operations which of their phases is over. Recordings do not have
    /// them. Said through [`observe!`](crate::observe).
    #[inline]
    fn phase(&self, _step: Step) {}

    /// [`Memory::flush`] of one line.
    #[inline]
    #[track_caller]
    fn flush_line(&self, line: Line) {
        self.flush(line.range());
    }
    /// [`Memory::flush`] of the word at `at`, which is within one line, as every word that can be
    /// stored is.
    #[inline]
    #[track_caller]
    fn flush_word(&self, at: Off<u64>) {
        self.flush_line(Line::of(at.get()));
    }
}

/// Checks that `at` lies within `limit` bytes.
///
/// # Errors
/// [`Bad::OutOfBounds`].
#[inline]
pub fn checked_range(at: Range, limit: u64) -> Result<(), Bad> {
    // Two compares, no overflow: the range lies within if its length does and its start is at
    // most what remains.
    if at.len > limit || at.start > limit - at.len { Err(out_of_bounds(at, limit)) } else { Ok(()) }
}

#[cold]
#[inline(never)]
fn out_of_bounds(at: Range, limit: u64) -> Bad {
    Bad::OutOfBounds { start: at.start, len: at.len, limit }
}
