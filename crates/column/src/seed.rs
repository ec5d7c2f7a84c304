//! The store's seed. It is secret, so values and keys cannot be chosen to share a hash, or a height in a skip
//! list. All hashes are SipHash-1-3, each kind with a second key of its own.

use siphasher::sip::SipHasher13;

/// The second keys.
const OF_VALUES: u64 = u64::from_le_bytes(*b"values  ");
const OF_KEYS: u64 = u64::from_le_bytes(*b"keys    ");

/// A number that the master of a store has from its making on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seed(pub(crate) u64);

impl Seed {
    /// A seed from the kernel's random numbers.
    pub(crate) fn random() -> Self {
        let bytes = pm::random_uuid();
        let half = |from: usize| {
            let mut half = [0; 8];
            half.copy_from_slice(&bytes[from..from + 8]);
            u64::from_le_bytes(half)
        };
        // Six bits of it are fixed, none of them at the same place of both halves.
        Self(half(0) ^ half(8))
    }

    /// The hash of bytes that are a value of a dictionary.
    pub(crate) fn of_value(self, bytes: &[u8]) -> u64 {
        SipHasher13::new_with_keys(self.0, OF_VALUES).hash(bytes)
    }

    /// The hash of a key of an index.
    pub(crate) fn of_key(self, key: &[u8]) -> u64 {
        SipHasher13::new_with_keys(self.0, OF_KEYS).hash(key)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Hashes lie in persistent memory. These numbers are from another implementation.
    #[test]
    fn hashes_stay_as_they_are() {
        let seed = Seed(0x0706_0504_0302_0100);
        assert_eq!(seed.of_value(b""), 0xf4e6_8914_1d68_ce22);
        assert_eq!(seed.of_value(b"perdura"), 0xdba3_47d7_b77e_d26e);
        assert_eq!(seed.of_key(b"perdura"), 0x66c8_36b9_9ad0_848c);
    }

    #[test]
    fn each_seed_has_hashes_of_its_own() {
        let seeds: BTreeSet<u64> = (0..64).map(|_| Seed::random().0).collect();
        assert_eq!(seeds.len(), 64);
        let hashes: BTreeSet<u64> =
            seeds.iter().map(|seed| Seed(*seed).of_value(b"value")).collect();
        assert_eq!(hashes.len(), 64);
    }
}
