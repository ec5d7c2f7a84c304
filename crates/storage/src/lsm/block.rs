//! A block of an SSTable: records in the order of their keys, found by binary search. Blocks of
//! data and blocks of the index above them have the same form; `docs/format/sstable.md` draws it.
//!
//! A block is checked once, when it comes from its file; what is searched afterwards has passed
//! [`check`].

use std::cmp::Ordering;
use std::ops::Range;

use pm::{Bytes, View};

/// Bytes before the offsets of a block.
pub const BLOCK_HEADER_BYTES: usize = 16;
/// Bytes of a record before its key, unless that is long.
const RECORD_HEADER_BYTES: usize = 2;
/// The mark of a long key, in place of its length. The length is in the next two bytes, and the key
/// follows them.
const LONG: u8 = 255;
/// The most bytes of a block: the longest tuple fits.
pub const MAX_BLOCK_BYTES: u32 = 1 << 28;
/// The height of a page of the filter.
pub const FILTER_HEIGHT: u8 = 0xff;
/// The kind of a record that leads to a block.
pub const POINTER: u8 = 0x40;

/// The place of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockAt {
    /// Its first byte in the file.
    pub at: u64,
    /// Its bytes.
    pub bytes: u32,
}

impl BlockAt {
    /// The body of a record that leads to the block.
    pub fn encode(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.at.to_le_bytes());
        bytes[8..].copy_from_slice(&self.bytes.to_le_bytes());
        bytes
    }

    /// Reads what [`Self::encode`] wrote.
    pub fn decode(body: Bytes<'_>) -> Option<Self> {
        let body = body.whole::<12>()?;
        let (at, bytes) = body.split_first_chunk::<8>()?;
        let bytes = u32::from_le_bytes(bytes.try_into().ok()?);
        Some(Self { at: u64::from_le_bytes(*at), bytes })
    }
}

/// The checksum of a block: of its bytes, and of where they belong, so that a block in another's
/// place does not pass.
fn checksum(block: &[u8], file: u64, at: u64) -> u32 {
    let sum = crc32c::crc32c_append(0, &block[4..]);
    let sum = crc32c::crc32c_append(sum, &file.to_le_bytes());
    crc32c::crc32c_append(sum, &at.to_le_bytes())
}

/// Sets length and checksum of a block that is otherwise complete.
pub fn seal(block: &mut [u8], file: u64, at: u64) {
    let bytes = (block.len() as u32).to_le_bytes();
    block[4..8].copy_from_slice(&bytes);
    let sum = checksum(block, file, at);
    block[..4].copy_from_slice(&sum.to_le_bytes());
}

/// Collects the records of a block.
#[derive(Default, Debug)]
pub struct BlockBuilder {
    height: u8,
    offsets: Vec<u32>,
    records: Vec<u8>,
    last_key: Vec<u8>,
}

impl BlockBuilder {
    /// Returns a builder for blocks that lie so many levels above the data.
    pub fn new(height: u8) -> Self {
        Self { height, ..Self::default() }
    }

    /// Bytes of the block so far.
    pub fn bytes(&self) -> usize {
        BLOCK_HEADER_BYTES + self.offsets.len() * 4 + self.records.len()
    }

    /// Bytes that a record adds.
    pub fn record_bytes(key: &[u8], body: &[u8]) -> usize {
        let more = if key.len() < usize::from(LONG) { 0 } else { 2 };
        4 + RECORD_HEADER_BYTES + more + key.len() + body.len()
    }

    /// Returns whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Returns how many records there are.
    pub fn records(&self) -> usize {
        self.offsets.len()
    }

    /// The key of the last record.
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Adds a record, whose key is above all others.
    ///
    /// # Panics
    /// The key is not above all others, or has more than 65,535 bytes.
    pub fn add(&mut self, kind: u8, key: &[u8], body: &[u8]) {
        assert!(self.is_empty() || key > &self.last_key[..], "records come in order");
        self.offsets.push(self.records.len() as u32);
        self.records.push(kind);
        match u8::try_from(key.len()) {
            Ok(len) if len < LONG => self.records.push(len),
            _ => {
                self.records.push(LONG);
                let len = u16::try_from(key.len()).expect("keys are short");
                self.records.extend_from_slice(&len.to_le_bytes());
            }
        }
        self.records.extend_from_slice(key);
        self.records.extend_from_slice(body);
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
    }

