//! A copy-on-write B+tree (P1 3.2, 4.2): a change copies the pages on the way from the leaf to the
//! root, so that the old tree stays whole. `docs/format/cow-page.md` draws the pages.
//!
//! | part | what it does |
//! |---|---|
//! | [`TreeShape`] with a [`Root`] | the tree: look-up, changes, scans |
//! | [`Pages`] | which pages are free, when a superseded one is |
//! | [`PoolPages`], [`FilePages`] | where pages lie: extents of a heap, or a file behind a cache |
//!
//! The tree knows byte strings only. What commits a root, makes it durable, and who may see it, is
//! the business of the layer above.

mod build;
mod cache;
mod collect;
mod file;
mod held;
mod node;
mod overflow;
mod page;
mod pool;
mod scan;
mod store;
mod tree;

pub use file::{FilePages, FileSource};
pub use held::{Held, Old};
pub use node::{Records, TreeShape};
pub use page::{MAX_PAGE_BYTES, MIN_PAGE_BYTES, PAGE_HEADER_BYTES};
pub use pool::{EXTENT_HEADER_BYTES, ExtentList, PoolPages, PoolSource};
pub use scan::{Visit, VisitPage, VisitRecord};
pub use store::{PageBackend, PageSource, Pages};
pub use tree::{Root, TreeBuffers};
