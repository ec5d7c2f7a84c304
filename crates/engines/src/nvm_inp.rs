//! NVM-InP: NVM-aware in-place updates (P1 4.1).
//!
//! Tuples and fields lie in slots of the pool, indexes are non-volatile B+trees, and the log holds
//! only what is needed to undo: pointers, and before images of what fits a word. A transaction is
//! not redone: its changes are durable before it commits. The exception is a *statement*, a
//! transaction of one update of at most two columns, which P1 has not: its log entry is its commit,
//! and opening redoes at most the last two of them. Table 2, in our words:
//!
//! | operation | before the first fence | after it |
//! |---|---|---|
//! | INSERT | write tuple, log entry with its pointer, invisible index entries | mark persisted, make index entries count |
//! | UPDATE | write new fields, log entry with old and new | store into the tuple, mark persisted, mend indexes |
//! | DELETE | log entry with the tuple's pointer | remove index entries; the space is reclaimed after the end |
//! | UPDATE of an inlined column | copy what is there into an image, log entry with the image's pointer and checksum | overwrite the column |
//! | statement | write new fields, log entry with new words and a checksum of the new values | store into the tuple, mark persisted; flushed by the next operation |
//!
//! COMMIT has two fences around one store: fence (all changes are durable), store the log's state
//! word, flush, fence. A statement has no COMMIT.
//!
//! Invariants:
//! - What an operation changes in place is in a durable log entry before. What a statement changes
//!   in place becomes durable with the first fence of the next transaction.
//! - An image, of an inlined column, is never persisted: nothing is allocated before recovery has
//!   ended, and it is released when no recovery can ask for it.
//! - A slot is marked persisted only when a durable log entry, or the tuple that it belongs to,
//!   leads to it: a crash leaks nothing.
//! - The slots that transaction `t` supersedes are freed in two steps. The first operation after
//!   its commit clears their persisted bits. They are given out again when the transaction of that
//!   operation has ended and the log can no longer ask for their contents. If that transaction is a
//!   statement, which leaves the state word alone, they wait for the end of the next transaction,
//!   whose entry lies where the first of `t` was.
//!
//! An update of one field with its commit costs 3 fences and at most 8 flushed lines; as a
//! statement one fence and 7 lines, of an inlined column 8. Deviations from the paper:
//! `docs/paper/deviations.md`.

mod options;
mod stats;

use index::Append;
use pm::{Environment, Flushed, Memory, fence_for, observe};
use storage::{Catalog, Image, SlotLayout, Tables, UndoEntry, UndoLog, UndoWork, Value};

use crate::contract::RecoveryReport;
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::stats::EngineStats;
use crate::table2::{
    ADD_TO_INDEXES, DISCARD, MARK_PERSISTED, MODIFY, RECLAIM, RECORD, SYNC_CHANGES, SYNC_LOG_ENTRY,
    SYNC_TUPLE,
};
use crate::undo::{LogHead, TableParts, Undo, UndoEngine, UndoTables};

pub use options::NvmInpOptions;
pub use stats::NvmInpStats;

/// A partition of NVM-InP; see the module's comment.
pub type NvmInp<E> = UndoEngine<E, InPlace<E>>;

/// Tables that are changed in place.
#[derive(Debug)]
pub struct InPlace<E: Environment> {
    tables: Tables<E::Durable, Append>,
    /// The tuple that the last operation changed, until a fence has made that durable.
    unsettled: Option<u64>,
}

impl<E: Environment> InPlace<E> {
    /// Settles the previous operation before a log entry about `tuple` is written: what that
    /// operation did to the same tuple must not persist after the entry, since undoing it makes
    /// index keys of logged and of stored fields.
    #[inline]
    fn settle(&mut self, undo: &Undo<E::Durable>, tuple: u64) {
        if self.unsettled.replace(tuple) == Some(tuple) {
            undo.memory.fence();
        }
    }
}

impl<E: Environment> UndoTables<E> for InPlace<E> {
    const KIND: EngineKind = EngineKind::NvmInp;
    const ROOT: &'static str = "nvm-inp";
    const PUTS_OFF_WORK: bool = false;
    type Options = NvmInpOptions;
    type Rows = Tables<E::Durable, Append>;
    /// Slots superseded.
    type Mark = usize;

    fn root_bytes(catalog: &Catalog) -> u64 {
        Tables::<E::Durable, Append>::cell_bytes(catalog)
    }

    fn create(parts: TableParts<'_, E>, _: &NvmInpOptions) -> Result<Self, EngineError> {
        let TableParts { lane, catalog, setup, roots } = parts;
        let layouts = SlotLayout::all_inlined(catalog);
        let tables = Tables::create(lane, layouts, setup.node_bytes, roots)?;
        Ok(Self { tables, unsettled: None })
    }

