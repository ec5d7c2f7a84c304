//! Failures as SQLite's result codes.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use super::abi::code;
use crate::database::Failure;

static LAST: Mutex<String> = Mutex::new(String::new());

/// The result code of a failure, of an operation whose own failure is `io`; remembers why.
pub(crate) fn code_of(failure: Failure, io: c_int) -> c_int {
    let (code, why) = match failure {
        Failure::Busy => return code::BUSY,
        Failure::Memory => return code::NOMEM,
        Failure::ReadOnly => return code::READONLY,
        Failure::Full(why) => (code::FULL, why),
        Failure::CannotOpen(why) => (code::CANTOPEN, why),
        Failure::Corrupt(why) => (code::CORRUPT, why),
        Failure::Io(why) => (io, why),
    };
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = why;
    code
}

/// Why the last operation that failed did so.
pub(crate) fn last() -> String {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The result code of what an operation gives, whose own failure is `io`.
pub(crate) fn code(result: Result<(), Failure>, io: c_int) -> c_int {
    result.map_or_else(|failure| code_of(failure, io), |()| code::OK)
}
