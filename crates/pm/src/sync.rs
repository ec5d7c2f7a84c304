//! Atomics, those of the standard library. `tests/interleavings.rs` compiles the module that uses
//! them a second time over those of a scheduler that tries interleavings.

pub(crate) use std::sync::atomic::{AtomicPtr, AtomicUsize};
