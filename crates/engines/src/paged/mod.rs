//! A partition of the paged engines (P2): tables as trees of pages in a buffer pool, row locks and
//! ARIES. An engine chooses the log.
//!
//! | operation | steps (P2 2.1) |
//! |---|---|
//! | INSERT | lock the key; log the row and put it into its leaf, under the latch of the page; the same in each secondary index |
//! | UPDATE | lock the key; log what differs and change the row in its page; in each index that has a changed column, delete the old key and insert the new one |
//! | DELETE | lock the key; log the row and make it a ghost, which goes when its lock is free and unwanted; the same in each secondary index |
//! | COMMIT | log it; locks go; wait until the log is durable so far, in a group with others |
//! | ABORT | undo, from the newest record to the oldest, each with a compensation record |
//!
//! Recovery: analysis, redo, undo ([`paged::recovery`]).
//!
//! A table's primary tree has its rows, packed, by their keys. A secondary tree has keys that end
//! with the primary one, and nothing else.
//!
//! Invariants: those of [`paged::store`].

mod archive;
mod check;
mod errors;
mod inspect;
mod method;
mod open;
mod rest;
mod scan;
mod tables;
mod unlocked;

use std::fmt::{self, Debug};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use paged::PagedError;
use paged::ids::TreeNo;
use paged::store::{Purpose, RowRange, Session, Store};
use pm::{Environment, File, Files, Memory};
use storage::{Row, StoredRow, Value, pack_row, user_bytes};

use crate::base::{BasePart, VisitPage};
use crate::contract::{Engine, Footprint, Read, Resources, Scan, Sessions, VersionSource, Write};
use crate::error::EngineError;
use crate::options::Setup;
use crate::packed_tables::{key_of, secondary};
use crate::stats::EngineStats;
use crate::transaction::{Begin, TxId};

pub use archive::find_until;
pub(crate) use inspect::root_name;
pub use inspect::{LogFigures, PagedFigures, inspect_paged};
pub use method::{PagedCounts, PagedLog};
pub(crate) use method::{base_options, prefix};

use check::check_table;
use open::Open;
use scan::bound;
use tables::PagedTables;
use unlocked::{Unlocked, with_memory};

/// The trees of all tables are numbered from here: the catalog has those before.
const FIRST_TREE: TreeNo = TreeNo(16);

/// The state that the sessions of a partition share.
#[derive(Debug)]
struct Shared<E: Environment, L> {
    store: Arc<Store<E::Files>>,
    tables: PagedTables,
    /// Asked whether it, and with it this process, is still good.
    pool: E::Durable,
    files: E::Files,
    prefix: String,
    /// Commits that become durable together; 1 waits for each.
    group: u64,
    /// Commits since the last group was full, which are not yet made durable.
    in_group: AtomicU64,
    next_session: AtomicU64,
    ages: AtomicU64,
    user_bytes: AtomicU64,
    committed: AtomicU64,
    log: L,
    archives: bool,
    before: PagedCounts,
    stopped: OnceLock<String>,
}

impl<E: Environment, L> Shared<E, L> {
    fn usable(&self) -> Result<(), EngineError> {
        match self.stopped.get() {
            Some(why) => Err(EngineError::Stopped { why: why.clone() }),
            None => {
                self.store.check_running()?;
                Ok(self.pool.healthy()?)
            }
        }
    }

    /// Stops the partition after an error that leaves unknown what is durable, or undone.
    fn stop(&self, error: impl Into<EngineError>) -> EngineError {
        let error = error.into();
        let _ = self.stopped.set(error.to_string());
        error
    }
}

/// A session of a partition, or its root, which is one, too; see the module's comment. `L` is the
/// log.
#[derive(Debug)]
pub struct Paged<E: Environment, L> {
    shared: Arc<Shared<E, L>>,
    /// One thread has it at a time: a lock only because reads take the session by shared reference.
    open: Mutex<Open<E::Files>>,
    number: u64,
    /// All leaves that can be read are known.
    knows_rest: bool,
}

