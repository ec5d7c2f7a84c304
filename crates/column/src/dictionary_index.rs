//! The index of a dictionary: a map from a value's hash to its id. It lies in ordinary memory, and is rebuilt
//! after opening, from the newest id down; or it lies in persistent memory, and needs no rebuilding.
//!
//! Values that share a hash have the following numbers. Nothing is ever removed.
//!
//! In persistent memory, an id enters the index, durably, before its value is stored, so a value that is there can
//! be found. A crash, or a full memory, may leave an id without a value; the next value with that place takes the
//! place over.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use heap::Lane;
use pm::{LineSet, Memory};

use crate::Result;
use crate::hash_table::HashTable;
use crate::latch::Latch;
use crate::layout::Form;
use crate::placement::Uses;
use crate::skip_list::SkipList;
use crate::unbuilt::IndexBacklog;

#[derive(Debug)]
enum Ids<M> {
    Ordinary(HashMap<u64, u32, RandomState>),
    Durable(Nodes<M>),
}

/// An index in persistent memory, in one of its forms.
#[derive(Debug)]
pub(crate) enum Nodes<M> {
    List(SkipList<M>),
    Table(Box<HashTable<M>>),
}

impl<M: Memory> Nodes<M> {
    fn memory(&self) -> &M {
        match self {
            Self::List(list) => list.memory(),
            Self::Table(table) => table.memory(),
        }
    }

    fn find(&self, place: u64) -> Result<Option<u64>> {
        match self {
            Self::List(list) => list.find(&place.to_be_bytes()),
            Self::Table(table) => table.find(&place.to_be_bytes()),
        }
    }

    /// The id of a node; an impossible one has no value.
    fn id(&self, node: u64) -> Result<u32> {
        let row = match self {
            Self::List(list) => list.row(node)?,
            Self::Table(table) => table.row(node)?,
        };
        Ok(u32::try_from(row).unwrap_or(0))
    }

    #[track_caller]
    fn store_id(&self, node: u64, id: u32, lines: &mut LineSet) {
        match self {
            Self::List(list) => list.store_row(node, id.into(), lines),
            Self::Table(table) => table.store_row(node, id.into(), lines),
        }
    }

    #[track_caller]
    fn prepare(&self, place: u64, lane: &mut Lane<M>, lines: &mut LineSet) -> Result<u64> {
        match self {
            Self::List(list) => list.prepare(&place.to_be_bytes(), lane, lines),
            Self::Table(table) => table.prepare(&place.to_be_bytes(), lane, lines),
        }
    }

    fn link(&self, node: u64, lane: &mut Lane<M>) -> Result<()> {
        match self {
            Self::List(list) => list.link(node, lane),
            Self::Table(table) => table.link(node, lane),
        }
    }

    /// Looks at all of it; calls `visit` with each object.
    pub(crate) fn check(&self, visit: impl FnMut(u64)) -> Result<()> {
        match self {
            Self::List(list) => list.check(visit),
            Self::Table(table) => table.check(visit),
        }
    }
}

#[derive(Debug)]
pub(crate) struct DictionaryIndex<M> {
    ids: Ids<M>,
    /// The ids from 1 to below this one are not in it.
    pub(crate) unbuilt: u64,
    pub(crate) uses: Uses,
    /// The backlog of searches among the ids that are not in it.
    pub(crate) backlog: IndexBacklog,
    /// Bits of the ids whose values are known to be durable.
    durable: Vec<u64>,
}

impl<M: Memory> DictionaryIndex<M> {
    /// An empty index in ordinary memory, of a dictionary that had `opened` ids.
    pub(crate) fn ordinary(opened: u64, uses: Uses) -> Self {
        let ids = Ids::Ordinary(HashMap::default());
        let backlog = IndexBacklog::default();
        Self { ids, unbuilt: opened.max(1), uses, backlog, durable: Vec::new() }
    }

