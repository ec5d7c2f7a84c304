//! Entries: what a tree of a run has for a key.
//!
//! The value in the tree is a tagged word: an offset and what lies there. A whole tuple lies as
//! everywhere else (`docs/format/tuple.md`); a partial one is a set of columns, the key, and a word
//! for each of these columns; a tombstone is nothing but its word. A field that does not fit its
//! word lies in a slot that belongs to this entry, or, while runs are merged, to the entry of the
//! result that has the same word.

use pm::{Bad, Bytes, Memory, Off, Range, View};
use smallvec::SmallVec;

use crate::lsm::change::{Change, ColumnSet};
use crate::rows::key::TableKey;
use crate::runs::keys::{RunKey, by_layout};
use crate::table::key_of_words;
use crate::table::slots::SlotLayout;
use crate::table::words::FieldForm;
use crate::table::words::owned_slot;

const TAG: u64 = 7;
const WHOLE: u64 = 1;
const PARTIAL: u64 = 2;
/// The word of a tombstone.
pub(crate) const TOMBSTONE: u64 = 3;
/// The value of an entry of a secondary index: its key says everything.
pub(crate) const SECONDARY: u64 = 1;

/// A tree's value, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    Whole(u64),
    Partial(u64),
    Tombstone,
}

impl Entry {
    pub(crate) fn decode(word: u64) -> Result<Self, Bad> {
        match word & TAG {
            WHOLE => Ok(Self::Whole(word & !TAG)),
            PARTIAL => Ok(Self::Partial(word & !TAG)),
            _ if word == TOMBSTONE => Ok(Self::Tombstone),
            _ => Err(Bad::Damaged { what: "entry of a run", at: word }),
        }
    }

    pub(crate) fn word(self) -> u64 {
        match self {
            Self::Whole(at) => at | WHOLE,
            Self::Partial(at) => at | PARTIAL,
            Self::Tombstone => TOMBSTONE,
        }
    }

    /// The slot of the entry itself.
    pub(crate) fn slot(self) -> Option<u64> {
        match self {
            Self::Whole(at) | Self::Partial(at) => Some(at),
            Self::Tombstone => None,
        }
    }
}

/// Words of a set of columns.
fn set_words(layout: &SlotLayout) -> usize {
    layout.forms.len().div_ceil(64)
}

/// Words before the fields of a partial entry: the set of columns and the key.
pub(crate) fn head_words(layout: &SlotLayout) -> usize {
    set_words(layout) + layout.primary.width / 8
}

/// An entry whose bounds have been checked.
pub(crate) struct Fields<V> {
    view: Option<V>,
    change: Change,
    /// The index in the view at which the fields start.
    first: usize,
    at: u64,
}

impl<V: View> Fields<V> {
    /// The entry `entry` of a table.
    #[inline]
    pub(crate) fn of<'m, M: Memory<View<'m> = V>>(
        memory: &'m M,
        layout: &SlotLayout,
        entry: Entry,
    ) -> Result<Self, Bad> {
        match entry {
            Entry::Whole(at) => {
                let view = memory.view(Range::new(at, layout.tuple_bytes()))?;
                Ok(Self { view: Some(view), change: Change::Whole, first: 0, at })
            }
            Entry::Partial(at) => {
                let sets = set_words(layout);
                let head = memory.view(Range::new(at, sets as u64 * 8))?;
                let mut words = [0u64; 16];
                for (index, word) in words[..sets].iter_mut().enumerate() {
                    *word = head.word(index * 8);
                }
                let set = ColumnSet::from_words(&words[..sets]);
                let all = ColumnSet::first(layout.forms.len());
                if set.is_empty() || !set.without(&all).is_empty() {
                    return Err(Bad::Damaged { what: "columns of an entry", at });
                }
                let first = head_words(layout);
                let view = memory.view(Range::new(at, (first + set.len()) as u64 * 8))?;
                Ok(Self { view: Some(view), change: Change::Partial(set), first: first * 8, at })
            }
            Entry::Tombstone => Ok(Self { view: None, change: Change::Tombstone, first: 0, at: 0 }),
        }
    }

    pub(crate) fn change(&self) -> &Change {
        &self.change
    }

    /// Returns where in the view the word of a column stands, if the entry has it.
    #[inline]
    fn place(&self, column: u16) -> Option<usize> {
        match &self.change {
            Change::Whole => Some(usize::from(column) * 8),
            Change::Partial(set) if set.contains(column) => Some(self.first + set.rank(column) * 8),
            _ => None,
        }
    }

