//! Native memory whose flushes a tool that traces memory accesses can see.
//!
//! To check the emulator, the same run is done on native memories under a tracer (valgrind's
//! lackey), and the trace goes through another simulator of a cache. Such a tracer shows loads and
//! stores by address, but no flush; so a [`Traced`] memory also stores a byte to a shadow of its
//! own for every line that it flushes. Reads and stores are those of the native memory, as they are.

use std::io;
use std::ops::Range;

use pm::{Dram, Environment, LINE_BYTES, Memory, Off, Pool};

use super::Arena;
use super::files::MemoryFiles;
use crate::delegate::all_but_flush_of;

/// Native memories under a tracer; files in a traced memory, since a tracer does not see what the
/// kernel copies.
#[derive(Debug)]
pub enum Tracing {}

impl Environment for Tracing {
    type Volatile = Traced<Dram>;
    type Durable = Traced<Pool>;
    type Files = MemoryFiles<Traced<Arena>>;
}

/// The addresses of a traced memory and of its shadow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TracedRegion {
    /// Address of the memory.
    pub base: u64,
    /// Bytes that it may grow to.
    pub bytes: u64,
    /// Address of the shadow: one byte for each line, stored to when the line is flushed.
    pub shadow: u64,
}

/// A native memory that shows its flushes. Clones share it.
#[derive(Clone, Debug)]
pub struct Traced<M> {
    inner: M,
    shadow: Dram,
    region: TracedRegion,
}

impl<M: Memory> Traced<M> {
    fn new(inner: M, addresses: impl Fn(&M) -> Range<usize>) -> io::Result<Self> {
        let own = addresses(&inner);
        let bytes = own.len() as u64;
        let shadow = Dram::new(bytes.div_ceil(LINE_BYTES))?;
        shadow.grow(bytes.div_ceil(LINE_BYTES)).map_err(io::Error::other)?;
        let shadow_at = shadow.addresses().start as u64;
        let region = TracedRegion { base: own.start as u64, bytes, shadow: shadow_at };
        Ok(Self { inner, shadow, region })
    }

    /// Returns where it lies in this process.
    pub fn region(&self) -> TracedRegion {
        self.region
    }
}

impl Traced<Pool> {
    /// Shows the flushes of a pool.
    ///
    /// # Errors
    /// The kernel has no room for the shadow.
    pub fn pool(pool: Pool) -> io::Result<Self> {
        Self::new(pool, Pool::addresses)
    }
}

impl Traced<Dram> {
    /// Registers volatile memory, which flushes nothing.
    ///
    /// # Errors
    /// The kernel has no room for the shadow.
    pub fn dram(dram: Dram) -> io::Result<Self> {
        Self::new(dram, Dram::addresses)
    }
}

impl Traced<Arena> {
    /// Shows the flushes of an arena.
    ///
    /// # Errors
    /// The kernel has no room for the shadow.
    pub fn arena(arena: Arena) -> io::Result<Self> {
        Self::new(arena, Arena::addresses)
    }
}

impl<M: Memory> Memory for Traced<M> {
    const DURABLE: bool = M::DURABLE;
    type View<'a> = M::View<'a>;

    all_but_flush_of!(self => self.inner);

    #[track_caller]
    fn flush(&self, at: pm::Range) {
        if M::DURABLE {
            let (first, end) = at.lines();
            for line in first..end {
                self.shadow.copy(Off::new(line), &[1]);
            }
            self.inner.flush(at);
        }
    }
}