    /// Appends the block to `out`, as it will lie at byte `at` of file `file`, and empties itself.
    /// Returns its bytes.
    pub fn finish(&mut self, file: u64, at: u64, out: &mut Vec<u8>) -> u32 {
        let start = out.len();
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&(self.offsets.len() as u32).to_le_bytes());
        out.extend_from_slice(&[self.height, 0, 0, 0]);
        let records_at = (BLOCK_HEADER_BYTES + self.offsets.len() * 4) as u32;
        for offset in &self.offsets {
            out.extend_from_slice(&(records_at + offset).to_le_bytes());
        }
        out.extend_from_slice(&self.records);
        seal(&mut out[start..], file, at);
        self.offsets.clear();
        self.records.clear();
        (out.len() - start) as u32
    }
}

/// The length that a block says it has, and its height, from its first bytes.
pub fn announced(header: &[u8]) -> Option<(u32, u8)> {
    let bytes = u32::from_le_bytes(header.get(4..8)?.try_into().ok()?);
    let height = *header.get(12)?;
    (bytes as usize >= BLOCK_HEADER_BYTES && bytes <= MAX_BLOCK_BYTES).then_some((bytes, height))
}

/// Checks all of a block that was read from byte `at` of file `file`.
///
/// # Errors
/// The block is damaged; the text says how.
pub fn check(block: &[u8], file: u64, at: u64, height: u8) -> Result<(), &'static str> {
    if block.len() < BLOCK_HEADER_BYTES {
        return Err("the block is shorter than its header");
    }
    let word =
        |at: usize| u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
    if word(0) != checksum(block, file, at) {
        return Err("the block's checksum is wrong");
    }
    if word(4) as usize != block.len() || block[12] != height || block[13..16] != [0; 3] {
        return Err("the block's header does not make sense");
    }
    if height == FILTER_HEIGHT {
        return Ok(());
    }
    let records = word(8) as usize;
    let records_at = BLOCK_HEADER_BYTES + records.saturating_mul(4);
    if records == 0 || records_at > block.len() {
        return Err("the block's records do not fit into it");
    }
    let mut before: &[u8] = &[];
    for index in 0..records {
        let start = word(BLOCK_HEADER_BYTES + index * 4) as usize;
        let end = if index + 1 < records {
            word(BLOCK_HEADER_BYTES + index * 4 + 4) as usize
        } else {
            block.len()
        };
        let expected = if index == 0 { records_at } else { start };
        if start != expected || end > block.len() || end.saturating_sub(start) < RECORD_HEADER_BYTES
        {
            return Err("the block's records do not fit into it");
        }
        let long = block[start + 1] == LONG;
        let mut key = 0..0;
        if !long || end - start >= RECORD_HEADER_BYTES + 2 {
            key = key_place(&Slice(block), start);
        }
        if key.end > end || (long && key.len() < usize::from(LONG)) {
            return Err("a record's key does not fit into it");
        }
        let key = &block[key];
        if index > 0 && key <= before {
            return Err("the block's records are not in order");
        }
        before = key;
    }
    Ok(())
}

/// Returns where in a block the key of the record at `start` lies.
#[inline]
fn key_place<V: View>(block: &V, start: usize) -> Range<usize> {
    let from = start + RECORD_HEADER_BYTES;
    match block.bytes(start + 1, 1).byte(0) {
        LONG => long_key_place(block, from),
        len => from..from + usize::from(len),
    }
}

#[cold]
fn long_key_place<V: View>(block: &V, at: usize) -> Range<usize> {
    let len = block.bytes(at, 2);
    let from = at + 2;
    from..from + usize::from(u16::from_le_bytes(len.array(0)))
}

/// A block that has been checked.
#[derive(Clone, Copy, Debug)]
pub struct Block<V>(pub V);

