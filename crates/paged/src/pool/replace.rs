//! The choice of the page to evict: S3-FIFO.
//!
//! 1. A page that comes is put at the end of the *small* queue, a tenth of the frames. If it was
//!    there lately, as the list of *remembered* numbers says, it goes to the end of the *main*
//!    queue.
//! 2. A page at the head of the small queue that was used again goes to the main queue; another one
//!    goes out, and its number is remembered.
//! 3. A page at the head of the main queue that was used goes to its end and loses one use; another
//!    one goes out.
//!
//! So pages that a scan reads once pass through the small queue and evict nothing else.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

use crate::ids::PageNo;

/// A frame's uses since it was looked at last are counted up to this.
pub(super) const MOST_USES: u8 = 3;

#[derive(Debug)]
pub(super) struct Replacement {
    free: Vec<usize>,
    /// The frames that were never used.
    fresh: Range<usize>,
    small: VecDeque<usize>,
    main: VecDeque<usize>,
    remembered: VecDeque<PageNo>,
    known: HashSet<PageNo>,
    small_most: usize,
    remembered_most: usize,
}

/// The queue that a frame came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Queue {
    Free,
    Small,
    Main,
}

impl Replacement {
    pub(super) fn new(frames: usize) -> Self {
        Self {
            free: Vec::new(),
            fresh: 0..frames,
            small: VecDeque::new(),
            main: VecDeque::new(),
            remembered: VecDeque::new(),
            known: HashSet::new(),
            small_most: (frames / 10).max(1),
            remembered_most: frames,
        }
    }

    /// Takes a frame out of its queue that may be used for another page. `uses` takes one use from
    /// a frame and returns how many it had. `other_way` takes it from the queue whose turn it is
    /// not, since all frames of this one may be in use. Without `with_free`, it is one that has a
    /// page.
    pub(super) fn candidate(
        &mut self,
        uses: impl Fn(usize) -> u8,
        other_way: bool,
        with_free: bool,
    ) -> Option<(usize, Queue)> {
        if with_free && let Some(frame) = self.fresh.next().or_else(|| self.free.pop()) {
            return Some((frame, Queue::Free));
        }
        let most = self.small.len() + self.main.len() * usize::from(MOST_USES + 1);
        for _ in 0..=most {
            let is_small = (self.small.len() > self.small_most) != other_way;
            if (is_small && !self.small.is_empty()) || self.main.is_empty() {
                let frame = self.small.pop_front()?;
                if uses(frame) == 0 {
                    return Some((frame, Queue::Small));
                }
                self.main.push_back(frame);
            } else if let Some(frame) = self.main.pop_front() {
                if uses(frame) == 0 {
                    return Some((frame, Queue::Main));
                }
                self.main.push_back(frame);
            }
        }
        None
    }

    /// The frames of the pages that go next, about in this order: those at the head of the small
    /// queue that were not used again, then those at the head of the main queue. None, while there
    /// are frames without a page.
    pub(super) fn next_to_go(&self, most: usize, uses: impl Fn(usize) -> u8) -> Vec<usize> {
        if !self.free.is_empty() || !self.fresh.is_empty() {
            return Vec::new();
        }
        let unused = |queue: &VecDeque<usize>| -> Vec<usize> {
            let frames = queue.iter().take(2 * most).copied();
            frames.filter(|frame| uses(*frame) == 0).take(most).collect()
        };
        let mut next = unused(&self.small);
        next.extend(unused(&self.main));
        next.truncate(most);
        next
    }

    /// Puts back a candidate that is in use now.
    pub(super) fn put_back(&mut self, frame: usize, queue: Queue) {
        match queue {
            Queue::Free => self.free.insert(0, frame),
            Queue::Small | Queue::Main => self.main.push_back(frame),
        }
    }

    /// Says that a candidate's page is gone.
    pub(super) fn went(&mut self, page: PageNo, queue: Queue) {
        if queue != Queue::Small || !self.known.insert(page) {
            return;
        }
        self.remembered.push_back(page);
        if self.remembered.len() > self.remembered_most
            && let Some(oldest) = self.remembered.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Says that a frame has a page now.
    pub(super) fn came(&mut self, page: PageNo, frame: usize) {
        if self.known.contains(&page) {
            self.main.push_back(frame);
        } else {
            self.small.push_back(frame);
        }
    }

    /// Gives a frame back that has no page.
    pub(super) fn release(&mut self, frame: usize) {
        self.free.push(frame);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Asks for pages one after the other; returns how many of them were there.
    fn hits(frames: usize, asked: impl IntoIterator<Item = u64>) -> usize {
        let mut queues = Replacement::new(frames);
        let (mut pages, uses) = (vec![None; frames], RefCell::new(vec![0_u8; frames]));
        let mut hits = 0;
        for page in asked.into_iter().map(PageNo) {
            if let Some(frame) = pages.iter().position(|there| *there == Some(page)) {
                let mut uses = uses.borrow_mut();
                uses[frame] = (uses[frame] + 1).min(MOST_USES);
                hits += 1;
                continue;
            }
            let taken = |frame: usize| {
                let mut uses = uses.borrow_mut();
                let had = uses[frame];
                uses[frame] = had.saturating_sub(1);
                had
            };
            let (frame, queue) = queues.candidate(taken, false, true).expect("a frame");
            if let Some(gone) = pages[frame].take() {
                queues.went(gone, queue);
            }
            pages[frame] = Some(page);
            uses.borrow_mut()[frame] = 0;
            queues.came(page, frame);
        }
        hits
    }

    #[test]
    fn a_scan_does_not_drive_out_what_is_used_often() {
        let hot = || (0..10).flat_map(|_| 0..50_u64);
        let scan = 1_000..3_000_u64;
        let both = hits(100, hot().chain(scan).chain(0..50));
        assert_eq!(both, 9 * 50 + 50);
    }

    #[test]
    fn a_frame_is_found_when_all_were_used() {
        let twice = || (0..8_u64).chain(0..8);
        // The first new page goes at once when the next one comes: it was not used again.
        assert_eq!(hits(8, twice().chain(8..16)), 8);
    }
}
