//! The data that all lanes of a heap share: the memory, the supply of chunks, the blocks of lanes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU32;

use pm::Off;

use crate::classes::{CLASSES, Shape};
use crate::known::HandedOut;
use crate::sync::{Arc, Mutex};

/// A block of lanes whose tag is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    /// Its first chunk.
    pub(crate) chunk: u32,
    /// The number of its first lane.
    pub(crate) first: u32,
    pub(crate) lanes: u32,
}

impl Block {
    pub(crate) fn numbers(self) -> std::ops::Range<u32> {
        self.first..self.first + self.lanes
    }
}

/// Chunks that are not in use, and how many have been taken from the memory.
#[derive(Debug)]
pub(crate) struct Supply {
    pub(crate) high_water: u64,
    pub(crate) free: BTreeSet<u32>,
    /// The spans that this process has taken: their first chunks, and how many there are.
    pub(crate) spans: BTreeMap<u32, u32>,
    /// The blocks of lanes, in the order of their list.
    pub(crate) blocks: Vec<Block>,
    pub(crate) hints: Hints,
}

/// Says whether hints that were stored over others are durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hints {
    /// All hints are durable.
    Durable,
    /// Some hints are not durable: no hint is zero among them.
    Stored,
    /// A process that was killed may have stored any of them.
    Unknown,
}

#[derive(Debug)]
pub(crate) struct Shared<M> {
    pub(crate) memory: M,
    pub(crate) chunk_bytes: u64,
    pub(crate) chunk_shift: u32,
    pub(crate) chunks_at: u64,
    pub(crate) lanes: u32,
    pub(crate) names: u32,
    /// The place where the object of a span starts in its first chunk.
    pub(crate) span_object_at: u32,
    pub(crate) shapes: Box<[Shape; CLASSES]>,
    pub(crate) supply: Mutex<Supply>,
    pub(crate) owned: Mutex<Vec<bool>>,
    /// The number of lanes, those in blocks among them.
    pub(crate) all_lanes: AtomicU32,
    pub(crate) handed_out: Mutex<HandedOut>,
}

/// A formatted memory. Clones share it.
#[derive(Clone, Debug)]
pub struct Heap<M>(pub(crate) Arc<Shared<M>>);

/// The way in which a chunk was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Met {
    /// By going over all chunks, past those within spans.
    InTurn,
    /// By a hint or an offset, which may be wrong: it may lie in a span.
    Named,
}

/// The word of a chunk's bitmap that holds the bit of `slot`.
#[inline]
pub(crate) fn bitmap_word(chunk_at: u64, slot: u32) -> Off<u64> {
    Off::new(chunk_at + crate::layout::CHUNK_HEADER_BYTES + u64::from(slot / 64) * 8)
}
