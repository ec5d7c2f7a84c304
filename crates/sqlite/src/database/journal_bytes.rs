//! The bytes of a rollback journal that serves only its own transaction: in memory, or in a scratch file once there are
//! many.

use std::cell::Cell;
use std::path::PathBuf;

use pm::ScratchFile;

use crate::database::contract::Failure;

/// The most bytes in memory.
const MOST_IN_MEMORY: usize = 1 << 20;
/// The header that ends a journal which stays open, as in exclusive mode: nothing in it counts any more.
const ENDED: &[u8] = &[0; 28];
/// The largest buffer that a thread keeps for its next journal.
const MOST_SPARE: usize = 128 << 10;

thread_local! {
    /// A buffer of an earlier journal. SQLite makes a journal for each transaction.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A journal's bytes.
#[derive(Debug)]
pub(crate) struct JournalBytes {
    memory: Vec<u8>,
    /// Has all bytes, if there is one.
    file: Option<ScratchFile>,
    /// Bytes of the file.
    file_bytes: u64,
    folder: Option<PathBuf>,
}

impl JournalBytes {
    /// An empty journal. Without a folder for a scratch file all of it stays in memory.
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        let memory = SPARE.try_with(Cell::take).unwrap_or_default();
        Self { memory, file: None, file_bytes: 0, folder }
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> u64 {
        if self.file.is_some() { self.file_bytes } else { self.memory.len() as u64 }
    }

    /// Copies bytes from `at` on, zeros past the end; returns how many there are.
    ///
    /// # Errors
    /// The scratch file cannot be read.
    pub(crate) fn read(&self, at: u64, out: &mut [u8]) -> Result<usize, Failure> {
        let there = self.len().saturating_sub(at).min(out.len() as u64) as usize;
        let (wanted, rest) = out.split_at_mut(there);
        rest.fill(0);
        match &self.file {
            Some(file) => file.read(at, wanted)?,
            None if there > 0 => wanted.copy_from_slice(&self.memory[at as usize..][..there]),
            None => {}
        }
        Ok(there)
    }

    /// Writes bytes at `at`.
    ///
    /// # Errors
    /// There is no memory, or no room in the folder.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        if at == 0 && bytes == ENDED {
            return self.truncate(0);
        }
        let end = at + bytes.len() as u64;
        if end > MOST_IN_MEMORY as u64
            && self.file.is_none()
            && let Some(folder) = &self.folder
        {
            let file = ScratchFile::create(folder)?;
            file.write(0, &self.memory)?;
            self.file_bytes = self.memory.len() as u64;
            self.file = Some(file);
            self.memory = Vec::new();
        }
        if let Some(file) = &self.file {
            file.write(at, bytes)?;
            self.file_bytes = self.file_bytes.max(end);
            return Ok(());
        }
        let (at, end) = (at as usize, end as usize);
        if end > self.memory.len() {
            let there = self.memory.len();
            self.memory.try_reserve(end - there).map_err(|_| Failure::Memory)?;
            if at == there {
                self.memory.extend_from_slice(bytes);
                return Ok(());
            }
            self.memory.resize(end, 0);
        }
        self.memory[at..end].copy_from_slice(bytes);
        Ok(())
    }

    /// Truncates it; it does not grow.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn truncate(&mut self, to: u64) -> Result<(), Failure> {
        let to = to.min(self.len());
        if to == 0 {
            self.memory.clear();
            (self.file, self.file_bytes) = (None, 0);
        } else if let Some(file) = &self.file {
            file.cut(to)?;
            self.file_bytes = to;
        } else {
            self.memory.truncate(to as usize);
        }
        Ok(())
    }
}

impl Drop for JournalBytes {
    fn drop(&mut self) {
        let mut memory = std::mem::take(&mut self.memory);
        if memory.capacity() <= MOST_SPARE {
            memory.clear();
            let _ = SPARE.try_with(|spare| spare.set(memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A large transaction does not keep the journals of later ones in a file.
    #[test]
    fn zeroed_header_ends_a_journal() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut journal = JournalBytes::new(Some(folder.path().to_owned()));
        journal.write(0, &[1; 512]).unwrap();
        journal.write(512, &vec![2; MOST_IN_MEMORY]).unwrap();
        assert!(journal.file.is_some());
        journal.write(0, &[0; 27]).unwrap();
        assert!(journal.file.is_some(), "some other bytes");
        journal.write(0, ENDED).unwrap();
        assert!(journal.file.is_none() && journal.len() == 0);
        journal.write(0, &[3; 512]).unwrap();
        journal.write(512, &[4; 9]).unwrap();
        let mut found = [0; 600];
        assert_eq!(journal.read(0, &mut found).unwrap(), 521);
        assert_eq!((found[511], found[512], found[521]), (3, 4, 0));
    }

    #[test]
    fn journal_is_the_same_in_memory_and_in_a_file() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut journals = [None, Some(folder.path().to_owned())].map(JournalBytes::new);
        let text: Vec<u8> = (0..3 << 20).map(|at: u32| (at % 251) as u8).collect();
        let read = |journal: &JournalBytes, at: u64, len: usize| {
            let mut out = vec![7; len];
            let there = journal.read(at, &mut out).unwrap();
            (there, out)
        };
        for (at, len) in [(0, 12), (8, 700_000), (700_008, 900_000), (2 << 20, 4096), (3, 9)] {
            journals.iter_mut().for_each(|journal| journal.write(at, &text[..len]).unwrap());
            for (from, len) in [(0, 20), (699_990, 40), (1_600_000, 600_000), (9 << 20, 5)] {
                assert_eq!(read(&journals[0], from, len), read(&journals[1], from, len));
            }
        }
        assert_eq!((journals[0].file.is_some(), journals[1].file.is_some()), (false, true));
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "it has no name");
        for to in [9 << 20, 1_500_000, 10, 0] {
            journals.iter_mut().for_each(|journal| journal.truncate(to).unwrap());
            assert_eq!(journals[0].len(), journals[1].len());
            assert_eq!(read(&journals[0], 0, 20), read(&journals[1], 0, 20));
        }
    }
}
