//! Entries of a table's indexes, whichever form their keys have.

use heap::Lane;
use index::{BTree, IndexError, LeafLayout, LongKey, NodeShape, Prepared, WIDE_KEY_BYTES, WideKey};
use pm::{Bad, Bytes, Component, Durable, LineSet, Memory, Off, observe};

use crate::error::StorageError;
use crate::rows::catalog::{KeyLayout, TableLayout};
use crate::rows::key::{TableKey, key_of_fields, packed_words};
use crate::table::slots::SlotLayout;
use crate::table::words::FieldForm;
use crate::table::words::{short_bytes, slot_range};

/// The largest node of an index.
const MAX_NODE_BYTES: u32 = 16 << 10;

/// Returns the shape of the nodes of a B+tree with such keys: of `node_bytes`, or more where the
/// keys are wide. A node of wide keys has room for a dozen of them at least; for the widest that is
/// more than a node can have, and at least seven do.
///
/// # Errors
/// No node can have so many bytes.
pub(crate) fn node_shape(key: &KeyLayout, node_bytes: u32) -> Result<NodeShape, IndexError> {
    let width = key.width as u32;
    let wanted = (24 + 12 * (width + 8)).next_power_of_two().min(MAX_NODE_BYTES);
    let node_bytes = if key.narrow { node_bytes } else { node_bytes.max(wanted) };
    NodeShape::new(node_bytes, width)
}

/// An index of a table, with the fast path for keys of one number.
#[derive(Debug)]
pub(crate) enum TableIndex<L> {
    Narrow(BTree<u64, L>),
    Wide(BTree<WideKey, L>),
    Long(BTree<LongKey, L>),
}

impl<L: LeafLayout> TableIndex<L> {
    /// The index whose root pointer lives at `cell`. Reads nothing.
    pub(crate) fn open(cell: Off<u64>, key: &KeyLayout, shape: NodeShape) -> Self {
        if key.narrow {
            Self::Narrow(BTree::open(cell, shape))
        } else if key.is_long() {
            Self::Long(BTree::open(cell, shape))
        } else {
            Self::Wide(BTree::open(cell, shape))
        }
    }

    /// Another index of such keys and nodes, whose root pointer lives at `cell`. Reads nothing.
    pub(crate) fn open_like(&self, cell: Off<u64>) -> Self {
        match self {
            Self::Narrow(tree) => Self::Narrow(BTree::open(cell, *tree.shape())),
            Self::Wide(tree) => Self::Wide(BTree::open(cell, *tree.shape())),
            Self::Long(tree) => Self::Long(BTree::open(cell, *tree.shape())),
        }
    }

    /// Creates the index, empty, whose root pointer will live at `cell`.
    pub(crate) fn create<M: Memory>(
        lane: &mut Lane<M>,
        cell: Off<u64>,
        key: &KeyLayout,
        shape: NodeShape,
    ) -> Result<Self, IndexError> {
        Ok(if key.narrow {
            Self::Narrow(BTree::create(lane, cell, shape)?)
        } else if key.is_long() {
            Self::Long(BTree::create(lane, cell, shape)?)
        } else {
            Self::Wide(BTree::create(lane, cell, shape)?)
        })
    }

    /// Returns where the root pointer lives.
    pub(crate) fn root_cell(&self) -> Off<u64> {
        match self {
            Self::Narrow(tree) => tree.root_cell(),
            Self::Wide(tree) => tree.root_cell(),
            Self::Long(tree) => tree.root_cell(),
        }
    }

