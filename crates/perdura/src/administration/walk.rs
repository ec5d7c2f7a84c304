//! Going over a damaged table: as far as it can be read, and past what cannot.
//!
//! 1. Scan forward. Where that fails, look at the next key alone. If it can be read, one tuple is
//!    damaged; go on after it.
//! 2. Else a part of the index is damaged. Some engines know the next tuple that can be read. Else,
//!    if keys begin with an integer, look for a larger one from which on a scan works, ever further
//!    ahead, then by halves back; go on there.
//! 3. Else scan backward, from the end down to the same place.
//!
//! What is found comes in no particular order. Keys of a walk forward ascend, whatever the index
//! says, so it comes to an end.

use std::ops::{Bound, ControlFlow};

use engines::below::{ColumnType, Direction, Row, StoredColumns, TableLayout};
use engines::{Engine, EngineError, Scan};

use crate::key::{Key, Owned, compare, values};

/// A place that a walk could not read.
#[derive(Clone, Debug)]
pub(crate) enum Gap {
    /// The tuple with this key.
    Tuple(Key),
    /// Everything between two keys; `None` is the end of the table.
    Between(Option<Key>, Option<Key>),
}

/// More places than this are not looked at one by one.
const MOST_GAPS: usize = 100_000;

/// An index of a table of a partition, to be walked.
pub(crate) struct Walk<'a> {
    engine: &'a dyn Engine,
    table: u16,
    layout: &'a TableLayout,
    index: Option<usize>,
    /// The columns of the index's keys; those of the primary key come last.
    columns: Vec<u16>,
    /// The type of the first of them.
    first_kind: Option<ColumnType>,
}

/// The receiver of what a walk finds: tuples, and gaps with the reason.
pub(crate) trait Sink {
    /// A tuple, and whether its values, as they are stored, are possible for their columns.
    fn tuple(&mut self, row: &Row, sound: bool);
    /// Takes a place that cannot be read, with the reason.
    fn gap(&mut self, gap: Gap, why: &str);
}

