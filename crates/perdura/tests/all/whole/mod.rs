//! What each build of `.ci/run` adds to the ordinary tests: `cargo test --workspace --tests -- --ignored whole::`.

mod backup;
mod damage;
mod lost_stores;
mod media_errors;
mod other_files;
mod racing;
mod salvage;
