//! The room that the partitions have, counted so that what was set aside is always found.
//!
//! A record never spans two partitions, so up to a record less a byte is lost at the end of each.
//! The room of a partition therefore counts without one record of the largest size: then records of
//! any sizes fit that together take what [`Space::free`] says.

use super::layout::{SEAL_BYTES, SECTOR};

/// The positions of the log's ends in its partitions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Space {
    pub(super) partitions: u32,
    pub(super) partition_bytes: u64,
    /// The largest record.
    pub(super) record_bytes: u64,
    /// The oldest partition that is kept.
    pub(super) first: u32,
    /// The partition and the offset of the next record.
    pub(super) number: u32,
    pub(super) offset: u64,
}

impl Space {
    /// Bytes of records that surely fit into an empty partition.
    fn sure(&self) -> u64 {
        self.partition_bytes - SECTOR as u64 - SEAL_BYTES - self.record_bytes
    }

    /// Bytes of records that fit behind the end in its partition.
    pub(super) fn left(&self) -> u64 {
        self.partition_bytes - SEAL_BYTES - self.offset
    }

    /// Bytes of records that surely fit into an empty log.
    pub(super) fn capacity(&self) -> u64 {
        u64::from(self.partitions) * self.sure()
    }

    /// Bytes of records that surely fit.
    pub(super) fn free(&self) -> u64 {
        let unused = self.partitions - (self.number - self.first + 1);
        u64::from(unused) * self.sure() + self.left().saturating_sub(self.record_bytes)
    }

    /// The index of the file of a partition.
    pub(super) fn file(&self, number: u32) -> usize {
        (number % self.partitions) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_sizes_are_what_is_free_fits() {
        let mut random = 1_u64;
        for round in 0..200 {
            let mut space = Space {
                partitions: 4,
                partition_bytes: 4096,
                record_bytes: 512,
                first: 1,
                number: 1,
                offset: SECTOR as u64,
            };
            assert_eq!(space.capacity(), space.free());
            let mut promised = space.free();
            while promised >= 64 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round + 1);
                let bytes = (64 + (random >> 40) % 449 / 8 * 8).min(promised / 8 * 8);
                if bytes > space.left() {
                    (space.number, space.offset) = (space.number + 1, SECTOR as u64);
                    assert!(space.number - space.first < space.partitions, "round {round}");
                }
                space.offset += bytes;
                promised -= bytes;
                assert!(space.free() >= promised, "round {round}");
            }
        }
    }
}
