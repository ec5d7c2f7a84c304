//! A copy-on-write B+tree (P1 3.2, 4.2): a change copies the pages on the way from the leaf to the
//! root, so that the old tree stays whole. `docs/format/cow-page.md` draws the pages.
//!
//! | part | what it does |
//! |---|---|
//! | [`TreeShape`] with a [`Root`] | the tree: look-up, changes, scans |
//! | [`Pages`] | which pages are free, when a superseded one is |
//!
//! Pages lie in extents of a heap, or in a file with a cache: [`crate::pages`]. The tree knows byte strings only. What commits a root, makes it durable, and who may see it, is
//! the business of the layer above.

mod build;
mod collect;
mod collection;
mod held;
mod node;
mod overflow;
mod scan;
mod store;
mod tree;

pub use held::{Held, Old};
pub use node::{Records, TreeShape};
pub use scan::{Visit, VisitPage, VisitRecord};
pub use store::Pages;
pub use tree::{Root, TreeBuffers};
