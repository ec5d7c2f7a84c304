//! A Bloom filter (P1 3.3, 4.3): says of a key that a run certainly has no entry for it.
//!
//! The filter is a plain array of bytes, in a file's block or in non-volatile memory, made of
//! blocks of one cache line. A key has all its bits in one block, so that a probe reads one line
//! wherever the filter lies; the price is a false-positive rate a little above that of a filter
//! whose bits lie anywhere.
//!
//! Where a key's bits are follows from its hash, the number of blocks and the bits for each key
//! alone; all three are stored with a run, so [`hash`] and [`Bloom`] never change their results.
//!
//! 1. block = the high half of `hash * blocks`;
//! 2. the bits within it are the pieces of nine bits of `hash` times an odd constant, from below.

/// Bytes of a block.
pub const BLOOM_BLOCK_BYTES: u64 = 64;

/// Bits of a block.
const BLOCK_BITS: u64 = BLOOM_BLOCK_BYTES * 8;
/// Bits of a number that names a bit of a block.
const PIECE: u32 = BLOCK_BITS.trailing_zeros();
/// Pieces in a word: no key has more bits.
const MAX_PROBES: u32 = 64 / PIECE;
/// The golden ratio's fraction: an odd constant whose product mixes into the high bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

const _: () = assert!(PIECE == 9 && MAX_PROBES == 7);

/// A 64-bit hash of a key's bytes: Austin Appleby's MurmurHash64A with seed zero. Stored in runs,
/// so its results stay as they are.
pub fn hash(bytes: &[u8]) -> u64 {
    const MIX: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mut hash = (bytes.len() as u64).wrapping_mul(MIX);
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(MIX);
        word = (word ^ word >> SHIFT).wrapping_mul(MIX);
        hash = (hash ^ word).wrapping_mul(MIX);
    }
    if !tail.is_empty() {
        let mut last = [0u8; 8];
        last[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(MIX);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(MIX);
    hash ^ hash >> SHIFT
}

/// Builds and probes a filter; the bits themselves are the caller's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bloom {
    probes: u32,
}

impl Bloom {
    /// A filter with so many bits for each key; ten make one false positive in a hundred.
    pub fn new(bits_per_key: u32) -> Self {
        // The best number of probes is the bits for each key times ln 2.
        let probes = (u64::from(bits_per_key) * 693 + 500) / 1000;
        Self { probes: (probes as u32).clamp(1, MAX_PROBES) }
    }

    /// Bytes of a filter for so many keys: whole blocks, one at least.
    pub fn bytes_for(keys: u64, bits_per_key: u32) -> u64 {
        let bits = keys.saturating_mul(u64::from(bits_per_key));
        bits.div_ceil(BLOCK_BITS).max(1) * BLOOM_BLOCK_BYTES
    }

    /// Bits that are set for a key, at most.
    pub fn probes(&self) -> u32 {
        self.probes
    }

    /// Returns where, in a filter of `bytes` bytes, the block of a key starts.
    #[inline]
    fn block_at(bytes: u64, hash: u64) -> u64 {
        let blocks = (bytes / BLOOM_BLOCK_BYTES).max(1);
        ((u128::from(hash) * u128::from(blocks)) >> 64) as u64 * BLOOM_BLOCK_BYTES
    }

    /// Adds a key to the filter, whose length is a multiple of [`BLOOM_BLOCK_BYTES`].
    ///
    /// # Panics
    /// The filter is shorter than a block.
    pub fn add(&self, filter: &mut [u8], hash: u64) {
        let at = Self::block_at(filter.len() as u64, hash) as usize;
        let block = &mut filter[at..at + BLOOM_BLOCK_BYTES as usize];
        for bit in self.bits(hash) {
            block[bit as usize / 8] |= 1 << (bit % 8);
        }
    }

    /// Returns whether a key may have been added; `false` is certain. A filter that is shorter than
    /// a block holds nothing back.
    pub fn may_contain(&self, filter: &[u8], hash: u64) -> bool {
        if (filter.len() as u64) < BLOOM_BLOCK_BYTES {
            return true;
        }
        let word = |at: u64| {
            let (words, _) = filter[at as usize..].as_chunks::<8>();
            Ok::<_, std::convert::Infallible>(u64::from_le_bytes(words[0]))
        };
        match self.may_contain_in(filter.len() as u64, hash, word) {
            Ok(may) => may,
            Err(never) => match never {},
        }
    }

