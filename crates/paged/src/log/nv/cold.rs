//! Cold log in a file (P2 5.1): records that nothing needs any more but an open transaction that may
//! be undone. So a transaction that stays open does not hold the ring.
//!
//! 1. A checkpoint that could move the head further, but for open transactions, appends their older
//!    records to the file and syncs it. Then the head moves.
//! 2. Undo reads from the file what the ring does not have any more.
//! 3. When no open transaction is as old as that, the file is cut off, with what a crash or a full
//!    medium has left there. So it is before records are appended, if those that are open have none
//!    in the file.
//!
//! ```text
//! 0        8         12      16
//! +--------+---------+-------+--------+--------+-- - - - -
//! | magic  | version | stamp | record | record |           as in the log, filled up to eight bytes
//! +--------+---------+-------+--------+--------+-- - - - -
//! ```
//! Records that a program that died before its sync has left here may lie in the caches alone, or partly on the
//! medium. So what is found counts by the log's head, which is moved after the sync:
//! - A record before the head, that an open transaction needs, is durable: the head has passed it.
//! - From the head on the ring has every record. The first such record, or the first that is not sound,
//!   is the end: what was appended last, without the head having moved, is appended again.
//! - A record before the head that is not needed any more may be of an attempt that failed, and not
//!   be durable. If others were appended after it and it then were lost, so would they be, as it
//!   would be the end. So the first to append writes anew all that was found, and makes the file's
//!   name durable. A crash in that is harmless: bytes are the same, or lie after the end.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;

use pm::{File, Files};

use super::super::Logged;
use super::super::record::{self, ALIGN, HEADER_BYTES};
use crate::ids::Lsn;
use crate::{PagedError, Result};

const MAGIC: [u8; 8] = *b"PERDNVCL";
const VERSION: u32 = 1;
const FILE_HEADER_BYTES: u64 = 16;

/// The cold records of a log.
pub(super) trait Cold: Send + Sync + Debug {
    /// Returns whether a record is there.
    fn has(&self, lsn: Lsn) -> bool;

    /// Adds records, durably; or returns why that cannot be, and has changed nothing.
    fn add(&mut self, records: &[Vec<u8>]) -> Result<Option<io::Error>>;

    /// Reads a record, if it is there.
    fn read(&self, lsn: Lsn) -> Result<Option<Logged>>;

    /// Forgets all records, and gives their space back.
    fn forget(&mut self) -> Result<()>;
}

/// Cold records in a file, which is created when there are some.
#[derive(Debug)]
pub(super) struct ColdFile<F: Files> {
    files: F,
    name: String,
    stamp: u32,
    file: Option<F::File>,
    /// The place of each record.
    places: BTreeMap<Lsn, u64>,
    end: u64,
    /// Bytes that the file may have: more than `end` after a crash, or an attempt that failed.
    longest: u64,
    /// The place up to which this program has made the file durable; zero before even its name is.
    synced: u64,
}

fn failed(source: io::Error) -> PagedError {
    PagedError::Io { doing: "keeping cold records of the log", source }
}

impl<F: Files> ColdFile<F> {
    /// Opens the file, if there is one. Of its records those before `kept` count: the ring has the others.
    pub(super) fn open(files: &F, name: String, stamp: u32, kept: Lsn) -> Result<Self> {
        let file = match files.open(&name) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let longest = file.as_ref().map_or(Ok(0), File::len).map_err(failed)?;
        let (files, places, end) = (files.clone(), BTreeMap::new(), FILE_HEADER_BYTES);
        let mut cold = Self { files, name, stamp, file, places, end, longest, synced: 0 };
        cold.find_records(kept)?;
        Ok(cold)
    }

    fn header(&self) -> [u8; FILE_HEADER_BYTES as usize] {
        let mut header = [0; FILE_HEADER_BYTES as usize];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12..].copy_from_slice(&self.stamp.to_le_bytes());
        header
    }

    fn find_records(&mut self, kept: Lsn) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut header = [0; FILE_HEADER_BYTES as usize];
        let read = file.read_at(0, &mut header).map_err(failed)?;
        let same = header.iter().zip(self.header()).take_while(|(one, own)| **one == *own).count();
        // Its creation was cut off, or had no space for all of the header.
        if read < header.len()
            || header[same..].iter().all(|byte| *byte == 0) && same < header.len()
        {
            return Ok(());
        }
        if same < header.len() {
            let what = "it belongs to another database, or has another format".into();
            return Err(PagedError::WrongLog { name: self.name.clone(), what });
        }
        while let Some((read, bytes)) = read_sound(file, self.end)?
            && read.placed.lsn < kept
        {
            self.places.insert(read.placed.lsn, self.end);
            self.end += bytes.len().next_multiple_of(ALIGN) as u64;
        }
        Ok(())
    }

    /// Creates the file if it is not there, and makes its name durable; or returns why that cannot be.
    fn make(&mut self) -> Result<Option<io::Error>> {
        if self.file.is_none() {
            match self.files.create(&self.name) {
                Ok(file) => self.file = Some(file),
                Err(error) => return Ok(Some(error)),
            }
        }
        // One that was found may have been created by a program that died before it could say so.
        if self.synced == 0 {
            self.files.sync_directory().map_err(failed)?;
        }
        Ok(None)
    }

    /// The bytes that were found in the file and are not known to be durable, and the place where it begins.
    fn found(&self) -> Result<(u64, Vec<u8>)> {
        let from = self.synced.max(FILE_HEADER_BYTES);
        let mut bytes = vec![0; (self.end - from) as usize];
        if let Some(file) = &self.file
            && file.read_at(from, &mut bytes).map_err(failed)? < bytes.len()
        {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok((from, bytes))
    }
}

