//! A file that has space and says nothing: kept ready to become another file, which then finds its
//! space on a medium that is full.

use std::io;
use std::sync::Arc;

use pm::Files;

use super::{Segment, is_full};

/// Less is not worth a call.
const LEAST_GROWTH_BYTES: u64 = 512;

/// A file with space for a file to come, or the name of one that is still to be made.
#[derive(Debug)]
pub struct Spare<F: Files> {
    files: F,
    name: String,
    segment: Option<Segment<F::File>>,
}

impl<F: Files> Spare<F> {
    /// Opens the file of this name with the space that it has. There need be none.
    ///
    /// # Errors
    /// The medium refuses.
    pub fn open(files: F, name: String) -> io::Result<Self> {
        let mut spare = Self::missing(files, name);
        spare.reopen()?;
        Ok(spare)
    }

    /// A file that is still to be made.
    pub fn missing(files: F, name: String) -> Self {
        Self { files, name, segment: None }
    }

    /// Looks for the file of its name again, with a handle of its own.
    ///
    /// # Errors
    /// As [`Self::open`]; it counts as missing then.
    pub fn reopen(&mut self) -> io::Result<()> {
        self.segment = None;
        match Segment::open(&self.files, &self.name) {
            Ok(segment) => {
                // A process that may not change them leaves them as they are.
                let _ = self.files.give_access(segment.file());
                self.segment = Some(segment);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file, if it has been made.
    pub fn file(&self) -> Option<&Arc<F::File>> {
        self.segment.as_ref().map(Segment::file)
    }

    /// Bytes for which it has space.
    pub fn reserved(&self) -> u64 {
        self.segment.as_ref().map_or(0, Segment::reserved)
    }

    /// Sees to it that it has space for `least` bytes, and for `wanted` if the medium has room. Makes
    /// the file if it is missing.
    ///
    /// # Errors
    /// The medium refuses: it has the space that it had.
    #[track_caller]
    pub fn reserve(&mut self, least: u64, wanted: u64) -> io::Result<()> {
        if self.reserved() >= wanted.max(least) {
            return Ok(());
        }
        let segment = match &mut self.segment {
            Some(segment) => segment,
            missing => missing.insert(match Segment::create(&self.files, &self.name) {
                // One that an attempt has left which failed or was cut off.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    Segment::open(&self.files, &self.name)?
                }
                made => made?,
            }),
        };
        match segment.reserve(wanted.max(least), 0, u64::MAX) {
            Err(error) if is_full(&error) => segment.reserve(least, 0, u64::MAX),
            done => done,
        }
    }

    /// Takes as much space up to `wanted` bytes as the medium has.
    #[track_caller]
    pub fn grow(&mut self, wanted: u64) {
        let mut step = wanted.saturating_sub(self.reserved());
        while self.reserved() < wanted && step >= LEAST_GROWTH_BYTES {
            let to = wanted.min(self.reserved() + step);
            if self.reserve(to, to).is_err() {
                step /= 2;
            }
        }
    }

    /// Returns the space after `to` to the medium.
    ///
    /// # Errors
    /// The medium refuses: it has the space that it had.
    #[track_caller]
    pub fn cut(&mut self, to: u64) -> io::Result<()> {
        match &mut self.segment {
            Some(segment) => segment.cut(to),
            None => Ok(()),
        }
    }

    /// Gives the file another name, and returns it with its space. The name is durable after the next
    /// sync of the directory.
    ///
    /// # Errors
    /// The medium refuses: it keeps its name.
    ///
    /// # Panics
    /// The file is missing.
    #[track_caller]
    pub fn take(&mut self, name: &str) -> io::Result<Segment<F::File>> {
        assert!(self.segment.is_some(), "the file has been made");
        self.files.rename(&self.name, name)?;
        Ok(self.segment.take().expect("the file has been made"))
    }

    /// As [`Self::take`], with space for `bytes` bytes; what is more goes to a new file of its own name.
    ///
    /// # Errors
    /// The medium refuses: the file has one of the two names.
    ///
    /// # Panics
    /// The file is missing.
    #[track_caller]
    pub fn take_part(&mut self, name: &str, bytes: u64) -> io::Result<Segment<F::File>> {
        let mut segment = self.take(name)?;
        let rest = segment.reserved().saturating_sub(bytes);
        if rest > 0 {
            segment.cut(bytes)?;
            self.grow(rest);
        }
        Ok(segment)
    }
}

#[cfg(test)]
mod tests {
    use sim::RecordingFiles;

    use super::*;

    #[test]
    fn a_spare_gives_its_space_to_another_file() {
        let files = RecordingFiles::new();
        files.limit(Some(5000));
        let mut spare = Spare::open(files.clone(), "spare".into()).expect("there is none");
        assert_eq!(spare.reserved(), 0);
        spare.reserve(1000, 1 << 20).expect("so much there is");
        assert_eq!(spare.reserved(), 1000);
        spare.reserve(4000, 4000).expect("so much there is");
        spare.cut(4000).expect("it has that");
        assert!(is_full(&spare.reserve(6000, 7000).expect_err("and no more")));
        let mut again = Spare::open(files.clone(), "spare".into()).expect("it is there");
        assert_eq!(again.reserved(), 4000);
        let taken = again.take("other").expect("renamed");
        assert_eq!((taken.reserved(), again.reserved()), (4000, 0));
        assert_eq!(files.list().expect("read"), ["other"]);
        again.grow(1 << 20);
        assert!((500..=1000).contains(&again.reserved()), "{}", again.reserved());
        files.remove("other").expect("removed");
        again.grow(5000);
        let taken = again.take_part("other", 3500).expect("renamed");
        assert_eq!((taken.reserved(), again.reserved()), (3500, 1500));
        assert_eq!(files.list().expect("read"), ["other", "spare"]);
    }
}
