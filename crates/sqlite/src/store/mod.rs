//! The store under a database. Safe, and generic over [`pm::Memory`].
//!
//! [`connection`] has the protocol, [`region`] the memory, [`page1`] the marker that keeps stock SQLite out. The
//! parts below let a commit store fewer bytes than differ, above all with random keys. None has a memory, and each
//! has its own tests:
//!
//! | module | its question |
//! |---|---|
//! | [`parse`] | is this a page of a b-tree, and where are its cells? |
//! | [`matching`] | which cells has a page kept, and which frame holds most of them? |
//! | [`place`] | where do the cells go, so that most bytes stay, or need no log? |
//! | [`permutation`] | which frame is a page in, and how do all pages return to their own? |
//! | [`record`], [`replay`] | how is such a commit logged, and how does recovery replay it? |
//! | [`deferred_flush`] | which lines need not be flushed yet? |
//!
//! `lean` has commits that look into no page, `stream` those of large transactions, `prepared` commits in transactions over several databases, `fetch` pages that SQLite reads in place,
//! `refresh` the commits of other connections, [`locks`] readers and writers, in shared words that survive the
//! death of any of them. [`shm_locks`] has SQLite's locks of its write-ahead log, in words of the same kind, and
//! [`write_queue`] the order in which connections get the one for writing.

mod bytes;
mod commit;
pub mod connection;
pub mod deferred_flush;
pub mod error;
pub(crate) mod fetch;
mod frames;
mod in_place;
mod last_commit;
pub(crate) mod layout;
mod lean;
mod lean_record;
pub(crate) mod lock_words;
pub mod locks;
mod log;
pub mod matching;
pub mod mode;
mod nvwal;
mod nvwal_log;
mod ordered;
pub mod page1;
mod pages;
pub mod parse;
pub mod permutation;
pub mod place;
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
