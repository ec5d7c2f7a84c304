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
mod notes;
mod options;
pub(crate) mod registry;

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering, compiler_fence};
use std::sync::{Arc, Mutex};

use crate::counters::{Counters, Tally, bump};
use crate::domain::Domain;
use crate::error::{Bad, GrowError, PoolError};
use crate::flush::{FlushInstruction, store_fence};
use crate::header::{Header, HeaderDamage, POOL_DATA_START};
use crate::limits::addresses_left;
use crate::mapping::{HUGE_PAGE_BYTES, Mapping, NativeView, Sharing};
use crate::media::{Medium, medium_of};
use crate::memory::{Memory, Pod};
use crate::offset::{LINE_BYTES, Off, Range};
use crate::pairing::Epoch;
use crate::place::{Named, Place};
use crate::poison::{Health, Watch, fork_generation};

pub use file::random_uuid;
pub use options::{Access, PoolOptions};

use crate::unfinished::{Left, MARK_BYTES, mark, sweep};
use file::{boot_to_store, header_of, io_error, open_locked, reserve_space, this_boot};
use notes::Notes;
use registry::{Registered, unlock};

/// What is known of an open pool.
#[derive(Clone, Debug)]
pub struct PoolInfo {
    /// The file.
    pub path: PathBuf,
    /// The header as it was when the pool was opened.
    pub header: Header,
    /// Damage of the header copy that was not used.
    pub header_damage: Option<HeaderDamage>,
    /// What the file lies on.
    pub medium: Medium,
    /// The flush instruction in use, where the domain needs one.
    pub flush: Option<FlushInstruction>,
    /// Bytes behind the end of the pool that belong to nothing.
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

/// What a flush does. One byte, so that the hot path branches once.
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
    tally: Tally,
    /// Pages to sync at the next fence of a `disk` pool.
    notes: Notes,
    /// Where the file has its name.
    place: Place,
    file: File,
    header: Mutex<Header>,
    info: PoolInfo,
    access: Access,
    sharing: Sharing,
    huge_pages: bool,
    watch: Option<Watch>,
    registered: Option<Registered>,
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

/// Where the mark of an unfinished pool stands: between the copies of the header.
const MARK_AT: u64 = 2048;
const _: () = assert!(MARK_AT >= crate::header::HEADER_BYTES as u64 && MARK_AT < 4096);

impl Pool {
    /// Creates a pool file. Its contents after the header are zero.
    ///
    /// # Errors
    /// See [`PoolError`]; where creating failed no file is left behind.
    pub fn create(path: &Path, options: &PoolOptions) -> Result<Self, PoolError> {
        Self::create_at(&Place::of(path).map_err(io_error(path, "create the pool"))?, options)
    }

