//! The parts that engines share.
//!
//! | part | modules |
//! |---|---|
//! | schema, values, keys | [`Schema`], [`Catalog`], [`Value`], [`Row`] |
//! | tuples in slots | [`SlotLayout`] |
//! | table heap with indexes, undo of its operations | [`Tables`] |
//! | undo log in non-volatile memory | [`UndoLog`] |
//! | slots on their way out under such a log | [`Superseded`] |
//! | file write-ahead log with group commit | [`wal`] |
//! | compressed checkpoints | [`checkpoint`] |
//! | tuples that are copied, not changed; rows with inlined fields | [`TupleCopies`], [`InlineRow`] |
//! | shadow directories and their master record | [`shadow`] |
//! | operations of a transaction as a log holds them | [`operation`] |
//! | the meaning of log-structured entries, which runs to merge | [`lsm`] |
//! | what a pool says about the database in it | [`Description`] |
//!
//! None of them knows which engine uses it.

#![forbid(unsafe_code)]

mod by_hand;
pub mod checkpoint;
mod constant;
mod copies;
mod description;
mod difference;
mod error;
mod getters;
mod inline;
mod key;
mod lost;
pub mod lsm;
mod nulls;
pub mod operation;
mod owned;
pub mod runs;
mod schema;
pub mod shadow;
mod slots;
mod stamp;
mod superseded;
mod table;
pub mod text;
mod tree_key;
mod tuple;
mod undo;
mod undo_log;
mod value;
pub mod wal;
mod work_done;

pub use by_hand::{did_you_mean, json_error, shortened, shown_key, without_mark};
pub use constant::Constant;
pub use copies::{SlotTuple, TupleCopies};
pub use description::Description;
pub use error::StorageError;
pub use getters::{FromValue, RowColumn, RowError, RowNames};
pub use inline::{InlineRow, encode_row};
pub use key::{TableKey, compare_floats};
pub use nulls::StoredColumns;
pub use owned::OwnedValue;
pub use schema::{
    Catalog, Column, IndexSchema, MAX_COLUMNS, MAX_OWN_KEY_BYTES, MAX_TUPLE_BYTES, MAX_VALUE_BYTES,
    Schema, TableLayout, TableSchema,
};
pub use slots::{MAX_INLINE_BYTES, MAX_INLINE_TUPLE, SlotLayout};
pub use superseded::Superseded;
pub use table::{Image, NewField, NewFields, NewTuple, Tables};
pub use tree_key::PrimaryBytes;
pub use undo_log::{
    FIELDS_PER_ENTRY, MAX_UNDO_ENTRIES, UNDO_HEAD_BYTES, UNDO_NOTES, UNDO_SEGMENT_BYTES, UndoEntry,
    UndoKind, UndoLog, UndoWork,
};
pub use value::{ColumnType, Row, Value, user_bytes};
pub use work_done::WorkDone;

/// No counter in a file (of segments, transactions, runs, edits) comes so far: one that does was not
/// written by us, and counting on would overflow.
const MAX_COUNTER: u64 = 1 << 63;
