//! A column store in persistent memory whose transactions go on after a crash (P4, SOFORT): tables of
//! dictionary-encoded columns, versions of rows, no log.
//!
//! Invariants, after every crash:
//! - An acknowledged statement is durable, and no other transaction sees it before its own has committed. An open
//!   transaction stays open, after its last statement.
//! - A row keeps its id. Its values, and the version that it replaces, never change.
//! - A stamp is the number of a durable commit. No number is above the clock's.
//! - The value of an id is durable before, or together with, the row that has the id.
//! - An element below its array's reserved count lies in a segment. An element of zeros is absent.
//!
//! | question | module |
//! |---|---|
//! | layout of all persistent structures | [`layout`], `docs/format/column.md` |
//! | arrays that grow and never move, and the ids of their elements | `array`, `ids` |
//! | values and their ids | `dictionary`, `dictionary_index`, `bytes` |
//! | rows, column by column | `chunk`, `table` |
//! | begin and end of a version, and its visibility | `stamps`, `version`, `clock` |
//! | persistent state of transactions | `slots` |
//! | a transaction: begin and end, changes, reads | [`session`], `statement`, `read` |
//! | latches of keys that are changed, and claims of keys | `stripes`, `claims` |
//! | keys of rows, in the order of their bytes | `keys` |
//! | indexes in ordinary memory, and how they are rebuilt | `secondary`, [`rebuild`] |
//! | searches for rows that no index has yet, and the index work that follows from them | `unbuilt` |
//! | indexes in persistent memory | `secondary`, `skip_list`, `hash_table` |
//! | where indexes lie, and how often they are used | `placement` |
//! | hashes with a secret seed | `seed` |
//! | counts of what scans look at | `scanned` |
//! | whether a serializable transaction may commit | `serial`, `watch` |
//! | opening after a crash; replaying a transaction from its start | `recover`, `replay` |
//! | garbage collection of versions | `collect`, `epoch`, `unfenced` |
//! | the consistency check | [`check`] |
//!
//! The crate knows no engine and no schema. A value is a word or bytes, and the caller defines how keys are made
//! of values ([`Keys`]).

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
#[cfg(test)]
mod rolled_back;
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
