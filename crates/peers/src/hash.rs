//! A hash for integer keys that costs two nanoseconds.
//!
//! The standard library's default protects against chosen keys, which no benchmark needs and which
//! would make the floors higher than they are.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A hash map from keys.
pub(crate) type KeyMap<V> = HashMap<u64, V, BuildHasherDefault<KeyHasher>>;

/// Both halves of the product with a constant, folded together: high and low bits are mixed.
#[derive(Debug, Default, Clone)]
pub(crate) struct KeyHasher(u64);

/// The 128-bit product, folded to 64 bits.
#[inline]
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

impl Hasher for KeyHasher {
    #[inline]
    fn write_u64(&mut self, key: u64) {
        self.0 = folded(key ^ self.0 ^ 0x2d35_8dcc_aa6c_78a5, 0x8bb8_4b93_962e_acc9);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// A checksum that distinguishes a log entry that was written in part from a whole one. Its length
/// is part of it.
#[inline]
pub(crate) fn checksum(seed: u64, bytes: &[u8]) -> u64 {
    let mut sum = folded(seed ^ 0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9 ^ bytes.len() as u64);
    let (words, tail) = bytes.as_chunks::<16>();
    for word in words {
        let both = u128::from_le_bytes(*word);
        sum = folded(sum ^ both as u64, 0x8bb8_4b93_962e_acc9 ^ (both >> 64) as u64);
    }
    let mut last = [0; 16];
    last[..tail.len()].copy_from_slice(tail);
    let both = u128::from_le_bytes(last);
    folded(sum ^ both as u64, 0x94d0_49bb_1331_11eb ^ (both >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::checksum;

    #[test]
    fn a_checksum_notices_each_changed_bit_and_each_length() {
        let bytes: Vec<u8> = (0..100).collect();
        let good = checksum(1, &bytes);
        for bit in 0..800 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(checksum(1, &bad), good, "bit {bit}");
        }
        assert_ne!(checksum(1, &bytes[..99]), good);
        assert_ne!(checksum(2, &bytes), good);
    }
}
