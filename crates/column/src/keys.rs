//! Keys of indexes. The crate's user defines how they are made of values; the store knows words and bytes alone.

use std::borrow::Cow;
use std::fmt::Debug;

use crate::Result;
use crate::error::ColumnError;
use crate::value::{Field, Value};

/// A row's key in an index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexKey {
    /// The key; keys are in the order of their bytes.
    pub bytes: Vec<u8>,
    /// The length of the part, at the key's start, that no two rows may share, if there is one.
    pub unique: Option<usize>,
}

/// Makes keys of rows. A table has an index of its primary key, number 0, and then secondary ones, whose keys
/// contain the primary key.
pub trait Keys: Send + Sync + Debug {
    /// Returns how many indexes a table has.
    fn count(&self, table: usize) -> usize;

    /// The columns that an index's key is made of; of the primary key, in the order in which
    /// [`Key::new`] gets their values.
    fn columns(&self, table: usize, index: usize) -> &[usize];

    /// The key of a row, of which the columns of the index are there and the others are NULL.
    ///
    /// # Errors
    /// The values are none of the table's: damage.
    fn key(&self, table: usize, index: usize, row: &[Field]) -> Result<IndexKey>;

    /// The primary key in a key of a secondary index.
    fn primary<'k>(&self, table: usize, index: usize, key: &'k [u8]) -> Cow<'k, [u8]>;

    /// Returns whether rows with the same primary key always have the same values in its columns.
    fn is_exact(&self, table: usize) -> bool;
}

/// Keys of tables whose first column is the primary key, and that have no other index.
#[derive(Clone, Copy, Debug)]
pub struct FirstColumn;

impl Keys for FirstColumn {
    fn count(&self, _: usize) -> usize {
        1
    }

    fn columns(&self, _: usize, _: usize) -> &[usize] {
        &[0]
    }

    fn key(&self, _: usize, _: usize, row: &[Field]) -> Result<IndexKey> {
        let missing = ColumnError::Unfit { what: "a row of no values" };
        let bytes = Key::from(row.first().ok_or(missing)?.value()).bytes.into_owned();
        Ok(IndexKey { bytes, unique: None })
    }

    fn primary<'k>(&self, _: usize, _: usize, key: &'k [u8]) -> Cow<'k, [u8]> {
        key.into()
    }

    fn is_exact(&self, _: usize) -> bool {
        true
    }
}

/// The primary key of a row: the bytes of the index's key, and the values of its columns.
#[derive(Clone, Debug)]
pub struct Key<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) values: Cow<'a, [Value<'a>]>,
}

impl<'a> Key<'a> {
    /// The key with these bytes, which [`Keys::key`] makes of these values.
    pub fn new(bytes: &'a [u8], values: &'a [Value<'a>]) -> Self {
        Self { bytes: bytes.into(), values: values.into() }
    }
}

/// The key of a table that has [`FirstColumn`].
impl<'a> From<Value<'a>> for Key<'a> {
    fn from(value: Value<'a>) -> Self {
        let bytes: Cow<'a, [u8]> = match value {
            Value::Null => Cow::default(),
            Value::Word(word) => word.to_be_bytes().to_vec().into(),
            Value::Bytes(bytes) => bytes.into(),
        };
        Self { bytes, values: vec![value].into() }
    }
}
