//! Finding the records of a log that is opened again, and telling holes from damage.
//!
//! A crash leaves an LSN without a sound record only if that record was not durable. Whether it was
//! can be seen from what comes later:
//! 1. A record that was appended when everything up to the LSN was durable
//!    ([`Placed::sure`](super::super::record::Placed::sure)). With flush-on-commit each record says it,
//!    of the prefix; with flush-on-insert those that are no changes.
//! 2. With flush-on-insert, a record that names it: the record before it of the same transaction, and
//!    the one before it of the same page, were durable before it was appended.
//! 3. A restart. Before `again` each LSN had a record, or was a hole and marked as one.
//! 4. A page. Before it is written all records up to its LSN are durable ([`LogManager::force_all`]), and
//!    the staging file has the newest such LSN.
//!
//! A place that nothing speaks for is a hole, or the end. Nothing rests on it, and no page has it:
//! its transaction has done nothing since, so it has not committed, and what system transactions do
//! is named by what comes after. So it may be damage or not: the outcome is one that a crash can
//! have. A record that a crash has torn is one whose fence had not returned when the crash came, so
//! neither a later record nor a page depends on it. Hence no torn record is taken for damage, and
//! of the damaged ones only the last commit is lost, if nothing came after it.
//!
//! [`LogManager::force_all`]: super::super::LogManager::force_all

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

use pm::Memory;

use super::NvLog;
use super::object::Found;
use super::slots::Slots;
use crate::ids::Lsn;
use crate::threads::Threads;
use crate::{PagedError, Result};

/// The things that sound records of one restart say of others.
#[derive(Default)]
struct Witnesses {
    /// Everything before it was durable.
    durable_before: u64,
    /// Records that were durable.
    named: BTreeSet<Lsn>,
}

impl Witnesses {
    /// Pages of which the newest has the LSN `written` say that all up to there was durable.
    fn of_pages(written: Option<Lsn>) -> Self {
        Self { durable_before: written.map_or(0, |written| written.0 + 1), ..Self::default() }
    }

    fn hear(&mut self, found: &Found, names: bool) {
        let placed = &found.read.placed;
        if placed.sure > 0 {
            let before = (placed.lsn.0 + 1).saturating_sub(u64::from(placed.sure));
            self.durable_before = self.durable_before.max(before);
        }
        if names {
            // A record knows of none that came after it.
            let named = [placed.prev, found.read.page_before()];
            self.named.extend(named.into_iter().filter(|named| *named < placed.lsn));
        }
    }

    fn say_durable(&self, lsn: Lsn) -> bool {
        lsn.0 < self.durable_before || self.named.contains(&lsn)
    }
}

fn damaged(at: u64) -> PagedError {
    let what = "there is no sound record, though later records or pages say that it was durable";
    PagedError::DamagedLog { at: Lsn(at), what: what.into() }
}

/// Refuses a log that ends before what pages have.
fn check_end(end: u64, written: Option<Lsn>) -> Result<()> {
    let Some(written) = written.filter(|written| written.0 >= end) else { return Ok(()) };
    let what = format!(
        "it ends here, and pages have changes up to {written}: it has lost its end, or they are of another moment"
    );
    Err(PagedError::DamagedLog { at: Lsn(end), what })
}

impl<M: Memory, T: Threads> NvLog<M, T> {
    /// Follows the ring, and makes durable what it finds, which a program that died may have left
    /// in the caches, and where it finds nothing. The newest page was written with the LSN
    /// `written`; without one the open goes on past damage.
    ///
    /// # Errors
    /// There was a record where there is none.
    pub(super) fn find_records(&mut self, written: Option<Lsn>) -> Result<()> {
        let keep = self.kept.get_mut().1.0;
        let all = keep + self.ring.len();
        let next = if self.slots.is_some() {
            self.find_prefix(keep, all, written)?
        } else {
            self.find_all(keep, all, written)?
        };
        self.memory.fence();
        let bytes = self.segments.sort_out(self.form.record_bytes);
        self.next = AtomicU64::new(next);
        if self.slots.is_some() {
            self.slots = Some(Slots::new(self.ring.len(), next - 1));
        }
        // A restart has read all that is kept: programs that die again and again before their checkpoint
        // would make it longer and longer.
        (self.at_begin, self.at_checkpoint) = (AtomicU64::new(next), AtomicU64::new(keep));
        self.entries.find_taken(next - keep);
        self.bytes.find_taken(bytes);
        Ok(())
    }

    fn note(&mut self, lsn: u64, found: &Found) {
        self.memory.flush(found.range);
        self.ring.flush(Lsn(lsn));
        self.segments.found(found.range, Lsn(lsn));
    }

    /// Without holes: the end is at the first.
    fn find_prefix(&mut self, keep: u64, all: u64, written: Option<Lsn>) -> Result<u64> {
        let mut next = keep;
        while next < all
            && let Some(found) = self.at(Lsn(next))
        {
            self.note(next, &found);
            next += 1;
        }
        let mut witnesses = Witnesses::default();
        for lsn in next + 1..all {
            if let Some(found) = self.at(Lsn(lsn)) {
                witnesses.hear(&found, false);
            }
        }
        if witnesses.say_durable(Lsn(next)) && written.is_some() {
            return Err(damaged(next));
        }
        check_end(next, written)?;
        Ok(next)
    }

    /// With holes: the end is after the last record.
    fn find_all(&mut self, keep: u64, all: u64, written: Option<Lsn>) -> Result<u64> {
        let (mut next, mut holes) = (keep.max(self.again), Vec::new());
        let mut witnesses = Witnesses::of_pages(written);
        for lsn in keep..all {
            if let Some(found) = self.at(Lsn(lsn)) {
                self.note(lsn, &found);
                next = next.max(lsn + 1);
                if lsn >= self.again {
                    witnesses.hear(&found, true);
                }
            } else if lsn >= self.again {
                holes.push(Lsn(lsn));
            } else if !self.ring.is_hole(Lsn(lsn)) && written.is_some() {
                // A mark was durable before `again` moved past it.
                return Err(damaged(lsn));
            }
        }
        check_end(next, written)?;
        // After the end an entry of an older restart, or of another log, may stay: nothing counts
        // from `again` on but what this restart inserts, which sets the entry anew, and the next
        // restart marks what it leaves out.
        holes.retain(|hole| hole.0 < next);
        if written.is_some()
            && let Some(hole) = holes.iter().find(|hole| witnesses.say_durable(**hole))
        {
            return Err(damaged(hole.0));
        }
        holes.into_iter().for_each(|hole| self.ring.mark_hole(hole));
        Ok(next)
    }
}
