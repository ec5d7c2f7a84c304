//! Records of the differential log: the words of a frame that changed, and the end of a commit.
//!
//! ```text
//! frame  page u32 | number u32, top bits: fresh, from another page | that page u32, 0 u32, if so | lines that changed, a
//!        bit each, in words | for each such line a byte, a bit for each of its words; zeros up to a word | the words
//! end    0 u32 | frames u32 | pages of the database u32 | CRC-32C u32
//! ```
//!
//! The words are those in which the page differs from its image before. A *fresh* frame's page has none: it differs from
//! zeros. One *from another page* differs from that page's image before the commit.
//!
//! The checksum of an end covers all bytes since the previous end, its own first twelve included, and begins with the previous one's checksum,
//! the first one with that of the generation. So the log ends where its bytes end to match.

use std::ops::Range as Bytes;

use crate::database::contract::Failure;

/// Bytes of a line, and of a word.
const LINE: usize = pm::LINE_BYTES as usize;
const WORD: usize = 8;
/// The bits of a frame's number that say that it is fresh, or from another page.
const FRESH: u32 = 1 << 31;
const FROM_OTHER: u32 = 1 << 30;
/// Bytes before the bits of the lines, and of the other page between them.
const FRAME_START: usize = 8;
const OTHER: usize = 8;
/// Bytes of an end.
pub(super) const END_BYTES: usize = 16;
/// Bytes of an end before its checksum.
const END_CHECKED: usize = 12;

/// The most frames of a log.
pub(super) const FRAMES_MAX: u32 = FROM_OTHER - 1;

/// The page that the words of a frame differ from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Base {
    /// The same page, before.
    Own,
    /// Zeros: the page is fresh.
    Zeros,
    /// Another page, before the commit.
    Other(u32),
}

/// The words in which a page differs from another one, or from zeros.
pub(super) fn differing_words(old: Option<&[u8]>, new: &[u8]) -> usize {
    let words = new.as_chunks().0.iter().copied().map(u64::from_ne_bytes);
    // Sums of booleans, and no branches: these are vector instructions.
    match old {
        Some(old) => {
            let old = old.as_chunks().0.iter().copied().map(u64::from_ne_bytes);
            words.zip(old).map(|(new, old)| usize::from(new != old)).sum()
        }
        None => words.map(|word| usize::from(word != 0)).sum(),
    }
}

/// The words in which a line differs from another one, a bit each.
#[inline]
fn mask_of(old: &[u8; LINE], new: &[u8; LINE]) -> u8 {
    let (old, _) = old.as_chunks::<WORD>();
    let (new, _) = new.as_chunks::<WORD>();
    let mut mask = 0;
    for word in 0..LINE / WORD {
        mask |= u8::from(u64::from_ne_bytes(old[word]) != u64::from_ne_bytes(new[word])) << word;
    }
    mask
}

/// Bytes of the bits of a page's lines.
fn map_bytes(page_bytes: usize) -> usize {
    (page_bytes / LINE).div_ceil(64) * WORD
}

/// Records that are being made.
#[derive(Debug, Default)]
pub(super) struct Records {
    bytes: Vec<u8>,
    /// The words of the frame in work.
    words: Vec<u8>,
}

impl Records {
    /// The most bytes of the records of so many frames, and of an end.
    pub(super) fn most_bytes(frames: u32, page_bytes: usize) -> u64 {
        let masks = (page_bytes / LINE).next_multiple_of(WORD);
        let frame = FRAME_START + OTHER + map_bytes(page_bytes) + masks + page_bytes;
        u64::from(frames) * frame as u64 + END_BYTES as u64
    }

    /// Adds a frame: the words in which `new` differs from `old`, or, if there is none, from zeros.
    ///
    /// # Errors
    /// Out of memory; nothing was added.
    pub(super) fn add_frame(
        &mut self,
        (page, frame): (u32, u32),
        base: Base,
        old: Option<&[u8]>,
        new: &[u8],
    ) -> Result<(), Failure> {
        // With room for an end.
        let most = Self::most_bytes(1, new.len()) as usize;
        self.bytes.try_reserve(most).map_err(|_| Failure::Memory)?;
        self.words.clear();
        self.words.try_reserve(new.len()).map_err(|_| Failure::Memory)?;
        let (flag, other) = match base {
            Base::Own => (0, None),
            Base::Zeros => (FRESH, None),
            Base::Other(page) => (FROM_OTHER, Some(page)),
        };
        self.bytes.extend(page.to_le_bytes());
        self.bytes.extend((frame | flag).to_le_bytes());
        if let Some(page) = other {
            self.bytes.extend(u64::from(page).to_le_bytes());
        }
        let map = self.bytes.len();
        self.bytes.resize(map + map_bytes(new.len()), 0);
        let old = old.map(|old| old.as_chunks::<LINE>().0);
        for (line, new) in new.as_chunks::<LINE>().0.iter().enumerate() {
            let mask = mask_of(old.map_or(&[0; LINE], |old| &old[line]), new);
            if mask == 0 {
                continue;
            }
            let words = new.as_chunks::<WORD>().0.iter().enumerate();
            for (_, bytes) in words.filter(|(word, _)| mask & 1 << word != 0) {
                self.words.extend(bytes);
            }
            self.bytes[map + line / 8] |= 1 << (line % 8);
            self.bytes.push(mask);
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(WORD), 0);
        self.bytes.extend(&self.words);
        Ok(())
    }

