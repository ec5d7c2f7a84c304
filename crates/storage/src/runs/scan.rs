//! Range scans: the trees of all sources merged by key, or a secondary index whose entries lead to
//! primary keys.

use std::ops::{Bound, ControlFlow};

use index::{Append, BTree, Cursor, Direction};
use pm::{Bad, Memory};

use crate::error::StorageError;
use crate::lsm::change::{Coalescing, ColumnSet};
use crate::rows::key::encode_range;
use crate::rows::row::Row;
use crate::rows::value::Value;
use crate::runs::Runs;
use crate::runs::entry::Entry;
use crate::runs::keys::{RunKey, by_layout};
use crate::runs::read::{take_words, wanted};
use crate::table::tuple::{read_tuple, read_words};

/// The next key of several sources, the newest first, with the number of the newest one that has
/// it. `values` are what each of those that have it says; the cursors go past it. A source without
/// a tree has nothing.
pub(crate) fn next_of_all<K: RunKey, M: Memory>(
    memory: &M,
    trees: &[Option<&BTree<K, Append>>],
    cursors: &mut [Cursor<K>],
    direction: Direction,
    values: &mut Vec<u64>,
) -> Result<Option<(usize, K)>, Bad> {
    let mut next: Option<K> = None;
    for (cursor, tree) in cursors.iter_mut().zip(trees) {
        let Some(tree) = tree else { continue };
        if let Some((key, _)) = cursor.peek(memory, tree)?
            && next.as_ref().is_none_or(|next| match direction {
                Direction::Forward => key < next,
                Direction::Backward => key > next,
            })
        {
            next = Some(key.clone());
        }
    }
    values.clear();
    let Some(next) = next else { return Ok(None) };
    let mut newest = None;
    for (source, (cursor, tree)) in cursors.iter_mut().zip(trees).enumerate() {
        let Some(tree) = tree else { continue };
        if let Some((key, value)) = cursor.peek(memory, tree)?
            && *key == next
        {
            values.push(value);
            cursor.advance();
            newest = newest.or(Some(source));
        }
    }
    Ok(newest.map(|newest| (newest, next)))
}

/// The part of a scan that deals with each tuple.
struct Reader<'a> {
    columns: Option<&'a [u16]>,
    wanted: ColumnSet,
    row: &'a mut Row,
    visit: &'a mut dyn FnMut(&Row) -> ControlFlow<()>,
}

