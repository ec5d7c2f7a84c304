//! The store under a database. Safe, and generic over [`pm::Memory`].
//!
//! [`connection`] has the protocol, [`region`] what it runs on, [`page1`] the marker that keeps stock SQLite out.

pub mod connection;
pub mod error;
mod frames;
mod layout;
pub mod page1;
pub mod region;
mod side;
mod stage;
pub mod stats;
