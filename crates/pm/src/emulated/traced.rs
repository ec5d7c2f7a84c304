//! Native memory whose flushes a tool that traces memory accesses can see.
//!
//! To check the emulator, the same run is done on native memories under a tracer (valgrind's
//! lackey), and the trace goes through another simulator of a cache. Such a tracer shows loads and
//! stores by address, but no flush; so a [`Traced`] memory also stores a byte to a shadow of its
//! own for every line that it flushes. Reads and stores are those of the native memory, as they are.

use std::io;
use std::sync::Arc;

use super::Arena;
use super::files::MemoryFiles;
use crate::delegate::as_inner;
use crate::dram::Dram;
use crate::environment::Environment;
use crate::mapping::Mapping;
use crate::memory::Memory;
use crate::offset::{LINE_BYTES, Off, Range};
use crate::pool::Pool;

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
    shadow: Arc<Mapping>,
    region: TracedRegion,
}

impl<M: Memory> Traced<M> {
    fn new(inner: M, mapping: impl Fn(&M) -> &Mapping) -> io::Result<Self> {
        let own = mapping(&inner);
        let bytes = own.reserved();
        let shadow = Mapping::reserve(bytes.div_ceil(LINE_BYTES))?;
        shadow.extend(shadow.reserved())?;
        let region = TracedRegion { base: own.base() as u64, bytes, shadow: shadow.base() as u64 };
        Ok(Self { inner, shadow: Arc::new(shadow), region })
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
        Self::new(pool, Pool::mapping)
    }
}

impl Traced<Dram> {
    /// Registers volatile memory, which flushes nothing.
    ///
    /// # Errors
    /// The kernel has no room for the shadow.
    pub fn dram(dram: Dram) -> io::Result<Self> {
        Self::new(dram, Dram::mapping)
    }
}

impl Traced<Arena> {
    /// Shows the flushes of an arena.
    ///
    /// # Errors
    /// The kernel has no room for the shadow.
    pub fn arena(arena: Arena) -> io::Result<Self> {
        Self::new(arena, Arena::mapping)
    }
}

impl<M: Memory> Memory for Traced<M> {
    const DURABLE: bool = M::DURABLE;
    type View<'a> = M::View<'a>;

    as_inner!();

    #[track_caller]
    fn flush(&self, at: Range) {
        if M::DURABLE {
            let (first, end) = at.lines();
            for line in first..end {
                self.shadow.copy(Off::new(line), &[1]);
            }
            self.inner.flush(at);
        }
    }
}
