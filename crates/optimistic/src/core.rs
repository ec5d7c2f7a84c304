//! The state that the sessions of a partition share.

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use engines::below::{Catalog, Row, StorageError};
use engines::{ConflictReason, Engine, EngineError, Isolation, Scan};

use crate::flaw::{At, Flaw, Hook};
use crate::open::Open;
use crate::value::{Change, Name, Scanned, name_of};

/// The lock, and what does not change.
pub(crate) struct Shared {
    core: Mutex<Core>,
    sessions: AtomicU64,
    pub(crate) isolation: Isolation,
    pub(crate) flaw: Option<Flaw>,
    hook: Option<Hook>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("flaw", &self.flaw).finish_non_exhaustive()
    }
}

/// The state that the lock guards.
pub(crate) struct Core {
    /// Holds the committed state; or, with an open transaction, that and what the session `done`
    /// has written.
    pub(crate) inner: Box<dyn Engine>,
    catalog: Arc<Catalog>,
    flaw: Option<Flaw>,
    done: Option<u64>,
    /// The number of transactions that have changed something.
    pub(crate) time: u64,
    /// The time at which each key was changed last; 0 if it was not since the partition was opened.
    versions: HashMap<Name, u64>,
    /// Acknowledged, and not done yet.
    late: Vec<Change>,
}

fn conflict<T>() -> Result<T, EngineError> {
    Err(EngineError::Conflict { reason: ConflictReason::Validation })
}

/// Returns true if a failure says that there is such a key, or is not.
pub(crate) fn is_about_a_key(error: &EngineError) -> bool {
    use StorageError::{DuplicateKey, MissingKey};
    matches!(error, EngineError::Storage(DuplicateKey { .. } | MissingKey { .. }))
}

/// Returns true if a failure says that another tuple has what is unique.
pub(crate) fn is_about_an_index(error: &EngineError) -> bool {
    matches!(error, EngineError::Storage(StorageError::NotUnique { .. }))
}

impl Shared {
    pub(crate) fn new(
        inner: Box<dyn Engine>,
        catalog: Arc<Catalog>,
        isolation: Isolation,
        flaw: Option<Flaw>,
        hook: Option<Hook>,
    ) -> Arc<Self> {
        let (versions, late) = (HashMap::new(), Vec::new());
        let core = Mutex::new(Core { inner, catalog, flaw, done: None, time: 0, versions, late });
        Arc::new(Self { core, sessions: AtomicU64::new(0), isolation, flaw, hook })
    }

    /// A number for a session.
    pub(crate) fn next_session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes the lock. What was acknowledged too early is done now.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, Core>, EngineError> {
        let mut core = self.locked();
        core.finish_late()?;
        Ok(core)
    }

    /// Others go on, as if one of them had the lock.
    pub(crate) fn let_in(&self) {
        if let Some(hook) = &self.hook {
            hook(At::Taken);
        }
    }

    /// A panic while it is taken comes from a crash test's medium, and leaves the inner engine as a
    /// crash does.
    pub(crate) fn locked(&self) -> MutexGuard<'_, Core> {
        let Some(hook) = &self.hook else {
            return self.core.lock().unwrap_or_else(PoisonError::into_inner);
        };
        hook(At::Before);
        loop {
            match self.core.try_lock() {
                Ok(core) => return core,
                Err(TryLockError::Poisoned(core)) => return core.into_inner(),
                Err(TryLockError::WouldBlock) => hook(At::Taken),
            }
        }
    }
}

impl Core {
    fn finish_late(&mut self) -> Result<(), EngineError> {
        if self.late.is_empty() {
            return Ok(());
        }
        let late = std::mem::take(&mut self.late);
        self.undo()?;
        late.iter().try_for_each(|change| change.run(&mut *self.inner))?;
        self.inner.commit().map(drop)
    }

    /// The inner engine holds the committed state again.
    pub(crate) fn undo(&mut self) -> Result<(), EngineError> {
        if self.done.take().is_some() { self.inner.abort() } else { Ok(()) }
    }

    /// Undoes what a session has written, if it stands in the inner engine.
    pub(crate) fn forget(&mut self, session: u64) -> Result<(), EngineError> {
        if self.done == Some(session) { self.undo() } else { Ok(()) }
    }

    /// The inner engine holds what a session has to see, which is still as it was.
    pub(crate) fn show(&mut self, session: u64, open: &mut Open) -> Result<(), EngineError> {
        if self.done == Some(session) {
            return Ok(());
        }
        if self.flaw == Some(Flaw::DirtyRead) && open.writes.is_empty() {
            return Ok(());
        }
        self.undo()?;
        self.validate_reads(open)?;
        if open.writes.is_empty() {
            return Ok(());
        }
        self.done = Some(session);
        self.run(&open.writes)
    }

