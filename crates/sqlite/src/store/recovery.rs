//! Recovery: what the slots have is stored again, and nothing of it counts any more.
//!
//! 0. Flush the number that is settled: a killed process may have stored it, and nothing of it be durable. Of two
//!    settled slots only one could be emptied at a power cut, and the other one would count again. **Fence.**
//!    If the log of frames has some (`store::nvwal`), no slot counts: they are put in place, and it is emptied.
//! 1. The slot with the smaller number counts if its record is whole; the other one if what it has stored
//!    directly is there, too. That the newer one was begun says that all of the older one was durable.
//!    A commit that was in place, or behind which another one has begun, was durable: if it does not count and
//!    is not checkpointed, that is damage and no commit that was cut off. Replaying without it would mix two states.
//!    An ordered one counts if its mark is there. If the newer one counts as well, the older, ordered one is durable
//!    where it belongs: it is left out.
//! 2. Flush both, and what they have stored directly: a killed process may have stored all of it, and
//!    nothing of it be durable. A commit that has begun and does not count may have stored directly, too,
//!    nobody knows where: then the whole database is flushed. Else the next commit could leave out bytes that
//!    are there already, and that no checksum would miss after a power cut. **Fence.**
//! 3. Store the rest of the older one, but for the bytes that the newer one has stored directly, then that of the
//!    newer one. **Fence.**
//!    A commit that is prepared (`store::prepared`) and is given up counts for 1 alone.
//! 4. Settle: both are durable where they belong. From now on others store where they have stored directly.
//!    **Fence.**

use pm::{LineSet, Memory};

use crate::store::connection::{Lines, Store};
use crate::store::deferred_flush::Unflushed;
use crate::store::error::{IN_PLACE_AND_DAMAGED, Result, StoreError};
use crate::store::frames::Frames;
use crate::store::layout::HEADER_BYTES;
use crate::store::page1;
use crate::store::plan::{moves, place_of};

use crate::store::record::Part;
use crate::store::replay::replay;
use crate::store::slot::{Body, Logged};
use crate::store::verdict::{Decide, Verdict, undecided};

impl<M: Memory> Store<M> {
    /// Replays what is committed. The caller has the database to himself.
    ///
    /// # Errors
    /// The medium fails, or the file is shorter than what is committed.
    pub fn recover(&mut self) -> Result<()> {
        self.recover_and_decide(&undecided)
    }

    /// The same, where a commit may be prepared, and `decide` says whether it counts.
    ///
    /// # Errors
    /// As [`Self::recover`], and those of `decide`; nothing has changed then.
    pub fn recover_and_decide(&mut self, decide: Decide<'_>) -> Result<()> {
        self.prepared = None;
        self.side.read_table_size()?;
        self.side.check_table()?;
        let mut lines = Lines::default();
        self.note_marker(&mut lines);
        self.side.note_header(&mut lines.side);
        if self.side.prepared()? > 0 {
            self.side.note_name(&mut lines.side)?;
        }
        self.fence(&mut lines);
        self.recover_frames()?;
        let (found, given_up) = self.counting(decide, &mut lines)?;
        let ((begun, _), checkpointed) = (self.side.progress()?, self.side.checkpointed()?);
        if found.last().map_or(checkpointed, |newest| newest.number) < begun {
            self.flush_data();
        }
        self.fence(&mut lines);
        // No slot is given up for what did not become durable.
        self.healthy()?;
        let size = found.iter().rev().find_map(|logged| logged.size);
        let size = size.map_or_else(|| self.side.size(), Ok)?;
        self.check_file_bytes(size)?;
        self.replay(&found, &mut lines);
        // Of a commit that is settled the two may have become durable one without the other.
        if size >= HEADER_BYTES {
            page1::raise_counters(&self.data, &mut lines.data)?;
        }
        self.side.set_size(size, &mut lines.side);
        self.fence(&mut lines);
        self.healthy()?;
        // Numbers only grow: others remember the last one that they have seen.
        let last = found.last().map_or(begun.max(checkpointed), |logged| logged.number);
        let last = last.max(given_up);
        self.side.set_checkpointed(last, &mut lines.side);
        self.fence(&mut lines);
        self.known_checkpointed = last;
        if self.side.prepared()? > 0 {
            // The next commit may have the number of one that was to be prepared.
            self.side.clear_prepared(&mut lines.side);
            self.fence(&mut lines);
        }
        self.side.set_begun(last);
        self.side.set_applied(last);
        (self.last, self.size, self.marked) = (last, size, true);
        (self.marker_is_durable, self.last_by_pages) = (true, None);
        (self.stored, self.unflushed) = (Lines::default(), Unflushed::new());
        self.stats.recoveries += 1;
        self.stats.replayed += found.len() as u64;
        self.healthy()
    }

    /// Flushes the whole database.
    fn flush_data(&mut self) {
        if M::DURABLE {
            self.stats.lines += self.data.len().div_ceil(pm::LINE_BYTES);
            self.data.flush_all();
        }
    }

