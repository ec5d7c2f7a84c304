//! Tests that each build of `.ci/run` adds to the ordinary ones: `cargo test --workspace --tests -- --ignored whole::`.

mod catalogue;
mod checksummed;
mod examined;
mod examiner;
mod failing_resources;
mod files;
mod history;
mod interleaved;
mod killed;
mod paged;
mod placed;
mod pool;
mod shared;
mod workloads;