impl<V: View> Block<V> {
    #[inline]
    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0.bytes(at, 4).array(0))
    }

    /// Returns how many levels it lies above the data.
    #[inline]
    pub fn height(&self) -> u8 {
        self.0.bytes(12, 1).byte(0)
    }

    /// Returns how many records there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.word(8) as usize
    }

    /// Returns whether there is no record: there is one in every block that passes [`check`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn start(&self, index: usize) -> usize {
        self.word(BLOCK_HEADER_BYTES + index * 4) as usize
    }

    /// The key of a record.
    #[inline]
    pub fn key(&self, index: usize) -> Bytes<'_> {
        let start = self.start(index);
        match self.0.bytes(start + 1, 1).byte(0) {
            LONG => self.long_key(start),
            len => self.0.bytes(start + RECORD_HEADER_BYTES, usize::from(len)),
        }
    }

    /// Compares the key of a record with `key`.
    #[inline]
    fn compare(&self, index: usize, key: &[u8]) -> Ordering {
        let start = self.start(index);
        match self.0.bytes(start + 1, 1).byte(0) {
            LONG => self.compare_long(start, key),
            len => self.0.bytes(start + RECORD_HEADER_BYTES, usize::from(len)).compare(key),
        }
    }

    #[cold]
    #[inline(never)]
    fn compare_long(&self, start: usize, key: &[u8]) -> Ordering {
        self.long_key(start).compare(key)
    }

    #[cold]
    #[inline(never)]
    fn long_key(&self, start: usize) -> Bytes<'_> {
        let key = long_key_place(&self.0, start + RECORD_HEADER_BYTES);
        self.0.bytes(key.start, key.len())
    }

    /// Kind and body of a record.
    #[inline]
    pub fn entry(&self, index: usize) -> (u8, Bytes<'_>) {
        let (kind, body) = self.place(index);
        (kind, self.0.bytes(body.start, body.len()))
    }

    /// Returns where a record of an index block leads to.
    #[inline]
    pub fn pointer(&self, index: usize) -> Option<BlockAt> {
        let (kind, body) = self.entry(index);
        if kind == POINTER { BlockAt::decode(body) } else { None }
    }

    /// Kind of a record, and where in the block its body lies.
    #[inline]
    pub fn place(&self, index: usize) -> (u8, Range<usize>) {
        let start = self.start(index);
        let end =
            if index + 1 < self.len() { self.start(index + 1) } else { self.word(4) as usize };
        let header = self.0.bytes(start, RECORD_HEADER_BYTES);
        let [kind, key_bytes] = header.array(0);
        if key_bytes == LONG {
            return self.long_place(start, end);
        }
        (kind, start + RECORD_HEADER_BYTES + usize::from(key_bytes)..end)
    }

    #[cold]
    #[inline(never)]
    fn long_place(&self, start: usize, end: usize) -> (u8, Range<usize>) {
        (self.0.bytes(start, 1).byte(0), key_place(&self.0, start).end..end)
    }

    /// The first record whose key is at least `key`, or the number of records; and whether its key
    /// is `key`.
    #[inline]
    pub fn lower_bound(&self, key: &[u8]) -> (usize, bool) {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.compare(middle, key) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return (middle, true),
            }
        }
        (low, false)
    }
}

/// Kind, key and body of a record of a block that has been checked.
#[inline]
pub fn record(block: &[u8], index: usize) -> (u8, &[u8], &[u8]) {
    let view = Block(Slice(block));
    let start = view.start(index);
    let end = if index + 1 < view.len() { view.start(index + 1) } else { block.len() };
    let key = key_place(&view.0, start);
    (block[start], &block[key.clone()], &block[key.end..end])
}

/// A slice as a view.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a>(pub &'a [u8]);

