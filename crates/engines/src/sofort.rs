//! SOFORT (P4): a column store in persistent memory, without a log. Columns have dictionaries, rows
//! have versions, every statement is durable when it returns, and indexes lie in ordinary memory.
//!
//! | operation | steps (P4 3, 4.2) |
//! |---|---|
//! | INSERT | ids of the values; a version with the transaction's mark, an entry in its slot; **fence**; the indexes |
//! | UPDATE | the same with a version that leads to the old one; the old one's end is marked |
//! | DELETE | an entry; **fence**; the version's end is marked |
//! | COMMIT | a number and the state of the slot; **fence**; the number is published, versions are stamped |
//! | ABORT | the state of the slot; **fence**; nothing is undone |
//!
//! Recovery reads the slots alone (P4 4.1): committed transactions are stamped again, open ones
//! with a name stay in flight, those without one are aborted. Indexes are rebuilt in steps while
//! transactions go on; rows that are not indexed yet are found by scans.
//!
//! Snapshot isolation: a transaction sees what was committed before it began, and its own changes.
//! Of two that change one row, or take one unique key, the first one goes on, and the other one
//! gets a conflict. A transaction can ask to be serializable: its commit then validates what it has
//! read.
//!
//! Invariants: those of [`column`].

mod errors;
mod method;
mod options;
mod shared;
mod source;
mod stats;
mod tables;

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use column::{Claiming, ColumnError, Key, KeyRange, Session, Store, Value as Cell};
use index::Direction;
use pm::{Environment, Memory};
use storage::{Row, StoredRow, TableKey, Value, user_bytes};

use crate::contract::{Engine, Footprint, Read, Scan, ScanLocks, Sessions, Write};
use crate::error::{EngineError, sound};
use crate::stats::{EngineStats, StructureStats};
use crate::traits::Isolation;
use crate::transaction::{Begin, TxId};

pub use options::SofortOptions;
pub use stats::SofortStats;

use shared::Shared;
use source::Source;
use tables::{ColumnTables, Fields, value};

/// A session of a partition, or its root, which is one, too; see the module's comment.
#[derive(Debug)]
pub struct Sofort<E: Environment> {
    shared: Arc<Shared<E>>,
    session: Session<E::Durable>,
    /// The open transaction is replayed, and has diverged from its first run.
    diverged: bool,
}

impl<E: Environment> Sofort<E> {
    fn root(
        store: Store<E::Durable>,
        memory: E::Durable,
        tables: Arc<ColumnTables>,
        in_flight: u64,
    ) -> Self {
        Self::over(Arc::new(Shared::new(store, memory, tables, in_flight)))
    }

    fn over(shared: Arc<Shared<E>>) -> Self {
        let session = shared.store.session();
        Self { shared, session, diverged: false }
    }

    /// Begins a transaction if none is open: that of the root session begins with its first
    /// statement. After an error none has begun.
    fn start(&mut self) -> Result<(), EngineError> {
        self.shared.usable()?;
        if self.session.snapshot().is_none() && !self.diverged {
            self.shared.upkeep()?;
            self.session.begin()?;
        }
        Ok(())
    }

    /// The statements of the open transaction.
    fn statements(&self) -> u64 {
        self.session.transaction().map_or(0, |(_, statements)| statements)
    }

    /// Does a change in the open transaction.
    fn change(
        &mut self,
        table: u16,
        act: impl FnOnce(&ColumnTables, &mut Session<E::Durable>) -> Result<(), EngineError>,
        values: impl Iterator<Item = u64>,
    ) -> Result<(), EngineError> {
        let shared = Arc::clone(&self.shared);
        if self.diverged {
            return Err(EngineError::Diverged);
        }
        act(&shared.tables, &mut self.session).map_err(|error| {
            self.diverged |= matches!(error, EngineError::Diverged);
            match error {
                EngineError::Column(error) => shared.tables.about_key(table, error),
                other => other,
            }
        })?;
        shared.statements.fetch_add(1, Ordering::Relaxed);
        shared.user_bytes.fetch_add(values.sum(), Ordering::Relaxed);
        Ok(())
    }

