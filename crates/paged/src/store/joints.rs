//! The joints between pages, recovery and locks, none of which knows the others.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use pm::Files;

use crate::Result;
use crate::flaw::Flaw;
use crate::ids::{Lsn, PageNo, TreeNo};
use crate::latch::Latching;
use crate::lock::{LockTable, Name};
use crate::log::{LogManager, Logged, Record};
use crate::pool::{Appender, Pool, Settled, body_of};
use crate::recovery::checkpoint::Pages;
use crate::recovery::{Target, Transaction, Undoing};
use crate::threads::Threads;

impl Appender for Transaction {
    fn append(&mut self, log: &dyn LogManager, record: &Record<'_>) -> Result<Lsn> {
        Self::append(self, log, record)
    }

    fn last(&self) -> Lsn {
        Self::last(self)
    }
}

impl Appender for Undoing<'_> {
    fn append(&mut self, log: &dyn LogManager, record: &Record<'_>) -> Result<Lsn> {
        self.compensate_with(log, record)
    }

    fn last(&self) -> Lsn {
        Self::last(self)
    }
}

impl<F: Files, T: Latching> Target for Pool<F, T> {
    fn pages(&self, record: &Logged, visit: &mut dyn FnMut(PageNo)) -> Result<()> {
        let body = body_of(record)?;
        body.change.pages(record.page, self.page_bytes()).for_each(|(_, page)| visit(page));
        Ok(())
    }

    fn redo(&self, record: &Logged) -> Result<bool> {
        Ok(Self::redo(self, record)? > 0)
    }

    fn undo(&self, record: &Logged, undoing: &mut Undoing<'_>) -> Result<()> {
        Self::undo(self, undoing, record)
    }
}

/// The pages, where a transaction is undone: the keys are noted whose rows it had changed, since
/// what was inserted leaves a ghost.
pub(super) struct Undone<'a, F: Files, T: Latching> {
    pool: &'a Pool<F, T>,
    keys: RefCell<BTreeSet<(TreeNo, Vec<u8>)>>,
}

impl<'a, F: Files, T: Latching> Undone<'a, F, T> {
    pub(super) fn of(pool: &'a Pool<F, T>) -> Self {
        Self { pool, keys: RefCell::default() }
    }

    pub(super) fn into_keys(self) -> BTreeSet<(TreeNo, Vec<u8>)> {
        self.keys.into_inner()
    }
}

impl<F: Files, T: Latching> Target for Undone<'_, F, T> {
    fn redo(&self, record: &Logged) -> Result<bool> {
        Target::redo(self.pool, record)
    }

    fn undo(&self, record: &Logged, undoing: &mut Undoing<'_>) -> Result<()> {
        let body = body_of(record)?;
        let mut keys = self.keys.borrow_mut();
        body.change.keys(&mut |key| {
            keys.insert((body.tree, key.to_vec()));
        });
        Target::undo(self.pool, record, undoing)
    }
}

impl<F: Files, T: Latching> Pages for Pool<F, T> {
    fn write_before(&self, lsn: Lsn) -> Result<()> {
        self.clean(lsn)
    }

    fn dirty(&self) -> Vec<(PageNo, Lsn)> {
        if T::has(Flaw::DirtyPagesForgotten) {
            return Vec::new();
        }
        self.dirty_pages()
    }

    fn note(&self, start: Lsn) -> Result<()> {
        Self::note(self, start)
    }
}

/// Rows that are not locked: what they hold back is not needed.
#[derive(Debug)]
pub(super) struct FreeRows<T: Threads>(pub(super) Arc<LockTable<T>>);

impl<T: Threads> Settled for FreeRows<T> {
    fn is_settled(&self, tree: TreeNo, key: &[u8]) -> bool {
        self.0.is_free(Name::row(tree, key))
    }

    fn ghost_goes(&self, tree: TreeNo, key: &[u8]) {
        self.0.ghost_goes(Name::row(tree, key));
    }
}
