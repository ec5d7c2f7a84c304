//! The bytes with which a file begins, or a part of it: magic, version, checksum, and words.
//!
//! ```text
//! 0        8         12         16     24
//! +--------+---------+----------+------+------+-- - -
//! | magic  | version | checksum | word | word |          little-endian
//! +--------+---------+----------+------+------+-- - -
//! ```
//! The checksum is the CRC-32C of all of it with a checksum of zero, and of the database's
//! [stamp](pm::Files::stamp), if it is given.

use std::ops::RangeInclusive;

use crate::logs::stamp::stamped;

/// The place of the words.
pub const WORDS: usize = 16;

/// The reason why bytes are no header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// There are too few.
    Short,
    /// They begin with another magic.
    Magic,
    /// They begin with the magic, but nothing follows it: no header has version 0.
    Torn,
    /// They are of another version of the format.
    Version(u32),
    /// The checksum is that of other bytes, or of another database.
    Checksum,
}

fn checksum(bytes: &[u8], stamp: u32) -> u32 {
    let sum = crc32c::crc32c(&bytes[..12]);
    let sum = crc32c::crc32c_append(sum, &[0; 4]);
    stamped(crc32c::crc32c_append(sum, &bytes[WORDS..]), stamp)
}

/// Returns a header of `N` bytes: the words, followed by `rest` and zeros.
pub fn seal<const N: usize>(
    magic: &[u8; 8],
    (version, stamp): (u32, u32),
    words: &[u64],
    rest: &[u8],
) -> [u8; N] {
    let mut bytes = [0; N];
    bytes[..8].copy_from_slice(magic);
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    let words_end = WORDS + words.len() * 8;
    for (word, place) in words.iter().zip(bytes[WORDS..words_end].chunks_exact_mut(8)) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes[words_end..words_end + rest.len()].copy_from_slice(rest);
    let sum = checksum(&bytes, stamp);
    bytes[12..WORDS].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The first `W` words of a header of `N` bytes, with which `bytes` begin.
///
/// # Errors
/// They are none.
pub fn open<const N: usize, const W: usize>(
    bytes: &[u8],
    magic: &[u8; 8],
    (versions, stamp): (RangeInclusive<u32>, u32),
) -> Result<[u64; W], Fault> {
    let bytes = bytes.get(..N).ok_or(Fault::Short)?;
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    if &bytes[..8] != magic {
        return Err(Fault::Magic);
    }
    // Before the checksum, whose place another version may have changed.
    match half(8) {
        0 => return Err(Fault::Torn),
        version if !versions.contains(&version) => return Err(Fault::Version(version)),
        _ => {}
    }
    if checksum(bytes, stamp) != half(12) {
        return Err(Fault::Checksum);
    }
    Ok(std::array::from_fn(|number| {
        let at = WORDS + 8 * number;
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: &[u8; 8] = b"PERDTEST";

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let bytes: [u8; 64] = seal(MAGIC, (3, 0), &[7, 1 << 40], b"rest");
        assert_eq!(&bytes[..12], b"PERDTEST\x03\0\0\0");
        assert_eq!((bytes[16], bytes[29], &bytes[32..37]), (7, 1, &b"rest\0"[..]));
        assert_eq!(open::<64, 2>(&bytes, MAGIC, (2..=3, 0)), Ok([7, 1 << 40]));
        assert_eq!(open::<64, 2>(&bytes, MAGIC, (4..=5, 0)), Err(Fault::Version(3)));
        assert_eq!(open::<64, 2>(&bytes[..63], MAGIC, (2..=3, 0)), Err(Fault::Short));
        assert_eq!(open::<64, 2>(&bytes, b"PERDTESU", (2..=3, 0)), Err(Fault::Magic));
        assert_eq!(open::<64, 2>(&bytes, MAGIC, (2..=3, 9)), Err(Fault::Checksum), "another stamp");
        let mut torn = [0; 64];
        torn[..8].copy_from_slice(MAGIC);
        assert_eq!(open::<64, 2>(&torn, MAGIC, (2..=3, 0)), Err(Fault::Torn));
        for bit in 0..64 * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(open::<64, 2>(&damaged, MAGIC, (2..=3, 0)).is_err(), "bit {bit}");
        }
    }
}
