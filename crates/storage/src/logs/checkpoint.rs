//! Checkpoints: the whole state of an engine, compressed with gzip (P1 3.1).
//!
//! Invariants:
//! - A checkpoint has its final name only when all of it is durable: what has that name and does
//!   not verify is damage, never the trace of a crash.
//! - The newest checkpoint counts. An older one is never taken in its stead: the log that belongs
//!   to it may be gone.
//! - A checkpoint names the log segment from which on it needs the log, and its first transaction.
//! - It may be written while transactions go on. Then it holds of each tuple what it was when the
//!   tuple's turn came, and names the first transaction of which it certainly holds nothing;
//!   whatever is in it is durable in the log before it counts.
//!
//! 1. [`CheckpointWriter`] fills `<name>.tmp`, or a file that has space set aside: header, gzip stream,
//!    trailer; syncs it; renames it; syncs the directory. Now the checkpoint counts.
//! 2. It removes older checkpoints, or lets one be the file with space for the next. A crash before
//!    that leaves two, of which the newer counts.
//! 3. The caller removes the log before the checkpoint: [`crate::logs::wal::Wal::remove_before`].
//! 4. [`open_latest`] finds the newest, verifies header and trailer, and removes what a crash left
//!    half written. The reader verifies the stream's checksum when it has read all of it:
//!    [`CheckpointReader::finish`].
//!
//! The bytes are drawn in `docs/format/checkpoint.md`.
//!
//! Longer than 600 lines: it is both sides of one format.

use pm::Escaped;
use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use pm::{File, Files};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::MAX_COUNTER;
use crate::logs::segments::Spare;
use crate::logs::stamp::stamped;
use crate::logs::wal::{LogStart, number_in};

const MAGIC: [u8; 8] = *b"PERDCKP\0";
const VERSION: u32 = 2;
const HEADER_BYTES: u64 = 32;
const TRAILER_BYTES: u64 = 40;
const BUFFER_BYTES: usize = 64 << 10;
const TEMPORARY: &str = ".tmp";

/// The header at the start of the file.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    version: U32,
    checksum: U32,
    sequence: U64,
    txn: U64,
}

/// The trailer at the end of the file.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct Trailer {
    sequence: U64,
    /// The first transaction of which nothing is in the checkpoint.
    end_txn: U64,
    plain_bytes: U64,
    compressed_bytes: U64,
    /// CRC-32C of all compressed bytes.
    compressed_checksum: U32,
    /// CRC-32C of the fields above.
    checksum: U32,
}

const _: () = assert!(size_of::<Header>() as u64 == HEADER_BYTES);
const _: () = assert!(std::mem::offset_of!(Header, checksum) == 12);
const _: () = assert!(std::mem::offset_of!(Header, sequence) == 16);
const _: () = assert!(size_of::<Trailer>() as u64 == TRAILER_BYTES);
const _: () = assert!(std::mem::offset_of!(Trailer, compressed_checksum) == 32);
const _: () = assert!(std::mem::offset_of!(Trailer, checksum) == 36);

impl Header {
    fn new(start: LogStart, stamp: u32) -> Self {
        let mut header = Self {
            magic: MAGIC,
            version: VERSION.into(),
            checksum: 0.into(),
            sequence: start.sequence.into(),
            txn: start.txn.into(),
        };
        header.checksum = header.sum(stamp).into();
        header
    }

    fn sum(mut self, stamp: u32) -> u32 {
        self.checksum = 0.into();
        stamped(crc32c::crc32c(self.as_bytes()), stamp)
    }
}

impl Trailer {
    fn sum(&self, stamp: u32) -> u32 {
        stamped(crc32c::crc32c(&self.as_bytes()[..36]), stamp)
    }
}

/// A checkpoint could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The kernel refused.
    #[error("cannot {doing} the checkpoint {name}: {source}", name = Escaped(.name), source = Escaped(.source))]
    Io {
        /// The thing that was tried.
        doing: &'static str,
        /// The checkpoint's file.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The newest checkpoint is not what was written.
    #[error("checkpoint {name} is damaged: {what}; restore a backup", name = Escaped(.name))]
    Damaged {
        /// The checkpoint's file.
        name: String,
        /// The fault.
        what: &'static str,
    },
    /// The checkpoint is of another version of the format.
    #[error("checkpoint {name} has format version {found}; this build reads version {VERSION}", name = Escaped(.name))]
    Version {
        /// The checkpoint's file.
        name: String,
        /// Its version.
        found: u32,
    },
}

