//! A column store in persistent memory whose transactions go on after a crash (P4, SOFORT): tables of
//! dictionary-encoded columns, versions of rows, no log.
//!
//! Invariants, after every crash:
//! - A statement that was acknowledged is durable, and nobody else sees it before its transaction has
//!   committed. A transaction that was open is open, behind its last statement.
//! - A row keeps its id; its values, and which version it replaces, never change.
//! - A stamp is the number of a commit that is durable. Every number is at most the clock's.
//! - What an id leads to was durable before, or with, the row that has the id.
//! - An element below what its array has reserved lies in a segment; zero is an element that is not
//!   there.
//!
//! | question | module |
//! |---|---|
//! | how all of it lies in memory | [`layout`], `docs/format/column.md` |
//! | arrays that grow and never move, and ids of their elements | `array`, `ids` |
//! | which value has which id | `dictionary`, `dictionary_index`, `bytes` |
//! | rows, column by column | `chunk`, `table` |
//! | when a version begins and ends, and who sees it | `stamps`, `version`, `clock` |
//! | transactions in memory | `slots` |
//! | a transaction: begin and end, changes, reads | [`session`], `statement`, `read` |
//! | who may change a key | `stripes`, `claims` |
//! | keys of rows, in the order of their bytes | `keys` |
//! | indexes in ordinary memory, and how they come back | `secondary`, [`rebuild`] |
//! | searches for what is not in an index yet, and what they owe | `unbuilt` |
//! | indexes in persistent memory | `secondary`, `skip_list`, `hash_table` |
//! | where indexes lie, and how often they are used | `placement` |
//! | hashes that nobody can foretell | `seed` |
//! | counts of what scans look at | `scanned` |
//! | whether a serializable transaction may commit | `serial`, `watch` |
//! | opening after a crash; going on by running everything once more | `recover`, `replay` |
//! | rows that are used again when nobody sees their versions | `collect`, `epoch`, `unfenced` |
//! | whether all of it agrees | [`check`] |
//!
//! It knows no engine and no schema: a value is a word or bytes, and whoever uses the store says what
//! keys are made of ([`Keys`]).

#![forbid(unsafe_code)]

mod array;
mod bytes;
pub mod check;
mod chunk;
mod claims;
mod clock;
mod collect;
#[cfg(test)]
mod damaged_versions;
mod dictionary;
mod dictionary_index;
mod epoch;
mod error;
mod hash_table;
mod ids;
#[cfg(test)]
mod index_builds;
mod keys;
mod latch;
pub mod layout;
mod placement;
mod read;
pub mod rebuild;
mod recover;
mod replay;
mod scanned;
mod secondary;
mod seed;
mod serial;
pub mod session;
mod skip_list;
mod slots;
mod stamps;
mod statement;
mod store;
mod stripes;
mod sync;
mod table;
mod unbuilt;
mod unfenced;
#[cfg(test)]
mod validation;
mod value;
mod version;
mod watch;

pub use check::Census;
pub use collect::Collected;
pub use error::ColumnError;
pub use keys::{FirstColumn, IndexKey, Key, Keys};
pub use latch::{Pause, Waiting};
pub use layout::{Form, Kind, MOST_NAME, MOST_OPENINGS, Options};
pub use placement::{Part, Placement, Structure, StructureState};
pub use read::Claiming;
pub use rebuild::Built;
pub use scanned::Scanned;
pub use secondary::KeyRange;
pub use session::Session;
pub use store::{InFlight, Recovered, Store, TxId};
pub use value::{Field, Value};

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, ColumnError>;