    /// Does in the inner engine what was done there before.
    fn run(&mut self, writes: &[Change]) -> Result<(), EngineError> {
        for change in writes {
            if let Err(error) = change.run(&mut *self.inner) {
                self.undo()?;
                // Another one was in its way, which no look at the key has shown.
                let conflicts = is_about_a_key(&error) || is_about_an_index(&error);
                return if conflicts { conflict() } else { Err(error) };
            }
        }
        Ok(())
    }

    /// A write of a session has succeeded in the inner engine.
    pub(crate) fn has_done(&mut self, session: u64) {
        self.done = Some(session);
    }

    pub(crate) fn version(&self, name: &Name) -> u64 {
        self.versions.get(name).copied().unwrap_or(0)
    }

    /// All that was read is as it was.
    fn validate_reads(&mut self, open: &mut Open) -> Result<(), EngineError> {
        let never = matches!(self.flaw, Some(Flaw::NonRepeatableRead | Flaw::DirtyWrite));
        if open.valid_at == self.time || never {
            return Ok(());
        }
        if open.saw_another || open.reads.iter().any(|one| self.version(one.0) != *one.1) {
            return conflict();
        }
        if self.flaw != Some(Flaw::Phantom) {
            for scanned in &open.scans {
                self.validate_scan(scanned)?;
            }
        }
        open.valid_at = self.time;
        Ok(())
    }

    fn validate_scan(&self, scanned: &Scanned) -> Result<(), EngineError> {
        let Scanned { table, saw, to_the_end, .. } = scanned;
        let (mut wanted, mut same) = (saw.iter(), true);
        scanned.again(|scan| {
            self.scan(*table, scan, &mut |name, _| {
                match wanted.next() {
                    Some((key, version)) => same = *key == name && *version == self.version(&name),
                    None => {
                        same &= !to_the_end;
                        return ControlFlow::Break(());
                    }
                }
                if same { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
        })?;
        if same && wanted.next().is_none() { Ok(()) } else { conflict() }
    }

    /// Scans all columns in the inner engine; `visit` gets the name of each key, too.
    pub(crate) fn scan(
        &self,
        table: u16,
        scan: &Scan<'_>,
        visit: &mut dyn FnMut(Name, &Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        let layout = &self.catalog.tables[usize::from(table)];
        let scan = Scan { columns: None, ..*scan };
        self.inner.scan(table, &scan, &mut Row::new(), &mut |row| {
            visit(name_of(table, layout, |column| row.get(column)), row)
        })
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Validates a transaction that ends.
    pub(crate) fn validate(&mut self, open: &mut Open) -> Result<(), EngineError> {
        let validated = match self.flaw {
            Some(Flaw::LostUpdate | Flaw::DirtyWrite | Flaw::NonRepeatableRead) => return Ok(()),
            _ => open.isolation == Isolation::Serializable,
        };
        if validated {
            // Scans are to see the committed state.
            if open.valid_at != self.time {
                self.undo()?;
            }
            return self.validate_reads(open);
        }
        let lost = |name: &&Name| open.reads.get(*name) != Some(&self.version(name));
        if open.written.iter().any(|name| lost(&name)) {
            return Err(EngineError::Conflict { reason: ConflictReason::WriteWrite });
        }
        Ok(())
    }

    /// Commits what a session has written, which was validated.
    pub(crate) fn commit(
        &mut self,
        session: u64,
        open: &mut Open,
    ) -> Result<(u64, bool), EngineError> {
        if self.flaw == Some(Flaw::EarlyAcknowledgement) {
            self.undo()?;
            self.late.append(&mut open.writes);
            self.committed(open);
            return Ok((self.inner.durable() + 1, true));
        }
        if self.done != Some(session) {
            self.undo()?;
            self.done = Some(session);
            self.run(&open.writes)?;
        }
        let done = self.inner.commit()?;
        self.done = None;
        self.committed(open);
        Ok(done)
    }

    /// Commits a part of it.
    pub(crate) fn commit_part(&mut self, writes: &[Change]) -> Result<(u64, bool), EngineError> {
        self.undo()?;
        // So that a failure undoes it.
        self.done = Some(u64::MAX);
        self.run(writes)?;
        self.done = None;
        self.inner.commit()
    }

    /// Its keys have a new version.
    pub(crate) fn committed(&mut self, open: &Open) {
        self.time += 1;
        for name in &open.written {
            self.versions.insert(name.clone(), self.time);
        }
    }
}