impl<M: Memory> Runs<M> {
    /// Calls `visit` with the tuples of a range of an index (`None` is the primary one), in order,
    /// until it breaks. The bounds may give only the first columns of the key.
    ///
    /// # Errors
    /// Wrong values, or damage.
    #[expect(clippy::too_many_arguments, reason = "a scan is all of these")]
    pub fn scan(
        &self,
        table: u16,
        index: Option<usize>,
        low: Bound<&[Value<'_>]>,
        high: Bound<&[Value<'_>]>,
        direction: Direction,
        columns: Option<&[u16]>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), StorageError> {
        let table = usize::from(table);
        let layout = self.layout(table);
        let wanted = wanted(layout, columns);
        let mut reader = Reader { columns, wanted, row, visit };
        if let Some(index) = index {
            let (low, high) = encode_range(&layout.schema, &layout.secondary[index], low, high)?;
            return by_layout!(layout.secondary[index], Form => {
                let range = (low.map(Form::of), high.map(Form::of));
                Ok(self.scan_secondary::<Form>(table, index, range, direction, &mut reader)?)
            });
        }
        let (low, high) = encode_range(&layout.schema, &layout.primary, low, high)?;
        by_layout!(layout.primary, Form => {
            let range = (low.map(Form::of), high.map(Form::of));
            Ok(self.scan_primary::<Form>(table, range, direction, &mut reader)?)
        })
    }

    fn scan_primary<K: RunKey>(
        &self,
        table: usize,
        range: (Bound<K>, Bound<K>),
        direction: Direction,
        reader: &mut Reader<'_>,
    ) -> Result<(), Bad> {
        let trees = self.sources::<K>(table)?;
        let cursor = |_| Cursor::new(range.clone(), direction);
        let mut cursors: Vec<_> = trees.iter().map(cursor).collect();
        let mut values = Vec::new();
        let memory = self.memory();
        while next_of_all(memory, &trees, &mut cursors, direction, &mut values)?.is_some() {
            if self.show(table, &values, reader)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The trees of a table in the MemTable and the runs, newest first; those that exist.
    pub(crate) fn sources<K: RunKey>(
        &self,
        table: usize,
    ) -> Result<Vec<Option<&BTree<K, Append>>>, Bad> {
        let memtable = &self.tables.tables[table].indexes[0];
        let runs = self.runs.iter().map(|run| &run.trees[table]);
        std::iter::once(memtable)
            .chain(runs)
            .map(|index| {
                let tree = K::tree(index);
                Ok(tree.exists(self.memory())?.then_some(tree))
            })
            .collect()
    }

    /// Shows the tuple whose entries, newest first, are `values`, if there is one.
    fn show(
        &self,
        table: usize,
        values: &[u64],
        reader: &mut Reader<'_>,
    ) -> Result<ControlFlow<()>, Bad> {
        let (memory, layout) = (self.memory(), self.layout(table));
        let newest = values[0];
        match Entry::decode(newest)? {
            Entry::Tombstone => return Ok(ControlFlow::Continue(())),
            Entry::Whole(tuple) => read_tuple(memory, layout, tuple, reader.columns, reader.row)?,
            Entry::Partial(_) => {
                let mut words = std::mem::take(&mut reader.row.words);
                words.clear();
                words.resize(layout.forms.len(), 0);
                let mut tuple = Coalescing::new(reader.wanted);
                for value in values {
                    take_words(memory, layout, *value, &mut tuple, &mut words)?;
                }
                let damaged = Bad::Damaged { what: "entries of a tuple", at: newest };
                tuple.finish().map_err(|_| damaged)?;
                let word = |column: usize| words[column];
                read_words(memory, layout, word, reader.columns, reader.row, newest)?;
                reader.row.words = words;
            }
        }
        Ok((reader.visit)(reader.row))
    }

    fn scan_secondary<K: RunKey>(
        &self,
        table: usize,
        index: usize,
        range: (Bound<K>, Bound<K>),
        direction: Direction,
        reader: &mut Reader<'_>,
    ) -> Result<(), Bad> {
        let layout = self.layout(table);
        let memory = self.memory();
        let tree = K::tree(&self.tables.tables[table].indexes[index + 1]);
        let end = tree.scan(memory, range, direction, |key, _| {
            let (key, mut narrow) = (key.table_key(), [0; 8]);
            let bytes = key.bytes(&mut narrow);
            let Some(bytes) = layout.secondary[index].primary_part(bytes) else {
                return ControlFlow::Break(Err(Bad::Damaged { what: "secondary index", at: 0 }));
            };
            let shown = by_layout!(layout.primary, Form => {
                let key = Form::from_encoded(bytes, layout.primary.width);
                self.show_key(table, &key, reader)
            });
            match shown {
                Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
                Ok(ControlFlow::Break(())) => ControlFlow::Break(Ok(())),
                Err(bad) => ControlFlow::Break(Err(bad)),
            }
        })?;
        match end {
            ControlFlow::Break(Err(bad)) => Err(bad),
            _ => Ok(()),
        }
    }

    fn show_key<K: RunKey>(
        &self,
        table: usize,
        key: &K,
        reader: &mut Reader<'_>,
    ) -> Result<ControlFlow<()>, Bad> {
        let Some(found) = self.live(table, key, 0)? else {
            return Err(Bad::Damaged { what: "secondary index", at: 0 });
        };
        if let Entry::Whole(tuple) = Entry::decode(found.value)? {
            read_tuple(self.memory(), self.layout(table), tuple, reader.columns, reader.row)?;
        } else {
            self.read_collected(table, key, found, reader.columns, reader.row)?;
        }
        Ok((reader.visit)(reader.row))
    }
}
