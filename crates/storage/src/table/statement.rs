//! An update that is a transaction of its own: its log entry and its new values become durable
//! under one fence, and only a checksum shows that they have. The change in place comes after that;
//! opening repeats it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use index::LeafLayout;
use pm::{Bad, Memory, Off};

use super::Tables;
use crate::error::StorageError;
use crate::logs::undo_entry::{FIELDS_PER_ENTRY, UndoEntry, UndoKind};
use crate::rows::value::Value;
use crate::table::slots::SlotLayout;
use crate::table::words::FieldForm;
use crate::table::words::{field_at, owned_slot, slot_range};

impl<M: Memory, L: LeafLayout> Tables<M, L> {
    /// Returns whether such changes can be a statement: they fit one log entry, and no index
    /// follows them.
    #[inline]
    pub fn can_be_statement(&self, table: u16, changes: &[(u16, Value<'_>)]) -> bool {
        let indexed = &self.layout(table).indexed;
        let follows =
            |(column, _): &(u16, Value<'_>)| indexed.get(usize::from(*column)).is_none_or(|is| *is);
        changes.len() <= FIELDS_PER_ENTRY && !changes.iter().any(follows)
    }

    /// The checksum of what [`Self::write_fields`] has written for these changes outside their
    /// words.
    #[inline]
    pub fn checksum_of_changes(&self, table: u16, changes: &[(u16, Value<'_>)]) -> u32 {
        let forms = &self.layout(table).forms;
        let is_long = |column: u16| forms[usize::from(column)].is_long();
        let long = changes.iter().filter(|(column, _)| is_long(*column));
        long.fold(0, |checksum, (_, value)| {
            value.as_bytes().map_or(checksum, |bytes| crc32c::crc32c_append(checksum, bytes))
        })
    }

    /// Returns whether what the entry of a statement leads to has the checksum in it: then the
    /// statement is committed. It flushes what it reads, some of which a killed process may only
    /// have stored: it has to be durable before anything in place leads to it.
    ///
    /// # Errors
    /// Damage.
    pub fn is_complete(&self, entry: &UndoEntry) -> Result<bool, Bad> {
        let layout = self.layout_of_statement(entry)?;
        let mut checksum = 0;
        let mut bytes = Vec::new();
        for field in entry.fields() {
            if layout.forms[usize::from(field.column)].is_long() && field.new != 0 {
                let place = slot_range(field.new);
                bytes.resize(place.len as usize, 0);
                self.memory().read_into(Off::new(place.start), &mut bytes)?;
                self.memory().flush(place);
                checksum = crc32c::crc32c_append(checksum, &bytes);
            }
        }
        Ok(checksum == entry.statement_checksum())
    }

    /// Does again what committed statements, oldest first, have changed in place. Their lines are
    /// in [`Self::lines`]. For opening, before anything is allocated or freed.
    ///
    /// # Errors
    /// Damage.
    #[track_caller]
    pub fn redo_statements(&mut self, statements: &[UndoEntry]) -> Result<(), StorageError> {
        for entry in statements {
            let layout = self.layout_of_statement(entry)?.clone();
            if !self.is_complete(entry)? {
                return Err(Bad::Damaged { what: "statement", at: entry.tuple() }.into());
            }
            for field in entry.fields() {
                let form = layout.forms[usize::from(field.column)];
                if form == FieldForm::Inline {
                    let place = (entry.tuple(), field.column);
                    self.put_image(&layout, place, field.new)?;
                    continue;
                }
                if let Some(slot) = owned_slot(form, field.new) {
                    self.lane.restore(slot, &mut self.lines)?;
                }
                let at = field_at(entry.tuple(), field.column);
                // The place comes from the log.
                self.memory().load(at, Acquire)?;
                self.memory().store(at, field.new);
                self.lines.add(at.range());
            }
        }
        Ok(())
    }

    fn layout_of_statement(&self, entry: &UndoEntry) -> Result<&Arc<SlotLayout>, Bad> {
        let damaged = Bad::Damaged { what: "log entry", at: entry.tuple() };
        let table = self.tables.get(usize::from(entry.table())).ok_or(damaged)?;
        let columns = table.layout.forms.len();
        let ours = entry.kind() == Some(UndoKind::Update)
            && entry.fields().all(|field| usize::from(field.column) < columns);
        if ours { Ok(&table.layout) } else { Err(damaged) }
    }
}
