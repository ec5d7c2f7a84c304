//! Scans of a range, and the check of a whole tree.

use std::ops::{Bound, ControlFlow};

use pm::Bytes;

use super::node::{Node, Stored, TreeShape, damaged};
use super::overflow;
use super::tree::Root;
use crate::error::IndexError;
use crate::pages::PageSource;
use crate::scan::Direction;

/// The function that a scan calls with each key and value.
pub type Visit<'a, B> = dyn FnMut(Bytes<'_>, Bytes<'_>) -> ControlFlow<B> + 'a;
/// The function that a check calls with the number of each page.
pub type VisitPage<'a> = dyn FnMut(u64) -> Result<(), IndexError> + 'a;
/// The function that a check calls with each key and value.
pub type VisitRecord<'a> = dyn FnMut(&[u8], Bytes<'_>) -> Result<(), IndexError> + 'a;

type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

impl TreeShape {
    /// Calls `visit` with the keys of a range and their values, in order, until it breaks.
    ///
    /// # Errors
    /// Damage.
    pub fn scan<S: PageSource, B>(
        &self,
        source: &S,
        root: Root,
        range: Range<'_>,
        direction: Direction,
        visit: &mut Visit<'_, B>,
    ) -> Result<ControlFlow<B>, IndexError> {
        match root.page() {
            Some(page) => self.scan_node(source, (page, root.level()), range, direction, visit),
            None => Ok(ControlFlow::Continue(())),
        }
    }

    fn scan_node<S: PageSource, B>(
        &self,
        source: &S,
        (page, level): (u64, u8),
        (low, high): Range<'_>,
        direction: Direction,
        visit: &mut Visit<'_, B>,
    ) -> Result<ControlFlow<B>, IndexError> {
        source.with(page, |view| {
            let node = Node::open(view, self, page, level)?;
            let (from, to) = if level == 0 {
                let from = match low {
                    Bound::Unbounded => 0,
                    Bound::Included(key) => node.rank(key, false)?,
                    Bound::Excluded(key) => node.rank(key, true)?,
                };
                let to = match high {
                    Bound::Unbounded => node.count,
                    Bound::Included(key) => node.rank(key, true)?,
                    Bound::Excluded(key) => node.rank(key, false)?,
                };
                (from, to)
            } else {
                let from = match low {
                    Bound::Unbounded => 0,
                    Bound::Included(key) | Bound::Excluded(key) => node.towards(key)?,
                };
                let to = match high {
                    Bound::Unbounded => node.count,
                    Bound::Included(key) | Bound::Excluded(key) => node.towards(key)? + 1,
                };
                (from, to)
            };
            for step in 0..to.saturating_sub(from) {
                let index = match direction {
                    Direction::Forward => from + step,
                    Direction::Backward => to - 1 - step,
                };
                let flow = if level == 0 {
                    let key = node.key(index)?;
                    match node.value(index)? {
                        Stored::Inline(value) => visit(key, value),
                        Stored::Overflow { bytes, first } => {
                            visit(key, (&overflow::read(source, self, (bytes, first))?).into())
                        }
                    }
                } else {
                    // Only the outermost children are cut by a bound.
                    let low = if index == from { low } else { Bound::Unbounded };
                    let high = if index + 1 == to { high } else { Bound::Unbounded };
                    let child = (node.child(index)?, level - 1);
                    self.scan_node(source, child, (low, high), direction, visit)?
                };
                if flow.is_break() {
                    return Ok(flow);
                }
            }
            Ok(ControlFlow::Continue(()))
        })?
    }

    /// Checks a whole tree: every node is sound, keys ascend. Calls `page` with the number of each
    /// page, `record` with each key and value in order.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check<S: PageSource>(
        &self,
        source: &S,
        root: Root,
        page: &mut VisitPage<'_>,
        record: &mut VisitRecord<'_>,
    ) -> Result<(), IndexError> {
        let Some(top) = root.page() else { return Ok(()) };
        let mut last = None;
        self.check_node(source, (top, root.level()), None, &mut last, page, record)
    }

    /// Returns how many inner nodes and how many leaves a tree has, overflow pages apart. It reads
    /// the inner nodes only.
    ///
    /// # Errors
    /// Damage.
    pub fn count_nodes<S: PageSource>(
        &self,
        source: &S,
        root: Root,
    ) -> Result<(u64, u64), IndexError> {
        let Some(top) = root.page() else { return Ok((0, 0)) };
        let (mut inner, mut leaves) = (0, 0);
        let mut stack = vec![(top, root.level())];
        while let Some((here, level)) = stack.pop() {
            if level == 0 {
                leaves += 1;
                continue;
            }
            inner += 1;
            source.with(here, |view| {
                let node = Node::open(view, self, here, level)?;
                for index in 0..node.count {
                    match level {
                        1 => leaves += 1,
                        _ => stack.push((node.child(index)?, level - 1)),
                    }
                }
                Ok::<_, IndexError>(())
            })??;
        }
        Ok((inner, leaves))
    }

    fn check_node<S: PageSource>(
        &self,
        source: &S,
        (here, level): (u64, u8),
        floor: Option<Bytes<'_>>,
        last: &mut Option<Vec<u8>>,
        page: &mut VisitPage<'_>,
        record: &mut VisitRecord<'_>,
    ) -> Result<(), IndexError> {
        page(here)?;
        source.with(here, |view| {
            let node = Node::open(view, self, here, level)?;
            for index in 0..node.count {
                let key = node.key(index)?;
                if level > 0 {
                    let floor = if index == 0 { floor } else { Some(key) };
                    let below =
                        |last: &Vec<u8>| floor.is_some_and(|floor| floor.compare(last).is_le());
                    if last.as_ref().is_some_and(below) {
                        return Err(damaged(here).into());
                    }
                    let child = (node.child(index)?, level - 1);
                    self.check_node(source, child, floor, last, page, record)?;
                    continue;
                }
                let ascends = last.as_ref().is_none_or(|last| key.compare(last).is_gt());
                let kept = last.get_or_insert_default();
                kept.clear();
                key.append_to(kept);
                if !ascends || floor.is_some_and(|floor| floor.compare(kept).is_gt()) {
                    return Err(damaged(here).into());
                }
                match node.value(index)? {
                    Stored::Inline(value) => record(kept, value)?,
                    Stored::Overflow { bytes, first } => {
                        record(kept, (&overflow::read(source, self, (bytes, first))?).into())?;
                    }
                }
            }
            if level == 0 && self.can_overflow() {
                overflow::for_each_page(source, self, here, page)?;
            }
            Ok::<_, IndexError>(())
        })?
    }
}