    /// The sizes of its nodes.
    pub(crate) fn shape(&self) -> &NodeShape {
        match self {
            Self::Narrow(tree) => tree.shape(),
            Self::Wide(tree) => tree.shape(),
            Self::Long(tree) => tree.shape(),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the key of a bound is used up")]
pub(crate) fn narrow(key: TableKey) -> u64 {
    match key {
        TableKey::Narrow(key) => key,
        _ => unreachable!("a key has the form of its index"),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the key of a bound is used up")]
pub(crate) fn wide(key: TableKey) -> WideKey {
    match key {
        TableKey::Wide(key) => key,
        _ => unreachable!("a key has the form of its index"),
    }
}

pub(crate) fn long(key: TableKey) -> LongKey {
    match key {
        TableKey::Long(key) => key,
        _ => unreachable!("a key has the form of its index"),
    }
}

#[inline]
#[track_caller]
pub(crate) fn publish_entry<M: Memory, L: LeafLayout>(
    index: &mut TableIndex<L>,
    memory: &M,
    entry: Durable<Prepared>,
    lines: &mut LineSet,
) -> Result<(), Bad> {
    observe!(M: memory.enter(Component::Index));
    match index {
        TableIndex::Narrow(tree) => tree.publish(memory, entry, lines),
        TableIndex::Wide(tree) => tree.publish(memory, entry, lines),
        TableIndex::Long(tree) => tree.publish(memory, entry, lines),
    }
}

/// Writes an index entry for the tuple at `offset`, whose words are `words`.
#[inline]
#[track_caller]
pub(crate) fn prepare_for_words<M: Memory, L: LeafLayout>(
    lane: &mut Lane<M>,
    lines: &mut LineSet,
    layout: &SlotLayout,
    (index, tree): (usize, &mut TableIndex<L>),
    words: &[u64],
    offset: u64,
) -> Result<Prepared, StorageError> {
    let keys = layout.key_layout(index);
    if let TableIndex::Narrow(tree) = tree {
        let key = packed_words(keys, words);
        return duplicate(layout, tree.prepare(lane, key, offset, lines));
    }
    let key = key_of_words(lane.memory(), layout, keys, |column| Ok(words[usize::from(column)]))?;
    prepare_entry(lane, lines, layout, tree, &key, offset)
}

/// Writes an index entry that does not count yet. The caller has settled removals.
#[inline]
#[track_caller]
pub(crate) fn prepare_entry<M: Memory, L: LeafLayout>(
    lane: &mut Lane<M>,
    lines: &mut LineSet,
    layout: &SlotLayout,
    index: &mut TableIndex<L>,
    key: &TableKey,
    tuple: u64,
) -> Result<Prepared, StorageError> {
    Ok(match (index, key) {
        (TableIndex::Narrow(tree), TableKey::Narrow(key)) => {
            duplicate(layout, tree.prepare(lane, *key, tuple, lines))?
        }
        (TableIndex::Wide(tree), TableKey::Wide(key)) => {
            duplicate(layout, tree.prepare(lane, *key, tuple, lines))?
        }
        (TableIndex::Long(tree), TableKey::Long(key)) => {
            duplicate(layout, tree.prepare(lane, key.clone(), tuple, lines))?
        }
        _ => unreachable!("a key has the form of its index"),
    })
}

fn duplicate<T>(layout: &TableLayout, prepared: Result<T, IndexError>) -> Result<T, StorageError> {
    prepared.map_err(|error| match error {
        IndexError::Duplicate { .. } => {
            StorageError::DuplicateKey { table: layout.schema.name().into() }
        }
        other => other.into(),
    })
}

/// The key of a tuple whose words `word` gives.
pub(crate) fn key_of_words<M: Memory>(
    memory: &M,
    layout: &SlotLayout,
    key: &KeyLayout,
    word: impl FnMut(u16) -> Result<u64, Bad>,
) -> Result<TableKey, Bad> {
    key_of_fields(key, word, |column, word, builder, max| {
        if layout.forms[usize::from(column)] == FieldForm::Short {
            let (bytes, len) = short_bytes(word);
            builder.bytes(max, Bytes::from(&bytes[..len.min(max as usize)]));
            return Ok(());
        }
        let range = slot_range(word);
        if range.len > u64::from(max) {
            return Err(Bad::Damaged { what: "field length", at: range.start });
        }
        if range.len > WIDE_KEY_BYTES as u64 {
            let mut bytes = vec![0; range.len as usize];
            memory.read_into(Off::new(range.start), &mut bytes)?;
            builder.bytes(max, Bytes::from(&bytes));
            return Ok(());
        }
        let mut bytes = [0u8; WIDE_KEY_BYTES];
        let bytes = &mut bytes[..range.len as usize];
        memory.read_into(Off::new(range.start), bytes)?;
        builder.bytes(max, Bytes::from(&*bytes));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::catalog::Catalog;
    use crate::rows::schema::{Schema, TableSchema};
    use crate::rows::value::ColumnType;

    fn catalog(text: u32) -> Catalog {
        let table = TableSchema::new("t")
            .column("id", ColumnType::U64)
            .column("text", ColumnType::Text { max: text })
            .key(&["id"])
            .index("by_text", &["text"]);
        Catalog::new(&Schema::new().table(table)).unwrap()
    }

    #[test]
    fn nodes_of_wide_keys_are_larger_than_the_others() {
        let of = |text, index, node_bytes| {
            let catalog = catalog(text);
            let shape = node_shape(catalog.tables[0].key_layout(index), node_bytes).unwrap();
            (shape.node_bytes, shape.leaf_capacity)
        };
        assert_eq!(of(20, 0, 64), (64, 3));
        assert_eq!(of(20, 1, 64), (512, 12));
        assert_eq!(of(20, 1, 4096).0, 4096);
        // The key's column, its length, the primary key.
        assert_eq!(of(1022, 1, 512), (16 << 10, 15));
    }

    #[test]
    fn a_size_that_no_node_can_have_is_refused() {
        let catalog = catalog(20);
        for impossible in [0, 32, 100, 32 << 10] {
            let refused = node_shape(catalog.tables[0].key_layout(0), impossible);
            let refused = StorageError::from(refused.unwrap_err()).to_string();
            let expected = format!("nodes of {impossible} bytes cannot hold keys of 8 bytes");
            assert_eq!(refused, expected);
        }
    }
}