    /// The commits that count, the older one first; the other slots are emptied.
    /// Also returns the number of one that is given up, or 0.
    fn counting(&self, decide: Decide<'_>, lines: &mut Lines) -> Result<(Vec<Logged>, u64)> {
        let (mut found, mut given_up) = (self.judge()?, 0);
        if let Some(name) = self.undecided_name(found.last())?
            && decide(&name)? == Verdict::Discard
        {
            given_up = found.pop().map_or(0, |logged| logged.number);
        }
        for number in 0..2 {
            // One that is given up is checkpointed, and with it what was begun: before that it decides.
            let given_up_here = given_up > 0 && given_up % 2 == number;
            if found.iter().all(|logged| logged.number % 2 != number) && !given_up_here {
                self.side.empty(number, &mut lines.side);
            }
        }
        for logged in &found {
            self.side.note(logged, &mut lines.side);
            if let Body::Pages(parts) = &logged.body {
                self.note_direct(parts, lines);
            }
        }
        Ok((found, given_up))
    }

    /// The commits that count, the older one first; nothing is changed.
    fn judge(&self) -> Result<Vec<Logged>> {
        let mut found: Vec<Logged> = Vec::new();
        for number in 0..2 {
            found.extend(self.side.read(number)?);
        }
        found.sort_unstable_by_key(|logged| logged.number);
        if let [older, newer] = &found[..] {
            if older.number + 1 != newer.number {
                return Err(StoreError::SideDamaged("the numbers of its slots do not follow"));
            }
            let by_pages = |logged: &Logged| matches!(logged.body, Body::Pages(_));
            if !older.ordered && by_pages(older) != by_pages(newer) {
                return Err(StoreError::SideDamaged("one of its slots goes by pages"));
            }
        }
        for logged in &found {
            self.check_fits(logged)?;
        }
        let cut_off = found.pop_if(|newest| self.is_cut_off(newest)).is_some();
        let (begun, applied) = self.side.progress()?;
        let newest = found.last().map_or(0, |newest| newest.number).max(self.side.checkpointed()?);
        if applied.max(begun.saturating_sub(1)) > newest {
            return Err(IN_PLACE_AND_DAMAGED);
        }
        if cut_off && found.last().is_some_and(|older| self.is_cut_off(older)) {
            let why = "a commit has lost what it stored directly";
            return Err(StoreError::SideDamaged(why));
        }
        if let [older, _] = &found[..]
            && older.ordered
        {
            found.remove(0);
        }
        if found.iter().any(|logged| logged.torn) {
            return Err(StoreError::SideDamaged(
                "a commit that was marked has lost what it logged",
            ));
        }
        Ok(found)
    }

    /// Returns whether the file is shorter than what a commit has stored, or the table.
    fn check_fits(&self, logged: &Logged) -> Result<()> {
        match &logged.body {
            Body::Pages(parts) => {
                let page_bytes = u64::from(self.side.table.page_bytes);
                let last = parts.iter().map(|part| part.frame).max().unwrap_or(1);
                if moves(parts).any(|step| u64::from(step.page) > self.side.table.entries) {
                    return Err(StoreError::SideDamaged("its table has no entry for a page"));
                }
                self.check_file_bytes(place_of(last, page_bytes) + page_bytes)
            }
            Body::Bytes(frames) => {
                let mut last = 0;
                Frames::each(frames, |at, bytes| last = last.max(at + bytes.len() as u64));
                self.check_file_bytes(last)
            }
        }
    }

    pub(super) fn check_file_bytes(&self, wanted: u64) -> Result<()> {
        let found = self.data.len();
        if wanted > found { Err(StoreError::Cut { found, wanted }) } else { Ok(()) }
    }

    /// Returns whether something is not there that the newest commit has stored directly.
    fn is_cut_off(&self, logged: &Logged) -> bool {
        match &logged.body {
            // Where it cannot be read, nothing is.
            Body::Pages(parts) if !logged.ordered => {
                self.check_direct(parts).ok() != Some(logged.direct)
            }
            _ => false,
        }
    }

    /// Step 3.
    fn replay(&self, found: &[Logged], lines: &mut Lines) {
        let mut records: Vec<&[Part]> = Vec::new();
        for logged in found {
            match &logged.body {
                Body::Pages(parts) => records.push(parts),
                Body::Bytes(frames) => self.put_frames(frames, &mut lines.data),
            }
        }
        let Some((older, newer)) = records.split_first() else { return };
        let stores = replay(older, newer.first().copied(), self.side.table.page_bytes as usize);
        self.put_parts(&stores, &mut lines.data);
        let page_bytes = u64::from(self.side.table.page_bytes);
        for store in &stores {
            let at = place_of(store.frame, page_bytes) + store.at as u64;
            self.data.note(&mut lines.data, at, store.len as u64);
        }
        for step in records.iter().flat_map(|parts| moves(parts)) {
            self.side.put_page(step, &mut lines.side);
        }
    }

    /// Stores frames where they belong.
    #[track_caller]
    pub(super) fn put_frames(&self, frames: &[u8], lines: &mut LineSet) {
        let whole = Frames::each(frames, |at, bytes| {
            for part in page1::all_but_counters(at, bytes.len()) {
                self.data.copy(at + part.start as u64, &bytes[part]);
            }
            self.data.note(lines, at, bytes.len() as u64);
        });
        assert!(whole, "they have been checked, or made here");
    }
}
