//! Reading a log back after a crash: see [`Wal::recover`].

use std::io;
use std::sync::Arc;

use pm::{File, Files, Memory, Range};

use super::error::{WalError, io_error};
use super::layout::{self, FRAME_HEADER_BYTES, HeaderFault, SEGMENT_HEADER_BYTES};
use super::segments::{segment_name, segments};
use super::space::{clear, end_at_seal, kept_until, spare_name};
use super::{LogStart, Tail, Wal, WalOptions, WalReport};
use crate::logs::segments::Spare;

/// Bytes that are read at once.
const READ_AHEAD_BYTES: usize = 256 << 10;

/// A file read from front to back through a window that is as large as the largest record.
struct Window<'a, R> {
    file: &'a R,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a, R: File> Window<'a, R> {
    fn new(file: &'a R) -> Self {
        Self { file, start: 0, bytes: Vec::new() }
    }

    /// Up to `len` bytes from `at` on; fewer at the end of the file.
    fn get(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let end = self.start + self.bytes.len() as u64;
        if at < self.start || at + len as u64 > end {
            self.bytes.resize(len.max(READ_AHEAD_BYTES), 0);
            let filled = self.file.read_at(at, &mut self.bytes)?;
            self.bytes.truncate(filled);
            self.start = at;
        }
        let from = (at - self.start) as usize;
        Ok(&self.bytes[from..self.bytes.len().min(from + len)])
    }
}

/// The findings of scanning one segment.
struct Scanned {
    /// The place where its last valid frame ends.
    end: u64,
    /// The transaction after its last.
    next_txn: u64,
    /// True if it says that there is another segment.
    sealed: bool,
}

/// A segment that was opened, with its length and the first transaction after its header.
struct Opened<R> {
    name: String,
    file: R,
    bytes: u64,
    first_txn: Result<u64, HeaderFault>,
}

fn open<F: Files>(files: &F, prefix: &str, sequence: u64) -> Result<Opened<F::File>, WalError> {
    let name = segment_name(prefix, sequence);
    let io = |source| WalError::Io { doing: "read", name: name.clone(), source };
    let file = files.open(&name).map_err(io)?;
    let bytes = file.len().map_err(io)?;
    let mut header = [0; SEGMENT_HEADER_BYTES as usize];
    let filled = file.read_at(0, &mut header).map_err(io)?;
    let first_txn = layout::read_segment_header(&header[..filled], sequence, files.stamp());
    Ok(Opened { file, bytes, first_txn, name })
}

impl<R: File> Opened<R> {
    fn io(&self) -> impl Fn(io::Error) -> WalError {
        |source| WalError::Io { doing: "read", name: self.name.clone(), source }
    }

