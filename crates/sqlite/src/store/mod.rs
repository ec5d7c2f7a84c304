//! The store under a database. Safe, and generic over [`pm::Memory`].
//!
//! [`connection`] has the protocol, [`region`] what it runs on, [`page1`] the marker that keeps stock SQLite out.
//!
//! Parts that [`connection`] does not use yet, each without a memory, and with its own tests. Together they
//! let a commit store less than the bytes that differ, above all with random keys:
//!
//! | module | its question |
//! |---|---|
//! | [`parse`] | is this a page of a b-tree, and where are its cells? |
//! | [`matching`] | which cells has a page kept, and in which frame do most of them lie? |
//! | [`place`] | where do the cells go, so that most bytes stay, or need no log? |
//! | [`permutation`] | which frame is a page in, and how do all of them go home? |
//! | [`record`], [`replay`] | what does the log have of such a commit, and what does recovery make of it? |
//! | [`carry`] | which lines need not be flushed yet? |
//! | [`locks`] | who reads and who writes, in shared words, whoever dies? |

pub mod carry;
pub mod connection;
pub mod error;
mod frames;
mod layout;
pub mod locks;
pub mod matching;
pub mod mode;
pub mod page1;
pub mod parse;
pub mod permutation;
pub mod place;
pub mod record;
pub mod region;
pub mod replay;
mod side;
pub mod span;
mod stage;
pub mod stats;
