//! The places of tuples: in the leaves of primary trees, or in slots that those lead to.

use std::sync::Arc;

use pm::{Bytes, Memory};
use storage::{InlineRow, Row, SlotLayout, SlotTuple, StoredRow, TableKey, TableLayout};

use super::TupleForm;
use crate::error::EngineError;

/// Tuples that stand in the leaves. The pool holds only the description: asked whether it, and
/// with it this process, is still good.
#[derive(Clone, Debug)]
pub struct InLeaves<M> {
    pub(crate) pool: M,
}

impl<M: Memory> TupleForm for InLeaves<M> {
    type Memory = M;
    type Layout = Arc<TableLayout>;

    #[inline]
    fn memory(&self) -> &M {
        &self.pool
    }

    #[inline]
    fn read(
        &self,
        layout: &Arc<TableLayout>,
        stored: Bytes<'_>,
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<(), EngineError> {
        Ok(InlineRow::new(layout, stored)?.read(columns, row)?)
    }

    #[inline]
    fn read_bytes(
        &self,
        layout: &Arc<TableLayout>,
        stored: Bytes<'_>,
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<usize, EngineError> {
        Ok(InlineRow::new(layout, stored)?.read_bytes(columns, out)?)
    }

    fn key(
        &self,
        layout: &Arc<TableLayout>,
        stored: Bytes<'_>,
        index: usize,
    ) -> Result<TableKey, EngineError> {
        Ok(InlineRow::new(layout, stored)?.key(index)?)
    }
}

/// Tuples in slots of the pool, to which leaves lead.
#[derive(Clone, Debug)]
pub struct InSlots<M> {
    pub(crate) memory: M,
}

impl<M: Memory> InSlots<M> {
    /// The tuple to which a leaf leads.
    #[inline]
    pub(crate) fn tuple<'a>(
        &'a self,
        layout: &'a SlotLayout,
        stored: Bytes<'_>,
    ) -> SlotTuple<'a, M> {
        SlotTuple { memory: &self.memory, layout, offset: pointer(stored) }
    }
}

/// The tuple's place, as a leaf has it.
#[inline]
pub(crate) fn pointer(stored: Bytes<'_>) -> u64 {
    stored.whole().map_or(u64::MAX, u64::from_le_bytes)
}

impl<M: Memory> TupleForm for InSlots<M> {
    type Memory = M;
    type Layout = SlotLayout;

    #[inline]
    fn memory(&self) -> &M {
        &self.memory
    }

    #[inline]
    fn read(
        &self,
        layout: &SlotLayout,
        stored: Bytes<'_>,
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<(), EngineError> {
        Ok(self.tuple(layout, stored).read(columns, row)?)
    }

    #[inline]
    fn read_bytes(
        &self,
        layout: &SlotLayout,
        stored: Bytes<'_>,
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<usize, EngineError> {
        Ok(self.tuple(layout, stored).read_bytes(columns, out)?)
    }

    fn key(
        &self,
        layout: &SlotLayout,
        stored: Bytes<'_>,
        index: usize,
    ) -> Result<TableKey, EngineError> {
        Ok(self.tuple(layout, stored).key(index)?)
    }
}
