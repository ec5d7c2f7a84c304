//! Files in memory, for a recovery that is not recorded.

use std::cell::RefCell;

use perdura_sqlite::database::{Failure, WalFile};
use pm::Range;

/// A file. Everything is durable at once.
#[derive(Debug)]
pub(super) struct Bytes {
    bytes: RefCell<Vec<u8>>,
    /// Stores of whole pages of zeros are lost.
    loses_zeros: bool,
}

impl Bytes {
    pub(super) fn new(bytes: Vec<u8>, loses_zeros: bool) -> Self {
        Self { bytes: RefCell::new(bytes), loses_zeros }
    }

    pub(super) fn into_inner(self) -> Vec<u8> {
        self.bytes.into_inner()
    }
}

impl WalFile for Bytes {
    fn bytes(&self) -> u64 {
        self.bytes.borrow().len() as u64
    }
    fn see(&self) -> Result<(), Failure> {
        Ok(())
    }
    fn read_into(&self, at: u64, out: &mut [u8]) -> Result<(), Failure> {
        out.copy_from_slice(&self.bytes.borrow()[at as usize..][..out.len()]);
        Ok(())
    }
    fn address(&self, _: Range) -> Result<*const u8, Failure> {
        unreachable!("bytes are copied")
    }
    fn copy(&self, at: u64, bytes: &[u8]) {
        if !self.loses_zeros || bytes.len() < 512 {
            self.bytes.borrow_mut()[at as usize..][..bytes.len()].copy_from_slice(bytes);
        }
    }
    fn write_at(&self, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        let end = at as usize + bytes.len();
        let longer = end.max(self.bytes.borrow().len());
        self.bytes.borrow_mut().resize(longer, 0);
        self.bytes.borrow_mut()[at as usize..end].copy_from_slice(bytes);
        Ok(())
    }
    fn cut(&self, to: u64) -> Result<(), Failure> {
        self.bytes.borrow_mut().resize(to as usize, 0);
        Ok(())
    }
    fn sync_length(&self) -> Result<(), Failure> {
        Ok(())
    }
    fn sync_name(&self) -> Result<(), Failure> {
        Ok(())
    }
    fn outlasts_power(&self) -> bool {
        true
    }
    fn needs_flush(&self) -> bool {
        true
    }
    fn flush(&self, _: Range) {}
    fn fence(&self) {}
    fn healthy(&self) -> Result<(), Failure> {
        Ok(())
    }
}
