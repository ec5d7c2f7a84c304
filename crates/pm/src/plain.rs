//! A mapped file without a header of ours: [`Plain`]. Its bytes are what its owner stores, from the first
//! one on, so a file of another format can be mapped, and changed in place.
//!
//! Invariants:
//! - Addresses are reserved when the file is opened, so growing never moves the base. The mapping never
//!   shrinks, not even if the file does.
//! - Space that [`Memory::grow`] has made usable is reserved on the medium.
//! - Several processes can have the file open. Who may store what, and who may grow or cut it, they agree
//!   on with [locks on ranges of bytes](Plain::lock).

mod access;
mod length;
mod locks;
mod waiting;

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Timespec, Timestamps};

use crate::delegate::as_mapping;
use crate::domain::Domain;
use crate::error::{Bad, GrowError};
use crate::escaped::Escaped;
use crate::flush::{FlushInstruction, LineStore, store_fence};
use crate::folder::sync_folder_of;
use crate::limits::page_bytes;
use crate::mapping::{HUGE_PAGE_BYTES, Mapping, NativeView, Sharing};
use crate::marker_file::MarkerFile;
use crate::media::{Medium, free_bytes, medium_of};
use crate::memory::{Memory, checked_range};
use crate::offset::{LINE_BYTES, Line, Off, Range};
use crate::place::parent_of;
use crate::poison::{Health, Watch, fork_generation};
use crate::pool::grown;
use crate::pool::notes::Notes;
use crate::space::reserve_space;

use locks::Held;
pub use locks::{Lock, is_locked};
pub use waiting::{Tick, monotonic_us};

/// Least addresses that are worth a try.
const LEAST_RESERVED: u64 = 64 << 20;

/// How a plain file is opened.
#[derive(Clone, Debug, Default)]
pub struct PlainOptions {
    /// Make the file if it is not there.
    pub create: bool,
    /// The access rights of a file that is made; those of the process's mask if there are none.
    pub mode: Option<u32>,
    /// The domain, if it is not the one that the medium gives. A stronger one is modelled: its
    /// instructions are executed, its promise is not kept. A weaker one is refused.
    pub domain: Option<Domain>,
    /// Addresses to reserve, in bytes: what the file can grow to.
    pub reserved_bytes: u64,
    /// Bytes on which others in this process may have locks that belong to processes (`F_SETLK`): the
    /// kernel takes them away when any descriptor of the file is closed, so ours is kept open as long
    /// as there are some.
    pub foreign_locks: Option<Range>,
}

#[derive(Debug)]
struct Shared {
    // Before the addresses go.
    watch: Option<Watch>,
    /// The addresses: whole pages. What is after the end of the file in the last one is lost.
    mapping: Mapping,
    /// Bytes of the file, as last seen.
    bytes: AtomicU64,
    domain: Domain,
    medium: Medium,
    instruction: Option<FlushInstruction>,
    /// Where the medium keeps a line whole that is stored whole.
    line_store: Option<LineStore>,
    notes: Notes,
    health: Health,
    forks: u32,
    sharing: Sharing,
    growing: Mutex<()>,
    /// The device and the number by which a path is known to lead to the file.
    identity: (u64, u64),
    file: Held,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Before the addresses go, and are those of something else.
        self.file.set_addresses(0, 0);
    }
}

/// A mapped file, open for reading and writing. Clones share it; the last one closes it.
///
/// ```
/// use pm::{Memory, Off, Plain, PlainOptions};
/// let path = std::env::temp_dir().join(format!("plain-{}", std::process::id()));
/// let options = PlainOptions { create: true, reserved_bytes: 1 << 30, ..PlainOptions::default() };
/// let file = Plain::open(&path, &options).unwrap();
/// file.grow(4096).unwrap();
/// file.copy(Off::new(0), b"as it stands");
/// assert_eq!(std::fs::read(&path).unwrap()[..12], *b"as it stands");
/// # std::fs::remove_file(&path).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Plain(Arc<Shared>);