/// Writes a checkpoint of the state that the log before `start` leads to, durably, and removes
/// older ones. `fill` writes the state; its writes are buffered. Returns the bytes of the file.
///
/// # Errors
/// An error of `fill`, or [`CheckpointError::Io`]. The older checkpoint and its log still count
/// then, and none of them may be removed; the new one may be there all the same.
pub fn write<F: Files, E: From<CheckpointError>>(
    files: &F,
    prefix: &str,
    start: LogStart,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<u64, E> {
    let mut writer = CheckpointWriter::create(files, prefix, start)?;
    fill(&mut writer)?;
    Ok(writer.finish(start.txn)?)
}

/// Removes the checkpoints before that of `sequence`, which do not count any more. If `spare` is given, there
/// is no file of that name, and the newest of them gets it: its space is set aside for the next
/// checkpoint.
///
/// # Errors
/// [`CheckpointError::Io`]: some are left.
pub fn supersede<F: Files>(
    files: &F,
    prefix: &str,
    sequence: u64,
    spare: Option<&str>,
) -> Result<(), CheckpointError> {
    let mut older = files.list().map_err(io_error("list the directory of", prefix))?;
    older.retain(|name| number_in(name, prefix).is_some_and(|number| number < sequence));
    if let Some(spare) = spare
        && let Some(name) = older.pop()
    {
        files.rename(&name, spare).map_err(io_error("rename", &name))?;
    }
    for name in older {
        files.remove(&name).map_err(io_error("remove", &name))?;
    }
    Ok(())
}

/// Returns the bytes that the file of a checkpoint of so many bytes of state has at most: what cannot be
/// compressed becomes a little longer.
pub fn most_bytes(plain_bytes: u64) -> u64 {
    HEADER_BYTES + TRAILER_BYTES + plain_bytes.saturating_add(plain_bytes / 64) + 256
}

/// A checkpoint that is being written. Dropping it gives it up, and removes its file unless that has
/// space set aside.
#[derive(Debug)]
pub struct CheckpointWriter<F: Files> {
    files: F,
    prefix: String,
    name: String,
    /// The name of the file until the checkpoint counts.
    temporary: String,
    /// True if the file has space set aside: it stays, whatever it says.
    in_spare: bool,
    start: LogStart,
    encoder: Option<GzEncoder<Sink<Arc<F::File>>>>,
    plain_bytes: u64,
}

impl<F: Files> CheckpointWriter<F> {
    /// Begins a checkpoint that needs the log from `start` on.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    pub fn create(files: &F, prefix: &str, start: LogStart) -> Result<Self, CheckpointError> {
        let name = format!("{prefix}{:016x}", start.sequence);
        let temporary = format!("{name}{TEMPORARY}");
        remove_if_there(files, &temporary).map_err(io_error("make room for", &name))?;
        let file = files.create(&temporary).map_err(io_error("create", &name))?;
        Self::begin(files, prefix, start, (Arc::new(file), temporary, false))
    }

    /// Begins a checkpoint in a file that has space set aside. It has its name until the checkpoint
    /// counts; then the checkpoint before gets that name.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    ///
    /// # Panics
    /// The file is missing.
    pub fn create_in(
        files: &F,
        prefix: &str,
        start: LogStart,
        spare: &Spare<F>,
    ) -> Result<Self, CheckpointError> {
        let file = spare.file().expect("the file has been made");
        Self::begin(files, prefix, start, (file.clone(), spare.name().into(), true))
    }

    fn begin(
        files: &F,
        prefix: &str,
        start: LogStart,
        (file, temporary, in_spare): (Arc<F::File>, String, bool),
    ) -> Result<Self, CheckpointError> {
        let mut writer = Self {
            files: files.clone(),
            prefix: prefix.into(),
            name: format!("{prefix}{:016x}", start.sequence),
            temporary,
            in_spare,
            start,
            encoder: None,
            plain_bytes: 0,
        };
        let mut sink = Sink { file, at: 0, sum: 0, buffer: Vec::with_capacity(BUFFER_BYTES) };
        let headed = sink
            .write_all(Header::new(start, files.stamp()).as_bytes())
            .and_then(|()| sink.flush());
        // The checksum is that of the stream alone.
        sink.sum = 0;
        writer.encoder = Some(GzEncoder::new(sink, Compression::fast()));
        headed.map_err(io_error("write", &writer.name))?;
        Ok(writer)
    }

    /// Returns from where on the log is needed.
    pub fn log_start(&self) -> LogStart {
        self.start
    }

    /// Bytes of the state that were written so far, uncompressed.
    pub fn plain_bytes(&self) -> u64 {
        self.plain_bytes
    }

    /// Bytes of the file so far.
    pub fn file_bytes(&self) -> u64 {
        self.encoder.as_ref().map_or(0, |encoder| encoder.get_ref().at)
    }

    /// Makes the checkpoint count, durably, and removes older ones. It holds nothing of the
    /// transactions from `end_txn` on, and what it holds of older ones is durable in the log.
    /// Returns the bytes of the file.
    ///
    /// # Errors
    /// [`CheckpointError::Io`], as for [`write()`].
    pub fn finish(mut self, end_txn: u64) -> Result<u64, CheckpointError> {
        let bytes = self.complete(end_txn)?;
        let io = |doing| io_error(doing, &self.name);
        self.files.rename(&self.temporary, &self.name).map_err(io("rename")).inspect_err(|_| {
            // As when it is dropped half-way.
            self.give_up();
        })?;
        self.files.sync_directory().map_err(io("sync the directory of"))?;
        let spare = self.in_spare.then_some(self.temporary.as_str());
        supersede(&self.files, &self.prefix, self.start.sequence, spare)?;
        Ok(bytes)
    }

    /// The file takes space and says nothing. Where this fails too, the next opening removes it.
    fn give_up(&self) {
        if !self.in_spare {
            let _ = self.files.remove(&self.temporary);
        }
    }

    /// Stream, trailer, sync.
    fn complete(&mut self, end_txn: u64) -> Result<u64, CheckpointError> {
        let io = |doing| io_error(doing, &self.name);
        let Some(mut encoder) = self.encoder.take() else { unreachable!("finished once") };
        let written = encoder.try_finish().and_then(|()| encoder.get_mut().flush());
        let sink = encoder.get_mut();
        let mut trailer = Trailer {
            sequence: self.start.sequence.into(),
            end_txn: end_txn.into(),
            plain_bytes: self.plain_bytes.into(),
            compressed_bytes: (sink.at - HEADER_BYTES).into(),
            compressed_checksum: sink.sum.into(),
            checksum: 0.into(),
        };
        trailer.checksum = trailer.sum(self.files.stamp()).into();
        let done = written
            .and_then(|()| sink.write_all(trailer.as_bytes()))
            .and_then(|()| sink.flush())
            .map_err(io("write"))
            // What was set aside and not needed.
            .and_then(|()| if self.in_spare { sink.cut().map_err(io("cut")) } else { Ok(()) })
            .and_then(|()| sink.file.sync().map_err(io("sync")));
        let bytes = sink.at;
        if done.is_err() {
            // Dropping what still has an encoder removes the file.
            self.encoder = Some(encoder);
        }
        done.map(|()| bytes)
    }
}