    /// As [`Self::may_contain`], for a filter of `bytes` bytes that lies elsewhere: `word` loads
    /// the little-endian word that starts at a byte of it.
    ///
    /// # Errors
    /// What `word` returns.
    #[inline]
    pub fn may_contain_in<E>(
        &self,
        bytes: u64,
        hash: u64,
        mut word: impl FnMut(u64) -> Result<u64, E>,
    ) -> Result<bool, E> {
        let at = Self::block_at(bytes, hash);
        for bit in self.bits(hash) {
            if word(at + bit / 64 * 8)? & (1 << (bit % 64)) == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The bits of a key within its block.
    #[inline]
    fn bits(&self, hash: u64) -> impl Iterator<Item = u64> + use<> {
        let spread = hash.wrapping_mul(SPREAD);
        let pieces = spread ^ spread >> 32;
        (0..self.probes).map(move |probe| pieces >> (probe * PIECE) & (BLOCK_BITS - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(keys: u64, bits_per_key: u32) -> (Bloom, Vec<u8>) {
        let bloom = Bloom::new(bits_per_key);
        let mut filter = vec![0; Bloom::bytes_for(keys, bits_per_key) as usize];
        (0..keys).for_each(|key| bloom.add(&mut filter, hash(&key.to_be_bytes())));
        (bloom, filter)
    }

    #[test]
    fn no_key_that_was_added_is_missed() {
        for keys in [0, 1, 2, 50, 51, 1000, 30_000] {
            for bits_per_key in [1, 4, 10, 16] {
                let (bloom, filter) = filled(keys, bits_per_key);
                for key in 0..keys {
                    assert!(bloom.may_contain(&filter, hash(&key.to_be_bytes())), "{key}");
                }
            }
        }
    }

    #[test]
    fn false_positives_are_near_the_formula() {
        for (bits_per_key, most_over) in [(4, 1.25), (8, 1.5), (10, 1.6)] {
            let keys = 100_000u64;
            let (bloom, filter) = filled(keys, bits_per_key);
            let others = keys..keys * 11;
            let hits = others
                .filter(|key| bloom.may_contain(&filter, hash(&key.to_be_bytes())))
                .count() as f64;
            let rate = hits / (keys * 10) as f64;
            // Of a filter whose bits lie anywhere: (1 - e^(-kn/m))^k.
            let probes = f64::from(bloom.probes());
            let formula = (1.0 - (-probes / f64::from(bits_per_key)).exp()).powf(probes);
            println!("{bits_per_key} bits a key: {rate:.5}, formula {formula:.5}");
            assert!(rate < formula * most_over && rate > formula * 0.8, "{bits_per_key}: {rate}");
        }
    }

    #[test]
    fn an_empty_filter_rejects_all_and_no_filter_nothing() {
        let (bloom, filter) = filled(0, 10);
        assert_eq!(filter.len(), 64);
        assert!((0..1000u64).all(|key| !bloom.may_contain(&filter, hash(&key.to_be_bytes()))));
        assert!(bloom.may_contain(&[], 7));
    }

    #[test]
    fn words_loaded_one_by_one_say_the_same() {
        let (bloom, filter) = filled(500, 10);
        for key in 0..2000u64 {
            let hash = hash(&key.to_be_bytes());
            let mut loads = 0;
            let found = bloom.may_contain_in(filter.len() as u64, hash, |at| {
                loads += 1;
                let at = at as usize;
                Ok::<_, ()>(u64::from_le_bytes(filter[at..at + 8].try_into().unwrap()))
            });
            assert_eq!(found, Ok(bloom.may_contain(&filter, hash)));
            assert!(loads <= bloom.probes());
        }
    }

    /// Stored filters depend on these.
    #[test]
    fn hashes_stay_as_they_are() {
        assert_eq!(hash(b""), 0);
        let all = [hash(b"a"), hash(b"eight by"), hash(b"nine byte"), hash(&[0; 16])];
        assert_eq!(all, HASHES,);
        assert_eq!((Bloom::bytes_for(0, 10), Bloom::bytes_for(52, 10)), (64, 128));
        assert_eq!(
            (Bloom::new(10).probes(), Bloom::new(4).probes(), Bloom::new(1).probes()),
            (7, 3, 1)
        );
    }

    const HASHES: [u64; 4] = [
        0x0717_17d2_d36b_6b11,
        0x0ea2_7725_ce1f_78e2,
        0xe62e_9768_c1d6_42e1,
        0xfcde_a51a_023e_4390,
    ];
}