fn other(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

impl Plain {
    /// Opens a regular file and maps it.
    ///
    /// # Errors
    /// The file cannot be opened for writing, is no regular file, or cannot be mapped; the domain is weaker
    /// than what the medium needs, or the processor lacks its instructions.
    pub fn open(path: &Path, options: &PlainOptions) -> io::Result<Self> {
        let mut opening = OpenOptions::new();
        opening.read(true).write(true).create(options.create).truncate(false);
        opening.custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW);
        let file = Held::open(path, &opening, options.foreign_locks)?;
        let metadata = file.get().metadata()?;
        if !metadata.is_file() {
            return Err(other(format!("{} is no regular file", Escaped(path.display()))));
        }
        if let Some(mode) = options.mode
            && (metadata.len(), metadata.mode() & 0o7777 == mode) == (0, false)
            && let Err(error) = file.get().set_permissions(Permissions::from_mode(mode))
            // Another user has made it.
            && error.raw_os_error() != Some(libc::EPERM)
        {
            return Err(error);
        }
        Self::map(file, options)
    }

    fn map(file: Held, options: &PlainOptions) -> io::Result<Self> {
        let medium = medium_of(file.get())?;
        let domain = options.domain.unwrap_or(medium.natural);
        if domain != medium.natural && medium.natural != Domain::Process {
            let (name, natural) = (Escaped(&medium.name), medium.natural);
            return Err(other(format!("the domain of {name} is {natural}, not {domain}")));
        }
        let instruction = match domain {
            Domain::Adr => Some(FlushInstruction::detect().map_err(other)?),
            _ => None,
        };
        let metadata = file.get().metadata()?;
        let (bytes, identity) = (metadata.len(), (metadata.dev(), metadata.ino()));
        let mapping = reserve(options.reserved_bytes.max(bytes.saturating_mul(2)))?;
        let sharing =
            if medium.maps_synchronously() { Sharing::Synchronous } else { Sharing::Shared };
        let health = Health::new(mapping.base(), 0, file.get(), sharing);
        let (notes, growing, forks) = (Notes::default(), Mutex::new(()), fork_generation());
        let watch = None;
        let mut shared = Arc::new(Shared {
            watch,
            mapping,
            bytes: AtomicU64::new(0),
            domain,
            medium,
            instruction,
            line_store: LineStore::detect().filter(|_| domain != Domain::Disk),
            notes,
            health,
            forks,
            sharing,
            growing,
            identity,
            file,
        });
        let (base, reserved) = (shared.mapping.base(), shared.mapping.reserved());
        // In its place, where its health stays.
        let watch = Watch::new(base, reserved, &shared.health);
        shared.file.set_addresses(base.addr(), reserved as usize);
        Arc::get_mut(&mut shared).expect("it is not shared yet").watch = watch;
        let plain = Self(shared);
        plain.see()?;
        Ok(plain)
    }

    /// Bytes of the file, which others may have grown or cut.
    ///
    /// # Errors
    /// The kernel would not say.
    pub fn file_bytes(&self) -> io::Result<u64> {
        Ok(self.0.file.get().metadata()?.len())
    }

    /// Sets the time of the file's last change to now, as far as the kernel allows it. Stores in the mapping may leave
    /// it as it is.
    pub fn touch(&self) {
        let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        // Both at once need no more than the right to write.
        let times = Timestamps { last_access: now, last_modification: now };
        let _ = rustix::fs::futimens(self.0.file.get(), &times);
    }

    /// Makes durable what the file system knows of the file, such as its length, where anything outlives a
    /// reboot.
    ///
    /// # Errors
    /// The kernel could not.
    pub fn sync(&self) -> io::Result<()> {
        match self.0.medium.natural {
            Domain::Process => Ok(()),
            _ => self.0.file.get().sync_all(),
        }
    }

    /// The same for the names in the directory of `path`. If that may not be read, all file systems are synced,
    /// which takes longer.
    ///
    /// # Errors
    /// The kernel could not.
    pub fn sync_name(&self, path: &Path) -> io::Result<()> {
        match self.0.medium.natural {
            Domain::Process => Ok(()),
            _ => sync_folder_of(path),
        }
    }

    /// Returns whether [`Self::sync_name`] syncs no more than the directory.
    pub fn can_sync_name(&self, path: &Path) -> bool {
        self.0.medium.natural == Domain::Process || File::open(parent_of(path)).is_ok()
    }

    /// Returns the marker file of this name, on the same medium.
    pub fn marker_file(&self, path: &Path) -> MarkerFile {
        MarkerFile::new(path, self.0.medium.natural != Domain::Process)
    }

    /// The number that the file's medium knows it by, as long as the file is there.
    pub fn number(&self) -> u64 {
        self.0.identity.1
    }

    /// Returns whether the path leads to this file.
    pub fn is_at(&self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == self.0.identity)
    }

    /// Removes the file's name, durably, if the path leads to it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        if self.is_at(path) {
            std::fs::remove_file(path)?;
            self.sync_name(path)?;
        }
        Ok(())
    }

    /// The domain in which stores become durable.
    pub fn domain(&self) -> Domain {
        self.0.domain
    }

    /// The medium that the file lies on.
    pub fn medium(&self) -> &Medium {
        &self.0.medium
    }

    /// The address of a range, for a library that reads by pointers. It is that of the range for as long as a clone
    /// of this is there, since the mapping neither moves nor shrinks. The reader keeps stores away by a lock,
    /// as for a [`View`](crate::View), and stores nothing.
    ///
    /// A medium that fails later than this looks gives other bytes, and no error: after reading, ask
    /// [`Memory::healthy`].
    ///
    /// # Errors
    /// The range does not lie within the file, or its medium fails.
    pub fn address(&self, at: Range) -> Result<*const u8, Bad> {
        checked_range(at, self.len())?;
        let start = self.0.mapping.touched(at)?;
        self.healthy()?;
        Ok(start)
    }

    /// Stores a word and returns the former value. All such calls of all threads and processes have one total order, also
    /// with their sequentially consistent fences and loads.
    ///
    /// # Panics
    /// The word does not lie within the file, or is not aligned.
    #[inline]
    pub fn exchange(&self, at: Off<u64>, value: u64) -> u64 {
        self.0.mapping.exchange(at, value)
    }

    /// The same if the former value is `old`; otherwise nothing is stored.
    ///
    /// # Errors
    /// The value found.
    ///
    /// # Panics
    /// As [`Self::exchange`].
    #[inline]
    pub fn exchange_if(&self, at: Off<u64>, old: u64, value: u64) -> Result<u64, u64> {
        self.0.mapping.exchange_if(at, old, value)
    }

    /// Tries to lock a range of bytes, which need not be there. A lock that this open file has on them
    /// becomes the other kind, in one step. Returns whether no other lock was in the way.
    ///
    /// # Errors
    /// The kernel has no more locks to give.
    pub fn lock(&self, range: Range, lock: Lock) -> io::Result<bool> {
        locks::give_up_kept();
        locks::try_lock(self.0.file.get(), range, lock)
    }

    /// As [`Self::lock`], but waits until no other lock is in the way.
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub fn wait_for_lock(&self, range: Range, lock: Lock) -> io::Result<()> {
        locks::wait(self.0.file.get(), range, lock)
    }

    /// Gives up the lock on a range.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn unlock(&self, range: Range) -> io::Result<()> {
        locks::unlock(self.0.file.get(), range)
    }

    /// Returns whether another open file has a lock on any byte of the range.
    ///
    /// # Errors
    /// The kernel would not say.
    pub fn is_locked_by_others(&self, range: Range) -> io::Result<bool> {
        Ok(!self.is_free(range, Lock::Exclusive)?)
    }

    /// Returns whether no other lock is in the way of one on the range, which is not taken.
    ///
    /// # Errors
    /// The kernel would not say.
    pub fn is_free(&self, range: Range, lock: Lock) -> io::Result<bool> {
        locks::is_free(self.0.file.get(), range, lock)
    }

    /// Syncs the noted pages.
    #[cold]
    fn sync_pages(&self) {
        let shared = &*self.0;
        shared.notes.sync(|range| {
            let len = range.len.min(shared.mapping.len() - range.start);
            // SAFETY: the pages lie within the mapping.
            let result = unsafe {
                let start = shared.mapping.base().add(range.start as usize);
                libc::msync(start.cast(), len as usize, libc::MS_SYNC)
            };
            if result != 0 {
                // What a failed sync left is unknown: acknowledge nothing any more.
                shared.health.poison();
            }
        });
    }
}

