//! Room in the log: an operation takes it before it changes anything, so that a full memory refuses
//! operations and never a commit.
//!
//! 1. Of the transaction so far, a bound of the bytes that its commit logs: a sum over the pages
//!    that it has touched, kept up to date page by page.
//! 2. Of the operation, a bound for the pages on its way, with a split or a merge at each level,
//!    and for the pages of long values that come and go.
//! 3. Where the log is not as large as both, it grows, or the operation is refused.
//!
//! A put also makes the log large enough for a later deletion of a row, with all its records in
//! several trees: alone in its transaction, that works in a full memory.

use pm::{Memory, observe};

use crate::Result;
use crate::layout::MOST_LEVELS;
use crate::part::{Part, WORD_FRAME};
use crate::phases::{HEAP, INSERT};
use crate::record::LEAF_LENGTHS;
use crate::scheme::{Records, Scheme};
use crate::store::Store;

/// Words of the master, besides the roots, that a transaction changes.
const MASTER_WORDS: u64 = 3;

/// The operation that room is taken for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    /// Pages from the root to the leaf.
    pub(crate) levels: usize,
    /// The most records of one of them.
    pub(crate) records: usize,
    /// Pages of a long value that comes.
    pub(crate) new_pages: usize,
    /// Pages of a long value that goes.
    pub(crate) old_pages: usize,
}

impl<M: Memory, S: Scheme<M>> Store<M, S> {
    /// Sets the number of trees that the deletion of a row concerns, for which the log has room in
    /// a full memory; 1 otherwise.
    pub fn keep_room_for(&mut self, trees: usize) {
        self.trees_of_a_row = trees.max(1) as u64;
    }

    /// Takes room in the log for the transaction so far and a put.
    ///
    /// # Errors
    /// The memory is full; nothing has changed then.
    pub(crate) fn room_to_put(&mut self, put: Operation) -> Result<()> {
        let (levels, records) = ((put.levels + 1).min(MOST_LEVELS), self.records_of_small_pages());
        let deletion = Operation { levels, records, new_pages: 0, old_pages: 0 };
        let chain = Operation { old_pages: put.new_pages.max(put.old_pages), ..deletion };
        let others = (self.trees_of_a_row - 1) * self.bytes_of(deletion);
        let later = others + self.bytes_of(chain) + self.master_bytes(self.trees_of_a_row);
        self.take_room(put, later)
    }

    /// The same, and a deletion.
    pub(crate) fn room_to_delete(&mut self, deletion: Operation) -> Result<()> {
        let records = deletion.records.min(self.records_of_small_pages());
        self.take_room(Operation { records, ..deletion }, 0)
    }

    /// The most records of a page that is merged with another one: it is not a quarter full.
    fn records_of_small_pages(&self) -> usize {
        self.page_bytes() / 4 / LEAF_LENGTHS
    }

    fn take_room(&mut self, operation: Operation, later: u64) -> Result<()> {
        let so_far = self.logged_so_far();
        let roots = self.work.room.pages.len() as u64 + 1;
        let now = so_far + self.bytes_of(operation) + self.master_bytes(roots);
        observe!(M: self.memory.phase(INSERT));
        let room = self.scheme.reserve(&mut self.lane, now, later);
        observe!(M: self.memory.phase(HEAP));
        room
    }

    fn master_bytes(&self, roots: u64) -> u64 {
        WORD_FRAME * (MASTER_WORDS + roots.min(u64::from(self.options.trees)))
    }

    /// Bytes that an operation adds: at each level a page and its neighbour change, a page comes or
    /// goes, and a child is led to; above them there may be a new root.
    fn bytes_of(&self, operation: Operation) -> u64 {
        let page_bytes = self.page_bytes() as u64;
        let one = Part { page_bytes, words: 1, ..Part::default() };
        let changed = S::logged_bytes(&Part {
            header: page_bytes / 2,
            words: 2,
            runs: operation.records as u64 + 3,
            run_bytes: page_bytes,
            ..one
        });
        let filled = Part { runs: 1, run_bytes: page_bytes, ..one };
        let levels = operation.levels as u64;
        (2 * levels + 1) * changed
            + (levels + operation.old_pages as u64) * S::logged_bytes(&one)
            + operation.new_pages as u64 * S::logged_bytes(&filled)
    }

    /// Bytes that a commit logs of the pages that the transaction has touched.
    fn logged_so_far(&mut self) -> u64 {
        for page in std::mem::take(&mut self.work.room.touched) {
            let bytes = S::logged_bytes(&self.part_of(page));
            let room = &mut self.work.room;
            let before = room.pages.insert(page, bytes).unwrap_or(0);
            room.sum = room.sum + bytes - before;
        }
        self.work.room.sum
    }

    fn part_of(&self, page: u64) -> Part {
        let page_bytes = self.page_bytes() as u64;
        let part = Part { page_bytes, words: 1, ..Part::default() };
        let mut part = match self.work.drafts.get(&page) {
            Some(draft) => draft.part(),
            None if self.work.overflow.contains_key(&page) => {
                Part { runs: 1, run_bytes: page_bytes, ..part }
            }
            // It is freed, or spare.
            None => part,
        };
        match (S::RECORDS, self.work.drafts.get(&page)) {
            (Records::Logged, _) => {
                let (runs, bytes) = self.work.room.written.get(&page).copied().unwrap_or_default();
                part.runs += runs;
                part.run_bytes += bytes;
            }
            (Records::Checked, Some(draft)) => part.runs += draft.new_records(),
            _ => {}
        }
        part
    }
}
