//! Perdura under SQLite: a loadable extension with which stock SQLite commits in persistent memory (P3).
//!
//! The extension registers a VFS, `perdura`. The VFS maps the database file and commits what SQLite writes
//! to it in place, with a log in a side file. `docs/sqlite.md` says how to load it and what to expect.
//!
//! | module | its question |
//! |---|---|
//! | [`store`] | how does a transaction become durable, whole or not at all? Safe, and generic over [`pm::Memory`], so that crash tests run it |
//! | [`database`] | who may read and write when? Mapped files, the side file, locks |
//! | [`ffi`] | how does SQLite call it? The only place for `unsafe` |

#![deny(unsafe_code)]

pub mod database;
#[expect(unsafe_code, reason = "SQLite calls and is called through tables of C functions")]
pub mod ffi;
pub mod store;
