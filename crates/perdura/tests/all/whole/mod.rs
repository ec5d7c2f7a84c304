//! Tests that each build of `.ci/run` adds to the ordinary ones: `cargo test --workspace --tests -- --ignored whole::`.

mod backup;
mod damage;
mod lost_stores;
mod media_errors;
mod other_files;
mod racing;
mod random;
mod salvage;
