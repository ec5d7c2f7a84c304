//! Reading a row with checks: columns by number or name, values as the types of an application.

use pm::Escaped;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::rows::by_hand::did_you_mean;
use crate::rows::names::RowNames;
use crate::rows::row::Row;
use crate::rows::value::Value;

/// Names that an error shows.
const NAMES_SHOWN: usize = 16;

/// A column cannot be read as it was asked for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// The row has no such column.
    #[error("the row has no column {column}; it has {known}", column = Escaped(.column), known = Escaped(.known))]
    NoColumn {
        /// Its number or name.
        column: String,
        /// The columns that there are.
        known: String,
    },
    /// The row does not know the names of its columns: it was filled by `get_columns_into`.
    #[error(
        "this row does not know the names of its columns, so it has no `{column}`; ask by number, or read it with `get` or `get_columns`", column = Escaped(.column))]
    NoNames {
        /// The name.
        column: String,
    },
    /// The value is none of the type.
    #[error("column {column} is {found}, not {wanted}", column = Escaped(.column), found = Escaped(.found))]
    WrongType {
        /// Its number or name.
        column: String,
        /// The value's type, and the value if it is a number.
        found: String,
        /// The type.
        wanted: &'static str,
    },
}

/// A column of a [`Row`]: its place, counted from 0, or its name.
pub trait RowColumn: fmt::Display + Copy + sealed::Sealed {
    /// Its place.
    #[doc(hidden)]
    fn place(&self, row: &Row) -> Result<usize, RowError>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for usize {}
    impl Sealed for &str {}
}

impl RowColumn for usize {
    #[inline]
    fn place(&self, row: &Row) -> Result<usize, RowError> {
        if *self < row.len() {
            return Ok(*self);
        }
        let known = format!("{} columns, counted from 0", row.len());
        Err(RowError::NoColumn { column: self.to_string(), known })
    }
}

impl RowColumn for &str {
    fn place(&self, row: &Row) -> Result<usize, RowError> {
        let Some(names) = &row.names else {
            return Err(RowError::NoNames { column: (*self).into() });
        };
        let found = names.names().position(|name| name == *self);
        found.filter(|place| *place < row.len()).ok_or_else(|| {
            let mut shown: Vec<_> =
                names.names().take(NAMES_SHOWN).map(|name| format!("`{name}`")).collect();
            if let more @ 1.. = names.names().count().saturating_sub(NAMES_SHOWN) {
                shown.push(format!("and {more} more"));
            }
            let known = shown.join(", ") + &did_you_mean(self, names.names());
            RowError::NoColumn { column: format!("`{self}`"), known }
        })
    }
}

/// A type that the value of a column can be read as; see [`Row::try_get`].
pub trait FromValue<'r>: Sized {
    /// The type as errors name it.
    const NAME: &'static str;

    /// The value as this type, if it is one. An integer is one of each integer type that can hold
    /// it.
    fn from_value(value: Value<'r>) -> Option<Self>;
}

impl Row {
    /// Returns the value of a column, by its place or its name, as a type of the application: an
    /// integer, `f64`, `bool`, text, bytes, a UUID as `[u8; 16]`, a timestamp as
    /// [`SystemTime`], any [`Value`], or an `Option` of one of them, which is `None` for NULL.
    ///
    /// # Errors
    /// [`RowError`]: there is no such column, or its value is none of that type.
    #[inline]
    pub fn try_get<'r, T: FromValue<'r>>(&'r self, column: impl RowColumn) -> Result<T, RowError> {
        let value = self.get(column.place(self)?);
        T::from_value(value).ok_or_else(|| {
            let found = match value {
                Value::U64(number) => format!("{number}"),
                Value::I64(number) => format!("{number}"),
                other => other.type_name().into(),
            };
            RowError::WrongType { column: column.to_string(), found, wanted: T::NAME }
        })
    }

    /// The names of its columns, if it knows them.
    pub fn column_names(&self) -> Option<impl Iterator<Item = &str>> {
        self.names.as_ref().map(|names| names.names())
    }