impl<E: Environment, L> Paged<E, L> {
    fn root(
        resources: &Resources<E>,
        setup: &Setup,
        tables: PagedTables,
        (files, prefix): (E::Files, String),
        store: Arc<Store<E::Files>>,
        log: L,
    ) -> Self {
        let (committed, before) = (store.log().durable().0, PagedCounts::of(&*store));
        let shared = Shared {
            store,
            tables,
            pool: resources.durable.memory().clone(),
            files,
            prefix,
            group: u64::from(setup.group.max(1)),
            in_group: AtomicU64::new(0),
            next_session: AtomicU64::new(1),
            ages: AtomicU64::new(1),
            user_bytes: AtomicU64::new(0),
            committed: AtomicU64::new(committed),
            log,
            archives: setup.archive.is_some(),
            before,
            stopped: OnceLock::new(),
        };
        Self::over(Arc::new(shared))
    }

    fn over(shared: Arc<Shared<E, L>>) -> Self {
        let session = shared.store.session();
        let open = Open::new(session);
        let number = shared.next_session.fetch_add(1, Ordering::Relaxed);
        Self { shared, open: Mutex::new(open), number, knows_rest: false }
    }

    fn open_mut(&mut self) -> &mut Open<E::Files> {
        self.open.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shared state, and this session with an open transaction: the root begins one with its
    /// first statement.
    fn opened(&mut self) -> (&Shared<E, L>, &mut Open<E::Files>) {
        let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !open.session.is_open() {
            open.begin(self.shared.ages.fetch_add(1, Ordering::Relaxed), None);
        }
        (&self.shared, open)
    }

    /// Reads in the open transaction. Without one the root reads in one of its own.
    fn read<R>(
        &self,
        act: impl FnOnce(&mut Session<E::Files>) -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        self.shared.usable()?;
        self.read_locked(&mut self.lock(), act)
    }

    fn read_locked<R>(
        &self,
        open: &mut Open<E::Files>,
        act: impl FnOnce(&mut Session<E::Files>) -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        let alone = !open.session.is_open();
        if alone {
            open.begin(self.shared.ages.fetch_add(1, Ordering::Relaxed), None);
        }
        let read = act(&mut open.session);
        if alone {
            match &read {
                Ok(_) => self.shared.store.wait(open.session.commit()?)?,
                Err(_) => open.session.abort()?,
            }
        }
        read.map_err(|error| self.shared.named(error))
    }

    /// Copies the row of a key into `row`, in the open transaction; returns whether there is one.
    /// The root reads without locks where it has no transaction.
    fn read_row(&self, tree: TreeNo, key: &[u8], row: &mut Vec<u8>) -> Result<bool, EngineError> {
        let Shared { store, .. } = &*self.shared;
        self.shared.usable()?;
        let mut open = self.lock();
        if !open.session.is_open() {
            match store.read_below(store.horizon(), tree, key, row) {
                Err(PagedError::TooOld) => {}
                read => return read.map_err(|error| self.shared.named(error.into())),
            }
        }
        self.read_locked(&mut open, |session| {
            session.begin_operation();
            Ok(session.read(tree, key, Purpose::Read, row)?)
        })
    }

    fn lock(&self) -> MutexGuard<'_, Open<E::Files>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a change. If it fails, nothing of it is left.
    fn change<R>(
        &mut self,
        act: impl FnOnce(&PagedTables, &mut Open<E::Files>) -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        self.shared.usable()?;
        let (shared, open) = self.opened();
        open.session.begin_operation();
        let before = open.session.savepoint();
        let done = act(&shared.tables, open);
        open.statements += u64::from(done.is_ok());
        let failed = match &done {
            Ok(_) | Err(EngineError::Conflict { .. } | EngineError::Stopped { .. }) => None,
            Err(_) => open.session.rollback_to(before).err(),
        };
        match failed {
            Some(error) => Err(shared.stop(error)),
            None => done.map_err(|error| shared.named(error)),
        }
    }
}

impl<E: Environment, L> Read for Paged<E, L> {
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        let tables = &self.shared.tables;
        let key = tables.layout(table).primary_key(key)?;
        let (tree, stored) = (tables.tree(table, 0), row.stored_mut());
        let found = self.read_row(tree, key.bytes(&mut [0; 8]), stored)?;
        if found {
            tables.show(table, columns, row)?;
        }
        Ok(found)
    }

    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        let tables = &self.shared.tables;
        let key = tables.layout(table).primary_key(key)?;
        with_memory(|row| {
            if !self.read_row(tables.tree(table, 0), key.bytes(&mut [0; 8]), row)? {
                return Ok(None);
            }
            Ok(Some(tables.row(table, row)?.read_bytes(columns, out)?))
        })
    }

    fn scan(
        &self,
        table: u16,
        scan: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        let tables = &self.shared.tables;
        let index = scan.index.map_or(0, |index| index + 1);
        let (low, high) = tables.layout(table).key_range(index, scan.low, scan.high)?;
        let (mut low_bytes, mut high_bytes) = ([0; 8], [0; 8]);
        let all =
            RowRange { low: bound(&low, &mut low_bytes), high: bound(&high, &mut high_bytes) };
        let mut copies = self.table_scan((table, index), &all, scan.direction, scan.locks);
        let mut left = scan.limit;
        self.lock().session.begin_operation();
        while let Some(copied) = self.read(|session| self.copy(session, &mut copies, left))? {
            left = left.map(|left| left.saturating_sub(copied.len()));
            // Without the lock: the visitor may read other rows.
            for stored in &copied {
                row.stored_mut().extend_from_slice(stored);
                tables.show(table, scan.columns, row)?;
                if visit(row).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl<E: Environment, L> Write for Paged<E, L> {
    fn insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<(), EngineError> {
        self.change(|tables, Open { session, new, .. }| {
            let (layout, packed) = tables.table(table);
            pack_row(layout, packed, values, new)?;
            let key = layout.primary_key_of(values)?;
            let inserted = session.insert(tables.tree(table, 0), key.bytes(&mut [0; 8]), new);
            inserted.map_err(|error| tables.about_key(table, error))?;
            for index in secondary(layout) {
                let key = key_of(tables, table, new, index)?;
                session.insert(tables.tree(table, index), key.bytes(&mut [0; 8]), &[])?;
            }
            Ok(())
        })?;
        self.count(values.iter());
        Ok(())
    }

    fn update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        self.change(|tables, Open { session, row: old, new, .. }| {
            let (layout, _) = tables.table(table);
            let (key, tree) = (layout.primary_key(key)?, tables.tree(table, 0));
            let mut narrow = [0; 8];
            let key = key.bytes(&mut narrow);
            if !session.read(tree, key, Purpose::Change, old)? {
                return Err(tables.missing(table));
            }
            if changes.is_empty() {
                return Ok(());
            }
            layout.check_changes(changes)?;
            tables.row(table, old)?.with_changes(changes, new)?;
            session.update(tree, key, new)?;
            for index in secondary(layout).filter(|index| layout.index_has(*index, changes)) {
                let before = key_of(tables, table, old, index)?;
                let after = key_of(tables, table, new, index)?;
                if before != after {
                    let tree = tables.tree(table, index);
                    session.delete(tree, before.bytes(&mut [0; 8]))?;
                    session.insert(tree, after.bytes(&mut [0; 8]), &[])?;
                }
            }
            Ok(())
        })?;
        self.count(changes.iter().map(|(_, value)| value));
        Ok(())
    }

    fn delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<(), EngineError> {
        self.change(|tables, Open { session, row: old, .. }| {
            let (layout, _) = tables.table(table);
            let (key, tree) = (layout.primary_key(key)?, tables.tree(table, 0));
            let mut narrow = [0; 8];
            let key = key.bytes(&mut narrow);
            if !session.read(tree, key, Purpose::Change, old)? {
                return Err(tables.missing(table));
            }
            session.delete(tree, key)?;
            for index in secondary(layout) {
                let key = key_of(tables, table, old, index)?;
                session.delete(tables.tree(table, index), key.bytes(&mut [0; 8]))?;
            }
            Ok(())
        })
    }

    fn get_for_update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        let stored = row.stored_mut();
        let found = self.change(|tables, Open { session, .. }| {
            let key = tables.layout(table).primary_key(key)?;
            let (tree, mut narrow) = (tables.tree(table, 0), [0; 8]);
            Ok(session.read(tree, key.bytes(&mut narrow), Purpose::PerhapsChange, stored)?)
        })?;
        if found {
            self.shared.tables.show(table, columns, row)?;
        }
        Ok(found)
    }
}

/// Gives sessions.
struct Source<E: Environment, L> {
    shared: Arc<Shared<E, L>>,
}

impl<E: Environment, L> Debug for Source<E, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("store", &self.shared.store).finish()
    }
}

