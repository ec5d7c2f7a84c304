//! The bytes of a page: `docs/format/cow-page.md` draws them.

use pm::{Bytes, View};

/// Bytes of a page's header; records follow.
pub const PAGE_HEADER_BYTES: usize = 16;
/// The smallest page.
pub const MIN_PAGE_BYTES: u32 = 128;
/// The largest page: how much of it is used must fit 16 bits.
pub const MAX_PAGE_BYTES: u32 = 32 << 10;

/// The place of the checksum in a page, for stores that keep one.
pub(crate) const CHECKSUM_AT: usize = 8;

/// A node whose records have fixed widths.
pub(crate) const KIND_PACKED: u8 = 1;
/// A node with slots that lead to records of any length.
pub(crate) const KIND_SLOTTED: u8 = 2;
/// A part of a value that is too long for a node.
pub(crate) const KIND_OVERFLOW: u8 = 3;

const BIRTH_BITS: u32 = 48;
const _: () = assert!(MAX_PAGE_BYTES as u64 <= 1 << (64 - BIRTH_BITS));

/// The two words that every page starts with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// Number of the transaction that made the page.
    pub(crate) birth: u64,
    /// Bytes from the start of the page that mean something.
    pub(crate) used: usize,
    pub(crate) checksum: u32,
    /// Records in a node.
    pub(crate) count: usize,
    /// Height above the leaves.
    pub(crate) level: u8,
    pub(crate) kind: u8,
}

impl Header {
    #[inline]
    pub(crate) fn read<V: View>(page: &V) -> Self {
        let (first, second) = (page.word(0), page.word(8));
        Self {
            birth: first & ((1 << BIRTH_BITS) - 1),
            used: (first >> BIRTH_BITS) as usize,
            checksum: second as u32,
            count: usize::from((second >> 32) as u16),
            level: (second >> 48) as u8,
            kind: (second >> 56) as u8,
        }
    }

    #[inline]
    pub(crate) fn words(&self) -> [u64; 2] {
        debug_assert!(self.birth >> BIRTH_BITS == 0 && self.used <= MAX_PAGE_BYTES as usize);
        [
            self.birth | (self.used as u64) << BIRTH_BITS,
            u64::from(self.checksum)
                | (self.count as u64) << 32
                | u64::from(self.level) << 48
                | u64::from(self.kind) << 56,
        ]
    }

    /// Puts the header at the start of `image`.
    #[inline]
    pub(crate) fn put(&self, image: &mut [u8]) {
        let [first, second] = self.words();
        image[..8].copy_from_slice(&first.to_le_bytes());
        image[8..16].copy_from_slice(&second.to_le_bytes());
    }
}

/// The image of a page that is being built, read like a stored one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image<'a>(pub(crate) &'a [u8]);

impl View for Image<'_> {
    #[inline]
    fn word(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.0[at..at + 8]);
        u64::from_le_bytes(word)
    }

    #[inline]
    fn bytes(&self, at: usize, len: usize) -> Bytes<'_> {
        Bytes::from(&self.0[at..at + len])
    }
}

/// The checksum of page number `page` with these used bytes; its own place counts as zero. The
/// number is part of it, so that a page in another's place is noticed.
pub(crate) fn checksum(page: u64, used: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&page.to_le_bytes());
    let sum = crc32c::crc32c_append(sum, &used[..CHECKSUM_AT]);
    crc32c::crc32c_append(sum, &used[CHECKSUM_AT + 4..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_that_of_the_format_description() {
        assert_eq!((PAGE_HEADER_BYTES, MIN_PAGE_BYTES, MAX_PAGE_BYTES), (16, 128, 32_768));
        let header =
            Header { birth: 0x0102, used: 0x0304, checksum: 5, count: 6, level: 7, kind: 2 };
        let mut image = [0; 16];
        header.put(&mut image);
        assert_eq!(image, [2, 1, 0, 0, 0, 0, 4, 3, 5, 0, 0, 0, 6, 0, 7, 2]);
        assert_eq!(Header::read(&Image(&image)), header);
        assert_ne!(checksum(1, &image), checksum(2, &image));
    }
}
