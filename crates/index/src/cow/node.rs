//! Reading a node: sorted records, either packed (keys and values of fixed widths, one after the
//! other) or slotted (any lengths, found by a slot each).
//!
//! Records of an inner node have a child as their value. The key of a record is at most every key
//! below it and greater than every key below the record before; that of the first record is not
//! looked at.

use std::cmp::Ordering;

use pm::{Bad, Bytes, View};

use crate::error::IndexError;
use crate::pages::page::{
    Header, KIND_PACKED, KIND_SLOTTED, MAX_PAGE_BYTES, MIN_PAGE_BYTES, PAGE_HEADER_BYTES,
};

/// Bytes of a slot.
pub(crate) const SLOT_BYTES: usize = 2;
/// Bytes before the key of a slotted record: the lengths of key and value.
pub(crate) const RECORD_HEADER_BYTES: usize = 6;
/// The bit in a value's length that says: the value is the place of a chain of overflow pages.
const OVERFLOW: u32 = 1 << 31;
/// Bytes of a child's number.
const CHILD_BYTES: usize = 8;

/// The ways in which the records of a tree lie in its pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Records {
    /// All keys have one width, and all values have one: no slots, no lengths.
    Packed {
        /// Bytes of a key.
        key_bytes: u16,
        /// Bytes of a value.
        value_bytes: u16,
    },
    /// Keys and values of any length.
    Slotted,
}

/// The things that are fixed for a tree: the size of its pages, and how records lie in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeShape {
    pub(crate) page_bytes: u32,
    pub(crate) records: Records,
    /// True if a leaf's value can be too long for it.
    pub(crate) overflow: bool,
}

/// The value of a leaf's record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stored<'a> {
    Inline(Bytes<'a>),
    Overflow { bytes: u64, first: u64 },
}

/// A value that is being put into a record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NewValue<'a> {
    Inline(&'a [u8]),
    Overflow { bytes: u64, first: u64 },
    Child(u64),
}

impl TreeShape {
    /// The shape of a tree whose keys have at most `max_key_bytes` bytes.
    ///
    /// # Errors
    /// The page has an impossible size, or cannot hold four of these keys with a child each.
    pub fn new(page_bytes: u32, records: Records, max_key_bytes: u32) -> Result<Self, IndexError> {
        let shape = Self { page_bytes, records, overflow: records == Records::Slotted };
        let record = match records {
            Records::Packed { key_bytes, .. } => usize::from(key_bytes) + CHILD_BYTES,
            Records::Slotted => {
                SLOT_BYTES + RECORD_HEADER_BYTES + max_key_bytes as usize + CHILD_BYTES
            }
        };
        let sound = (MIN_PAGE_BYTES..=MAX_PAGE_BYTES).contains(&page_bytes)
            && page_bytes.is_multiple_of(64)
            && PAGE_HEADER_BYTES + 4 * record.max(shape.stride(0)) <= page_bytes as usize;
        if sound {
            Ok(shape)
        } else {
            Err(IndexError::NodeSize { node_bytes: page_bytes, key_bytes: max_key_bytes })
        }
    }

    /// The smallest power of two that [`Self::new`] takes for keys of so many bytes, however
    /// records lie.
    pub fn least_page_bytes(max_key_bytes: u32) -> u32 {
        let record = SLOT_BYTES + RECORD_HEADER_BYTES + CHILD_BYTES + max_key_bytes as usize;
        ((PAGE_HEADER_BYTES + 4 * record) as u32).next_power_of_two()
    }

