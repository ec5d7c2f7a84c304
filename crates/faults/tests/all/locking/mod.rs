//! Transactions under row locks, before the oracle: in a store whose threads a seed interleaves at
//! every latch, every lock and every place of the log; with policies of the protocol that are
//! wrong; and in a database with real threads.

mod concurrency;
mod flaws;
pub(crate) mod interleaved;
pub(crate) mod real;
mod scenario;
