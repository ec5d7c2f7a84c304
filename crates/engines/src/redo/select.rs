//! SELECT of the engines that redo: in tables, and in MemTables and runs.

use std::cell::RefCell;
use std::ops::ControlFlow;

use index::Sorted;
use pm::{Files, Memory};
use storage::lsm::tree::LsmTree;
use storage::{Row, Tables, Value};

use crate::contract::{Read, Scan};
use crate::error::EngineError;

impl<M: Memory> Read for Tables<M, Sorted> {
    #[inline]
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        let Some(tuple) = self.find(table, key)? else { return Ok(false) };
        self.read(table, tuple, columns, row)?;
        Ok(true)
    }

    #[inline]
    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        let Some(tuple) = self.find(table, key)? else { return Ok(None) };
        Ok(Some(self.read_bytes(table, tuple, columns, out)?))
    }

    fn scan(
        &self,
        table: u16,
        scan: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        let Scan { index, low, high, direction, columns, .. } = *scan;
        Ok(self.scan(table, index, low, high, direction, columns, row, visit)?)
    }
}

thread_local! {
    /// The row in which `get_bytes` puts a tuple together.
    static TUPLE: RefCell<Row> = RefCell::new(Row::new());
}

impl<F: Files, M: Memory> Read for LsmTree<F, M> {
    #[inline]
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        let key = self.key(table, key)?;
        Ok(self.read(self.trees().tree(table, 0), &key, columns, row)?)
    }

    #[inline]
    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        TUPLE.with_borrow_mut(|row| {
            if !self.get(table, key, Some(columns), row)? {
                return Ok(None);
            }
            let bytes: u64 = row.values().map(|value| value.user_bytes()).sum();
            let bytes = bytes as usize;
            if bytes <= out.len() {
                row.copy_bytes(out);
            }
            Ok(Some(bytes))
        })
    }

    fn scan(
        &self,
        table: u16,
        scan: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        let Scan { index, low, high, direction, columns, .. } = *scan;
        Ok(self.scan(table, index, low, high, direction, columns, row, visit)?)
    }
}
