//! Peers by name.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use workloads::ycsb::Spec;
use workloads::{Commit, Store, StoreError};

use crate::floor::{CopyFloor, RedoFloor, UndoFloor};
use crate::lmdb::LmdbStore;
use crate::maps::{BTreeMapStore, HashMapStore};
use crate::shared::CACHE_BYTES;
use crate::sqlite::SqliteStore;

/// A peer that Perdura can be compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PeerKind {
    /// LMDB, synchronous, writable map.
    Lmdb,
    /// SQLite, write-ahead log, synchronous FULL, exclusive.
    Sqlite,
    /// redb, durability Immediate; only in builds with the feature `redb`.
    Redb,
    /// fjall, its journal synced after every update; only in builds with the feature `fjall`.
    Fjall,
    /// RocksDB, its write-ahead log synced by every write; only in builds with the feature
    /// `rocksdb`.
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
    /// PostgreSQL, a server of its own over a local socket, `synchronous_commit` on; TPC-B alone.
    Postgres,
}

impl PeerKind {
    /// The peers that run TPC-B.
    pub const TPCB: [Self; 3] = [Self::Lmdb, Self::Sqlite, Self::Postgres];

    /// The peers that run TATP.
    pub const TATP: [Self; 1] = [Self::Sqlite];

    /// The peers that run YCSB, in the order of the command line's help.
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
            Self::Postgres => "postgres",
        }
    }

    /// Returns the reason why this build cannot run it, and how to make one that can; `None` if it
    /// can.
    #[must_use]
    pub const fn unavailable(self) -> Option<&'static str> {
        match self {
            Self::Redb if cfg!(not(feature = "redb")) => Some(
                "redb is not in this build: cargo build --release --workspace makes one that has it",
            ),
            Self::Fjall if cfg!(not(feature = "fjall")) => Some(
                "fjall is not in this build: cargo build --release --workspace makes one that has it",
            ),
            Self::RocksDb if cfg!(not(feature = "rocksdb")) => Some(
                "rocksdb is not in this build: it needs RocksDB's library (Debian: apt-get install librocksdb-dev) and cargo build --release -p perdura-cli --features rocksdb",
            ),
            _ => None,
        }
    }

    /// Bytes that it caches in memory of its own at most, in all partitions together; `None` if it
    /// has no such cache.
    #[must_use]
    pub const fn cache_bytes(self) -> Option<u64> {
        match self {
            Self::Sqlite | Self::Redb | Self::Fjall | Self::RocksDb | Self::Postgres => {
                Some(CACHE_BYTES)
            }
            _ => None,
        }
    }

    /// Returns true if it keeps its data in files and can be reopened.
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
#[error(
    "unknown peer '{}': use one of {}, or for TPC-B {}",
    .given.escape_debug(),
    PeerKind::ALL.map(PeerKind::name).join(", "),
    PeerKind::TPCB.map(PeerKind::name).join(", ")
)]
pub struct ParsePeerError {
    given: String,
}

impl FromStr for PeerKind {
    type Err = ParsePeerError;

    fn from_str(given: &str) -> Result<Self, ParsePeerError> {
        let unknown = || ParsePeerError { given: given.to_owned() };
        Self::ALL
            .into_iter()
            .chain(Self::TPCB)
            .find(|kind| kind.name() == given)
            .ok_or_else(unknown)
    }
}

/// The state in which a peer starts: empty, or as an earlier run left it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Empty; its files must not exist.
    Create,
    /// Starts from its files. A map has none and is refused.
    OpenExisting,
}

/// Work to be done with a peer, whichever it is.
pub trait Visitor {
    /// The result.
    type Output;

    /// Does it. The store is closed when this returns.
    fn visit<S: Store>(self, store: &S) -> Self::Output;
}

/// Opens a peer in an existing directory and hands it to the visitor. Of the specification, tuples
/// and partitions matter. The driver must be given the same commit form; maps and floors have only
/// commits that are as durable as they get when they return.
///
/// # Errors
/// If the peer cannot be opened, or is not in this build.
pub fn with_store<V: Visitor>(
    kind: PeerKind,
    directory: &Path,
    spec: &Spec,
    commit: Commit,
    access: Access,
    visitor: V,
) -> Result<V::Output, StoreError> {
    let (partitions, tuples) = (spec.partitions, spec.tuples);
    macro_rules! files {
        ($store:ty, $($with:expr),*; $($new:expr),*) => {
            match access {
                Access::Create => <$store>::create(directory, partitions, $($new,)* $($with),*),
                Access::OpenExisting => <$store>::open_existing(directory, partitions, $($with),*),
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
        PeerKind::Lmdb => files!(LmdbStore, commit; tuples),
        PeerKind::Sqlite => files!(SqliteStore, commit;),
        #[cfg(feature = "redb")]
        PeerKind::Redb => files!(crate::redb::RedbStore, commit;),
        #[cfg(feature = "fjall")]
        PeerKind::Fjall => files!(crate::fjall::FjallStore, commit;),
        #[cfg(feature = "rocksdb")]
        PeerKind::RocksDb => files!(crate::rocksdb::RocksDbStore, commit;),
        PeerKind::FloorUndo => files!(UndoFloor,; tuples),
        PeerKind::FloorRedo => files!(RedoFloor,; tuples),
        PeerKind::FloorCopy => files!(CopyFloor,; tuples),
        PeerKind::Postgres => Err(StoreError::Unsupported(format!("{kind} runs TPC-B alone"))),
        PeerKind::HashMap => map!(HashMapStore),
        PeerKind::BTreeMap => map!(BTreeMapStore),
        #[cfg(not(all(feature = "fjall", feature = "redb", feature = "rocksdb")))]
        _ => Err(StoreError::Unsupported(kind.unavailable().unwrap_or_default().into())),
    }
}
