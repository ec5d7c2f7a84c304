//! SELECT of the engines that undo: the steps of P1's Table 2, of tables and of runs.

use std::fmt::Debug;
use std::ops::ControlFlow;

use index::Append;
use pm::{Memory, Step};
use storage::runs::{Found, Runs};
use storage::{Row, Tables, Value};

use crate::contract::Scan;
use crate::error::EngineError;
use crate::table2::{COALESCE, FIND, FIND_ENTRIES, RETRIEVE};

/// Tables that can be read.
pub trait Rows<M: Memory>: Debug + Send + Sync {
    /// The steps of SELECT: the tuple is found, and read.
    const SELECT: [Step; 2];
    /// The place of a tuple.
    type Found;

    /// Returns where the tuple with this key is.
    fn find(&self, table: u16, key: &[Value<'_>]) -> Result<Option<Self::Found>, EngineError>;

    /// Acts as [`Self::find`], but a missing tuple is an error.
    fn find_or_fail(&self, table: u16, key: &[Value<'_>]) -> Result<Self::Found, EngineError>;

    /// Copies columns of a tuple that was found into `row`.
    fn read(
        &self,
        table: u16,
        key: &[Value<'_>],
        found: Self::Found,
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<(), EngineError>;

    /// Copies columns of a tuple that was found into `out`; see [`crate::Read::get_bytes`].
    fn read_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        found: Self::Found,
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<usize, EngineError>;

    /// Calls `visit` with the tuples of a range; see [`crate::Read::scan`].
    fn scan(
        &self,
        table: u16,
        scan: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError>;
}

impl<M: Memory> Rows<M> for Tables<M, Append> {
    const SELECT: [Step; 2] = [FIND, RETRIEVE];
    type Found = u64;

    #[inline]
    fn find(&self, table: u16, key: &[Value<'_>]) -> Result<Option<u64>, EngineError> {
        Ok(self.find(table, key)?)
    }

    #[inline]
    fn find_or_fail(&self, table: u16, key: &[Value<'_>]) -> Result<u64, EngineError> {
        Ok(self.find_or_fail(table, key)?)
    }

    #[inline]
    fn read(
        &self,
        table: u16,
        _: &[Value<'_>],
        tuple: u64,
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<(), EngineError> {
        Ok(self.read(table, tuple, columns, row)?)
    }

    #[inline]
    fn read_bytes(
        &self,
        table: u16,
        _: &[Value<'_>],
        tuple: u64,
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<usize, EngineError> {
        Ok(self.read_bytes(table, tuple, columns, out)?)
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

impl<M: Memory> Rows<M> for Runs<M> {
    const SELECT: [Step; 2] = [FIND_ENTRIES, COALESCE];
    type Found = Found;

    #[inline]
    fn find(&self, table: u16, key: &[Value<'_>]) -> Result<Option<Found>, EngineError> {
        Ok(self.find(table, key)?)
    }

    fn find_or_fail(&self, table: u16, key: &[Value<'_>]) -> Result<Found, EngineError> {
        match self.find(table, key)? {
            Some(found) => Ok(found),
            None => Err(self.missing(table).into()),
        }
    }

    #[inline]
    fn read(
        &self,
        table: u16,
        key: &[Value<'_>],
        found: Found,
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<(), EngineError> {
        Ok(self.read(table, key, found, columns, row)?)
    }

    #[inline]
    fn read_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        found: Found,
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<usize, EngineError> {
        Ok(self.read_bytes(table, key, found, columns, out)?)
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
