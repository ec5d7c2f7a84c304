//! A pool: a mapped file with a durability domain.
//!
//! Invariants:
//! - Every byte below the header's size has space reserved on the medium, so that touching it
//!   never faults for want of space: reserved when the pool is created and when it grows, and where
//!   a copy has holes instead, when it is opened.
//! - The address range is reserved up to the limit when the pool is opened: growing never moves it.
//! - While a pool is open its header says "not clean" and names the boot; closing syncs the data,
//!   then sets the mark, then syncs again.
//! - One handle at a time: `flock` against other processes, a registry by device and inode against
//!   this one.

pub(crate) mod file;
mod holes;
mod marks;
mod memory;
mod new;
pub(crate) mod notes;
mod opening;
mod options;

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use crate::counters::{Counters, Tally};
use crate::domain::Domain;
use crate::error::PoolError;
use crate::flush::{FlushInstruction, LineStore};
use crate::header::{COPIES, HEADER_BYTES, Header, HeaderDamage};
use crate::mapping::{HUGE_PAGE_BYTES, Mapping, Sharing};
use crate::media::Medium;
use crate::names::UNFINISHED;
use crate::offset::Range;
use crate::place::Place;
use crate::poison::{Health, Watch};
use crate::registry::LockedFile;
use crate::unfinished::{MARK_BYTES, MARK_IN_POOL};

pub use new::NewPool;
pub use options::{Access, PoolOptions};

use notes::Notes;

/// An open pool: its file, its header, its medium.
#[derive(Clone, Debug)]
pub struct PoolInfo {
    /// The file.
    pub path: PathBuf,
    /// The header as it was when the pool was opened.
    pub header: Header,
    /// Damage of the header copy that was not used.
    pub header_damage: Option<HeaderDamage>,
    /// The medium of the file.
    pub medium: Medium,
    /// The flush instruction in use, where the domain needs one.
    pub flush: Option<FlushInstruction>,
    /// Bytes after the end of the pool that belong to nothing.
    pub tail_bytes: u64,
}

impl PoolInfo {
    /// The domain as people are shown it: `adr (modelled)`.
    pub fn domain_text(&self) -> String {
        domain_text(self.header.domain, self.header.modelled)
    }
}

fn domain_text(domain: Domain, modelled: bool) -> String {
    if modelled { format!("{domain} (modelled)") } else { domain.to_string() }
}

/// The kind of work that a flush does. One byte, so that the hot path branches once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Mode {
    Nothing,
    Clwb,
    Other,
}

#[derive(Debug)]
struct Shared {
    mapping: Mapping,
    mode: AtomicU8,
    fences: bool,
    health: Health,
    forks: u32,
    counting: AtomicBool,
    domain: Domain,
    instruction: Option<FlushInstruction>,
    line_store: Option<LineStore>,
    tally: Tally,
    /// Pages to sync at the next fence of a `disk` pool.
    notes: Notes,
    /// The place where the file has its name, or gets it.
    place: Place,
    /// True until then.
    is_new: AtomicBool,
    /// Locked until the last handle is dropped, and what makes the pool.
    file: Arc<LockedFile>,
    header: Mutex<Header>,
    info: PoolInfo,
    access: Access,
    sharing: Sharing,
    huge_pages: bool,
    watch: Option<Watch>,
}

impl Shared {
    /// Puts huge pages where the pool has grown from one size to another: into each of their places
    /// that is complete now, while nothing or little is in it.
    fn collapse(&self, from: u64, to: u64) {
        if !self.huge_pages {
            return;
        }
        let (first, end) = (from / HUGE_PAGE_BYTES, to / HUGE_PAGE_BYTES);
        if first < end {
            let len = (end - first) * HUGE_PAGE_BYTES;
            self.mapping.collapse(Range::new(first * HUGE_PAGE_BYTES, len));
        }
    }
}

/// A handle to an open pool. Clones share it; the last one closes it.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Shared>);

// The mark of an unfinished pool stands between the copies of the header.
const _: () = assert!(MARK_IN_POOL >= HEADER_BYTES as u64);
const _: () = assert!(MARK_IN_POOL + MARK_BYTES as u64 <= COPIES[1]);

impl Pool {
    /// Returns the place where the pool has its name, or gets it when it is finished.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// Removes the pool's file. Something else that has got its name stays.
    ///
    /// # Errors
    /// The kernel refuses, or the file has lost its name.
    pub fn discard(&self) -> io::Result<()> {
        self.0.place.remove(&self.0.file)
    }

