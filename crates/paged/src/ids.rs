//! Numbers that name pages, trees, transactions and places in the log.

use std::fmt;

/// The number of a page in the file of pages. Page 0 is the file's header, and no tree has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PageNo(pub u64);

/// The number of a tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TreeNo(pub u32);

/// The number of a transaction. Zero names none: a record of it belongs to a system transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TxNo(pub u64);

/// A log sequence number: where a record stands in the order of the log. The log manager alone
/// knows what the number means (P2 2.1: a partition and an offset; P2 4.2: a count).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Before every record.
    pub const NONE: Self = Self(0);
}

macro_rules! shown {
    ($($name:ident: $prefix:literal),+) => {
        $(impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        })+
    };
}

shown!(PageNo: "page ", TreeNo: "tree ", TxNo: "transaction ", Lsn: "LSN ");
