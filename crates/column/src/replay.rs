//! Replay: a transaction in flight is continued by running its closure from the start. A statement that
//! is done is compared with its entry and skipped; a read sees what it saw the first time; where the two
//! differ, the transaction has diverged. Nothing is written until every statement has been compared.

use std::collections::HashMap;

use pm::Memory;

use crate::Result;
use crate::error::ColumnError;
use crate::slots::{DELETE, INSERT, Statement, UPDATE};
use crate::statement::Change;
use crate::store::{InFlight, Shared};
use crate::table::Table;
use crate::value::Value;

/// The statements of a transaction that is replayed.
#[derive(Debug)]
pub(crate) struct Replay {
    statements: Vec<Statement>,
    /// Statements that have been compared.
    pub(crate) done: usize,
    /// The statement that made each version of the transaction, and the one that ended a version, by
    /// the table's place and the row.
    made: HashMap<(u64, u64), usize>,
    ended: HashMap<(u64, u64), usize>,
}

impl Replay {
    /// The replay of a transaction in flight, from its start.
    pub(crate) fn of<M: Memory>(shared: &Shared<M>, found: &InFlight) -> Result<Self> {
        let mark = found.id.0;
        let (mut made, mut ended) = (HashMap::new(), HashMap::new());
        let mut statements = Vec::with_capacity(found.statements as usize);
        for index in 0..found.statements {
            let statement = shared.statement(mark, index)?;
            let table = shared.table(usize::from(statement.table))?;
            made.insert((table.at, statement.new), index as usize);
            ended.insert((table.at, statement.old), index as usize);
            statements.push(statement);
        }
        Ok(Self { statements, done: 0, made, ended })
    }

    /// Returns whether a statement that has been compared made this version.
    pub(crate) fn has_made(&self, table: u64, row: u64) -> bool {
        self.made.get(&(table, row)).is_some_and(|index| *index < self.done)
    }

    /// The same of a version's end.
    pub(crate) fn has_ended(&self, table: u64, row: u64) -> bool {
        self.ended.get(&(table, row)).is_some_and(|index| *index < self.done)
    }

    /// Returns whether all statements have been compared.
    pub(crate) fn is_over(&self) -> bool {
        self.done == self.statements.len()
    }

    /// Compares a statement with the next one that was done; `there`: the row that it is about, as the
    /// transaction sees it now.
    pub(crate) fn compare<M: Memory>(
        &mut self,
        table: (usize, &Table<M>),
        change: Change<'_>,
        there: Option<u64>,
    ) -> Result<()> {
        match (change, there) {
            (Change::Insert(_), Some(_)) => return Err(ColumnError::DuplicateKey),
            (Change::Update(_) | Change::Delete, None) => return Err(ColumnError::MissingKey),
            _ => {}
        }
        let Some(done) = self.statements.get(self.done) else { return Err(ColumnError::Diverged) };
        if usize::from(done.table) != table.0 || !same(table.1, done, change, there.unwrap_or(0))? {
            return Err(ColumnError::Diverged);
        }
        self.done += 1;
        Ok(())
    }
}

/// Returns whether a statement was this change of the version `old`.
fn same<M: Memory>(
    table: &Table<M>,
    done: &Statement,
    change: Change<'_>,
    old: u64,
) -> Result<bool> {
    let has = |column: usize, value: Value<'_>| -> Result<bool> {
        Ok(table.field(done.new, column)?.value() == value)
    };
    match change {
        Change::Insert(values) => {
            let mut equal = done.kind == INSERT;
            for (column, value) in values.iter().enumerate() {
                equal = equal && has(column, *value)?;
            }
            Ok(equal)
        }
        Change::Update(changes) => {
            if done.kind != UPDATE || done.old != old {
                return Ok(false);
            }
            let mut ids = table.ids_of(old)?;
            for (column, value) in changes {
                if !has(*column, *value)? {
                    return Ok(false);
                }
                ids[*column] = table.id(done.new, *column)?;
            }
            Ok(ids == table.ids_of(done.new)?)
        }
        Change::Delete => Ok(done.kind == DELETE && done.old == old),
    }
}
