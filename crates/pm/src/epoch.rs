//! The openings of a database that has files, and why files do not belong to its pool.

use std::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::names::IDENTITY;
use crate::random::random_uuid;

/// An opening of a database that has files. All zeros before the first one.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Epoch {
    /// Counts the openings to write.
    pub number: u64,
    /// Random bits.
    pub token: u64,
}

impl Epoch {
    /// Returns the epoch after this one.
    #[must_use]
    pub fn next(self) -> Self {
        let random = random_uuid();
        let token = random.iter().fold(0u64, |all, byte| all.rotate_left(5) ^ u64::from(*byte));
        Self { number: self.number.wrapping_add(1), token }
    }
}

/// Says whose files they are, if not those of the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilesOf {
    /// Unknown: there is no `identity`.
    NoIdentity,
    /// Unknown: `identity` is damaged.
    Damaged,
    /// The files are another database's, with this uuid.
    Another([u8; 16]),
    /// The database's, but of another opening.
    OtherMoment {
        /// The number of the pool's epoch.
        pool: u64,
        /// The number of the files' epoch.
        files: u64,
    },
    /// The database's, but a file of a partition is of another moment, or of another database.
    OtherLastTransaction {
        /// The partition.
        partition: u32,
        /// The last transaction when the database was closed.
        closed_at: u64,
        /// The last transaction that was found.
        found: u64,
    },
}

impl fmt::Display for FilesOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoIdentity => {
                write!(f, "there is no `{IDENTITY}` among them, which says whose they are")
            }
            Self::Damaged => write!(f, "`{IDENTITY}`, which says whose they are, is damaged"),
            Self::Another(uuid) => {
                f.write_str("they are those of another database, whose pool has the uuid ")?;
                uuid.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::OtherMoment { pool, files } if pool == files => {
                write!(f, "both were opened {pool} times, but not together: one is of another copy")
            }
            Self::OtherMoment { pool, files } => {
                let older = if pool < files { "the pool" } else { "they" };
                write!(
                    f,
                    "the pool is of opening {pool}, and they are of opening {files}: {older} must be of an older copy"
                )
            }
            Self::OtherLastTransaction { partition, closed_at, found } => write!(
                f,
                "partition {partition} ended with transaction {closed_at} when the database was closed, and its files end with {found}: one of them must be of another moment"
            ),
        }
    }
}
