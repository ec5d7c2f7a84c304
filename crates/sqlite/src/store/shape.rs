//! The shape of a database's pages, as the header of its file has it (sqlite.org/fileformat2.html, 1.3).

/// Bytes of the file's header, at the beginning of page 1.
pub const FILE_HEADER_BYTES: usize = 100;
/// The byte that SQLite's own VFS locks: its page is never used.
const LOCK_BYTE: u64 = 1 << 30;
/// The offset in the file's header of the largest root page, which is 0 without auto-vacuum.
const LARGEST_ROOT_AT: usize = 52;

/// The page size of a database, and whether it has a pointer map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    page_bytes: usize,
    usable: usize,
    pointer_map: bool,
}

impl Shape {
    /// Pages of `page_bytes` bytes with `reserved` bytes for extensions at the end. `None` if SQLite has no such
    /// pages.
    pub fn new(page_bytes: usize, reserved: u8, pointer_map: bool) -> Option<Self> {
        let usable = page_bytes.checked_sub(usize::from(reserved))?;
        let fits = page_bytes.is_power_of_two() && (512..=65_536).contains(&page_bytes);
        (fits && usable >= 480).then_some(Self { page_bytes, usable, pointer_map })
    }

    /// The shape in the file's header, the first bytes of page 1. `None` if there is none.
    pub fn of_file(page: &[u8]) -> Option<Self> {
        if page.len() < FILE_HEADER_BYTES {
            return None;
        }
        let page_bytes = match be16(page, 16) {
            1 => 65_536,
            bytes => bytes,
        };
        Self::new(page_bytes, page[20], be32(page, LARGEST_ROOT_AT) != 0)
    }

    /// The length of a page.
    pub const fn page_bytes(self) -> usize {
        self.page_bytes
    }

    /// The bytes of a page that SQLite uses.
    pub const fn usable(self) -> usize {
        self.usable
    }

    /// The page that is never used, because SQLite's own VFS locks its bytes.
    pub const fn lock_page(self) -> u32 {
        (LOCK_BYTE / self.page_bytes as u64) as u32 + 1
    }

    /// Returns whether a page is in the pointer map.
    pub const fn is_pointer_map(self, page: u32) -> bool {
        if !self.pointer_map || page < 2 {
            return false;
        }
        // Each is followed by the pages of its entries, of five bytes each.
        let pages = (self.usable / 5) as u32 + 1;
        let map = (page - 2) / pages * pages + 2;
        page == if map == self.lock_page() { map + 1 } else { map }
    }
}

/// A big-endian number of two bytes.
pub(super) fn be16(page: &[u8], at: usize) -> usize {
    usize::from(page[at]) << 8 | usize::from(page[at + 1])
}

/// A big-endian number of four bytes.
pub(super) fn be32(page: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointer_map_pages_are_known_by_number() {
        let shape = Shape::new(512, 0, true).unwrap();
        let maps: Vec<u32> = (1..=310).filter(|page| shape.is_pointer_map(*page)).collect();
        assert_eq!(maps, [2, 105, 208]);
        assert!((1..400).all(|page| !Shape::new(512, 0, false).unwrap().is_pointer_map(page)));
        assert_eq!(shape.lock_page(), (1 << 21) + 1);
    }

    #[test]
    fn impossible_page_shapes_are_refused() {
        for (page_bytes, reserved) in [(0, 0), (256, 0), (1000, 0), (131_072, 0), (512, 33)] {
            assert_eq!(Shape::new(page_bytes, reserved, false), None);
        }
        assert_eq!(Shape::new(512, 32, false).map(Shape::usable), Some(480));
        assert_eq!(Shape::of_file(&[0; 99]), None);
        let of = |high, low| {
            let mut header = [0; 100];
            (header[16], header[17]) = (high, low);
            Shape::of_file(&header).map(Shape::page_bytes)
        };
        assert_eq!((of(0, 0), of(1, 0), of(2, 1)), (None, None, None));
        // 65,536 does not fit into two bytes and is stored as 1.
        assert_eq!((of(2, 0), of(0, 1)), (Some(512), Some(65_536)));
    }
}
