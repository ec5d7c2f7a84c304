//! A storage manager for databases larger than memory: slotted pages, a buffer pool, B+trees, row
//! locks, and ARIES over a log that is chosen (P2).
//!
//! | question | module |
//! |---|---|
//! | which numbers name pages, trees, transactions and places in the log | [`ids`] |
//! | what a log manager promises | [`log`] |
//! | who may read and write which row | [`lock`] |
//! | how is a database what it was after a crash | [`recovery`] |
//! | how threads wait for each other | [`threads`] |
//! | how a page lies in memory and in the file | [`layout`], [`page`], [`file`](mod@file) |
//! | which changes pages have, in the log too | [`change`] |
//! | which pages are in memory, and when they are written | [`pool`] |
//! | which pages are in use | [`maps`], `space` |
//! | how a row is found, comes, changes and goes | [`tree`], [`catalog`] |
//! | where rows lie that are long | [`overflow`] |
//! | whether all pages agree | [`check`] |
//! | how threads wait for pages | [`latch`] |
//! | how all of it is one, under transactions | [`store`] |
//! | how pages are copied meanwhile, and a copy and an archive become a store | [`base`], [`restore`] |
//! | what is done wrong to see that tests notice | [`flaw`] |
//!
//! It knows no engine and no schema: keys and rows are bytes, keys ordered as their bytes are.

#![forbid(unsafe_code)]

pub mod base;
pub mod catalog;
pub mod change;
pub mod check;
mod error;
pub mod file;
pub mod flaw;
pub mod ids;
pub mod latch;
pub mod layout;
pub mod lock;
pub mod log;
pub mod maps;
pub mod overflow;
pub mod page;
pub mod pool;
pub mod recovery;
pub mod restore;
mod space;
pub mod store;
pub mod threads;
pub mod tree;

pub use error::{Conflict, PagedError};

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, PagedError>;
