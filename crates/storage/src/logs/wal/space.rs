//! The space of a log: in the segment that grows, and in the file that becomes the next one.
//!
//! Some of both is set aside ([`WalOptions::aside_bytes`](super::WalOptions::aside_bytes)). A record
//! that frees something may use it, others may not. So on a full medium rows can be deleted, and a
//! checkpoint can begin, which frees the log before it.
//!
//! Invariants:
//! - Where an ordinary operation has found room, the segment that grows has space after it for its
//!   seal and what is set aside, and the file that comes next has as much.
//! - The file that comes next has another name until it has its space. A rotation gives it the name of
//!   the next segment.
//! - If there is no such file and the medium is full, what the segment that grows has ahead of its end
//!   goes to the next one. So a log that has anything left can be rotated.

use std::io;
use std::sync::Arc;

use pm::{File, Files, Memory};

use super::error::{WalError, io_error};
use super::layout::{FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES};
use super::segments::segment_name;
use super::{Tail, Wal, WalOptions};
use crate::logs::segments::{Segment, Spare, is_full};

/// Bytes that a seal takes.
const SEAL_BYTES: u64 = FRAME_HEADER_BYTES;

/// The purpose for which an operation needs space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// It adds or changes data: what is set aside stays.
    Ordinary,
    /// It deletes data, so it may use what is set aside.
    Freeing,
}

/// Returns the name of the file that becomes the next segment.
pub(super) fn spare_name(prefix: &str) -> String {
    format!("spare-{}", prefix.trim_end_matches('-'))
}

/// The place up to which an end that is cut off at `end` keeps its space.
pub(super) fn kept_until(end: u64, reserved: u64, options: WalOptions) -> u64 {
    let WalOptions { aside_bytes, .. } = options;
    let aside = if aside_bytes > 0 { FRAME_HEADER_BYTES + aside_bytes + SEAL_BYTES } else { 0 };
    reserved.min(end + aside)
}

/// Lets the bytes from `from` to `to` read as zero, and a file with space for `reserved` bytes end at
/// `kept`, which is at most that. Returns for how many bytes it has space then: if the medium copies what
/// is overwritten, and has no room for that, the file ends at `from`.
#[track_caller]
pub(super) fn clear<R: File>(
    file: &R,
    (from, to): (u64, u64),
    (reserved, kept): (u64, u64),
) -> io::Result<u64> {
    if kept < reserved {
        file.set_len(kept)?;
    }
    let zeros = to.min(kept).saturating_sub(from);
    if zeros == 0 {
        return Ok(kept);
    }
    match file.write_at(from, &vec![0; zeros as usize]) {
        Err(error) if is_full(&error) => file.set_len(from).map(|()| from),
        done => done.map(|()| kept),
    }
}

/// Gives the space after the seal of a segment back, whose records end at `end`: it takes no more of
/// them. Returns the bytes that the file has then. Where this fails they stay until it is removed.
#[track_caller]
pub(super) fn end_at_seal<R: File>(file: &R, end: u64, reserved: u64) -> u64 {
    let sealed = end + SEAL_BYTES;
    if sealed < reserved && file.set_len(sealed).is_ok() { sealed } else { reserved }
}

fn refuses_for_space(error: &WalError) -> bool {
    matches!(error, WalError::Io { source, .. } if is_full(source))
}

impl<F: Files, M: Memory> Wal<F, M> {
    /// Sees to it that an operation of `bytes` bytes can be put, in a record that may still have to be
    /// begun, and the record ended.
    ///
    /// # Errors
    /// [`WalError::Io`]: the medium has no room for it. Nothing has changed.
    pub fn make_room(&mut self, bytes: u64, need: Need) -> Result<(), WalError> {
        self.check()?;
        let needed = self.position() + FRAME_HEADER_BYTES + bytes + SEAL_BYTES;
        let done = self.reserve(needed + self.options.aside_bytes).and_then(|()| self.prepare());
        match done {
            Err(error) if need == Need::Freeing && refuses_for_space(&error) => {
                self.reserve(needed)
            }
            done => done,
        }
    }

    /// Bytes that are set aside in the segment that grows.
    pub fn aside_bytes(&self) -> u64 {
        self.options.aside_bytes
    }

