//! A directory (P1 3.2): where every tree of the database starts.

use index::cow::Root;
use pm::Bad;

/// All that leads to the data of one moment: the trees' roots, how many tuples there are, and how
/// far the pages are used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Directory {
    /// The last transaction whose changes it has.
    pub transaction: u64,
    /// The high-water mark of each store of pages.
    pub marks: Vec<u64>,
    /// The root of each tree.
    pub roots: Vec<Root>,
    /// The tuples of each table.
    pub tuples: Vec<u64>,
}

impl Directory {
    /// An empty directory.
    pub fn new(stores: usize, trees: usize, tables: usize) -> Self {
        Self {
            transaction: 0,
            marks: vec![0; stores],
            roots: vec![Root::EMPTY; trees],
            tuples: vec![0; tables],
        }
    }

    /// Returns how many words it has when it is stored.
    pub fn word_count(&self) -> usize {
        1 + self.marks.len() + self.roots.len() + self.tuples.len()
    }

    /// Becomes the same as `other`, which has the same number of everything. Allocates nothing.
    pub fn copy_from(&mut self, other: &Self) {
        self.transaction = other.transaction;
        self.marks.copy_from_slice(&other.marks);
        self.roots.copy_from_slice(&other.roots);
        self.tuples.copy_from_slice(&other.tuples);
    }

    /// Its words, in the order in which they are stored.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        let roots = self.roots.iter().map(|root| root.word());
        std::iter::once(self.transaction)
            .chain(self.marks.iter().copied())
            .chain(roots)
            .chain(self.tuples.iter().copied())
    }

    /// Takes its contents from stored words, of which there are [`Self::word_count`].
    ///
    /// # Errors
    /// Too few words.
    pub fn set_words(&mut self, mut words: impl Iterator<Item = u64>) -> Result<(), Bad> {
        let mut next = || words.next().ok_or(Bad::Damaged { what: "directory", at: 0 });
        self.transaction = next()?;
        for mark in &mut self.marks {
            *mark = next()?;
        }
        for root in &mut self.roots {
            *root = Root::from_word(next()?);
        }
        for tuples in &mut self.tuples {
            *tuples = next()?;
        }
        Ok(())
    }
}
