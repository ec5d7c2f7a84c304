//! Following the records of a partition.

use pm::File;

use super::super::record::{self, Decoded, HEADER_BYTES, Placed, record_bytes};
use super::layout::{self, SEAL};
use crate::ids::Lsn;
use crate::{PagedError, Result};

/// Bytes that are read at once.
const READ_AHEAD_BYTES: usize = 256 << 10;

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
    file: &'a R,
    number: u32,
    offset: u64,
    partition_bytes: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a, R: File> Walk<'a, R> {
    pub(super) fn at(file: &'a R, number: u32, offset: u64, partition_bytes: u64) -> Self {
        Self { file, number, offset, partition_bytes, window: Vec::new(), window_at: 0 }
    }

    /// The place of what is read next.
    pub(super) fn place(&self) -> Lsn {
        layout::lsn_of(self.number, self.offset)
    }

    /// Goes on at another offset. What was read ahead stays, if it is near.
    pub(super) fn seek(&mut self, offset: u64) {
        let end = self.window_at + self.window.len() as u64;
        if offset < self.window_at || offset > end + NEAR_BYTES {
            self.window.clear();
        }
        self.offset = offset;
    }

    /// Up to `bytes` bytes from the place on; fewer at the end of the file.
    fn get(&mut self, bytes: usize) -> Result<&[u8]> {
        let end = self.window_at + self.window.len() as u64;
        if self.offset < self.window_at || self.offset + bytes as u64 > end {
            // The first read of a walk is often the only one.
            let ahead = if self.window.is_empty() { 4096 } else { READ_AHEAD_BYTES };
            self.window.resize(bytes.max(ahead), 0);
            let read = self.file.read_at(self.offset, &mut self.window);
            let filled =
                read.map_err(|source| PagedError::Io { doing: "reading the log", source })?;
            self.window.truncate(filled);
            self.window_at = self.offset;
        }
        let from = (self.offset - self.window_at) as usize;
        Ok(&self.window[from..self.window.len().min(from + bytes)])
    }

    /// Reads the contents of the place, if a restart from `least` to `most` has written it. The place moves
    /// behind it.
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
        let from = (self.offset - self.window_at) as usize + HEADER_BYTES;
        let payload = from..from + bytes - HEADER_BYTES;
        self.offset += record_bytes(payload.len()) as u64;
        Ok(if read.code == SEAL {
            Walked::Seal(read.placed)
        } else {
            Walked::Record(read, &self.window[payload])
        })
    }
}