impl<E: Environment, L: PagedLog<E>> Sessions for Source<E, L> {
    fn session(&self) -> Result<Box<dyn Engine>, EngineError> {
        Ok(Box::new(Paged::over(Arc::clone(&self.shared))))
    }
}

impl<E: Environment, L> Paged<E, L> {
    fn count<'v>(&self, values: impl Iterator<Item = &'v Value<'v>>) {
        self.shared.user_bytes.fetch_add(user_bytes(values), Ordering::Relaxed);
    }
}

impl<E: Environment, L: PagedLog<E>> Engine for Paged<E, L> {
    fn begin(&mut self, how: &Begin) -> Result<(), EngineError> {
        self.shared.usable()?;
        self.open_mut().begin(how.age, how.wait);
        Ok(())
    }

    fn commit(&mut self) -> Result<(u64, bool), EngineError> {
        let shared = Arc::clone(&self.shared);
        shared.usable()?;
        let session = &mut self.open_mut().session;
        let (changed, committed) = (session.has_changed(), session.commit());
        let committed = committed.map_err(|error| shared.stop(error))?;
        if shared.group == 1 {
            shared.store.wait(committed).map_err(|error| shared.stop(error))?;
        } else if changed && shared.in_group.fetch_add(1, Ordering::Relaxed) + 1 >= shared.group {
            shared.in_group.store(0, Ordering::Relaxed);
            shared.store.sync().map_err(|error| shared.stop(error))?;
        }
        // Durable transactions are the first ones. So one that has changed nothing has the number
        // of the newest before it, and is durable when that is, also where it has read nothing of
        // it.
        let before = shared.committed.fetch_max(committed.0, Ordering::AcqRel);
        let number = before.max(committed.0);
        Ok((number, number <= self.durable()))
    }

