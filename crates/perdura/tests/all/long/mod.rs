//! Tests that `scripts/long` runs in a night, and no build.

mod conformance;
mod damage;
mod larger;
mod model;
