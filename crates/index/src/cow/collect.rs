//! The collection of pages that a crash left (P1 3.2: the dirty directory is garbage
//! collected asynchronously).
//!
//! 1. The directory that was opened is pinned, as by a snapshot, so that its pages stay.
//! 2. Its trees are walked, a few pages a step; each page met is marked.
//! 3. What is below the directory's high-water mark and has no mark is free.
//!
//! Until it is done allocation takes pages that were never used, of which there are always some
//! ([`Pages::look_ahead`]), and adds a few. When these are used up the collection is finished at
//! once: growing on would cost space with each crash, for ever.

use super::collection::Collection;
use super::node::{Node, TreeShape};
use super::overflow;
use super::store::Pages;
use super::tree::Root;
use crate::error::IndexError;
use crate::pages::{PageBackend, PageSource};

/// Steps more for each page that was allocated: the collection is done before many are.
const STEPS_PER_PAGE: u64 = 8;
/// Places looked at for free pages in a step.
const SWEEP: u64 = 1024;

impl<B: PageBackend> Pages<B> {
    /// Begins the collection. `trees` are those of the directory that was opened, which the
    /// caller keeps pinned until [`Self::collect`] says that it is done; `least` as for
    /// [`Self::look_ahead`].
    pub fn start_collection(&mut self, trees: impl Iterator<Item = (TreeShape, Root)>, least: u64) {
        self.allow_growth(least);
        let stack = trees.filter_map(|(shape, root)| Some((root.page()?, root.level(), shape)));
        self.collection = Some(Collection {
            stack: stack.collect(),
            enumerated: false,
            marks: Vec::new(),
            swept: 0,
        });
    }

    /// Returns whether the collection is still at work.
    pub fn is_collecting(&self) -> bool {
        self.collection.is_some()
    }

    /// Returns about how many pages the collection has still to look at.
    pub fn uncollected(&self) -> u64 {
        let all = self.backend.below_mark().max(1);
        self.collection.as_ref().map_or(0, |collection| all - collection.swept.min(all - 1))
    }

    /// Does some steps of the collection, each about the reading of a page, and some more if many
    /// pages have been allocated since the last call. Returns whether there
    /// is nothing more to do.
    ///
    /// # Errors
    /// Damage; the collection is given up.
    pub fn collect(&mut self, steps: u64) -> Result<bool, IndexError> {
        let Some(mut collection) = self.collection.take() else { return Ok(true) };
        let more = std::mem::take(&mut self.allocated).saturating_mul(STEPS_PER_PAGE);
        let given = steps.saturating_add(more);
        let mut left = given;
        let done = self.go_on(&mut collection, &mut left);
        if left < given {
            self.collected.0 += 1;
            self.collected.1 += given - left;
        }
        if let Ok(false) = done {
            self.collection = Some(collection);
        }
        done
    }

    fn go_on(&mut self, collection: &mut Collection, left: &mut u64) -> Result<bool, IndexError> {
        if !collection.enumerated {
            let (used, done) = self.backend.enumerate(*left)?;
            *left -= used.min(*left);
            collection.enumerated = done;
            if done {
                let words = self.backend.below_mark().div_ceil(64) as usize;
                collection.marks = vec![0; words];
            }
        }
        while collection.enumerated && *left > 0 {
            *left -= 1;
            let Some((page, level, shape)) = collection.stack.pop() else {
                if self.sweep(collection) {
                    return Ok(true);
                }
                continue;
            };
            collection.mark(self.backend.dense(page), page)?;
            *left = left.saturating_sub(self.visit(collection, page, level, &shape)?);
        }
        Ok(false)
    }

    /// Notes what a node leads to; returns how many more pages it has looked at.
    fn visit(
        &self,
        collection: &mut Collection,
        page: u64,
        level: u8,
        shape: &TreeShape,
    ) -> Result<u64, IndexError> {
        let source = self.backend.source();
        if level == 0 {
            let mut overflow = 0;
            if shape.can_overflow() {
                overflow::for_each_page(source, shape, page, &mut |page| {
                    overflow += 1;
                    Ok(collection.mark(self.backend.dense(page), page)?)
                })?;
            }
            return Ok(overflow);
        }
        source.with(page, |view| {
            let node = Node::open(view, shape, page, level)?;
            for index in 0..node.count {
                let child = node.child(index)?;
                if level == 1 && !shape.can_overflow() {
                    // Leaves that lead nowhere need not be read.
                    collection.mark(self.backend.dense(child), child)?;
                } else {
                    collection.stack.push((child, level - 1, *shape));
                }
            }
            Ok(0)
        })?
    }

    /// Looks for pages without a mark; returns whether all have been looked at.
    fn sweep(&mut self, collection: &mut Collection) -> bool {
        let end = (collection.swept + SWEEP).min(self.backend.below_mark());
        for place in collection.swept..end {
            let marked = collection.marks[(place / 64) as usize] & 1 << (place % 64) != 0;
            if !marked && self.backend.is_below(place) {
                self.free.push(self.backend.page_at(place));
            }
        }
        collection.swept = end;
        end == self.backend.below_mark()
    }
}
