//! TPC-B, standard specification, revision 2.0: a bank whose accounts are drawn on, in a database
//! that many threads stress. It is no TPC result and must not be called one.
//!
//! Written once against the public API: every engine runs the same code.
//!
//! | module | clause |
//! |---|---|
//! | `schema` | 3.2: the four tables, rows of 100 bytes, those of the history of 50 |
//! | `inputs` | 5.3: what is entered, generated before the clock starts |
//! | `terminal` | 1.2: the transaction |
//! | `load` | 4.2: the population |
//! | `check` | 2.3: balances that must agree |
//! | `drive`, `verify` | running it, and what a kill must have left |
//! | `bank` | running it on other databases than ours |
//!
//! **Decided here**, where the specification leaves room:
//! - HISTORY has no key in the specification; here it is the transaction's number. Its time stamp
//!   is that number plus one, so that the same seed leaves the same contents.
//! - Transactions commute: however many workers share a partition, and in whatever order, the
//!   contents after a run are the same.
//! - A transaction covers one partition, so remote accounts need a database of one.

mod bank;
mod check;
mod drive;
mod inputs;
mod load;
mod schema;
mod spec;
mod terminal;
mod verify;

pub use bank::{Bank, BankConnection, Books, Entry, Pages};
pub use check::check;
pub use drive::run;
pub use inputs::{Input, Workload};
pub use load::load;
pub use schema::schema;
pub use spec::{ACCOUNTS, Spec, SpecError, TELLERS};
pub use terminal::Terminal;
pub use verify::{Verification, first_commit, first_read, verify};

#[cfg(test)]
mod tests;
