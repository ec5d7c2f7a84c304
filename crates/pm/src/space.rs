//! Reserving space for bytes of a file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::limits::{check_file_size, largest_file};
use crate::offset::Range;

/// The least number of bytes that is reserved in one go.
const LEAST_PIECE: u64 = 64 << 10;

/// Reserves `len` bytes of a file from byte `from` on, at once if no signal comes. A file system
/// that is interrupted takes back what it has done, and signals may come faster than it can reserve
/// everything: then the pieces become smaller. After an error a part may be reserved.
///
/// # Errors
/// There is no room, or the process may not make files so large.
pub(crate) fn reserve_space(file: &File, from: u64, len: u64) -> io::Result<()> {
    check_file_size(from.saturating_add(len), largest_file())?;
    in_pieces(from, len, |start, bytes| {
        // SAFETY: the descriptor is open.
        unsafe { libc::posix_fallocate(file.as_raw_fd(), start, bytes) }
    })
}

/// The same for a part of the file that is there, and only if the file system can: nothing is written
/// in its place.
pub(crate) fn reserve_existing(file: &File, part: Range) -> io::Result<()> {
    in_pieces(part.start, part.len, |start, bytes| {
        let keep = libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: the descriptor is open.
        match unsafe { libc::fallocate(file.as_raw_fd(), keep, start, bytes) } {
            0 => 0,
            _ => io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
        }
    })
}

fn in_pieces(
    from: u64,
    len: u64,
    reserve: impl Fn(libc::off_t, libc::off_t) -> libc::c_int,
) -> io::Result<()> {
    let too_large = |_| io::Error::from(io::ErrorKind::FileTooLarge);
    let (mut done, mut piece) = (0, len);
    while done < len {
        let bytes = piece.min(len - done);
        let start = libc::off_t::try_from(from.saturating_add(done)).map_err(too_large)?;
        let many = libc::off_t::try_from(bytes).map_err(too_large)?;
        match reserve(start, many) {
            0 => done += bytes,
            libc::EINTR => piece = (piece / 2).max(LEAST_PIECE),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
    Ok(())
}