    /// Copies the fields of the tuple with this primary key; returns whether there is one.
    fn fields<R>(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        read: impl FnOnce(Fields<'_>) -> Result<R, EngineError>,
    ) -> Result<Option<R>, EngineError> {
        self.shared.usable()?;
        self.shared.build_for_read();
        sound(&self.shared.memory, || {
            let layout = self.shared.tables.layout(table);
            let (bytes, values) = (layout.primary_key(key)?, cells(key));
            let columns = columns.map(numbers);
            let mut narrow = [0; 8];
            let key = Key::new(bytes.bytes(&mut narrow), &values);
            let found = self.session.get_some(usize::from(table), key, columns.as_deref())?;
            found.map(|fields| read(Fields { layout, fields: &fields })).transpose()
        })
    }
}

fn cells<'v>(values: &[Value<'v>]) -> Vec<Cell<'v>> {
    values.iter().map(value).collect()
}

fn numbers(columns: &[u16]) -> Vec<usize> {
    columns.iter().map(|column| usize::from(*column)).collect()
}

/// The bound of a range of keys.
fn bound(bound: Bound<TableKey>) -> Bound<Vec<u8>> {
    bound.map(|key| key.bytes(&mut [0; 8]).to_vec())
}

impl<E: Environment> Read for Sofort<E> {
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        let read = self.fields(table, key, columns, |fields| Ok(fields.read(columns, row)?))?;
        Ok(read.is_some())
    }

    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        self.fields(table, key, Some(columns), |fields| Ok(fields.read_bytes(columns, out)?))
    }

    fn scan(
        &self,
        table: u16,
        scan: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        self.shared.usable()?;
        self.shared.build_for_read();
        let layout = self.shared.tables.layout(table);
        let index = scan.index.map_or(0, |index| index + 1);
        let (low, high) = layout.key_range(index, scan.low, scan.high)?;
        let backward = matches!(scan.direction, Direction::Backward);
        let range = KeyRange { low: bound(low), high: bound(high), backward };
        let (columns, mut failed) = (scan.columns.map(numbers), Ok(()));
        let table = usize::from(table);
        let scanned = sound(&self.shared.memory, || {
            let claiming = match scan.locks {
                ScanLocks::Read => Claiming::None,
                ScanLocks::Update => Claiming::OrFail,
                ScanLocks::UpdateOrSkip => Claiming::OrSkip,
            };
            self.session.scan_as(
                claiming,
                (table, index, range),
                columns.as_deref(),
                |fields| {
                    failed = Fields { layout, fields: &fields }.read(scan.columns, row);
                    if failed.is_ok() { visit(row) } else { ControlFlow::Break(()) }
                },
            )?;
            Ok(failed?)
        });
        self.shared.build_after_scan();
        scanned
    }
}

impl<E: Environment> Write for Sofort<E> {
    fn insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<(), EngineError> {
        self.start()?;
        let bytes = std::iter::once(user_bytes(values.iter()));
        let insert = |tables: &ColumnTables, session: &mut Session<E::Durable>| {
            tables.layout(table).check_tuple(values)?;
            Ok(session.insert(usize::from(table), &cells(values))?)
        };
        self.change(table, insert, bytes)
    }

    fn update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        self.start()?;
        self.update_in(table, key, changes, false)
    }

    fn delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<(), EngineError> {
        self.start()?;
        let delete = |tables: &ColumnTables, session: &mut Session<E::Durable>| {
            let (bytes, values) = (tables.layout(table).primary_key(key)?, cells(key));
            let mut narrow = [0; 8];
            let key = Key::new(bytes.bytes(&mut narrow), &values);
            Ok(session.delete(usize::from(table), key)?)
        };
        self.change(table, delete, std::iter::empty())
    }
}

impl<E: Environment> Sofort<E> {
    /// Updates a tuple, in the transaction's last statement if it `commits`.
    fn update_in(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
        commits: bool,
    ) -> Result<(), EngineError> {
        let bytes = std::iter::once(user_bytes(changes.iter().map(|(_, value)| value)));
        let update = |tables: &ColumnTables, session: &mut Session<E::Durable>| {
            let layout = tables.layout(table);
            let (bytes, values) = (layout.primary_key(key)?, cells(key));
            let mut narrow = [0; 8];
            let key = Key::new(bytes.bytes(&mut narrow), &values);
            layout.check_changes(changes)?;
            let changes: Vec<_> =
                changes.iter().map(|(column, new)| (usize::from(*column), value(new))).collect();
            let table = usize::from(table);
            if commits {
                return Ok(session.update_and_commit(table, key, &changes)?);
            }
            Ok(session.update(table, key, &changes)?)
        };
        self.change(table, update, bytes)
    }
}

impl<E: Environment> Engine for Sofort<E> {
    fn begin(&mut self, begin: &Begin) -> Result<(), EngineError> {
        self.begin_named(begin, b"")
    }