impl<F: Files> Write for CheckpointWriter<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(encoder) = &mut self.encoder else { unreachable!("not finished") };
        let written = encoder.write(bytes)?;
        self.plain_bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<F: Files> Drop for CheckpointWriter<F> {
    fn drop(&mut self) {
        if self.encoder.take().is_some() {
            self.give_up();
        }
    }
}

/// Writes to a file from front to back and sums up what it wrote.
#[derive(Debug)]
struct Sink<R> {
    file: R,
    at: u64,
    sum: u32,
    buffer: Vec<u8>,
}

impl<R: File> Sink<Arc<R>> {
    /// Lets the file end where writing has ended.
    fn cut(&self) -> io::Result<()> {
        if self.file.len()? > self.at { self.file.set_len(self.at) } else { Ok(()) }
    }
}

impl<R: File> Write for Sink<Arc<R>> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() == BUFFER_BYTES {
            self.flush()?;
        }
        let part = bytes.len().min(BUFFER_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..part]);
        Ok(part)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(self.at, &self.buffer)?;
        self.sum = crc32c::crc32c_append(self.sum, &self.buffer);
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Opens the newest checkpoint, if there is one, and removes half-written ones.
///
/// # Errors
/// [`CheckpointError::Damaged`] or [`CheckpointError::Version`] for the newest, whatever older
/// ones there are; [`CheckpointError::Io`].
pub fn open_latest<F: Files>(
    files: &F,
    prefix: &str,
) -> Result<Option<CheckpointReader<F::File>>, CheckpointError> {
    let mut newest: Option<(u64, String)> = None;
    for name in files.list().map_err(io_error("list the directory of", prefix))? {
        let half = name.strip_suffix(TEMPORARY).and_then(|name| number_in(name, prefix));
        if half.is_some() {
            files.remove(&name).map_err(io_error("remove", &name))?;
        } else if let Some(number) = number_in(&name, prefix)
            && newest.as_ref().is_none_or(|(newest, _)| number > *newest)
        {
            newest = Some((number, name));
        }
    }
    let Some((sequence, name)) = newest else { return Ok(None) };
    let file = files.open(&name).map_err(io_error("open", &name))?;
    verify(file, name, sequence, files.stamp()).map(Some)
}

