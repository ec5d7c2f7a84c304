//! Commits of large transactions, page by page, so that they take little memory.
//!
//! No page moves. The record lies after the table, as that of any commit too large for a slot:
//!
//! 1. Checkpoint, so that no slot counts. For each page, make its direct stores, append its part of the record, flush
//!    both. If this fails, flush the whole database: the next commit skips bytes that are already there, and no
//!    checksum would miss them after a power cut.
//! 2. Store the slot with the mark; flush; **fence**. *Committed.*
//! 3. Read the record, and store each part in place; flush.
//! 4. Checkpoint: no other connection has to read so long a record. **Two fences.**

use pm::{LineSet, Memory};

use crate::store::connection::Store;
use crate::store::error::{Result, StoreError};
use crate::store::last_commit::Lines;
use crate::store::plan::{Plan, Streamed, Work, place_of};
use crate::store::record::{Part, decode_part};
use crate::store::replay::replay;
use crate::store::room;
use crate::store::shape::Shape;
use crate::store::slot::Entry;

/// Bytes of the record that are appended, or read, at a time: more than the longest part has.
const WINDOW_BYTES: usize = 256 << 10;
/// Bytes of the database after which they are released.
const TOUCHED_BYTES: u64 = 4 << 20;
/// The most memory for a page that is laid out or applied, for each of its bytes, and besides.
const PAGE_FACTOR: usize = 32;
const PAGE_MORE: usize = 64 << 10;

impl<M: Memory> Store<M> {
    /// Writes the record of what is staged (step 1).
    pub(super) fn work_of_stream(&mut self, size: u64, shape: Shape) -> Result<Work> {
        self.checkpoint_slots()?;
        let window = room::zeros(WINDOW_BYTES)?;
        let (check, direct, counters) = (0, 0, None);
        let mut streamed = Streamed { bytes: 0, check, direct, counters, window };
        let written = self.write_stream(size, shape, &mut streamed).and_then(|()| {
            // For step 3, which may not fail.
            room::ensure(PAGE_FACTOR * shape.page_bytes() + PAGE_MORE)
        });
        if written.as_ref().is_err_and(StoreError::leaves_no_stores) {
            self.flush_data();
            let mut lines = Lines::default();
            self.note_marker(&mut lines);
            self.fence(&mut lines);
        }
        written?;
        if streamed.bytes == 0 && size == self.view.size() {
            return Ok(Work::Counters(streamed.counters));
        }
        Ok(Work::Stream(streamed))
    }

    fn write_stream(&mut self, size: u64, shape: Shape, streamed: &mut Streamed) -> Result<()> {
        let page_bytes = shape.page_bytes() as u64;
        let (mut plan, mut record) = (Plan::default(), Vec::new());
        let mut touched = Touched::default();
        record.try_reserve(2 * WINDOW_BYTES).map_err(|_| StoreError::Memory)?;
        for page in self.staged_pages(size, page_bytes)? {
            room::ensure(PAGE_FACTOR * page_bytes as usize + PAGE_MORE)?;
            let Some(now) = self.written_page(page, page_bytes, &mut plan)? else { continue };
            let placed = if self.mode().places_cells() {
                self.lay_out_alone(&now, size, shape, &mut plan)
            } else {
                self.as_written(&now, &mut plan)
            };
            if placed.stores_nothing() {
                continue;
            }
            let place = place_of(now.frame, page_bytes);
            let mut lines = LineSet::new();
            for run in &placed.direct {
                let bytes = run.of(&placed.image);
                streamed.direct = crc32c::crc32c_append(streamed.direct, bytes);
                self.data.copy(place + run.at as u64, bytes);
                self.data.note(&mut lines, place + run.at as u64, run.bytes as u64);
                self.stats.direct += run.bytes as u64;
            }
            self.flush_unfenced(&mut Lines { data: lines, side: LineSet::new() });
            let bytes = placed.logged.iter().flat_map(|run| run.of(&placed.image)).copied();
            let bytes = bytes.collect();
            let (direct, logged, erased) = (placed.direct, placed.logged, placed.erased);
            Part { frame: now.frame, moved: None, direct, logged, erased, bytes }
                .encode(&mut record);
            self.stats.frames += 1;
            touched.add(self, place, page_bytes);
            if record.len() >= WINDOW_BYTES {
                self.append(&mut record, streamed)?;
            }
        }
        touched.release(self);
        self.append(&mut record, streamed)?;
        self.stats.placed += plan.placed;
        self.stats.exact += plan.exact;
        streamed.counters = plan.counters;
        Ok(())
    }

