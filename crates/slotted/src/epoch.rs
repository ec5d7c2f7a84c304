//! The number of an opening of the store, where the lines of headers have checksums. A line that
//! this opening has stored needs no check; every other one is checked when it is read.
//!
//! A line that does not match was being stored when the store was cut off; the other line of its
//! page counts. Before anything is written into that page the wrong line is overwritten, durably:
//! its record, put once more, could make it match.
//!
//! Numbers have two bytes. When they wrap around, every line is turned into one that needs no
//! check: one opening in 65,535 walks over all leaves.

use std::sync::atomic::Ordering::Acquire;

use pm::{Bad, LineSet, Memory, Off, Range, View};

use crate::Result;
use crate::header::{Check, Header, Kind};
use crate::layout::{CHECK_AT, EPOCH_AT, EPOCH_AT_LINE, FIRST_EPOCH, LINE, MOST_LEVELS, WORD};
use crate::page::committed;
use crate::scheme::Scheme;
use crate::store::Store;

impl<M: Memory, S: Scheme<M>> Store<M, S> {
    /// Takes the next number, durably, with what the scheme has flushed when it was opened.
    pub(crate) fn begin_epoch(&mut self) -> Result<()> {
        let place = Off::<u64>::new(self.at + EPOCH_AT);
        let last = self.memory.load(place, Acquire)?;
        let epoch = u16::try_from(last.saturating_add(1)).ok();
        if epoch.is_none() {
            for root in self.master.roots.clone() {
                self.forget_epochs(root, 1)?;
            }
        }
        let epoch = epoch.unwrap_or(FIRST_EPOCH);
        self.memory.store(place, u64::from(epoch));
        self.memory.flush_word(place);
        self.memory.fence();
        self.epoch = epoch;
        self.scheme.begin(epoch);
        Ok(())
    }

    /// Overwrites a line that is newer than the one that counts.
    pub(crate) fn forget_line<V: View>(&self, view: &V, page: u64, header: Header, at: usize) {
        let other = LINE - at;
        let wrong = |other: Header| other.kind == Kind::Checked && other.is_newer(header);
        if header.kind == Kind::Checked && Header::decode(view.word(other)).is_some_and(wrong) {
            let line = Off::<u64>::new(page + other as u64);
            self.memory.store(line, 0);
            self.memory.flush_word(line);
            self.memory.fence();
        }
    }

    /// Makes the lines of all leaves below a page such that need no check.
    fn forget_epochs(&self, page: u64, level: usize) -> Result<()> {
        let view = self.view(page)?;
        let (header, at) = committed(&view, self.here(page))?;
        if !header.kind.is_leaf() {
            if level == MOST_LEVELS {
                return Err(Bad::Damaged { what: "depth of a tree", at: page }.into());
            }
            for index in 0..usize::from(header.count) {
                let child = self.node(page)?.inner(index)?.child;
                self.forget_epochs(child, level + 1)?;
            }
            return Ok(());
        }
        self.forget_line(&view, page, header, at);
        if Check::of(&view.bytes(at, LINE).array(0)).epoch != 0 {
            // The word has the last offset, too.
            let word = EPOCH_AT_LINE / WORD * WORD;
            let mut bytes: [u8; WORD] = view.word(at + word).to_le_bytes();
            bytes[EPOCH_AT_LINE - word..CHECK_AT - word].fill(0);
            let place = page + (at + word) as u64;
            self.memory.store(Off::new(place), u64::from_le_bytes(bytes));
            let mut lines = LineSet::new();
            lines.add(Range::new(place, WORD as u64));
            lines.flush(&self.memory);
            self.memory.fence();
        }
        Ok(())
    }
}
