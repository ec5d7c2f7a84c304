//! The marks in a pool's header: that it is open, and that it was closed.

use std::io;
use std::sync::PoisonError;

use super::file::boot_to_store;
use super::options::{Access, PoolOptions};
use super::{Pool, survives_reboot};
use crate::epoch::Epoch;
use crate::error::PoolError;
use crate::header::Header;
use crate::memory::Memory;

impl Pool {
    /// Marks the pool as open in this boot of the machine. To be called before anything in it is
    /// changed; [`Pool::open`] alone leaves the file as it is.
    ///
    /// # Errors
    /// The kernel does not tell which boot this is, and the pool's domain promises nothing across a
    /// reboot; or the medium failed.
    pub fn mark_open(&self, options: &PoolOptions) -> Result<(), PoolError> {
        self.mark_open_in(self.0.info.header.epoch, options)
    }

    /// As [`Pool::mark_open`], with the epoch of the files that belong to the pool.
    ///
    /// # Errors
    /// As [`Pool::mark_open`].
    pub fn mark_open_in(&self, epoch: Epoch, options: &PoolOptions) -> Result<(), PoolError> {
        let Header { domain, modelled, .. } = self.0.info.header;
        let survives = survives_reboot(domain, modelled);
        let boot = boot_to_store(&self.0.info.path, options, survives)?;
        let mut header = self.0.header.lock().unwrap_or_else(PoisonError::into_inner);
        header.clean = false;
        header.epoch = epoch;
        header.boot_id = boot;
        header.sequence += 1;
        header.write_first(self);
        drop(header);
        // Whatever the domain: a mark that a power cut takes back would have the pool taken for one
        // that was closed, with whatever the kernel has written back of it since.
        let doing = "mark the pool as open";
        self.still_good(doing)?;
        self.sync_file(doing)
    }

    /// Writes both copies of the header once more as they are, durably: whatever a crash has left of
    /// another header in a copy that is torn, or in the kernel alone, is gone then.
    ///
    /// # Errors
    /// The medium failed.
    pub fn rewrite_header(&self) -> Result<(), PoolError> {
        let mut header = self.0.header.lock().unwrap_or_else(PoisonError::into_inner);
        header.sequence += 1;
        header.write_first(self);
        drop(header);
        let doing = "settle the pool's header";
        self.still_good(doing)?;
        self.sync_file(doing)
    }

    /// Hands the whole file to the medium, whatever the domain asks for.
    fn sync_file(&self, doing: &'static str) -> Result<(), PoolError> {
        self.0.file.sync_data().map_err(|source| {
            self.0.health.poison();
            PoolError::Io { path: self.0.info.path.clone(), doing, source }
        })
    }

    /// A fence has no result: what it could not do shows here.
    pub(super) fn still_good(&self, doing: &'static str) -> Result<(), PoolError> {
        self.healthy().map_err(|bad| {
            let path = self.0.info.path.clone();
            PoolError::Io { path, doing, source: io::Error::other(bad.to_string()) }
        })
    }

    /// Closes the pool: syncs the data, then marks it clean, then syncs again. Other clones must
    /// not write any more. Dropping a pool without closing it is safe; it then counts as open.
    ///
    /// # Errors
    /// The medium failed; the pool stays marked as open.
    pub fn close(&self) -> Result<(), PoolError> {
        self.close_as(None)
    }

    /// As [`Pool::close`], with the epoch of the files that belong to the pool.
    ///
    /// # Errors
    /// As [`Pool::close`].
    pub fn close_in(&self, epoch: Epoch) -> Result<(), PoolError> {
        self.close_as(Some(epoch))
    }

    fn close_as(&self, epoch: Option<Epoch>) -> Result<(), PoolError> {
        if self.0.access == Access::Inspect {
            return Ok(());
        }
        let doing = "sync the pool while closing";
        self.still_good(doing)?;
        self.sync_file(doing)?;
        let mut header = self.0.header.lock().unwrap_or_else(PoisonError::into_inner);
        header.clean = true;
        header.epoch = epoch.unwrap_or(header.epoch);
        header.sequence += 1;
        header.write(self);
        drop(header);
        self.still_good(doing)?;
        self.sync_file(doing)
    }
}
