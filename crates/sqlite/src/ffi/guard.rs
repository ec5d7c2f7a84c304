//! Catches panics before they unwind through SQLite.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`, and returns `instead` if it panics. The panic's message is printed as usual.
pub(crate) fn guarded<T>(instead: T, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(instead)
}
