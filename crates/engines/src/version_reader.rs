//! Reads of one version of a partition, which block no other thread: see [`VersionSource::lend`].

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use storage::{Row, Value};

use crate::contract::{Read, Scan, VersionSource};
use crate::error::EngineError;
use crate::version::Version;

/// Reads the last committed state, as it was when this was made.
#[derive(Debug)]
pub struct VersionReader<'a> {
    source: &'a dyn VersionSource,
    /// None only while it is dropped.
    version: Option<Version>,
    /// A read was in a conflict. One thread reads: an atomic only because reading takes it by shared
    /// reference.
    in_conflict: AtomicBool,
}

impl<'a> VersionReader<'a> {
    /// Takes the last committed state.
    ///
    /// # Errors
    /// As [`VersionSource::lend`].
    #[inline]
    pub fn new(source: &'a dyn VersionSource) -> Result<Self, EngineError> {
        Ok(Self { version: Some(source.lend()?), source, in_conflict: AtomicBool::new(false) })
    }

    /// Returns whether a read was in a conflict: what was read is not to be used.
    #[inline]
    pub fn is_in_conflict(&self) -> bool {
        self.in_conflict.load(Ordering::Relaxed)
    }

    #[inline]
    fn noted<R>(&self, read: Result<R, EngineError>) -> Result<R, EngineError> {
        if let Err(EngineError::Conflict { .. }) = read {
            self.in_conflict.store(true, Ordering::Relaxed);
        }
        read
    }

    #[inline]
    fn version(&self) -> &Version {
        self.version.as_ref().expect("it was not dropped")
    }
}

impl Drop for VersionReader<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(version) = self.version.take() {
            self.source.take_back(version);
        }
    }
}

impl Read for VersionReader<'_> {
    #[inline]
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        self.noted(self.source.get_in(self.version(), table, key, columns, row))
    }

    #[inline]
    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        self.noted(self.source.get_bytes_in(self.version(), table, key, columns, out))
    }

    fn scan(
        &self,
        table: u16,
        scan: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        self.noted(self.source.scan_in(self.version(), table, scan, row, visit))
    }
}
