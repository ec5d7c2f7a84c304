//! Tests that `scripts/long` runs in a night, and no build.

mod catalogue;
mod examined;
mod failing_resources;
mod interleaved;
mod locking;
mod paged;
mod stores;
mod workloads;
