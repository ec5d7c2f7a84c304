//! What do engines share?
//!
//! | part | modules |
//! |---|---|
//! | schema, values, keys, tuple layout | [`Schema`], [`Value`], [`Row`] |
//! | table heap with indexes, undo of its operations | [`Tables`] |
//! | undo log in non-volatile memory | [`UndoLog`] |
//! | file write-ahead log with group commit | [`wal`] |
//! | compressed checkpoints | [`checkpoint`] |
//! | the meaning of log-structured entries, which runs to merge | [`lsm`] |
//! | what a pool says about the database in it | [`Description`] |
//!
//! None of them knows which engine uses it.

#![forbid(unsafe_code)]

pub mod checkpoint;
mod description;
mod error;
mod key;
pub mod lsm;
pub mod runs;
mod schema;
mod table;
mod tuple;
mod undo;
mod undo_log;
mod value;
pub mod wal;

pub use description::Description;
pub use error::StorageError;
pub use key::TableKey;
pub use schema::{
    Catalog, Column, IndexSchema, MAX_COLUMNS, MAX_VALUE_BYTES, Schema, TableLayout, TableSchema,
};
pub use table::{NewField, NewFields, NewTuple, Tables};
pub use undo_log::{
    FIELDS_PER_ENTRY, UNDO_HEAD_BYTES, UNDO_NOTES, UNDO_SEGMENT_BYTES, UndoEntry, UndoKind,
    UndoLog, UndoWork,
};
pub use value::{ColumnType, Row, Value};
