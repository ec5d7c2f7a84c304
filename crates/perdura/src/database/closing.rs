//! The end of a database: closed, dropped or abandoned.

use engines::below::{Environment, Files, Memory};

use super::Database;
use crate::error::Error;

impl<E: Environment> Database<E> {
    /// Closes the database: finishes open work, syncs, and marks the pool as clean.
    ///
    /// # Errors
    /// The medium failed: what was durable stays so, and the next opening recovers. The other
    /// errors are returned once the database is closed: [`PoolError::Removed`] or
    /// [`PoolError::Elsewhere`], if its path no longer leads to it; [`Error::Background`]; or that
    /// of an archive that accepts nothing ([`Options::archive`](crate::Options::archive)), where
    /// the database keeps the part of its log that the archive lacks.
    ///
    /// [`PoolError::Removed`]: crate::PoolError::Removed
    /// [`PoolError::Elsewhere`]: crate::PoolError::Elsewhere
    pub fn close(mut self) -> Result<(), Error> {
        self.shut()?;
        self.background_error()?;
        self.check_archive()
    }

    /// Drops the database as a kill of the process would: nothing is finished, and the pool stays
    /// marked as open. For tests of recovery.
    pub fn abandon(mut self) {
        self.closed = true;
        self.stop_threads();
    }

    fn stop_threads(&mut self) {
        if let Some(worker) = &mut self.worker {
            worker.stop();
        }
        if let Some(closer) = &mut self.closer {
            closer.stop();
        }
    }

    fn shut(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        self.stop_threads();
        // In a forked child a partition may be held by a thread that is not there.
        self.heap.memory().healthy()?;
        for number in 0..self.partitions.len() {
            let partition = self.partition(number);
            let _still = partition.still(None)?;
            partition.write_lock()?.close()?;
        }
        self.heap.memory().healthy()?;
        if let Some(files) = &self.files {
            let error = |source| Error::Io { path: "the database's files".into(), source };
            files.sync_all().map_err(error)?;
        }
        if let Some(host) = &self.host {
            let last = |number| Ok(self.partition(number).read_lock()?.durable());
            let last: Result<_, Error> = (0..self.partitions.len()).map(last).collect();
            host.note_ends(last?)?;
            host.pool.close()?;
            host.check_names()?;
        }
        Ok(())
    }
}

impl<E: Environment> Drop for Database<E> {
    fn drop(&mut self) {
        // A failure here leaves the pool marked as open; the next opening recovers.
        let _ = self.shut();
    }
}
