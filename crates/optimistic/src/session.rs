//! A session: one transaction at a time. The root of a partition is one, too.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engines::below::{Row, Value};
use engines::{
    Begin, Engine, EngineError, EngineStats, Footprint, Isolation, Read, Scan, ScanLocks, Sessions,
    Write,
};

use crate::core::{Core, Shared, is_about_a_key, is_about_an_index};
use crate::flaw::Flaw;
use crate::open::Open;
use crate::value::{Change, Name, Own, Scanned, name, name_of, own};

/// The rows of a scan, and the keys that it has seen with their versions.
type Found = (Vec<Row>, Vec<(Name, u64)>);

type Result<T> = std::result::Result<T, EngineError>;

impl Open {
    /// Notes a look at a key.
    fn look(&mut self, core: &Core, name: Name) {
        if self.is_alone {
            return;
        }
        self.first_look(core);
        let version = core.version(&name);
        self.reads.entry(name).or_insert(version);
    }

    fn first_look(&mut self, core: &Core) {
        if self.reads.is_empty() && self.scans.is_empty() && !self.saw_another {
            self.valid_at = core.time;
        }
    }
}

/// See the module's comment.
#[derive(Debug)]
pub(crate) struct Session {
    shared: Arc<Shared>,
    number: u64,
    is_root: bool,
    /// The open transaction. One thread has it at a time: it is a lock only because reads take the
    /// session by shared reference.
    open: Mutex<Open>,
}

impl Session {
    pub(crate) fn root(shared: Arc<Shared>) -> Self {
        Self::new(shared, true)
    }

    fn new(shared: Arc<Shared>, is_root: bool) -> Self {
        let open = Mutex::new(Open::new(shared.isolation, is_root));
        let number = shared.next_session();
        Self { shared, number, is_root, open }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `look` with an inner engine that holds what the transaction has to see.
    fn look<T>(&self, look: impl FnOnce(&mut Core, &mut Open) -> Result<T>) -> Result<T> {
        let (mut core, mut open) = (self.shared.lock()?, self.open());
        core.show(self.number, &mut open)?;
        look(&mut core, &mut open)
    }

    fn change(&self, name: impl FnOnce(&Core) -> Name, change: Change) -> Result<()> {
        self.look(|core, open| {
            // Whatever comes of it: an abort is never too much.
            core.has_done(self.number);
            let done = change.run(&mut *core.inner);
            if matches!(done, Err(EngineError::Stopped { .. } | EngineError::MustAbort)) {
                return done;
            }
            if !open.is_alone && done.as_ref().err().is_some_and(is_about_an_index) {
                open.first_look(core);
                open.saw_another = true;
            }
            // The outcome depends on the rows that are there.
            let found = done.as_ref().err().is_none_or(is_about_a_key);
            if found {
                let name = name(core);
                open.look(core, name.clone());
                if done.is_ok() {
                    open.names.push(name.clone());
                    open.written.insert(name);
                    open.writes.push(change);
                }
            }
            done
        })
    }

    /// The rows of a scan, which are those of `scan` in its columns, and their keys and versions.
    fn rows(core: &Core, table: u16, scan: &Scan<'_>) -> Result<Found> {
        let (mut rows, mut saw) = (Vec::new(), Vec::new());
        core.inner.scan(table, scan, &mut Row::new(), &mut |row| {
            rows.push(row.clone());
            ControlFlow::Continue(())
        })?;
        core.scan(table, scan, &mut |name, _| {
            let version = core.version(&name);
            saw.push((name, version));
            ControlFlow::Continue(())
        })?;
        Ok((rows, saw))
    }

    /// Ends the transaction.
    fn end(&self) {
        *self.open() = Open::new(self.shared.isolation, self.is_root);
    }

    /// Commits in two parts, and perhaps lets others in between.
    fn commit_in_parts<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        open: &mut Open,
    ) -> Result<(u64, bool)> {
        let writes = std::mem::take(&mut open.writes);
        let (first, second) = writes.split_at(writes.len() / 2);
        core.commit_part(first)?;
        if self.shared.flaw == Some(Flaw::DirtyWrite) {
            drop(core);
            self.shared.let_in();
            core = self.shared.lock()?;
        }
        let done = core.commit_part(second)?;
        core.committed(open);
        Ok(done)
    }
}

/// Gives sessions.
#[derive(Debug)]
struct Source(Arc<Shared>);

impl Sessions for Source {
    fn session(&self) -> Result<Box<dyn Engine>> {
        Ok(Box::new(Session::new(self.0.clone(), false)))
    }
}

impl Read for Session {
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool> {
        self.look(|core, open| {
            let found = core.inner.get(table, key, columns, row)?;
            open.look(core, name(table, key.iter().copied()));
            Ok(found)
        })
    }

    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>> {
        self.look(|core, open| {
            let found = core.inner.get_bytes(table, key, columns, out)?;
            open.look(core, name(table, key.iter().copied()));
            Ok(found)
        })
    }

