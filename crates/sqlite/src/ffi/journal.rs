//! A rollback journal in memory, or in a file without a name. It serves only its own transaction; a crash loses it. If
//! SQLite appends the name of a super-journal, the name is published first.

use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::Arc;

use super::abi::device;
use super::log_file::OpenLog;
use crate::database::{
    Failure, JOURNAL_MAGIC, JournalBytes, LogFile, NAMED_BYTES, SuperJournalNotice, name_at_end,
};

/// A journal.
#[derive(Debug)]
pub(crate) struct Journal {
    bytes: JournalBytes,
    notice: Option<Arc<dyn SuperJournalNotice>>,
}

impl Journal {
    /// An empty journal.
    pub(crate) fn new(
        notice: Option<Arc<dyn SuperJournalNotice>>,
        folder: Option<PathBuf>,
    ) -> Self {
        Self { bytes: JournalBytes::new(folder), notice }
    }

    /// Ends the journal.
    fn end(&self) {
        if let Some(notice) = &self.notice {
            notice.clear();
        }
    }
}

impl OpenLog for Journal {
    const CHARACTERISTICS: c_int =
        device::POWERSAFE_OVERWRITE | device::SAFE_APPEND | device::SEQUENTIAL;

    fn close(self) {
        self.end();
    }
}

impl LogFile for Journal {
    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<usize, Failure> {
        self.bytes.read(at, out)
    }

    fn write(&mut self, at: u64, new: &[u8]) -> Result<(), Failure> {
        self.bytes.write(at, new)?;
        // The magic after a name is written last. A name that cannot be published is erased.
        if at > 0
            && let (Ok(magic), Some(notice)) = (<[u8; 8]>::try_from(new), &self.notice)
            && let Some(name) = super_journal(&self.bytes, at, magic)?
            && let Err(failure) = notice.publish(&name)
        {
            self.bytes.write(at, &[0; 8])?;
            return Err(failure);
        }
        Ok(())
    }

    fn truncate(&mut self, to: u64) -> Result<(), Failure> {
        self.bytes.truncate(to)?;
        if self.bytes.len() == 0 {
            self.end();
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn size(&mut self) -> Result<u64, Failure> {
        Ok(self.bytes.len())
    }
}

/// The name before the bytes at `at`, if these end a name.
fn super_journal(
    bytes: &JournalBytes,
    at: u64,
    magic: [u8; 8],
) -> Result<Option<Vec<u8>>, Failure> {
    if magic != JOURNAL_MAGIC {
        return Ok(None);
    }
    let end = at + magic.len() as u64;
    let mut last = vec![0; end.min(NAMED_BYTES as u64) as usize];
    bytes.read(end - last.len() as u64, &mut last)?;
    Ok(name_at_end(&last).map(<[u8]>::to_vec))
}
