//! The oracle for transactions of several threads in one partition: is what they saw what some
//! serial order of them would have shown, and does a crash leave a prefix of it?
//!
//! A [`History`] says of each transaction what it read, what it wrote, when it began and when it
//! was acknowledged, by a logical clock. Every written value is unique, so a value identifies its
//! writer. [`History::check`] does what Elle does (Kingsbury, Alvaro: Elle, VLDB 2020):
//!
//! 1. Reads that are wrong by themselves: of an aborted write, of one that its writer replaced, of
//!    a value that was never written, of other than what the transaction itself has written, of two
//!    versions.
//! 2. The versions of each key are put into an order: a transaction that has read a version and
//!    writes the key follows it, who was acknowledged before another one began precedes it, and
//!    where that leaves a choice the engine's own number of the commit, or the acknowledgement, is
//!    tried first.
//! 3. The graph of what has to precede what: who wrote the version before (`ww`), who wrote what
//!    was read (`wr`), who read what was replaced (`rw`), who was acknowledged before another one
//!    began (time).
//! 4. A cycle has a name, by its edges; the shortest one is shown. If it depends on a choice, the
//!    other one is tried.
//! 5. No cycle: the transactions are run in an order of the graph, and each read has to see what it
//!    saw. What is accepted therefore has been shown to have such an order.
//!
//! | rule | a transaction is |
//! |---|---|
//! | [`Rule::Serializable`] | one point between its beginning and its acknowledgement |
//! | [`Rule::Snapshot`] | two points there, one where it reads and a later one where it writes, and no other one writes a key of its in between |
//!
//! A read that shows that a key is absent does not say who deleted it, and a scan that a key is not
//! in it: these have several candidates among the versions, and lie between the first and the last.
//!
//! [`History::recovered`] adds what a crash has left as a reader of everything, after all
//! transactions that were durable. A transaction that was in flight belongs to the history if one
//! of its values was seen.

mod anomaly;
mod cycle;
mod digest;
mod graph;
mod model;
mod order;
mod record;
mod verdict;
mod versions;

pub use anomaly::{Anomaly, Violation};
pub use model::{By, Cell, History, Key, Operation, Outcome, Range, Rule, Seen, Transaction};
pub use record::{Pending, Recorder};
