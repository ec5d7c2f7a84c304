//! Keys whose values own their bytes: their order, and their text.

use std::cmp::Ordering;

use engines::below::{OwnedValue, Value, compare_floats};

/// A value of a key or a tuple.
pub(crate) type Owned = OwnedValue<'static>;

/// The order of two values in keys.
fn compare_values(one: &Owned, two: &Owned) -> Ordering {
    match (one, two) {
        (Owned::U64(one), Owned::U64(two)) => one.cmp(two),
        (Owned::I64(one), Owned::I64(two)) => one.cmp(two),
        (Owned::F64(one), Owned::F64(two)) => compare_floats(*one, *two),
        (Owned::Text(one), Owned::Text(two)) => one.cmp(two),
        (Owned::Bytes(one), Owned::Bytes(two)) => one.cmp(two),
        (Owned::Bool(one), Owned::Bool(two)) => one.cmp(two),
        (Owned::Null, Owned::Null) => Ordering::Equal,
        (Owned::Null, _) => Ordering::Less,
        (_, Owned::Null) => Ordering::Greater,
        // Of one column: they have one type.
        _ => Ordering::Equal,
    }
}

/// The values of a key's columns.
pub(crate) type Key = Vec<Owned>;

/// Returns the values of a key without their bytes.
pub(crate) fn values(key: &[Owned]) -> Vec<Value<'_>> {
    key.iter().map(Owned::value).collect()
}

/// Returns the order of two keys; of a longer one the columns that both have count.
pub(crate) fn compare(one: &[Owned], two: &[Owned]) -> Ordering {
    let orders = one.iter().zip(two).map(|(one, two)| compare_values(one, two));
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Returns a key as text for people; long values in part.
pub(crate) fn key_text(key: &[Owned]) -> String {
    const LONGEST: usize = 40;
    let shown = key.iter().map(|value| match value {
        Owned::U64(number) => number.to_string(),
        Owned::I64(number) => number.to_string(),
        Owned::F64(number) => number.to_string(),
        Owned::Bool(truth) => truth.to_string(),
        Owned::Null => "NULL".into(),
        Owned::Text(text) => format!("{:?}", text.chars().take(LONGEST).collect::<String>()),
        Owned::Bytes(bytes) => {
            let hex = bytes.iter().take(LONGEST / 2).map(|byte| format!("{byte:02x}"));
            format!("0x{}", hex.collect::<String>())
        }
    });
    format!("({})", shown.collect::<Vec<_>>().join(", "))
}