    /// Returns where the word of a column stands, if the entry has it.
    pub(crate) fn cell(&self, column: u16) -> Option<Off<u64>> {
        self.place(column).map(|place| Off::new(self.at + place as u64))
    }

    /// The word of a column, if the entry has it.
    #[inline]
    pub(crate) fn word(&self, column: u16) -> Option<u64> {
        Some(self.view.as_ref()?.word(self.place(column)?))
    }

    /// The checksum of the entry's own slot.
    pub(crate) fn checksum(&self, layout: &SlotLayout) -> u32 {
        let words = self.bytes(layout).arrays::<8>();
        words.fold(0, |sum, word| crc32c::crc32c_append(sum, &word))
    }

    /// All bytes of the entry's own slot.
    pub(crate) fn bytes(&self, layout: &SlotLayout) -> Bytes<'_> {
        let words = match &self.change {
            Change::Whole => layout.forms.len(),
            Change::Partial(set) => self.first / 8 + set.len(),
            Change::Tombstone => 0,
        };
        self.view.as_ref().map_or(Bytes::default(), |view| view.bytes(0, words * 8))
    }
}

/// The words of a partial entry: columns `set`, of which `words` has the words by column.
pub(crate) fn partial_words(
    layout: &SlotLayout,
    set: &ColumnSet,
    key: &impl RunKey,
    words: &[u64],
    out: &mut Vec<u64>,
) {
    out.clear();
    out.extend_from_slice(set.words(layout.forms.len()));
    key.push_words(out);
    out.extend(set.iter().map(|column| words[usize::from(column)]));
}

/// The key of an entry that has a slot.
pub(crate) fn key_of_entry<M: Memory>(
    memory: &M,
    layout: &SlotLayout,
    entry: Entry,
) -> Result<TableKey, Bad> {
    let fields = Fields::of(memory, layout, entry)?;
    match entry {
        Entry::Whole(at) => key_of_words(memory, layout, &layout.primary, |column| {
            fields.word(column).ok_or(Bad::Damaged { what: "entry of a run", at })
        }),
        Entry::Partial(_) => {
            let start = set_words(layout) * 8;
            let stored = fields.bytes(layout).get(start, layout.primary.width);
            let stored = stored.ok_or(Bad::Damaged { what: "entry of a run", at: start as u64 })?;
            let mut key: SmallVec<[u8; 256]> = SmallVec::from_elem(0, stored.len());
            stored.copy_to(&mut key);
            Ok(by_layout!(layout.primary, Form => {
                Form::from_stored(&key, layout.primary.width).table_key()
            }))
        }
        Entry::Tombstone => Err(Bad::Damaged { what: "key of a tombstone", at: 0 }),
    }
}

/// The bytes of the slots that belong to the entry `word`.
pub(crate) fn owned_bytes<M: Memory>(
    memory: &M,
    layout: &SlotLayout,
    word: u64,
) -> Result<u64, Bad> {
    let mut owned = 0;
    owned_apart(memory, layout, word, 0, |_, bytes| owned += bytes)?;
    Ok(owned)
}

/// Calls `visit` with each slot, and how many bytes of it count, that belongs to the entry `word`
/// and not to the entry `other` of the same key; zero is no entry.
pub(crate) fn owned_apart<M: Memory>(
    memory: &M,
    layout: &SlotLayout,
    word: u64,
    other: u64,
    mut visit: impl FnMut(u64, u64),
) -> Result<(), Bad> {
    if word == 0 || word == other {
        return Ok(());
    }
    let entry = Entry::decode(word)?;
    let Some(slot) = entry.slot() else { return Ok(()) };
    let fields = Fields::of(memory, layout, entry)?;
    let kept = match other {
        0 => None,
        _ => Some(Fields::of(memory, layout, Entry::decode(other)?)?),
    };
    for (column, form) in layout.forms.iter().enumerate() {
        if *form != FieldForm::Slot {
            continue;
        }
        let column = column as u16;
        let Some(field) = fields.word(column) else { continue };
        if kept.as_ref().and_then(|kept| kept.word(column)) == Some(field) {
            continue;
        }
        if let Some(owned) = owned_slot(*form, field) {
            visit(owned, crate::table::words::slot_range(field).len);
        }
    }
    visit(slot, fields.bytes(layout).len() as u64);
    Ok(())
}