impl<'a> Walk<'a> {
    /// Table number `table`, by a secondary index or the primary key.
    pub(crate) fn new(
        engine: &'a dyn Engine,
        (table, layout): (u16, &'a TableLayout),
        index: Option<usize>,
    ) -> Self {
        let own = index.map_or(&[][..], |index| &layout.schema.indexes()[index].columns);
        let own = own.iter().filter_map(|name| layout.column(name));
        let primary = layout.key_columns().map(|column| column as u16);
        let columns: Vec<u16> = own.chain(primary).collect();
        let first =
            columns.first().and_then(|first| layout.schema.columns().get(usize::from(*first)));
        let first_kind = first.map(|column| column.kind);
        Self { engine, table, layout, index, first_kind, columns }
    }

    /// Goes over the table.
    pub(crate) fn run(&self, sink: &mut dyn Sink) {
        let (mut last, mut from) = (None::<Key>, Bound::Unbounded);
        for _ in 0..MOST_GAPS {
            let Err(error) = self.forward(&from, &mut last, sink) else { return };
            let after = last.clone().map_or(Bound::Unbounded, Bound::Excluded);
            if let Ok(Some(key)) = self.first(&after)
                && last.as_ref().is_none_or(|last| compare(last, &key).is_lt())
            {
                sink.gap(Gap::Tuple(key.clone()), &error.to_string());
                from = Bound::Excluded(key.clone());
                last = Some(key);
                continue;
            }
            if let Some(next) = self.next_readable(last.as_deref()) {
                sink.gap(Gap::Between(last.clone(), next.clone()), &error.to_string());
                let Some(next) = next else { return };
                from = Bound::Included(next);
                continue;
            }
            match self.ahead(last.as_deref()) {
                Some((start, next)) => {
                    sink.gap(Gap::Between(last.clone(), next), &error.to_string());
                    from = Bound::Included(vec![start]);
                }
                None => return self.backward(last, &error, sink),
            }
        }
    }

    fn key_of(&self, row: &Row) -> Key {
        self.columns.iter().map(|column| Owned::of(&row.get(usize::from(*column)))).collect()
    }

    fn scan(
        &self,
        (low, high): (&Bound<Key>, &Bound<Key>),
        direction: Direction,
        columns: Option<&[u16]>,
        visit: &mut dyn FnMut(&Row, bool) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        let (mut stored, mut shown) = (StoredColumns::new(), Row::new());
        let low = low.as_ref().map(|key| values(key));
        let high = high.as_ref().map(|key| values(key));
        let scan = Scan {
            index: self.index,
            low: low.as_ref().map(Vec::as_slice),
            high: high.as_ref().map(Vec::as_slice),
            direction,
            columns: self.layout.stored_columns(columns, &mut stored),
            ..Scan::ALL
        };
        self.engine.scan(self.table, &scan, &mut Row::new(), &mut |row| {
            let sound = columns.is_some() || self.layout.check_row(row, 0).is_ok();
            self.layout.declare_copy(columns, row, &mut shown);
            visit(&shown, sound)
        })
    }

    /// Shows the tuples from a key on, each after the one before; `last` is the last one's key.
    fn forward(
        &self,
        from: &Bound<Key>,
        last: &mut Option<Key>,
        sink: &mut dyn Sink,
    ) -> Result<(), EngineError> {
        self.scan((from, &Bound::Unbounded), Direction::Forward, None, &mut |row, sound| {
            let key = self.key_of(row);
            if last.as_ref().is_none_or(|last| compare(last, &key).is_lt()) {
                sink.tuple(row, sound);
                *last = Some(key);
            } else {
                sink.gap(Gap::Tuple(key), WRONG_PLACE);
            }
            ControlFlow::Continue(())
        })
    }

    /// The first key of a range, of which nothing else is read.
    fn first(&self, low: &Bound<Key>) -> Result<Option<Key>, EngineError> {
        let mut first = None;
        self.scan(
            (low, &Bound::Unbounded),
            Direction::Forward,
            Some(&self.columns),
            &mut |row, _| {
                first = Some(row.values().map(|value| Owned::of(&value)).collect());
                ControlFlow::Break(())
            },
        )?;
        Ok(first)
    }

    /// The next key that can be read, if there is one, where the engine knows.
    fn next_readable(&self, last: Option<&[Owned]>) -> Option<Option<Key>> {
        let (after, mut row, mut shown) = (last.map(values), Row::new(), Row::new());
        if self.index.is_some()
            || !self.engine.next_readable(self.table, after.as_deref(), &mut row)?
        {
            return self.index.is_none().then_some(None);
        }
        self.layout.declare_copy(None, &row, &mut shown);
        let next = self.key_of(&shown);
        // Whatever the medium says, the walk goes forward.
        let is_ahead = last.is_none_or(|last| compare(last, &next).is_lt());
        is_ahead.then_some(Some(next))
    }

    /// An integer beyond `last` from which on a scan works, and the key that it begins with.
    fn ahead(&self, last: Option<&[Owned]>) -> Option<(Owned, Option<Key>)> {
        let (least, most) = self.first_kind?.integer_range()?;
        let (least, most) = (i128::from(least), i128::from(most));
        let signed = least < 0;
        let integer = |number: i128| {
            if signed { Owned::I64(number as i64) } else { Owned::U64(number as u64) }
        };
        let works = |number: i128| self.first(&Bound::Included(vec![integer(number)])).ok();
        let start = match last.map(|last| &last[0]) {
            Some(Owned::U64(number)) => i128::from(*number),
            Some(Owned::I64(number)) => i128::from(*number),
            _ => least - 1,
        };
        let (mut bad, mut step) = (start, 1i128);
        let (mut good, mut next) = loop {
            let number = start + step;
            if number > most {
                return None;
            }
            match works(number) {
                Some(next) => break (number, next),
                None => bad = number,
            }
            step *= 2;
        };
        while good - bad > 1 {
            let middle = bad + (good - bad) / 2;
            match works(middle) {
                Some(earlier) => (good, next) = (middle, earlier),
                None => bad = middle,
            }
        }
        Some((integer(good), next))
    }

    /// Shows the tuples beyond `last` from the end backward, as far as they can be read.
    fn backward(&self, last: Option<Key>, why: &EngineError, sink: &mut dyn Sink) {
        let low = last.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let mut lowest = None::<Key>;
        // Whatever comes of it: the gap begins where the walk forward has ended.
        let _ =
            self.scan((&low, &Bound::Unbounded), Direction::Backward, None, &mut |row, sound| {
                let key = self.key_of(row);
                let is_after = last.as_ref().is_none_or(|last| compare(last, &key).is_lt());
                if is_after && lowest.as_ref().is_none_or(|lowest| compare(&key, lowest).is_lt()) {
                    sink.tuple(row, sound);
                    lowest = Some(key);
                } else {
                    sink.gap(Gap::Tuple(key), WRONG_PLACE);
                }
                ControlFlow::Continue(())
            });
        sink.gap(Gap::Between(last, lowest), &why.to_string());
    }
}

const WRONG_PLACE: &str = "its key is not the one that the index has";
