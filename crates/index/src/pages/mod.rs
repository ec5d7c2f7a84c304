//! Pages of one size, in a file with a cache or in extents of a heap.
//!
//! | part | what it does |
//! |---|---|
//! | [`PageSource`], [`PageBackend`] | the contract: pages are read, taken, written back |
//! | [`FilePages`] | pages in a file, with a page cache |
//! | [`PoolPages`] | pages in extents of a heap |
//!
//! Knows a page's header and checksum, and nothing of trees: what a page is for, and when it can be
//! used again, is the business of the layer above, as [`crate::cow`] is one.

mod backend;
mod cache;
mod file;
pub(crate) mod page;
mod pool;

pub use backend::{PageBackend, PageSource};
pub use file::{FilePages, FileSource};
pub use page::{MAX_PAGE_BYTES, MIN_PAGE_BYTES, PAGE_HEADER_BYTES};
pub use pool::{EXTENT_HEADER_BYTES, ExtentList, PoolPages, PoolSource};
