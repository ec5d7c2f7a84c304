//! Reading a file from front to back.

use std::io;

use pm::File;

/// Bytes that are read at once, but for the first time: that is often the only one.
const READ_AHEAD_BYTES: usize = 256 << 10;
const FIRST_BYTES: usize = 4096;

/// A file that is read from front to back, through a window that is as large as the largest record.
#[derive(Debug)]
pub struct Window<'a, R> {
    file: &'a R,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a, R: File> Window<'a, R> {
    /// A window on a file, of which nothing is read yet.
    pub fn new(file: &'a R) -> Self {
        Self { file, start: 0, bytes: Vec::new() }
    }

    /// Returns the place after the bytes that were read.
    pub fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Discards the bytes that were read, so that little is read next. Keeps them if `at` is among
    /// them or at most `near` bytes after their end.
    pub fn seek(&mut self, at: u64, near: u64) {
        if at < self.start || at > self.end() + near {
            self.bytes.clear();
        }
    }

    /// Up to `len` bytes from `at` on; fewer at the end of the file.
    ///
    /// # Errors
    /// The medium refuses.
    pub fn get(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        if at < self.start || at + len as u64 > self.end() {
            let ahead = if self.bytes.is_empty() { FIRST_BYTES } else { READ_AHEAD_BYTES };
            self.bytes.resize(len.max(ahead), 0);
            let filled = self.file.read_at(at, &mut self.bytes)?;
            self.bytes.truncate(filled);
            self.start = at;
        }
        let from = (at - self.start) as usize;
        Ok(&self.bytes[from..self.bytes.len().min(from + len)])
    }
}
