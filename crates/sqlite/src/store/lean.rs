//! The mode `lean`: a commit logs the words in which pages differ from their frames.
//!
//! Each page stays in its frame, and its contents are not looked at: nothing is parsed, matched or placed. The record
//! is that of any page-wise commit ([`crate::store::record`]), with logged runs alone, so that recovery and connections
//! in other modes read it. The connection keeps its buffers: a commit after one of its own allocates nothing here once
//! they are large enough.
//!
//! 1. Compare each staged page with its frame, and append the runs of words that differ to the record.
//! 2. Write the record into the next slot; flush it with the stores of the previous commit's step 3; **fence**.
//!    *Committed.*
//! 3. Store the runs in place.

use pm::{Memory, View as _};

use crate::store::connection::Store;
use crate::store::error::Result;
use crate::store::layout::{GRANULE, HEADER_BYTES};
use crate::store::lean_record::LeanRecord;
use crate::store::page1;
use crate::store::plan::{Counters, place_of};
use crate::store::record::each_logged;
use crate::store::slot::Entry;

impl<M: Memory> Store<M> {
    /// Makes the record of what is staged (step 1). Returns page 1's counters, which are not in it.
    ///
    /// # Errors
    /// There is no memory, or the medium fails.
    pub(super) fn make_lean_record(
        &mut self,
        size: u64,
        page_bytes: u64,
    ) -> Result<Option<Counters>> {
        let mut record = std::mem::take(&mut self.lean);
        let made = self.compare(&mut record, size, page_bytes);
        self.lean = record;
        made
    }

    fn compare(
        &self,
        record: &mut LeanRecord,
        size: u64,
        page_bytes: u64,
    ) -> Result<Option<Counters>> {
        record.begin(self.stage.granules())?;
        let mut counters = None;
        for number in self.stage.each_number() {
            let start = number * GRANULE;
            let end = (start + GRANULE).min(size);
            if start >= end {
                continue;
            }
            // The copy of page 1 gets the marker and the tag, and loses its counters.
            let mut copy = record.take_copy();
            let staged = self.stage.in_memory(number).filter(|_| number > 0);
            if staged.is_none() {
                self.stage.read(number, 0, &mut copy)?;
            }
            // A granule has several pages, or a page several granules.
            let mut at = start;
            while at < end {
                let (page, within) = (at / page_bytes + 1, at % page_bytes);
                let (from, to) = ((at - start) as usize, (page_bytes * page).min(end) - start);
                let frame = self.side.frame(page as u32)?;
                let view = self.data.view(place_of(frame, page_bytes) + within, start + to - at)?;
                if at == 0 {
                    page1::mark(&mut copy, self.side.tag());
                    let header =
                        view.bytes(0, HEADER_BYTES as usize).array::<{ HEADER_BYTES as usize }>(0);
                    counters = Some(self.take_counters(&mut copy, &header));
                }
                let new = staged.map_or(&copy[..], |staged| &staged[..]);
                let old = view.bytes(0, (start + to - at) as usize);
                record.add(frame, within as usize, old, &new[from..to as usize]);
                at = start + to;
            }
            record.put_copy(copy);
        }
        Ok(counters)
    }

    /// Logs the record and stores its runs in place (steps 2 and 3).
    ///
    /// # Errors
    /// The medium fails.
    pub(super) fn commit_lean(&mut self, size: u64, counters: &Option<Counters>) -> Result<()> {
        // Reading a page past the end of a truncated file has failed the medium, and gave zeros.
        self.healthy()?;
        let number = self.last.next();
        self.side.set_begun(number);
        let mut lines = self.take_unflushed();
        let sized = (size != self.view.size()).then_some(size);
        let (bytes, direct, ordered) = (self.lean.bytes(), 0, false);
        let entry = Entry { number, size: sized, pages: true, bytes, direct, ordered };
        self.side.log(&entry, &mut lines.side);
        self.acknowledge(number, &mut lines)?;
        self.stats.bytes += self.lean.len();
        self.stats.frames += self.lean.parts();
        let page_bytes = self.page_bytes();
        let whole = each_logged(self.lean.bytes(), |frame, run, bytes| {
            let at = place_of(frame, page_bytes) + run.at as u64;
            if frame == 1 {
                for part in page1::all_but_counters(at, bytes.len()) {
                    self.data.copy(at + part.start as u64, &bytes[part]);
                }
            } else {
                self.data.copy(at, bytes);
            }
            if self.needs_flush() {
                self.data.note(&mut lines.data, at, bytes.len() as u64);
            }
        });
        assert!(whole, "the record was made here");
        self.finish_apply(number, size, true, counters, lines)?;
        self.side.set_begun(number);
        Ok(())
    }
}
