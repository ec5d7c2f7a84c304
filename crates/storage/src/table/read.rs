//! Scans, and the check of all tuples and indexes.

use std::ops::{Bound, ControlFlow};

use index::{Direction, LeafLayout, TreeUse};
use pm::{Bad, Memory};

use super::{TableIndex, Tables, long, narrow, wide};
use crate::error::StorageError;
use crate::rows::key::{TableKey, encode_range};
use crate::rows::row::Row;
use crate::rows::value::Value;
use crate::table::tuple::read_tuple;
use crate::table::words::{owned_slot, slot_range};

impl<M: Memory, L: LeafLayout> Tables<M, L> {
    /// Calls `visit` with the tuples of a range of an index (`None` is the primary one), in order,
    /// until it breaks. The bounds may give only the first columns of the key.
    ///
    /// # Errors
    /// Wrong values, or damage.
    #[expect(clippy::too_many_arguments, reason = "a scan is all of these")]
    pub fn scan(
        &self,
        table: u16,
        index: Option<usize>,
        low: Bound<&[Value<'_>]>,
        high: Bound<&[Value<'_>]>,
        direction: Direction,
        columns: Option<&[u16]>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), StorageError> {
        let table = &self.tables[usize::from(table)];
        let position = index.map_or(0, |index| index + 1);
        let layout = table.layout.key_layout(position);
        let (low, high) = encode_range(&table.layout.schema, layout, low, high)?;
        let memory = self.lane.memory();
        let mut show = |tuple| match read_tuple(memory, &table.layout, tuple, columns, row) {
            Err(bad) => ControlFlow::Break(Err(bad)),
            Ok(()) => match visit(row) {
                ControlFlow::Break(()) => ControlFlow::Break(Ok(())),
                ControlFlow::Continue(()) => ControlFlow::Continue(()),
            },
        };
        let end = match &table.indexes[position] {
            TableIndex::Narrow(tree) => {
                let range = (low.map(narrow), high.map(narrow));
                tree.scan(memory, range, direction, |_, tuple| show(tuple))?
            }
            TableIndex::Wide(tree) => {
                let range = (low.map(wide), high.map(wide));
                tree.scan(memory, range, direction, |_, tuple| show(tuple))?
            }
            TableIndex::Long(tree) => {
                let range = (low.map(long), high.map(long));
                tree.scan(memory, range, direction, |_, tuple| show(tuple))?
            }
        };
        match end {
            ControlFlow::Break(Err(bad)) => Err(bad.into()),
            _ => Ok(()),
        }
    }

    /// Checks all tables: every index is sound, every secondary entry belongs to a tuple of the
    /// primary index and the other way round. Calls `reachable` with the offset of every object
    /// that the tables lead to.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, mut reachable: impl FnMut(u64)) -> Result<u64, Bad> {
        let memory = self.lane.memory();
        let mut tuples = 0;
        for (number, table) in self.tables.iter().enumerate() {
            let mut in_primary = Vec::new();
            for position in 0..table.indexes.len() {
                let mut entries: Vec<(TableKey, u64)> = Vec::new();
                let found = check_index(&table.indexes[position], memory, &mut entries)?;
                found.nodes.into_iter().for_each(&mut reachable);
                for (key, tuple) in &entries {
                    if self.key_of_tuple(number as u16, position, *tuple)? != *key {
                        return Err(Bad::Damaged { what: "index entry", at: *tuple });
                    }
                }
                let mut offsets: Vec<u64> = entries.iter().map(|entry| entry.1).collect();
                offsets.sort_unstable();
                if position == 0 {
                    in_primary = offsets;
                } else if offsets != in_primary {
                    return Err(Bad::Damaged { what: "secondary index", at: 0 });
                }
            }
            let (mut slots, mut row) = (Vec::new(), Row::new());
            for tuple in &in_primary {
                read_tuple(memory, &table.layout, *tuple, None, &mut row)?;
                table.layout.check_row(&row, *tuple)?;
                self.check_inlined(number as u16, *tuple)?;
                for (column, form) in table.layout.forms.iter().enumerate() {
                    let word = self.field(*tuple, column as u16)?;
                    if owned_slot(*form, word).is_some() {
                        let value = slot_range(word);
                        self.lane.heap().has_room(value.start, value.len)?;
                    }
                }
                self.slots_of_tuple(number as u16, *tuple, &mut slots)?;
            }
            tuples += in_primary.len() as u64;
            slots.into_iter().for_each(&mut reachable);
        }
        Ok(tuples)
    }
}

fn check_index<M: Memory, L: LeafLayout>(
    index: &TableIndex<L>,
    memory: &M,
    entries: &mut Vec<(TableKey, u64)>,
) -> Result<TreeUse, Bad> {
    match index {
        TableIndex::Narrow(tree) => {
            tree.check(memory, |key, tuple| entries.push((TableKey::Narrow(*key), tuple)))
        }
        TableIndex::Wide(tree) => {
            tree.check(memory, |key, tuple| entries.push((TableKey::Wide(*key), tuple)))
        }
        TableIndex::Long(tree) => {
            tree.check(memory, |key, tuple| entries.push((TableKey::Long(key.clone()), tuple)))
        }
    }
}
