//! Values that own their bytes.

use std::borrow::Cow;

use crate::rows::value::Value;

/// A value that keeps its bytes itself. Text may be borrowed, where a long-lived buffer has it.
#[derive(Clone, Debug)]
pub enum OwnedValue<'a> {
    /// See [`Value::U64`].
    U64(u64),
    /// See [`Value::I64`].
    I64(i64),
    /// See [`Value::F64`].
    F64(f64),
    /// See [`Value::Text`].
    Text(Cow<'a, str>),
    /// See [`Value::Bytes`].
    Bytes(Vec<u8>),
    /// See [`Value::Bool`].
    Bool(bool),
    /// See [`Value::Null`].
    Null,
}

impl OwnedValue<'_> {
    /// Copies a value.
    pub fn of(value: &Value<'_>) -> Self {
        match *value {
            Value::U64(number) => Self::U64(number),
            Value::I64(number) => Self::I64(number),
            Value::F64(number) => Self::F64(number),
            Value::Text(text) => Self::Text(Cow::Owned(text.into())),
            Value::Bytes(bytes) => Self::Bytes(bytes.into()),
            Value::Bool(truth) => Self::Bool(truth),
            Value::Null => Self::Null,
        }
    }

    /// The value.
    pub fn value(&self) -> Value<'_> {
        match self {
            Self::U64(number) => Value::U64(*number),
            Self::I64(number) => Value::I64(*number),
            Self::F64(number) => Value::F64(*number),
            Self::Text(text) => Value::Text(text),
            Self::Bytes(bytes) => Value::Bytes(bytes),
            Self::Bool(truth) => Value::Bool(*truth),
            Self::Null => Value::Null,
        }
    }
}
