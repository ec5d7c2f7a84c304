//! The layout of what the store keeps in memory: `docs/format/slotted-pages.md` draws it.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::Result;
use crate::error::SlottedError;

/// Bytes of the first word of a header; record offsets follow.
pub const WORD: usize = 8;
/// Bytes of a line of a header that has two.
pub const LINE: usize = 64;
/// Bytes before the records of a page whose header is two lines.
pub const TWIN_BYTES: usize = 2 * LINE;
/// The most records of such a page: (64 - 8) / 2 (P3 4.2).
pub const TWIN_SLOTS: usize = (LINE - WORD) / 2;
/// The most records of a page whose lines have a checksum, which takes the last six bytes of a
/// line.
pub const CHECKED_SLOTS: usize = (EPOCH_AT_LINE - WORD) / SLOT;
/// The place in such a line of the number of the opening that has stored it.
pub const EPOCH_AT_LINE: usize = 58;
/// The place in such a line of the checksum.
pub const CHECK_AT: usize = 60;
/// Bytes of a record offset.
pub const SLOT: usize = 2;
/// Bytes before the contents of an overflow page: the first word, and the next page.
pub const OVERFLOW_HEADER: usize = 16;
/// Bytes of a segment's header: the segment before it, and its number.
pub const SEGMENT_HEADER: u64 = 64;
/// The most pages between a root and a record: deeper is damage.
pub const MOST_LEVELS: usize = 40;

/// The first word of a store.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"PDSLOT01");

/// The fixed part of the master, written once when the store is created.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, Debug)]
#[repr(C)]
pub(crate) struct Constants {
    pub(crate) magic: u64,
    pub(crate) page_bytes: u32,
    pub(crate) trees: u32,
    pub(crate) segment_bytes: u64,
    /// The scheme's number.
    pub(crate) scheme: u32,
    pub(crate) checksum: u32,
    pub(crate) reserved: [u64; 4],
}

/// Words of the master that mini-transactions of the heap change: the log, and the newest segment.
pub(crate) const LOG_AT: u64 = 64;
pub(crate) const NEWEST_SEGMENT_AT: u64 = 72;
/// The page whose header a commit in place is about to store. Nothing makes the word durable: it is
/// for the process after a kill, which sees it and not whether that header is durable.
pub(crate) const IN_PLACE_AT: u64 = 80;
/// The number of this opening, where headers have it: see [`Kind::Checked`](crate::header::Kind).
pub(crate) const EPOCH_AT: u64 = 88;
/// The epoch of the process that creates a store.
pub(crate) const FIRST_EPOCH: u16 = 1;
/// Words of the master that log frames change: the top of the free stack, the high-water mark, the
/// segment that it lies in, then the roots.
pub(crate) const FREE_AT: u64 = 128;
pub(crate) const HIGH_AT: u64 = 136;
pub(crate) const SEGMENT_AT: u64 = 144;
pub(crate) const ROOTS_AT: u64 = 152;

/// The bit of a frame's place that says that its bytes stand there, and that the frame has their
/// checksum alone.
pub(crate) const IN_PLACE: u16 = 1 << 15;

/// The header of a frame in the log.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, Debug)]
#[repr(C)]
pub(crate) struct FrameHeader {
    /// The page or other object that the frame's bytes belong to.
    pub(crate) page: u64,
    /// The offset in it.
    pub(crate) at: u16,
    /// Bytes; they are padded to whole words.
    pub(crate) len: u16,
    /// A checksum of the fields above and the bytes.
    pub(crate) crc: u32,
}

/// Bytes of a log before its first frame: a line with the mark in its first word.
pub(crate) const FRAMES_AT: u64 = 64;

const _: () = assert!(size_of::<Constants>() == 64);
const _: () = assert!(size_of::<FrameHeader>() == 16);
const _: () = assert!(TWIN_SLOTS == 28 && CHECKED_SLOTS == 25);
// A mini-transaction and a frame never write the same line of the master.
const _: () = assert!(FREE_AT as usize / LINE > EPOCH_AT as usize / LINE);

/// The parameters of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Bytes of a page: a power of two from 512 to 32 KiB. P3's text has 4 KiB, its figures 1 KiB.
    pub page_bytes: u32,
    /// Bytes of a segment, the unit in which the heap gives room for pages: a multiple of 64, with
    /// room for eight pages or more.
    pub segment_bytes: u64,
    /// The number of trees.
    pub trees: u32,
    /// Bytes of the log when the store is created. It grows with the transactions.
    pub log_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { page_bytes: 4096, segment_bytes: 256 << 10, trees: 1, log_bytes: 16 << 10 }
    }
}

impl Options {
    pub(crate) fn validate(&self) -> Result<()> {
        let bad = |what: String| Err(SlottedError::Options { what });
        if !self.page_bytes.is_power_of_two() || !(512..=32 << 10).contains(&self.page_bytes) {
            return bad(format!("pages of {} bytes", self.page_bytes));
        }
        let least = SEGMENT_HEADER + 8 * u64::from(self.page_bytes);
        let (bytes, most) = (self.segment_bytes, 1 << 28);
        if !bytes.is_multiple_of(64) || !(least..=most).contains(&bytes) {
            return bad(format!("segments of {} bytes", self.segment_bytes));
        }
        if self.trees == 0 || self.trees > 1 << 16 {
            return bad(format!("{} trees", self.trees));
        }
        if !(1024..=1 << 28).contains(&self.log_bytes) {
            return bad(format!("a log of {} bytes", self.log_bytes));
        }
        Ok(())
    }
}

/// Returns the most bytes that a key, or a value within its record, may have in pages of this size.
pub const fn most_inline(page_bytes: usize) -> usize {
    (page_bytes - TWIN_BYTES) / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers once more, as literals: `docs/format/slotted-pages.md` has them.
    #[test]
    fn the_format_is_as_documented() {
        assert_eq!((LOG_AT, NEWEST_SEGMENT_AT, IN_PLACE_AT, EPOCH_AT), (64, 72, 80, 88));
        assert_eq!((TWIN_SLOTS, CHECKED_SLOTS, EPOCH_AT_LINE, CHECK_AT), (28, 25, 58, 60));
        assert_eq!((FREE_AT, HIGH_AT, SEGMENT_AT, ROOTS_AT), (128, 136, 144, 152));
        assert_eq!((FRAMES_AT, SEGMENT_HEADER, OVERFLOW_HEADER), (64, 64, 16));
        assert_eq!(MAGIC.to_le_bytes(), *b"PDSLOT01");
        assert_eq!((most_inline(512), most_inline(4096)), (96, 992));
    }

    #[test]
    fn impossible_options_are_refused() {
        let sound = Options::default();
        assert!(sound.validate().is_ok());
        for wrong in [
            Options { page_bytes: 1000, ..sound },
            Options { page_bytes: 256, ..sound },
            Options { page_bytes: 64 << 10, ..sound },
            Options { segment_bytes: 32 << 10, ..sound },
            Options { segment_bytes: (256 << 10) + 8, ..sound },
            Options { trees: 0, ..sound },
            Options { log_bytes: 64, ..sound },
        ] {
            assert!(matches!(wrong.validate(), Err(SlottedError::Options { .. })), "{wrong:?}");
        }
    }
}