    /// The same shape for a tree none of whose values is longer than this with a key of so many
    /// bytes. If they fit a leaf, a walk over the pages need not read the leaves.
    #[must_use]
    pub fn with_longest_value(mut self, key_bytes: usize, value_bytes: usize) -> Self {
        self.overflow &= value_bytes > self.max_inline(key_bytes);
        self
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Bytes of a packed record; zero if they differ.
    #[inline]
    pub(crate) fn stride(&self, level: u8) -> usize {
        match self.records {
            Records::Packed { key_bytes, value_bytes } if level == 0 => {
                usize::from(key_bytes) + usize::from(value_bytes)
            }
            Records::Packed { key_bytes, .. } => usize::from(key_bytes) + CHILD_BYTES,
            Records::Slotted => 0,
        }
    }

    #[inline]
    pub(crate) fn kind(&self) -> u8 {
        match self.records {
            Records::Packed { .. } => KIND_PACKED,
            Records::Slotted => KIND_SLOTTED,
        }
    }

    /// The longest value that stands in the leaf with a key of so many bytes: a page holds two
    /// records at least.
    pub(crate) fn max_inline(&self, key_bytes: usize) -> usize {
        match self.records {
            Records::Packed { value_bytes, .. } => usize::from(value_bytes),
            Records::Slotted => {
                let room = (self.page_bytes as usize - PAGE_HEADER_BYTES) / 2;
                room.saturating_sub(SLOT_BYTES + RECORD_HEADER_BYTES + key_bytes)
            }
        }
    }

    /// Returns whether all keys have one width, and all values.
    pub fn stride_is_fixed(&self) -> bool {
        self.records != Records::Slotted
    }

    /// Returns whether leaves can hold overflow values.
    pub(crate) fn can_overflow(&self) -> bool {
        self.overflow
    }

    /// Puts a record's bytes into `out`, in place of what is there.
    pub(crate) fn encode(&self, key: Bytes<'_>, value: NewValue<'_>, out: &mut Vec<u8>) {
        out.clear();
        let overflow = |bytes: u64, first: u64| {
            let mut place = [0; 16];
            place[..8].copy_from_slice(&bytes.to_le_bytes());
            place[8..].copy_from_slice(&first.to_le_bytes());
            place
        };
        if self.records == Records::Slotted {
            let length = match value {
                NewValue::Inline(bytes) => bytes.len() as u32,
                NewValue::Overflow { .. } => 16 | OVERFLOW,
                NewValue::Child(_) => CHILD_BYTES as u32,
            };
            out.extend_from_slice(&(key.len() as u16).to_le_bytes());
            out.extend_from_slice(&length.to_le_bytes());
        }
        key.append_to(out);
        match value {
            NewValue::Inline(bytes) => out.extend_from_slice(bytes),
            NewValue::Overflow { bytes, first } => {
                out.extend_from_slice(&overflow(bytes, first));
            }
            NewValue::Child(child) => out.extend_from_slice(&child.to_le_bytes()),
        }
    }
}

/// The child that a record of an inner node leads to.
pub(crate) fn child_of(record: Bytes<'_>) -> u64 {
    u64::from_le_bytes(record.array(record.len() - CHILD_BYTES))
}

/// A node whose header has been found to make sense.
#[derive(Debug)]
pub(crate) struct Node<'v, V> {
    view: &'v V,
    shape: TreeShape,
    pub(crate) page: u64,
    pub(crate) count: usize,
    pub(crate) level: u8,
    pub(crate) birth: u64,
    pub(crate) used: usize,
    stride: usize,
    key_bytes: usize,
}

/// The place of a slotted record.
struct Place {
    at: usize,
    key_bytes: usize,
    value_bytes: usize,
    overflow: bool,
}

impl<'v, V: View> Node<'v, V> {
    /// The node in page `page`, which must have this level.
    #[inline]
    pub(crate) fn open(view: &'v V, shape: &TreeShape, page: u64, level: u8) -> Result<Self, Bad> {
        let Header { birth, used, count, level: found, kind, .. } = Header::read(view);
        let stride = shape.stride(level);
        let sound = kind == shape.kind()
            && found == level
            && count > 0
            && used <= shape.page_bytes as usize
            && match shape.records {
                Records::Packed { .. } => used == PAGE_HEADER_BYTES + count * stride,
                Records::Slotted => PAGE_HEADER_BYTES + count * SLOT_BYTES <= used,
            };
        if !sound {
            return Err(damaged(page));
        }
        let key_bytes = match shape.records {
            Records::Packed { key_bytes, .. } => usize::from(key_bytes),
            Records::Slotted => 0,
        };
        Ok(Self { view, shape: *shape, page, count, level, birth, used, stride, key_bytes })
    }

    fn is_packed(&self) -> bool {
        self.shape.records != Records::Slotted
    }

    fn place(&self, index: usize) -> Result<Place, Bad> {
        // The index may be of the node as it was met before.
        if index >= self.count {
            return Err(damaged(self.page));
        }
        let slot = self.view.bytes(PAGE_HEADER_BYTES + index * SLOT_BYTES, SLOT_BYTES);
        let at = usize::from(u16::from_le_bytes(slot.array(0)));
        if at + RECORD_HEADER_BYTES > self.used {
            return Err(damaged(self.page));
        }
        let head = self.view.bytes(at, RECORD_HEADER_BYTES);
        let key_bytes = usize::from(u16::from_le_bytes(head.array(0)));
        let length = u32::from_le_bytes(head.array(2));
        let value_bytes = (length & !OVERFLOW) as usize;
        let overflow = length & OVERFLOW != 0;
        let bad_value = (self.level > 0 && value_bytes != CHILD_BYTES)
            || (overflow && (value_bytes != 16 || self.level > 0));
        if bad_value || at + RECORD_HEADER_BYTES + key_bytes + value_bytes > self.used {
            return Err(damaged(self.page));
        }
        Ok(Place { at, key_bytes, value_bytes, overflow })
    }

