//! Databases that SQLite writes, kept in frames as a store would keep them: pages are laid out anew
//! for the frames they live in, and stock SQLite reads what comes of it.

mod crashes;
mod databases;
mod lines;
mod mirror;
