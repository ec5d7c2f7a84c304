//! The layout of a table's tuples in slots: which columns stand in their words, which lead to slots
//! of their own, and which have a place in the tuple. `words.rs` says what the words mean.
//!
//! It belongs to the engines that keep tuples so, each of which derives it from its catalog. The
//! catalog knows nothing of it.

use std::ops::Deref;

use pm::Range;

use crate::rows::catalog::{Catalog, TableLayout};
use crate::table::words::{FieldForm, LARGE_LEN};

/// The longest column, by its declaration, that a table with inlined columns inlines, in bytes.
pub const MAX_INLINE_BYTES: u32 = 1 << 10;
/// Bytes of a tuple up to which columns are inlined.
pub const MAX_INLINE_TUPLE: u64 = 4 << 10;

/// A table whose tuples lie in slots: what follows from its declaration, which is at hand as the
/// [`TableLayout`] that this dereferences to, and how a slot is divided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotLayout {
    /// Here and not behind a pointer: every access to a tuple needs both.
    table: TableLayout,
    /// The form of each column's word.
    pub(crate) forms: Vec<FieldForm>,
    /// The places in the tuple of the columns that are inlined: empty if none is.
    places: Vec<Range>,
    tuple_bytes: u64,
    /// True if a value may be so long that its word has the other form (`words.rs`).
    pub(crate) has_large: bool,
}

impl Deref for SlotLayout {
    type Target = TableLayout;

    #[inline]
    fn deref(&self) -> &TableLayout {
        &self.table
    }
}

impl SlotLayout {
    /// Returns the layout of a table's tuples with no column inlined.
    pub fn new(table: &TableLayout) -> Self {
        let columns = table.schema.columns();
        let form = |max| match max {
            None => FieldForm::Word,
            Some(max) if max <= 7 => FieldForm::Short,
            Some(_) => FieldForm::Slot,
        };
        let is_large = |max| u64::from(max) >= LARGE_LEN;
        Self {
            table: table.clone(),
            forms: columns.iter().map(|column| form(column.kind.max_bytes())).collect(),
            places: Vec::new(),
            tuple_bytes: columns.len() as u64 * 8,
            has_large: columns.iter().any(|column| column.kind.max_bytes().is_some_and(is_large)),
        }
    }

    /// Returns the layout of a table's tuples, with columns inlined if its declaration asks for it.
    pub fn inlined(table: &TableLayout) -> Self {
        let mut layout = Self::new(table);
        if !table.schema.inline {
            return layout;
        }
        let words = layout.tuple_bytes;
        layout.places = vec![Range::new(0, 0); layout.forms.len()];
        for (column, form) in layout.forms.iter_mut().enumerate() {
            let bytes = u64::from(table.schema.columns[column].kind.max_bytes().unwrap_or(0));
            let end = layout.tuple_bytes + bytes.next_multiple_of(8);
            if *form == FieldForm::Slot
                && !table.in_key[column]
                && !table.indexed[column]
                && bytes <= u64::from(MAX_INLINE_BYTES)
                && end <= MAX_INLINE_TUPLE
            {
                *form = FieldForm::Inline;
                layout.places[column] = Range::new(layout.tuple_bytes, bytes);
                layout.tuple_bytes = end;
            }
        }
        if layout.tuple_bytes == words {
            layout.places.clear();
        }
        layout
    }

    /// Returns [`Self::new`] of each table of a catalog.
    pub fn all(catalog: &Catalog) -> Vec<Self> {
        catalog.tables.iter().map(|table| Self::new(table)).collect()
    }

    /// Returns [`Self::inlined`] of each table of a catalog.
    pub fn all_inlined(catalog: &Catalog) -> Vec<Self> {
        catalog.tables.iter().map(|table| Self::inlined(table)).collect()
    }

    /// Bytes of a tuple's slot: a word for each column, then the places of those that are inlined.
    #[inline]
    pub fn tuple_bytes(&self) -> u64 {
        self.tuple_bytes
    }

    /// Bytes of a tuple's words, one for each column.
    #[inline]
    pub(crate) fn words_bytes(&self) -> u64 {
        self.forms.len() as u64 * 8
    }

    /// Returns whether there are inlined columns.
    #[inline]
    pub(crate) fn inlines(&self) -> bool {
        !self.places.is_empty()
    }

    /// Returns where column `column`, which is inlined, has its place in the tuple at `tuple`, and
    /// how many bytes fit.
    #[inline]
    pub(crate) fn place(&self, tuple: u64, column: u16) -> Range {
        let place = self.places[usize::from(column)];
        Range::new(tuple.saturating_add(place.start), place.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::schema::{Schema, TableSchema};
    use crate::rows::value::ColumnType;

    fn catalog(inline: bool) -> Catalog {
        let table = TableSchema::new("t")
            .column("id", ColumnType::U64)
            .column("short", ColumnType::Text { max: 7 })
            .column("long", ColumnType::Bytes { max: 9 })
            .column("indexed", ColumnType::Text { max: 20 })
            .column("large", ColumnType::Bytes { max: 256 << 10 })
            .column("late", ColumnType::Text { max: 16 })
            .key(&["id"])
            .index("by_text", &["indexed"]);
        let table = if inline { table.inline_columns() } else { table };
        Catalog::new(&Schema::new().table(table)).unwrap()
    }

    #[test]
    fn without_inlined_columns_a_tuple_is_a_word_for_each_column() {
        use FieldForm::{Short, Slot, Word};
        for (catalog, asks) in [(catalog(false), false), (catalog(true), true)] {
            let layouts = SlotLayout::all(&catalog);
            let layout = &layouts[0];
            assert_eq!(layout.forms, [Word, Short, Slot, Slot, Slot, Slot]);
            assert_eq!((layout.tuple_bytes(), layout.words_bytes()), (48, 48));
            assert!(!layout.inlines() && layout.has_large);
            assert_eq!(**layout, *catalog.tables[0]);
            // Where nothing asks for it, nothing is inlined.
            assert_eq!(SlotLayout::all_inlined(&catalog) == layouts, !asks);
        }
    }

    #[test]
    fn inlined_columns_follow_the_words_in_order() {
        use FieldForm::{Inline, Short, Slot, Word};
        let catalog = catalog(true);
        let layouts = SlotLayout::all_inlined(&catalog);
        let layout = &layouts[0];
        // Neither what an index has nor what is too long.
        assert_eq!(layout.forms, [Word, Short, Inline, Slot, Slot, Inline]);
        assert_eq!(layout.place(1000, 2), Range::new(1048, 9));
        assert_eq!(layout.place(1000, 5), Range::new(1064, 16));
        assert_eq!((layout.tuple_bytes(), layout.words_bytes()), (80, 48));
        assert!(layout.inlines());
    }
}
