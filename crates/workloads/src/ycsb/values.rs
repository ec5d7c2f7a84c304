//! The contents of every column at every version.
//!
//! A value is a function of (seed, key, column, version), so nothing has to be remembered to verify
//! it. Its 100 bytes are characters of a 64-letter printable alphabet:
//!
//! ```text
//! 0        8                  16                                           100
//! | version | key * 16 + column | pool bytes, XORed with a mask of the value |
//! ```
//!
//! Two different writes differ in their stamps. The mask keeps a compressor from finding the pool
//! in the values: without it a table would be mostly repetitions of 4 KiB.

use super::{COLUMN_BYTES, COLUMNS, Column};
use crate::random::{Random, mix};

/// Places in the pool from which a value may start.
const POOL_STARTS: usize = 4096;
/// Bytes of the two stamps.
const STAMP_BYTES: usize = 16;
/// First letter of the alphabet (`0`), in each byte; the last is `o`.
const ALPHABET: u64 = 0x3030_3030_3030_3030;
/// The largest version that a stamp holds.
const VERSION_LIMIT: u64 = 1 << 48;

/// Makes the contents of any column at any version, and checks them.
///
/// Version 0 is what was loaded; an update by the transaction with index `i` in its partition
/// writes version `i + 1`.
#[derive(Debug, Clone)]
pub struct Values {
    seed: u64,
    /// Six random bits a byte.
    pool: Box<[u8]>,
}

impl Values {
    /// The values of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, u64::MAX);
        let pool =
            (0..POOL_STARTS + COLUMN_BYTES).map(|_| (random.next_u64() >> 58) as u8).collect();
        Self { seed: mix(seed), pool }
    }

    /// Writes the contents of `column` of tuple `key` at `version` into `out`.
    ///
    /// # Panics
    /// In debug builds, if `key` is not below 2^44 or `version` not below 2^48.
    #[inline]
    pub fn fill(&self, key: u64, column: usize, version: u64, out: &mut Column) {
        debug_assert!(column < COLUMNS && version < VERSION_LIMIT && key < 1 << 44);
        let name = key << 4 | column as u64;
        let hash = mix(self.seed ^ mix(name) ^ version.wrapping_mul(0xd6e8_feb8_6659_fd93));
        let start = (hash >> 52) as usize;
        let mask = spread(hash);
        let source = &self.pool[start..start + COLUMN_BYTES];
        let (words, tail) = out.as_chunks_mut::<8>();
        let (source_words, source_tail) = source.as_chunks::<8>();
        for (word, from) in words.iter_mut().zip(source_words) {
            *word = ((u64::from_le_bytes(*from) ^ mask) + ALPHABET).to_le_bytes();
        }
        for (byte, from) in tail.iter_mut().zip(source_tail) {
            *byte = (from ^ mask as u8) + ALPHABET as u8;
        }
        out[..8].copy_from_slice(&(spread(version) + ALPHABET).to_le_bytes());
        out[8..STAMP_BYTES].copy_from_slice(&(spread(name) + ALPHABET).to_le_bytes());
    }

    /// The contents of `column` of tuple `key` at `version`.
    #[must_use]
    pub fn value(&self, key: u64, column: usize, version: u64) -> Column {
        let mut out = [0; COLUMN_BYTES];
        self.fill(key, column, version, &mut out);
        out
    }

    /// The version of `contents`, if they are exactly what some version of `column` of `key` is.
    #[must_use]
    pub fn version_of(&self, key: u64, column: usize, contents: &Column) -> Option<u64> {
        let stamp = u64::from_le_bytes(contents[..8].try_into().expect("eight bytes"));
        let letters = stamp.wrapping_sub(ALPHABET);
        if letters & 0xc0c0_c0c0_c0c0_c0c0 != 0 {
            return None;
        }
        let version = gather(letters);
        (self.value(key, column, version) == *contents).then_some(version)
    }
}

/// The low 48 bits of `x`, six to a byte.
#[inline]
const fn spread(x: u64) -> u64 {
    let x = (x & 0x0000_0000_00ff_ffff) | (x & 0x0000_ffff_ff00_0000) << 8;
    let x = (x & 0x0000_0fff_0000_0fff) | (x & 0x00ff_f000_00ff_f000) << 4;
    (x & 0x003f_003f_003f_003f) | (x & 0x0fc0_0fc0_0fc0_0fc0) << 2
}

/// Undoes [`spread`].
#[inline]
const fn gather(x: u64) -> u64 {
    let x = (x & 0x003f_003f_003f_003f) | (x & 0x3f00_3f00_3f00_3f00) >> 2;
    let x = (x & 0x0000_0fff_0000_0fff) | (x & 0x0fff_0000_0fff_0000) >> 4;
    (x & 0x0000_0000_00ff_ffff) | (x & 0x00ff_ffff_0000_0000) >> 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreading_is_undone_by_gathering() {
        let mut random = Random::new(3, 0);
        for _ in 0..1000 {
            let x = random.next_u64() >> 16;
            assert_eq!(gather(spread(x)), x);
            assert_eq!(spread(x) & 0xc0c0_c0c0_c0c0_c0c0, 0);
        }
    }

    #[test]
    fn a_value_is_printable_recomputable_and_names_its_version() {
        let values = Values::new(7);
        for (key, column, version) in [(0, 0, 0), (1, 9, 1), ((1 << 44) - 1, 5, (1 << 48) - 1)] {
            let value = values.value(key, column, version);
            assert!(value.iter().all(u8::is_ascii_graphic));
            assert_eq!(value, Values::new(7).value(key, column, version));
            assert_eq!(values.version_of(key, column, &value), Some(version));
            assert_eq!(values.version_of(key ^ 1, column, &value), None);
            assert_eq!(values.version_of(key, (column + 1) % COLUMNS, &value), None);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_values_for_ever() {
        let value = Values::new(1).value(12_345, 6, 789);
        let expected = "E<000000F>`00000>N<J2Ih9leUHNO]DY4[`eh^QNcYZ=;f8JkB`dBKL\
                        HY6GRG?74O1>Vg\\JfoJ\\EZ[N<YM02>h62eW4n0[QNACa";
        assert_eq!(std::str::from_utf8(&value), Ok(expected));
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let values = Values::new(7);
        let good = values.value(11, 3, 5);
        for at in 0..COLUMN_BYTES {
            let mut bad = good;
            bad[at] ^= 1;
            assert_eq!(values.version_of(11, 3, &bad), None, "byte {at}");
        }
        assert_eq!(values.version_of(11, 3, &[0; COLUMN_BYTES]), None);
    }

    #[test]
    fn seeds_columns_keys_and_versions_all_change_the_body() {
        let values = Values::new(1);
        let body = |value: Column| value[STAMP_BYTES..].to_vec();
        let first = body(values.value(1, 1, 1));
        assert_ne!(first, body(values.value(1, 1, 2)));
        assert_ne!(first, body(values.value(1, 2, 1)));
        assert_ne!(first, body(values.value(2, 1, 1)));
        assert_ne!(first, body(Values::new(2).value(1, 1, 1)));
    }
}