    /// As [`Pool::create`], at a place.
    ///
    /// # Errors
    /// As [`Pool::create`].
    pub fn create_at(place: &Place, options: &PoolOptions) -> Result<Self, PoolError> {
        let path = &*place.asked_path();
        let sizes = |why: String| PoolError::Sizes { path: path.into(), why };
        if options.initial_bytes < POOL_DATA_START {
            return Err(sizes(format!("a pool has at least {POOL_DATA_START} bytes")));
        }
        if options.initial_bytes > options.limit_bytes {
            return Err(sizes(format!(
                "the pool would start with {} bytes, more than its limit of {}",
                options.initial_bytes, options.limit_bytes
            )));
        }
        let file = place.create_file().map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => PoolError::Exists { path: path.into() },
            _ => PoolError::Io { path: path.into(), doing: "create the pool", source },
        })?;
        // From here on the file is ours: on any error it goes again.
        let take_back = |file: &File| drop(place.remove(file));
        let ours = file.try_clone().inspect_err(|_| take_back(&file));
        let ours = ours.map_err(io_error(path, "create the pool"))?;
        Self::create_in(place, file, options).inspect_err(|_| take_back(&ours))
    }

    fn create_in(place: &Place, file: File, options: &PoolOptions) -> Result<Self, PoolError> {
        let path = &*place.asked_path();
        let registered = Registered::lock(path, &file)?;
        if options.unfinished {
            // Once it is locked. On hugetlbfs it has to wait until the file is mapped.
            let _ = file.write_all_at(&mark(place.name()), MARK_AT);
        }
        let medium = medium_of(&file).map_err(io_error(path, "find the medium"))?;
        let domain = options.domain.unwrap_or(medium.natural);
        let modelled = !domain.is_given_by(medium.natural);
        if modelled && !options.model {
            return Err(PoolError::DomainTooStrong {
                path: path.into(),
                wanted: domain,
                natural: medium.natural,
                remedy: "ask for it as a model, or use another medium",
            });
        }
        let page = medium.page_bytes;
        let whole = |bytes: u64| bytes.checked_next_multiple_of(page);
        let (Some(size), Some(limit)) = (whole(options.initial_bytes), whole(options.limit_bytes))
        else {
            let why = "its limit is more than there are addresses".to_owned();
            return Err(PoolError::Sizes { path: path.into(), why });
        };
        reserve_space(&file, 0, size).map_err(io_error(path, "reserve space for the pool"))?;
        let header = Header {
            uuid: random_uuid(),
            boot_id: boot_to_store(path, options, survives_reboot(domain, modelled))?,
            sequence: 1,
            size,
            limit,
            domain,
            modelled,
            clean: false,
            epoch: Epoch::default(),
        };
        let pool = Self::map(
            place,
            file,
            header,
            None,
            medium,
            Access::ReadWrite,
            options,
            registered,
            true,
        )?;
        if options.unfinished {
            pool.copy(Off::new(MARK_AT), &mark(place.name()));
        }
        header.write(&pool);
        pool.0.collapse(0, size);
        pool.still_good("make the pool's header durable")?;
        place.sync_directory().map_err(io_error(path, "make the pool's name durable"))?;
        Ok(pool)
    }

    /// Opens a pool file.
    ///
    /// # Errors
    /// See [`PoolError`]; the file is unchanged then.
    pub fn open(path: &Path, options: &PoolOptions, access: Access) -> Result<Self, PoolError> {
        let place = Place::find(path).map_err(io_error(path, "find the pool"))?;
        Self::open_at(&place, options, access)
    }

    /// As [`Pool::open`], at a place.
    ///
    /// # Errors
    /// As [`Pool::open`].
    pub fn open_at(
        place: &Place,
        options: &PoolOptions,
        access: Access,
    ) -> Result<Self, PoolError> {
        let path = &*place.asked_path();
        let (file, registered) = open_locked(place, path, access)?;
        // Only now: until then somebody else may have let it grow.
        let file_bytes = file.metadata().map_err(io_error(path, "read the file's size"))?.len();
        let (header, damage) = header_of(path, &file, file_bytes)?;
        if file_bytes < header.size {
            return Err(PoolError::Truncated {
                path: path.into(),
                expected: header.size,
                found: file_bytes,
            });
        }
        if let Some(wanted) = options.domain
            && wanted != header.domain
        {
            return Err(PoolError::DomainDiffers {
                path: path.into(),
                stored: domain_text(header.domain, header.modelled),
                wanted: wanted.to_string(),
            });
        }
        let may_have_lost = access == Access::ReadWrite
            && !header.clean
            && !options.accept_loss
            && !survives_reboot(header.domain, header.modelled);
        if may_have_lost && this_boot(path, options)? != header.boot_id {
            let domain = domain_text(header.domain, header.modelled);
            return Err(PoolError::Rebooted { path: path.into(), domain });
        }
        let medium = medium_of(&file).map_err(io_error(path, "find the medium"))?;
        // Whoever only looks, at a copy say, relies on no promise.
        let promises = access == Access::ReadWrite && !header.modelled;
        if promises && !header.domain.is_given_by(medium.natural) {
            return Err(PoolError::DomainTooStrong {
                path: path.into(),
                wanted: header.domain,
                natural: medium.natural,
                remedy: "copy it to a medium that keeps its domain, or take it over to one with `perdura pool check FILE --repair-into NEW`",
            });
        }
        if access == Access::ReadWrite {
            holes::fill(path, &file, header.size, &medium)?;
        }
        Self::map(place, file, header, damage, medium, access, options, registered, false)
    }

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
        let mut header = self.0.header.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
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
    pub fn settle(&self) -> Result<(), PoolError> {
        let mut header = self.0.header.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
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
    fn still_good(&self, doing: &'static str) -> Result<(), PoolError> {
        self.healthy().map_err(|bad| {
            let path = self.0.info.path.clone();
            PoolError::Io { path, doing, source: io::Error::other(bad.to_string()) }
        })
    }

    /// Where the pool has its name.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// Removes the pool's file, to take a creation back that failed half-way. Something else that has
    /// got its name stays.
    ///
    /// # Errors
    /// The kernel refuses, or the file has lost its name.
    pub fn discard(&self) -> io::Result<()> {
        self.0.place.remove(&self.0.file)
    }

    /// The pool's file by its name. Unlike the pool it keeps nobody out.
    ///
    /// # Errors
    /// The file has lost its name, or the kernel refuses.
    pub fn named(&self) -> io::Result<Named> {
        Named::of(&self.0.place, &self.0.file)
    }

    /// Makes the place free of a pool, and of a directory with files, that an attempt which was cut off
    /// has left unfinished.
    ///
    /// # Errors
    /// Why it is not free.
    pub fn sweep(place: &Place, directory: &Place) -> Result<(), Left> {
        sweep(place, MARK_AT, Some(directory))
    }

    /// Removes the mark of a pool that is finished and has its name. Where that fails nothing is lost:
    /// the mark is that of another name.
    pub fn remove_mark(place: &Place) {
        let opened = place.open(rustix::fs::OFlags::RDWR);
        let _ = opened.and_then(|file| file.write_all_at(&[0; MARK_BYTES], MARK_AT));
    }

    /// Finds out whether the path that was asked for still leads to the pool.
    ///
    /// # Errors
    /// [`PoolError::Removed`] or [`PoolError::Elsewhere`].
    pub fn check_path(&self) -> Result<(), PoolError> {
        let path = self.0.info.path.clone();
        PoolError::of_whereabouts(path, self.0.place.whereabouts(&self.0.file))
    }

    #[expect(clippy::too_many_arguments, reason = "the one place where a handle is put together")]
    fn map(
        place: &Place,
        file: File,
        header: Header,
        header_damage: Option<HeaderDamage>,
        medium: Medium,
        access: Access,
        options: &PoolOptions,
        registered: Registered,
        new: bool,
    ) -> Result<Self, PoolError> {
        let path = &*place.asked_path();
        let instruction = match header.domain {
            Domain::Adr => Some(
                FlushInstruction::detect()
                    .map_err(|why| PoolError::Sizes { path: path.into(), why })?,
            ),
            _ => None,
        };
        let whole = |bytes: u64| bytes.is_multiple_of(medium.page_bytes);
        if medium.page_bytes > page_bytes() && !(whole(header.size) && whole(header.limit)) {
            let (size, page) = (header.size, medium.page_bytes);
            let why = format!(
                "its size of {size} bytes or its limit is no multiple of the {page} bytes of a page on {}; back it up and restore it there",
                medium.name
            );
            return Err(PoolError::Sizes { path: path.into(), why });
        }
        let alignment = medium.page_bytes.max(HUGE_PAGE_BYTES);
        let room = if access == Access::Inspect { 0 } else { header.limit - header.size };
        let mapping = addresses(header.size, room, alignment, new).map_err(io_error(
            path,
            match new {
                true => "reserve addresses up to its limit; a smaller `pool_limit` needs fewer",
                false => "reserve addresses for it; the process may have no more (`ulimit -v`)",
            },
        ))?;
        let sharing = match access {
            Access::Inspect => Sharing::Private,
            Access::ReadWrite if medium.maps_synchronously() => Sharing::Synchronous,
            Access::ReadWrite => Sharing::Shared,
        };
        mapping
            .map_file(&file, Range::new(0, header.size), sharing)
            .map_err(io_error(path, "map the pool"))?;
        if access == Access::Inspect {
            holes::cover(&mapping, &file, header.size, &medium);
        }
        mapping.set_len(header.size);
        let file_bytes = file.metadata().map_err(io_error(path, "read the file's size"))?.len();
        let mode = match (access, header.domain, instruction) {
            (Access::Inspect, ..) | (_, Domain::Process | Domain::Eadr, _) => Mode::Nothing,
            (_, Domain::Adr, Some(FlushInstruction::Clwb)) => Mode::Clwb,
            _ => Mode::Other,
        };
        // Elsewhere the kernel does it by itself, or not at all.
        let medium_is_tmpfs = medium.name == "tmpfs";
        let mut shared = Shared {
            mode: AtomicU8::new(mode as u8),
            fences: access == Access::ReadWrite && header.domain != Domain::Process,
            health: Health::new(mapping.base(), header.size, &file, sharing),
            forks: fork_generation(),
            counting: AtomicBool::new(false),
            domain: header.domain,
            instruction,
            tally: Tally::default(),
            notes: Notes::default(),
            place: place.clone(),
            file,
            header: Mutex::new(header),
            info: PoolInfo {
                path: path.into(),
                header,
                header_damage,
                medium,
                flush: instruction,
                tail_bytes: file_bytes - header.size,
            },
            access,
            sharing,
            huge_pages: options.huge_pages && medium_is_tmpfs,
            watch: None,
            registered: Some(registered),
            mapping,
        };
        if options.catch_media_errors {
            // It moves into the Arc below, so it is watched only once it is there.
            let mut arc = Arc::new(shared);
            let watch = Watch::new(arc.mapping.base(), arc.mapping.reserved(), &arc.health);
            if let Some(own) = Arc::get_mut(&mut arc) {
                own.watch = watch;
            }
            return Ok(Self(arc));
        }
        shared.watch = None;
        Ok(Self(Arc::new(shared)))
    }

    /// What is known of the pool.
    pub fn info(&self) -> &PoolInfo {
        &self.0.info
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.0.mapping
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

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        self.0.tally.snapshot()
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
        let mut header = self.0.header.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        header.clean = true;
        header.epoch = epoch.unwrap_or(header.epoch);
        header.sequence += 1;
        header.write(self);
        drop(header);
        self.still_good(doing)?;
        self.sync_file(doing)
    }

    #[cold]
    #[inline(never)]
    fn flush_slowly(&self, at: Range) {
        let shared = &*self.0;
        if at.len == 0 {
            return;
        }
        let (first, end) = at.lines();
        if shared.counting.load(Ordering::Relaxed) && shared.fences && shared.domain != Domain::Eadr
        {
            bump(&shared.tally.flushed_lines, end - first);
            bump(&shared.tally.bytes_persisted, (end - first) * LINE_BYTES);
        }
        match (shared.access, shared.domain) {
            (Access::ReadWrite, Domain::Adr) => {
                let Some(instruction) = shared.instruction else { return };
                assert!(end * LINE_BYTES <= shared.mapping.len().next_multiple_of(LINE_BYTES));
                // SAFETY: the lines lie within the mapping; the instruction was detected.
                unsafe { instruction.write_back(shared.mapping.base(), first, end) };
            }
            (Access::ReadWrite, Domain::Disk) => self.note_pages(at),
            _ => compiler_fence(Ordering::SeqCst),
        }
    }

    /// Notes the pages of a range for the next sync.
    #[inline(never)]
    fn note_pages(&self, at: Range) {
        let page = page_bytes();
        let start = at.start / page * page;
        self.0.notes.add(Range::new(start, at.end().next_multiple_of(page) - start));
    }

    #[cold]
    #[inline(never)]
    fn fence_slowly(&self) {
        let shared = &*self.0;
        if !shared.fences {
            return;
        }
        if shared.counting.load(Ordering::Relaxed) {
            bump(&shared.tally.fences, 1);
        }
        if shared.domain == Domain::Disk {
            self.sync_pages();
        } else {
            store_fence();
        }
    }

    /// Syncs the noted pages. Apart from [`Self::fence_slowly`], which would have to save registers
    /// for it.
    #[inline(never)]
    fn sync_pages(&self) {
        let shared = &*self.0;
        shared.notes.sync(|range| {
            let len = range.len.min(shared.mapping.len() - range.start);
            // SAFETY: the pages lie within the mapping.
            let result = unsafe {
                libc::msync(
                    shared.mapping.base().add(range.start as usize).cast(),
                    len as usize,
                    libc::MS_SYNC,
                )
            };
            if shared.counting.load(Ordering::Relaxed) {
                bump(&shared.tally.syncs, 1);
            }
            if result != 0 {
                // What a failed sync left behind is unknown: acknowledge nothing any more.
                shared.health.poison();
            }
        });
    }
}

