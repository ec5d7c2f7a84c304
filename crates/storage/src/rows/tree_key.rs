//! Keys of a table's trees as byte strings, for indexes that take only those.
//!
//! The key of a secondary index ends with that of the primary one, so it needs no value: it is the
//! mapping from secondary to primary key (P1 3.2).

use std::ops::Bound;

use index::WIDE_KEY_BYTES;
use pm::Bytes;
use smallvec::SmallVec;

use crate::error::StorageError;
use crate::rows::catalog::{KeyLayout, TableLayout, encoded_bytes};
use crate::rows::key::{TableKey, encode_key, encode_range};
use crate::rows::value::Value;

impl TableKey {
    /// The key's bytes, in whose order keys are sorted. `narrow` holds those of a key of numbers.
    #[inline]
    pub fn bytes<'a>(&'a self, narrow: &'a mut [u8; 8]) -> &'a [u8] {
        match self {
            Self::Narrow(number) => {
                *narrow = number.to_be_bytes();
                narrow
            }
            Self::Wide(key) => key.as_bytes(),
            Self::Long(key) => key.as_bytes(),
        }
    }
}

/// Room for the bytes of primary keys that stand at the end of secondary ones.
#[derive(Debug)]
pub struct PrimaryBytes {
    short: [u8; WIDE_KEY_BYTES],
    long: Vec<u8>,
}

impl Default for PrimaryBytes {
    fn default() -> Self {
        Self { short: [0; WIDE_KEY_BYTES], long: Vec::new() }
    }
}

impl TableLayout {
    /// The key of an index; 0 is the primary one.
    pub(crate) fn key_layout(&self, index: usize) -> &KeyLayout {
        if index == 0 { &self.primary } else { &self.secondary[index - 1] }
    }

    /// Returns how many indexes the table has, the primary one included.
    pub fn index_count(&self) -> usize {
        1 + self.secondary.len()
    }

    /// Bytes of a key of an index; 0 is the primary one.
    pub fn key_bytes(&self, index: usize) -> usize {
        self.key_layout(index).width
    }

    /// The primary key with these values.
    ///
    /// # Errors
    /// Wrong number, type or length of values.
    #[inline]
    pub fn primary_key(&self, values: &[Value<'_>]) -> Result<TableKey, StorageError> {
        encode_key(&self.schema, &self.primary, values)
    }

    /// The primary key of a tuple with these values, which have been checked.
    ///
    /// # Errors
    /// As [`Self::primary_key`].
    #[inline]
    pub fn primary_key_of(&self, tuple: &[Value<'_>]) -> Result<TableKey, StorageError> {
        if let [column] = self.primary.columns[..] {
            return self.primary_key(&[tuple[usize::from(column)]]);
        }
        let columns = self.primary.columns.iter();
        let values: SmallVec<[Value<'_>; 8]> =
            columns.map(|column| tuple[usize::from(*column)]).collect();
        self.primary_key(&values)
    }

    /// The bounds of a scan of an index; 0 is the primary one. A bound may give only the first
    /// columns of a key.
    ///
    /// # Errors
    /// Wrong values.
    pub fn key_range(
        &self,
        index: usize,
        low: Bound<&[Value<'_>]>,
        high: Bound<&[Value<'_>]>,
    ) -> Result<(Bound<TableKey>, Bound<TableKey>), StorageError> {
        encode_range(&self.schema, self.key_layout(index), low, high)
    }

    /// The primary key at the end of a key of a secondary index; 1 is the first one.
    pub fn primary_of<'a>(
        &self,
        index: usize,
        key: Bytes<'_>,
        out: &'a mut PrimaryBytes,
    ) -> &'a [u8] {
        let keys = self.key_layout(index);
        let len = keys.bytes.saturating_sub(keys.own_bytes);
        let part = key.get(keys.own_bytes, len).unwrap_or_default();
        let width = self.primary.width;
        let out = match out.short.get_mut(..width) {
            Some(short) => short,
            None => {
                out.long.resize(width, 0);
                &mut out.long[..]
            }
        };
        part.copy_to(&mut out[..part.len()]);
        out[part.len()..].fill(0);
        out
    }

    /// The columns that the key of an index is made of, null words included; 0 is the primary one.
    pub fn index_columns(&self, index: usize) -> Vec<u16> {
        let keys = self.key_layout(index);
        let mut columns = keys.columns.clone();
        for word in keys.null_words() {
            if !columns.contains(&word) {
                columns.push(word);
            }
        }
        columns
    }

    /// The length of the part of a key that no two tuples may share: of a unique index, unless a
    /// column of it is NULL. 1 is the first secondary index.
    pub fn unique_part(&self, index: usize, key: &[u8]) -> Option<usize> {
        let keys = self.key_layout(index);
        if index == 0 || !self.schema.indexes[index - 1].unique {
            return None;
        }
        let mut at = 0;
        for (place, kind) in keys.kinds.iter().enumerate().take(keys.own_columns) {
            if keys.null_bit(place).is_some() {
                // The byte says whether there is a value.
                if key.get(at) == Some(&0) {
                    return None;
                }
                at += 1;
            }
            at += encoded_bytes(*kind);
        }
        Some(keys.own_bytes)
    }

    /// Returns whether one of these columns belongs to a secondary index; 1 is the first one.
    pub fn index_has(&self, index: usize, changes: &[(u16, Value<'_>)]) -> bool {
        let key = self.key_layout(index);
        changes.iter().any(|(column, _)| key.has(*column))
    }
}
