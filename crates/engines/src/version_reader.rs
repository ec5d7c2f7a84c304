//! Reads of one version of a partition, which block no other thread: see [`SnapshotSource::lend`].

use std::ops::ControlFlow;

use storage::{Row, Value};

use crate::contract::{Read, Scan, SnapshotSource};
use crate::error::EngineError;
use crate::version::Version;

/// Reads the last committed state, as it was when this was made.
#[derive(Debug)]
pub struct VersionReader<'a> {
    source: &'a dyn SnapshotSource,
    /// None only while it is dropped.
    version: Option<Version>,
}

impl<'a> VersionReader<'a> {
    /// Takes the last committed state.
    ///
    /// # Errors
    /// As [`SnapshotSource::lend`].
    #[inline]
    pub fn new(source: &'a dyn SnapshotSource) -> Result<Self, EngineError> {
        Ok(Self { version: Some(source.lend()?), source })
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
        self.source.get_in(self.version(), table, key, columns, row)
    }

    #[inline]
    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        self.source.get_bytes_in(self.version(), table, key, columns, out)
    }

    fn scan(
        &self,
        table: u16,
        scan: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        self.source.scan_in(self.version(), table, scan, row, visit)
    }
}