impl Memory for Pool {
    const DURABLE: bool = true;
    type View<'a> = NativeView<'a>;

    #[inline]
    fn len(&self) -> u64 {
        self.0.mapping.len()
    }

    fn grow(&self, to: u64) -> Result<(), GrowError> {
        let shared = &*self.0;
        let mut header = shared.header.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let from = shared.mapping.len();
        if to <= from {
            return Ok(());
        }
        if to > header.limit {
            return Err(GrowError::Limit { limit: header.limit });
        }
        let most = header.limit.min(shared.mapping.reserved());
        if to > most {
            return Err(GrowError::Addresses { wanted: to });
        }
        let to = grown(from, to, most, shared.info.medium.page_bytes);
        let medium = |source| GrowError::Medium { wanted: to, source };
        if shared.health.is_poisoned() {
            return Err(medium(io::Error::other(Bad::Poisoned)));
        }
        let file_bytes = shared.file.metadata().map_err(medium)?.len();
        if file_bytes > from {
            // A growth that a crash cut off, or bytes that somebody appended: new space is zero.
            shared.file.set_len(from).map_err(medium)?;
        }
        if let Err(source) = reserve_space(&shared.file, from, to - from) {
            let _ = shared.file.set_len(from);
            return Err(medium(source));
        }
        shared
            .mapping
            .map_file(&shared.file, Range::new(from, to - from), shared.sharing)
            .map_err(medium)?;
        if !shared.health.has_grown(to) {
            return Err(medium(io::Error::other(Bad::Poisoned)));
        }
        if shared.domain != Domain::Process && !header.modelled {
            // The file's length must be durable before anything in the new part is. A sync that fails
            // may have lost what was stored elsewhere, too: acknowledge nothing any more.
            shared.file.sync_all().map_err(|source| {
                shared.health.poison();
                medium(source)
            })?;
        }
        header.size = to;
        header.sequence += 1;
        header.write(self);
        if shared.health.is_poisoned() {
            return Err(medium(io::Error::other("a sync of the pool's header failed")));
        }
        shared.mapping.set_len(to);
        shared.collapse(from, to);
        Ok(())
    }

