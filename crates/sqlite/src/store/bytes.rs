//! Steps 2 and 3 of a byte-wise commit ([`crate::store::connection`]), and the runs of bytes that a transaction
//! changes.

use pm::Memory;

use crate::store::connection::Store;
use crate::store::error::Result;
use crate::store::frames::{Frames, changed};
use crate::store::last_commit::Lines;
use crate::store::layout::{COUNTERS, GRANULE, HEADER_BYTES};
use crate::store::mode::Mode;
use crate::store::page1;
use crate::store::plan::Counters;
use crate::store::slot::Entry;

impl<M: Memory> Store<M> {
    /// Logs and applies runs of bytes (steps 2 and 3).
    pub(super) fn log_bytes(
        &mut self,
        size: u64,
        frames: &Frames,
        counters: &Option<Counters>,
    ) -> Result<()> {
        let lines = self.record_bytes(size, frames)?;
        let number = self.last.next();
        self.place_bytes(number, size, frames, counters, lines)?;
        self.side.set_begun(number);
        Ok(())
    }

    /// Logs runs of bytes (step 2). Returns the lines to flush with the next commit.
    pub(super) fn record_bytes(&mut self, size: u64, frames: &Frames) -> Result<Lines> {
        let number = self.last.next();
        self.side.set_begun(number);
        let mut lines = self.last.take_stored();
        let sized = (size != self.view.size()).then_some(size);
        let (pages, bytes) = (false, &frames.bytes[..]);
        self.side.log(
            &Entry { number, size: sized, pages, bytes, direct: 0, ordered: false },
            &mut lines.side,
        );
        self.acknowledge(number, &mut lines)?;
        self.stats.bytes += frames.bytes.len() as u64;
        Ok(lines)
    }

    /// Applies runs of bytes (step 3).
    pub(super) fn place_bytes(
        &mut self,
        number: u64,
        size: u64,
        frames: &Frames,
        counters: &Option<Counters>,
        mut lines: Lines,
    ) -> Result<()> {
        self.put_frames(&frames.bytes, &mut lines.data);
        self.stats.frames += frames.count;
        self.finish_apply(number, size, false, counters, lines)?;
        Ok(())
    }

    /// The runs of staged bytes, and page 1's counters, which are not among them.
    pub(super) fn frames(&self, size: u64) -> Result<(Frames, Option<Counters>)> {
        let (mut frames, mut counters) = (Frames::default(), None);
        let mut old = Box::new([0; GRANULE as usize]);
        let mut granule = Box::new([0; GRANULE as usize]);
        for number in self.stage.numbers()? {
            let start = number * GRANULE;
            let Some(len) = size.checked_sub(start).map(|len| len.min(GRANULE) as usize) else {
                continue;
            };
            self.in_place(start, &mut old[..len])?;
            self.stage.read(number, 0, &mut granule[..])?;
            if number == 0 && len as u64 >= HEADER_BYTES {
                page1::mark(&mut granule[..], self.side.tag());
                page1::mark(&mut old[..], self.side.tag());
                counters = Some(self.take_counters(&mut granule[..], &old[..]));
            }
            let new = &granule[..len];
            let runs = changed(&old[..len], new);
            match self.mode() {
                Mode::Full if !runs.is_empty() => frames.add(start, new)?,
                _ => runs.iter().try_for_each(|(at, len)| {
                    frames.add(start + *at as u64, &new[*at..*at + *len])
                })?,
            }
        }
        Ok((frames, counters))
    }

    /// Takes the counters out of a page 1 that SQLite wrote.
    pub(super) fn take_counters(&self, page: &mut [u8], held: &[u8]) -> Counters {
        let mut counters = page1::take_counters(page, held);
        if self.stage.refuses_wal() {
            // SQLite's cache has the page that says so, and has to read this one.
            page1::raise(&mut counters);
        }
        counters
    }

    /// Stores page 1's counters as SQLite wrote them. If a counter was announced for a commit that failed, SQLite
    /// may have counted on from the previous one; then a later value than the announced one is stored.
    ///
    /// # Errors
    /// The medium fails.
    pub(super) fn put_counters(&mut self, counters: &Option<Counters>) -> Result<()> {
        let Some(mut counters) = *counters else { return Ok(()) };
        if self.counter.is_exposed() {
            let counter = page1::later_counter(&self.data, &counters[0])?;
            counters.iter_mut().for_each(|bytes| bytes[..4].copy_from_slice(&counter));
        }
        for (range, bytes) in COUNTERS.iter().zip(&counters) {
            self.data.copy(range.start as u64, &bytes[..range.len()]);
        }
        self.counter.note_stored();
        Ok(())
    }
}