    fn abort(&mut self) -> Result<(), EngineError> {
        let shared = Arc::clone(&self.shared);
        let session = &mut self.open_mut().session;
        session.abort().map_err(|error| shared.stop(error))?;
        // After an abort the caller may show what the transaction has seen. Commits that are not
        // waited for may be lost, and so may what is seen of them.
        if shared.group > 1 {
            return Ok(());
        }
        shared.store.wait(session.has_seen()).map_err(|error| shared.stop(error))
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.shared.usable()?;
        self.shared.in_group.store(0, Ordering::Relaxed);
        self.shared.store.sync().map_err(|error| self.shared.stop(error))
    }

    fn durable(&self) -> u64 {
        self.shared.store.log().durable().0
    }

    fn savepoint(&mut self) -> Result<u64, EngineError> {
        let (_, open) = self.opened();
        let place = open.session.savepoint();
        Ok(open.savepoints.mark(open.number, place))
    }

    fn rollback_to(&mut self, savepoint: u64) -> Result<(), EngineError> {
        let shared = Arc::clone(&self.shared);
        let open = self.open_mut();
        let place = open.savepoints.back_to(open.number, savepoint)?;
        open.session.rollback_to(place).map_err(|error| shared.stop(error))
    }

    fn transaction(&self) -> Option<(TxId, u64)> {
        let open = self.lock();
        let id = TxId(self.number << 40 | open.number);
        open.session.is_open().then_some((id, open.statements))
    }

