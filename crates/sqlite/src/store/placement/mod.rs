//! The parts of a commit that places cells, none of which knows the store or has a memory.
//!
//! They let a commit store fewer bytes than differ, above all with random keys. They serve only the commits that place
//! cells: those in `fash1`, the default mode in the domain `adr`, and in the laboratory's modes of P3. The modes `lean`
//! and `full`, and SQLite's WAL mode, neither place a cell nor move a page; a connection in them uses [`permutation`]
//! alone, to return pages that another mode has moved.
//!
//! | module | its question |
//! |---|---|
//! | [`parse`] | is this a page of a b-tree, and where are its cells? |
//! | [`matching`] | which cells has a page kept, and which frame holds most of them? |
//! | [`place`] | where do the cells go, so that most bytes stay, or need no log? |
//! | [`permutation`] | which frame is a page in, and how do all pages return to their own? |
//!
//! `store::adr` uses them.

pub mod matching;
pub mod parse;
pub mod permutation;
pub mod place;