    fn open(
        parts: TableParts<'_, E>,
        log: &LogHead<'_, E::Durable>,
        _: &NvmInpOptions,
    ) -> Result<(Self, UndoLog, UndoWork), EngineError> {
        let TableParts { lane, catalog, setup, roots } = parts;
        let layouts = SlotLayout::all_inlined(catalog);
        let tables = Tables::open(lane, layouts, setup.node_bytes, roots)?;
        let (log, work) = log.open(|statement| tables.is_complete(statement))?;
        Ok((Self { tables, unsettled: None }, log, work))
    }

    #[inline]
    fn common(&mut self) -> &mut Tables<E::Durable, Append> {
        &mut self.tables
    }

    #[inline]
    fn rows(&self) -> &Self::Rows {
        &self.tables
    }

    #[inline]
    fn insert(
        &mut self,
        undo: &mut Undo<E::Durable>,
        table: u16,
        values: &[Value<'_>],
    ) -> Result<(), EngineError> {
        undo.prepare(&mut self.tables.lane, 1)?;
        let tuple = self.tables.write_tuple(table, values)?;
        let memory = &undo.memory;
        let entry = UndoEntry::insert(table, tuple.offset, tuple.checksum);
        undo.log.append(memory, entry, &mut self.tables.lines);
        undo.superseded.lines.flush(memory);
        let tuple = Flushed::lines(memory, &mut self.tables.lines, tuple);
        let tuple = fence_for(memory, tuple);
        self.unsettled = None;
        observe!(E::Durable: memory.mark(SYNC_TUPLE));
        observe!(E::Durable: memory.mark(RECORD));
        observe!(E::Durable: memory.mark(SYNC_LOG_ENTRY));
        self.tables.mark_tuple(&tuple);
        observe!(E::Durable: memory.mark(MARK_PERSISTED));
        undo.in_place(self.tables.publish_tuple(tuple))?;
        observe!(E::Durable: undo.memory.mark(ADD_TO_INDEXES));
        self.tables.lines.flush(&undo.memory);
        Ok(())
    }

    #[inline]
    fn update(
        &mut self,
        undo: &mut Undo<E::Durable>,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        let tuple = self.tables.find_or_fail(table, key)?;
        undo.prepare_update(&mut self.tables.lane, changes)?;
        let fields = self.tables.write_fields(table, tuple, changes, Image::Before)?;
        self.settle(undo, tuple);
        undo.append_fields(table, tuple, &mut self.tables);
        let memory = &undo.memory;
        undo.superseded.lines.flush(memory);
        let fields = Flushed::lines(memory, &mut self.tables.lines, fields);
        let fields = fence_for(memory, fields);
        observe!(E::Durable: memory.mark(RECORD));
        observe!(E::Durable: memory.mark(SYNC_LOG_ENTRY));
        undo.in_place(self.tables.replace_fields(fields, changes))?;
        observe!(E::Durable: undo.memory.mark(MODIFY));
        self.tables.lines.flush(&undo.memory);
        observe!(E::Durable: undo.memory.mark(SYNC_CHANGES));
        Ok(())
    }

    fn delete(
        &mut self,
        undo: &mut Undo<E::Durable>,
        table: u16,
        key: &[Value<'_>],
    ) -> Result<(), EngineError> {
        let tuple = self.tables.find_or_fail(table, key)?;
        undo.prepare(&mut self.tables.lane, 1)?;
        self.settle(undo, tuple);
        let memory = &undo.memory;
        undo.log.append(memory, UndoEntry::delete(table, tuple), &mut self.tables.lines);
        undo.superseded.lines.flush(memory);
        self.tables.lines.flush(memory);
        memory.fence();
        observe!(E::Durable: memory.mark(RECORD));
        observe!(E::Durable: memory.mark(SYNC_LOG_ENTRY));
        undo.in_place(self.tables.unlink(table, tuple))?;
        observe!(E::Durable: undo.memory.mark(DISCARD));
        self.tables.lines.flush(&undo.memory);
        Ok(())
    }

    #[inline]
    fn can_be_statement(&self, table: u16, changes: &[(u16, Value<'_>)]) -> bool {
        self.tables.can_be_statement(table, changes)
    }

    #[inline]
    fn statement(
        &mut self,
        undo: &mut Undo<E::Durable>,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        let tuple = self.tables.find_or_fail(table, key)?;
        undo.prepare(&mut self.tables.lane, 1)?;
        let fields = self.tables.write_fields(table, tuple, changes, Image::After)?;
        let memory = &undo.memory;
        let checksum = self.tables.checksum_of_changes(table, changes);
        let entry = UndoEntry::statement(table, tuple, &self.tables.fields, checksum);
        undo.log.append_statement(memory, entry, &mut self.tables.lines);
        undo.superseded.lines.flush(memory);
        let fields = Flushed::lines(memory, &mut self.tables.lines, fields);
        let fields = fence_for(memory, fields);
        self.tables.lane.fenced();
        observe!(E::Durable: memory.mark(RECORD));
        observe!(E::Durable: memory.mark(SYNC_LOG_ENTRY));
        undo.in_place(undo.memory.healthy())?;
        undo.in_place(self.tables.replace_fields(fields, changes))?;
        undo.log.statement_committed();
        observe!(E::Durable: undo.memory.mark(MODIFY));
        // Flushed by the next operation, in whatever thread: a fence does not cover what another
        // thread has flushed.
        undo.superseded.lines.take(&mut self.tables.lines);
        self.unsettled = None;
        undo.superseded.pass(&mut self.tables.lane, &mut self.tables.images);
        undo.superseded.add(&mut self.tables.superseded);
        observe!(E::Durable: undo.memory.mark(RECLAIM));
        Ok(())
    }

    #[inline]
    fn ended(&mut self) {
        self.unsettled = None;
        self.tables.release_images();
    }

    #[inline]
    fn committed(&mut self, undo: &mut Undo<E::Durable>) -> Result<(), EngineError> {
        observe!(E::Durable: undo.memory.mark(RECLAIM));
        Ok(self.tables.tidy_indexes()?)
    }

    fn undo(
        &mut self,
        undo: &mut Undo<E::Durable>,
        entries: &[UndoEntry],
        kept: Option<usize>,
        freed: &mut Vec<u64>,
    ) -> Result<u64, EngineError> {
        let Undo { log, memory, .. } = undo;
        let mut end = entries.len();
        let part = &entries[kept.unwrap_or(0)..];
        Ok(self.tables.undo(part, freed, |first| match kept {
            None => log.retract(memory, first as u32),
            Some(kept) => {
                log.retract_each(memory, (kept + first) as u32, end as u32);
                end = kept + first;
            }
        })?)
    }

    fn forget(&mut self) {
        self.tables.forget();
    }

    fn aborted(&mut self) -> Result<(), EngineError> {
        Ok(self.tables.tidy_indexes()?)
    }

    fn mark(&self) -> usize {
        self.tables.superseded.len()
    }

    fn back_to(&mut self, superseded: usize) {
        self.unsettled = None;
        self.tables.forget_superseded(superseded);
    }

    #[inline]
    fn last(&self, log: &UndoLog) -> u64 {
        log.transaction() - 1
    }

    /// Records that no work is left: opening need not redo statements.
    fn close(&mut self, undo: &mut Undo<E::Durable>) -> Result<(), EngineError> {
        // A medium that failed may have lost stores before the last fence: then nothing is
        // recorded.
        undo.memory.healthy()?;
        undo.log.nothing_left(&undo.memory, &mut undo.superseded.lines);
        undo.superseded.lines.flush(&undo.memory);
        undo.memory.fence();
        Ok(())
    }

    fn recover(
        &mut self,
        undo: &mut Undo<E::Durable>,
        work: &UndoWork,
    ) -> Result<RecoveryReport, EngineError> {
        self.tables.redo_statements(&work.statements)?;
        self.tables.lines.flush(&undo.memory);
        let mut freed = self.tables.superseded_by(&work.committed)?;
        freed.append(&mut self.tables.superseded_by(&work.statements)?);
        undo.clear(&mut self.tables.lane, &freed)?;
        undo.memory.fence();
        let reclaimed = freed.len() as u64;
        let Undo { log, memory, .. } = undo;
        let undone = self.tables.undo(&work.open, &mut freed, |first| {
            log.retract(memory, first as u32);
        })?;
        undo.memory.healthy()?;
        undo.recovered(&mut self.tables.lane, freed);
        self.tables.forget();
        self.tables.lane.recovered();
        let redone = work.statements.len() as u64;
        Ok(RecoveryReport { undone, redone, reclaimed, ..RecoveryReport::default() })
    }

    #[cold]
    fn recover_what_can_be(&mut self, work: &UndoWork) -> u64 {
        for statement in &work.statements {
            let _ = self.tables.redo_statements(std::slice::from_ref(statement));
        }
        self.tables.undo_what_can_be(&work.open)
    }

    fn stats(&self) -> EngineStats {
        EngineKind::NvmInp.into()
    }

    fn check(&self, reachable: &mut dyn FnMut(u64)) -> Result<u64, EngineError> {
        Ok(self.tables.check(reachable)?)
    }
}