    #[inline]
    fn healthy(&self) -> Result<(), Bad> {
        if self.0.forks != fork_generation() {
            return Err(Bad::Forked);
        }
        if self.0.health.is_poisoned() { Err(Bad::Poisoned) } else { Ok(()) }
    }

    #[inline]
    fn read<T: Pod>(&self, at: Off<T>) -> Result<T, Bad> {
        self.0.mapping.read(at)
    }

    #[inline]
    fn read_into(&self, at: Off<u8>, out: &mut [u8]) -> Result<(), Bad> {
        self.0.mapping.read_into(at, out)
    }

    #[inline]
    fn view(&self, at: Range) -> Result<NativeView<'_>, Bad> {
        self.0.mapping.view(at)
    }

    #[inline]
    fn gather(&self, parts: &[Range], out: &mut [u8]) -> Result<(), Bad> {
        self.0.mapping.gather(parts, out)
    }

    #[inline]
    fn load(&self, at: Off<u64>, order: Ordering) -> Result<u64, Bad> {
        self.0.mapping.load(at, order)
    }

    #[inline]
    fn store(&self, at: Off<u64>, value: u64) {
        self.0.mapping.store(at, value);
    }

    #[inline]
    fn cas(&self, at: Off<u64>, old: u64, new: u64) -> Result<u64, u64> {
        self.0.mapping.cas(at, old, new)
    }

    #[inline]
    fn copy(&self, at: Off<u8>, src: &[u8]) {
        self.0.mapping.copy(at, src);
    }

    #[inline]
    fn flush(&self, at: Range) {
        let mode = self.0.mode.load(Ordering::Relaxed);
        if mode == Mode::Clwb as u8 {
            let (first, end) = at.lines();
            assert!(end * LINE_BYTES <= self.0.mapping.len());
            compiler_fence(Ordering::SeqCst);
            // SAFETY: the lines lie within the mapping; CLWB was detected.
            unsafe {
                FlushInstruction::Clwb.write_back(self.0.mapping.base(), first, end);
            }
        } else if mode == Mode::Nothing as u8 {
            compiler_fence(Ordering::SeqCst);
        } else {
            self.flush_slowly(at);
        }
    }

    #[inline]
    fn fence(&self) {
        if self.0.mode.load(Ordering::Relaxed) == Mode::Clwb as u8 {
            store_fence();
            compiler_fence(Ordering::SeqCst);
        } else {
            self.fence_slowly();
        }
    }

    #[inline]
    fn prefetch(&self, at: Range) {
        self.0.mapping.prefetch(at);
    }
}

