//! Follows the records of a partition.

use pm::File;
use storage::segments::Window;

use super::super::record::{self, Decoded, HEADER_BYTES, Placed, record_bytes};
use super::layout::{self, SEAL};
use crate::ids::Lsn;
use crate::{PagedError, Result};

/// Places are near if it costs less to read what lies between them than to begin anew.
const NEAR_BYTES: u64 = 64 << 10;

/// The contents of a place.
#[derive(Debug)]
pub(super) enum Walked<'w> {
    /// A sound record with its payload.
    Record(Decoded, &'w [u8]),
    /// The seal: the log goes on in the next partition.
    Seal(Placed),
    /// Nothing that belongs here.
    End,
}

/// A partition that is read from a place on.
#[derive(Debug)]
pub(super) struct Walk<'a, R> {
    window: Window<'a, R>,
    number: u32,
    offset: u64,
    partition_bytes: u64,
}

impl<'a, R: File> Walk<'a, R> {
    pub(super) fn at(file: &'a R, number: u32, offset: u64, partition_bytes: u64) -> Self {
        Self { window: Window::new(file), number, offset, partition_bytes }
    }

    /// The place of what is read next.
    pub(super) fn place(&self) -> Lsn {
        layout::lsn_of(self.number, self.offset)
    }

    /// Goes on at another offset. What was read ahead stays, if it is near.
    pub(super) fn seek(&mut self, offset: u64) {
        self.window.seek(offset, NEAR_BYTES);
        self.offset = offset;
    }

    /// Up to `bytes` bytes from the place on; fewer at the end of the file.
    fn get(&mut self, bytes: usize) -> Result<&[u8]> {
        let read = self.window.get(self.offset, bytes);
        read.map_err(|source| PagedError::Io { doing: "reading the log", source })
    }

    /// Reads the contents of the place, if a restart from `least` to `most` has written it. The
    /// place moves past it.
    pub(super) fn next(&mut self, least: u32, most: u32) -> Result<Walked<'_>> {
        let place = self.place();
        let left = (self.partition_bytes - self.offset) as usize;
        let header = self.get(HEADER_BYTES)?;
        if header.len() < HEADER_BYTES {
            return Ok(Walked::End);
        }
        let bytes = record::bytes_of(header);
        if !(HEADER_BYTES..=left).contains(&bytes) {
            return Ok(Walked::End);
        }
        let Some(read) = record::decode(self.get(bytes)?) else { return Ok(Walked::End) };
        if read.placed.lsn != place || !(least..=most).contains(&read.placed.mark) {
            return Ok(Walked::End);
        }
        let offset = self.offset;
        self.offset += record_bytes(bytes - HEADER_BYTES) as u64;
        if read.code == SEAL {
            return Ok(Walked::Seal(read.placed));
        }
        let whole = self.window.get(offset, bytes);
        let whole = whole.map_err(|source| PagedError::Io { doing: "reading the log", source })?;
        Ok(Walked::Record(read, &whole[HEADER_BYTES..]))
    }
}