    /// Adds the end of a commit, which has a frame. `check` is the checksum up to here. Returns that of the end.
    pub(super) fn add_end(&mut self, frames: u32, pages: u32, check: u32) -> u32 {
        let start = self.bytes.len();
        for word in [0, frames, pages] {
            self.bytes.extend(word.to_le_bytes());
        }
        let check = crc32c::crc32c_append(check, &self.bytes[start..]);
        self.bytes.extend(check.to_le_bytes());
        check
    }

    /// The records.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets them.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }
}

/// Bytes from which records are read.
pub(super) trait Source {
    /// Returns so many bytes from an offset on; `None` if they are not there.
    fn get(&mut self, at: u64, len: usize) -> Option<&[u8]>;
}

/// A record that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Record<'a> {
    Frame(Frame<'a>),
    End(End<'a>),
}

impl<'a> Record<'a> {
    /// Reads the record at `at`; `None` if none can be there, as of a line that a page does not have.
    pub(super) fn read(source: &'a mut dyn Source, at: u64, page_bytes: usize) -> Option<Self> {
        let is_end = word(source.get(at, FRAME_START)?, 0) == 0;
        if is_end {
            return Some(Self::End(End { bytes: source.get(at, END_BYTES)? }));
        }
        let from_other = word(source.get(at, FRAME_START)?, 4) & FROM_OTHER != 0;
        let start = FRAME_START + if from_other { OTHER } else { 0 };
        let map = start..start + map_bytes(page_bytes);
        let first = source.get(at, map.end)?;
        let after = page_bytes / LINE..map.len() * 8;
        if from_other && word(first, FRAME_START) == 0
            || after.into_iter().any(|line| first[map.start + line / 8] & 1 << (line % 8) != 0)
        {
            return None;
        }
        let lines = bits(&first[map.clone()]);
        let masks = map.end..(map.end + lines).next_multiple_of(WORD);
        let words = bits(&source.get(at, masks.end)?[masks.clone()]);
        let bytes = source.get(at, masks.end + words * WORD)?;
        Some(Self::Frame(Frame { bytes, map, masks }))
    }

    /// The record's bytes.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Frame(frame) => frame.len(),
            Self::End(end) => end.bytes.len() as u64,
        }
    }
}

/// A frame that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Frame<'a> {
    bytes: &'a [u8],
    map: Bytes<usize>,
    masks: Bytes<usize>,
}

impl Frame<'_> {
    /// The record's bytes.
    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn page(&self) -> u32 {
        word(self.bytes, 0)
    }

    pub(super) fn number(&self) -> u32 {
        word(self.bytes, 4) & !(FRESH | FROM_OTHER)
    }

    pub(super) fn base(&self) -> Base {
        match word(self.bytes, 4) & (FRESH | FROM_OTHER) {
            0 => Base::Own,
            FRESH => Base::Zeros,
            _ => Base::Other(word(self.bytes, FRAME_START)),
        }
    }

    /// The checksum up to the frame's end, from that up to its beginning.
    pub(super) fn check(&self, before: u32) -> u32 {
        crc32c::crc32c_append(before, self.bytes)
    }

    /// Calls `line` for each line that changed, with its place in the page, and `store` for each of its words before.
    pub(super) fn each(&self, mut store: impl FnMut(u64, &[u8]), mut line: impl FnMut(u64)) {
        let mut words = self.bytes[self.masks.end..].chunks_exact(WORD);
        let mut masks = self.bytes[self.masks.clone()].iter();
        for (byte, bits) in self.bytes[self.map.clone()].iter().enumerate() {
            for at in (0..8).filter(|bit| bits & 1 << bit != 0).map(|bit| (byte * 8 + bit) * LINE) {
                let mask = masks.next().copied().unwrap_or(0);
                for word in (0..LINE / WORD).filter(|word| mask & 1 << word != 0) {
                    if let Some(bytes) = words.next() {
                        store((at + word * WORD) as u64, bytes);
                    }
                }
                line(at as u64);
            }
        }
    }
}

/// The end of a commit that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct End<'a> {
    bytes: &'a [u8],
}

