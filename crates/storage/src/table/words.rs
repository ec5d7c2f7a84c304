//! The words of a tuple's fields: one for each column.
//!
//! The word of a variable-length field is `length << 45 | offset / 8`, zero for an empty value: the
//! word holds the length together with the location, so that reading a tuple needs no look into the
//! slot before the copy. For 256 KiB and more it is `1 << 63 | (length - 1) << 39 | offset / 512`:
//! the allocator places large objects so. However large, a value is one contiguous object.

use heap::LARGE_ALIGN;
use pm::{Off, Range};

use crate::limits::MAX_VALUE_BYTES;

const OFFSET_BITS: u32 = 45;
/// Values of so many bytes and more have the other form of a word.
pub(crate) const LARGE_LEN: u64 = 1 << (63 - OFFSET_BITS);
/// The bit of the other form.
pub(super) const LARGE: u64 = 1 << 63;
const LARGE_OFFSET_BITS: u32 = 39;

const _: () = assert!(MAX_VALUE_BYTES as u64 <= 1 << (63 - LARGE_OFFSET_BITS));
const _: () = assert!(LARGE_LEN == 256 << 10 && LARGE_ALIGN == 512);

/// Bytes of the object that a value of `len` bytes takes: one with a large word has to be an object
/// that starts at a multiple of [`LARGE_ALIGN`].
#[inline]
pub(crate) fn object_bytes(len: u64) -> u64 {
    if len == LARGE_LEN { len + 1 } else { len }
}

/// The word of a field whose `len` bytes lie at `offset`.
#[inline]
pub(crate) fn slot_word(offset: u64, len: u64) -> u64 {
    if len >= LARGE_LEN {
        return large_word(offset, len);
    }
    assert!(offset.is_multiple_of(8) && offset >> 3 < 1 << OFFSET_BITS);
    len << OFFSET_BITS | offset >> 3
}

#[cold]
fn large_word(offset: u64, len: u64) -> u64 {
    let (at, less) = (offset / LARGE_ALIGN, len - 1);
    assert!(offset.is_multiple_of(LARGE_ALIGN) && at >> LARGE_OFFSET_BITS == 0);
    assert!(less >> (63 - LARGE_OFFSET_BITS) == 0, "the length has been checked");
    LARGE | less << LARGE_OFFSET_BITS | at
}

/// Returns where the bytes of a variable-length field lie; nowhere if it is empty.
#[inline]
pub(crate) fn slot_range(word: u64) -> Range {
    if word & LARGE != 0 {
        return large_range(word);
    }
    small_range(word)
}

/// Acts as [`slot_range`], for a table without large values
/// ([`has_large`](super::slots::SlotLayout::has_large)).
#[inline]
pub(super) fn small_range(word: u64) -> Range {
    Range::new((word & ((1 << OFFSET_BITS) - 1)) << 3, word >> OFFSET_BITS)
}

#[cold]
fn large_range(word: u64) -> Range {
    let at = (word & ((1 << LARGE_OFFSET_BITS) - 1)) * LARGE_ALIGN;
    Range::new(at, ((word & !LARGE) >> LARGE_OFFSET_BITS) + 1)
}

/// The slot that a word of a variable-length field owns, if it owns one.
#[inline]
pub(crate) fn owned_slot(form: FieldForm, word: u64) -> Option<u64> {
    (form == FieldForm::Slot && word != 0).then(|| slot_range(word).start)
}

/// The word of up to seven bytes.
pub(crate) fn short_word(bytes: &[u8]) -> u64 {
    let mut word = [0u8; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    word[7] = bytes.len() as u8;
    u64::from_le_bytes(word)
}

/// The bytes of a short field, and how many there are.
pub(crate) fn short_bytes(word: u64) -> ([u8; 8], usize) {
    let bytes = word.to_le_bytes();
    (bytes, usize::from(bytes[7]).min(7))
}

/// The word of a column. The tuple's offset may come from a damaged index: a word beyond all
/// memory stays there.
#[inline]
pub(crate) fn field_at(tuple: u64, column: u16) -> Off<u64> {
    Off::new(tuple.saturating_add(u64::from(column) * 8))
}

/// The ways in which the word of a field keeps its value (P1 3.1: what is larger than 8 bytes lies
/// in a slot of its own, whose location stands in the field).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FieldForm {
    /// A number.
    Word,
    /// Up to seven bytes, with their number in the highest byte.
    Short,
    /// A variable-length slot.
    Slot,
    /// A place of its own within the tuple. The word says the same as that of a slot.
    Inline,
}

impl FieldForm {
    /// Returns whether the word leads to the value.
    pub(crate) fn is_long(self) -> bool {
        matches!(self, Self::Slot | Self::Inline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_fields() {
        assert_eq!(slot_range(slot_word(8192, 100)), Range::new(8192, 100));
        assert_eq!(slot_range(0).len, 0);
        let far = (1u64 << 47) + 8;
        assert_eq!(slot_range(slot_word(far, 131_072)), Range::new(far, 131_072));
        let most = u64::from(MAX_VALUE_BYTES);
        for len in [LARGE_LEN - 1, LARGE_LEN, LARGE_LEN + 1, most - 1, most] {
            for offset in [512, (1 << 48) - 512] {
                assert_eq!(slot_range(slot_word(offset, len)), Range::new(offset, len));
            }
        }
        for text in ["", "a", "seven b"] {
            let (bytes, len) = short_bytes(short_word(text.as_bytes()));
            assert_eq!(&bytes[..len], text.as_bytes());
        }
    }
}
