//! Values and operations that own their bytes, and names of keys.

use std::ops::Bound;

use engines::below::{Direction, OwnedValue, TableLayout, Value};
use engines::{Engine, EngineError, Scan};

/// A value that is kept.
pub(crate) type Own = OwnedValue<'static>;

pub(crate) fn own(values: &[Value<'_>]) -> Vec<Own> {
    values.iter().map(Own::of).collect()
}

pub(crate) fn values(all: &[Own]) -> Vec<Value<'_>> {
    all.iter().map(Own::value).collect()
}

/// A primary key of a table.
pub(crate) type Name = (u16, String);

/// The name of a key: two keys that are one to the engine have the same one.
pub(crate) fn name<'a>(table: u16, key: impl IntoIterator<Item = Value<'a>>) -> Name {
    let mut name = String::new();
    for value in key {
        // Both zeros are one, and what is no number has one name.
        let value = if let Value::F64(number) = value { Value::F64(number + 0.0) } else { value };
        name.push_str(&format!("{value:?},"));
    }
    (table, name)
}

/// The name of a tuple's key.
pub(crate) fn name_of<'a>(
    table: u16,
    layout: &TableLayout,
    column: impl Fn(usize) -> Value<'a>,
) -> Name {
    name(table, layout.key_columns().map(column))
}

/// An operation that a transaction has done.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Insert { table: u16, values: Vec<Own> },
    Update { table: u16, key: Vec<Own>, changes: Vec<(u16, Own)> },
    Delete { table: u16, key: Vec<Own> },
}

impl Change {
    pub(crate) fn run(&self, engine: &mut dyn Engine) -> Result<(), EngineError> {
        match self {
            Self::Insert { table, values: own } => engine.insert(*table, &values(own)),
            Self::Update { table, key, changes } => {
                let changes: Vec<_> =
                    changes.iter().map(|(column, own)| (*column, own.value())).collect();
                engine.update(*table, &values(key), &changes)
            }
            Self::Delete { table, key } => engine.delete(*table, &values(key)),
        }
    }
}

/// A range that was scanned, and what there was.
#[derive(Debug)]
pub(crate) struct Scanned {
    pub(crate) table: u16,
    index: Option<usize>,
    low: Bound<Vec<Own>>,
    high: Bound<Vec<Own>>,
    direction: Direction,
    /// The keys in order, with their versions.
    pub(crate) saw: Vec<(Name, u64)>,
    /// There was no more.
    pub(crate) to_the_end: bool,
}

impl Scanned {
    pub(crate) fn new(
        table: u16,
        scan: &Scan<'_>,
        saw: Vec<(Name, u64)>,
        to_the_end: bool,
    ) -> Self {
        let (low, high) = (scan.low.map(own), scan.high.map(own));
        let (index, direction) = (scan.index, scan.direction);
        Self { table, index, low, high, direction, saw, to_the_end }
    }

    /// Calls `look` with the scan, of all columns.
    pub(crate) fn again<R>(&self, look: impl FnOnce(&Scan<'_>) -> R) -> R {
        let (low, high) =
            (self.low.as_ref().map(|own| values(own)), self.high.as_ref().map(|own| values(own)));
        let low = low.as_ref().map(Vec::as_slice);
        let high = high.as_ref().map(Vec::as_slice);
        let (index, direction) = (self.index, self.direction);
        look(&Scan { index, low, high, direction, ..Scan::ALL })
    }
}
