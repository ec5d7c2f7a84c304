//! The bytes of a segment of the archive: see `docs/format/log-archive.md`.

use crate::ids::Lsn;

/// Bytes of a segment's header, which precedes its records.
pub(super) const HEADER_BYTES: usize = 64;
/// Bytes of a segment's trailer, which follows its records.
pub(super) const END_BYTES: usize = 64;

const VERSION: u32 = 1;
pub(super) const HEADER_MAGIC: &[u8; 8] = b"PERDARCH";
const END_MAGIC: &[u8; 8] = b"PERDAEND";

/// The begin of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    /// The partition of the database that it is of.
    pub(super) stamp: u64,
    /// Segments are numbered from 1.
    pub(super) number: u64,
    /// The LSN at which the one before ends.
    pub(super) from: Lsn,
    /// A number that no other segment has, of whatever history.
    pub(super) id: u64,
    /// That of the segment before; 0 in the first one.
    pub(super) before: u64,
}

/// The end of a segment, which only a whole one has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct End {
    /// The LSN at which the next one begins.
    pub(super) to: Lsn,
    pub(super) records: u64,
    /// Bytes of the records.
    pub(super) bytes: u64,
    /// Their CRC-32C.
    pub(super) checksum: u32,
}

fn sealed(magic: &[u8; 8], words: [u64; 5]) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(magic);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    for (number, word) in words.iter().enumerate() {
        bytes[16 + 8 * number..24 + 8 * number].copy_from_slice(&word.to_le_bytes());
    }
    let crc = crc32c::crc32c(&bytes);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn words_of(bytes: &[u8], magic: &[u8; 8]) -> Result<[u64; 5], String> {
    let bytes: &[u8; 64] = bytes.try_into().map_err(|_| "it is cut off".to_owned())?;
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let mut summed = *bytes;
    summed[12..16].fill(0);
    if &bytes[..8] != magic || crc32c::crc32c(&summed) != half(12) {
        return Err("its begin or its end is damaged".into());
    }
    if half(8) != VERSION {
        return Err(format!("it has version {}; this build reads version {VERSION}", half(8)));
    }
    Ok(std::array::from_fn(|number| {
        let at = 16 + 8 * number;
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
    }))
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        sealed(HEADER_MAGIC, [self.stamp, self.number, self.from.0, self.id, self.before])
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let [stamp, number, from, id, before] = words_of(bytes, HEADER_MAGIC)?;
        Ok(Self { stamp, number, from: Lsn(from), id, before })
    }
}

impl End {
    pub(super) fn encode(&self) -> [u8; END_BYTES] {
        let checksum = u64::from(self.checksum);
        sealed(END_MAGIC, [self.to.0, self.records, self.bytes, checksum, 0])
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let [to, records, bytes, checksum, _] = words_of(bytes, END_MAGIC)?;
        Ok(Self { to: Lsn(to), records, bytes, checksum: checksum as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begin_and_end_are_read_as_they_were_written_and_no_flipped_bit_passes() {
        let from = Lsn(1 << 32 | 512);
        let header = Header { stamp: 7 << 32 | 1, number: 3, from, id: 10, before: 11 };
        let end = End { to: Lsn(9), records: 4, bytes: 5, checksum: 6 };
        let (begins, ends) = (header.encode(), end.encode());
        assert_eq!((Header::decode(&begins), End::decode(&ends)), (Ok(header), Ok(end)));
        assert_eq!(&begins[..12], b"PERDARCH\x01\0\0\0");
        assert_eq!((begins[16], begins[24], begins[32 + 1], begins[32 + 4]), (1, 3, 2, 1));
        assert_eq!((begins[40], begins[48]), (10, 11));
        assert_eq!(
            (&ends[..8], ends[16], ends[24], ends[32], ends[40]),
            (&b"PERDAEND"[..], 9, 4, 5, 6)
        );
        for bit in 0..64 * 8 {
            let (mut begins, mut ends) = (begins, ends);
            begins[bit / 8] ^= 1 << (bit % 8);
            ends[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&begins).is_err() && End::decode(&ends).is_err(), "bit {bit}");
        }
        assert!(Header::decode(&begins[..63]).is_err());
    }
}