    /// Returns whether half of what is set aside in the segment that grows has been used: it is time
    /// for a rotation, and for removing what lies before it.
    pub fn lacks_room(&self) -> bool {
        self.tail.reserved < self.position() + self.options.aside_bytes / 2
    }

    /// Makes the file that becomes the next segment, with what is set aside there.
    fn prepare(&mut self) -> Result<(), WalError> {
        if self.options.aside_bytes == 0 {
            return Ok(());
        }
        let bytes = self.least_segment();
        self.spare.reserve(bytes, bytes).map_err(io_error("reserve space for", self.spare.name()))
    }

    /// After space has been freed: takes what is set aside if it is not there, and no more. Where that
    /// fails the next operation tries it.
    pub(super) fn replenish(&mut self) {
        if self.options.aside_bytes > 0 {
            let needed = self.position() + FRAME_HEADER_BYTES + SEAL_BYTES;
            let done = self.reserve_in_steps(needed + self.options.aside_bytes, 1);
            let _ = done.and_then(|()| self.prepare());
        }
    }

    /// Bytes that a new segment has at least.
    fn least_segment(&self) -> u64 {
        SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES + SEAL_BYTES + self.options.aside_bytes
    }

    /// Sees to it that the segment that grows has space up to `to`.
    pub(super) fn reserve(&mut self, to: u64) -> Result<(), WalError> {
        self.reserve_in_steps(to, self.options.reserve_bytes)
    }

    fn reserve_in_steps(&mut self, to: u64, step: u64) -> Result<(), WalError> {
        let Tail { file, name, reserved, .. } = &mut self.tail;
        if to <= *reserved {
            return Ok(());
        }
        let generous = to.next_multiple_of(step);
        let mut done = file.reserve(generous).map(|()| generous);
        if generous > to && done.as_ref().is_err_and(is_full) {
            done = file.reserve(to).map(|()| to);
        }
        *reserved = done.map_err(io_error("reserve space for", name))?;
        Ok(())
    }

    /// Gives the file that comes next its space and the name of its segment. Needs space for a seal
    /// after the end.
    pub(super) fn next_segment(&mut self) -> Result<Tail<F::File>, WalError> {
        let least = self.least_segment();
        // What is set aside is no more than that: other files of the engine have their part.
        let ahead = if self.options.aside_bytes > 0 { 1 } else { self.options.reserve_bytes };
        let name = segment_name(&self.prefix, self.tail.sequence + 1);
        if let Err(error) = self.spare.reserve(least, least.next_multiple_of(ahead)) {
            if !is_full(&error) || self.options.aside_bytes == 0 {
                return Err(io_error("reserve space for", &name)(error));
            }
            self.give_ahead().map_err(io_error("reserve space for", &name))?;
        }
        let segment = self.spare.take(&name).map_err(io_error("create", &name))?;
        Ok(tail_of(&segment, name, self.tail.sequence + 1))
    }

    /// Lets the file that comes next have the space after the end, but for that of a seal, and what
    /// else it needs if the medium has it.
    fn give_ahead(&mut self) -> io::Result<()> {
        let end = self.position() + SEAL_BYTES;
        let bytes = self.spare.reserved() + (self.tail.reserved - end);
        if bytes < SEGMENT_HEADER_BYTES + 2 * FRAME_HEADER_BYTES {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.tail.file.set_len(end)?;
        self.tail.reserved = end;
        self.spare.reserve(bytes, bytes.max(self.least_segment()))
    }
}

/// Creates the first segment of a log, with its space.
pub(super) fn first_segment<F: Files>(
    spare: &mut Spare<F>,
    prefix: &str,
    sequence: u64,
    options: WalOptions,
) -> Result<Tail<F::File>, WalError> {
    let name = segment_name(prefix, sequence);
    let bytes = SEGMENT_HEADER_BYTES.next_multiple_of(options.reserve_bytes);
    spare.reserve(bytes, bytes).map_err(io_error("reserve space for", &name))?;
    let segment = spare.take(&name).map_err(io_error("create", &name))?;
    Ok(tail_of(&segment, name, sequence))
}

fn tail_of<R: File>(segment: &Segment<R>, name: String, sequence: u64) -> Tail<R> {
    let (file, reserved) = (Arc::clone(segment.file()), segment.reserved());
    Tail { name, file, sequence, reserved, written: 0 }
}
