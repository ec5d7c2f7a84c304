//! Records: `key length, value length, key, value` in a leaf, `child, key length, key` in an inner
//! page.

use pm::{Bad, Bytes, View};

use crate::header::Kind;
use crate::layout::WORD;

/// Bytes of the two lengths before a leaf's key.
pub const LEAF_LENGTHS: usize = 4;
/// Bytes of the child and the length before an inner page's key.
pub const INNER_LENGTHS: usize = WORD + 2;
/// The bit of a value's length that says that the value lies in overflow pages.
const OVERFLOW: u16 = 1 << 15;
/// The key length of a child that has all keys that its neighbours do not have.
const INFINITE: u16 = u16::MAX;
/// Bytes of the value of a record whose value lies in overflow pages.
pub const OVERFLOW_VALUE: usize = 16;

/// A record of a leaf.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'v> {
    /// The key.
    pub key: Bytes<'v>,
    /// The value, or where it lies.
    pub value: Bytes<'v>,
    /// True if the value lies in overflow pages.
    pub overflow: bool,
}

/// A record of an inner page.
#[derive(Clone, Copy, Debug)]
pub struct Inner<'v> {
    /// The page with the keys up to the record's, from that of the record before on.
    pub child: u64,
    /// The largest key that may be there; `None`: any.
    pub key: Option<Bytes<'v>>,
}

/// The page that a view is of.
#[derive(Clone, Copy, Debug)]
pub struct In {
    /// The start of the page.
    pub page: u64,
    /// Bytes of the page.
    pub bytes: usize,
    /// The number of this opening of the store: lines that it has itself stored are whole.
    pub epoch: u16,
}

impl In {
    fn part<V: View>(self, view: &V, at: usize, len: usize) -> Result<Bytes<'_>, Bad> {
        if at > self.bytes || len > self.bytes - at {
            return Err(Bad::Damaged { what: "record", at: self.page + at as u64 });
        }
        Ok(view.bytes(at, len))
    }

    fn short<V: View>(self, view: &V, at: usize) -> Result<u16, Bad> {
        Ok(u16::from_le_bytes(self.part(view, at, 2)?.array(0)))
    }

    /// The leaf record that starts `at` bytes into the page.
    ///
    /// # Errors
    /// It does not lie within the page.
    pub fn leaf<V: View>(self, view: &V, at: u16) -> Result<Leaf<'_>, Bad> {
        let at = usize::from(at);
        let key = usize::from(self.short(view, at)?);
        let flagged = self.short(view, at + 2)?;
        let value = usize::from(flagged & !OVERFLOW);
        let overflow = flagged & OVERFLOW != 0;
        if overflow && value != OVERFLOW_VALUE {
            return Err(Bad::Damaged { what: "long value", at: self.page + at as u64 });
        }
        Ok(Leaf {
            key: self.part(view, at + LEAF_LENGTHS, key)?,
            value: self.part(view, at + LEAF_LENGTHS + key, value)?,
            overflow,
        })
    }

    /// The inner record that starts `at` bytes into the page.
    ///
    /// # Errors
    /// It does not lie within the page, or is not aligned.
    pub fn inner<V: View>(self, view: &V, at: u16) -> Result<Inner<'_>, Bad> {
        let at = usize::from(at);
        let child = u64::from_le_bytes(self.part(view, at, WORD)?.array(0));
        if !at.is_multiple_of(WORD) || child == 0 {
            return Err(Bad::Damaged { what: "child", at: self.page + at as u64 });
        }
        let key = self.short(view, at + WORD)?;
        let key = if key == INFINITE {
            None
        } else {
            Some(self.part(view, at + INNER_LENGTHS, usize::from(key))?)
        };
        Ok(Inner { child, key })
    }

    /// Bytes of the record that starts `at` bytes into a page of this kind.
    ///
    /// # Errors
    /// It does not lie within the page.
    pub fn record_bytes<V: View>(self, view: &V, kind: Kind, at: u16) -> Result<usize, Bad> {
        Ok(if kind.is_leaf() {
            let leaf = self.leaf(view, at)?;
            LEAF_LENGTHS + leaf.key.len() + leaf.value.len()
        } else {
            INNER_LENGTHS + self.inner(view, at)?.key.map_or(0, |key| key.len())
        })
    }
}

/// The bytes of a leaf's record.
pub fn encode_leaf(key: &[u8], value: &[u8], overflow: bool) -> Vec<u8> {
    let flag = if overflow { OVERFLOW } else { 0 };
    let mut record = Vec::with_capacity(LEAF_LENGTHS + key.len() + value.len());
    record.extend((key.len() as u16).to_le_bytes());
    record.extend((value.len() as u16 | flag).to_le_bytes());
    record.extend(key);
    record.extend(value);
    record
}

/// The bytes of an inner page's record.
pub fn encode_inner(child: u64, key: Option<&[u8]>) -> Vec<u8> {
    let mut record = Vec::with_capacity(INNER_LENGTHS + key.map_or(0, <[u8]>::len));
    record.extend(child.to_le_bytes());
    record.extend(key.map_or(INFINITE, |key| key.len() as u16).to_le_bytes());
    record.extend(key.unwrap_or_default());
    record
}

/// The key of an encoded record; `None` for the infinite one.
pub(crate) fn key_of(kind: Kind, record: &[u8]) -> Option<&[u8]> {
    let (lengths, at) = if kind.is_leaf() { (LEAF_LENGTHS, 0) } else { (INNER_LENGTHS, WORD) };
    let len = u16::from_le_bytes([record[at], record[at + 1]]);
    if !kind.is_leaf() && len == INFINITE {
        return None;
    }
    Some(&record[lengths..lengths + usize::from(len)])
}
