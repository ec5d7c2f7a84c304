//! The contents of a column: its type, and a value to write.

use std::fmt;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// Bytes of a [`ColumnType::Uuid`].
pub(crate) const UUID_BYTES: u32 = 16;

/// The type of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ColumnType {
    /// An unsigned 8-bit integer. Its values are [`Value::U64`], as those of all unsigned ones;
    /// the type says how large they get and how many bytes a key has for them.
    U8,
    /// An unsigned 16-bit integer.
    U16,
    /// An unsigned 32-bit integer.
    U32,
    /// An unsigned 64-bit integer.
    U64,
    /// A signed 8-bit integer. Its values are [`Value::I64`], as those of all signed ones.
    I8,
    /// A signed 16-bit integer.
    I16,
    /// A signed 32-bit integer.
    I32,
    /// A signed 64-bit integer.
    I64,
    /// A 64-bit floating-point number. In a key `-0.0` is `0.0`, and every NaN is the same one and
    /// comes after all other numbers; the stored value keeps its bits.
    F64,
    /// A truth value: [`Value::Bool`]. False comes before true.
    Bool,
    /// A moment: microseconds since 1970-01-01T00:00:00Z, without leap seconds. Its values are
    /// [`Value::I64`].
    Timestamp,
    /// A universally unique identifier: 16 bytes, ordered as bytes. Its values are
    /// [`Value::Bytes`].
    Uuid,
    /// UTF-8 text of at most `max` bytes.
    Text {
        /// The longest text in bytes.
        max: u32,
    },
    /// Any bytes, at most `max` of them.
    Bytes {
        /// The longest value in bytes.
        max: u32,
    },
}

impl ColumnType {
    /// The longest value in bytes, for types whose values are text or bytes.
    pub const fn max_bytes(self) -> Option<u32> {
        match self {
            Self::Text { max } | Self::Bytes { max } => Some(max),
            Self::Uuid => Some(UUID_BYTES),
            _ => None,
        }
    }

    /// Bytes of the type's numbers, unless it is text or bytes.
    pub const fn number_bytes(self) -> Option<u32> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 | Self::Timestamp => Some(8),
            Self::Text { .. } | Self::Bytes { .. } | Self::Uuid => None,
        }
    }

    /// The smallest and the largest number of an integer type.
    pub const fn integer_range(self) -> Option<(i64, u64)> {
        match self {
            Self::U8 => Some((0, u8::MAX as u64)),
            Self::U16 => Some((0, u16::MAX as u64)),
            Self::U32 => Some((0, u32::MAX as u64)),
            Self::U64 => Some((0, u64::MAX)),
            Self::I8 => Some((i8::MIN as i64, i8::MAX as u64)),
            Self::I16 => Some((i16::MIN as i64, i16::MAX as u64)),
            Self::I32 => Some((i32::MIN as i64, i32::MAX as u64)),
            Self::I64 | Self::Timestamp => Some((i64::MIN, i64::MAX as u64)),
            _ => None,
        }
    }

    /// The number that a field's word holds; `None` for text and bytes.
    #[inline]
    pub(crate) const fn number(self, word: u64) -> Option<Value<'static>> {
        match self {
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => Some(Value::U64(word)),
            Self::I8 | Self::I16 | Self::I32 | Self::I64 | Self::Timestamp => {
                Some(Value::I64(word.cast_signed()))
            }
            Self::F64 => Some(Value::F64(f64::from_bits(word))),
            Self::Bool => Some(Value::Bool(word != 0)),
            Self::Text { .. } | Self::Bytes { .. } | Self::Uuid => None,
        }
    }

    /// Returns the value with this word, as `Self::number`, if the type has one.
    pub const fn checked_number(self, word: u64) -> Option<Value<'static>> {
        match self {
            Self::Bool if word > 1 => None,
            _ => self.number(word),
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::U8 => f.write_str("u8"),
            Self::U16 => f.write_str("u16"),
            Self::U32 => f.write_str("u32"),
            Self::U64 => f.write_str("u64"),
            Self::I8 => f.write_str("i8"),
            Self::I16 => f.write_str("i16"),
            Self::I32 => f.write_str("i32"),
            Self::I64 => f.write_str("i64"),
            Self::F64 => f.write_str("f64"),
            Self::Bool => f.write_str("bool"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Uuid => f.write_str("uuid"),
            Self::Text { max } => write!(f, "text of at most {max} bytes"),
            Self::Bytes { max } => write!(f, "at most {max} bytes"),
        }
    }
}

