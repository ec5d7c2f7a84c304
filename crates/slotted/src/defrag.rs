//! Defragmentation (P3 4.3): if a page's free bytes suffice for a record and no hole does, all its
//! records are copied to a fresh page, without gaps. The parent leads there, and the old page is
//! free.

use pm::{Memory, observe};

use crate::Result;
use crate::phases::{DEFRAGMENTATION, INSERT};
use crate::scheme::Scheme;
use crate::store::Store;
use crate::tree::Path;

impl<M: Memory, S: Scheme<M>> Store<M, S> {
    /// Replaces the page at `depth` by a fresh one with `records`.
    pub(crate) fn defragment(
        &mut self,
        path: &mut Path,
        depth: usize,
        records: &[Vec<u8>],
    ) -> Result<()> {
        observe!(M: self.memory.phase(INSERT));
        let before = self.work.lines.len();
        let page = path.steps[depth].page;
        let kind = self.node(page)?.kind;
        let fresh = self.make_page(kind, records)?;
        self.free_page(page);
        self.lead(path, depth, fresh)?;
        self.moves.defragmentations += 1;
        self.moves.defragmented_lines += (self.work.lines.len() - before) as u64;
        observe!(M: self.memory.phase(DEFRAGMENTATION));
        Ok(())
    }
}