    fn scan(
        &self,
        table: u16,
        scan: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        if scan.locks == ScanLocks::UpdateOrSkip {
            // The changes that other transactions will make are unknown.
            let what = "scans that pass over what others have locked";
            return Err(EngineError::Unsupported { what });
        }
        let (rows, mut saw, alone) = self.look(|core, open| {
            open.first_look(core);
            let (rows, saw) = Self::rows(core, table, scan)?;
            if open.writes.is_empty() || open.is_alone {
                return Ok((rows, saw, !open.is_alone));
            }
            // What others have committed is what is validated: all of it, since the place where the
            // visitor breaks off is one of a range that has own rows in it.
            core.forget(self.number)?;
            let (_, committed) = Self::rows(core, table, scan)?;
            open.scans.push(Scanned::new(table, scan, committed, true));
            core.show(self.number, open)?;
            Ok((rows, saw, false))
        })?;
        let (mut shown, mut broken) = (0, false);
        // Without the lock: the visitor may read other keys.
        for one in &rows {
            row.clone_from(one);
            shown += 1;
            if visit(row).is_break() {
                broken = true;
                break;
            }
        }
        if alone {
            saw.truncate(shown);
            self.open().scans.push(Scanned::new(table, scan, saw, !broken));
        }
        Ok(())
    }
}

impl Write for Session {
    fn insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<()> {
        let name = |core: &Core| {
            name_of(table, &core.catalog().tables[usize::from(table)], |column| values[column])
        };
        self.change(name, Change::Insert { table, values: own(values) })
    }

    fn update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<()> {
        let changes = changes.iter().map(|(column, value)| (*column, Own::of(value))).collect();
        let change = Change::Update { table, key: own(key), changes };
        self.change(|_| name(table, key.iter().copied()), change)
    }

    fn delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<()> {
        let change = Change::Delete { table, key: own(key) };
        self.change(|_| name(table, key.iter().copied()), change)
    }
}

impl Engine for Session {
    fn begin(&mut self, how: &Begin) -> Result<()> {
        if self.is_stopped() {
            return self.shared.lock()?.inner.sync();
        }
        let isolation = how.isolation.max(Isolation::Snapshot).min(self.shared.isolation);
        *self.open() = Open::new(isolation, self.is_root);
        Ok(())
    }

    fn commit(&mut self) -> Result<(u64, bool)> {
        let parts = matches!(self.shared.flaw, Some(Flaw::DirtyWrite | Flaw::TornCommit));
        let done = {
            let (mut core, mut open) = (self.shared.lock()?, self.open());
            core.validate(&mut open)?;
            if open.writes.is_empty() {
                core.forget(self.number)?;
                (core.inner.durable(), true)
            } else if parts && open.writes.len() > 1 {
                self.commit_in_parts(core, &mut open)?
            } else {
                core.commit(self.number, &mut open)?
            }
        };
        self.end();
        Ok(done)
    }

    fn abort(&mut self) -> Result<()> {
        let undone = self.shared.lock()?.forget(self.number);
        self.end();
        undone
    }

    fn savepoint(&mut self) -> Result<u64> {
        let mut open = self.open();
        let writes = open.writes.len();
        // Each transaction has a list of its own.
        Ok(open.savepoints.mark(0, writes))
    }

    fn rollback_to(&mut self, savepoint: u64) -> Result<()> {
        let (mut core, mut open) = (self.shared.lock()?, self.open());
        let writes = open.savepoints.back_to(0, savepoint)?;
        core.forget(self.number)?;
        open.writes.truncate(writes);
        open.names.truncate(writes);
        open.written = open.names.iter().cloned().collect();
        Ok(())
    }

    fn sessions(&self) -> Option<Arc<dyn Sessions>> {
        Some(Arc::new(Source(self.shared.clone())))
    }

    fn sync(&mut self) -> Result<()> {
        self.shared.lock()?.inner.sync()
    }

    fn durable(&self) -> u64 {
        self.shared.locked().inner.durable()
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.shared.lock()?.inner.checkpoint()
    }

    fn puts_off_work(&self) -> bool {
        false
    }

    fn is_stopped(&self) -> bool {
        self.shared.locked().inner.is_stopped()
    }

    fn close(&mut self) -> Result<()> {
        let mut core = self.shared.lock()?;
        core.undo()?;
        core.inner.close()
    }

    fn footprint(&self) -> Result<Footprint> {
        self.shared.locked().inner.footprint()
    }

    fn stats(&self) -> EngineStats {
        self.shared.locked().inner.stats()
    }

    fn check(&self, reachable: &mut dyn FnMut(u64)) -> Result<u64> {
        let mut core = self.shared.lock()?;
        core.undo()?;
        core.inner.check(reachable)
    }
}
