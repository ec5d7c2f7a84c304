//! The names of segments.

use pm::Files;

use super::error::{WalError, io_error};

/// The name of a segment's file.
pub(super) fn segment_name(prefix: &str, sequence: u64) -> String {
    format!("{prefix}{sequence:016x}")
}

/// The number in `name`, if it is `prefix` and 16 lower-case hexadecimal digits.
pub(crate) fn number_in(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    let written = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != 16 || !digits.as_bytes().iter().all(written) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

/// The numbers of all segments, in order.
pub(super) fn segments<F: Files>(files: &F, prefix: &str) -> Result<Vec<u64>, WalError> {
    let list = files.list().map_err(io_error("list the directory for", prefix))?;
    let mut numbers: Vec<u64> = list.iter().filter_map(|name| number_in(name, prefix)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}
