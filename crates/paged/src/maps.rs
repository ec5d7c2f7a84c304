//! The maps of a file: which page says of a page whether it is in use, and with which bit.
//! docs/format/paged-pages.md says where maps lie.

use crate::ids::PageNo;
use crate::layout::HEADER_BYTES;

/// The first map of a file.
pub const FIRST_MAP: PageNo = PageNo(1);

/// The number of pages that a map covers.
pub(crate) fn span(page_bytes: usize) -> u64 {
    ((page_bytes - HEADER_BYTES) * 8) as u64
}

/// Returns the map that covers a page.
#[must_use]
pub fn map_of(page: PageNo, page_bytes: usize) -> PageNo {
    let span = span(page_bytes);
    PageNo(FIRST_MAP.0 + (page.0 - FIRST_MAP.0) / span * span)
}

/// Returns the bit of a page in its map.
#[must_use]
pub fn bit_of(page: PageNo, page_bytes: usize) -> usize {
    ((page.0 - FIRST_MAP.0) % span(page_bytes)) as usize
}

/// Returns the first bit that is not set, from a place on.
pub(crate) fn clear_bit(bits: &[u8], from: usize) -> Option<usize> {
    let mut byte = from / 8;
    let mut skipped = from % 8;
    while byte < bits.len() {
        let free = !bits[byte] & (0xff << skipped);
        if free != 0 {
            return Some(byte * 8 + free.trailing_zeros() as usize);
        }
        (byte, skipped) = (byte + 1, 0);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_lie_before_the_pages_that_they_cover() {
        let span = span(512);
        assert_eq!(span, 3584);
        for (page, map, bit) in [(1, 1, 0), (2, 1, 1), (span, 1, 3583), (span + 1, span + 1, 0)] {
            assert_eq!(map_of(PageNo(page), 512), PageNo(map));
            assert_eq!(bit_of(PageNo(page), 512), bit);
        }
    }

    #[test]
    fn a_free_page_is_found_from_a_place_on() {
        assert_eq!(clear_bit(&[0xff, 0b1011, 0], 0), Some(10));
        assert_eq!(clear_bit(&[0, 0b1011, 0], 9), Some(10));
        assert_eq!(clear_bit(&[0, 0xff], 8), None);
    }
}
