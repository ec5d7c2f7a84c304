//! The note of an archive, in a file next to the log: the segment up to which the log's own files
//! know their archive. `docs/format/log-archive.md` draws it.
//!
//! Invariants:
//! - A log with a note is truncated up to the place that is noted, and never past it. So the log
//!   has all that the archive has after that place, and the two can be compared.
//! - A log whose archive was ended has none.
//! - The note is one sector, which a medium writes whole.

use std::io::Write as _;

use pm::{File, Files, NewFile};

use super::{Joint, io, wrong};
use crate::Result;
use crate::ids::Lsn;

/// The end of the name of its file.
const NAME: &str = "archive";
const BYTES: usize = 512;
const MAGIC: &[u8; 8] = b"PERDNOTE";
const VERSION: u32 = 1;
/// The place of the name of the directory, before which stands its length.
const DIRECTORY: usize = 50;

/// The note of an archive; see the module's comment.
#[derive(Debug)]
pub struct Note<N: Files> {
    files: N,
    file: N::File,
    /// The name of its file.
    name: String,
    stamp: u64,
    joint: Joint,
    /// The archive's name.
    directory: String,
    /// This program has made it durable, with its name.
    is_durable: bool,
}

impl<N: Files> Note<N> {
    /// Reads the note of a log whose files have names that begin with `prefix`, if it has an
    /// archive.
    ///
    /// # Errors
    /// It is damaged, or of another database, or the medium refuses.
    pub fn open(files: &N, prefix: &str, stamp: u64) -> Result<Option<Self>> {
        let name = format!("{prefix}{NAME}");
        if !files.is_taken(&name).map_err(io("looking for the note of the archive"))? {
            return Ok(None);
        }
        let file = files.open(&name).map_err(io("opening the note of the archive"))?;
        let mut bytes = [0; BYTES];
        let read = file.read_at(0, &mut bytes).map_err(io("reading the note of the archive"))?;
        let advice =
            "remove that file, which ends the archive, and begin another one with a base backup";
        let damaged = |what: &str| wrong(format!("its note, {name}, {what}; {advice}"));
        let (found, joint, directory) =
            decode(&bytes[..read]).ok_or_else(|| damaged("is damaged"))?;
        if found != stamp {
            return Err(damaged("is of another database"));
        }
        let files = files.clone();
        Ok(Some(Self { files, file, name, stamp, joint, directory, is_durable: false }))
    }

    /// Makes the note of a log whose archive, called `directory`, begins now, durably.
    ///
    /// # Errors
    /// The medium refuses.
    pub(crate) fn create(
        files: &N,
        prefix: &str,
        (stamp, joint): (u64, Joint),
        directory: &str,
    ) -> Result<Self> {
        let failed = io("noting the archive");
        let name = format!("{prefix}{NAME}");
        let unfinished = files.unfinished_name(&name);
        // Nothing else makes files here.
        if files.is_taken(&unfinished).map_err(&failed)? {
            files.remove(&unfinished).map_err(&failed)?;
        }
        let mut new = NewFile::create(files, &name, MAGIC).map_err(&failed)?;
        new.write_all(&encode(stamp, joint, directory)).map_err(&failed)?;
        new.finish().map_err(&failed)?;
        let file = files.open(&name).map_err(&failed)?;
        let directory = directory.to_owned();
        let files = files.clone();
        Ok(Self { files, file, name, stamp, joint, directory, is_durable: true })
    }

    /// The segment that is noted.
    pub fn joint(&self) -> Joint {
        self.joint
    }

    /// The archive's name when it was last open.
    pub fn directory(&self) -> &str {
        &self.directory
    }

    /// Notes a segment, durably.
    pub(crate) fn set(&mut self, joint: Joint, directory: &str) -> Result<()> {
        if self.is_durable && (self.joint, &*self.directory) == (joint, directory) {
            return Ok(());
        }
        let failed = io("noting the archive");
        self.file.write_at(0, &encode(self.stamp, joint, directory)).map_err(&failed)?;
        self.file.sync().map_err(&failed)?;
        if !self.is_durable {
            self.files.sync_directory().map_err(&failed)?;
        }
        (self.joint, self.is_durable) = (joint, true);
        if self.directory != directory {
            self.directory = directory.into();
        }
        Ok(())
    }

    /// Makes durable what was found: a program that died may have left it in the caches alone.
    pub(crate) fn settle(&mut self) -> Result<()> {
        let directory = self.directory.clone();
        self.set(self.joint, &directory)
    }

    /// Removes it, durably: the log has no archive any more.
    pub(crate) fn end(&self) -> Result<()> {
        let failed = io("removing the note of the archive");
        self.files.remove(&self.name).map_err(&failed)?;
        self.files.sync_directory().map_err(&failed)
    }
}

fn encode(stamp: u64, joint: Joint, directory: &str) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    for (word, at) in [stamp, joint.number, joint.id, joint.to.0].iter().zip([16, 24, 32, 40]) {
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    let mut shown = directory.len().min(BYTES - DIRECTORY);
    while !directory.is_char_boundary(shown) {
        shown -= 1;
    }
    bytes[DIRECTORY - 2..DIRECTORY].copy_from_slice(&(shown as u16).to_le_bytes());
    bytes[DIRECTORY..DIRECTORY + shown].copy_from_slice(&directory.as_bytes()[..shown]);
    let crc = crc32c::crc32c(&bytes);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<(u64, Joint, String)> {
    let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
    let mut summed = *bytes;
    summed[12..16].fill(0);
    let crc = crc32c::crc32c(&summed).to_le_bytes();
    if &bytes[..8] != MAGIC || bytes[8..12] != VERSION.to_le_bytes() || bytes[12..16] != crc {
        return None;
    }
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let shown = u16::from_le_bytes([bytes[DIRECTORY - 2], bytes[DIRECTORY - 1]]);
    let directory = bytes.get(DIRECTORY..DIRECTORY + usize::from(shown))?;
    let joint = Joint { number: word(24), id: word(32), to: Lsn(word(40)) };
    Some((word(16), joint, String::from_utf8_lossy(directory).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_no_flipped_bit_passes() {
        let joint = Joint { number: 3, id: 4, to: Lsn(5) };
        let bytes = encode(2, joint, "/an/archive");
        assert_eq!(decode(&bytes), Some((2, joint, "/an/archive".into())));
        assert_eq!(&bytes[..12], b"PERDNOTE\x01\0\0\0");
        assert_eq!((bytes[16], bytes[24], bytes[32], bytes[40], bytes[48]), (2, 3, 4, 5, 11));
        for bit in 0..BYTES * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bytes), None, "bit {bit}");
        }
        assert_eq!(decode(&bytes[..511]), None);
        // A longer name is cut off where a letter ends.
        let long = "\u{e9}".repeat(300);
        assert_eq!(decode(&encode(2, joint, &long)).expect("whole").2, "\u{e9}".repeat(231));
    }
}
