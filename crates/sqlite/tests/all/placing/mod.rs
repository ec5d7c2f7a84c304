//! Databases that SQLite writes, kept in frames as the store keeps them: pages are laid out for their frames, and
//! stock SQLite reads the result.

pub(crate) mod crashes;
pub(crate) mod databases;
mod lines;
mod mirror;
