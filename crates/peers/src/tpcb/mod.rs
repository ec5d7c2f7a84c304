//! TPC-B on other databases, each as its users would hold it.
//!
//! - [`SqliteBank`] and [`LmdbBank`] enter the same transactions in the same loop as our engines.
//! - [`PostgresBank`] starts a server of its own and lets `pgbench` enter transactions, drawn in
//!   the same way.

mod lmdb;
mod postgres;
mod server;
mod sqlite;

pub use lmdb::LmdbBank;
pub use postgres::PostgresBank;
pub use sqlite::SqliteBank;