    /// Reads frames up to the first that is not valid.
    fn scan<E: From<WalError>>(
        &self,
        sequence: u64,
        first_txn: u64,
        report: &mut WalReport,
        visit: &mut impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<Scanned, E> {
        let mut window = Window::new(&self.file);
        let mut at = Scanned { end: SEGMENT_HEADER_BYTES, next_txn: first_txn, sealed: false };
        loop {
            let header = window.get(at.end, FRAME_HEADER_BYTES as usize).map_err(self.io())?;
            at.sealed = layout::is_seal(header, sequence, at.next_txn);
            // A length that the file cannot hold is not worth reading.
            let Some(bytes) = layout::frame_bytes(header, at.next_txn)
                .filter(|bytes| *bytes <= self.bytes - at.end)
            else {
                return Ok(at);
            };
            let frame = window.get(at.end, bytes as usize).map_err(self.io())?;
            let Some(payload) = layout::payload_of(frame, sequence) else { return Ok(at) };
            visit(at.next_txn, payload)?;
            at.end += bytes;
            at.next_txn += 1;
            report.records += 1;
            report.bytes += bytes;
        }
    }

    /// Bytes from `from` up to the last that is not zero.
    fn used_after(&self, from: u64) -> Result<u64, WalError> {
        let mut window = Window::new(&self.file);
        let mut used = 0;
        let mut at = from;
        while at < self.bytes {
            let part = window.get(at, READ_AHEAD_BYTES).map_err(self.io())?;
            if part.is_empty() {
                break;
            }
            if let Some(last) = part.iter().rposition(|byte| *byte != 0) {
                used = at + last as u64 + 1 - from;
            }
            at += part.len() as u64;
        }
        Ok(used)
    }

    fn damaged(&self, at: u64, what: &'static str) -> WalError {
        WalError::Damaged { name: self.name.clone(), at, what }
    }

    fn header_error(&self, fault: HeaderFault) -> WalError {
        match fault {
            HeaderFault::Damaged(what) => self.damaged(0, what),
            HeaderFault::Version(found) => {
                WalError::Version { name: self.name.clone(), found, supported: layout::VERSION }
            }
        }
    }
}

impl<F: Files, M: Memory> Wal<F, M> {
    /// Reads the log back from `from` on, gives each record to `visit` in order, and makes it
    /// ready to append. Everything that `visit` saw is durable when this returns.
    ///
    /// A record that was acknowledged is always seen; one that was not may be. A torn tail is cut
    /// off. Segments before `from` are removed. The log must reach
    /// [`WalOptions::reaches`].
    ///
    /// # Errors
    /// [`WalError::Damaged`], [`WalError::Missing`], [`WalError::Short`], [`WalError::OtherEnd`] or [`WalError::Version`]:
    /// the log holds less than it must. [`WalError::Io`]. What `visit` returned. No byte of a record was changed then.
    pub fn recover<E: From<WalError>>(
        files: F,
        prefix: &str,
        from: LogStart,
        memory: M,
        buffer: Range,
        options: WalOptions,
        mut visit: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(Self, WalReport), E> {
        let all = segments(&files, prefix)?;
        let last = all.last().copied().unwrap_or(0).max(from.sequence);
        let mut report = WalReport::default();
        let (mut older, mut uncut) = (Vec::new(), Vec::new());
        let mut current: Option<(u64, Opened<F::File>, Scanned)> = None;
        let mut never_begun = None;
        for sequence in from.sequence..=last {
            if all.binary_search(&sequence).is_err() {
                return Err(WalError::Missing { name: segment_name(prefix, sequence) }.into());
            }
            let segment = open(&files, prefix, sequence)?;
            let expected = current.as_ref().map_or(from.txn, |(_, _, before)| before.next_txn);
            // An earlier beginning of it, whose name a crash has lost, and after which the log went on.
            let is_stale = match segment.first_txn {
                Ok(first_txn) => first_txn < expected,
                Err(HeaderFault::Damaged(_)) => true,
                Err(HeaderFault::Version(_)) => false,
            };
            if is_stale
                && current.as_ref().is_some_and(|(_, _, before)| !before.sealed)
                && !options.closed
                && sequence == last
                && segment.used_after(SEGMENT_HEADER_BYTES)? == 0
            {
                // The crash hit its creation: nothing was ever acknowledged in it.
                never_begun = Some(segment.name);
                break;
            }
            let first_txn = match segment.first_txn {
                Ok(first_txn) => first_txn,
                Err(fault) => return Err(segment.header_error(fault).into()),
            };
            if first_txn != expected {
                return Err(match &current {
                    Some((_, before, scanned)) => before.damaged(
                        scanned.end,
                        "the next segment continues with a later or earlier transaction",
                    ),
                    None => segment.damaged(0, "it starts with another transaction than asked for"),
                }
                .into());
            }
            let scanned = segment.scan(sequence, first_txn, &mut report, &mut visit)?;
            if let Some((sequence, before, scanned)) = current.replace((sequence, segment, scanned))
            {
                if scanned.end + FRAME_HEADER_BYTES < before.bytes {
                    uncut.push((older.len(), before.file, scanned.end));
                }
                older.push((sequence, before.bytes));
            }
        }
        // The loop ran at least once and returned unless it found its first segment sound.
        let Some((sequence, segment, scanned)) = current else {
            return Err(WalError::Missing { name: segment_name(prefix, from.sequence) }.into());
        };
        if scanned.sealed {
            return Err(WalError::Missing { name: segment_name(prefix, sequence + 1) }.into());
        }
        if scanned.next_txn < options.reaches {
            let (last, needed) = (scanned.next_txn - 1, options.reaches - 1);
            return Err(
                WalError::Short { name: segment.name, at: scanned.end, last, needed }.into()
            );
        }
        report.torn_tail_bytes = segment.used_after(scanned.end)?;
        if options.closed && report.torn_tail_bytes > 0 {
            let what = "a record is torn, though the database was closed";
            return Err(segment.damaged(scanned.end, what).into());
        }
        if let Some(end) = options.end
            && !end.allows(scanned.next_txn - 1)
        {
            let (last, needed) = (scanned.next_txn - 1, end.last);
            return Err(WalError::OtherEnd { name: segment.name, last, needed }.into());
        }
        let spare = open_spare(&files, prefix, never_begun)?;
        // What the crash has kept from being given back.
        for (at, file, end) in uncut {
            older[at].1 = end_at_seal(&file, end, older[at].1);
        }
        let reserved =
            make_durable(&files, &segment, scanned.end, report.torn_tail_bytes, options)?;
        let tail = Tail {
            name: segment.name,
            file: Arc::new(segment.file),
            sequence,
            reserved,
            written: scanned.end,
        };
        let (files, memory) = ((files, spare), (memory, buffer));
        let mut wal = Self::assemble(files, prefix, memory, options, tail, scanned.next_txn);
        wal.older = older;
        wal.remove_before(from.sequence)?;
        Ok((wal, report))
    }
}

/// Cuts the torn tail off, but for the space that is set aside, and makes what was read durable.
/// Returns the bytes that stay reserved.
///
/// Both happen before anything is appended. A frame after the torn one would be valid again as soon
/// as another record of the same length took the torn one's place. And if the process was killed
/// or a sync has failed, what recovery saw may be only in the kernel's pages: a power cut must not
/// lose it after it was read. So zeros that stand after the end are written once more: those of a
/// recovery, or of a record that was dropped, may not have reached the medium, which still has a torn tail
/// there. In a log that was closed they have.
fn make_durable<F: Files>(
    files: &F,
    segment: &Opened<F::File>,
    end: u64,
    torn_tail_bytes: u64,
    options: WalOptions,
) -> Result<u64, WalError> {
    let io = |doing| move |source| WalError::Io { doing, name: segment.name.clone(), source };
    let mut reserved = segment.bytes;
    if torn_tail_bytes > 0 || options.aside_bytes > 0 && !options.closed {
        let kept = kept_until(end, reserved, options);
        let cleared = clear(&segment.file, (end, kept), (reserved, kept));
        reserved = cleared.map_err(io("cut the torn tail off"))?;
    }
    segment.file.sync_anew(end).map_err(io("sync"))?;
    files.sync_directory().map_err(io("sync the directory of"))?;
    Ok(reserved)
}

/// Opens the file that becomes the next segment. A segment that was never begun is that file again, or
/// one too many.
fn open_spare<F: Files>(
    files: &F,
    prefix: &str,
    never_begun: Option<String>,
) -> Result<Spare<F>, WalError> {
    let name = spare_name(prefix);
    let mut spare = Spare::open(files.clone(), name.clone()).map_err(io_error("open", &name))?;
    if let Some(segment) = never_begun {
        if spare.file().is_some() {
            remove(files, &segment)?;
        } else {
            files.rename(&segment, &name).map_err(io_error("rename", &segment))?;
            spare.reopen().map_err(io_error("open", &name))?;
        }
    }
    Ok(spare)
}

fn remove<F: Files>(files: &F, name: &str) -> Result<(), WalError> {
    files.remove(name).map_err(|source| WalError::Io { doing: "remove", name: name.into(), source })
}
