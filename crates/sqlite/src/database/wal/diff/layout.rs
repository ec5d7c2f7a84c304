//! Bytes of `NAME-perdura-log`, and of the log next to it: `docs/format/sqlite-differential-log.md`.

use std::ops::Range as Bytes;

use pm::Range;

/// The first word of the file.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"PerduraD");
pub(super) const MAGIC_AT: u64 = 0;
/// The format's version, in the second word.
pub(super) const VERSION: u64 = 1;
/// Bytes of the two words.
pub(super) const NAMED_BYTES: usize = 16;
/// The lines of the last two generations: of even and of odd numbers.
const GENERATIONS_AT: u64 = 64;
/// The first record of the generation.
pub(super) const RECORDS_AT: u64 = 4096;

// In a generation's line:
const NUMBER: Bytes<usize> = 0..4;
const PAGE_BYTES: Bytes<usize> = 4..8;
const SALTS: Bytes<usize> = 8..16;
const PAGES: Bytes<usize> = 16..20;
const CHECK: Bytes<usize> = 20..24;
/// Bytes of a generation.
pub(super) const GENERATION_BYTES: usize = 24;

// In SQLite's log, whose numbers are big-endian:
/// Bytes of the log's header.
pub(super) const HEADER_BYTES: usize = 32;
/// Bytes of the header of a frame.
pub(super) const FRAME_HEADER_BYTES: usize = 24;
const HEADER_VERSION: Bytes<usize> = 4..8;
const HEADER_PAGE_BYTES: Bytes<usize> = 8..12;
const HEADER_SALTS: Bytes<usize> = 16..24;
const HEADER_SUMS: Bytes<usize> = 24..32;
const FRAME_PAGE: Bytes<usize> = 0..4;
const FRAME_PAGES: Bytes<usize> = 4..8;
const FRAME_SALTS: Bytes<usize> = 8..16;
/// The version of a log that SQLite reads.
const LOG_VERSION: u32 = 3_007_000;
/// The version on the medium, which SQLite refuses.
const MEDIA_VERSION: u32 = LOG_VERSION + 80;

const _: () = assert!(
    GENERATIONS_AT.is_multiple_of(pm::LINE_BYTES)
        && NAMED_BYTES as u64 <= GENERATIONS_AT
        && GENERATION_BYTES as u64 <= pm::LINE_BYTES
        && GENERATIONS_AT + 2 * pm::LINE_BYTES <= RECORDS_AT
        && RECORDS_AT.is_multiple_of(pm::LINE_BYTES)
        && CHECK.end == GENERATION_BYTES
        && HEADER_SUMS.end == HEADER_BYTES
);

fn little(bytes: &[u8], at: Bytes<usize>) -> u32 {
    u32::from_le_bytes(bytes[at].try_into().expect("four bytes"))
}

fn big(bytes: &[u8], at: Bytes<usize>) -> u32 {
    u32::from_be_bytes(bytes[at].try_into().expect("four bytes"))
}

/// Returns whether SQLite has pages of so many bytes.
fn is_page_size(bytes: u32) -> bool {
    bytes.is_power_of_two() && (512..=65536).contains(&bytes)
}

/// A generation of the differential log: the records since SQLite's log last began anew.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Generation {
    number: u32,
    page_bytes: u32,
    salts: [u8; 8],
    pages: u32,
}

impl Generation {
    /// The generation of a log that begins with this header, next to a database of so many bytes. `None` if SQLite has no
    /// such pages.
    pub(super) fn of(number: u32, header: &[u8], database_bytes: u64) -> Option<Self> {
        let page_bytes = big(header, HEADER_PAGE_BYTES);
        let salts = header[HEADER_SALTS].try_into().expect("eight bytes");
        let pages = u32::try_from(database_bytes.checked_div(page_bytes.into())?).ok()?;
        is_page_size(page_bytes).then_some(Self { number, page_bytes, salts, pages })
    }

