//! Placing a record in a page, and the split of a page that overflows (P3 4.1, Figure 4).
//!
//! 1. Choose the median of the records, with the new one among them.
//! 2. Copy the smaller ones to a new left page; the page's draft drops them. (Where the new record
//!    is among the larger ones, copy those to a new page instead: the page still has all that was
//!    committed, and no room for one more.)
//! 3. The largest key of the left page, and its place, go into the parent's free space: recursion.
//!    Where the page with the larger keys is the new one, the parent's record of the old page leads
//!    there.
//! 4. A root that splits gets a new root above it.

use pm::{Bad, Memory};

use crate::Result;
use crate::header::Kind;
use crate::layout::SLOT;
use crate::record::{encode_inner, key_of};
use crate::scheme::Scheme;
use crate::store::Store;
use crate::tree::{Path, Step};

impl<M: Memory, S: Scheme<M>> Store<M, S> {
    /// Returns whether a record of `len` bytes has room at the path's place in the page at `depth`.
    pub(crate) fn fits(
        &mut self,
        path: &Path,
        depth: usize,
        len: usize,
        replace: bool,
    ) -> Result<bool> {
        let page = path.steps[depth].page;
        self.edit(page)?;
        let draft = &self.work.drafts[&page];
        Ok(self.node(page)?.room(draft, len, usize::from(!replace))?.is_some())
    }

    /// Puts a record at the path's place in the page at `depth`, or in the place of the one there.
    pub(crate) fn place(
        &mut self,
        path: &mut Path,
        depth: usize,
        record: &[u8],
        replace: bool,
    ) -> Result<()> {
        let Step { page, index } = path.steps[depth];
        self.edit(page)?;
        let more = usize::from(!replace);
        let draft = &self.work.drafts[&page];
        let node = self.node(page)?;
        let old_len = if replace { node.record_bytes(index)? } else { 0 };
        if let Some(at) = node.room(draft, record.len(), more)? {
            self.write(page, at, record)?;
            let draft = self.edit(page)?;
            if replace {
                draft.swap(index, at as u16, record.len(), old_len);
            } else {
                draft.add(index, at as u16, record.len());
            }
            return Ok(());
        }
        let mut records = self.records(page)?;
        let kind = draft.kind;
        let has_slot = replace || draft.has_slot();
        if replace {
            records[index] = record.to_vec();
        } else {
            records.insert(index, record.to_vec());
        }
        if has_slot && kind.packed_bytes(&records) <= self.page_bytes() {
            return self.defragment(path, depth, &records);
        }
        self.split(path, depth, kind, &records, index)
    }

    /// The records of a page, with the children that they will have.
    pub(crate) fn records(&self, page: u64) -> Result<Vec<Vec<u8>>> {
        let node = self.node(page)?;
        (0..node.count).map(|index| Ok(node.record(index)?)).collect()
    }

    /// Splits the page at `depth`; `records` are all of its records, with the new one at `new`.
    fn split(
        &mut self,
        path: &mut Path,
        depth: usize,
        kind: Kind,
        records: &[Vec<u8>],
        new: usize,
    ) -> Result<()> {
        let page = path.steps[depth].page;
        self.moves.splits += 1;
        let median = median(kind, records);
        let bound = key_of(kind, &records[median - 1]).map(<[u8]>::to_vec);
        let bound = bound.ok_or(Bad::Damaged { what: "bound of an inner page", at: page })?;
        let old_count = self.node(page)?.count;
        let replaced = records.len() == old_count;
        let (left, right) = if new < median {
            let left = self.make_page(kind, &records[..median])?;
            let dropped = if replaced { median } else { median - 1 };
            self.drop_records(page, 0..dropped)?;
            (left, page)
        } else {
            let right = self.make_page(kind, &records[median..])?;
            self.drop_records(page, median..old_count)?;
            (page, right)
        };
        if depth == 0 {
            let children = [encode_inner(left, Some(&bound)), encode_inner(right, None)];
            let root = self.make_page(Kind::Inner, &children)?;
            self.work.master.roots[path.tree as usize] = root;
            return Ok(());
        }
        if right != page {
            self.lead(path, depth, right)?;
        }
        self.place(path, depth - 1, &encode_inner(left, Some(&bound)), false)
    }

    fn drop_records(&mut self, page: u64, range: std::ops::Range<usize>) -> Result<()> {
        for index in range.rev() {
            let len = self.node(page)?.record_bytes(index)?;
            self.edit(page)?.drop_slot(index, len);
        }
        Ok(())
    }

    /// Makes what leads to the page at `depth` lead to another one: the root, or the parent's child
    /// word, which is a frame of 8 bytes where the record is committed.
    pub(crate) fn lead(&mut self, path: &mut Path, depth: usize, to: u64) -> Result<()> {
        path.steps[depth].page = to;
        let Some(above) = depth.checked_sub(1) else {
            self.work.master.roots[path.tree as usize] = to;
            return Ok(());
        };
        let Step { page, index } = path.steps[above];
        let at = self.node(page)?.slot(index);
        self.edit(page)?.set_child(at, to);
        Ok(())
    }
}

/// Returns how many records go to the left, so that the larger half is as small as possible; both
/// have one.
fn median(kind: Kind, records: &[Vec<u8>]) -> usize {
    let bytes = |record: &Vec<u8>| record.len().next_multiple_of(kind.align()) + SLOT;
    let total: usize = records.iter().map(bytes).sum();
    let mut left = 0;
    let mut best = (usize::MAX, 1);
    for (index, record) in records[..records.len() - 1].iter().enumerate() {
        left += bytes(record);
        best = best.min((left.max(total - left), index + 1));
    }
    best.1
}
