//! Stamps: the words that say when a version begins and ends.
//!
//! A stamp is a commit number, or the mark of a transaction: the top bit, its slot (16 bits), its
//! sequence (47 bits). Zero is never.

const MARK: u64 = 1 << 63;
const SEQUENCE_BITS: u32 = 47;
/// The highest sequence of a slot.
pub(crate) const MOST_SEQUENCE: u64 = (1 << SEQUENCE_BITS) - 1;

/// The mark of the transaction of a slot with this sequence.
pub(crate) const fn mark(slot: u16, sequence: u64) -> u64 {
    MARK | (slot as u64) << SEQUENCE_BITS | sequence & MOST_SEQUENCE
}

pub(crate) const fn is_mark(stamp: u64) -> bool {
    stamp & MARK != 0
}

/// The slot and the sequence of a mark.
pub(crate) const fn parts(mark: u64) -> (u16, u64) {
    ((mark >> SEQUENCE_BITS) as u16, mark & MOST_SEQUENCE)
}

/// Returns whether a version with these numbers is seen by a snapshot.
pub(crate) const fn visible(begin: u64, end: u64, snapshot: u64) -> bool {
    begin.wrapping_sub(1) < snapshot && end.wrapping_sub(1) >= snapshot
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_seen_from_its_begin_to_before_its_end() {
        for (begin, end, snapshot, seen) in [
            (0, 0, 5, false),
            (5, 0, 5, true),
            (6, 0, 5, false),
            (3, 5, 5, false),
            (3, 6, 5, true),
            (3, 3, 5, false),
        ] {
            assert_eq!(visible(begin, end, snapshot), seen, "{begin} {end} {snapshot}");
        }
    }

    #[test]
    fn a_mark_has_its_slot_and_its_sequence() {
        let made = mark(255, 1 << 40);
        assert!(is_mark(made) && !is_mark(MOST_SEQUENCE));
        assert_eq!(parts(made), (255, 1 << 40));
    }
}
