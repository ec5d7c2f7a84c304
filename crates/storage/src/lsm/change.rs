//! The meaning of an entry of a run (P1 3.3, 4.3), and how a tuple comes together from several
//! runs.
//!
//! An entry is a whole tuple, the columns that an update changed, or a tombstone. Reading goes from
//! the newest run to the oldest and takes each column from the first entry that has it; a whole
//! tuple or a tombstone ends the search. A partial entry stands only above an entry of the same
//! tuple, since only a tuple that exists can be updated.

use crate::limits::MAX_COLUMNS;

const WORDS: usize = MAX_COLUMNS / 64;

const _: () = assert!(MAX_COLUMNS.is_multiple_of(64));

/// Some columns of a table: a bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Hash)]
pub struct ColumnSet([u64; WORDS]);

impl ColumnSet {
    /// No column.
    pub const EMPTY: Self = Self([0; WORDS]);

    /// The first `columns` columns: all those of a table that has so many.
    pub fn first(columns: usize) -> Self {
        let mut set = Self::EMPTY;
        (0..columns.min(MAX_COLUMNS)).for_each(|column| set.insert(column as u16));
        set
    }

    /// The set with these words, the first columns first; as many words as are given.
    pub fn from_words(words: &[u64]) -> Self {
        let mut set = Self::EMPTY;
        let many = words.len().min(WORDS);
        set.0[..many].copy_from_slice(&words[..many]);
        set
    }

    /// The words of the set of a table with `columns` columns.
    pub fn words(&self, columns: usize) -> &[u64] {
        &self.0[..columns.div_ceil(64).min(WORDS)]
    }

    /// Adds a column.
    ///
    /// # Panics
    /// No table has so many columns.
    #[inline]
    pub fn insert(&mut self, column: u16) {
        self.0[usize::from(column) / 64] |= 1 << (column % 64);
    }

    /// Returns whether the column is one of them.
    #[inline]
    pub fn contains(&self, column: u16) -> bool {
        self.0.get(usize::from(column) / 64).is_some_and(|word| word & (1 << (column % 64)) != 0)
    }

    /// Returns how many columns of the set come before `column`.
    #[inline]
    pub fn rank(&self, column: u16) -> usize {
        let word = usize::from(column) / 64;
        let below = |index: usize| if index < word { !0 } else { (1u64 << (column % 64)) - 1 };
        let words = self.0.iter().enumerate().take(word + 1);
        words.map(|(index, bits)| (bits & below(index)).count_ones() as usize).sum()
    }

    /// Returns whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The columns of either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.with(other, |mine, its| mine | its)
    }

    /// The columns of both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.with(other, |mine, its| mine & its)
    }

    /// The columns that `other` has not.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        self.with(other, |mine, its| mine & !its)
    }

    fn with(&self, other: &Self, both: impl Fn(u64, u64) -> u64) -> Self {
        let mut set = Self::EMPTY;
        for (word, (mine, its)) in set.0.iter_mut().zip(self.0.iter().zip(&other.0)) {
            *word = both(*mine, *its);
        }
        set
    }

    /// The columns in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().enumerate().flat_map(|(index, word)| {
            let mut bits = *word;
            std::iter::from_fn(move || {
                let bit = bits.checked_sub(1).map(|less| (bits.trailing_zeros(), less))?;
                bits &= bit.1;
                Some(index as u16 * 64 + bit.0 as u16)
            })
        })
    }
}

impl FromIterator<u16> for ColumnSet {
    fn from_iter<I: IntoIterator<Item = u16>>(columns: I) -> Self {
        let mut set = Self::EMPTY;
        columns.into_iter().for_each(|column| set.insert(column));
        set
    }
}

/// The contents of an entry: what it says of its tuple.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The tuple, with all its columns.
    Whole,
    /// The entry has these columns of a tuple that an older entry has.
    Partial(ColumnSet),
    /// The tuple does not exist, whatever older entries say.
    Tombstone,
}

/// Entries of a tuple that cannot follow upon each other: a column was changed of a tuple that is
/// not there. A damaged run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("columns of a tuple that no older run has")]
pub struct NoWhole;

impl Change {
    /// Returns what one entry says that stands for this one and the next older one.
    ///
    /// # Errors
    /// A partial entry over a tombstone.
    pub fn over(&self, older: &Self) -> Result<Self, NoWhole> {
        match (self, older) {
            (Self::Partial(mine), Self::Partial(its)) => Ok(Self::Partial(mine.union(its))),
            (Self::Partial(_), Self::Whole) => Ok(Self::Whole),
            (Self::Partial(_), Self::Tombstone) => Err(NoWhole),
            (whole_or_tombstone, _) => Ok(*whole_or_tombstone),
        }
    }

    /// Returns whether older entries of the tuple say nothing more.
    pub fn hides_older(&self) -> bool {
        !matches!(self, Self::Partial(_))
    }
}

/// A tuple, or some of its columns, on the way from its newest entry to the oldest one needed.
#[derive(Clone, Copy, Debug)]
pub struct Coalescing {
    missing: ColumnSet,
    found: Option<bool>,
}

impl Coalescing {
    /// Looks for these columns.
    pub fn new(columns: ColumnSet) -> Self {
        Self { missing: columns, found: None }
    }

