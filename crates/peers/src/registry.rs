//! Peers by name.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use workloads::ycsb::Spec;
use workloads::{Store, StoreError};

use crate::floor::{CopyFloor, RedoFloor, UndoFloor};
use crate::lmdb::LmdbStore;
use crate::maps::{BTreeMapStore, HashMapStore};

/// What Perdura can be compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PeerKind {
    /// LMDB, synchronous, writable map.
    Lmdb,
    /// SQLite.
    Sqlite,
    /// redb.
    Redb,
    /// fjall.
    Fjall,
    /// RocksDB.
    RocksDb,
    /// `std` hash map, in place, no durability.
    HashMap,
    /// `std` B-tree map, in place, no durability.
    BTreeMap,
    /// DRAM hash and NVM undo log, 3 fences an update.
    FloorUndo,
    /// DRAM hash and NVM redo log, 1 fence an update.
    FloorRedo,
    /// DRAM hash, 1 KB copy and pointer, 2 fences an update.
    FloorCopy,
}

impl PeerKind {
    /// All peers, in the order of the command line's help.
    pub const ALL: [Self; 10] = [
        Self::Lmdb,
        Self::Sqlite,
        Self::Redb,
        Self::Fjall,
        Self::RocksDb,
        Self::HashMap,
        Self::BTreeMap,
        Self::FloorUndo,
        Self::FloorRedo,
        Self::FloorCopy,
    ];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lmdb => "lmdb",
            Self::Sqlite => "sqlite",
            Self::Redb => "redb",
            Self::Fjall => "fjall",
            Self::RocksDb => "rocksdb",
            Self::HashMap => "hashmap",
            Self::BTreeMap => "btreemap",
            Self::FloorUndo => "floor-undo",
            Self::FloorRedo => "floor-redo",
            Self::FloorCopy => "floor-copy",
        }
    }

    /// Whether this version can run it.
    #[must_use]
    pub const fn is_available(self) -> bool {
        !matches!(self, Self::Sqlite | Self::Redb | Self::Fjall | Self::RocksDb)
    }

    /// Whether it keeps its data in files and can be reopened.
    #[must_use]
    pub const fn is_durable(self) -> bool {
        !matches!(self, Self::HashMap | Self::BTreeMap)
    }
}

impl fmt::Display for PeerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no peer has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown peer '{given}': use one of {}", PeerKind::ALL.map(PeerKind::name).join(", "))]
pub struct ParsePeerError {
    given: String,
}

impl FromStr for PeerKind {
    type Err = ParsePeerError;

    fn from_str(given: &str) -> Result<Self, ParsePeerError> {
        let unknown = || ParsePeerError { given: given.to_owned() };
        Self::ALL.into_iter().find(|kind| kind.name() == given).ok_or_else(unknown)
    }
}

/// Whether a peer starts empty or from what an earlier run left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Empty; its files must not exist.
    Create,
    /// From its files. A map has none and is refused.
    OpenExisting,
}

/// What is to be done with a peer, whichever it is.
pub trait Visitor {
    /// What comes out.
    type Output;

    /// Does it. The store is closed when this returns.
    fn visit<S: Store>(self, store: &S) -> Self::Output;
}

/// Opens a peer in an existing directory and hands it to the visitor. Of the specification, tuples
/// and partitions matter.
///
/// # Errors
/// If the peer cannot be opened, or is not in this version.
pub fn with_store<V: Visitor>(
    kind: PeerKind,
    directory: &Path,
    spec: &Spec,
    access: Access,
    visitor: V,
) -> Result<V::Output, StoreError> {
    let (partitions, tuples) = (spec.partitions, spec.tuples);
    macro_rules! files {
        ($store:ty) => {
            match access {
                Access::Create => <$store>::create(directory, partitions, tuples),
                Access::OpenExisting => <$store>::open_existing(directory, partitions),
            }
            .map(|store| visitor.visit(&store))
        };
    }
    macro_rules! map {
        ($store:ty) => {
            match access {
                Access::Create => Ok(visitor.visit(&<$store>::new(partitions, tuples))),
                Access::OpenExisting => Err(StoreError::Unsupported(format!(
                    "{kind} keeps nothing in files and cannot be reopened"
                ))),
            }
        };
    }
    match kind {
        PeerKind::Lmdb => files!(LmdbStore),
        PeerKind::FloorUndo => files!(UndoFloor),
        PeerKind::FloorRedo => files!(RedoFloor),
        PeerKind::FloorCopy => files!(CopyFloor),
        PeerKind::HashMap => map!(HashMapStore),
        PeerKind::BTreeMap => map!(BTreeMapStore),
        PeerKind::Sqlite | PeerKind::Redb | PeerKind::Fjall | PeerKind::RocksDb => {
            Err(StoreError::Unsupported(format!("{kind} comes with a later version")))
        }
    }
}
