//! Searches for rows and values that are in no index yet (P4 4.4), and the index backlog that follows from them.
//!
//! The ids of a column, and the words of a dictionary's elements, are contiguous in their segments. A search
//! copies a block of them at a time and compares it with the wanted value; it looks at stamps of rows, and bytes
//! of values, only where the block matches. Rows and values that were there when the store was opened stay as they
//! are until all searches that may look at them have ended.
//!
//! A search adds rows and values to the backlog of the index that it lacked: one for as many bytes as are searched
//! in about the time that indexing one takes. [`crate::Store::build_pending`] builds the backlog, in calls of
//! bounded length. So all searches together look at no more than a fixed number of bytes for each row, however
//! many they are, and building costs about as much as they do. Only if more becomes pending than one call builds,
//! searches before the next call look at more.

use std::ops::ControlFlow;
// Counts that are no words between threads: tests of interleavings do not schedule them.
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use pm::Memory;
use zerocopy::IntoBytes;

use crate::Result;
use crate::dictionary::{Dictionary, second_word};
use crate::layout::Kind;
use crate::table::Table;
use crate::value::Value;

/// Bytes searched for each row or value of the backlog.
const BACKLOG_BYTES: u64 = 1024;
/// Rows whose ids are compared together, 4 KiB of a column.
const ROWS: usize = 1024;
/// Words of elements that are compared together, 4 KiB.
const WORDS: usize = 512;

/// The index work that follows from searches that lacked an index.
#[derive(Debug, Default)]
pub(crate) struct IndexBacklog {
    /// Rows or values that were looked at.
    looked: AtomicU64,
    /// The bytes of them for which nothing is built yet.
    bytes: AtomicU64,
}

impl IndexBacklog {
    /// Adds a search of so many rows or values, of so many bytes.
    fn add(&self, looked: u64, bytes: u64) {
        self.looked.fetch_add(looked, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Adds a search that has made the keys of so many rows, which takes as long as to index them.
    pub(crate) fn add_keys(&self, looked: u64) {
        self.add(looked, looked * BACKLOG_BYTES);
    }

    /// Returns whether anything is pending.
    pub(crate) fn has_pending(&self) -> bool {
        self.bytes.load(Relaxed) > 0
    }

    /// Takes up to `most` pending rows or values: at least one, if there was a search.
    pub(crate) fn take(&self, most: u64) -> u64 {
        let mut taken = 0;
        let build_backlog = |bytes: u64| {
            taken = bytes.div_ceil(BACKLOG_BYTES).min(most);
            Some(bytes.saturating_sub(taken * BACKLOG_BYTES))
        };
        // It never fails.
        let _ = self.bytes.fetch_update(Relaxed, Relaxed, build_backlog);
        taken
    }

    /// The rows or values that searches have looked at.
    pub(crate) fn looked(&self) -> u64 {
        self.looked.load(Relaxed)
    }
}

/// Returns whether one of the words is the wanted one. It compares all of them, which needs no branches.
fn have<T: PartialEq + Copy>(words: impl Iterator<Item = T>, sought: T) -> bool {
    words.fold(false, |found, word| found | (word == sought))
}

impl<M: Memory> Table<M> {
    /// Calls `visit` with the rows below `unbuilt` that have these ids in the columns of the primary key, the last row
    /// first. They may be torn.
    pub(crate) fn each_unbuilt(
        &self,
        ids: &[u32],
        unbuilt: u64,
        mut visit: impl FnMut(u64) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut start = unbuilt;
        let found = self.blocks_unbuilt(ids, &mut start, &mut visit);
        let looked = unbuilt - start;
        self.indexes[0].read().backlog.add(looked, looked * 4 * ids.len() as u64);
        found
    }

    /// The same; `start` becomes the first row of the last block.
    fn blocks_unbuilt(
        &self,
        ids: &[u32],
        start: &mut u64,
        visit: &mut impl FnMut(u64) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let (shape, columns) = (self.rows.shape, self.key_columns());
        let mut block = [0u32; ROWS];
        while *start > 1 {
            let end = *start;
            let segment = shape.start(shape.segment(end - 1));
            *start = segment.max(end.saturating_sub(ROWS as u64)).max(1);
            let place = self.place(*start)?;
            let block = &mut block[..(end - *start) as usize];
            let (mut in_all, mut last) = (true, 0);
            for (column, id) in columns.iter().zip(ids) {
                self.memory().read_into(place.id(*column).plus(0), block.as_mut_bytes())?;
                in_all = have(block.iter().copied(), *id);
                last = *id;
                if !in_all {
                    break;
                }
            }
            if !in_all {
                continue;
            }
            for (row, id) in (*start..end).rev().zip(block.iter().rev()) {
                if *id == last && self.has_key_ids(row, ids)? && visit(row)?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl<M: Memory> Dictionary<M> {
    /// The id of a value among the ids below `unbuilt`.
    pub(crate) fn find_unbuilt(&self, value: Value<'_>, unbuilt: u64) -> Result<Option<u32>> {
        let mut end = 1;
        let found = self.find_in_blocks(value, unbuilt, &mut end);
        let looked = end - 1;
        self.index.read().backlog.add(looked, looked * self.element_bytes());
        found
    }

    /// The same; `end` becomes the end of the last block.
    fn find_in_blocks(&self, value: Value<'_>, unbuilt: u64, end: &mut u64) -> Result<Option<u32>> {
        // The word of an element that few others share; for bytes that is the second one.
        let (words, sought) = match (self.kind(), value) {
            (Kind::Word, Value::Word(word)) => (1, word),
            (Kind::Bytes, Value::Bytes(bytes)) => (2, second_word(bytes)),
            _ => return Ok(None),
        };
        let shape = self.values.shape;
        let mut block = [0u64; WORDS];
        while *end < unbuilt {
            let start = *end;
            let segment = shape.start(shape.segment(start) + 1);
            *end = unbuilt.min(start + (WORDS / words) as u64).min(segment);
            let block = &mut block[..(*end - start) as usize * words];
            self.memory().read_into(self.element(start as u32)?.plus(0), block.as_mut_bytes())?;
            let is_here = match words {
                1 => have(block.iter().copied(), sought),
                _ => have(block.chunks_exact(2).map(|element| element[1]), sought),
            };
            if !is_here {
                continue;
            }
            for (id, element) in (start..*end).zip(block.chunks_exact(words)) {
                if element[words - 1] == sought && self.has(id as u32, value)? {
                    return Ok(Some(id as u32));
                }
            }
        }
        Ok(None)
    }
}
