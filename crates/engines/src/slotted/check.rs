//! The check of a partition's tables: every tuple, and its keys in every index.

use std::ops::{Bound, ControlFlow};

use pm::Environment;
use slotted::Direction;
use storage::{Row, StoredRow};

use super::{Slotted, SlottedScheme};
use crate::error::EngineError;
use crate::packed_tables::{key_of, secondary};
use crate::shadow::dangling;

impl<E: Environment, S: SlottedScheme<E>> Slotted<E, S> {
    /// Checks that every tuple of a table can be read and has its keys in every index, and that the
    /// indexes have no others. Returns the number of tuples.
    pub(super) fn check_table(&self, table: u16) -> Result<u64, EngineError> {
        let mut row = Row::new();
        let tuples = self.count(self.tables.tree(table, 0), |key, stored| {
            self.check_tuple(table, key, stored, &mut row)
        })?;
        for index in secondary(self.tables.layout(table)) {
            let keys = self.count(self.tables.tree(table, index), |_, value| {
                if value.is_empty() { Ok(()) } else { Err(dangling()) }
            })?;
            if keys != tuples {
                return Err(dangling());
            }
        }
        Ok(tuples)
    }

    fn check_tuple(
        &self,
        table: u16,
        key: &[u8],
        stored: &[u8],
        row: &mut Row,
    ) -> Result<(), EngineError> {
        let layout = self.tables.layout(table);
        self.tables.row(table, stored)?.read(None, row)?;
        layout.check_row(row, 0)?;
        let mut value = Vec::new();
        for index in 0..layout.index_count() {
            let own = key_of(&self.tables, table, stored, index)?;
            let mut narrow = [0; 8];
            let own = own.bytes(&mut narrow);
            let found = match index {
                0 => own == key,
                _ => self.store.get_into(self.tables.tree(table, index), own, &mut value)?,
            };
            if !found {
                return Err(dangling());
            }
        }
        Ok(())
    }

    /// Counts the records of a tree, and looks at each.
    fn count(
        &self,
        tree: u32,
        mut look: impl FnMut(&[u8], &[u8]) -> Result<(), EngineError>,
    ) -> Result<u64, EngineError> {
        let (mut count, mut looked) = (0, Ok(()));
        self.store.scan_from(tree, Bound::Unbounded, Direction::Forward, |key, value| {
            count += 1;
            looked = look(key, value);
            if looked.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        looked.map(|()| count)
    }
}