    pub(super) fn encode(&self) -> [u8; GENERATION_BYTES] {
        let mut line = [0; GENERATION_BYTES];
        line[NUMBER].copy_from_slice(&self.number.to_le_bytes());
        line[PAGE_BYTES].copy_from_slice(&self.page_bytes.to_le_bytes());
        line[SALTS].copy_from_slice(&self.salts);
        line[PAGES].copy_from_slice(&self.pages.to_le_bytes());
        let check = crc32c::crc32c(&line[..CHECK.start]);
        line[CHECK].copy_from_slice(&check.to_le_bytes());
        line
    }

    /// The generation in a line; `None` if there is none, or only a part of it.
    pub(super) fn decode(line: &[u8; GENERATION_BYTES]) -> Option<Self> {
        let found = Self {
            number: little(line, NUMBER),
            page_bytes: little(line, PAGE_BYTES),
            salts: line[SALTS].try_into().expect("eight bytes"),
            pages: little(line, PAGES),
        };
        let is_whole = found.number > 0 && is_page_size(found.page_bytes);
        (is_whole && found.encode() == *line).then_some(found)
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The offset of the line of the generation with a number.
    pub(super) fn line_of(number: u32) -> u64 {
        GENERATIONS_AT + u64::from(number % 2) * pm::LINE_BYTES
    }

    /// The checksum before the first record.
    pub(super) fn seed(&self) -> u32 {
        little(&self.encode(), CHECK)
    }

    pub(super) fn page_bytes(&self) -> usize {
        self.page_bytes as usize
    }

    /// Pages of the database when the generation began.
    pub(super) fn pages(&self) -> u32 {
        self.pages
    }

    /// Returns whether it is the generation of a log with this header.
    pub(super) fn is_of(&self, header: &[u8]) -> bool {
        big(header, HEADER_PAGE_BYTES) == self.page_bytes && header[HEADER_SALTS] == self.salts
    }

    /// The place of a page in the database.
    pub(super) fn page_at(&self, page: u32) -> Range {
        let bytes = u64::from(self.page_bytes);
        Range::new((u64::from(page) - 1) * bytes, bytes)
    }

    fn frame_bytes(&self) -> u64 {
        FRAME_HEADER_BYTES as u64 + u64::from(self.page_bytes)
    }

    /// The place of the header of a frame in the log.
    pub(super) fn header_at(&self, frame: u32) -> Range {
        let start = HEADER_BYTES as u64 + (u64::from(frame) - 1) * self.frame_bytes();
        Range::new(start, FRAME_HEADER_BYTES as u64)
    }

    /// The place of a frame's page in the log.
    pub(super) fn image_at(&self, frame: u32) -> Range {
        Range::new(self.header_at(frame).end(), u64::from(self.page_bytes))
    }

    /// The frame whose header is at an offset.
    pub(super) fn frame_at(&self, at: u64) -> Option<u32> {
        let before = at.checked_sub(HEADER_BYTES as u64)?;
        let number = before / self.frame_bytes() + 1;
        before.is_multiple_of(self.frame_bytes()).then(|| u32::try_from(number).ok())?
    }

    /// The header of a frame; `None` if it is not one of this log.
    pub(super) fn frame(&self, header: &[u8]) -> Option<FrameHeader> {
        let found = FrameHeader { page: big(header, FRAME_PAGE), pages: pages_of(header) };
        (header[FRAME_SALTS] == self.salts && found.page > 0).then_some(found)
    }
}

/// The fields of a frame's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FrameHeader {
    page: u32,
    pages: u32,
}

impl FrameHeader {
    pub(super) fn page(self) -> u32 {
        self.page
    }

    /// The database's pages after the transaction that this frame ends; 0 if it ends none.
    pub(super) fn pages(self) -> u32 {
        self.pages
    }
}

/// The database's pages in the header of a frame; 0 if it ends no transaction.
pub(super) fn pages_of(header: &[u8]) -> u32 {
    big(header, FRAME_PAGES)
}

/// SQLite's checksum of the header of a log.
fn sums(header: &[u8; HEADER_BYTES]) -> [u8; 8] {
    // The lowest bit of the first word says how words are read.
    let word = if header[3] & 1 == 1 { u32::from_be_bytes } else { u32::from_le_bytes };
    let (mut first, mut second) = (0_u32, 0_u32);
    for pair in header[..HEADER_SUMS.start].chunks_exact(8) {
        let [one, other] = [0, 4].map(|at| word(pair[at..at + 4].try_into().expect("four bytes")));
        first = first.wrapping_add(one).wrapping_add(second);
        second = second.wrapping_add(other).wrapping_add(first);
    }
    let mut sums = [0; 8];
    sums[..4].copy_from_slice(&first.to_be_bytes());
    sums[4..].copy_from_slice(&second.to_be_bytes());
    sums
}