fn verify<R: File>(
    file: R,
    name: String,
    sequence: u64,
    stamp: u32,
) -> Result<CheckpointReader<R>, CheckpointError> {
    let io = io_error("read", &name);
    let damaged = |what| CheckpointError::Damaged { name: name.clone(), what };
    let bytes = file.len().map_err(io_error("read", &name))?;
    if bytes < HEADER_BYTES + TRAILER_BYTES {
        return Err(damaged("it is too short"));
    }
    let mut header = [0; HEADER_BYTES as usize];
    let mut trailer = [0; TRAILER_BYTES as usize];
    file.read_at(0, &mut header)
        .and_then(|_| file.read_at(bytes - TRAILER_BYTES, &mut trailer))
        .map_err(io)?;
    let header: Header = zerocopy::transmute!(header);
    let trailer: Trailer = zerocopy::transmute!(trailer);
    if header.magic != MAGIC {
        return Err(damaged("it does not start as a checkpoint"));
    }
    if header.version.get() != VERSION {
        return Err(CheckpointError::Version { name, found: header.version.get() });
    }
    if header.checksum.get() != header.sum(stamp) {
        return Err(damaged(
            "the header's checksum is wrong: it is damaged, or the file is of another database",
        ));
    }
    if trailer.checksum.get() != trailer.sum(stamp) {
        return Err(damaged("the trailer's checksum is wrong, or the end is missing"));
    }
    if header.sequence.get() != sequence || trailer.sequence.get() != sequence {
        return Err(damaged("it is another checkpoint than its name says"));
    }
    if [sequence, header.txn.get(), trailer.end_txn.get()].iter().any(|&one| one > MAX_COUNTER) {
        return Err(damaged("it has a number out of range"));
    }
    let compressed_bytes = bytes - HEADER_BYTES - TRAILER_BYTES;
    if trailer.compressed_bytes.get() != compressed_bytes {
        return Err(damaged("its length is not the one in its trailer"));
    }
    let source = Source {
        file,
        at: HEADER_BYTES,
        end: HEADER_BYTES + compressed_bytes,
        sum: 0,
        buffer: Vec::with_capacity(BUFFER_BYTES),
        used: 0,
    };
    Ok(CheckpointReader {
        name,
        start: LogStart { sequence, txn: header.txn.get() },
        end_txn: trailer.end_txn.get(),
        decoder: GzDecoder::new(source),
        plain_bytes: trailer.plain_bytes.get(),
        read_bytes: 0,
        compressed_checksum: trailer.compressed_checksum.get(),
        bytes,
    })
}

/// The compressed bytes of a checkpoint, front to back.
#[derive(Debug)]
struct Source<R> {
    file: R,
    at: u64,
    end: u64,
    sum: u32,
    buffer: Vec<u8>,
    used: usize,
}

