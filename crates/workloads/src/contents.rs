//! The contents of a whole database as one number: two databases of the same schema, cut into the
//! same partitions, hold the same if and only if (but for a collision of hashes) their digests are
//! equal.
//!
//! Every column of every tuple goes in, partition by partition in the order of the primary key. How
//! an engine stores them does not.

use std::ops::ControlFlow;

use perdura::{Database, Environment, Error, Row, Scan, Value};

use crate::random::mix;

/// The contents of one table, in all partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableContents {
    /// The table.
    pub name: String,
    /// The number of tuples.
    pub tuples: u64,
    /// Bytes of their values: eight for a number, for a text or bytes their length.
    pub user_bytes: u64,
    /// Differs if any column of any tuple does, or their order.
    pub digest: u64,
}

/// The contents of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// Each table, in the order of the schema.
    pub tables: Vec<TableContents>,
}

impl Contents {
    /// Differs if any of the tables does.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.tables.iter().fold(0, |digest, table| add(digest, table.digest))
    }

    /// Tuples of all tables.
    #[must_use]
    pub fn tuples(&self) -> u64 {
        self.tables.iter().map(|table| table.tuples).sum()
    }

    /// Bytes of all values.
    #[must_use]
    pub fn user_bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.user_bytes).sum()
    }
}

/// Reads the whole database.
///
/// # Errors
/// The database's own.
pub fn contents<E: Environment>(database: &Database<E>) -> Result<Contents, Error> {
    let mut tables = Vec::new();
    for table in database.schema().tables() {
        let name = table.name();
        let mut contents = TableContents { name: name.into(), tuples: 0, user_bytes: 0, digest: 0 };
        each_tuple(database, name, |row| {
            contents.tuples += 1;
            contents.user_bytes += row.values().map(|value| user_bytes(&value)).sum::<u64>();
            contents.digest = add(contents.digest, tuple_digest(row));
        })?;
        tables.push(contents);
    }
    Ok(Contents { tables })
}

/// Visits all tuples of a table, partition by partition in the order of the primary key.
pub(crate) fn each_tuple<E: Environment>(
    database: &Database<E>,
    table: &str,
    mut visit: impl FnMut(&Row),
) -> Result<(), Error> {
    let table = database.table(table)?;
    for partition in 0..database.partition_count() {
        database.partition(partition).read(|tx| {
            tx.scan(&table, &Scan::all(), |row| {
                visit(row);
                ControlFlow::Continue(())
            })
        })?;
    }
    Ok(())
}

/// Differs if any column of a tuple does.
pub(crate) fn tuple_digest(row: &Row) -> u64 {
    row.values().fold(1, |digest, value| match value {
        Value::U64(number) => add(digest, number),
        Value::I64(number) => add(digest, number.cast_unsigned()),
        Value::F64(number) => add(digest, number.to_bits()),
        Value::Bool(truth) => add(digest, truth.into()),
        // Not what any number comes to.
        Value::Null => add(digest.wrapping_add(1), 0x4e55_4c4c),
        Value::Text(text) => add_bytes(digest, text.as_bytes()),
        Value::Bytes(bytes) => add_bytes(digest, bytes),
    })
}

fn user_bytes(value: &Value<'_>) -> u64 {
    match value {
        Value::Text(text) => text.len() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::Null => 0,
        _ => 8,
    }
}

fn add(digest: u64, word: u64) -> u64 {
    mix(digest.rotate_left(7) ^ word)
}

fn add_bytes(digest: u64, bytes: &[u8]) -> u64 {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut digest = add(digest, bytes.len() as u64);
    for word in words {
        digest = add(digest, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    if tail.is_empty() { digest } else { add(digest, u64::from_le_bytes(last)) }
}
