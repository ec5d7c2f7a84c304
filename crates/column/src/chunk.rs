//! Chunks: the rows of a table, column by column.
//!
//! A chunk's header leads to an array each of begin, end and prev, words, and to one of ids for every
//! column, four bytes each. Nothing in it moves; a row keeps its id for good.

use std::sync::atomic::Ordering::Acquire;

use heap::Lane;
use pm::{Bad, Memory, Off, Range};

use crate::Result;
use crate::array::{Array, zeroed};
use crate::layout::{CHUNK_FIXED, columns_together};

/// The places of a chunk's arrays.
#[derive(Debug)]
pub(crate) struct Chunk {
    begin: u64,
    end: u64,
    prev: u64,
    columns: Box<[u64]>,
}

impl Chunk {
    /// The chunk whose header is at `at`.
    pub(crate) fn load<M: Memory>(memory: &M, at: u64, columns: usize, rows: u64) -> Result<Self> {
        let word = |index: u64| -> Result<u64> {
            let place = memory.load(Off::new(at.saturating_add(index * 8)), Acquire)?;
            let bytes = if index < CHUNK_FIXED { 8 } else { 4 };
            if place == 0 || !place.is_multiple_of(8) {
                return Err(Bad::Damaged { what: "chunk of rows", at }.into());
            }
            pm::checked_range(Range::new(place, rows * bytes), memory.len())?;
            Ok(place)
        };
        let ids = (0..columns as u64).map(|column| word(CHUNK_FIXED + column));
        let columns = ids.collect::<Result<Box<[u64]>>>()?;
        Ok(Self { begin: word(0)?, end: word(1)?, prev: word(2)?, columns })
    }
}

/// Makes a chunk of zeros and adds it to the array, if it is not there.
pub(crate) fn add<M: Memory>(
    lane: &mut Lane<M>,
    array: &Array<Chunk>,
    segment: u64,
    columns: usize,
) -> Result<()> {
    let memory = lane.memory().clone();
    if array.place(&memory, segment)?.is_some() {
        return Ok(());
    }
    let rows = array.shape.elements(segment);
    let words = CHUNK_FIXED + columns as u64;
    let together = columns_together(columns);
    // Bytes of each object, and how many words of the header lead into it.
    let fixed = (0..CHUNK_FIXED).map(|_| (rows * 8, 1));
    let groups = (0..columns).step_by(together).map(|first| together.min(columns - first) as u64);
    let parts = fixed.chain(groups.map(|many| (rows * 4 * many, many)));
    let mut objects = vec![zeroed(lane, words * 8)?];
    let mut word = Off::<u64>::new(objects[0]);
    for (bytes, many) in parts {
        match zeroed(lane, bytes) {
            Ok(part) => objects.push(part),
            Err(full) => {
                objects.into_iter().for_each(|object| lane.release(object));
                return Err(full);
            }
        }
        for within in 0..many {
            memory.store(word, objects[objects.len() - 1] + within * (bytes / many));
            word = word.plus(8);
        }
    }
    memory.flush(Range::new(objects[0], words * 8));
    memory.fence();
    array.add(lane, segment, objects[0], &objects)
}

/// The places of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    chunk: &'a Chunk,
    within: u64,
}

impl<'a> Place<'a> {
    pub(crate) fn new(chunk: &'a Chunk, within: u64) -> Self {
        Self { chunk, within }
    }

    /// The objects of the row's chunk, whose header is at `at`.
    pub(crate) fn objects(self, at: u64) -> impl Iterator<Item = u64> + 'a {
        let Chunk { begin, end, prev, columns } = self.chunk;
        let first = columns.iter().step_by(columns_together(columns.len()));
        [at, *begin, *end, *prev].into_iter().chain(first.copied())
    }

    pub(crate) fn begin(self) -> Off<u64> {
        Off::new(self.chunk.begin + self.within * 8)
    }

    pub(crate) fn end(self) -> Off<u64> {
        Off::new(self.chunk.end + self.within * 8)
    }

    pub(crate) fn prev(self) -> Off<u64> {
        Off::new(self.chunk.prev + self.within * 8)
    }

    pub(crate) fn id(self, column: usize) -> Off<u32> {
        Off::new(self.chunk.columns[column] + self.within * 4)
    }
}
