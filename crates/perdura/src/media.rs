//! What a database lies on.

use std::fmt;

use engines::below::{
    Dram, Environment, HostFiles, Native, Pool, Recorded, Recording, RecordingFiles,
};

/// A durable memory, volatile memory for each partition, and files.
pub struct Media<E: Environment> {
    /// The pool.
    pub durable: E::Durable,
    /// Files, for engines that keep some.
    pub files: Option<E::Files>,
    /// Makes the volatile memory of a partition.
    pub volatile: Box<dyn Fn(u32) -> std::io::Result<E::Volatile>>,
    /// What the database is called in errors.
    pub name: String,
}

impl<E: Environment> fmt::Debug for Media<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Media").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Media<Native> {
    /// A pool without files. Engines without them keep nothing in volatile memory: no addresses for
    /// it.
    pub(crate) fn native(pool: Pool) -> Self {
        let name = pool.info().path.display().to_string();
        Self { durable: pool, files: None, volatile: Box::new(|_| Dram::new(0)), name }
    }

    /// Files, and volatile memory for each partition of an engine that has some.
    pub(crate) fn attach(&mut self, files: HostFiles, volatile_bytes: u64) {
        self.files = Some(files);
        self.volatile = Box::new(move |_| Dram::new(volatile_bytes));
    }
}

impl Media<Recorded> {
    /// Recording media, for crash tests.
    pub fn recorded(durable: Recording, files: RecordingFiles) -> Self {
        Self {
            durable,
            files: Some(files),
            volatile: Box::new(|_| Dram::new(1 << 28)),
            name: "recording".into(),
        }
    }
}
