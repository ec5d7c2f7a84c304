//! The directory around one path: for a file that gets its name when it is whole.

use std::io;
use std::path::Path;

use rustix::fs::OFlags;

use super::host::HostFiles;
use super::host_file::HostFile;
use super::{File, Files};
use crate::bytes::Bytes;
use crate::counters::Counters;
use crate::frame::FrameBytes;
use crate::names::{UNFINISHED, WHOLE};
use crate::place::{Named, Place};
use crate::registry::Registered;
use crate::unfinished::{Left, Unfinished, create, sweep};

/// The directory that a path lies in, as far as the files are concerned whose names begin as the path
/// ends. Clones share it. A sync there is one of the kernel's, whatever the medium.
#[derive(Clone, Debug)]
pub struct AroundPath {
    directory: HostFiles,
    place: Place,
    /// The path's last part, as text: what the file itself is called here. It need not be text.
    name: String,
}

/// A file there. One that was created here is locked against all others as long as it is open.
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
            Some(suffix) if !suffix.contains('/') => Ok(self.place.with_suffix(suffix)),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "is a name elsewhere")),
        }
    }
}

/// The name of a file that has all its contents, by its name until then.
fn whole_name(unfinished: &str) -> String {
    format!("{}{WHOLE}", unfinished.strip_suffix(UNFINISHED).unwrap_or(unfinished))
}

impl Files for AroundPath {
    type File = AroundFile;

    fn create(&self, name: &str) -> io::Result<AroundFile> {
        let file = self.directory.host_file(self.at(name)?.create_file()?);
        Ok(AroundFile { file, _lock: None })
    }

    fn unfinished_name(&self, name: &str) -> String {
        format!("{name}{UNFINISHED}")
    }

    fn make_whole(&self, name: &str, unfinished: Option<&Unfinished>) -> io::Result<String> {
        let whole = whole_name(&self.unfinished_name(name));
        if let Some(unfinished) = unfinished {
            unfinished.rename(self.at(&whole)?)?;
            // Otherwise a power cut could leave the contents under the name that it had before.
            self.sync_directory()?;
        }
        Ok(whole)
    }

    fn create_unfinished(
        &self,
        name: &str,
        begins: &[u8],
    ) -> io::Result<(AroundFile, Option<Unfinished>)> {
        let (place, whole) = (self.at(name)?, self.at(&whole_name(name))?);
        let make = || {
            let (file, lock) = create(&place, &mut |_| Ok(()))?;
            let named = Named::of(&place, &file).inspect_err(|_| drop(place.remove(&file)))?;
            Ok(((file, lock), Some(named)))
        };
        let begun = Unfinished::begin(make);
        let failed = |place: &Place| {
            let path = place.path().display().to_string();
            move |left: Left| left.into_io(&path)
        };
        let (unfinished, (file, lock)) = begun.map_err(failed(&place))?;
        sweep(&whole, Some((&place, begins)), &mut |_| Ok(())).map_err(failed(&whole))?;
        let file = AroundFile { file: self.directory.host_file(file), _lock: Some(lock) };
        Ok((file, Some(unfinished)))
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

    fn read_frame(&self, at: u64, frame: &mut FrameBytes) -> io::Result<usize> {
        self.file.read_frame(at, frame)
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
