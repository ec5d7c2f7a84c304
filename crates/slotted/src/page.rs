//! A page as a transaction sees it: records from the memory, offsets from the committed header or
//! from the transaction's draft.

use std::cmp::Ordering;

use pm::{Bad, View};

use crate::draft::Draft;
use crate::header::{Check, Header, Kind};
use crate::layout::{LINE, SLOT, WORD};
use crate::record::{In, Inner, Leaf};
use crate::space::{self, Used};

/// A page with its offsets.
#[derive(Debug)]
pub struct Node<'a, V> {
    view: V,
    /// The place of the page, for errors.
    pub here: In,
    /// The kind of the page.
    pub kind: Kind,
    /// The number of its records.
    pub count: usize,
    slots_at: usize,
    draft: Option<&'a Draft>,
}

/// The committed header of the page that a view is of, and where it stands.
///
/// # Errors
/// There is none, or it has impossible fields.
pub fn committed<V: View>(view: &V, here: In) -> Result<(Header, usize), Bad> {
    let damaged = Bad::Damaged { what: "page header", at: here.page };
    let (mut header, mut at) = Header::choose(view.word(0), view.word(LINE)).ok_or(damaged)?;
    if header.kind == Kind::Checked && !is_whole(view, here, header, at) {
        // The commit that stored it was cut off; the line before was durable.
        at = LINE - at;
        header = Header::decode(view.word(at))
            .filter(|older| older.kind == Kind::Checked)
            .ok_or(damaged)?;
    }
    let count = usize::from(header.count);
    if header.kind == Kind::Overflow
        || count > header.kind.most_slots(here.bytes)
        || usize::from(header.free) + header.kind.header_bytes(count) > here.bytes
    {
        return Err(damaged);
    }
    Ok((header, at))
}

/// Returns whether a line, and the record that it was the first to lead to, are as they were
/// stored.
fn is_whole<V: View>(view: &V, here: In, header: Header, at: usize) -> bool {
    let line = view.bytes(at, LINE).array(0);
    let check = Check::of(&line);
    if check.epoch == 0 || check.epoch == here.epoch {
        return true;
    }
    let record = match check.newest {
        None => Vec::new(),
        Some(index)
            if index < usize::from(header.count).min(header.kind.most_slots(here.bytes)) =>
        {
            let slot = WORD + SLOT * index;
            let slot = u16::from_le_bytes([line[slot], line[slot + 1]]);
            match here.record_bytes(view, header.kind, slot) {
                Ok(len) => view.bytes(usize::from(slot), len).to_vec(),
                Err(_) => return false,
            }
        }
        Some(_) => return false,
    };
    Check::matches(&line, &record)
}

impl<'a, V: View> Node<'a, V> {
    /// The page of a view: as its draft has it, or as it is committed if it has no draft.
    ///
    /// # Errors
    /// As [`committed`].
    pub fn new(view: V, here: In, draft: Option<&'a Draft>) -> Result<Self, Bad> {
        if let Some(draft) = draft {
            let (kind, count) = (draft.kind, draft.slots.len());
            return Ok(Self { view, here, kind, count, slots_at: 0, draft: Some(draft) });
        }
        let (header, at) = committed(&view, here)?;
        let (kind, count) = (header.kind, usize::from(header.count));
        Ok(Self { view, here, kind, count, slots_at: at + WORD, draft: None })
    }

    /// The offset of a record.
    pub fn slot(&self, index: usize) -> u16 {
        match self.draft {
            Some(draft) => draft.slots[index],
            None => {
                u16::from_le_bytes(self.view.bytes(self.slots_at + SLOT * index, SLOT).array(0))
            }
        }
    }

    /// All offsets.
    pub fn slots(&self) -> Vec<u16> {
        (0..self.count).map(|index| self.slot(index)).collect()
    }

    /// A record of a leaf.
    ///
    /// # Errors
    /// It is damaged.
    pub fn leaf(&self, index: usize) -> Result<Leaf<'_>, Bad> {
        self.here.leaf(&self.view, self.slot(index))
    }

    /// A record of an inner page, with the child that it will have.
    ///
    /// # Errors
    /// It is damaged.
    pub fn inner(&self, index: usize) -> Result<Inner<'_>, Bad> {
        let at = self.slot(index);
        let inner = self.here.inner(&self.view, at)?;
        let child = self.draft.and_then(|draft| draft.child(at)).unwrap_or(inner.child);
        Ok(Inner { child, ..inner })
    }

    /// Bytes of a record.
    ///
    /// # Errors
    /// It is damaged.
    pub fn record_bytes(&self, index: usize) -> Result<usize, Bad> {
        self.here.record_bytes(&self.view, self.kind, self.slot(index))
    }

    /// The bytes of a record, in an inner page with the child that it will have.
    ///
    /// # Errors
    /// It is damaged.
    pub fn record(&self, index: usize) -> Result<Vec<u8>, Bad> {
        let len = self.record_bytes(index)?;
        let mut record = self.view.bytes(usize::from(self.slot(index)), len).to_vec();
        if !self.kind.is_leaf() {
            record[..WORD].copy_from_slice(&self.inner(index)?.child.to_le_bytes());
        }
        Ok(record)
    }

    fn order(&self, index: usize, key: &[u8]) -> Result<Ordering, Bad> {
        Ok(if self.kind.is_leaf() {
            self.leaf(index)?.key.compare(key)
        } else {
            self.inner(index)?.key.map_or(Ordering::Greater, |bound| bound.compare(key))
        })
    }

    /// Searches the key among the records: `Ok` with the index of its record, `Err` with that of
    /// the first record above it.
    ///
    /// # Errors
    /// A record is damaged.
    pub fn find(&self, key: &[u8]) -> Result<Result<usize, usize>, Bad> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            match self.order(middle, key)? {
                Ordering::Equal => return Ok(Ok(middle)),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Ok(Err(low))
    }

    /// The index of the child of an inner page that has the key, if it is anywhere.
    ///
    /// # Errors
    /// A record is damaged, or no child may have the key.
    pub fn child_of(&self, key: &[u8]) -> Result<usize, Bad> {
        let (Ok(index) | Err(index)) = self.find(key)?;
        if index == self.count {
            return Err(Bad::Damaged { what: "bound of an inner page", at: self.here.page });
        }
        Ok(index)
    }

    /// Returns where a record of `len` bytes goes in the page of a draft: into the gap, or else
    /// into a hole. `more` offsets are added for it.
    ///
    /// # Errors
    /// A record is damaged.
    pub fn room(&self, draft: &Draft, len: usize, more: usize) -> Result<Option<usize>, Bad> {
        if more > 0 && !draft.has_slot() {
            return Ok(None);
        }
        if let Some(at) = draft.in_gap(len, more) {
            return Ok(Some(at));
        }
        if !draft.may_have_hole(len, more) {
            return Ok(None);
        }
        let mut used = Vec::new();
        for at in draft.taken() {
            let bytes = self.here.record_bytes(&self.view, self.kind, at)?;
            used.push(Used { at: usize::from(at), len: bytes });
        }
        Ok(space::hole(&mut used, self.here.bytes, len, self.kind.align()))
    }
}