/// Addresses for a pool of `size` bytes, and for up to `room` more, of which a process whose addresses
/// are limited takes half of what there is. An older pool opens with fewer, too, where the kernel has
/// not as many.
fn addresses(size: u64, room: u64, alignment: u64, new: bool) -> io::Result<Mapping> {
    let most = addresses_left().map_or(room, |left| room.min(left.saturating_sub(size) / 2));
    let mut room = most / page_bytes() * page_bytes();
    loop {
        match Mapping::reserve_aligned(size + room, alignment) {
            Err(error) if new || room == 0 || error.kind() != io::ErrorKind::OutOfMemory => {
                return Err(error);
            }
            Err(_) => room = room / 2 / page_bytes() * page_bytes(),
            reserved => return reserved,
        }
    }
}

/// Whether what is written survives a reboot. A model promises no more than a process pool, whatever
/// its medium keeps.
fn survives_reboot(domain: Domain, modelled: bool) -> bool {
    domain != Domain::Process && !modelled
}

/// The size of a memory of `from` bytes that is to have `to` bytes at least: it grows in steps of a
/// 128th, so that growing is rare and the space reserved ahead stays small.
pub(crate) fn grown(from: u64, to: u64, limit: u64, page: u64) -> u64 {
    let step = (from / 128).next_multiple_of(page).max(64 << 10);
    to.max(from + step).next_multiple_of(page).min(limit)
}

pub(crate) fn page_bytes() -> u64 {
    // SAFETY: asks for a constant.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Order matters: stop watching before the addresses go, let others in last. The file's
        // lock goes with its descriptor, so it must be closed before the registry forgets it.
        self.watch = None;
        unlock(&self.file, self.forks);
        self.registered = None;
    }
}

// An interpreter has no files to map.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn what_its_medium_does_not_promise_can_be_looked_at_but_not_opened() {
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
    fn what_grows_while_the_medium_fails_leaves_the_file_with_the_rest() {
        let directory = tempfile::tempdir().unwrap();
        for round in 0..60 {
            let path = directory.path().join(format!("pool-{round}"));
            let domain = Some(Domain::Process);
            let options = PoolOptions { initial_bytes: 64 << 10, domain, ..PoolOptions::default() };
            let pool = Pool::create(&path, &options).unwrap();
            let failed = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while pool.grow(pool.len() + 1).is_ok() {
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
