//! Pages that have become small: below a quarter, a page's records go into the gap of a neighbour
//! under the same parent, if they fit. Nothing is allocated, so that deletes work in a full pool.

use pm::{Bad, Memory};

use crate::Result;
use crate::header::Kind;
use crate::layout::MOST_LEVELS;
use crate::scheme::Scheme;
use crate::store::Store;
use crate::tree::{Path, Step};

impl<M: Memory, S: Scheme<M>> Store<M, S> {
    /// Merges the page at `depth`, from which a record was dropped, if it is small; then its
    /// parents.
    pub(crate) fn rebalance(&mut self, path: &mut Path, depth: usize) -> Result<()> {
        let page = path.steps[depth].page;
        let Some(above) = depth.checked_sub(1) else { return self.lower_root(path.tree) };
        let draft = self.edit(page)?;
        let (kind, bytes, count) = (draft.kind, draft.record_bytes(), draft.slots.len());
        if count > 0 && bytes >= self.page_bytes() / 4 {
            return Ok(());
        }
        let Step { page: parent, index } = path.steps[above];
        let siblings = self.node(parent)?.count;
        if siblings == 1 {
            // The only child has all keys of its parent, whose own neighbours were too full to take
            // that one in. It stays, even if it is empty.
            return Ok(());
        }
        // Into the right neighbour, whose keys then begin earlier, or into the left one, which
        // takes the bound over.
        let (to_right, other) =
            if index + 1 < siblings { (true, index + 1) } else { (false, index - 1) };
        let into = self.node(parent)?.inner(other)?.child;
        if !self.take_in(into, page, kind, to_right)? {
            return Ok(());
        }
        self.free_page(page);
        let gone = if to_right {
            index
        } else {
            self.lead(path, depth, into)?;
            other
        };
        let len = self.node(parent)?.record_bytes(gone)?;
        self.edit(parent)?.drop_slot(gone, len);
        self.rebalance(path, above)
    }

    /// Copies the records of a page into the gap of another one, before or after its own. Returns
    /// whether they fit; nothing has changed where they do not.
    fn take_in(&mut self, into: u64, page: u64, kind: Kind, before: bool) -> Result<bool> {
        let records = self.records(page)?;
        let most = kind.most_slots(self.page_bytes());
        let draft = self.edit(into)?;
        let bytes: usize =
            records.iter().map(|record| record.len().next_multiple_of(kind.align())).sum();
        if draft.kind != kind
            || draft.slots.len() + records.len() > most
            || draft.gap_bytes(records.len()) < bytes + kind.align()
        {
            return Ok(false);
        }
        let start = if before { 0 } else { draft.slots.len() };
        for (index, record) in records.iter().enumerate() {
            let draft = &self.work.drafts[&into];
            let Some(at) = draft.in_gap_plainly(record.len(), records.len() - index) else {
                unreachable!("the gap has room for all of them");
            };
            self.write(into, at, record)?;
            self.edit(into)?.add(start + index, at as u16, record.len());
        }
        Ok(true)
    }

    /// Makes the only child of a root the root.
    fn lower_root(&mut self, tree: u32) -> Result<()> {
        for _ in 0..MOST_LEVELS {
            let root = self.work.master.roots[tree as usize];
            let node = self.node(root)?;
            if node.kind != Kind::Inner || node.count != 1 {
                return Ok(());
            }
            let child = node.inner(0)?.child;
            self.work.master.roots[tree as usize] = child;
            self.edit(root)?;
            self.free_page(root);
        }
        Err(Bad::Damaged { what: "root of a tree", at: self.work.master.roots[tree as usize] }
            .into())
    }
}