    fn sessions(&self) -> Option<Arc<dyn Sessions>> {
        Some(Arc::new(Source { shared: Arc::clone(&self.shared) }))
    }

    fn unlocked_source(&self) -> Option<Arc<dyn VersionSource>> {
        Some(Arc::new(Unlocked::of(&self.shared)))
    }

    fn checkpoint(&mut self) -> Result<(), EngineError> {
        self.shared.usable()?;
        match self.shared.store.checkpoint() {
            Ok(()) => self.check_archive(),
            // Nothing is lost, and nothing unknown.
            Err(error) if error.is_of_the_moment() => {
                Err(self.shared.store.log().hindrance().unwrap_or(error).into())
            }
            Err(error) => Err(self.shared.stop(error)),
        }
    }

    fn check_archive(&self) -> Result<(), EngineError> {
        // An open without the archive is deliberate, and no error.
        let hindrance = self.shared.store.log().hindrance().filter(|_| self.shared.archives);
        hindrance.map_or(Ok(()), |error| Err(error.into()))
    }

    fn end_archive(&self) -> Result<(), EngineError> {
        self.shared.usable()?;
        Ok(self.shared.store.log().end_archive()?)
    }

    fn copy_base(&self, visit: VisitPage<'_>) -> Result<BasePart, EngineError> {
        self.shared.usable()?;
        archive::copy_base(&self.shared.store, self.shared.archives, visit)
    }

    fn find_rest(&mut self) -> Vec<EngineError> {
        self.look_for_rest()
    }

    fn next_readable(
        &self,
        table: u16,
        after: Option<&[Value<'_>]>,
        row: &mut Row,
    ) -> Option<bool> {
        self.row_behind(table, after, row)
    }

    /// The thread of the store does it.
    fn puts_off_work(&self) -> bool {
        false
    }

    fn is_stopped(&self) -> bool {
        self.shared.stopped.get().is_some() || self.shared.store.check_running().is_err()
    }

    fn close(&mut self) -> Result<(), EngineError> {
        self.shared.usable()?;
        self.abort()?;
        self.shared.store.close().map_err(|error| self.shared.stop(error))?;
        self.shared.log.close()
    }

    fn footprint(&self) -> Result<Footprint, EngineError> {
        let (files, prefix) = (&self.shared.files, &self.shared.prefix);
        let mut footprint = Footprint::default();
        for name in files.list()? {
            let Some(part) = name.strip_prefix(prefix) else { continue };
            let bytes = files.open(&name)?.len()?;
            match part {
                "pages" => footprint.table += bytes,
                "staging" => footprint.other += bytes,
                _ => footprint.log += bytes,
            }
        }
        let pool = self.shared.store.pool();
        footprint.other += (pool.frames() * pool.page_bytes()) as u64;
        Ok(footprint)
    }

    fn stats(&self) -> EngineStats {
        let counts = PagedCounts::of(&*self.shared.store).since(&self.shared.before);
        let own = self.shared.log.stats(&counts);
        EngineStats {
            user_bytes: self.shared.user_bytes.load(Ordering::Relaxed),
            logged_bytes: counts.log.appended,
            failures: counts.log.failures,
            own,
            ..EngineStats::from(own.kind())
        }
    }

    fn check(&self, reachable: &mut dyn FnMut(u64)) -> Result<u64, EngineError> {
        self.shared.usable()?;
        self.shared.log.check(reachable);
        let checked = self.shared.store.check();
        let checked = checked.map_err(|error| self.shared.named(error.into()))?;
        if checked.lost > 0 {
            return Err(errors::lost_pages(checked.lost));
        }
        let tables = &self.shared.tables;
        let tables_of = 0..tables.count();
        tables_of.map(|table| check_table(tables, table, &|act| self.read(act))).sum()
    }
}
