//! TPC-C, standard specification, revision 5.11, as P1 5.1 configures it.
//!
//! Written once against the public API: every engine runs the same code. What is left out, scaled
//! or decided where the specification leaves room is in `docs/tpcc.md`.
//!
//! | module | clause |
//! |---|---|
//! | `schema` | 1.3: the nine tables |
//! | `draw` | 2.1.6, 4.3.2: random numbers and texts |
//! | `inputs` | 2.4.1 to 2.8.1: what terminals enter, generated before the clock starts |
//! | `new_order`, `payment`, `order_status`, `delivery`, `stock_level` | 2.4 to 2.8 |
//! | `load` | 4.3.3: the population |
//! | `consistency` | 3.3.2: the twelve conditions |
//! | `terminal`, `drive`, `verify` | running it, measuring it, and comparing what a crash left |

#![expect(clippy::inconsistent_digit_grouping, reason = "cents stand apart: 12_34 is 12.34")]

mod buffers;
mod consistency;
mod customer;
mod delivery;
mod draw;
mod drive;
mod inputs;
mod load;
mod new_order;
mod order_status;
mod payment;
mod schema;
mod spec;
mod stock_level;
mod terminal;
mod verify;

pub use consistency::{Condition, check};
pub use drive::{Measured, run};
pub use inputs::{Input, Inputs, Kind, Workload};
pub use load::load;
pub use schema::schema;
pub use spec::{CUSTOMERS, DISTRICTS, ITEMS, Spec, SpecError};
pub use terminal::{Outcome, Terminal};
pub use verify::{Verification, first_commit, first_read, verify};

use perdura::{Database, Environment};

use crate::measure::RunError;
use crate::terminals::{self, failed};

/// Checks that the database is cut as the specification says; returns into how many partitions.
fn check_partitions<E: Environment>(
    database: &Database<E>,
    spec: &Spec,
    workers: usize,
) -> Result<usize, RunError> {
    terminals::check_partitions(database, spec.partitions, workers)
}

#[cfg(test)]
mod tests;