/// A value for a column, borrowed. It comes `From` the types of an application: integers, `bool`,
/// floating-point numbers, text, bytes (a UUID is `&[u8; 16]`), [`SystemTime`], and options of
/// them.
///
/// An integer fits each column of integers whose type can hold it, whatever its own was; so
/// `Value::from(1)` does for all of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value<'a> {
    /// A value for a column of an unsigned integer type.
    U64(u64),
    /// A value for a column of a signed integer type or of type [`ColumnType::Timestamp`].
    I64(i64),
    /// A value for a column of type [`ColumnType::F64`].
    F64(f64),
    /// A value for a column of type [`ColumnType::Text`].
    Text(&'a str),
    /// A value for a column of type [`ColumnType::Bytes`] or [`ColumnType::Uuid`].
    Bytes(&'a [u8]),
    /// A value for a column of type [`ColumnType::Bool`].
    Bool(bool),
    /// No value, for a column that [is nullable](crate::TableSchema::nullable).
    Null,
}

/// Bytes of these values, which are to be stored, as the user hands them in: eight for a number.
#[inline]
pub fn user_bytes<'a>(values: impl Iterator<Item = &'a Value<'a>>) -> u64 {
    values.map(|value| value.as_bytes().map_or(8, |bytes| bytes.len() as u64)).sum()
}

impl<'a> Value<'a> {
    /// The name of the value's type.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::U64(_) => "u64",
            Self::I64(_) => "i64",
            Self::F64(_) => "f64",
            Self::Text(_) => "text",
            Self::Bytes(_) => "bytes",
            Self::Bool(_) => "bool",
            Self::Null => "NULL",
        }
    }

    /// Bytes that the user hands in: eight for a number, none for NULL.
    #[inline]
    pub const fn user_bytes(&self) -> u64 {
        match self {
            Self::Null => 0,
            Self::Text(text) => text.len() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            _ => 8,
        }
    }

    /// The bytes of a text or of bytes.
    pub(crate) fn as_bytes(&self) -> Option<&'a [u8]> {
        match self {
            Self::Text(text) => Some(text.as_bytes()),
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The eight bytes of a number, as a field keeps them.
    #[inline]
    pub(crate) fn as_word(&self) -> Option<u64> {
        match self {
            Self::U64(number) => Some(*number),
            Self::I64(number) => Some(number.cast_unsigned()),
            Self::F64(number) => Some(number.to_bits()),
            Self::Text(_) | Self::Bytes(_) => None,
            other => other.as_other_word(),
        }
    }

    /// Acts as [`Self::as_word`] on values that are not eight bytes long. A function of its own, so
    /// that one comparison separates numbers from the rest.
    #[cold]
    fn as_other_word(&self) -> Option<u64> {
        match self {
            Self::Bool(truth) => Some(u64::from(*truth)),
            _ => None,
        }
    }
}

macro_rules! from {
    ($($from:ty => $variant:ident($value:ident => $as:expr);)*) => {$(
        impl<'a> From<$from> for Value<'a> {
            #[inline]
            fn from($value: $from) -> Self {
                Self::$variant($as)
            }
        }
    )*};
}
from! {
    u8 => U64(number => number.into());
    u16 => U64(number => number.into());
    u32 => U64(number => number.into());
    u64 => U64(number => number);
    usize => U64(number => number as u64);
    i8 => I64(number => number.into());
    i16 => I64(number => number.into());
    i32 => I64(number => number.into());
    i64 => I64(number => number);
    isize => I64(number => number as i64);
    f32 => F64(number => number.into());
    f64 => F64(number => number);
    bool => Bool(truth => truth);
    &'a str => Text(text => text);
    &'a String => Text(text => text);
    &'a [u8] => Bytes(bytes => bytes);
    &'a Vec<u8> => Bytes(bytes => bytes);
}

impl<'a, const N: usize> From<&'a [u8; N]> for Value<'a> {
    #[inline]
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Bytes(bytes)
    }
}

/// A timestamp: whole microseconds, the earlier one if the moment lies between two; a moment that
/// no timestamp can be is the first or the last one.
impl From<SystemTime> for Value<'_> {
    fn from(time: SystemTime) -> Self {
        Self::I64(micros_of(time))
    }
}

/// A moment in microseconds, the earlier one if it lies between two; the first or the last one that
/// a timestamp can be, if it lies beyond.
pub(crate) fn micros_of(time: SystemTime) -> i64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_micros()).unwrap_or(i64::MAX),
        Err(before) => {
            let micros = before.duration().as_nanos().div_ceil(1000);
            i64::try_from(micros).map_or(i64::MIN, |micros| -micros)
        }
    }
}

/// `None` is NULL.
impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    #[inline]
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
