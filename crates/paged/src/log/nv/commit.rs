//! Flush-on-commit (P2 4.3): pages change at once, and objects become durable later.
//!
//! A committed change may lie on a change of another transaction, as a row on a page that was split.
//! So a transaction is durable when all older records are, not its own alone: what is durable is a
//! prefix, and recovery ends at the first hole.
//!
//! 1. An object is made in DRAM, in the slot of its LSN, with its place in the segments.
//! 2. `force` goes along the slots from the prefix on: what is full it claims, copies and flushes;
//!    then one fence, and the slots are durable. The prefix moves over durable slots.
//! 3. Where another thread has claimed a slot, or is about to fill one, it waits: a thread that
//!    fills a slot or makes one durable wakes those that wait.
//! 4. A persister that does the same in the background leaves little to commits.

use std::sync::atomic::Ordering;

use pm::{Memory, Off, Range};

use super::NvLog;
use super::slots::Slots;
use crate::Result;
use crate::flaw::Flaw;
use crate::ids::Lsn;
use crate::threads::{Threads, Waiter};

impl<M: Memory, T: Threads> NvLog<M, T> {
    /// Makes durable what is full from one LSN up to another, with one fence. Returns the number of
    /// these objects: none if the medium has failed. Then they stay claimed for ever.
    fn pass(&self, slots: &Slots, from: u64, to: u64) -> u64 {
        let mut claimed = Vec::new();
        for lsn in from..=to {
            let Some((place, bytes)) = slots.claim(lsn) else { continue };
            self.memory.copy(Off::new(place), &bytes);
            self.memory.flush(Range::new(place, bytes.len() as u64));
            self.ring.set(Lsn(lsn), place);
            claimed.push((lsn, bytes));
        }
        if claimed.is_empty() {
            slots.advance();
            return 0;
        }
        self.threads.point();
        self.memory.fence();
        if self.healthy().is_err() {
            // The threads that wait for these objects see it, too.
            slots.wake(&*self.threads);
            return 0;
        }
        let many = claimed.len() as u64;
        claimed.iter().for_each(|(lsn, _)| slots.set_durable(*lsn));
        slots.advance();
        slots.keep(claimed);
        many
    }

    /// One pass, which wakes the threads that wait for what it did. Returns the number of objects
    /// that it has made durable.
    pub(super) fn pass_once(&self, slots: &Slots, to: u64) -> u64 {
        let many = self.pass(slots, slots.prefix() + 1, to);
        if many > 0 && self.threads.has(Flaw::PrefixJumps) {
            slots.jump(to);
        }
        if many > 0 {
            slots.wake(&*self.threads);
        }
        many
    }

    /// Makes everything up to an LSN durable, with the help of other threads that do the same.
    pub(super) fn persist_to(&self, slots: &Slots, to: u64) -> Result<()> {
        if self.threads.has(Flaw::OwnRecordAlone) {
            self.pass(slots, to, to);
            return self.healthy();
        }
        let waiter = Waiter::of_this_thread();
        while slots.prefix() < to {
            self.threads.point();
            self.healthy()?;
            let pass = || {
                let many = self.pass_once(slots, to);
                self.by_commits.fetch_add(many, Ordering::Relaxed);
                many > 0 || slots.prefix() >= to || self.healthy().is_err()
            };
            if !pass() {
                slots.wait(&waiter, pass, || {
                    self.threads.park(&waiter, None);
                });
            }
        }
        self.healthy()
    }
}
