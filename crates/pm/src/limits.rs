//! The kernel's limits for this process: addresses (`RLIMIT_AS`), and bytes in a file
//! (`RLIMIT_FSIZE`).
//!
//! A process that lets a file grow beyond the second gets SIGXFSZ, which ends it unless a handler is
//! installed. A library does not change what a signal does, and to block it around each call
//! would be two more calls. So the limit is asked for when a file is opened and when space is
//! reserved, and what it does not allow is not asked of the kernel. A limit that is lowered
//! while a database is open counts from the next reservation on.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Addresses that the process may still reserve; `None` if it has no limit of its own.
pub fn addresses_left() -> Option<u64> {
    let limit = limit_of(Limit::Addresses)?;
    // The first number is the process's size in pages. Without it what is left is unknown: what
    // is as large as the limit is refused then, at worst.
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').next().and_then(|pages| pages.parse().ok()).unwrap_or(0u64);
    Some(limit.saturating_sub(pages.saturating_mul(page_bytes())))
}

/// Returns how many of `wanted` bytes of addresses may be taken, so that `parts` that want as many
/// take half of what is left at most.
pub fn share_of_addresses(wanted: u64, parts: u64) -> u64 {
    addresses_left().map_or(wanted, |left| wanted.min(left / 2 / parts.max(1)))
}

/// Bytes that a file of this process may have.
pub(crate) fn largest_file() -> u64 {
    limit_of(Limit::FileBytes).unwrap_or(u64::MAX)
}

/// Refuses to make a file larger than it may be.
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`].
#[inline]
pub(crate) fn check_file_size(end: u64, largest: u64) -> io::Result<()> {
    if end <= largest { Ok(()) } else { Err(too_large(largest)) }
}

#[cold]
fn too_large(largest: u64) -> io::Error {
    let why = format!(
        "this process may not make files larger than {largest} bytes (RLIMIT_FSIZE, `ulimit -f`)"
    );
    io::Error::new(io::ErrorKind::FileTooLarge, why)
}

#[derive(Clone, Copy)]
enum Limit {
    Addresses,
    FileBytes,
}

fn limit_of(what: Limit) -> Option<u64> {
    if cfg!(miri) {
        return None;
    }
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    let resource = match what {
        Limit::Addresses => libc::RLIMIT_AS,
        Limit::FileBytes => libc::RLIMIT_FSIZE,
    };
    // SAFETY: fills our struct in; where it fails there is no limit.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Bytes of a page of the kernel.
#[inline]
pub fn page_bytes() -> u64 {
    static BYTES: AtomicU64 = AtomicU64::new(0);
    match BYTES.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: asks for a constant.
            let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 };
            BYTES.store(bytes, Ordering::Relaxed);
            bytes
        }
        bytes => bytes,
    }
}