    fn begin_named(&mut self, begin: &Begin, name: &[u8]) -> Result<(), EngineError> {
        self.shared.usable()?;
        if !begin.reads_only {
            self.shared.upkeep()?;
        }
        self.diverged = false;
        match begin.isolation {
            // A transaction that only reads has its place in the order of commits by its snapshot:
            // it needs no validation.
            Isolation::Serializable if !begin.reads_only => {
                self.session.begin_serializable(name)?;
            }
            _ => self.session.begin_named(name)?,
        }
        Ok(())
    }

    fn detach(&mut self) -> Result<TxId, EngineError> {
        self.shared.usable()?;
        self.diverged = false;
        Ok(TxId(self.session.detach()?.number()))
    }

    fn update_and_commit(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(u64, bool), EngineError> {
        self.start()?;
        let statements = self.statements() + 1;
        let done = self.update_in(table, key, changes, true);
        if self.session.snapshot().is_none() {
            // It has been committed, durably.
            done.map_err(|error| self.shared.stop(error))?;
        } else {
            done?;
        }
        self.shared.commits.fetch_add(1, Ordering::Relaxed);
        self.shared.collect_after(statements);
        Ok((self.shared.store.now(), true))
    }

    fn commit(&mut self) -> Result<(u64, bool), EngineError> {
        let shared = Arc::clone(&self.shared);
        shared.usable()?;
        if self.diverged {
            return Err(EngineError::Diverged);
        }
        let (mut number, statements) = (0, self.statements());
        if self.session.snapshot().is_some() {
            number = match self.session.commit() {
                Ok(number) => number,
                Err(ColumnError::Diverged) => {
                    self.diverged = true;
                    return Err(EngineError::Diverged);
                }
                // It is open still.
                Err(error @ ColumnError::Outdated) => return Err(error.into()),
                // The data that it has read are damaged, so the commit has no number: it has
                // not happened.
                Err(error) if self.session.snapshot().is_some() => {
                    self.abort()?;
                    return Err(error.into());
                }
                Err(error) => return Err(shared.stop(error)),
            };
        }
        if number == 0 {
            return Ok((shared.store.now(), true));
        }
        shared.commits.fetch_add(1, Ordering::Relaxed);
        shared.collect_after(statements);
        Ok((number, true))
    }

    fn abort(&mut self) -> Result<(), EngineError> {
        let shared = Arc::clone(&self.shared);
        shared.usable()?;
        if std::mem::take(&mut self.diverged) {
            self.session.detach()?;
        } else if self.session.snapshot().is_some() {
            let statements = self.statements();
            self.session.abort().map_err(|error| shared.stop(error))?;
            shared.collect_after(statements);
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.shared.usable()
    }

    fn durable(&self) -> u64 {
        self.shared.store.now()
    }

    fn transaction(&self) -> Option<(TxId, u64)> {
        let (id, statements) = self.session.transaction()?;
        Some((TxId(id.number()), statements))
    }

    fn sessions(&self) -> Option<Arc<dyn Sessions>> {
        Some(Arc::new(Source::of(&self.shared)))
    }

    fn checkpoint(&mut self) -> Result<(), EngineError> {
        self.shared.usable()
    }

    fn background(&mut self, budget: u64) -> Result<u64, EngineError> {
        self.shared.usable()?;
        self.shared.background(budget)
    }

    fn has_backlog(&self) -> bool {
        self.shared.has_backlog()
    }

    fn is_stopped(&self) -> bool {
        self.shared.is_stopped()
    }

    fn close(&mut self) -> Result<(), EngineError> {
        self.abort()?;
        self.session.finish();
        self.shared.store.close();
        Ok(self.shared.memory.healthy()?)
    }

    fn footprint(&self) -> Result<Footprint, EngineError> {
        // Everything lies in the heap, whose chunks say what they are for.
        Ok(Footprint::default())
    }

    fn stats(&self) -> EngineStats {
        self.shared.stats()
    }

    fn structures(&self) -> Vec<StructureStats> {
        self.shared.structures()
    }

    fn check(&self, reachable: &mut dyn FnMut(u64)) -> Result<u64, EngineError> {
        self.shared.usable()?;
        let census = self.shared.store.check()?;
        self.shared.store.for_each_object(reachable)?;
        let mut row = Row::new();
        for table in 0..self.shared.tables.count() {
            let (layout, mut wrong) = (self.shared.tables.layout(table), Ok(()));
            self.scan(table, &Scan::ALL, &mut row, &mut |row| {
                wrong = layout.check_row(row, 0);
                if wrong.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            wrong?;
        }
        Ok(census.rows)
    }
}
