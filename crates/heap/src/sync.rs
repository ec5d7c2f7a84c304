//! Locks and shared pointers, those of the standard library. `tests/interleavings.rs` compiles the
//! other modules a second time over those of a scheduler that tries interleavings.

pub(crate) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
