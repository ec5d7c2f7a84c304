//! The footer of an SSTable, with which reading it begins. `docs/format/sstable.md` draws the file.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub(super) const MAGIC: [u8; 8] = *b"PERDSST\0";
pub(super) const VERSION: u32 = 1;
/// Bytes of the footer.
pub const FOOTER_BYTES: u64 = 112;
/// Bytes of a page of the filter before its lines.
pub(super) const PAGE_HEADER_BYTES: u64 = 64;

/// The footer at the end of the file.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Footer {
    pub(super) magic: [u8; 8],
    pub(super) version: U32,
    pub(super) checksum: U32,
    /// The file's number.
    pub(super) file: U64,
    pub(super) partition: U32,
    /// The number of levels of blocks above the data.
    pub(super) height: U32,
    pub(super) root_at: U64,
    pub(super) root_bytes: U32,
    pub(super) bits_per_key: U32,
    /// The place where the blocks end and the filter's pages begin.
    pub(super) filter_at: U64,
    /// Bytes of the filter itself.
    pub(super) filter_bytes: U64,
    pub(super) page_bytes: U32,
    pub(super) reserved: U32,
    pub(super) entries: U64,
    pub(super) tombstones: U64,
    pub(super) blocks: U64,
    /// Bytes of the blocks above the data.
    pub(super) index_bytes: U64,
    pub(super) file_bytes: U64,
}

const _: () = assert!(size_of::<Footer>() as u64 == FOOTER_BYTES);
const _: () = assert!(std::mem::offset_of!(Footer, checksum) == 12);
const _: () = assert!(std::mem::offset_of!(Footer, root_at) == 32);
const _: () = assert!(std::mem::offset_of!(Footer, filter_at) == 48);
const _: () = assert!(std::mem::offset_of!(Footer, entries) == 72);
const _: () = assert!(std::mem::offset_of!(Footer, file_bytes) == 104);

impl Footer {
    pub(super) fn sum(mut self) -> u32 {
        self.checksum = 0.into();
        crc32c::crc32c(self.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_that_of_the_format_description() {
        assert_eq!((FOOTER_BYTES, PAGE_HEADER_BYTES, VERSION), (112, 64, 1));
        let number = |value: u8| U64::from(u64::from(value));
        let footer = Footer {
            magic: MAGIC,
            version: VERSION.into(),
            checksum: 0.into(),
            file: number(1),
            partition: 2.into(),
            height: 3.into(),
            root_at: number(4),
            root_bytes: 5.into(),
            bits_per_key: 6.into(),
            filter_at: number(7),
            filter_bytes: number(8),
            page_bytes: 9.into(),
            reserved: 0.into(),
            entries: number(10),
            tombstones: number(11),
            blocks: number(12),
            index_bytes: number(13),
            file_bytes: number(14),
        };
        let bytes = footer.as_bytes();
        assert_eq!(&bytes[..12], b"PERDSST\0\x01\0\0\0");
        let places = [16, 24, 28, 32, 40, 44, 48, 56, 64, 72, 80, 88, 96, 104];
        assert_eq!(places.map(|at| bytes[at]), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
    }
}