    /// Gives it the names of its columns.
    #[inline]
    pub fn set_names(&mut self, names: &Arc<RowNames>) {
        if !self.names.as_ref().is_some_and(|known| Arc::ptr_eq(known, names)) {
            self.names = Some(names.clone());
        }
    }

    /// Gives it the names of another row's columns.
    pub fn set_names_of(&mut self, other: &Self) {
        self.names.clone_from(&other.names);
    }

    /// Takes the names of its columns, which are others now.
    #[inline]
    pub fn forget_names(&mut self) {
        if self.names.is_some() {
            self.names = None;
        }
    }

    /// Leaves only its first columns.
    pub fn truncate(&mut self, columns: usize) {
        self.fields.truncate(columns);
    }
}

macro_rules! integers {
    ($($integer:ident)*) => {$(
        impl FromValue<'_> for $integer {
            const NAME: &'static str = stringify!($integer);

            #[inline]
            fn from_value(value: Value<'_>) -> Option<Self> {
                match value {
                    Value::U64(number) => number.try_into().ok(),
                    Value::I64(number) => number.try_into().ok(),
                    _ => None,
                }
            }
        }
    )*};
}
integers! { u8 u16 u32 u64 usize i8 i16 i32 i64 isize }

macro_rules! others {
    ($($lifetime:lifetime $other:ty, $name:literal: $value:pat => $result:expr;)*) => {$(
        impl<$lifetime> FromValue<$lifetime> for $other {
            const NAME: &'static str = $name;

            #[inline]
            fn from_value(value: Value<$lifetime>) -> Option<Self> {
                match value {
                    $value => $result,
                    _ => None,
                }
            }
        }
    )*};
}
others! {
    'r f64, "f64": Value::F64(number) => Some(number);
    'r bool, "bool": Value::Bool(truth) => Some(truth);
    'r &'r str, "text": Value::Text(text) => Some(text);
    'r String, "text": Value::Text(text) => Some(text.into());
    'r &'r [u8], "bytes": Value::Bytes(bytes) => Some(bytes);
    'r Vec<u8>, "bytes": Value::Bytes(bytes) => Some(bytes.into());
    'r SystemTime, "timestamp": Value::I64(micros) => time_of(micros);
}

impl<const N: usize> FromValue<'_> for [u8; N] {
    const NAME: &'static str = "bytes of this number";

    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Bytes(bytes) => bytes.try_into().ok(),
            _ => None,
        }
    }
}

impl<'r> FromValue<'r> for Value<'r> {
    const NAME: &'static str = "any value";

    #[inline]
    fn from_value(value: Value<'r>) -> Option<Self> {
        Some(value)
    }
}

impl<'r, T: FromValue<'r>> FromValue<'r> for Option<T> {
    const NAME: &'static str = T::NAME;

    #[inline]
    fn from_value(value: Value<'r>) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

/// The moment that a timestamp is.
fn time_of(micros: i64) -> Option<SystemTime> {
    let distance = Duration::from_micros(micros.unsigned_abs());
    match micros {
        0.. => SystemTime::UNIX_EPOCH.checked_add(distance),
        _ => SystemTime::UNIX_EPOCH.checked_sub(distance),
    }
}

/// A value as people read it in a row.
struct Shown<'v>(Value<'v>);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::U64(number) => write!(f, "{number}"),
            Value::I64(number) => write!(f, "{number}"),
            Value::F64(number) => write!(f, "{number:?}"),
            Value::Bool(truth) => write!(f, "{truth}"),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Null => f.write_str("NULL"),
            Value::Bytes(bytes) => {
                f.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

/// The values in order: `Row [1, "Ada", 100]`.
impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Row ")?;
        f.debug_list().entries(self.values().map(Shown)).finish()
    }
}

/// Rows are equal if their values are, in order. As numbers go, NaN is equal to nothing.
impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.values().eq(other.values())
    }
}

