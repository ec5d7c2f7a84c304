//! The directory around one path: for a file that gets its name when it is whole.

use std::io;
use std::path::Path;

use rustix::fs::OFlags;

use super::host::HostFiles;
use super::host_file::HostFile;
use super::{File, Files};
use crate::bytes::Bytes;
use crate::counters::Counters;
use crate::place::{Named, Place};
use crate::pool::registry::Registered;
use crate::unfinished::{Unfinished, lock, sweep};

/// The directory that a path lies in, as far as the files are concerned whose names begin as the path
/// ends. Clones share it. A sync there is one of the kernel's, whatever the medium.
#[derive(Clone, Debug)]
pub struct AroundPath {
    directory: HostFiles,
    place: Place,
    /// The path's last part, as text: what the file itself is called here. It need not be text.
    name: String,
}

/// A file there. Whoever creates one keeps everybody else out as long as it is open.
#[derive(Debug)]
pub struct AroundFile {
    file: HostFile,
    _lock: Option<Registered>,
}

impl AroundPath {
    /// The directory that `path` lies in, and what the file of this path is called in it.
    ///
    /// # Errors
    /// The path ends with no name, or there is no such directory.
    pub fn of(path: &Path) -> io::Result<(Self, String)> {
        let ends_with_name = !path.as_os_str().as_encoded_bytes().ends_with(b"/");
        let Some(name) = path.file_name().filter(|_| ends_with_name) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "is no name for a file"));
        };
        let name = name.to_string_lossy().into_owned();
        let place = Place::of(path)?;
        let directory = HostFiles::directory_of(path)?;
        Ok((Self { directory, place, name: name.clone() }, name))
    }

    /// The place of a name.
    fn at(&self, name: &str) -> io::Result<Place> {
        match name.strip_prefix(&self.name) {
            Some("") => Ok(self.place.clone()),
            Some(suffix) if !suffix.contains('/') => Ok(self.place.beside(suffix)),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "is a name elsewhere")),
        }
    }
}

impl Files for AroundPath {
    type File = AroundFile;

    fn create(&self, name: &str) -> io::Result<AroundFile> {
        let file = self.directory.host_file(self.at(name)?.create_file()?);
        Ok(AroundFile { file, _lock: None })
    }

    fn create_unfinished(&self, name: &str) -> io::Result<(AroundFile, Option<Unfinished>)> {
        let place = self.at(name)?;
        sweep(&place, 0, None).map_err(|left| left.into_io(&place.path().display().to_string()))?;
        let make = || {
            let file = place.create_file()?;
            let named = Named::of(&place, &file)?;
            Ok::<_, io::Error>((file, [Some(named), None]))
        };
        let (unfinished, file) = Unfinished::begin(make)?;
        let lock = Some(lock(&place, &file)?);
        Ok((AroundFile { file: self.directory.host_file(file), _lock: lock }, Some(unfinished)))
    }

    fn open(&self, name: &str) -> io::Result<AroundFile> {
        let file = self.at(name)?.open(OFlags::RDWR)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(AroundFile { file: self.directory.host_file(file), _lock: None })
    }

    fn is_taken(&self, name: &str) -> io::Result<bool> {
        self.at(name)?.is_taken()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.directory.list()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let place = self.at(name)?;
        place.remove(&place.hold()?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.rename_new(from, to)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        let from = self.at(from)?;
        from.rename_new(&from.hold()?, &self.at(to)?)
    }

    fn leads_to(&self, name: &str, file: &AroundFile) -> io::Result<bool> {
        self.at(name)?.leads_to(file.file.host())
    }

    fn mark(&self, name: &str) -> io::Result<[u8; crate::unfinished::MARK_BYTES]> {
        Ok(crate::unfinished::mark(self.at(name)?.name()))
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.directory.sync_directory()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.directory.sync_directory()
    }

    fn counters(&self) -> Counters {
        self.directory.counters()
    }

    fn count(&self, on: bool) {
        self.directory.count(on);
    }
}

impl File for AroundFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.file.reserve(bytes)
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(at, out)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(at, bytes)
    }

    fn write_bytes(&self, at: u64, bytes: Bytes<'_>) -> io::Result<()> {
        self.file.write_bytes(at, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}
