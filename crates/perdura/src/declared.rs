//! Tuples as the user declares them, over engines that know less: no NULL, and no index that is
//! unique. A table with neither ([`TableLayout::is_plain`]) goes past all of this.
//!
//! - What is NULL is stored in null words: see `storage`'s `nulls.rs`. An update reads those that it
//!   touches first.

use std::ops::ControlFlow;

use engines::below::{Row, TableLayout, Value};
use engines::{EngineError, Read, Scan, Write};

/// As [`Read::get`].
#[inline]
pub(crate) fn get(
    engine: &(impl Read + ?Sized),
    (number, layout): (u16, &TableLayout),
    key: &[Value<'_>],
    columns: Option<&[u16]>,
    row: &mut Row,
) -> Result<bool, EngineError> {
    if layout.is_plain() {
        return engine.get(number, key, columns, row);
    }
    layout.read_declared(columns, row, |columns, row| engine.get(number, key, columns, row))
}

/// As [`Read::scan`].
pub(crate) fn scan(
    engine: &(impl Read + ?Sized),
    (number, layout): (u16, &TableLayout),
    what: &Scan<'_>,
    row: &mut Row,
    visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
) -> Result<(), EngineError> {
    if !layout.has_nulls() {
        return engine.scan(number, what, row, visit);
    }
    let (mut columns, mut shown) = (Vec::new(), Row::new());
    let stored = Scan { columns: layout.stored_columns(what.columns, &mut columns), ..*what };
    engine.scan(number, &stored, row, &mut |row| {
        layout.declare_copy(what.columns, row, &mut shown);
        visit(&shown)
    })
}

/// As [`Write::insert`].
#[inline]
pub(crate) fn insert(
    engine: &mut (impl Write + ?Sized),
    (number, layout): (u16, &TableLayout),
    values: &[Value<'_>],
) -> Result<(), EngineError> {
    if layout.is_plain() {
        return engine.insert(number, values);
    }
    insert_declared(engine, (number, layout), values)
}

#[inline(never)]
fn insert_declared(
    engine: &mut (impl Write + ?Sized),
    (number, layout): (u16, &TableLayout),
    values: &[Value<'_>],
) -> Result<(), EngineError> {
    let mut stored = Vec::new();
    layout.stored_tuple(values, &mut stored)?;
    engine.insert(number, &stored)
}

/// What [`Write::update`] is to be told for these changes of a table that is not plain.
#[inline(never)]
pub(crate) fn changes<'v>(
    engine: &mut (impl Write + ?Sized),
    (number, layout): (u16, &TableLayout),
    key: &[Value<'_>],
    changes: &[(u16, Value<'v>)],
) -> Result<Vec<(u16, Value<'v>)>, EngineError> {
    let mut stored = Vec::new();
    layout.stored_changes(changes, &mut stored, |words, row| {
        engine.get_for_update(number, key, Some(words), row)
    })?;
    Ok(stored)
}
