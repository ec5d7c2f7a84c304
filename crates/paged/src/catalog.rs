//! The catalog: a tree from the numbers of trees to their roots.

use pm::Files;

use crate::change::{Body, Change};
use crate::file::{CATALOG, CATALOG_ROOT};
use crate::ids::{PageNo, TreeNo};
use crate::latch::Latching;
use crate::pool::{Appender, How, Pool};
use crate::tree::Tree;
use crate::{PagedError, Result};

impl<F: Files, T: Latching> Pool<F, T> {
    /// The catalog's tree: rows of eight bytes, by keys of four, the highest byte first.
    #[must_use]
    pub fn catalog(&self) -> Tree<'_, F, T> {
        Tree::new(self, CATALOG, CATALOG_ROOT)
    }

    /// Returns a tree.
    ///
    /// # Errors
    /// A page is damaged, or the medium refuses.
    pub fn tree(&self, number: TreeNo) -> Result<Option<Tree<'_, F, T>>> {
        if number == CATALOG {
            return Ok(Some(self.catalog()));
        }
        if let Some(root) = self.roots.get(number) {
            return Ok(Some(Tree::new(self, number, root)));
        }
        let Some(row) = self.catalog().get(&number.0.to_be_bytes())? else { return Ok(None) };
        let root = row.try_into().map_err(|_| PagedError::DamagedPage {
            page: CATALOG_ROOT,
            what: "the catalog has a row that is no root",
        })?;
        let root = PageNo(u64::from_le_bytes(root));
        self.roots.set(number, root);
        Ok(Some(Tree::new(self, number, root)))
    }

    /// Creates an empty tree.
    ///
    /// # Errors
    /// There is one with this number, the log has no room for it, or the medium refuses.
    pub fn create_tree(&self, chain: &mut dyn Appender, number: TreeNo) -> Result<Tree<'_, F, T>> {
        let before = chain.last();
        let (root, mut map) = self.allocate()?;
        let mut page = self.write_new(root)?;
        let body = Body { tree: number, change: Change::NewTree };
        self.perform(chain, How::Do, &body, &mut page, None, Some(&mut map))?;
        drop((page, map));
        let entered = self.catalog().insert(chain, &number.0.to_be_bytes(), &root.0.to_le_bytes());
        if let Err(error) = entered {
            self.undo_to(chain, before)?;
            return Err(error);
        }
        Ok(Tree::new(self, number, root))
    }
}
