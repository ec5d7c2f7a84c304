//! Slotted pages in persistent memory that are themselves the buffer cache (P3): B+trees with keys
//! and values of any length, and the way in which a transaction commits as a policy.
//!
//! Invariants, after every crash:
//! - No byte of a record changes while a committed header leads to it.
//! - A page is what its committed header says. Record offsets are disjoint, and lie after the
//!   header.
//! - Every page below the high-water mark is reachable from a root, or is on the free stack.
//! - Where the log is empty, the pages are consistent; where it has a valid mark, they are once its
//!   frames have been applied.
//!
//! A transaction writes records into space that nothing committed uses, and gathers the headers
//! that its pages will have in [`draft`]s, in ordinary memory. Its commit makes all of them count
//! at once; [`scheme`] has the ways. A transaction that never commits leaves no effect.
//!
//! | question | module |
//! |---|---|
//! | how a page, the log and the master lie in memory | [`layout`], `docs/format/slotted-pages.md` |
//! | header, record, page | [`header`], [`record`], [`page`] |
//! | where a record goes | [`space`] |
//! | the header that a page will have | [`draft`] |
//! | which pages are in use | [`pages`] |
//! | the open transaction | `work` |
//! | how a key is found, comes and goes | [`tree`], [`split`], [`merge`], [`defrag`] |
//! | how keys are gone through | [`scan`](Direction) |
//! | how a part of a transaction is undone | [`savepoint`] |
//! | where long values lie | [`overflow`] |
//! | what opening had to do | [`Recovered`] |
//! | how a transaction commits | [`scheme`], [`log`], [`alternate`] |
//! | whether the log has room for what it commits | [`part`], [`room`] |
//! | which lines of headers may not be whole | `epoch` |
//! | where the time goes | [`phases`] |
//! | pages in ordinary memory, what of them differs, and the log of that | [`cache`], [`diff`], [`blocks`] |
//! | which policies tests make wrong | [`flaw`] |
//! | how much of a log goes back to the heap | [`KEPT_LOG_BYTES`] |
//! | how all of it is one | [`store`] |
//! | whether all pages agree | [`check`] |
//!
//! It knows no engine and no schema: keys and values are bytes, keys ordered as their bytes are.

#![forbid(unsafe_code)]

pub mod alternate;
pub mod blocks;
pub mod cache;
pub mod check;
mod commit;
pub mod defrag;
pub mod diff;
pub mod draft;
mod epoch;
mod error;
pub mod flaw;
pub mod header;
mod kept;
pub mod layout;
pub mod log;
pub mod merge;
pub mod overflow;
pub mod page;
pub mod pages;
pub mod part;
pub mod phases;
pub mod record;
mod recovered;
pub mod room;
pub mod savepoint;
mod scan;
pub mod scheme;
pub mod space;
pub mod split;
pub mod store;
pub mod tree;
mod work;

pub use check::Census;
pub use error::SlottedError;
pub use kept::KEPT_LOG_BYTES;
pub use layout::Options;
pub use recovered::Recovered;
pub use scan::Direction;
pub use scheme::{
    Commits, Fash, Fash1, Fast, Fast1, FencedTwin, HeaderForm, Journal, Line, Nvwal, Scheme, Twin,
    Wal, WholeLine, Word,
};
pub use store::{Moves, Store};
pub use work::Savepoint;

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, SlottedError>;
