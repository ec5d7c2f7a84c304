//! What a database lies on.

use std::fmt;

use engines::below::{Dram, Environment, Native, Pool, Recorded, Recording, RecordingFiles};

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
    pub(crate) fn native(
        pool: Pool,
        files: Option<engines::below::HostFiles>,
        volatile_bytes: u64,
    ) -> Self {
        let name = pool.info().path.display().to_string();
        Self { durable: pool, files, volatile: Box::new(move |_| Dram::new(volatile_bytes)), name }
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