/// Copies the values and names, not what the buffers have room for.
impl Clone for Row {
    fn clone(&self) -> Self {
        let (fields, bytes) = (self.fields.clone(), self.bytes.clone());
        Self { fields, bytes, names: self.names.clone(), ..Self::default() }
    }

    fn clone_from(&mut self, other: &Self) {
        self.copy_from(other);
        self.set_names_of(other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::row::RowField;
    use crate::rows::value::{ColumnType, micros_of};

    fn row() -> Row {
        let mut row = Row::new();
        row.bytes = b"Ada\x01\xff".to_vec();
        let field = |kind, word, len| RowField { kind, word, len };
        row.fields = vec![
            field(Some(ColumnType::U64), 300, 0),
            field(Some(ColumnType::Text { max: 9 }), 0, 3),
            field(Some(ColumnType::I64), (-1i64).cast_unsigned(), 0),
            field(None, 0, 0),
            field(Some(ColumnType::Bytes { max: 9 }), 3, 2),
            field(Some(ColumnType::F64), 2.0f64.to_bits(), 0),
        ];
        row
    }

    #[test]
    fn a_row_shows_its_values_in_order() {
        assert_eq!(format!("{:?}", row()), "Row [300, \"Ada\", -1, NULL, 0x01ff, 2.0]");
    }

    #[test]
    fn a_value_is_read_as_each_type_that_can_hold_it() {
        let row = row();
        assert_eq!(
            (row.try_get(0), row.try_get(0), row.try_get(0)),
            (Ok(300u64), Ok(300i16), Ok(Some(300usize)))
        );
        assert_eq!((row.try_get(1), row.try_get(1)), (Ok("Ada"), Ok(String::from("Ada"))));
        assert_eq!((row.try_get(2), row.try_get(3)), (Ok(-1i8), Ok(None::<bool>)));
        assert_eq!((row.try_get(4), row.try_get(4)), (Ok([1u8, 255]), Ok(&[1u8, 255][..])));
        assert_eq!(row.try_get(2), Ok(SystemTime::UNIX_EPOCH - Duration::from_micros(1)));
        let said = |error: RowError| error.to_string();
        assert_eq!(said(row.try_get::<u8>(0).unwrap_err()), "column 0 is 300, not u8");
        assert_eq!(said(row.try_get::<u64>(2).unwrap_err()), "column 2 is -1, not u64");
        assert_eq!(said(row.try_get::<&str>(3).unwrap_err()), "column 3 is NULL, not text");
        assert_eq!(said(row.try_get::<f64>(1).unwrap_err()), "column 1 is text, not f64");
        let long = said(row.try_get::<[u8; 3]>(4).unwrap_err());
        assert_eq!(long, "column 4 is bytes, not bytes of this number");
        let none = said(row.try_get::<bool>(6).unwrap_err());
        assert_eq!(none, "the row has no column 6; it has 6 columns, counted from 0");
        assert!(matches!(row.try_get::<bool>("x"), Err(RowError::NoNames { .. })));
    }

    #[test]
    fn rows_with_the_same_values_are_equal_and_a_copy_has_them() {
        let (one, mut two) = (row(), Row::new());
        assert_ne!(one, two);
        two.clone_from(&one);
        assert_eq!((&one, &one.clone()), (&two, &one));
        two.truncate(1);
        assert_ne!(one, two);
    }

    #[test]
    fn moments_become_microseconds_and_are_clamped() {
        let epoch = SystemTime::UNIX_EPOCH;
        assert_eq!(micros_of(epoch + Duration::from_nanos(1999)), 1);
        assert_eq!(micros_of(epoch - Duration::from_nanos(1)), -1);
        assert_eq!(micros_of(epoch + Duration::from_secs(1 << 62)), i64::MAX);
        assert_eq!(micros_of(epoch - Duration::from_secs(1 << 62)), i64::MIN);
        assert_eq!(time_of(-5), Some(epoch - Duration::from_micros(5)));
    }
}