    /// The tuple's next older entry; returns the columns that are to be taken from it.
    #[inline]
    pub fn add(&mut self, change: &Change) -> ColumnSet {
        if self.is_complete() {
            return ColumnSet::EMPTY;
        }
        let taken = match change {
            Change::Whole => self.missing,
            Change::Partial(columns) => self.missing.intersection(columns),
            Change::Tombstone => ColumnSet::EMPTY,
        };
        match (change, self.found) {
            // Above the tombstone stood a partial entry: `finish` will tell.
            (Change::Tombstone, Some(_)) => {}
            (Change::Tombstone, None) => {
                self.missing = ColumnSet::EMPTY;
                self.found = Some(false);
            }
            _ => self.found = Some(true),
        }
        self.missing = self.missing.without(&taken);
        taken
    }

    /// Returns whether no older entry is needed.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.found.is_some() && self.missing.is_empty()
    }

    /// Returns whether there is such a tuple, once all entries that there are, or all that were
    /// needed, have been added.
    ///
    /// # Errors
    /// Columns are missing of a tuple that there is.
    #[inline]
    pub fn finish(&self) -> Result<bool, NoWhole> {
        match self.found {
            Some(true) if !self.missing.is_empty() => Err(NoWhole),
            found => Ok(found == Some(true)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(columns: &[u16]) -> ColumnSet {
        columns.iter().copied().collect()
    }

    fn partial(columns: &[u16]) -> Change {
        Change::Partial(set(columns))
    }

    #[test]
    fn sets_of_columns() {
        let some = set(&[0, 3, 63, 64, 700, 1023]);
        assert_eq!(some.iter().collect::<Vec<_>>(), [0, 3, 63, 64, 700, 1023]);
        assert_eq!((some.len(), some.contains(700), some.contains(701)), (6, true, false));
        let ranks = [0, 1, 3, 64, 65, 1023].map(|column| some.rank(column));
        assert_eq!(ranks, [0, 1, 1, 3, 4, 5]);
        assert_eq!(ColumnSet::first(65).len(), 65);
        assert_eq!(ColumnSet::first(65).words(65), [!0, 1]);
        assert_eq!(ColumnSet::from_words(&[5, 1]), set(&[0, 2, 64]));
        assert_eq!(some.intersection(&ColumnSet::first(64)), set(&[0, 3, 63]));
        assert_eq!(some.without(&ColumnSet::first(64)), set(&[64, 700, 1023]));
        assert!(ColumnSet::first(0).is_empty() && !some.is_empty());
    }

    #[test]
    fn each_column_comes_from_its_newest_entry() {
        let mut tuple = Coalescing::new(ColumnSet::first(4));
        assert_eq!(tuple.add(&partial(&[1])), set(&[1]));
        assert_eq!(tuple.add(&partial(&[1, 2])), set(&[2]));
        assert!(!tuple.is_complete() && tuple.finish() == Err(NoWhole));
        assert_eq!(tuple.add(&Change::Whole), set(&[0, 3]));
        assert!(tuple.is_complete() && tuple.finish() == Ok(true));
        // Entries below are hidden.
        assert_eq!(tuple.add(&Change::Tombstone), ColumnSet::EMPTY);
        assert_eq!(tuple.finish(), Ok(true));
    }

    #[test]
    fn the_search_ends_when_the_columns_asked_for_are_there() {
        let mut tuple = Coalescing::new(set(&[2]));
        assert_eq!(tuple.add(&partial(&[0, 2])), set(&[2]));
        assert!(tuple.is_complete() && tuple.finish() == Ok(true));
        // No column is asked for: the newest entry decides whether there is a tuple.
        let mut tuple = Coalescing::new(ColumnSet::EMPTY);
        assert!(!tuple.is_complete());
        tuple.add(&partial(&[0]));
        assert!(tuple.is_complete() && tuple.finish() == Ok(true));
    }

    #[test]
    fn a_tombstone_hides_the_tuple() {
        let mut tuple = Coalescing::new(ColumnSet::first(4));
        assert_eq!(tuple.finish(), Ok(false), "no run has it");
        tuple.add(&Change::Tombstone);
        assert!(tuple.is_complete() && tuple.finish() == Ok(false));
        tuple.add(&Change::Whole);
        assert_eq!(tuple.finish(), Ok(false));
    }

    #[test]
    fn columns_of_a_deleted_tuple_are_damage() {
        let mut tuple = Coalescing::new(ColumnSet::first(2));
        tuple.add(&partial(&[1]));
        tuple.add(&Change::Tombstone);
        assert_eq!(tuple.finish(), Err(NoWhole));
        assert_eq!(partial(&[1]).over(&Change::Tombstone), Err(NoWhole));
    }

    /// Merging neighbours first and reading then, or reading all of them: the same.
    #[test]
    fn merging_two_entries_changes_no_answer() {
        let kinds =
            [Change::Whole, Change::Tombstone, partial(&[0]), partial(&[1]), partial(&[0, 2])];
        for newer in kinds {
            for older in kinds {
                let Ok(both) = newer.over(&older) else { continue };
                let mut two = Coalescing::new(ColumnSet::first(3));
                let taken = two.add(&newer).union(&two.add(&older));
                let mut one = Coalescing::new(ColumnSet::first(3));
                assert_eq!(one.add(&both), taken, "{newer:?} over {older:?}");
                assert_eq!(one.finish(), two.finish(), "{newer:?} over {older:?}");
                assert_eq!(one.is_complete(), two.is_complete());
            }
        }
    }
}
