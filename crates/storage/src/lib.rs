//! The parts that engines share, one folder each.
//!
//! | part | folder | entry points |
//! |---|---|---|
//! | what a table and a row are: schema, values, NULL, keys, packed rows | `rows/` | [`Schema`], [`Catalog`], [`Value`], [`Row`], [`InlineRow`] |
//! | what makes a transaction durable or takes it back: file log with group commit, checkpoints; undo log | `logs/` | [`segments`], [`wal`], [`checkpoint`], [`operation`]; [`UndoLog`], [`Superseded`] |
//! | tuples in slots, with indexes and undo; tuples that are copied | `table/` | [`Tables`], [`SlotLayout`]; [`TupleCopies`] |
//! | log-structured tables in files; what entries mean, which runs to merge | `lsm/` | [`lsm`] |
//! | log-structured tables in non-volatile memory | `runs/` | [`runs`] |
//! | shadow directories and their master record | `shadow/` | [`shadow`] |
//!
//! `rows` uses none of the others, `logs` uses `rows`, `table` both, `lsm` the three, `runs` the
//! four; `shadow` stands alone. None of them knows which engine uses it.

#![forbid(unsafe_code)]

mod error;
mod limits;
mod logs;
pub mod lsm;
mod rows;
pub mod runs;
pub mod shadow;
mod table;
mod work_done;

pub use error::StorageError;
pub use limits::{MAX_COLUMNS, MAX_OWN_KEY_BYTES, MAX_TUPLE_BYTES, MAX_VALUE_BYTES};
pub use logs::superseded::Superseded;
pub use logs::undo_entry::{FIELDS_PER_ENTRY, NewField, UndoEntry, UndoKind};
pub use logs::undo_log::{
    MAX_UNDO_ENTRIES, UNDO_HEAD_BYTES, UNDO_NOTES, UNDO_SEGMENT_BYTES, UndoLog, UndoWork,
};
pub use logs::{checkpoint, operation, segments, wal};
pub use rows::by_hand::{did_you_mean, json_error, shortened, shown_key, without_mark};
pub use rows::catalog::{Catalog, TableLayout};
pub use rows::constant::Constant;
pub use rows::description::Description;
pub use rows::getters::{FromValue, RowColumn, RowError};
pub use rows::inline::{InlineRow, encode_row};
pub use rows::key::{TableKey, compare_floats};
pub use rows::names::RowNames;
pub use rows::nulls::StoredColumns;
pub use rows::owned::OwnedValue;
pub use rows::packed::{PackedLayout, PackedRow, pack_row};
pub use rows::row::Row;
pub use rows::schema::{Column, IndexSchema, Schema, TableSchema};
pub use rows::stored::{Part, StoredRow};
pub use rows::text;
pub use rows::tree_key::PrimaryBytes;
pub use rows::value::{ColumnType, Value, user_bytes};
pub use table::copies::{SlotTuple, TupleCopies};
pub use table::slots::{MAX_INLINE_BYTES, MAX_INLINE_TUPLE, SlotLayout};
pub use table::{Image, NewFields, NewTuple, Tables};
pub use work_done::WorkDone;

/// The limit of counters in files (of segments, transactions, runs, edits): one that reaches it was
/// not written by us, and counting on would overflow.
const MAX_COUNTER: u64 = 1 << 63;
