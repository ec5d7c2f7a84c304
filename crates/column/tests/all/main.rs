//! The store against a model, under crashes, with several sessions, and by its costs.

mod budgets;
mod crash;
mod model;
mod work;
