//! The peers: what a user would pick instead of Perdura, under the same trait.
//!
//! Every peer but one implements [`workloads::Store`], so it does the same work of YCSB in the same
//! loop as Perdura; some run TPC-B, see [`workloads::tpcb::Bank`], and SQLite runs TATP, see
//! [`workloads::tatp::Register`]. Three kinds:
//!
//! - *Databases* (LMDB, SQLite, with the features of these names redb, fjall and RocksDB, and of
//!   TPC-B PostgreSQL as it is installed), each as its own documentation advises and at its durable
//!   setting: `docs/peers.md` says which. On tmpfs their `fsync` costs nothing, so their figures
//!   there are upper bounds.
//! - *Maps* (hash map, B-tree map): no durability at all. What remains of the time is the workload.
//! - *Floors*: the least that each way of being durable on NVM can cost. An index in DRAM, one flat
//!   file, and flushes and fences that are really executed.
//!
//! [`extension`] is not a peer but Perdura's own VFS under the SQLite that is linked here, with
//! P3's workload on both.
//!
//! [`with_store`] opens a peer by its name and hands it to a [`Visitor`], which is compiled once
//! for each peer: no dynamic dispatch in a measured loop.

mod acknowledged;
pub mod extension;
#[cfg(feature = "fjall")]
mod fjall;
mod floor;
mod flush;
mod hash;
mod lmdb;
mod mapping;
mod maps;
mod pin;
#[cfg(feature = "redb")]
mod redb;
mod registry;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod shared;
mod sqlite;
mod tatp;
mod tpcb;

#[cfg(feature = "fjall")]
pub use self::fjall::FjallStore;
#[cfg(feature = "redb")]
pub use self::redb::RedbStore;
#[cfg(feature = "rocksdb")]
pub use self::rocksdb::RocksDbStore;
pub use acknowledged::AcknowledgedFile;
pub use floor::{CopyFloor, RedoFloor, UndoFloor};
pub use lmdb::LmdbStore;
pub use maps::{BTreeMapStore, HashMapStore};
pub use pin::pin_to_core;
pub use registry::{Access, ParsePeerError, PeerKind, Visitor, with_store};
pub use sqlite::SqliteStore;
pub use tatp::SqliteRegister;
pub use tpcb::{LmdbBank, PostgresBank, SqliteBank};
