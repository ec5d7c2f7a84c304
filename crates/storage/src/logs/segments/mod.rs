//! Files of log segments: what every log in files does with them, whatever its records are.
//!
//! | what | file |
//! |---|---|
//! | the names of numbered files, and which there are | `names.rs` |
//! | the bytes with which a file begins: magic, version, checksum, words | `header.rs` |
//! | reading from front to back | `window.rs` |
//! | space: reserved ahead, and given back | here |
//! | space for a file to come | `spare.rs` |
//!
//! Invariants:
//! - A segment's space is reserved before anything is promised that goes there, so a full medium shows
//!   when space is reserved and never when it is written.
//! - What is reserved and not written reads as zero, unless the segment is used again.
//!
//! The log decides when a segment is begun, used again or removed.

pub mod header;
mod names;
mod spare;
mod window;

use std::io;
use std::sync::Arc;

use pm::{File, Files};

pub use names::{Digits, Names};
pub use spare::Spare;
pub use window::Window;

/// Bytes in which the space of a file is reserved at first. A small log takes little, and one that grows
/// is seldom about it: each step is as large as what there is.
pub const LEAST_STEP_BYTES: u64 = 64 << 10;

/// The file of a segment, and the bytes for which it has space.
#[derive(Debug)]
pub struct Segment<R> {
    file: Arc<R>,
    reserved: u64,
}

impl<R: File> Segment<R> {
    /// Creates the file, which says nothing yet.
    ///
    /// # Errors
    /// There is one of this name, or the medium refuses: then there is none.
    #[track_caller]
    pub fn create<F: Files<File = R>>(files: &F, name: &str) -> io::Result<Self> {
        Ok(Self { file: Arc::new(files.create(name)?), reserved: 0 })
    }

    /// Opens the file. It has space for its bytes.
    ///
    /// # Errors
    /// There is none of this name, or the medium refuses.
    pub fn open<F: Files<File = R>>(files: &F, name: &str) -> io::Result<Self> {
        let file = files.open(name)?;
        let reserved = file.len()?;
        Ok(Self { file: Arc::new(file), reserved })
    }

    /// Writes the header, and makes it and the file's bytes durable.
    ///
    /// # Errors
    /// The medium failed.
    #[track_caller]
    pub fn begin(&self, header: &[u8]) -> io::Result<()> {
        self.file.write_at(0, header)?;
        self.file.sync()
    }

    /// The file.
    pub fn file(&self) -> &Arc<R> {
        &self.file
    }

    /// Bytes for which the file has space.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Reserves space in the file up to `to`, and ahead of that as much again as is reserved now: at
    /// least [`LEAST_STEP_BYTES`], at most `step`, and not beyond `most`. If the medium has less
    /// room, the space ends at `to`.
    ///
    /// # Errors
    /// The medium refuses: the file has the space that it had.
    #[track_caller]
    pub fn reserve(&mut self, to: u64, step: u64, most: u64) -> io::Result<()> {
        if to <= self.reserved {
            return Ok(());
        }
        let ahead = self.reserved.clamp(LEAST_STEP_BYTES.min(step), step);
        let generous = to.saturating_add(ahead).min(most).max(to);
        match self.file.reserve(generous) {
            Ok(()) => self.reserved = generous,
            Err(error) if is_full(&error) && generous > to => {
                self.file.reserve(to)?;
                self.reserved = to;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns the space after `to` to the medium.
    ///
    /// # Errors
    /// The medium refuses: the file has the space that it had.
    #[track_caller]
    pub fn cut(&mut self, to: u64) -> io::Result<()> {
        if to < self.reserved {
            self.file.set_len(to)?;
            self.reserved = to;
        }
        Ok(())
    }
}

/// Returns whether a medium has no room, or no more for this user or in one file: not that it failed.
pub fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

#[cfg(test)]
mod tests {
    use sim::RecordingFiles;

    use super::*;

    fn bytes(files: &RecordingFiles) -> usize {
        files.image()["segment"].len()
    }

    #[test]
    fn steps_grow_with_the_file_and_stop_at_its_limit() {
        let files = RecordingFiles::new();
        let mut segment = Segment::create(&files, "segment").expect("created");
        let mut lengths = Vec::new();
        for to in [1, 70 << 10, 200 << 10, 500 << 10] {
            segment.reserve(to, 128 << 10, 600 << 10).expect("there is room");
            lengths.push(segment.reserved() >> 10);
            assert_eq!(segment.reserved() as usize, bytes(&files));
        }
        assert_eq!(lengths, [64, 134, 328, 600]);
        segment.reserve(300 << 10, 128 << 10, 600 << 10).expect("it has it");
        segment.cut(100 << 10).expect("cut");
        assert_eq!((segment.reserved(), bytes(&files)), (100 << 10, 100 << 10));
    }

    #[test]
    fn a_medium_without_room_for_a_step_gives_what_is_needed() {
        let files = RecordingFiles::new();
        let mut segment = Segment::create(&files, "segment").expect("created");
        files.limit(Some(10_000));
        segment.reserve(9_000, 1 << 20, u64::MAX).expect("so much there is");
        assert_eq!(segment.reserved(), 9_000);
        let refused = segment.reserve(10_001, 1 << 20, u64::MAX).expect_err("and no more");
        assert!(is_full(&refused));
        assert_eq!((segment.reserved(), bytes(&files)), (9_000, 9_000));
    }
}
