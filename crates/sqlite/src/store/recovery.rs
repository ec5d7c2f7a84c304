//! Recovery: replays the commits in the slots and empties them.
//!
//! 0. Flush the number of the last checkpoint: a killed process may have stored it without making it durable. A power
//!    cut could otherwise empty only one of two checkpointed slots, and the other would count again. **Fence.** If
//!    NVWAL's log has frames (`store::adr::nvwal`), no slot counts: apply and empty that log.
//! 1. The slot with the smaller number counts if its record is whole. The other one also needs its direct stores.
//!    That the newer commit began proves that the older one was durable.
//!    - A commit that was applied, or after which another one began, was durable. If it does not count and is not
//!      checkpointed, it is damaged and not interrupted: replaying without it would mix two states.
//!    - An ordered commit counts if its mark is there. If a newer one counts as well, the ordered one is durable in
//!      place and is left out.
//! 2. Flush both slots and their direct stores: a killed process may have made all of these stores, and none be
//!    durable. An interrupted commit may have made direct stores at unknown places: then flush the whole database.
//!    Otherwise the next commit could skip bytes that are already there, and no checksum would miss them after a
//!    power cut. **Fence.**
//! 3. Store the rest of the older commit, except where the newer one stored directly, then the rest of the newer one.
//!    **Fence.** A prepared commit (`store::prepared`) that is rolled back counts only in step 1.
//! 4. Checkpoint: both are durable in place. From now on others may overwrite their direct stores. **Fence.**

use pm::{LineSet, Memory};

use crate::store::connection::Store;
use crate::store::error::{APPLIED_COMMIT_DAMAGED, Result, StoreError};
use crate::store::frames::Frames;
use crate::store::last_commit::Lines;
use crate::store::layout::HEADER_BYTES;
use crate::store::moves::moves;
use crate::store::page1;
use crate::store::plan::place_of;
use crate::store::record::Part;
use crate::store::replay::replay;
use crate::store::slot::{Body, Logged};
use crate::store::verdict::{Decide, Verdict, undecided};

impl<M: Memory> Store<M> {
    /// Recovers the committed state. The caller has exclusive access.
    ///
    /// # Errors
    /// The medium fails, or the file is shorter than the committed database.
    pub fn recover(&mut self) -> Result<()> {
        self.recover_and_decide(&undecided)
    }

    /// The same if a commit may be prepared; `decide` says whether it counts.
    ///
    /// # Errors
    /// As [`Self::recover`], and those of `decide`; nothing has changed.
    pub fn recover_and_decide(&mut self, decide: Decide<'_>) -> Result<()> {
        self.forget_prepared();
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
        let (found, rolled_back) = self.counting(decide, &mut lines)?;
        let ((begun, _), checkpointed) = (self.side.progress()?, self.side.checkpointed()?);
        if found.last().map_or(checkpointed, |newest| newest.number) < begun {
            self.flush_data();
        }
        self.fence(&mut lines);
        // No slot is emptied for stores that did not become durable.
        self.healthy()?;
        let size = found.iter().rev().find_map(|logged| logged.size);
        let size = size.map_or_else(|| self.side.size(), Ok)?;
        self.check_file_bytes(size)?;
        self.replay(&found, &mut lines);
        // A checkpointed commit's two counters may have become durable separately.
        if size >= HEADER_BYTES {
            page1::raise_counters(&self.data, &mut lines.data)?;
        }
        self.side.set_size(size, &mut lines.side);
        self.fence(&mut lines);
        self.healthy()?;
        // Numbers only grow: other connections remember the last one they saw.
        let last = found.last().map_or(begun.max(checkpointed), |logged| logged.number);
        let last = last.max(rolled_back);
        self.side.set_checkpointed(last, &mut lines.side);
        self.fence(&mut lines);
        if self.side.prepared()? > 0 {
            // The next commit may get the number of one that was to be prepared.
            self.side.clear_prepared(&mut lines.side);
            self.fence(&mut lines);
        }
        self.side.set_begun(last);
        self.side.set_applied(last);
        self.last.note_emptied(last);
        self.view.note_recovered(size, last);
        self.stats.recoveries += 1;
        self.stats.replayed += found.len() as u64;
        self.healthy()
    }

    /// Flushes the whole database.
    pub(super) fn flush_data(&mut self) {
        if M::DURABLE {
            self.stats.lines += self.data.len().div_ceil(pm::LINE_BYTES);
            self.data.flush_all();
        }
    }

    /// The commits that count, oldest first; empties the other slots. Also returns the number of a commit that is
    /// rolled back, or 0.
    fn counting(&self, decide: Decide<'_>, lines: &mut Lines) -> Result<(Vec<Logged>, u64)> {
        let (mut found, mut rolled_back) = (self.judge()?, 0);
        if let Some(name) = self.undecided_name(found.last())?
            && decide(&name)? == Verdict::Discard
        {
            rolled_back = found.pop().map_or(0, |logged| logged.number);
        }
        for number in 0..2 {
            // A rolled-back commit is checkpointed together with the begun ones. Until then its slot decides.
            let rolled_back_here = rolled_back > 0 && rolled_back % 2 == number;
            if found.iter().all(|logged| logged.number % 2 != number) && !rolled_back_here {
                self.side.empty(number, &mut lines.side);
            }
        }
        for logged in &found {
            self.side.note(logged, &mut lines.side);
            if let Body::Pages(parts) = &logged.body {
                self.note_direct(parts, lines);
            }
        }
        Ok((found, rolled_back))
    }

    /// The commits that count, oldest first. Changes nothing.
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
            return Err(APPLIED_COMMIT_DAMAGED);
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

    /// Returns an error if the file or the table is shorter than what a commit stored.
    fn check_fits(&self, logged: &Logged) -> Result<()> {
        match &logged.body {
            Body::Pages(parts) => {
                let page_bytes = self.page_bytes();
                let last = parts.iter().map(|part| part.frame).max().unwrap_or(1);
                if moves(parts).any(|step| u64::from(step.page) > self.side.table().entries) {
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

    /// Returns whether a direct store of the newest commit is missing.
    fn is_cut_off(&self, logged: &Logged) -> bool {
        match &logged.body {
            // Bytes that cannot be read are missing.
            Body::Pages(parts) if !logged.ordered => {
                self.check_direct(parts).ok() != Some(logged.direct)
            }
            _ => false,
        }
    }

    /// Replays commits (step 3).
    fn replay(&self, found: &[Logged], lines: &mut Lines) {
        let mut records: Vec<&[Part]> = Vec::new();
        for logged in found {
            match &logged.body {
                Body::Pages(parts) => records.push(parts),
                Body::Bytes(frames) => self.put_frames(frames, &mut lines.data),
            }
        }
        let Some((older, newer)) = records.split_first() else { return };
        let page_bytes = self.page_bytes();
        let stores = replay(older, newer.first().copied(), page_bytes as usize);
        self.put_parts(&stores, &mut lines.data);
        for store in &stores {
            let at = place_of(store.frame, page_bytes) + store.at as u64;
            self.data.note(&mut lines.data, at, store.len as u64);
        }
        for step in records.iter().flat_map(|parts| moves(parts)) {
            self.side.put_page(step, &mut lines.side);
        }
    }

    /// Stores frames in place.
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