/// Reserves addresses, fewer if the kernel has not so many.
fn reserve(mut wanted: u64) -> io::Result<Mapping> {
    loop {
        match Mapping::reserve_aligned(wanted, HUGE_PAGE_BYTES) {
            Err(_) if wanted > LEAST_RESERVED => wanted /= 2,
            result => return result,
        }
    }
}

impl Memory for Plain {
    const DURABLE: bool = true;
    type View<'a> = NativeView<'a>;

    #[inline]
    fn len(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    fn grow(&self, to: u64) -> Result<(), GrowError> {
        let shared = &*self.0;
        let _one = shared.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let medium = |source| GrowError::Medium { wanted: to, source };
        let from = shared.file.get().metadata().map_err(medium)?.len();
        if to <= from {
            self.map_up_to(from).map_err(medium)?;
            shared.bytes.store(from, Ordering::Release);
            return Ok(());
        }
        let most = shared.mapping.reserved();
        if to > most {
            return Err(GrowError::Addresses { wanted: to });
        }
        if shared.health.is_poisoned() {
            return Err(medium(io::Error::other(Bad::Poisoned)));
        }
        let end = grown(from.next_multiple_of(page_bytes()), to, most, page_bytes());
        let reserved = reserve_space(shared.file.get(), from, end - from);
        // On a medium that is nearly full, no more than is asked for.
        let (end, reserved) = match reserved {
            Err(_) => {
                let _ = shared.file.get().set_len(from);
                let end = to.next_multiple_of(page_bytes());
                (end, reserve_space(shared.file.get(), from, end - from))
            }
            Ok(()) => (end, reserved),
        };
        if let Err(source) = reserved {
            let _ = shared.file.get().set_len(from);
            return Err(medium(source));
        }
        if shared.domain != Domain::Process {
            // The file's length must be durable before anything in the new part is.
            self.sync().map_err(|source| {
                shared.health.poison();
                medium(source)
            })?;
        }
        self.map_up_to(end).map_err(medium)?;
        shared.bytes.store(end, Ordering::Release);
        Ok(())
    }

    fn headroom(&self) -> u64 {
        let shared = &*self.0;
        let free = free_bytes(shared.file.get()).unwrap_or(0);
        shared.mapping.reserved().saturating_sub(shared.mapping.len()).min(free)
    }

    #[inline]
    fn healthy(&self) -> Result<(), Bad> {
        if self.0.forks != fork_generation() {
            return Err(Bad::Forked);
        }
        if self.0.health.is_poisoned() { Err(Bad::Poisoned) } else { Ok(()) }
    }

    as_mapping!(self => self.0.mapping);

    fn release(&self, at: Range) {
        let (shared, page) = (&*self.0, page_bytes());
        let start = at.start.next_multiple_of(page);
        let end = at.end().min(shared.mapping.len()) / page * page;
        if start < end {
            // SAFETY: whole pages of the mapping, whose bytes are the file's and stay there.
            unsafe {
                let first = shared.mapping.base().add(start as usize);
                libc::madvise(first.cast(), (end - start) as usize, libc::MADV_DONTNEED);
            }
        }
    }

    fn flush(&self, at: Range) {
        let shared = &*self.0;
        if at.len == 0 {
            return;
        }
        match (shared.domain, shared.instruction) {
            (Domain::Adr, Some(instruction)) => {
                let (first, end) = at.lines();
                assert!(end * LINE_BYTES <= shared.mapping.len(), "the lines are mapped");
                compiler_fence(Ordering::SeqCst);
                // SAFETY: the lines lie within the mapping; the instruction was detected.
                unsafe { instruction.write_back(shared.mapping.base(), first, end) };
            }
            (Domain::Disk, _) => {
                let (page, start) = (page_bytes(), at.start / page_bytes() * page_bytes());
                shared.notes.add(Range::new(start, at.end().next_multiple_of(page) - start));
            }
            _ => compiler_fence(Ordering::SeqCst),
        }
    }

    fn fence(&self) {
        match self.0.domain {
            Domain::Process => compiler_fence(Ordering::SeqCst),
            Domain::Disk => self.sync_pages(),
            Domain::Adr | Domain::Eadr => store_fence(),
        }
    }

    fn has_store_line(&self) -> bool {
        self.0.line_store.is_some()
    }

    fn store_line(&self, line: Line, bytes: &[u8; LINE_BYTES as usize]) {
        let shared = &*self.0;
        shared.mapping.store_line(
            shared.line_store.expect("`has_store_line` was asked"),
            line,
            bytes,
        );
        // The processor may let others see it after what is stored later. Where a fence is no instruction, another
        // process that learns of it by a store would read the line as it was.
        if shared.domain == Domain::Process {
            store_fence();
        }
    }
}

// An interpreter has no files to map.
#[cfg(all(test, not(miri)))]
mod tests;
