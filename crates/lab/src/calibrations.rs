//! The cost of misses and of files on this machine, measured once.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::emulation::{FileCosts, Host};
use crate::error::LabError;

/// The cost of misses on this machine, measured once for each size of the data, and that of files.
#[derive(Debug, Default)]
pub struct Calibrations {
    lines: RefCell<BTreeMap<u64, Host>>,
    files: RefCell<Option<FileCosts>>,
}

impl Calibrations {
    /// Adds what was measured before.
    pub(crate) fn learn(&self, lines: Vec<(u64, Host)>, files: Option<FileCosts>) {
        self.lines.borrow_mut().extend(lines);
        *self.files.borrow_mut() = files;
    }

    /// All that is known of lines, by bytes of memory.
    pub(crate) fn lines(&self) -> Vec<(u64, Host)> {
        self.lines.borrow().iter().map(|(bytes, host)| (*bytes, *host)).collect()
    }

    /// The known costs of files.
    pub(crate) fn files(&self) -> Option<FileCosts> {
        *self.files.borrow()
    }

    pub(crate) fn host(&self, bytes: u64) -> Result<Host, LabError> {
        let bytes = bytes.clamp(1 << 20, 4 << 30).next_power_of_two();
        if let Some(host) = self.lines.borrow().get(&bytes) {
            return Ok(*host);
        }
        let failed = LabError::measuring("this machine's memory");
        let host = Host::calibrate(bytes).map_err(|error| failed(&error))?;
        self.lines.borrow_mut().insert(bytes, host);
        Ok(host)
    }

    /// Returns the costs of files; `measure` finds them if they are not known yet.
    pub(crate) fn files_or(
        &self,
        measure: impl FnOnce() -> Result<FileCosts, LabError>,
    ) -> Result<FileCosts, LabError> {
        if let Some(files) = self.files() {
            return Ok(files);
        }
        let files = measure()?;
        *self.files.borrow_mut() = Some(files);
        Ok(files)
    }
}
