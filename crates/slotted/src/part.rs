//! The part of a page that a log may have, and the sum of these parts over a transaction: bounds,
//! in bytes.

use std::collections::BTreeMap;

/// Bytes of a frame's header, and those that fill its last word.
pub(crate) const FRAME: u64 = 16 + 8;
/// Bytes of a frame of one word.
pub(crate) const WORD_FRAME: u64 = 16 + 8;

/// The changes of a page by a transaction, as far as a log may have them: bounds.
#[derive(Clone, Copy, Default, Debug)]
pub struct Part {
    /// Bytes of the page.
    pub page_bytes: u64,
    /// Bytes of the header that it gets, if it gets one.
    pub header: u64,
    /// Single words.
    pub words: u64,
    /// Runs of bytes that were written.
    pub runs: u64,
    /// Bytes of these runs.
    pub run_bytes: u64,
}

impl Part {
    /// Bytes of frames with the header, as a whole or in two runs, and the words.
    pub fn header_frames(&self) -> u64 {
        let header = if self.header > 0 { 2 * FRAME + self.header } else { 0 };
        header + self.words * WORD_FRAME
    }

    /// The same with a checksum of each run.
    pub fn checked_frames(&self) -> u64 {
        self.header_frames() + self.runs * FRAME
    }

    /// Bytes of frames with the runs, and with header and words: no byte of the page is in two of
    /// them, and between two there are as many as the header of a frame has.
    pub fn run_frames(&self) -> u64 {
        let apart = self.header_frames() + self.words * FRAME + self.runs * FRAME + self.run_bytes;
        apart.min(3 * self.page_bytes + FRAME)
    }

    /// Bytes of a frame with the whole page.
    pub fn page_frame(&self) -> u64 {
        FRAME + self.page_bytes
    }
}

/// The bound of what the open transaction logs.
#[derive(Default, Debug)]
pub(crate) struct Room {
    /// Bytes of frames of each page, and their sum.
    pub(crate) pages: BTreeMap<u64, u64>,
    pub(crate) sum: u64,
    /// Pages that were touched since the sum was right.
    pub(crate) touched: Vec<u64>,
    /// Runs of each page that were written, and their bytes, in schemes that log them.
    pub(crate) written: BTreeMap<u64, (u64, u64)>,
}

impl Room {
    /// Notes that a page changes, comes or goes.
    pub(crate) fn touch(&mut self, page: u64) {
        if self.touched.last() != Some(&page) {
            self.touched.push(page);
        }
    }

    /// Notes a run of bytes that the log is going to have.
    pub(crate) fn wrote(&mut self, page: u64, bytes: usize) {
        let (runs, all) = self.written.entry(page).or_default();
        *runs += 1;
        *all += bytes as u64;
        self.touch(page);
    }
}
