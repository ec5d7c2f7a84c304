//! The options with which a pool is created and opened.

use crate::domain::Domain;

/// The options with which a pool is created or opened.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// The domain to create the pool with; `None` takes the medium's own. When opening, `None`
    /// takes what the header says, anything else must agree with it.
    pub domain: Option<Domain>,
    /// True if a domain stronger than the medium's may be modelled.
    pub model: bool,
    /// Bytes that a new pool starts with.
    pub initial_bytes: u64,
    /// Bytes up to which a new pool may grow.
    pub limit_bytes: u64,
    /// Open a `process` pool that a reboot has hit, whatever it may have lost.
    pub accept_loss: bool,
    /// Turn media errors (SIGBUS) into a poisoned pool instead of a dead process.
    pub catch_media_errors: bool,
    /// True to ask the kernel for huge pages as the pool grows, on tmpfs.
    pub huge_pages: bool,
    /// Take this for the machine's boot instead of asking the kernel: for tests.
    pub boot_id: Option<[u8; 16]>,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            domain: None,
            model: false,
            initial_bytes: 2 << 20,
            limit_bytes: 64 << 30,
            accept_loss: false,
            catch_media_errors: true,
            huge_pages: true,
            boot_id: None,
        }
    }
}

/// Says whether a pool is opened to work with it or only to look at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads and writes; marks the pool as open.
    ReadWrite,
    /// Private copy-on-write pages: the file is never changed.
    Inspect,
}