impl View for Slice<'_> {
    fn word(&self, at: usize) -> u64 {
        let (word, _) = self.0[at..].split_first_chunk::<8>().expect("within the view");
        u64::from_le_bytes(*word)
    }

    #[inline]
    fn bytes(&self, at: usize, len: usize) -> Bytes<'_> {
        Bytes::from(&self.0[at..at + len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> Vec<u8> {
        let mut builder = BlockBuilder::new(0);
        for key in ["aa", "b", "bb", "d"] {
            builder.add(1, key.as_bytes(), format!("body of {key}").as_bytes());
        }
        let mut out = Vec::new();
        assert_eq!(builder.finish(7, 4096, &mut out) as usize, out.len());
        out
    }

    #[test]
    fn records_are_found_by_their_keys() {
        let bytes = block();
        check(&bytes, 7, 4096, 0).unwrap();
        let block = Block(Slice(&bytes));
        assert_eq!(block.len(), 4);
        let found = |key: &str| block.lower_bound(key.as_bytes());
        assert_eq!([found("a"), found("aa"), found("b")], [(0, false), (0, true), (1, true)]);
        assert_eq!([found("c"), found("d"), found("e")], [(3, false), (3, true), (4, false)]);
        assert!(block.key(2).equal(b"bb") && block.entry(2).0 == 1);
        assert_eq!(block.entry(2).1.to_vec(), b"body of bb");
        assert_eq!(block.entry(3).1.to_vec(), b"body of d");
    }

    #[test]
    fn long_keys_are_found_and_malformed_ones_are_noticed() {
        let keys = [1, 254, 255, 256, 2_050, 65_535].map(|len| vec![b'k'; len]);
        let mut builder = BlockBuilder::new(0);
        let mut bytes = BLOCK_HEADER_BYTES;
        for key in &keys {
            builder.add(2, key, b"body");
            bytes += BlockBuilder::record_bytes(key, b"body");
        }
        assert_eq!(builder.bytes(), bytes);
        let mut out = Vec::new();
        builder.finish(7, 0, &mut out);
        check(&out, 7, 0, 0).unwrap();
        let block = Block(Slice(&out));
        for (index, key) in keys.iter().enumerate() {
            assert_eq!(block.lower_bound(key), (index, true));
            assert!(block.key(index).equal(key) && block.entry(index).1.equal(b"body"));
            assert_eq!(record(&out, index), (2, &key[..], &b"body"[..]));
        }
        let at = |index| block.start(index);
        // The form of short keys for 254 bytes, that of long ones from 255 on.
        assert_eq!(out[at(1)..at(1) + 3], [2, 254, b'k']);
        assert_eq!(out[at(2)..at(2) + 5], [2, 255, 255, 0, b'k']);
        let wrong = |bytes: &[(usize, u8)]| {
            let mut damaged = out.clone();
            bytes.iter().for_each(|(at, byte)| damaged[*at] = *byte);
            seal(&mut damaged, 7, 0);
            assert_eq!(check(&damaged, 7, 0, 0), Err("a record's key does not fit into it"));
        };
        // A short key in the form of a long one; a key that ends past its record.
        wrong(&[(at(2) + 2, 254)]);
        wrong(&[(at(3) + 3, 2)]);
        // No room for a length.
        let mut builder = BlockBuilder::new(0);
        builder.add(2, b"", b"");
        let mut short = Vec::new();
        builder.finish(7, 0, &mut short);
        let last = short.len() - 1;
        short[last] = LONG;
        seal(&mut short, 7, 0);
        assert!(check(&short, 7, 0, 0).is_err());
    }

    #[test]
    fn every_flipped_bit_and_every_other_place_is_noticed() {
        let bytes = block();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(check(&damaged, 7, 4096, 0).is_err(), "bit {bit}");
        }
        assert!(check(&bytes, 7, 8192, 0).is_err(), "another place");
        assert!(check(&bytes, 8, 4096, 0).is_err(), "another file");
        assert!(check(&bytes, 7, 4096, 1).is_err(), "another height");
        for len in 0..bytes.len() {
            assert!(check(&bytes[..len], 7, 4096, 0).is_err());
        }
    }

    /// A block with a valid checksum whose insides make no sense is refused, or harmless.
    #[test]
    fn nonsense_under_a_valid_checksum_is_refused() {
        let bytes = block();
        let mut refused = 0;
        for at in 4..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let sum = checksum(&damaged, 7, 4096);
                damaged[..4].copy_from_slice(&sum.to_le_bytes());
                if check(&damaged, 7, 4096, 0).is_err() {
                    refused += 1;
                    continue;
                }
                let block = Block(Slice(&damaged));
                for index in 0..block.len() {
                    block.lower_bound(&block.key(index).to_vec());
                    block.entry(index);
                }
            }
        }
        assert!(refused > 100, "{refused}");
    }

    #[test]
    fn the_layout_is_that_of_the_format_description() {
        let bytes = block();
        assert_eq!((BLOCK_HEADER_BYTES, RECORD_HEADER_BYTES), (16, 2));
        assert_eq!(bytes[4..8], (bytes.len() as u32).to_le_bytes());
        assert_eq!(bytes[8..16], [4, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[16..20], 32u32.to_le_bytes());
        assert_eq!(bytes[32..36], [1, 2, b'a', b'a']);
        let at = BlockAt { at: 1 << 33, bytes: 77 };
        assert_eq!(BlockAt::decode(Bytes::from(&at.encode()[..])), Some(at));
        assert_eq!(BlockAt::decode(Bytes::from(&[0; 11][..])), None);
        assert_eq!(BlockAt::decode(Bytes::from(&[0; 13][..])), None);
    }
}
