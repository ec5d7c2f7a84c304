//! The benchmarks, and what their reports share.

mod bank;
mod fifths;
mod growth;
pub(crate) mod outage;
mod page_run;
mod readers_writers;
pub(crate) mod recovery;
pub(crate) mod slotted;
pub(crate) mod sqlite;
pub(crate) mod sqlite_readers;
pub(crate) mod tatp;
pub(crate) mod terminals;
mod terminals_run;
pub(crate) mod tpcb;
pub(crate) mod tpcc;
pub(crate) mod ycsb;
mod ycsb_run;
