//! The store under a database. Safe, and generic over [`pm::Memory`].
//!
//! [`connection`] has the protocol, [`region`] the memory, [`page1`] the marker that keeps stock SQLite out.
//!
//! A store consists of parts with fields of their own: `committed` is its view of the committed database, `stage` the
//! transaction, `side` the side file, with the log in `slot` and the map of the pages' frames in `frame_map`,
//! `last_commit` the end of the log. Its methods stand where a step of the protocol is described.
//!
//! Each mode uses these parts, which have no memory:
//!
//! | module | its question |
//! |---|---|
//! | [`shape`] | how large are the pages, and which are used? |
//! | [`placed`] | how does a page differ from its frame? |
//! | [`record`], [`replay`] | how is a commit logged, and how does recovery replay it? |
//! | [`deferred_flush`] | which lines need not be flushed yet? |
//!
//! Others serve only `fash1`, the default mode in the domain `adr`, and the laboratory: [`placement`] places cells,
//! `adr` commits so, and `nvwal_log` is the log of the mode `nvwal`.
//!
//! `lean` has commits that look into no page, `stream` those of large transactions, `prepared` commits in transactions
//! over several databases, `fetch` pages that SQLite reads in place, `refresh` the commits of other connections,
//! [`locks`] readers and writers, in shared words that survive the death of any of them. [`shm_locks`] has SQLite's
//! locks of its write-ahead log, in words of the same kind, and [`write_queue`] the order in which connections get the
//! one for writing.

mod adr;
mod announced_counter;
mod bytes;
mod commit;
mod committed;
pub mod connection;
pub mod deferred_flush;
pub mod error;
pub(crate) mod fetch;
mod frame_map;
mod frames;
mod last_commit;
pub(crate) mod layout;
mod lean;
mod lean_record;
pub(crate) mod lock_words;
pub mod locks;
mod log;
pub mod mode;
pub mod moves;
mod nvwal_log;
pub mod page1;
mod pages;
pub mod placed;
pub mod placement;
mod plan;
mod prepared;
pub mod record;
mod recovery;
mod refresh;
pub mod region;
pub mod replay;
mod restore_layout;
mod room;
mod sealed;
pub mod shape;
pub mod shm_locks;
pub(crate) mod side;
mod slot;
pub mod span;
mod stage;
mod staging;
pub mod stats;
mod stream;
pub mod verdict;
pub(crate) mod wal_index;
pub mod write_queue;
