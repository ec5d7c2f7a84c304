//! The store against a model, under crashes, with several sessions, and by its costs.

mod budgets;
mod chosen;
mod collected;
mod continued;
mod crash;
mod crowd;
mod cut_off;
mod hashed;
mod keyed;
mod killed;
mod long;
mod model;
mod placed;
mod serial;
mod unbuilt;
mod whole;
mod work;
