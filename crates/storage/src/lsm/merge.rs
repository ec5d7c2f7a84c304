//! Several sequences of entries as one: for scans, and for merging runs (P1 3.3).
//!
//! Each step yields the entries of one key, from the newest sequence to the oldest.
//! [`super::change`] defines what they mean together.

use std::cmp::Ordering;

use index::Direction;

use super::block::Slice;
use super::error::LsmError;
use super::record::{Encoder, KIND_TOMBSTONE, MALFORMED, Record, combine};
use super::sstable::Cursor;

/// Sequences, newest first, of which each key's entries come together.
#[derive(Debug)]
pub struct Merge<C> {
    cursors: Vec<C>,
    direction: Direction,
    /// The cursors that have the key at hand, newest first.
    here: Vec<usize>,
}

impl<C: Cursor> Merge<C> {
    /// Merges sequences, given newest first, that all go in this direction. At the first key.
    pub fn new(cursors: Vec<C>, direction: Direction) -> Self {
        let mut merge = Self { here: Vec::with_capacity(cursors.len()), cursors, direction };
        merge.find();
        merge
    }

    fn find(&mut self) {
        self.here.clear();
        let mut first: Option<&[u8]> = None;
        for (index, cursor) in self.cursors.iter().enumerate() {
            let Some(key) = cursor.key() else { continue };
            let order = match (first, self.direction) {
                (None, _) => Ordering::Less,
                (Some(first), Direction::Forward) => key.cmp(first),
                (Some(first), Direction::Backward) => first.cmp(key),
            };
            if order == Ordering::Less {
                first = Some(key);
                self.here.clear();
            }
            if order != Ordering::Greater {
                self.here.push(index);
            }
        }
    }

    /// The key at hand; `None` at the end.
    pub fn key(&self) -> Option<&[u8]> {
        self.cursors[*self.here.first()?].key()
    }

    /// The entries of the key at hand, newest first.
    ///
    /// # Errors
    /// One does not make sense.
    pub fn records(&self) -> impl Iterator<Item = Result<Record<Slice<'_>>, LsmError>> {
        self.here.iter().map(|index| {
            let (kind, body) = self.cursors[*index].entry();
            Record::parse(kind, body).ok_or_else(|| LsmError::damaged("a run", 0, MALFORMED))
        })
    }

    /// Goes on to the next key.
    ///
    /// # Errors
    /// A sequence cannot be read.
    pub fn advance(&mut self) -> Result<(), LsmError> {
        for index in &self.here {
            self.cursors[*index].advance()?;
        }
        self.find();
        Ok(())
    }

    /// The sequences.
    pub fn cursors(&self) -> &[C] {
        &self.cursors
    }

    /// The one entry that stands for those of the key at hand; its body is in `out`. `None` if
    /// nothing has to stand there: `to_bottom` says that there are no older entries, so that a
    /// tombstone hides nothing.
    ///
    /// # Errors
    /// Entries that cannot follow upon each other.
    pub fn combine(&self, to_bottom: bool, out: &mut Encoder) -> Result<Option<u8>, LsmError> {
        // Few runs are merged at once, and fewer have the same key.
        let mut records = [None; 16];
        let mut more = Vec::new();
        let mut count = 0;
        for record in self.records() {
            match records.get_mut(count) {
                Some(place) => *place = Some(record?),
                None => more.push(record?),
            }
            count += 1;
        }
        let mut stack = [records[0].expect("a key has an entry"); 16];
        for (place, record) in stack.iter_mut().zip(records.iter().flatten()) {
            *place = *record;
        }
        let kind = if more.is_empty() {
            combine(&stack[..count], out)?
        } else {
            let all: Vec<Record<Slice<'_>>> = stack.into_iter().chain(more).collect();
            combine(&all, out)?
        };
        if to_bottom {
            if kind == KIND_TOMBSTONE {
                return Ok(None);
            }
            let whole = Record::parse(kind, out.body()).is_some_and(|record| record.is_whole());
            if !whole {
                return Err(super::change::NoWhole.into());
            }
        }
        Ok(Some(kind))
    }
}