    /// The index that lies in persistent memory.
    pub(crate) fn durable(nodes: Nodes<M>, uses: Uses) -> Self {
        let backlog = IndexBacklog::default();
        Self { ids: Ids::Durable(nodes), unbuilt: 1, uses, backlog, durable: Vec::new() }
    }

    /// The nodes, if the index lies in persistent memory.
    pub(crate) fn nodes(&self) -> Option<&Nodes<M>> {
        match &self.ids {
            Ids::Ordinary(_) => None,
            Ids::Durable(nodes) => Some(nodes),
        }
    }

    pub(crate) fn form(&self) -> Form {
        match self.nodes() {
            None => Form::Ordinary,
            Some(Nodes::List(_)) => Form::SkipList,
            Some(Nodes::Table(_)) => Form::HashTable,
        }
    }

    /// The id at a place.
    fn get(&self, place: u64) -> Result<Option<u32>> {
        match &self.ids {
            Ids::Ordinary(ids) => Ok(ids.get(&place).copied()),
            Ids::Durable(nodes) => nodes.find(place)?.map(|node| nodes.id(node)).transpose(),
        }
    }

    /// The id with this hash that `is_it` accepts.
    pub(crate) fn find(
        &self,
        hash: u64,
        mut is_it: impl FnMut(u32) -> Result<bool>,
    ) -> Result<Option<u32>> {
        self.uses.count();
        let mut place = hash;
        while let Some(id) = self.get(place)? {
            if is_it(id)? {
                return Ok(Some(id));
            }
            place = place.wrapping_add(1);
        }
        Ok(None)
    }

    /// Adds the id of a new value, which is about to be stored, to an index in persistent memory, durably.
    /// `has_value` returns whether another id has a value.
    pub(crate) fn announce(
        &mut self,
        hash: u64,
        id: u32,
        lane: &Latch<Lane<M>>,
        has_value: impl Fn(u32) -> Result<bool>,
    ) -> Result<()> {
        let Ids::Durable(nodes) = &self.ids else { return Ok(()) };
        let memory = nodes.memory();
        let (mut place, mut lines) = (hash, LineSet::new());
        while let Some(node) = nodes.find(place)? {
            let other = nodes.id(node)?;
            if other == 0 || !has_value(other)? {
                nodes.store_id(node, id, &mut lines);
                lines.flush(memory);
                memory.fence();
                return Ok(());
            }
            place = place.wrapping_add(1);
        }
        let mut lane = lane.write();
        let node = nodes.prepare(place, &mut lane, &mut lines)?;
        nodes.store_id(node, id, &mut lines);
        // Flushed here and not with the record: another session may store a neighbour's row in one of these lines
        // at any time.
        lines.flush(memory);
        memory.fence();
        if let Err(error) = nodes.link(node, &mut lane) {
            lane.mini_cancel();
            return Err(error);
        }
        lane.mini_commit(&mut LineSet::new());
        lane.fence_flushed();
        Ok(())
    }

    /// Adds an id, whose value is stored, to an index in ordinary memory.
    pub(crate) fn add(&mut self, hash: u64, id: u32) {
        let Ids::Ordinary(ids) = &mut self.ids else { return };
        let mut place = hash;
        while ids.contains_key(&place) {
            place = place.wrapping_add(1);
        }
        ids.insert(place, id);
    }

    /// The number of values in it, if it lies in ordinary memory.
    pub(crate) fn len(&self) -> usize {
        match &self.ids {
            Ids::Ordinary(ids) => ids.len(),
            Ids::Durable(_) => 0,
        }
    }

    pub(crate) fn is_durable(&self, id: u32) -> bool {
        let word = self.durable.get(id as usize / 64);
        word.is_some_and(|word| word & 1 << (id % 64) != 0)
    }

    pub(crate) fn set_durable(&mut self, id: u32) {
        let word = id as usize / 64;
        if self.durable.len() <= word {
            self.durable.resize(word + 1, 0);
        }
        self.durable[word] |= 1 << (id % 64);
    }
}