impl End<'_> {
    /// Frames of SQLite's log up to here.
    pub(super) fn frames(self) -> u32 {
        word(self.bytes, 4)
    }

    /// Pages of the database.
    pub(super) fn pages(self) -> u32 {
        word(self.bytes, 8)
    }

    /// The checksum, if it is that of all since the previous end. `before` is the checksum up to this one's beginning.
    pub(super) fn check(self, before: u32) -> Option<u32> {
        let check = crc32c::crc32c_append(before, &self.bytes[..END_CHECKED]);
        (check == word(self.bytes, END_CHECKED)).then_some(check)
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The number of bits that are set.
fn bits(bytes: &[u8]) -> usize {
    bytes.iter().map(|byte| byte.count_ones() as usize).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Source for &[u8] {
        fn get(&mut self, at: u64, len: usize) -> Option<&[u8]> {
            (*self).get(at as usize..)?.get(..len)
        }
    }

    /// Pages that differ in a few words, in many, and in all.
    fn pages(page_bytes: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let old: Vec<u8> = (0..page_bytes).map(|at| (at * 7 % 251) as u8).collect();
        let changed = |every: usize| {
            let change = |(at, byte): (usize, &u8)| if at % every == 3 { !byte } else { *byte };
            old.iter().enumerate().map(change).collect()
        };
        let last = |mut page: Vec<u8>| {
            page[page_bytes - 1] ^= 1;
            page
        };
        [changed(page_bytes), changed(200), changed(64), changed(8), old.clone(), last(old.clone())]
            .into_iter()
            .map(|new| (old.clone(), new))
            .collect()
    }

    fn replayed(frame: &Frame<'_>, old: &[u8]) -> Vec<u8> {
        let is_fresh = frame.base() == Base::Zeros;
        let mut page = if is_fresh { vec![0; old.len()] } else { old.to_vec() };
        let mut lines = Vec::new();
        frame.each(
            |at, word| page[at as usize..][..WORD].copy_from_slice(word),
            |line| lines.push(line),
        );
        assert!(lines.is_sorted() && lines.iter().all(|line| line % 64 == 0));
        page
    }

    #[test]
    fn replayed_words_make_the_page() {
        for page_bytes in [512, 4096, 65536] {
            for (old, new) in pages(page_bytes) {
                for base in [Base::Own, Base::Zeros, Base::Other(7)] {
                    let before = Some(&old[..]).filter(|_| base != Base::Zeros);
                    let mut records = Records::default();
                    records.add_frame((5, 9), base, before, &new).unwrap();
                    let bytes = records.bytes().to_vec();
                    let mut source = &bytes[..];
                    let Some(Record::Frame(frame)) = Record::read(&mut source, 0, page_bytes)
                    else {
                        panic!("{page_bytes}: no frame")
                    };
                    assert_eq!((frame.page(), frame.number(), frame.base()), (5, 9, base));
                    assert_eq!(frame.bytes.len(), bytes.len());
                    assert!(replayed(&frame, &old) == new, "{page_bytes}, {base:?}");
                    let most = Records::most_bytes(1, page_bytes) - END_BYTES as u64;
                    assert!(frame.len() <= most, "{page_bytes}, {base:?}: {}", frame.len());
                    let words = bytes.len() - frame.masks.end;
                    assert_eq!(words / WORD, differing_words(before, &new));
                }
            }
        }
    }

    /// A checksum does not protect from a program that writes such records.
    #[test]
    fn frame_of_lines_that_a_page_does_not_have_is_none() {
        let new = vec![7; 512];
        let mut records = Records::default();
        records.add_frame((5, 9), Base::Other(3), Some(&[0; 512]), &new).unwrap();
        let whole = records.bytes().to_vec();
        let read = |bytes: &[u8]| Record::read(&mut &bytes[..], 0, 512).map(|found| found.len());
        assert_eq!(read(&whole), Some(whole.len() as u64));
        let map = FRAME_START + OTHER;
        for (at, value) in [(map + 1, 1), (map + 7, 0x80), (FRAME_START, 0)] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            assert_eq!(read(&bytes), None, "byte {at}");
        }
    }

    /// A commit of which any word is an older one's does not count.
    #[test]
    fn torn_commit_has_no_end() {
        let (old, new) = pages(512).swap_remove(2);
        let mut records = Records::default();
        records.add_frame((5, 9), Base::Own, Some(&old), &new).unwrap();
        let check = crc32c::crc32c_append(77, records.bytes());
        records.add_end(9, 5, check);
        let bytes = records.bytes().to_vec();
        let counts = |bytes: &[u8], seed: u32| {
            let (mut at, mut check) = (0, seed);
            loop {
                let mut source = bytes;
                let record = Record::read(&mut source, at, 512)?;
                at += record.len();
                match record {
                    Record::Frame(frame) => check = frame.check(check),
                    Record::End(end) => return end.check(check),
                }
            }
        };
        assert!(counts(&bytes, 77).is_some() && counts(&bytes, 78).is_none());
        for at in (0..bytes.len()).step_by(WORD) {
            for value in [0_u8, 0xff, 0x5a] {
                let mut torn = bytes.clone();
                torn[at..at + WORD].fill(value);
                assert!(torn == bytes || counts(&torn, 77).is_none(), "word at {at}: {value}");
            }
            assert_eq!(counts(&bytes[..at], 77), None);
        }
    }
}
