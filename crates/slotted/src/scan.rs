//! Scans: the keys of a tree in their order, or against it, from a bound on.

use std::ops::{Bound, ControlFlow};

use pm::{Bad, Memory};

use crate::Result;
use crate::layout::MOST_LEVELS;
use crate::scheme::Scheme;
use crate::store::Store;
use crate::tree::Step;

/// The way in which a scan goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From smaller keys to larger ones.
    Forward,
    /// From larger keys to smaller ones.
    Backward,
}

impl<M: Memory, S: Scheme<M>> Store<M, S> {
    /// Calls `visit` with each key from `from` on, and its value, in the order of keys, until it
    /// breaks.
    ///
    /// # Errors
    /// A page is damaged.
    pub fn scan(
        &self,
        tree: u32,
        from: &[u8],
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.scan_from(tree, Bound::Included(from), Direction::Forward, visit)
    }

    /// Calls `visit` with each key and its value, from the bound on: in the order of keys from a
    /// lower bound, or against it from an upper one; until it breaks.
    ///
    /// # Errors
    /// A page is damaged.
    pub fn scan_from(
        &self,
        tree: u32,
        bound: Bound<&[u8]>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let forward = direction == Direction::Forward;
        // In each page the number of records, or children, on the lower side of where the scan is.
        let mut steps = self.bound(tree, bound, forward)?;
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut last = None::<Vec<u8>>;
        while let Some(step) = steps.last_mut() {
            let node = self.node(step.page)?;
            let end = if forward { node.count } else { 0 };
            if node.kind.is_leaf() {
                while step.index != end {
                    step.index -= usize::from(!forward);
                    let leaf = node.leaf(step.index)?;
                    key.clear();
                    leaf.key.append_to(&mut key);
                    // Pages that are damaged may lead in circles.
                    let order =
                        last.as_ref().map(|last| if forward { last < &key } else { &key < last });
                    if order == Some(false) {
                        return Err(Bad::Damaged { what: "order of keys", at: step.page }.into());
                    }
                    self.value_of(leaf, &mut value)?;
                    if visit(&key, &value).is_break() {
                        return Ok(());
                    }
                    std::mem::swap(last.get_or_insert_default(), &mut key);
                    step.index += usize::from(forward);
                }
            } else if step.index != end {
                let child = if forward { step.index } else { step.index - 1 };
                step.index = if forward { child + 1 } else { child };
                let page = node.inner(child)?.child;
                let index = if forward { 0 } else { self.node(page)?.count };
                if steps.len() == MOST_LEVELS {
                    return Err(Bad::Damaged { what: "depth of a tree", at: page }.into());
                }
                steps.push(Step { page, index });
                continue;
            }
            steps.pop();
        }
        Ok(())
    }

    /// The way to a bound: in each page the number of records below it; of children, too, with that
    /// child that the way goes through counted on the side that a scan comes from.
    fn bound(&self, tree: u32, bound: Bound<&[u8]>, forward: bool) -> Result<Vec<Step>> {
        let (key, counts_as_below) = match bound {
            Bound::Included(key) => (key, !forward),
            Bound::Excluded(key) => (key, forward),
            Bound::Unbounded => {
                let page = self.root(tree)?;
                let index = if forward { 0 } else { self.node(page)?.count };
                return Ok(vec![Step { page, index }]);
            }
        };
        let mut path = self.descend(tree, key)?;
        if let Some((leaf, inner)) = path.steps.split_last_mut() {
            leaf.index += usize::from(path.found && counts_as_below);
            inner.iter_mut().for_each(|step| step.index += usize::from(forward));
        }
        Ok(path.steps)
    }

    /// Deletes the keys between two bounds. Returns how many there were.
    ///
    /// # Errors
    /// A page is damaged; some of the keys may have been deleted.
    pub fn delete_range(
        &mut self,
        tree: u32,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
    ) -> Result<u64> {
        self.usable()?;
        let mut keys = Vec::new();
        self.scan_from(tree, low, Direction::Forward, |key, _| {
            let within = match high {
                Bound::Included(high) => key <= high,
                Bound::Excluded(high) => key < high,
                Bound::Unbounded => true,
            };
            if !within {
                return ControlFlow::Break(());
            }
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
        for key in &keys {
            self.delete(tree, key)?;
        }
        Ok(keys.len() as u64)
    }
}
