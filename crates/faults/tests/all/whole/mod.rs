//! What each build of `.ci/run` adds to the ordinary tests: `cargo test --workspace --tests -- --ignored whole::`.

mod checksummed;
mod examined;
mod paged;
