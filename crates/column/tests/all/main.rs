//! The store against a model, under crashes, with several sessions, and by its costs.

mod budgets;
mod continued;
mod crash;
mod crowd;
mod model;
mod threads;
mod work;
