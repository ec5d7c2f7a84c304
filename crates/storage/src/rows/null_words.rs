//! Null words: columns after the declared ones, whose bits say which columns of a tuple are NULL.

use crate::rows::schema::{Column, TableSchema};
use crate::rows::value::ColumnType;

/// Columns that a null word has bits for.
const BITS: usize = 64;

/// The place where a column says whether it is NULL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NullBit {
    /// The number of the null word, which is a column.
    pub(crate) word: u16,
    /// The bit in it.
    pub(crate) mask: u64,
}

/// A table as it is stored, and of each column the null bit. The names of null words are empty: no
/// column has such a one.
pub(crate) fn with_null_words(declared: &TableSchema) -> (TableSchema, Vec<Option<NullBit>>) {
    let (mut stored, mut nulls) = (declared.clone(), Vec::new());
    let first = declared.columns.len();
    let mut found = 0;
    for column in &declared.columns {
        nulls.push(column.nullable.then(|| {
            let (word, bit) = (found / BITS, found % BITS);
            found += 1;
            NullBit { word: (first + word) as u16, mask: 1 << bit }
        }));
    }
    if found == 0 {
        return (stored, Vec::new());
    }
    let word =
        || Column { name: String::new(), kind: ColumnType::U64, nullable: false, default: None };
    stored.columns.extend((0..found.div_ceil(BITS)).map(|_| word()));
    nulls.resize(stored.columns.len(), None);
    (stored, nulls)
}