    /// Appends to the record after the table.
    fn append(&mut self, record: &mut Vec<u8>, streamed: &mut Streamed) -> Result<()> {
        let (mut lines, len) = (Lines::default(), record.len() as u64);
        self.side.append(streamed.bytes, record, &mut lines.side)?;
        self.flush_unfenced(&mut lines);
        self.side.release_appended(streamed.bytes, len);
        streamed.check = crc32c::crc32c_append(streamed.check, record);
        streamed.bytes += len;
        record.clear();
        Ok(())
    }

    /// Flushes lines, which the next fence makes durable.
    fn flush_unfenced(&mut self, lines: &mut Lines) {
        self.stats.lines += (lines.data.len() + lines.side.len()) as u64;
        lines.data.flush(self.data.memory());
        lines.side.flush(self.side.memory());
    }

    /// Commits what [`Self::work_of_stream`] has written.
    pub(super) fn commit_stream(&mut self, size: u64, streamed: &mut Streamed) -> Result<()> {
        let number = self.last.next();
        let lines = self.record_stream(size, streamed)?;
        self.place_stream(number, size, streamed, lines)?;
        self.side.set_begun(number);
        Ok(())
    }

    /// Stores the mark (step 2). Returns the lines to flush with the next commit.
    pub(super) fn record_stream(&mut self, size: u64, streamed: &Streamed) -> Result<Lines> {
        let number = self.last.next();
        self.side.set_begun(number);
        let sized = (size != self.view.size()).then_some(size);
        let (direct, ordered) = (streamed.direct, false);
        let mut lines = self.last.take_stored();
        let entry = Entry { number, size: sized, pages: true, bytes: &[], direct, ordered };
        self.side.log_written(&entry, streamed.bytes, streamed.check, &mut lines.side);
        // The direct stores are flushed, and need a fence of their own on a disk.
        self.note_marker(&mut lines);
        self.acknowledge(number, &mut lines)?;
        self.stats.bytes += streamed.bytes;
        Ok(lines)
    }

    /// Applies the record (steps 3 and 4).
    pub(super) fn place_stream(
        &mut self,
        number: u64,
        size: u64,
        streamed: &mut Streamed,
        lines: Lines,
    ) -> Result<()> {
        let page_bytes = self.page_bytes();
        let (mut done, mut touched) = (0, Touched::default());
        while done < streamed.bytes {
            let len = (streamed.bytes - done).min(WINDOW_BYTES as u64) as usize;
            let window = &mut streamed.window[..len];
            self.side.read_appended(done, window)?;
            let mut rest = &window[..];
            let mut next = rest;
            while let Some(part) = decode_part(&mut next, page_bytes as usize) {
                rest = next;
                let mut lines = Lines::default();
                let parts = [part];
                self.put_parts(&replay(&parts, None, page_bytes as usize), &mut lines.data);
                self.note_stored_after_commit(&parts, &mut lines.data);
                self.flush_unfenced(&mut lines);
                touched.add(self, place_of(parts[0].frame, page_bytes), page_bytes);
            }
            self.side.release_appended(done, len as u64);
            let taken = (len - rest.len()) as u64;
            if taken == 0 {
                return Err(StoreError::SideDamaged("the record of a large commit has changed"));
            }
            done += taken;
        }
        touched.release(self);
        self.finish_apply(number, size, true, &streamed.counters, lines)?;
        self.checkpoint_slots()
    }
}

/// The part of the database that was touched and need not stay in this process's memory.
#[derive(Default)]
struct Touched {
    from: u64,
    to: u64,
    bytes: u64,
}

impl Touched {
    /// Adds a page; releases the part if it has become large.
    fn add<M: Memory>(&mut self, store: &Store<M>, at: u64, bytes: u64) {
        if self.bytes == 0 {
            (self.from, self.to) = (at, at);
        }
        (self.from, self.to) = (self.from.min(at), self.to.max(at + bytes));
        self.bytes += bytes;
        if self.bytes >= TOUCHED_BYTES {
            self.release(store);
        }
    }

    fn release<M: Memory>(&mut self, store: &Store<M>) {
        store.data.release(self.from, self.to - self.from);
        *self = Self::default();
    }
}
