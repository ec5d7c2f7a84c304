//! The tables as a checkpoint holds them: in the order of their keys, so that saving can pause and
//! resume, with transactions in between.

use std::io::{Read, Write};
use std::ops::{Bound, ControlFlow};

use index::Sorted;
use pm::{Files, Memory};
use storage::checkpoint::{CheckpointError, CheckpointReader, CheckpointWriter};
use storage::operation::{Decoder, encode, key_kinds, kinds, table_of, value_bytes};
use storage::{Catalog, Row, Tables, Value};

use super::publish;
use crate::contract::Scan;
use crate::error::EngineError;

/// Bytes that a checkpoint has for a tuple before its values: its length, its table.
const TUPLE_HEAD_BYTES: u64 = 6;

/// Bytes of a tuple in a checkpoint.
pub(super) fn tuple_bytes<'v>(values: impl Iterator<Item = Value<'v>>) -> u64 {
    TUPLE_HEAD_BYTES + values.map(|value| value_bytes(&value)).sum::<u64>()
}

/// Ends the tuples of a checkpoint.
const END_OF_TUPLES: u16 = u16::MAX;

/// A checkpoint that is being written, and how far it is.
#[derive(Debug)]
pub(super) struct Saving<F: Files> {
    pub(super) writer: CheckpointWriter<F>,
    table: u16,
    /// The key of the last tuple of the table that was written, encoded; empty before the first.
    last: Vec<u8>,
    encoded: Vec<u8>,
}

impl<F: Files> Saving<F> {
    pub(super) fn new(writer: CheckpointWriter<F>) -> Self {
        Self { writer, table: 0, last: Vec::new(), encoded: Vec::new() }
    }

    /// Writes about `budget` bytes more, between transactions. Returns whether that was the end.
    pub(super) fn step<M: Memory>(
        &mut self,
        tables: &Tables<M, Sorted>,
        catalog: &Catalog,
        budget: u64,
    ) -> Result<bool, EngineError> {
        let enough = self.writer.plain_bytes().saturating_add(budget);
        while let Some(layout) = catalog.tables.get(usize::from(self.table)) {
            let last = std::mem::take(&mut self.last);
            let key = match last.is_empty() {
                true => Vec::new(),
                false => Decoder::new(&last).values(key_kinds(layout))?,
            };
            let low = if key.is_empty() { Bound::Unbounded } else { Bound::Excluded(&key[..]) };
            let (mut row, mut failed, mut paused) = (Row::new(), None, false);
            let Scan { index, high, direction, columns, .. } = Scan::ALL;
            let Self { writer, table, last: next, encoded, .. } = self;
            tables.scan(*table, index, low, high, direction, columns, &mut row, &mut |row| {
                encoded.clear();
                encoded.extend_from_slice(&[0; 4]);
                encoded.extend_from_slice(&table.to_le_bytes());
                row.values().for_each(|value| encode(encoded, &value));
                let bytes = encoded.len() as u32 - 4;
                encoded[..4].copy_from_slice(&bytes.to_le_bytes());
                if let Err(error) = writer.write_all(encoded) {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
                if writer.plain_bytes() < enough {
                    return ControlFlow::Continue(());
                }
                layout.key_columns().for_each(|column| encode(next, &row.get(column)));
                paused = true;
                ControlFlow::Break(())
            })?;
            if let Some(error) = failed {
                return Err(error.into());
            }
            if paused {
                return Ok(false);
            }
            self.table += 1;
        }
        self.writer.write_all(&2u32.to_le_bytes())?;
        self.writer.write_all(&END_OF_TUPLES.to_le_bytes())?;
        Ok(true)
    }
}

/// Fills empty tables with what a checkpoint holds.
pub(super) fn load<M: Memory, R: pm::File>(
    tables: &mut Tables<M, Sorted>,
    catalog: &Catalog,
    reader: &mut CheckpointReader<R>,
) -> Result<(), EngineError> {
    let mut encoded = Vec::new();
    loop {
        let mut length = [0u8; 4];
        fill(reader, &mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        // A tuple has at most 128 MiB.
        if !(2..=256 << 20).contains(&length) {
            return Err(pm::Bad::Damaged { what: "tuple of a checkpoint", at: 0 }.into());
        }
        encoded.resize(length, 0);
        fill(reader, &mut encoded)?;
        let mut decoder = Decoder::new(&encoded);
        let number = decoder.u16()?;
        if number == END_OF_TUPLES {
            return Ok(());
        }
        let values = decoder.values(kinds(table_of(catalog, number)?))?;
        let tuple = tables.write_tuple(number, &values)?;
        publish(tables, tuple)?;
    }
}

fn fill<R: pm::File>(
    reader: &mut CheckpointReader<R>,
    out: &mut [u8],
) -> Result<(), CheckpointError> {
    reader.read_exact(out).map_err(|error| reader.explain(error))
}
