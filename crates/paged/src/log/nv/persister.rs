//! The persister of flush-on-commit (P2 4.3): a thread that makes full objects durable, so that
//! commits find little to do.

use std::fmt::{self, Debug};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pm::Memory;

use super::NvLog;
use crate::Result;
use crate::threads::{Host, Threads, Waiter};

/// Passes in a row that find a log in which nothing happens, before the persister sleeps.
const IDLE_PASSES: u32 = 50;

impl<M: Memory, T: Threads> NvLog<M, T> {
    /// Makes durable what is full now, without waiting for other threads.
    ///
    /// # Errors
    /// The medium failed.
    pub fn persist_some(&self) -> Result<()> {
        if let Some(slots) = &self.slots {
            let newest = self.next.load(Ordering::Acquire) - 1;
            let many = self.pass_once(slots, newest);
            self.by_persister.fetch_add(many, Ordering::Relaxed);
        }
        self.healthy()
    }

    /// Makes durable what is full, in passes that are `pause` apart, until `stop` is set and `waiter`
    /// is woken. When nothing is inserted for a while it sleeps until something is. Without
    /// flush-on-commit there is nothing to do.
    ///
    /// # Errors
    /// The medium failed.
    pub fn serve(&self, waiter: &Arc<Waiter>, pause: Duration, stop: &AtomicBool) -> Result<()> {
        let Some(slots) = &self.slots else { return Ok(()) };
        let (mut idle, mut seen) = (0, 0);
        while !stop.load(Ordering::Acquire) {
            self.persist_some()?;
            let end = self.next.load(Ordering::Acquire);
            idle = if end == seen { idle + 1 } else { 0 };
            seen = end;
            if idle < IDLE_PASSES {
                self.threads.park(waiter, Some(self.threads.now() + pause));
                continue;
            }
            let stirs = || stop.load(Ordering::Acquire) || self.next.load(Ordering::Acquire) != end;
            slots.wait(waiter, stirs, || {
                self.threads.park(waiter, None);
            });
            idle = 0;
        }
        Ok(())
    }
}

/// A persister's thread, which ends when this is stopped or dropped.
pub struct Persister {
    stop: Arc<AtomicBool>,
    waiter: Arc<Waiter>,
    host: Arc<Host>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread: a forked child has not.
    process: u32,
}

impl Debug for Persister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Persister").field("thread", &self.thread).finish_non_exhaustive()
    }
}

impl Persister {
    /// Starts a thread that makes passes over a log.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn start<M: Memory>(log: Arc<NvLog<M, Host>>, pause: Duration) -> io::Result<Self> {
        let (stop, waiter) = (Arc::new(AtomicBool::new(false)), Arc::new(Waiter::default()));
        let (host, asked, woken) =
            (Arc::clone(&log.threads), Arc::clone(&stop), Arc::clone(&waiter));
        // When the medium has failed, commits return the error.
        let work = move || drop(log.serve(&woken, pause, &asked));
        let thread = thread::Builder::new().name("perdura-persister".into()).spawn(work)?;
        Ok(Self { stop, waiter, host, thread: Some(thread), process: std::process::id() })
    }

    /// Stops the thread, after the pass that is under way.
    pub fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.process != std::process::id() {
            // It stayed with the parent.
            std::mem::forget(thread);
            return;
        }
        self.stop.store(true, Ordering::Release);
        self.host.wake(&self.waiter);
        if let Err(why) = thread.join()
            && !thread::panicking()
        {
            std::panic::resume_unwind(why);
        }
    }
}

impl Drop for Persister {
    fn drop(&mut self) {
        self.stop();
    }
}
