//! The purpose of an object.

/// The purpose of an object. Objects of different purposes never share a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Purpose {
    /// Tuples and fields.
    Table = 0,
    /// Nodes of trees.
    Index = 1,
    /// Log segments, catalogs and all else.
    Log = 2,
}

impl Purpose {
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        [Self::Table, Self::Index, Self::Log].into_iter().find(|one| *one as u8 == number)
    }
}