/// The record at a place, if it is sound.
fn read_sound<R: File>(file: &R, at: u64) -> Result<Option<(record::Decoded, Vec<u8>)>> {
    let mut header = [0; HEADER_BYTES];
    if file.read_at(at, &mut header).map_err(failed)? < HEADER_BYTES {
        return Ok(None);
    }
    let length = record::bytes_of(&header);
    if length < HEADER_BYTES || at + length as u64 > file.len().map_err(failed)? {
        return Ok(None);
    }
    let mut bytes = vec![0; length];
    if file.read_at(at, &mut bytes).map_err(failed)? < length {
        return Ok(None);
    }
    Ok(record::decode(&bytes).map(|read| (read, bytes)))
}

impl<F: Files> Cold for ColdFile<F> {
    fn has(&self, lsn: Lsn) -> bool {
        self.places.contains_key(&lsn)
    }

    fn add(&mut self, records: &[Vec<u8>]) -> Result<Option<io::Error>> {
        let ((from, mut bytes), mut places) = (self.found()?, Vec::new());
        for one in records {
            let read = record::decode(one).expect("a record that the log has read");
            places.push((read.placed.lsn, from + bytes.len() as u64));
            bytes.extend_from_slice(one);
            bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
        }
        if let Some(error) = self.make()? {
            return Ok(Some(error));
        }
        let (file, end) = (self.file.as_ref().expect("there is one"), from + bytes.len() as u64);
        self.longest = self.longest.max(end);
        let written = file
            .reserve(end)
            .and_then(|()| file.write_at(0, &self.header()))
            .and_then(|()| file.write_at(from, &bytes));
        if let Err(error) = written {
            return Ok(Some(error));
        }
        file.sync().map_err(failed)?;
        self.places.extend(places);
        (self.end, self.synced) = (end, end);
        Ok(None)
    }

    fn read(&self, lsn: Lsn) -> Result<Option<Logged>> {
        let (Some(file), Some(at)) = (&self.file, self.places.get(&lsn)) else {
            return Ok(None);
        };
        let found = read_sound(file, *at)?;
        Ok(found.and_then(|(read, bytes)| read.logged(&bytes[HEADER_BYTES..])))
    }

    fn forget(&mut self) -> Result<()> {
        if let Some(file) = &self.file
            && self.longest > FILE_HEADER_BYTES
        {
            // After an attempt that got no space it is shorter, and would have to grow.
            if file.len().map_err(failed)? > FILE_HEADER_BYTES {
                file.set_len(FILE_HEADER_BYTES).map_err(failed)?;
            }
            self.places.clear();
            (self.end, self.longest) = (FILE_HEADER_BYTES, FILE_HEADER_BYTES);
            self.synced = self.synced.min(self.end);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sim::{DiskReplay, RecordingFiles};

    use super::super::super::{Kind, Record};
    use super::*;
    use crate::ids::TxNo;
    use record::Placed;

    fn one(lsn: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let (tx, prev) = (TxNo(lsn), Lsn::NONE);
        let placed = Placed { lsn: Lsn(lsn), tx, prev, mark: 0, sure: 0 };
        let change = Record { payload: &[lsn as u8; 600], ..Record::bare(Kind::Change) };
        record::encode(&mut bytes, &placed, &change, None);
        bytes
    }

    fn open(files: &RecordingFiles) -> ColdFile<RecordingFiles> {
        ColdFile::open(files, "cold".into(), 7, Lsn(9)).unwrap()
    }

    /// The sync of a record that is not needed any more has failed, in a program that then died; the next one adds
    /// another record after it.
    #[test]
    fn a_record_after_one_that_was_not_synced_is_durable() {
        let files = RecordingFiles::new();
        files.start();
        let mut cold = open(&files);
        assert!(cold.add(&[one(1)]).unwrap().is_none());
        // Three calls go before the sync.
        files.fail_once_after(3);
        let failed = cold.add(&[one(2)]);
        assert!(failed.is_err(), "{failed:?}");
        drop(cold);
        let mut cold = open(&files);
        assert!(cold.has(Lsn(2)));
        assert!(cold.add(&[one(3)]).unwrap().is_none());
        drop(cold);
        files.note(1);
        let trace = files.stop();
        let (mut replay, mut states) = (DiskReplay::new(&trace), 0);
        while let Some(point) = replay.next_point() {
            if point.last_note.is_some() {
                point.for_each_state(50, 1, |image| {
                    let cold = open(&RecordingFiles::from_image(image.clone()));
                    assert!(cold.read(Lsn(3)).unwrap().is_some());
                    states += 1;
                });
            }
        }
        assert!(states > 0);
    }
}
