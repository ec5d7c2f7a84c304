//! The last transaction of each partition when a database with files was closed. It stands after
//! the copies in the file `identity`, and reveals a single file of another moment.
//!
//! 1. Closing writes it after everything else in the files is durable, and before the pool's mark
//!    that it is closed.
//! 2. A partition that is opened, and was closed in the same epoch, ends with this transaction. One
//!    that was opened since ends with this one or a later one.
//!
//! A crash while it is written leaves it torn, and the pool open: nothing is known then.
//! `docs/format/identity.md` draws it.

use std::io;

use crate::epoch::{Epoch, FilesOf};
use crate::files::File;

/// The place of the ends: in a sector of its own.
pub(crate) const ENDS_AT: u64 = 4608;
/// Bytes of the file with room for the ends of the most partitions.
pub(crate) const IDENTITY_BYTES: u64 = 8192;
const MAGIC: u64 = u64::from_le_bytes(*b"PERDENDS");
/// Words before the numbers: magic, epoch, how many.
const HEAD: usize = 4;
const MOST: usize = ((IDENTITY_BYTES - ENDS_AT) / 8) as usize - HEAD - 1;

const _: () = assert!(MOST >= 256);

/// The last transaction that a partition has to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastTransaction {
    /// Its number.
    pub last: u64,
    /// True if there is none after it: the partition was closed then.
    pub exactly: bool,
}

impl LastTransaction {
    /// Returns whether a partition may end with this transaction.
    #[must_use]
    pub fn allows(self, found: u64) -> bool {
        found == self.last || (found > self.last && !self.exactly)
    }
}

/// The last transaction of each partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastTransactions {
    /// The epoch in which the database was closed.
    pub epoch: Epoch,
    /// The last transactions, by partition.
    pub last: Vec<u64>,
}

impl LastTransactions {
    /// Checks the last transaction that was found in a partition. `closed`: the pool is, in the epoch
    /// of these ends.
    ///
    /// # Errors
    /// A file of the partition is of another moment.
    pub fn check(&self, partition: u32, found: u64, closed: bool) -> Result<(), FilesOf> {
        match self.last.get(partition as usize) {
            Some(&last) if !(LastTransaction { last, exactly: closed }).allows(found) => {
                Err(FilesOf::OtherLastTransaction { partition, closed_at: last, found })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn write(&self, file: &impl File) -> io::Result<()> {
        if self.last.len() > MOST {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many partitions"));
        }
        let many = self.last.len() as u64;
        let mut words = vec![MAGIC, self.epoch.number, self.epoch.token, many];
        words.extend(&self.last);
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let sum = u64::from(crc32c::crc32c(&bytes));
        bytes.extend(sum.to_le_bytes());
        file.write_at(ENDS_AT, &bytes)?;
        file.sync()
    }

    /// Reads them. `Ok(None)` where none have been written, or where a crash has cut off writing
    /// them.
    pub(crate) fn read(file: &impl File) -> io::Result<Option<Self>> {
        let mut bytes = vec![0; (IDENTITY_BYTES - ENDS_AT) as usize];
        let there = file.read_at(ENDS_AT, &mut bytes)?;
        let words: Vec<u64> = bytes[..there]
            .chunks_exact(8)
            .map(|word| word.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)))
            .collect();
        let [MAGIC, number, token, many, ..] = words[..] else { return Ok(None) };
        let many = usize::try_from(many).unwrap_or(usize::MAX).min(MOST + 1);
        let (Some(last), Some(sum)) = (words.get(HEAD..HEAD + many), words.get(HEAD + many)) else {
            return Ok(None);
        };
        if *sum != u64::from(crc32c::crc32c(&bytes[..(HEAD + many) * 8])) {
            return Ok(None);
        }
        Ok(Some(Self { epoch: Epoch { number, token }, last: last.to_vec() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_ends_as_it_was_closed_or_later_if_opened_since() {
        let ends = LastTransactions { epoch: Epoch::default(), last: vec![5, 9] };
        assert_eq!(ends.check(0, 5, true), Ok(()));
        assert_eq!(ends.check(1, 10, false), Ok(()));
        for (partition, found, closed) in [(0, 4, true), (0, 6, true), (1, 8, false)] {
            let error = ends.check(partition, found, closed).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("another moment"), "{text}");
            assert!(text.contains(&format!("partition {partition}")), "{text}");
        }
    }
}
