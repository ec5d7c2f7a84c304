//! TATP, the Telecom Application Transaction Processing benchmark: a register of subscribers that a
//! telephone network asks and changes. Most transactions are short reads, and many of them find
//! nothing, as the benchmark foresees.
//!
//! Written once against the public API: every engine runs the same code.
//!
//! | module | what |
//! |---|---|
//! | `schema` | the four tables |
//! | `population` | the rows, each a function of the seed and its subscriber |
//! | `inputs` | what is entered, generated before the clock starts; how subscribers are drawn |
//! | `terminal` | the seven transactions |
//! | `rates` | the rates of success, and how far a run may be from them |
//! | `check` | what must be true of the rows |
//! | `drive` | running it |
//! | `register` | running it on other databases than ours |
//!
//! **Decided here**, where descriptions of the benchmark leave room or differ:
//! - A subscriber is `(random(0, A) | random(1, n)) mod n + 1`, as Shore-Kits runs it each with the
//!   same probability.
//! - Calls are forwarded from 0, 8 or 16 o'clock for 1 to 8 hours, those inserted by a run too; who
//!   asks for a destination asks for a start of 0, 8 or 16 and an end of 1 to 24.
//! - Success is a part of a transaction: one that changes nothing because there is nothing to
//!   change is rolled back, a read that finds nothing is a failure, too. Throughput counts successes.
//! - Forwarding of a facility that does not exist fails as with a foreign key.
//! - Subscriber `s` lies in partition `(s - 1) % partitions`, and a partition draws from its own.

mod check;
mod drive;
mod inputs;
mod load;
mod population;
mod rates;
mod register;
mod schema;
mod spec;
mod terminal;

pub use check::{Changes, Inspection, check, check_changes};
pub use drive::run;
pub use inputs::{Input, Kind, Stream, Workload};
pub use load::load;
pub use rates::{Rate, rates, rates_of_users};
pub use register::{Population, Register, RegisterConnection, Value};
pub use schema::{Digits, TableOf, schema};
pub use spec::{SUBSCRIBERS_OF_SCALE, Spec, SpecError};
pub use terminal::Terminal;

#[cfg(test)]
mod tests;
