//! Tests that each build of `.ci/run` adds to the ordinary ones: `cargo test --workspace --tests -- --ignored whole::`.

mod backup;
mod bad_pool;
mod budgets;
mod conformance;
mod damage;
mod full_disk;
mod full_pool;
mod lost_stores;
mod media_errors;
mod other_files;
mod racing;
mod random;
mod salvage;
