//! How an operation lies in InP's log, and doing it again.

use index::Sorted;
use pm::{Flushed, Memory, fence_for};
use storage::{Catalog, ColumnType, TableLayout, Tables, Value};

use super::publish;
use crate::error::EngineError;

pub(super) const INSERT: u8 = 1;
pub(super) const UPDATE: u8 = 2;
pub(super) const DELETE: u8 = 3;

/// Numbers in eight bytes; text and bytes behind their length in four.
pub(super) fn encode(out: &mut Vec<u8>, value: &Value<'_>) {
    let bytes = match value {
        Value::U64(number) => return out.extend_from_slice(&number.to_le_bytes()),
        Value::I64(number) => return out.extend_from_slice(&number.to_le_bytes()),
        Value::F64(number) => return out.extend_from_slice(&number.to_le_bytes()),
        Value::Text(text) => text.as_bytes(),
        Value::Bytes(bytes) => bytes,
    };
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Reads what [`encode`] wrote.
pub(super) struct Decoder<'a>(pub(super) &'a [u8]);

impl<'a> Decoder<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], EngineError> {
        let (head, rest) = self.0.split_at_checked(bytes).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(head)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], EngineError> {
        self.take(N)?.try_into().map_err(|_| malformed())
    }

    pub(super) fn u16(&mut self) -> Result<u16, EngineError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn value(&mut self, kind: ColumnType) -> Result<Value<'a>, EngineError> {
        Ok(match kind {
            ColumnType::U64 => Value::U64(u64::from_le_bytes(self.array()?)),
            ColumnType::I64 => Value::I64(i64::from_le_bytes(self.array()?)),
            ColumnType::F64 => Value::F64(f64::from_le_bytes(self.array()?)),
            ColumnType::Text { .. } | ColumnType::Bytes { .. } => {
                let len = u32::from_le_bytes(self.array()?) as usize;
                let bytes = self.take(len)?;
                if matches!(kind, ColumnType::Bytes { .. }) {
                    Value::Bytes(bytes)
                } else {
                    Value::Text(std::str::from_utf8(bytes).map_err(|_| malformed())?)
                }
            }
        })
    }

    pub(super) fn values(
        &mut self,
        kinds: impl Iterator<Item = ColumnType>,
    ) -> Result<Vec<Value<'a>>, EngineError> {
        kinds.map(|kind| self.value(kind)).collect()
    }
}

pub(super) fn malformed() -> EngineError {
    pm::Bad::Damaged { what: "logged operation", at: 0 }.into()
}

pub(super) fn table_of(catalog: &Catalog, number: u16) -> Result<&TableLayout, EngineError> {
    Ok(catalog.tables.get(usize::from(number)).ok_or_else(malformed)?)
}

pub(super) fn kinds(table: &TableLayout) -> impl Iterator<Item = ColumnType> {
    table.schema.columns().iter().map(|column| column.kind)
}

pub(super) fn key_kinds(table: &TableLayout) -> impl Iterator<Item = ColumnType> {
    table.key_columns().map(|column| table.schema.columns()[column].kind)
}

/// Whether the checkpoint may hold a part of a transaction that is done again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Base {
    /// It holds nothing of it: an operation that fails is damage.
    Before,
    /// It was written while the transaction ran, or later ones. Each tuple in it is as new as the
    /// transaction's operations or newer; what the log goes on to say makes all of them agree.
    /// So an insert replaces, and an update or a delete of what is gone again does nothing.
    Among,
}

/// Does a logged transaction again.
pub(super) fn redo<M: Memory>(
    tables: &mut Tables<M, Sorted>,
    catalog: &Catalog,
    payload: &[u8],
    base: Base,
) -> Result<(), EngineError> {
    let found = |tables: &Tables<M, Sorted>, number, key: &[Value<'_>]| match base {
        Base::Before => tables.find_or_fail(number, key).map(Some),
        Base::Among => tables.find(number, key),
    };
    let mut decoder = Decoder(payload);
    while !decoder.0.is_empty() {
        let [kind] = decoder.array()?;
        let number = decoder.u16()?;
        let table = table_of(catalog, number)?;
        match kind {
            INSERT => {
                let values = decoder.values(kinds(table))?;
                if base == Base::Among {
                    let key: Vec<_> = table.key_columns().map(|at| values[at]).collect();
                    if let Some(newer) = tables.find(number, &key)? {
                        tables.unlink(number, newer)?;
                    }
                }
                let tuple = tables.write_tuple(number, &values)?;
                publish(tables, tuple)?;
            }
            UPDATE => {
                let key = decoder.values(key_kinds(table))?;
                let mut changes = Vec::new();
                for _ in 0..decoder.u16()? {
                    let column = decoder.u16()?;
                    let declared = table.schema.columns().get(usize::from(column));
                    let kind = declared.ok_or_else(malformed)?.kind;
                    decoder.value(kind)?;
                    changes.push((column, decoder.value(kind)?));
                }
                if let Some(tuple) = found(tables, number, &key)? {
                    let fields = tables.write_fields(number, tuple, &changes)?;
                    let fields = Flushed::lines(tables.lane.memory(), &mut tables.lines, fields);
                    tables.replace_fields(fence_for(tables.lane.memory(), fields))?;
                }
            }
            DELETE => {
                let key = decoder.values(key_kinds(table))?;
                decoder.values(kinds(table))?;
                if let Some(tuple) = found(tables, number, &key)? {
                    tables.unlink(number, tuple)?;
                }
            }
            _ => return Err(malformed()),
        }
        tables.lines.clear();
    }
    for slot in std::mem::take(&mut tables.superseded) {
        tables.lane.release(slot);
    }
    Ok(tables.tidy_indexes()?)
}
