//! Checks values against the columns that are to hold them.

use crate::error::StorageError;
use crate::rows::schema::{Column, TableSchema};
use crate::rows::value::{ColumnType, UUID_BYTES, Value};

/// Checks a value against its column.
#[inline]
pub(crate) fn check_value(
    table: &TableSchema,
    column: u16,
    value: &Value<'_>,
) -> Result<(), StorageError> {
    let declared = &table.columns()[usize::from(column)];
    match (declared.kind, value) {
        (ColumnType::Text { max }, Value::Text(text)) => short_enough(declared, text.len(), max),
        (ColumnType::Bytes { max }, Value::Bytes(bytes)) => {
            short_enough(declared, bytes.len(), max)
        }
        (ColumnType::Uuid, Value::Bytes(bytes)) if bytes.len() == UUID_BYTES as usize => Ok(()),
        // The value that it holds while it is NULL.
        (ColumnType::Uuid, Value::Bytes([])) if declared.nullable => Ok(()),
        _ => check_number(table, column, value).map(|_| ()),
    }
}

/// Checks a value against its column, which is to be one of numbers, and returns its word.
#[inline]
pub(super) fn check_number(
    table: &TableSchema,
    column: u16,
    value: &Value<'_>,
) -> Result<u64, StorageError> {
    let declared = &table.columns()[usize::from(column)];
    match (declared.kind, value) {
        (ColumnType::U64, Value::U64(number)) => Ok(*number),
        (ColumnType::U8 | ColumnType::U16 | ColumnType::U32, Value::U64(number)) => {
            let free = 64 - 8 * number_bytes(declared.kind) as u32;
            if (number << free) >> free != *number {
                return Err(out_of_range(declared, number));
            }
            Ok(*number)
        }
        (ColumnType::I64 | ColumnType::Timestamp, Value::I64(number)) => Ok(number.cast_unsigned()),
        (ColumnType::I8 | ColumnType::I16 | ColumnType::I32, Value::I64(number)) => {
            let free = 64 - 8 * number_bytes(declared.kind) as u32;
            if (number << free) >> free != *number {
                return Err(out_of_range(declared, number));
            }
            Ok(number.cast_unsigned())
        }
        (ColumnType::F64, Value::F64(number)) => Ok(number.to_bits()),
        (ColumnType::Bool, Value::Bool(truth)) => Ok(u64::from(*truth)),
        _ => check_other(table, column, value),
    }
}

pub(super) fn number_bytes(kind: ColumnType) -> usize {
    kind.number_bytes().map_or(0, |bytes| bytes as usize)
}

/// Acts as [`check_number`], for an integer whose signedness is not that of its column. If the
/// column can hold it, its word is the same.
#[cold]
#[inline(never)]
fn check_other(table: &TableSchema, column: u16, value: &Value<'_>) -> Result<u64, StorageError> {
    let declared = &table.columns()[usize::from(column)];
    let number = match *value {
        Value::U64(number) => i128::from(number),
        Value::I64(number) => i128::from(number),
        _ => return Err(misfit(table, column, value)),
    };
    match (declared.kind.integer_range(), value.as_word()) {
        (Some((least, most)), Some(word)) => {
            if number < i128::from(least) || number > i128::from(most) {
                return Err(out_of_range(declared, &number));
            }
            Ok(word)
        }
        _ => Err(misfit(table, column, value)),
    }
}

/// The value is not of its column's type.
#[cold]
#[inline(never)]
fn misfit(table: &TableSchema, column: u16, value: &Value<'_>) -> StorageError {
    let declared = &table.columns()[usize::from(column)];
    match (declared.kind, value) {
        (ColumnType::Uuid, Value::Bytes(bytes)) => wrong_uuid(declared, bytes.len()),
        (_, Value::Null) => null_refused(table, column),
        (kind, _) => StorageError::WrongType {
            column: declared.name.clone(),
            wanted: kind.to_string(),
            found: value.type_name(),
        },
    }
}

/// A UUID has another number of bytes.
#[cold]
pub(crate) fn wrong_uuid(declared: &Column, bytes: usize) -> StorageError {
    StorageError::OutOfRange {
        column: declared.name.clone(),
        wanted: format!("a uuid of {UUID_BYTES} bytes"),
        found: bytes.to_string(),
    }
}

/// The column cannot be NULL.
#[cold]
pub(crate) fn null_refused(table: &TableSchema, column: u16) -> StorageError {
    let column = table.columns()[usize::from(column)].name.clone();
    StorageError::Null { table: table.name().into(), column }
}

#[inline]
fn short_enough(declared: &Column, bytes: usize, max: u32) -> Result<(), StorageError> {
    if bytes <= max as usize {
        return Ok(());
    }
    Err(StorageError::TooLarge { column: declared.name.clone(), bytes, max })
}

/// The number has more bits than its column's type.
#[cold]
#[inline(never)]
fn out_of_range(declared: &Column, number: &dyn std::fmt::Display) -> StorageError {
    let (least, most) = declared.kind.integer_range().unwrap_or((i64::MIN, u64::MAX));
    StorageError::OutOfRange {
        column: declared.name.clone(),
        wanted: format!("{} from {least} to {most}", declared.kind),
        found: number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_the_type_s_range_are_refused() {
        let table = TableSchema::new("t")
            .column("a", ColumnType::I16)
            .column("b", ColumnType::U8)
            .column("c", ColumnType::I32)
            .column("d", ColumnType::U32);
        let check = |column, value| check_value(&table, column, &value);
        for (column, least, most) in
            [(0, i64::from(i16::MIN), 32_767), (2, -(1 << 31), i64::from(i32::MAX))]
        {
            assert!(
                check(column, Value::I64(least)).is_ok() && check(column, Value::I64(most)).is_ok()
            );
            for outside in [least - 1, most + 1] {
                let error = check(column, Value::I64(outside)).unwrap_err().to_string();
                assert!(
                    error.contains(&format!("from {least} to {most}, not {outside}")),
                    "{error}"
                );
            }
        }
        assert!(check(1, Value::U64(255)).is_ok() && check(3, Value::U64(u32::MAX.into())).is_ok());
        let error = check(1, Value::U64(256)).unwrap_err().to_string();
        assert_eq!(error, "column `b` holds u8 from 0 to 255, not 256");
        assert!(check(3, Value::U64(1 << 32)).is_err());
        // A value of the other signedness, where it fits.
        assert!(check(1, Value::I64(1)).is_ok() && check(1, Value::I64(-1)).is_err());
        let error = check(1, Value::F64(1.0)).unwrap_err().to_string();
        assert!(error.contains("column `b` holds u8, not f64"), "{error}");
    }
}