impl<R: File> BufRead for Source<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used == self.buffer.len() {
            let wanted = (self.end - self.at).min(BUFFER_BYTES as u64) as usize;
            self.buffer.resize(wanted, 0);
            self.used = 0;
            let filled = self.file.read_at(self.at, &mut self.buffer);
            self.buffer.truncate(*filled.as_ref().unwrap_or(&0));
            if filled? < wanted {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.sum = crc32c::crc32c_append(self.sum, &self.buffer);
            self.at += wanted as u64;
        }
        Ok(&self.buffer[self.used..])
    }

    fn consume(&mut self, bytes: usize) {
        self.used += bytes;
    }
}

impl<R: File> Read for Source<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let bytes = available.len().min(out.len());
        out[..bytes].copy_from_slice(&available[..bytes]);
        self.consume(bytes);
        Ok(bytes)
    }
}

/// Reads the state back, decompressed, with bounded memory.
///
/// At the end of the stream, `read` returns an error instead of 0 where the checksum or the length
/// is not that of the trailer. What was read counts only after [`CheckpointReader::finish`].
#[derive(Debug)]
pub struct CheckpointReader<R: File> {
    name: String,
    start: LogStart,
    end_txn: u64,
    decoder: GzDecoder<Source<R>>,
    plain_bytes: u64,
    read_bytes: u64,
    compressed_checksum: u32,
    bytes: u64,
}

impl<R: File> CheckpointReader<R> {
    /// Returns where the log goes on after this checkpoint.
    pub fn log_start(&self) -> LogStart {
        self.start
    }

    /// The first transaction of which certainly nothing is in the checkpoint. Those from
    /// [`Self::log_start`] up to it may be in it, wholly or in part.
    pub fn end_txn(&self) -> u64 {
        self.end_txn
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the state, uncompressed.
    pub fn plain_bytes(&self) -> u64 {
        self.plain_bytes
    }

    /// Verifies that the whole state was read and that it is what was written.
    ///
    /// # Errors
    /// [`CheckpointError::Damaged`]; also where the caller has left bytes unread.
    /// [`CheckpointError::Io`].
    pub fn finish(mut self) -> Result<(), CheckpointError> {
        let mut rest = [0];
        match self.read(&mut rest) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.damaged("it holds more than its reader expects")),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Returns what an error that `read` returned means.
    pub fn explain(&self, error: io::Error) -> CheckpointError {
        match error.kind() {
            io::ErrorKind::InvalidData
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::UnexpectedEof => {
                self.damaged("its compressed data do not give what was written")
            }
            _ => io_error("read", &self.name)(error),
        }
    }

    fn damaged(&self, what: &'static str) -> CheckpointError {
        CheckpointError::Damaged { name: self.name.clone(), what }
    }

    fn verify_end(&mut self) -> io::Result<()> {
        let source = self.decoder.get_mut();
        let unread = source.at != source.end || source.used != source.buffer.len();
        if unread || source.sum != self.compressed_checksum || self.read_bytes != self.plain_bytes {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                self.damaged("its checksum or its length is wrong"),
            ));
        }
        Ok(())
    }
}

impl<R: File> Read for CheckpointReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let bytes = self.decoder.read(out)?;
        self.read_bytes += bytes as u64;
        if bytes == 0 {
            self.verify_end()?;
        }
        Ok(bytes)
    }
}

fn remove_if_there<F: Files>(files: &F, name: &str) -> io::Result<()> {
    match files.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn io_error(doing: &'static str, name: &str) -> impl Fn(io::Error) -> CheckpointError + use<> {
    let name = name.to_string();
    move |source| CheckpointError::Io { doing, name: name.clone(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_that_of_the_format_description() {
        assert_eq!((HEADER_BYTES, TRAILER_BYTES, VERSION), (32, 40, 2));
        let header: [u8; 32] =
            zerocopy::transmute!(Header::new(LogStart { sequence: 2, txn: 3 }, 0));
        assert_eq!(&header[..12], b"PERDCKP\0\x02\0\0\0");
        assert_eq!((header[16], header[24]), (2, 3));
    }
}
