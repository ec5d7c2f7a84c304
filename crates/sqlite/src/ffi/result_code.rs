//! Failures as SQLite's result codes.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use super::abi::code;
use crate::database::Failure;

static LAST: Mutex<String> = Mutex::new(String::new());

/// The result code of a failure; `io` is the code for I/O errors. Remembers the reason.
pub(crate) fn code_of(failure: Failure, io: c_int) -> c_int {
    let (code, why) = match failure {
        Failure::Busy => return code::BUSY,
        // SQLite returns it as out of memory, and does not go on with its cache, as it would after the other code.
        Failure::Memory => return code::IOERR_NOMEM,
        Failure::ReadOnly => return code::READONLY,
        Failure::Full(why) => (code::FULL, why),
        Failure::CannotOpen(why) => (code::CANTOPEN, why),
        Failure::Corrupt(why) => (code::CORRUPT, why),
        Failure::Io(why) => (io, why),
    };
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = why;
    code
}

/// The reason of the last failure.
pub(crate) fn last() -> String {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The result code of a result; `io` is the code for I/O errors.
pub(crate) fn code(result: Result<(), Failure>, io: c_int) -> c_int {
    result.map_or_else(|failure| code_of(failure, io), |()| code::OK)
}
