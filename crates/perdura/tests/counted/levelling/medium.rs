//! The media that databases of these tests lie on: the host's files, and emulated memory, which
//! counts every access.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use emulated::Nvm;
use perdura::{Database, Error, Native, Options, Schema};
use pm::Environment;
use sim::{Emulation, Meter, MeterOptions};

/// Addresses of the pool, and of the files.
const LIMIT: u64 = 1 << 30;

/// A medium with one database.
pub(crate) trait Medium: Sized {
    type Memories: Environment;
    /// True if the database lies in files of the host.
    const ON_HOST: bool;

    fn new() -> Self;

    fn create(&self, schema: &Schema, options: &Options)
    -> Result<Database<Self::Memories>, Error>;

    fn open(&self, options: &Options) -> Result<Database<Self::Memories>, Error>;

    /// Calls `note` with the name and the bytes of each file.
    fn files(&self, note: &mut dyn FnMut(&str, u64)) -> io::Result<()>;

    /// Calls `note` with whatever else the medium can count between two operations.
    fn other(
        &self,
        db: &Database<Self::Memories>,
        note: &mut dyn FnMut(&str, u64),
    ) -> Result<(), Error>;

    /// The accesses to memory so far.
    fn accesses(&self) -> u64;
}

/// Files of the host, in memory if that can be.
pub(crate) struct OnHost {
    directory: tempfile::TempDir,
}

impl OnHost {
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("db")
    }
}

/// Visits the files of a directory, and of those in it.
fn visit(directory: &Path, note: &mut dyn FnMut(&str, u64)) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let about = entry.metadata()?;
        if about.is_dir() {
            visit(&entry.path(), note)?;
        } else {
            note(&entry.file_name().to_string_lossy(), about.len());
        }
    }
    Ok(())
}

impl Medium for OnHost {
    type Memories = Native;
    const ON_HOST: bool = true;

    fn new() -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self { directory: directory.unwrap() }
    }

    fn create(&self, schema: &Schema, options: &Options) -> Result<Database, Error> {
        Database::create(self.path(), schema, options)
    }

    fn open(&self, options: &Options) -> Result<Database, Error> {
        Database::open(self.path(), options)
    }

    fn files(&self, note: &mut dyn FnMut(&str, u64)) -> io::Result<()> {
        visit(self.directory.path(), note)
    }

    /// Bytes on the medium, and what the process has open and mapped of the database.
    fn other(&self, db: &Database, note: &mut dyn FnMut(&str, u64)) -> Result<(), Error> {
        note("bytes on the medium", db.stored_bytes()?);
        let own = self.directory.path();
        let descriptors = fs::read_dir("/proc/self/fd").map_err(Error::user)?;
        // A descriptor of another thread may be closed before it is looked at.
        let open = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        note("descriptors", open.filter(|path| path.starts_with(own)).count() as u64);
        let maps = fs::read_to_string("/proc/self/maps").map_err(Error::user)?;
        let own = own.to_string_lossy();
        note("mappings", maps.lines().filter(|line| line.contains(&*own)).count() as u64);
        Ok(())
    }

    fn accesses(&self) -> u64 {
        0
    }
}

/// Emulated memory, and files in it.
pub(crate) struct InEmulation {
    meter: Meter,
    nvm: Nvm,
}

impl Medium for InEmulation {
    type Memories = Emulation;
    const ON_HOST: bool = false;

    fn new() -> Self {
        // Accesses count, whether the cache has them or not.
        let meter = Meter::new(MeterOptions { cache_bytes: 64 << 10, ..MeterOptions::default() });
        let nvm = Nvm::new(&meter, LIMIT).unwrap();
        Self { meter, nvm }
    }

    fn create(&self, schema: &Schema, options: &Options) -> Result<Database<Emulation>, Error> {
        self.nvm.create(schema, options)
    }

    fn open(&self, options: &Options) -> Result<Database<Emulation>, Error> {
        self.nvm.open(options)
    }

    fn files(&self, note: &mut dyn FnMut(&str, u64)) -> io::Result<()> {
        self.nvm.for_each_file(note)
    }

    fn other(
        &self,
        _db: &Database<Emulation>,
        _note: &mut dyn FnMut(&str, u64),
    ) -> Result<(), Error> {
        Ok(())
    }

    fn accesses(&self) -> u64 {
        self.meter.counts().accesses
    }
}
