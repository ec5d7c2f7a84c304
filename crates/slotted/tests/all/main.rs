//! The store against a model, under crashes, and by its costs.

mod budgets;
mod crash;
mod full;
mod given_back;
mod long;
mod model;
mod opening;
mod savepoints;
mod scans;
mod whole;
mod work;
