//! The commit of a transaction: its changes are gathered, and the scheme makes them count.

use std::collections::BTreeSet;

use pm::{LineSet, Memory, Off, observe};

use crate::Result;
use crate::draft::Draft;
use crate::header::free_word;
use crate::layout::{FREE_AT, HIGH_AT, LINE, ROOTS_AT, SEGMENT_AT, WORD};
use crate::phases::{MISC, SLOT_HEADER};
use crate::scheme::{Change, Records, Scheme};
use crate::store::Store;
use crate::work::Master;

impl<M: Memory, S: Scheme<M>> Store<M, S> {
    /// Makes what was put and deleted since the last commit count, durably. Where it fails,
    /// everything is as before: the transaction can be aborted. Its savepoints are void then.
    ///
    /// # Errors
    /// An operation has failed halfway, or the memory is full.
    pub fn commit(&mut self) -> Result<()> {
        self.usable()?;
        self.memory.healthy()?;
        self.work.marks.clear();
        let (change, master) = self.change()?;
        observe!(M: self.memory.phase(SLOT_HEADER));
        if change.is_empty() {
            self.abort();
            return Ok(());
        }
        self.scheme.commit(&mut self.lane, change)?;
        self.master = master;
        self.abort();
        self.memory.healthy()?;
        observe!(M: self.memory.phase(MISC));
        Ok(())
    }

    /// Returns the transaction's change, and the master after it. Writes the headers of fresh
    /// pages, but for their first words.
    fn change(&mut self) -> Result<(Change, Master)> {
        let mut change = Change { offsets_stay: true, ..Change::default() };
        let mut master = self.work.master.clone();
        keep_newest(&mut self.work.written);
        let drafts = std::mem::take(&mut self.work.drafts);
        let gathered = drafts.iter().try_for_each(|(page, draft)| match draft.fresh {
            true => self.finish_page(*page, draft, &mut change),
            false => self.gather(*page, draft, &mut change),
        });
        self.work.drafts = drafts;
        gathered?;
        change.words.extend(self.work.overflow.iter().map(|(page, word)| (*page, 0, *word)));
        for page in self.work.freed.iter().chain(&self.work.spare) {
            change.words.push((*page, 0, free_word(master.free)));
            master.free = *page;
        }
        let (old, at) = (&self.master, self.at);
        let mut word = |place: u64, new: u64, old: u64| {
            if new != old {
                change.master.push((at + place, new));
            }
        };
        word(FREE_AT, master.free, old.free);
        word(HIGH_AT, master.high, old.high);
        word(SEGMENT_AT, master.segment, old.segment);
        for (tree, (new, old)) in (0..).zip(master.roots.iter().zip(&old.roots)) {
            word(ROOTS_AT + tree * 8, *new, *old);
        }
        change.unused.clone_from(&self.work.unused);
        change.lines = each_once(&self.work.lines);
        let runs = self.work.written.iter();
        change.written.extend(runs.filter(|(page, at, _)| self.is_part(*page, *at)));
        Ok((change, master))
    }

    /// Returns whether bytes that were written at this place are a part of what is committed: what
    /// was allocated or put and given up again is not, where the log has a checksum of the records.
    fn is_part(&self, page: u64, at: usize) -> bool {
        let Some(draft) = self.work.drafts.get(&page) else {
            return self.work.overflow.contains_key(&page);
        };
        let in_header = draft.fresh && at < draft.kind.header_bytes(draft.slots.len());
        S::RECORDS != Records::Checked || in_header || draft.slots.contains(&(at as u16))
    }

    /// Writes the header of a fresh page, but for its first word, which is part of the change.
    fn finish_page(&mut self, page: u64, draft: &Draft, change: &mut Change) -> Result<()> {
        let (_, bytes) = draft.header();
        change.words.push((page, 0, word(&bytes)));
        self.write(page, WORD, &bytes[WORD..])?;
        if draft.kind.has_two_lines() {
            // No line of an earlier page counts.
            self.write(page, LINE, &[0; WORD])?;
        }
        for (at, child) in draft.children() {
            // Within records that this transaction has written.
            let place = self.scheme.place(page)? + u64::from(*at);
            self.scheme.pages().copy(Off::new(place), &child.to_le_bytes());
        }
        Ok(())
    }

    /// Gathers what a committed page changes: its header, and single children. In a record that
    /// this transaction has written the child is changed at once, where the log has a checksum of
    /// the record: a crash amid the checkpoint of a frame would leave bytes that do not match.
    fn gather(&self, page: u64, draft: &Draft, change: &mut Change) -> Result<()> {
        if draft.changes_slots() {
            let runs = if S::WHOLE_HEADERS { vec![draft.header()] } else { draft.changed_header() };
            change.offsets_stay &= draft.offsets_stay();
            change.headers.extend(runs.into_iter().map(|(at, bytes)| (page, at, bytes)));
        }
        for (at, child) in draft.children() {
            let at = usize::from(*at);
            let is_new = || self.work.written.iter().any(|run| (run.0, run.1) == (page, at));
            if S::RECORDS == Records::Checked && is_new() {
                let place = self.scheme.place(page)? + at as u64;
                self.scheme.pages().copy(Off::new(place), &child.to_le_bytes());
            } else {
                change.words.push((page, at, *child));
            }
        }
        Ok(())
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

/// Only the newest of runs that begin at the same place: the others were given up.
fn keep_newest(written: &mut Vec<(u64, usize, usize)>) {
    let mut met = BTreeSet::new();
    written.reverse();
    written.retain(|(page, at, _)| met.insert((*page, *at)));
    written.reverse();
}

/// The lines of a set, each once: one remembers only the last few.
fn each_once(lines: &LineSet) -> LineSet {
    let mut lines = lines.lines().to_vec();
    lines.sort_unstable();
    lines.dedup();
    let mut once = LineSet::new();
    for line in lines {
        once.add(line.range());
    }
    once
}