    /// The key of a record.
    #[inline]
    pub(crate) fn key(&self, index: usize) -> Result<Bytes<'v>, Bad> {
        if self.is_packed() {
            let at = PAGE_HEADER_BYTES + index * self.stride;
            return Ok(self.view.bytes(at, self.key_bytes));
        }
        let place = self.place(index)?;
        Ok(self.view.bytes(place.at + RECORD_HEADER_BYTES, place.key_bytes))
    }

    /// The value of a leaf's record.
    #[inline]
    pub(crate) fn value(&self, index: usize) -> Result<Stored<'v>, Bad> {
        if self.is_packed() {
            let at = PAGE_HEADER_BYTES + index * self.stride + self.key_bytes;
            return Ok(Stored::Inline(self.view.bytes(at, self.stride - self.key_bytes)));
        }
        let place = self.place(index)?;
        let at = place.at + RECORD_HEADER_BYTES + place.key_bytes;
        let bytes = self.view.bytes(at, place.value_bytes);
        if !place.overflow {
            return Ok(Stored::Inline(bytes));
        }
        let word = |at| u64::from_le_bytes(bytes.array(at));
        Ok(Stored::Overflow { bytes: word(0), first: word(8) })
    }

    /// Returns where the child's number of a record stands in the page.
    #[inline]
    pub(crate) fn child_at(&self, index: usize) -> Result<usize, Bad> {
        if self.is_packed() {
            return Ok(PAGE_HEADER_BYTES + index * self.stride + self.key_bytes);
        }
        let place = self.place(index)?;
        Ok(place.at + RECORD_HEADER_BYTES + place.key_bytes)
    }

    /// The child that a record of an inner node leads to.
    #[inline]
    pub(crate) fn child(&self, index: usize) -> Result<u64, Bad> {
        Ok(self.view.word(self.child_at(index)?))
    }

    /// All bytes of a record.
    pub(crate) fn record(&self, index: usize) -> Result<Bytes<'v>, Bad> {
        if self.is_packed() {
            return Ok(self.packed(index, index + 1));
        }
        let place = self.place(index)?;
        let bytes = RECORD_HEADER_BYTES + place.key_bytes + place.value_bytes;
        Ok(self.view.bytes(place.at, bytes))
    }

    /// The bytes of neighbouring packed records.
    #[inline]
    pub(crate) fn packed(&self, from: usize, to: usize) -> Bytes<'v> {
        self.view.bytes(PAGE_HEADER_BYTES + from * self.stride, (to - from) * self.stride)
    }

    /// Returns how many records have a key less than `key` or, if `or_equal`, at most `key`.
    #[inline]
    pub(crate) fn rank(&self, key: &[u8], or_equal: bool) -> Result<usize, Bad> {
        let (mut low, mut size) = (0, self.count);
        if self.is_packed()
            && let Ok(word) = <[u8; 8]>::try_from(key)
            && self.key_bytes == 8
        {
            let key = u64::from_be_bytes(word);
            while size > 0 {
                let half = size / 2;
                let stored = self.view.word(PAGE_HEADER_BYTES + (low + half) * self.stride);
                let stored = stored.swap_bytes();
                let below = stored < key || (or_equal && stored == key);
                low = if below { low + half + 1 } else { low };
                size = if below { size - half - 1 } else { half };
            }
            return Ok(low);
        }
        while size > 0 {
            let half = size / 2;
            let order = self.key(low + half)?.compare(key);
            if order == Ordering::Less || (or_equal && order == Ordering::Equal) {
                low += half + 1;
                size -= half + 1;
            } else {
                size = half;
            }
        }
        Ok(low)
    }

    /// Returns which record of an inner node leads towards `key`.
    #[inline]
    pub(crate) fn towards(&self, key: &[u8]) -> Result<usize, Bad> {
        Ok(self.rank(key, true)?.saturating_sub(1))
    }

    /// Returns where `key` is in a leaf, or would be.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Result<(usize, bool), Bad> {
        let index = self.rank(key, false)?;
        let found = index < self.count && self.key(index)?.equal(key);
        Ok((index, found))
    }
}

pub(crate) fn damaged(page: u64) -> Bad {
    Bad::Damaged { what: "page of a tree", at: page }
}
