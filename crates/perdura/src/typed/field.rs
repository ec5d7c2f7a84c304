//! The types of fields of typed rows.

use std::time::SystemTime;

use engines::below::{ColumnType, FromValue, Value};

/// A type that a field of a [typed row](crate::TableRow) has: `u8` to `u64`, `i8` to `i64`, `f64`,
/// `bool`, `String`, `Vec<u8>`, `[u8; 16]` for a UUID, [`SystemTime`] for a timestamp, or an
/// `Option` of one of them for a column that may be NULL.
///
/// A type of the application's own can be one, too:
///
/// ```
/// use perdura::{ColumnType, Field, FromValue, Value};
///
/// #[derive(Clone, Copy, PartialEq, Debug)]
/// enum State {
///     Waiting,
///     Running,
/// }
///
/// impl FromValue<'_> for State {
///     const NAME: &'static str = "the state of a job";
///     fn from_value(value: Value<'_>) -> Option<Self> {
///         match value {
///             Value::U64(0) => Some(Self::Waiting),
///             Value::U64(1) => Some(Self::Running),
///             _ => None,
///         }
///     }
/// }
///
/// impl Field for State {
///     const TYPE: ColumnType = ColumnType::U8;
///     type Given<'v> = u8;
///     fn value(&self) -> Value<'_> {
///         Value::from(*self as u8)
///     }
/// }
///
/// #[derive(perdura::Table)]
/// struct Job {
///     #[table(key)]
///     id: u64,
///     #[table(index = "by_state", default = State::Waiting as u8)]
///     state: State,
/// }
/// assert_eq!(State::from_value(State::Running.value()), Some(State::Running));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is the type of no column",
    label = "not the type of a column",
    note = "fields are `u8` to `u64`, `i8` to `i64`, `f64`, `bool`, `String`, `Vec<u8>`, `[u8; 16]`, `SystemTime`, or an `Option` of one of them",
    note = "a type of your own implements `perdura::Field`"
)]
pub trait Field: for<'r> FromValue<'r> {
    /// The type of the column. If it is text or bytes and `max` is 0 here, each row says with
    /// `#[table(max = ..)]` how many bytes its column holds.
    const TYPE: ColumnType;

    /// True if the column may be NULL.
    const NULLABLE: bool = false;

    /// A value as it is handed in, in a key or as a default: the type itself, or what borrows it.
    type Given<'v>: Into<Value<'v>>;

    /// The column's value.
    fn value(&self) -> Value<'_>;
}

macro_rules! fields {
    ($($field:ty => $kind:expr, $given:ty, $this:ident => $value:expr;)*) => {$(
        impl Field for $field {
            const TYPE: ColumnType = $kind;
            type Given<'v> = $given;

            #[inline]
            fn value(&self) -> Value<'_> {
                let $this = self;
                Value::from($value)
            }
        }
    )*};
}
fields! {
    u8 => ColumnType::U8, u8, this => *this;
    u16 => ColumnType::U16, u16, this => *this;
    u32 => ColumnType::U32, u32, this => *this;
    u64 => ColumnType::U64, u64, this => *this;
    i8 => ColumnType::I8, i8, this => *this;
    i16 => ColumnType::I16, i16, this => *this;
    i32 => ColumnType::I32, i32, this => *this;
    i64 => ColumnType::I64, i64, this => *this;
    f64 => ColumnType::F64, f64, this => *this;
    bool => ColumnType::Bool, bool, this => *this;
    SystemTime => ColumnType::Timestamp, SystemTime, this => *this;
    [u8; 16] => ColumnType::Uuid, &'v [u8; 16], this => this;
    String => ColumnType::Text { max: 0 }, &'v str, this => this;
    Vec<u8> => ColumnType::Bytes { max: 0 }, &'v [u8], this => this;
}

impl<F: Field> Field for Option<F> {
    const TYPE: ColumnType = F::TYPE;
    const NULLABLE: bool = true;
    type Given<'v> = Option<F::Given<'v>>;

    #[inline]
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, F::value)
    }
}

/// Functions that `#[derive(Table)]` calls.
#[doc(hidden)]
pub mod derived {
    use engines::below::{ColumnType, Row, RowError, TableSchema};

    use super::Field;

    /// The type of the column of a field that says `max`.
    #[track_caller]
    const fn column_type<F: Field>(max: Option<u32>) -> ColumnType {
        match (F::TYPE, max) {
            (ColumnType::Text { .. }, Some(max)) => ColumnType::Text { max },
            (ColumnType::Bytes { .. }, Some(max)) => ColumnType::Bytes { max },
            (ColumnType::Text { max: 0 } | ColumnType::Bytes { max: 0 }, None) => panic!(
                "a column of text or bytes says how many bytes it holds at most: `#[table(max = 80)]`"
            ),
            (_, Some(_)) => panic!("`max` is for columns of text or bytes"),
            (other, None) => other,
        }
    }

    /// Checks a column where its row is compiled.
    #[track_caller]
    pub const fn check<F: Field>(max: Option<u32>, in_key: bool) {
        let _ = column_type::<F>(max);
        assert!(
            !(in_key && F::NULLABLE),
            "a column of the primary key cannot be NULL, so its type is no `Option`"
        );
    }

    /// The table with one more column.
    #[must_use]
    pub fn column<F: Field>(
        table: TableSchema,
        name: &str,
        max: Option<u32>,
        default: Option<F::Given<'_>>,
    ) -> TableSchema {
        let table = table.column(name, column_type::<F>(max));
        let table = if F::NULLABLE { table.nullable() } else { table };
        match default {
            None => table,
            Some(value) => table.default(value.into()),
        }
    }

    /// The value of a column, by its place.
    ///
    /// # Errors
    /// The value is none that the field can have.
    #[inline]
    pub fn field<F: Field>(row: &Row, place: usize) -> Result<F, RowError> {
        row.try_get(place)
    }
}
