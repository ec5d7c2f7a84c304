//! Read-ahead: when a scan needs a page that is not there, those after it in the file come with it
//! by one call.
//!
//! The pages are in the page table, latched, before they are read. So no other thread reads,
//! changes and writes one of them meanwhile, and what comes is not older than what the medium has.

use pm::{File, Files};

use super::frame::Frame;
use super::replace::Queue;
use super::{Pool, bump};
use crate::ids::PageNo;
use crate::latch::Latching;
use crate::page::PageKind;
use crate::{PagedError, Result};

/// The most pages that are read by one call.
const RUN_PAGES: usize = 16;

impl<F: Files, T: Latching> Pool<F, T> {
    /// Returns whether a page is in a frame, or on its way into one.
    pub(crate) fn is_resident(&self, page: PageNo) -> bool {
        self.table.shard(page).get(page).is_some()
    }

    /// Brings a page and those after it into frames, if it is not in one. Only frames are used that
    /// have no page, or one that can go at once. For callers that hold no latch.
    ///
    /// # Errors
    /// The medium refuses. A damaged page is no error before it is asked for.
    pub(crate) fn read_ahead(&self, first: PageNo) -> Result<()> {
        let pages = RUN_PAGES.min(self.frames.len() / 8);
        let most = i64::MAX as u64 / self.page_bytes as u64;
        if pages < 2 || first.0 > most || self.is_resident(first) || self.lacking.has(first) {
            return Ok(());
        }
        let mut coming = Vec::with_capacity(pages);
        for number in (first.0..=most).map(PageNo).take(pages) {
            // One that may lack changes is redone when it is asked for.
            if self.lacking.has(number) {
                break;
            }
            let Some(claimed) = self.claim_clean() else { break };
            let mut held = self.frames[claimed].latch.write();
            if self.frames.page_in(claimed, &mut held).is_err() {
                drop(held);
                self.release(claimed);
                break;
            }
            let mut shard = self.table.shard(number);
            if shard.get(number).is_none() {
                shard.insert(number, claimed);
                coming.push((number, claimed, held));
            } else {
                drop((shard, held));
                self.release(claimed);
            }
        }
        let mut run = vec![0; pages * self.page_bytes];
        let read = self.file.read_at(first.0 * self.page_bytes as u64, &mut run);
        let whole = read.as_ref().map_or(0, |read| read / self.page_bytes);
        for (number, claimed, mut held) in coming {
            let place = (number.0 - first.0) as usize;
            let from = place * self.page_bytes;
            held.page.set(0, &run[from..from + self.page_bytes]);
            let is_good = place < whole
                && held.page.check(number, self.stamp).is_ok()
                && matches!(
                    held.page.kind(),
                    PageKind::Leaf | PageKind::Inner | PageKind::Overflow
                );
            if is_good {
                held.came(number);
                self.frames.set_resident(claimed, Some(number));
                drop(held);
                self.queues.lock().came(number, claimed);
                self.frames[claimed].unpin();
                bump(&self.counts.read_ahead, 1);
            } else {
                self.table.shard(number).remove(number);
                drop(held);
                self.release(claimed);
            }
        }
        read.map(drop).map_err(|source| PagedError::Io { doing: "reading pages ahead", source })
    }

    /// Claims a frame, if the next one has no page, or one that need not be written.
    fn claim_clean(&self) -> Option<usize> {
        let candidate =
            self.queues.lock().candidate(|frame| self.frames.use_up(frame), false, true);
        let (number, queue) = candidate?;
        let is_free = match queue {
            Queue::Free => self.frames.make(number).is_ok_and(Frame::claim),
            _ => {
                self.frames[number].dirt.lock().unwritten.is_none()
                    && matches!(self.evict(number, queue), Ok(true))
            }
        };
        if is_free {
            return Some(number);
        }
        self.queues.lock().put_back(number, queue);
        None
    }
}
