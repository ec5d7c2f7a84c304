//! A database in emulated non-volatile memory.
//!
//! The engines are compiled for that memory here alone: the laboratory and the tests that count
//! accesses share them.

#![forbid(unsafe_code)]

use std::io;

use perdura::{Database, Engines, Error, Media, Options, Schema};
use pm::{Dram, File as _, Files as _, Memory as _};
use sim::{Arena, Emulated, Emulation, MemoryFiles, Meter};

/// Bytes that a pool starts with, as one that [`Database::create`] makes.
const INITIAL_BYTES: u64 = 64 << 10;
/// Bytes of addresses reserved for the volatile memory of a partition.
const VOLATILE_BYTES: u64 = 1 << 38;

/// The emulated memory of one database: what stays when it is closed or killed, until the process
/// ends. Clones share it.
#[derive(Clone, Debug)]
pub struct Nvm {
    meter: Meter,
    durable: Emulated<Arena>,
    files: MemoryFiles<Emulated<Arena>>,
}

impl Nvm {
    /// Empty memory in which pool and files can grow to `limit` bytes each. Only what is touched
    /// costs anything.
    ///
    /// # Errors
    /// The kernel has no room for the reservation.
    pub fn new(meter: &Meter, limit: u64) -> io::Result<Self> {
        Ok(Self {
            meter: meter.clone(),
            durable: Emulated::new(Arena::new(INITIAL_BYTES, limit)?, meter),
            files: MemoryFiles::emulated(meter, limit)?,
        })
    }

    /// Creates a database in it.
    ///
    /// # Errors
    /// As [`Database::create`].
    pub fn create(&self, schema: &Schema, options: &Options) -> Result<Database<Emulation>, Error> {
        Database::create_on(self.media(), schema, options)
    }

    /// Opens the database in it, and recovers it if it was abandoned. Its volatile memory is new.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open(&self, options: &Options) -> Result<Database<Emulation>, Error> {
        Database::open_on(self.media(), options)
    }

    /// Calls `note` with the name and the bytes of the pool and of each file.
    ///
    /// # Errors
    /// A file that is listed cannot be opened.
    pub fn for_each_file(&self, note: &mut dyn FnMut(&str, u64)) -> io::Result<()> {
        note("pool", self.durable.len());
        for name in self.files.list()? {
            note(&name, self.files.open(&name)?.len()?);
        }
        Ok(())
    }

    fn media(&self) -> Media<Emulation> {
        let meter = self.meter.clone();
        Media {
            durable: self.durable.clone(),
            files: Some(self.files.clone()),
            volatile: Box::new(move |_, _| Ok(Emulated::new(Dram::new(VOLATILE_BYTES)?, &meter))),
            name: "emulated memory".into(),
            engines: Engines::compiled_here(),
        }
    }
}
