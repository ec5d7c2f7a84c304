//! Knowledge of lanes that is a process's own, since nothing durable says it: the free slots of a lane's
//! classes; lanes without an owner, with what is known of their chunks.

use std::collections::BTreeSet;

use pm::Range;

use crate::chunk::Chunk;
use crate::classes::SPAN_INDEX;
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A lane's chunks of a class.
#[derive(Default, Debug)]
pub(crate) struct Class {
    /// The lane's known chunks of this class; `GONE` where one was given back.
    pub(crate) chunks: Vec<u32>,
    /// A bit for each position in `chunks`, set while that chunk has a free slot.
    pub(crate) with_space: Vec<u64>,
    /// Positions of `chunks` that are `GONE`.
    pub(crate) gone: Vec<usize>,
    pub(crate) free: u64,
    /// The rotating cursor: a position in `chunks` and a slot there.
    pub(crate) position: usize,
    pub(crate) slot: u32,
    pub(crate) hint_tried: bool,
}

/// No chunk: it was given back.
pub(crate) const GONE: u32 = u32::MAX;

/// The classes of a lane that knows no chunk.
pub(crate) fn no_classes() -> Vec<Class> {
    (0..SPAN_INDEX + 3).map(|_| Class::default()).collect()
}

/// The objects of a lane that others have given back.
#[derive(Debug)]
pub(crate) struct Freed(pub(crate) Mutex<Vec<u64>>);

impl Freed {
    pub(crate) fn queue(&self) -> MutexGuard<'_, Vec<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn forget(&self) {
        self.queue().clear();
    }
}

/// The place where a lane goes when it is dropped.
#[derive(Debug)]
pub(crate) enum OnDrop {
    /// The lane was there when the heap was formatted.
    Fixed,
    /// The lane goes to those that can be taken.
    HandedOut(Arc<Freed>),
    /// The lane was put away.
    Away,
}

/// A lane without an owner.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) number: u32,
    pub(crate) area: Range,
    pub(crate) freed: Arc<Freed>,
    pub(crate) classes: Vec<Class>,
    pub(crate) chunks: Vec<Option<Box<Chunk>>>,
    pub(crate) undiscovered: std::ops::Range<u32>,
    pub(crate) recovered: bool,
    pub(crate) kept: Vec<(usize, Vec<u64>)>,
    /// True if it has no empty chunk.
    pub(crate) emptied: bool,
    /// True if what was given back to it could not be freed: others are taken before it.
    pub(crate) damaged: bool,
}

/// The lanes in blocks.
#[derive(Default, Debug)]
pub(crate) struct HandedOut {
    pub(crate) idle: Vec<Known>,
    /// Lanes that were not taken since the heap was opened.
    pub(crate) unused: BTreeSet<u32>,
    /// The number from which on they were made by this process, and have no chunk but those that it
    /// knows.
    pub(crate) made_from: u32,
    /// The queue of each, by its number.
    pub(crate) freed: Vec<Arc<Freed>>,
    pub(crate) recovered: bool,
}
