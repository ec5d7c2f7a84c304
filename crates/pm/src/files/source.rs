//! A file of the host that is only read.

use std::fs;
use std::io::{self, Read, Seek};
use std::path::Path;

/// A file that is only read, from front to back.
#[derive(Debug)]
pub struct Source {
    file: fs::File,
    bytes: u64,
}

impl Source {
    /// Opens a regular file.
    ///
    /// # Errors
    /// There is none, it is something else, or the kernel refuses.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Not only afterwards: opening a FIFO would wait for its other end.
        let regular = |meta: &fs::Metadata| {
            let error = || io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file");
            if meta.is_file() { Ok(()) } else { Err(error()) }
        };
        regular(&fs::metadata(path)?)?;
        let file = fs::File::open(path)?;
        let meta = file.metadata()?;
        regular(&meta)?;
        Ok(Self { file, bytes: meta.len() })
    }

    /// Bytes in the file when it was opened.
    pub fn total_bytes(&self) -> u64 {
        self.bytes
    }

    /// Goes back to the front.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn rewind(&mut self) -> io::Result<()> {
        self.file.rewind()
    }
}

impl Read for Source {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.file.read(out)
    }
}

// An interpreter opens no directories.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_regular_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        fs::write(&path, "contents").unwrap();
        let mut source = Source::open(&path).unwrap();
        assert_eq!(source.total_bytes(), 8);
        for _ in 0..2 {
            let mut read = String::new();
            source.read_to_string(&mut read).unwrap();
            assert_eq!(read, "contents");
            source.rewind().unwrap();
        }
        for wrong in [place.path(), Path::new("/dev/zero"), &place.path().join("missing")] {
            assert!(Source::open(wrong).is_err(), "{}", wrong.display());
        }
    }
}
