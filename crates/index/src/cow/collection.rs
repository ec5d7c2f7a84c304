//! The progress of the collection that `collect.rs` does.

use pm::Bad;

use super::node::TreeShape;

/// The progress of the collection.
#[derive(Debug)]
pub(super) struct Collection {
    /// Pages to look at: number, level, shape of their tree.
    pub(super) stack: Vec<(u64, u8, TreeShape)>,
    pub(super) enumerated: bool,
    /// A bit for each page below the mark.
    pub(super) marks: Vec<u64>,
    /// The place that the search for unmarked pages has come to.
    pub(super) swept: u64,
}

impl Collection {
    pub(super) fn mark(&mut self, place: Option<u64>, page: u64) -> Result<(), Bad> {
        let twice = Bad::Damaged { what: "page with two owners", at: page };
        let place = place.ok_or(Bad::Damaged { what: "page number", at: page })?;
        let (word, bit) = ((place / 64) as usize, 1 << (place % 64));
        if self.marks[word] & bit != 0 {
            return Err(twice);
        }
        self.marks[word] |= bit;
        Ok(())
    }
}
