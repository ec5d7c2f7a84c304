//! Memory that counts what a non-volatile memory under a processor's cache would have to do.
//!
//! An [`Emulated`] memory wraps another one, does everything there, and reports to its [`Meter`] which
//! lines are touched. The meter keeps one model of a last-level cache for all memories of a run, and
//! counts the lines that are fetched from and written back to memory (P1 5.3 counts the same with
//! the performance counters of its emulator). Time is computed afterwards from these counts, by the
//! laboratory; nothing here waits.
//!
//! In [`Emulation`] everything lies in such memory, as in P1's NVM-only system: the pool, what the
//! traditional engines have in volatile memory, and their files ([`MemoryFiles`]).
//!
//! `docs/emulation.md` has the model, what it leaves out, and how it was checked.

mod arena;
mod cache;
mod counts;
mod files;
mod meter;
mod traced;
mod wear;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pm::{
    Bad, Bytes, Component, Dram, Environment, GrowError, LINE_BYTES, Line, Memory, Off, Pod, Range,
    Step, View,
};

pub use arena::Arena;
pub use cache::{CacheModel, Touched};
pub use counts::LineCounts;
pub use files::{MemoryFile, MemoryFiles};
pub use meter::{FRAME_BYTES, Meter, MeterOptions, StepTotals};
pub use traced::{Traced, TracedRegion, Tracing};
pub use wear::Wear;

use meter::Registration;

/// Everything in emulated memory: P1's NVM-only system.
#[derive(Debug)]
pub enum Emulation {}

impl Environment for Emulation {
    type Volatile = Emulated<Dram>;
    type Durable = Emulated<Arena>;
    type Files = MemoryFiles<Emulated<Arena>>;
}

/// A memory whose accesses a [`Meter`] counts. Clones share it.
#[derive(Clone, Debug)]
pub struct Emulated<M> {
    inner: M,
    registration: Arc<Registration>,
}

impl<M: Memory> Emulated<M> {
    /// Counts what is done to `inner` from now on.
    pub fn new(inner: M, meter: &Meter) -> Self {
        Self { inner, registration: meter.register() }
    }

    /// Returns the meter that counts.
    pub fn meter(&self) -> &Meter {
        &self.registration.meter
    }

    #[inline]
    fn number(&self) -> usize {
        self.registration.number
    }

    #[inline]
    fn loaded(&self, at: Range) {
        self.meter().state().load(self.number(), at);
    }

    #[inline]
    fn stored(&self, at: Range) {
        self.meter().state().store(self.number(), at);
    }
}

impl<M: Memory> Memory for Emulated<M> {
    const DURABLE: bool = M::DURABLE;
    const OBSERVED: bool = true;
    type View<'a> = EmulatedView<'a, M>;

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn grow(&self, to: u64) -> Result<(), GrowError> {
        self.inner.grow(to)
    }

    fn headroom(&self) -> u64 {
        self.inner.headroom()
    }

    fn healthy(&self) -> Result<(), Bad> {
        self.inner.healthy()
    }

    fn read<T: Pod>(&self, at: Off<T>) -> Result<T, Bad> {
        let value = self.inner.read(at)?;
        self.loaded(at.range());
        Ok(value)
    }

    fn read_into(&self, at: Off<u8>, out: &mut [u8]) -> Result<(), Bad> {
        self.inner.read_into(at, out)?;
        self.loaded(Range::new(at.get(), out.len() as u64));
        Ok(())
    }

