//! The structures of a store that follow from its rows, its indexes: where each lies, which is chosen when the store
//! is made (P4 4.3), and how often it is used.
//!
//! Uses are counted in ordinary memory, and stored now and then, as a hint: whatever a crash leaves of them is
//! sound. An opening halves them, so that what was used lately counts for more, and builds the most used structures
//! first.

use std::cmp::Reverse;
use std::collections::BTreeSet;
// A count that is no word between threads: tests of interleavings do not schedule it.
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use pm::{LineSet, Memory, Off};

use crate::Result;
use crate::error::ColumnError;
use crate::layout::{Form, Options, uses_at};
use crate::store::{Shared, Store};
use crate::table::Table;

/// A part of a table that follows from its rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Part {
    /// The index of keys with this number; 0 is that of the primary key.
    Keys(usize),
    /// The index of the dictionary of this column.
    Dictionary(usize),
}

/// A structure that follows from the rows of a table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Structure {
    /// The number of the table.
    pub table: usize,
    /// The part of it.
    pub part: Part,
}

/// The state of a structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StructureState {
    /// The structure.
    pub structure: Structure,
    /// Its form, which says whether it lies in persistent memory.
    pub form: Form,
    /// Rows or values that were there when the store was opened and are not in it yet.
    pub waiting: u64,
    /// Keys or values in it, if it lies in ordinary memory.
    pub built: u64,
    /// Searches, about: those before an opening count half.
    pub uses: u64,
}

/// A choice of structures that lie in persistent memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement<'a> {
    /// So many as [`Options::durable_percent`] says, the first ones.
    Percent,
    /// These.
    Chosen(&'a [Structure]),
}

impl Placement<'_> {
    /// Returns the form of each structure of tables with so many indexes and columns, in the order in which a table has
    /// them.
    ///
    /// # Errors
    /// There is no such structure.
    pub(crate) fn forms(
        self,
        options: &Options,
        counts: &[(usize, usize)],
    ) -> Result<Vec<Vec<Form>>> {
        let all: usize = counts.iter().map(|(indexes, columns)| indexes + columns).sum();
        let durable = match self {
            Self::Percent => all as u64 * u64::from(options.durable_percent) / 100,
            Self::Chosen(_) => 0,
        };
        let form = |number: usize, indexes: usize| match number < indexes || !options.hashed {
            true => Form::SkipList,
            false => Form::HashTable,
        };
        let mut numbers = 0..durable;
        let mut place = |(indexes, columns): &(usize, usize)| {
            let of = |number| numbers.next().map_or(Form::Ordinary, |_| form(number, *indexes));
            (0..indexes + columns).map(of).collect()
        };
        let mut forms: Vec<Vec<Form>> = counts.iter().map(&mut place).collect();
        let Self::Chosen(chosen) = self else { return Ok(forms) };
        for structure in chosen {
            let missing = || ColumnError::Options { what: format!("no {structure:?}") };
            let (indexes, columns) = *counts.get(structure.table).ok_or_else(missing)?;
            let (number, is_there) = match structure.part {
                Part::Keys(index) => (index, index < indexes),
                Part::Dictionary(column) => (indexes + column, column < columns),
            };
            let place = is_there.then(|| &mut forms[structure.table][number]);
            *place.ok_or_else(missing)? = form(number, indexes);
        }
        Ok(forms)
    }
}

/// The number of searches of a structure, about: of two threads' at the same time one may be lost.
#[derive(Debug, Default)]
pub(crate) struct Uses(AtomicU64);

impl Uses {
    /// The count of a structure of which so many had been stored.
    pub(crate) fn opened(stored: u64) -> Self {
        Self(AtomicU64::new(stored / 2))
    }

    #[inline]
    pub(crate) fn count(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl<M: Memory> Table<M> {
    /// Its structures, in the order in which it has them in memory.
    fn states(&self) -> Vec<StructureState> {
        let keys = self.indexes.iter().enumerate().map(|(number, index)| {
            let index = index.read();
            let (waiting, built) = (index.unbuilt - 1, index.len() as u64);
            let form = if index.is_durable() { Form::SkipList } else { Form::Ordinary };
            (Part::Keys(number), form, waiting, built, index.uses.get())
        });
        let dictionaries = self.columns.iter().enumerate().map(|(number, column)| {
            let index = column.index.read();
            let (waiting, built) = (index.unbuilt - 1, index.len() as u64);
            (Part::Dictionary(number), index.form(), waiting, built, index.uses.get())
        });
        let state = |(part, form, waiting, built, uses)| {
            let structure = Structure { table: self.number, part };
            StructureState { structure, form, waiting, built, uses }
        };
        keys.chain(dictionaries).map(state).collect()
    }
}

impl<M: Memory> Shared<M> {
    /// The structures that have to be built, in the order in which that is done: those of the tables of transactions
    /// in flight, the most used ones first; of the same use those of the first table, its dictionaries before its
    /// keys.
    pub(crate) fn order_of_building(&self) -> Vec<Structure> {
        let wanted: BTreeSet<u64> =
            self.recovered.values().flat_map(|rows| rows.keys()).map(|(table, _)| *table).collect();
        let mut order: Vec<StructureState> =
            self.tables.iter().flat_map(Table::states).filter(|state| state.waiting > 0).collect();
        order.sort_by_key(|state| {
            let Structure { table, part } = state.structure;
            let is_wanted = wanted.contains(&self.tables[table].at);
            let is_keys = matches!(part, Part::Keys(_));
            (!is_wanted, Reverse(state.uses), table, is_keys)
        });
        order.into_iter().map(|state| state.structure).collect()
    }
}

impl<M: Memory> Store<M> {
    /// The structures that follow from the rows, in the order of the tables; of each those of keys first.
    pub fn structures(&self) -> Vec<StructureState> {
        self.0.tables.iter().flat_map(Table::states).collect()
    }

    /// Prepares for the end of the process: stores how often each structure was used, and gives back ids that were
    /// reserved and not used. Afterwards the store can be used as before.
    #[track_caller]
    pub fn close(&self) {
        self.note_uses();
        let (memory, mut lines) = (&self.0.memory, LineSet::new());
        for table in &self.0.tables {
            let columns = table.columns.iter().flat_map(|column| [&column.ids, &column.bytes.ids]);
            for ids in columns.chain([&table.ids]) {
                ids.unreserve(memory, &mut lines);
            }
        }
        if !lines.is_empty() {
            lines.flush(memory);
            memory.fence();
        }
    }

    /// Stores how often each structure was used, for the next opening. Flushed, and not fenced: it is a hint.
    pub fn note_uses(&self) {
        let memory = &self.0.memory;
        let mut lines = LineSet::new();
        for table in &self.0.tables {
            for (number, state) in (0..).zip(table.states()) {
                let at = table.at + uses_at(table.columns.len() as u64, number);
                memory.store(Off::<u64>::new(at), state.uses);
                lines.add(Off::<u64>::new(at).range());
            }
        }
        lines.flush(memory);
    }
}
