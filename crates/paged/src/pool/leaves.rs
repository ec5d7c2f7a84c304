//! The leaves of a file of which pages are damaged: found by a look at every page, so that a damaged inner
//! page hides none of them. For whoever saves what can be read, while nobody changes anything.

use std::collections::BTreeMap;

use pm::Files;

use super::Pool;
use crate::PagedError;
use crate::ids::{PageNo, TreeNo};
use crate::latch::Latching;
use crate::page::PageKind;
use crate::space::FIRST_MAP;

/// Leaves by their trees and low fences.
#[derive(Debug, Default)]
pub(crate) struct Leaves(pub(crate) BTreeMap<(TreeNo, Vec<u8>), PageNo>);

impl<F: Files, T: Latching> Pool<F, T> {
    /// Looks at every page; from now on leaves are found without the pages above them. Returns the errors of
    /// pages that cannot be read and may be in use. Nobody changes anything from now on.
    pub fn find_leaves(&self) -> Vec<PagedError> {
        let (mut leaves, mut damaged) = (Leaves::default(), Vec::new());
        for number in (FIRST_MAP.0..self.page_count()).map(PageNo) {
            match self.read(number) {
                Ok(page) if page.kind() == PageKind::Leaf => {
                    leaves.0.insert((page.tree(), page.low().to_vec()), number);
                }
                Ok(_) => {}
                Err(error) if self.is_used(number).unwrap_or(true) => damaged.push(error),
                Err(_) => {}
            }
        }
        let _ = self.leaves.set(leaves);
        damaged
    }
}
