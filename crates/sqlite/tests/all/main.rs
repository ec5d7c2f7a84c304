//! Real SQL, by SQLite's own library, over the VFS.

mod bad;
mod explored;
mod kills;
mod registered;
mod sql;