    fn view(&self, at: Range) -> Result<EmulatedView<'_, M>, Bad> {
        Ok(EmulatedView { inner: self.inner.view(at)?, start: at.start, memory: self })
    }

    fn gather(&self, parts: &[Range], out: &mut [u8]) -> Result<(), Bad> {
        self.inner.gather(parts, out)?;
        self.meter().state().gather(self.number(), parts);
        Ok(())
    }

    fn load(&self, at: Off<u64>, order: Ordering) -> Result<u64, Bad> {
        let value = self.inner.load(at, order)?;
        self.loaded(at.range());
        Ok(value)
    }

    #[track_caller]
    fn store(&self, at: Off<u64>, value: u64) {
        self.inner.store(at, value);
        self.stored(at.range());
    }

    #[track_caller]
    fn cas(&self, at: Off<u64>, old: u64, new: u64) -> Result<u64, u64> {
        let result = self.inner.cas(at, old, new);
        // The line has to be there before anything can be compared.
        self.loaded(at.range());
        if result.is_ok() {
            self.stored(at.range());
        }
        result
    }

    #[track_caller]
    fn copy(&self, at: Off<u8>, src: &[u8]) {
        self.inner.copy(at, src);
        self.stored(Range::new(at.get(), src.len() as u64));
    }

    #[track_caller]
    fn flush(&self, at: Range) {
        if M::DURABLE {
            self.inner.flush(at);
            self.meter().state().flush(self.number(), at);
        }
    }

    #[track_caller]
    fn fence(&self) {
        if M::DURABLE {
            self.inner.fence();
            self.meter().state().counts.fences += 1;
        }
    }

    fn prefetch(&self, at: Range) {
        if pm::checked_range(at, self.inner.len()).is_ok() {
            self.meter().state().prefetch(self.number(), at);
        }
    }

    fn has_store_line(&self) -> bool {
        self.inner.has_store_line()
    }

    #[track_caller]
    fn store_line(&self, line: Line, bytes: &[u8; LINE_BYTES as usize]) {
        self.inner.store_line(line, bytes);
        // It goes past the cache: one line is written.
        let mut state = self.meter().state();
        state.store(self.number(), line.range());
        state.flush(self.number(), line.range());
    }

    fn mark(&self, step: Step) {
        self.meter().state().mark(step);
    }

    fn phase(&self, step: Step) {
        self.meter().state().mark(step);
    }

    fn enter(&self, component: Component) {
        self.meter().state().enter(component);
    }

    fn hold(&self, component: Option<Component>) {
        self.meter().state().hold(component);
    }
}

/// A view of an [`Emulated`] memory: what is read through it is counted, no more.
#[derive(Debug)]
pub struct EmulatedView<'a, M: Memory> {
    inner: M::View<'a>,
    start: u64,
    memory: &'a Emulated<M>,
}

impl<M: Memory> Clone for EmulatedView<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Memory> Copy for EmulatedView<'_, M> {}

impl<M: Memory> EmulatedView<'_, M> {
    #[inline]
    fn loaded(&self, at: usize, len: usize) {
        self.memory.loaded(Range::new(self.start + at as u64, len as u64));
    }
}

impl<M: Memory> View for EmulatedView<'_, M> {
    fn word(&self, at: usize) -> u64 {
        let word = self.inner.word(at);
        self.loaded(at, 8);
        word
    }

    fn bytes(&self, at: usize, len: usize) -> Bytes<'_> {
        self.loaded(at, len);
        self.inner.bytes(at, len)
    }

    fn rank(&self, at: usize, count: usize, key: u64) -> usize {
        if self.memory.registration.wide_search {
            self.loaded(at, count * 8);
            return self.inner.rank(at, count, key);
        }
        // As the portable kernel of the native memories goes.
        let (mut low, mut size) = (0, count);
        while size > 1 {
            let half = size / 2;
            low += half * usize::from(self.word(at + (low + half - 1) * 8) <= key);
            size -= half;
        }
        low + usize::from(size == 1 && self.word(at + low * 8) <= key)
    }

    fn matches(&self, at: usize, count: usize, key: u64) -> u64 {
        // Every pair is looked at; the last word of the last pair is not.
        self.loaded(at, (count * 16).saturating_sub(8));
        self.inner.matches(at, count, key)
    }
}