/// The header with another version, if its checksum is right and it has this one.
fn with_version(header: &[u8; HEADER_BYTES], from: u32, to: u32) -> Option<[u8; HEADER_BYTES]> {
    if big(header, HEADER_VERSION) != from || sums(header) != header[HEADER_SUMS] {
        return None;
    }
    let mut other = *header;
    other[HEADER_VERSION].copy_from_slice(&to.to_be_bytes());
    let sums = sums(&other);
    other[HEADER_SUMS].copy_from_slice(&sums);
    Some(other)
}

/// The header of a log as it is on the medium, where stock SQLite refuses it. `None` if SQLite has not written it.
pub(super) fn to_media(header: &[u8; HEADER_BYTES]) -> Option<[u8; HEADER_BYTES]> {
    with_version(header, LOG_VERSION, MEDIA_VERSION)
}

/// The header as SQLite wrote it; `None` if the log has no differential one.
pub(super) fn from_media(header: &[u8; HEADER_BYTES]) -> Option<[u8; HEADER_BYTES]> {
    with_version(header, MEDIA_VERSION, LOG_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header as SQLite wrote it, in the two orders of bytes.
    fn header(magic: u8) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&[0x37, 0x7f, 0x06, magic]);
        header[4..8].copy_from_slice(&3_007_000_u32.to_be_bytes());
        header[8..12].copy_from_slice(&4096_u32.to_be_bytes());
        header[16..24].copy_from_slice(b"saltsalt");
        let sums = sums(&header);
        header[24..].copy_from_slice(&sums);
        header
    }

    #[test]
    fn header_is_refused_on_the_medium_and_comes_back() {
        for magic in [0x82, 0x83] {
            let header = header(magic);
            let media = to_media(&header).unwrap();
            assert_eq!(media[4..8], 3_007_080_u32.to_be_bytes());
            assert_eq!(from_media(&media), Some(header));
            assert_eq!((from_media(&header), to_media(&media)), (None, None));
            for at in 0..HEADER_BYTES {
                let mut torn = media;
                torn[at] ^= 0x40;
                assert_eq!(from_media(&torn), None, "byte {at}");
            }
        }
    }

    #[test]
    fn line_of_a_generation_is_whole_or_none() {
        let generation = Generation::of(7, &header(0x82), 4096 * 12).unwrap();
        assert_eq!(
            (generation.number(), generation.pages(), generation.page_bytes()),
            (7, 12, 4096)
        );
        assert!(generation.is_of(&header(0x83)));
        assert_eq!((Generation::line_of(7), Generation::line_of(8)), (128, 64));
        let line = generation.encode();
        assert_eq!(Generation::decode(&line), Some(generation));
        let before = Generation::of(5, &header(0x82), 0).unwrap().encode();
        for cut in (4..GENERATION_BYTES).step_by(4) {
            let mut torn = before;
            torn[..cut].copy_from_slice(&line[..cut]);
            let torn_decoded = Generation::decode(&torn);
            assert!(torn_decoded.is_none(), "{cut}: {torn_decoded:?}");
        }
        assert_eq!(Generation::decode(&[0; GENERATION_BYTES]), None);
    }

    #[test]
    fn frames_lie_where_sqlite_puts_them() {
        let generation = Generation::of(1, &header(0x82), 0).unwrap();
        assert_eq!(generation.header_at(1), Range::new(32, 24));
        assert_eq!(generation.image_at(3), Range::new(32 + 2 * 4120 + 24, 4096));
        assert_eq!(generation.page_at(2), Range::new(4096, 4096));
        for frame in [1, 2, 900] {
            assert_eq!(generation.frame_at(generation.header_at(frame).start), Some(frame));
            assert_eq!(generation.frame_at(generation.image_at(frame).start), None);
        }
        assert_eq!(generation.frame_at(0), None);
    }
}
