//! A session whose conflict is sticky: from then on every call but the abort returns it again.
//!
//! So an engine that ends a transaction in a conflict need not keep count of that, and serial
//! engines, which have none, do not pay for it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU8, Ordering};

use engines::below::{Row, Value};
use engines::{
    Begin, ConflictReason, Engine, EngineError, EngineStats, Footprint, Read, Scan, StructureStats,
    TxId, Write,
};

type Result<T> = std::result::Result<T, EngineError>;

/// The reasons, at the places that [`StickyConflict::remembered`] counts from 1.
const REASONS: [ConflictReason; 4] = [
    ConflictReason::Deadlock,
    ConflictReason::WriteWrite,
    ConflictReason::Validation,
    ConflictReason::Timeout,
];

/// A session that remembers its conflict until the next transaction begins.
pub(crate) struct StickyConflict {
    engine: Box<dyn Engine>,
    /// 0, or a place in [`REASONS`] and 1. One thread has the session: an atomic only because
    /// reading takes it by shared reference.
    remembered: AtomicU8,
}

impl StickyConflict {
    pub(crate) fn new(engine: Box<dyn Engine>) -> Self {
        Self { engine, remembered: AtomicU8::new(0) }
    }

    /// Returns the error of the conflict that is remembered, if there is one.
    fn check_conflict(&self) -> Result<()> {
        match self.conflict() {
            None => Ok(()),
            Some(reason) => Err(EngineError::Conflict { reason }),
        }
    }

    /// Remembers the conflict if a call has failed with one.
    fn remember<T>(&self, done: Result<T>) -> Result<T> {
        if let Err(EngineError::Conflict { reason }) = &done {
            let place = REASONS.iter().position(|known| known == reason).expect("all are there");
            self.remembered.store(place as u8 + 1, Ordering::Relaxed);
        }
        done
    }

    fn change<T>(&mut self, change: impl FnOnce(&mut dyn Engine) -> Result<T>) -> Result<T> {
        self.check_conflict()?;
        let done = change(&mut *self.engine);
        self.remember(done)
    }

    fn read<T>(&self, read: impl FnOnce(&dyn Engine) -> Result<T>) -> Result<T> {
        self.check_conflict()?;
        self.remember(read(&*self.engine))
    }
}

impl Read for StickyConflict {
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool> {
        self.read(|engine| engine.get(table, key, columns, row))
    }

    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>> {
        self.read(|engine| engine.get_bytes(table, key, columns, out))
    }

    fn scan(
        &self,
        table: u16,
        scan: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        self.read(|engine| engine.scan(table, scan, row, visit))
    }
}

impl Write for StickyConflict {
    fn insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<()> {
        self.change(|engine| engine.insert(table, values))
    }

    fn update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<()> {
        self.change(|engine| engine.update(table, key, changes))
    }

    fn delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<()> {
        self.change(|engine| engine.delete(table, key))
    }

    fn get_for_update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool> {
        self.change(|engine| engine.get_for_update(table, key, columns, row))
    }
}

impl Engine for StickyConflict {
    fn begin(&mut self, how: &Begin) -> Result<()> {
        *self.remembered.get_mut() = 0;
        self.change(|engine| engine.begin(how))
    }

    fn begin_named(&mut self, how: &Begin, name: &[u8]) -> Result<()> {
        *self.remembered.get_mut() = 0;
        self.change(|engine| engine.begin_named(how, name))
    }

    fn detach(&mut self) -> Result<TxId> {
        self.change(|engine| engine.detach())
    }

    fn update_and_commit(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(u64, bool)> {
        self.change(|engine| engine.update_and_commit(table, key, changes))
    }

    fn commit(&mut self) -> Result<(u64, bool)> {
        self.change(|engine| engine.commit())
    }

    fn abort(&mut self) -> Result<()> {
        self.engine.abort()
    }

    fn savepoint(&mut self) -> Result<u64> {
        self.change(|engine| engine.savepoint())
    }

    fn rollback_to(&mut self, savepoint: u64) -> Result<()> {
        self.change(|engine| engine.rollback_to(savepoint))
    }

    fn conflict(&self) -> Option<ConflictReason> {
        let place = usize::from(self.remembered.load(Ordering::Relaxed));
        place.checked_sub(1).map(|place| REASONS[place])
    }

    fn transaction(&self) -> Option<(TxId, u64)> {
        self.engine.transaction()
    }

    fn sync(&mut self) -> Result<()> {
        self.engine.sync()
    }

    fn durable(&self) -> u64 {
        self.engine.durable()
    }

    fn is_durable(&self, number: u64) -> bool {
        self.engine.is_durable(number)
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.engine.checkpoint()
    }

    fn has_backlog(&self) -> bool {
        self.engine.has_backlog()
    }

    fn is_stopped(&self) -> bool {
        self.engine.is_stopped()
    }

    fn close(&mut self) -> Result<()> {
        self.engine.close()
    }

    fn footprint(&self) -> Result<Footprint> {
        self.engine.footprint()
    }

    fn stats(&self) -> EngineStats {
        self.engine.stats()
    }

    fn structures(&self) -> Vec<StructureStats> {
        self.engine.structures()
    }

    fn check(&self, reachable: &mut dyn FnMut(u64)) -> Result<u64> {
        self.engine.check(reachable)
    }
}
