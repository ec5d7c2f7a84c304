//! Pages, pool and trees together, on files in memory and a log that a test can read.

mod crash;
mod damage;
mod model;
mod on_demand;
mod power;
mod refused;
pub(crate) mod support;
mod threads;