    /// Finds out whether the path that was asked for still leads to the pool.
    ///
    /// # Errors
    /// [`PoolError::Removed`] or [`PoolError::Elsewhere`].
    pub fn check_path(&self) -> Result<(), PoolError> {
        let path = self.0.info.path.clone();
        let whereabouts = match self.0.is_new.load(Ordering::Acquire) {
            true => self.0.place.with_suffix(UNFINISHED).whereabouts(&self.0.file),
            false => self.0.place.whereabouts(&self.0.file),
        };
        PoolError::of_whereabouts(path, whereabouts)
    }

    /// The pool's file, header and medium.
    pub fn info(&self) -> &PoolInfo {
        &self.0.info
    }

    /// The addresses that are reserved for the pool in this process.
    pub fn addresses(&self) -> std::ops::Range<usize> {
        self.0.mapping.addresses()
    }

    /// Bytes that the file takes on its medium.
    ///
    /// # Errors
    /// The kernel would not say.
    pub fn stored_bytes(&self) -> io::Result<u64> {
        Ok(self.0.file.metadata()?.blocks() * 512)
    }

    /// Starts or stops counting flushes and fences. While off, counting costs nothing.
    pub fn count(&self, on: bool) {
        self.0.counting.store(on, Ordering::Relaxed);
        let mode = if on { Mode::Other } else { self.plain_mode() };
        self.0.mode.store(mode as u8, Ordering::Release);
    }

    fn plain_mode(&self) -> Mode {
        match (self.0.access, self.0.domain, self.0.instruction) {
            (Access::Inspect, ..) | (_, Domain::Process | Domain::Eadr, _) => Mode::Nothing,
            (_, Domain::Adr, Some(FlushInstruction::Clwb)) => Mode::Clwb,
            _ => Mode::Other,
        }
    }

    /// The counts so far.
    pub fn counters(&self) -> Counters {
        self.0.tally.snapshot()
    }
}

/// Returns whether what is written survives a reboot. A model promises no more than a process pool,
/// whatever its medium keeps.
fn survives_reboot(domain: Domain, modelled: bool) -> bool {
    domain != Domain::Process && !modelled
}

/// The size of a memory of `from` bytes that is to have `to` bytes at least: it grows in steps of a
/// 128th, so that growing is rare and the space reserved ahead stays small.
pub fn grown(from: u64, to: u64, limit: u64, page: u64) -> u64 {
    let step = (from / 128).next_multiple_of(page).max(64 << 10);
    to.max(from + step).next_multiple_of(page).min(limit)
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Stop watching before the addresses go. The file comes after them: others get in last.
        self.watch = None;
    }
}

// An interpreter has no files to map.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::offset::Off;

    #[test]
    fn a_pool_beyond_its_medium_can_only_be_inspected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let options = PoolOptions {
            domain: Some(Domain::Eadr),
            model: true,
            initial_bytes: 1 << 20,
            ..PoolOptions::default()
        };
        // As a copy of a pool from other hardware is: eadr, and not modelled.
        let pool = Pool::create(&path, &options).unwrap();
        let mut header = pool.info().header;
        header.modelled = false;
        header.sequence += 1;
        header.write(&pool);
        drop(pool);
        let open = |access| Pool::open(&path, &PoolOptions::default(), access);
        assert!(matches!(open(Access::ReadWrite), Err(PoolError::DomainTooStrong { .. })));
        assert_eq!(open(Access::Inspect).unwrap().info().domain_text(), "eadr");
    }

    /// One thread lets the pool grow and stores into what is new, the other one finds that the medium
    /// has failed.
    #[test]
    fn growth_while_the_medium_fails_leaves_the_file() {
        let directory = tempfile::tempdir().unwrap();
        for round in 0..60 {
            let path = directory.path().join(format!("pool-{round}"));
            let domain = Some(Domain::Process);
            let options = PoolOptions { initial_bytes: 64 << 10, domain, ..PoolOptions::default() };
            let pool = Pool::create(&path, &options).unwrap();
            let failed = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // Not without end: the other one may get no time.
                    while pool.len() < 64 << 20 && pool.grow(pool.len() + 1).is_ok() {
                        let new = Off::new(pool.len() - 8);
                        pool.store(new, if failed.load(Ordering::SeqCst) { 2 } else { 1 });
                    }
                });
                let start = pool.len();
                while pool.len() < start + (64 << 10) * (round % 8) {
                    std::hint::spin_loop();
                }
                pool.0.health.poison();
                failed.store(true, Ordering::SeqCst);
            });
            // Where growing and failing were at the same time, too.
            pool.store(Off::new(pool.len() - 8), 2);
            let used = pool.len();
            drop(pool);
            let bytes = std::fs::read(&path).unwrap();
            // Growing ends at a multiple of a page.
            let last_words = (4096..=used).step_by(4096).map(|end| bytes[end as usize - 8]);
            assert!(last_words.into_iter().all(|word| word != 2), "round {round}");
            std::fs::remove_file(&path).unwrap();
        }
    }
}
