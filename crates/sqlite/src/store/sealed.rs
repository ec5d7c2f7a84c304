//! Words of the side file that change, each with its own checksum, so that one store changes both.
//!
//! The lower 48 bits are the value, the upper ones a checksum of the side file's tag, the word's offset and the
//! value. It detects damage, and words from another side file or offset: always if one or two bits differ, otherwise
//! with one miss in 65,536.

/// The bits of a value.
const VALUE_BITS: u32 = 48;

/// The word at `at` with a value.
pub(crate) fn seal(tag: u64, at: u64, value: u64) -> u64 {
    assert!(value >> VALUE_BITS == 0, "{value} is more than a word has");
    u64::from(checksum(tag, at, value)) << VALUE_BITS | value
}

/// The value of the word at `at`, if it matches its checksum.
pub(crate) fn unseal(tag: u64, at: u64, word: u64) -> Option<u64> {
    let value = word & ((1 << VALUE_BITS) - 1);
    (seal(tag, at, value) == word).then_some(value)
}

fn checksum(tag: u64, at: u64, value: u64) -> u16 {
    let mut bytes = [0; 24];
    for (part, word) in bytes.chunks_exact_mut(8).zip([tag, at, value]) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    crc32c::crc32c(&bytes) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::layout::{APPLIED_AT, BEGUN_AT, CHECKPOINTED_AT, SIZE_AT, TABLE_AT};

    const TAG: u64 = 0x1234_5678_9abc_def1;

    /// The checksum is linear, so one value stands for all.
    #[test]
    fn damage_to_one_or_two_bits_is_noticed() {
        let word = seal(TAG, SIZE_AT, 0x1234_5678_9abc);
        assert_eq!(unseal(TAG, SIZE_AT, word), Some(0x1234_5678_9abc));
        for (one, two) in (0..64).flat_map(|one| (one..64).map(move |two| (one, two))) {
            let damage = 1 << one | 1 << two;
            assert_eq!(unseal(TAG, SIZE_AT, word ^ damage), None, "{damage:x}");
        }
    }

    #[test]
    fn word_of_another_file_or_place_is_rejected() {
        let places = [SIZE_AT, BEGUN_AT, APPLIED_AT, CHECKPOINTED_AT, TABLE_AT];
        for at in places {
            let word = seal(TAG, at, 77);
            let others = places.iter().filter(|place| unseal(TAG, **place, word).is_some());
            assert_eq!(others.collect::<Vec<_>>(), [&at]);
            assert_eq!(unseal(TAG ^ 2, at, word), None);
            assert_eq!([0, u64::MAX].map(|word| unseal(TAG, at, word)), [None, None]);
        }
    }
}
