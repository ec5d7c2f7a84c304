//! The persister of flush-on-commit (P2 4.3): a thread that makes full objects durable, so that
//! commits find little to do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pm::Memory;

use super::NvLog;
use crate::Result;
use crate::threads::{Threads, Waiter};

impl<M: Memory, T: Threads> NvLog<M, T> {
    /// Makes durable what is full now, and waits for nobody.
    ///
    /// # Errors
    /// The medium failed.
    pub fn persist_some(&self) -> Result<()> {
        if let Some(slots) = &self.slots {
            let newest = self.next.load(Ordering::Acquire) - 1;
            self.pass_once(slots, newest);
        }
        self.healthy()
    }

    /// Makes durable what is full, in passes that are `pause` apart, until `stop` is set and `waiter`
    /// is woken. Without flush-on-commit there is nothing to do.
    ///
    /// # Errors
    /// The medium failed.
    pub fn serve(&self, waiter: &Waiter, pause: Duration, stop: &AtomicBool) -> Result<()> {
        while !stop.load(Ordering::Acquire) {
            self.persist_some()?;
            self.threads.park(waiter, Some(self.threads.now() + pause));
        }
        Ok(())
    }
}
