//! Tuples as the user declares them, over engines that know less: no NULL, and no index that is
//! unique. A table with neither ([`TableLayout::is_plain`]) goes past all of this.
//!
//! - What is NULL is stored in null words: see `storage`'s `nulls.rs`. An update reads those that
//!   it touches first.
//! - A unique index is asked before a change whether another tuple has the same values. The
//!   transaction alone changes the partition, or its engine sees to it that what it has looked at
//!   stays so: nothing comes in between.

use std::ops::{Bound, ControlFlow};

use engines::below::{
    Bad, Catalog, Direction, Row, StorageError, StoredColumns, TableKey, TableLayout, Value,
    shown_key,
};
use engines::{EngineError, Read, Scan, Write};

use crate::key::{Owned, compare};

/// Works as [`Read::get`].
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
    get_declared(engine, (number, layout), key, columns, row)
}

#[inline(never)]
fn get_declared(
    engine: &(impl Read + ?Sized),
    (number, layout): (u16, &TableLayout),
    key: &[Value<'_>],
    columns: Option<&[u16]>,
    row: &mut Row,
) -> Result<bool, EngineError> {
    layout.read_declared(columns, row, |columns, row| engine.get(number, key, columns, row))
}

/// Works as [`Write::get_for_update`], with all columns.
pub(crate) fn get_for_update(
    engine: &mut (impl Write + ?Sized),
    (number, layout): (u16, &TableLayout),
    key: &[Value<'_>],
    row: &mut Row,
) -> Result<bool, EngineError> {
    if layout.is_plain() {
        return engine.get_for_update(number, key, None, row);
    }
    layout.read_declared(None, row, |columns, row| engine.get_for_update(number, key, columns, row))
}

/// Works as [`Read::scan`].
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
    let (mut columns, mut shown) = (StoredColumns::new(), Row::new());
    shown.set_names_of(row);
    let stored = Scan { columns: layout.stored_columns(what.columns, &mut columns), ..*what };
    engine.scan(number, &stored, row, &mut |row| {
        layout.declare_copy(what.columns, row, &mut shown);
        visit(&shown)
    })
}

/// Works as [`Write::insert`].
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
    for (index, columns) in layout.unique_indexes() {
        let key: Vec<_> = columns.iter().map(|column| values[usize::from(*column)]).collect();
        let Some(other) = same_in_index(engine, (number, layout), index, &key)? else { continue };
        // The engine reports the tuple's own key itself.
        let own: Vec<_> = layout.key_columns().map(|column| values[column]).collect();
        if layout.primary_key(&own)? != other
            && !engine.get(number, &own, Some(&[]), &mut Row::new())?
        {
            return Err(not_unique(layout, index, columns, &key));
        }
    }
    engine.insert(number, &stored)
}

/// A value for each column of a table, of which these are named.
pub(crate) fn with_defaults<'v>(
    layout: &'v TableLayout,
    values: &[(u16, Value<'v>)],
) -> Result<Vec<Value<'v>>, StorageError> {
    let columns = layout.declared.columns();
    let table = || layout.declared.name().to_owned();
    let mut all: Vec<Option<Value<'v>>> = vec![None; columns.len()];
    for (column, value) in values {
        let place = usize::from(*column);
        let Some(named) = all.get_mut(place) else {
            return Err(StorageError::NoColumn { table: table(), column: place });
        };
        if named.replace(*value).is_some() {
            let column = columns[place].name.clone();
            return Err(StorageError::ColumnTwice { table: table(), column });
        }
    }
    let each = all.into_iter().enumerate().map(|(place, value)| {
        let missing =
            || StorageError::NoValue { table: table(), column: columns[place].name.clone() };
        value.or_else(|| layout.default_of(place)).ok_or_else(missing)
    });
    each.collect()
}

/// The primary key of the tuple that has these values in a unique index, if there is one. None has
/// the same if one of them is NULL.
fn same_in_index(
    engine: &(impl Read + ?Sized),
    (number, layout): (u16, &TableLayout),
    index: usize,
    key: &[Value<'_>],
) -> Result<Option<TableKey>, EngineError> {
    if key.contains(&Value::Null) {
        return Ok(None);
    }
    let primary: Vec<u16> = layout.key_columns().map(|column| column as u16).collect();
    let what = Scan {
        index: Some(index),
        low: Bound::Included(key),
        high: Bound::Included(key),
        direction: Direction::Forward,
        columns: Some(&primary),
        limit: Some(1),
        ..Scan::ALL
    };
    let mut found = Ok(None);
    engine.scan(number, &what, &mut Row::new(), &mut |row| {
        let own: Vec<_> = row.values().collect();
        found = layout.primary_key(&own).map(Some);
        ControlFlow::Break(())
    })?;
    Ok(found?)
}

#[cold]
fn not_unique(
    layout: &TableLayout,
    index: usize,
    columns: &[u16],
    key: &[Value<'_>],
) -> EngineError {
    let schema = &layout.declared;
    let names = columns.iter().map(|column| schema.columns()[usize::from(*column)].name.as_str());
    let (table, index) = (schema.name().into(), schema.indexes()[index].name.clone());
    StorageError::NotUnique { table, index, key: shown_key(names.zip(key.iter().copied())) }.into()
}

/// Checks that no two tuples have the same values in a unique index.
pub(crate) fn check_unique(
    engine: &(impl Read + ?Sized),
    catalog: &Catalog,
) -> Result<(), EngineError> {
    for (number, layout) in (0..).zip(&catalog.tables) {
        for (index, columns) in layout.unique_indexes() {
            let (mut last, mut same): (Vec<Owned>, bool) = (Vec::new(), false);
            let what = Scan { index: Some(index), columns: Some(columns), ..Scan::ALL };
            scan(engine, (number, layout), &what, &mut Row::new(), &mut |row| {
                let key: Vec<_> = row.values().map(|value| Owned::of(&value)).collect();
                let null = row.values().any(|value| value == Value::Null);
                same = !null && last.len() == key.len() && compare(&last, &key).is_eq();
                last = key;
                if same { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if same {
                return Err(Bad::Damaged { what: "unique index", at: 0 }.into());
            }
        }
    }
    Ok(())
}

/// Returns these changes as [`Write::update`] takes them, for a table that is not plain.
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
    for (index, columns) in layout.unique_indexes() {
        if !columns.iter().any(|column| changes.iter().any(|(changed, _)| changed == column)) {
            continue;
        }
        let mut row = Row::new();
        let there = layout.read_declared(Some(columns), &mut row, |columns, row| {
            engine.get_for_update(number, key, columns, row)
        })?;
        if !there {
            break;
        }
        let new: Vec<_> = columns
            .iter()
            .zip(row.values())
            .map(|(column, before)| {
                let change = changes.iter().find(|(changed, _)| changed == column);
                change.map_or(before, |(_, value)| *value)
            })
            .collect();
        let other = same_in_index(engine, (number, layout), index, &new)?;
        if other.is_some() && other != Some(layout.primary_key(key)?) {
            return Err(not_unique(layout, index, columns, &new));
        }
    }
    Ok(stored)
}
