//! Values as they are given and as they are read.

use crate::Result;
use crate::error::ColumnError;
use crate::layout::Kind;

/// A value that is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// A word.
    Word(u64),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// A value that was read.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Field {
    /// No value.
    Null,
    /// A word.
    Word(u64),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl Field {
    /// The same value, to be given.
    pub fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Word(word) => Value::Word(*word),
            Self::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

impl From<Value<'_>> for Field {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Word(word) => Self::Word(word),
            Value::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
        }
    }
}

impl Value<'_> {
    /// Checks that a column of this kind can have the value.
    pub(crate) fn fits(self, kind: Kind) -> Result<()> {
        match (self, kind) {
            (Self::Null, _) | (Self::Word(_), Kind::Word) => Ok(()),
            (Self::Bytes(bytes), Kind::Bytes) if u32::try_from(bytes.len()).is_ok() => Ok(()),
            _ => Err(ColumnError::Unfit { what: "a value of this kind" }),
        }
    }

    /// Checks that a column of this kind can have the value as a part of a key.
    pub(crate) fn fits_key(self, kind: Kind) -> Result<()> {
        match self {
            Self::Null => Err(ColumnError::Unfit { what: "NULL as a key" }),
            _ => self.fits(kind),
        }
    }
}
