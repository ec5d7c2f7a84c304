//! Creating and opening a pool.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use super::file::{boot_to_store, header_of, open_locked, this_boot};
use super::notes::Notes;
use super::options::{Access, PoolOptions};
use super::{Mode, Pool, PoolInfo, Shared, domain_text, holes, survives_reboot};
use crate::counters::Tally;
use crate::domain::Domain;
use crate::epoch::Epoch;
use crate::error::{PoolError, io_error};
use crate::flush::{FlushInstruction, LineStore};
use crate::header::{Header, HeaderDamage};
use crate::limits::{addresses_left, page_bytes};
use crate::mapping::{HUGE_PAGE_BYTES, Mapping, Sharing};
use crate::media::{Medium, medium_of};
use crate::memory::Memory;
use crate::names::UNFINISHED;
use crate::offset::{Off, Range};
use crate::place::Place;
use crate::poison::{Health, Watch, fork_generation};
use crate::random::random_uuid;
use crate::registry::LockedFile;
use crate::space::reserve_space;
use crate::unfinished::{MARK_BYTES, MARK_IN_POOL, mark};

impl Pool {
    /// Makes a pool of a locked file that has the name of an unfinished one.
    pub(super) fn create_in(
        place: &Place,
        file: Arc<LockedFile>,
        options: &PoolOptions,
    ) -> Result<Self, PoolError> {
        let path = &*place.asked_path();
        let mark = mark(place.with_suffix(UNFINISHED).name());
        // Durable before anything else is written: without it the file is not known for what it is. On
        // hugetlbfs, which keeps nothing over a power cut, it has to wait until the file is mapped.
        if file.write_all_at(&mark, MARK_IN_POOL).is_ok() {
            file.sync_all().map_err(io_error(path, "mark the pool as not finished"))?;
        }
        let medium = medium_of(&file).map_err(io_error(path, "find the medium"))?;
        let domain = options.domain.unwrap_or(medium.natural);
        let modelled = !domain.is_given_by(medium.natural);
        if modelled && !options.model {
            return Err(PoolError::DomainTooStrong {
                path: path.into(),
                wanted: domain,
                natural: medium.natural,
                remedy: "allow it to be modelled, or use another medium",
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
        let pool = Self::map(place, file, header, None, medium, Access::ReadWrite, options, true)?;
        pool.copy(Off::new(MARK_IN_POOL), &mark);
        pool.flush(Range::new(MARK_IN_POOL, MARK_BYTES as u64));
        pool.fence();
        header.write(&pool);
        pool.0.collapse(0, size);
        pool.still_good("make the pool's header durable")?;
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
        let file = Arc::new(open_locked(place, &place.asked_path(), access)?);
        Self::open_in(place, file, false, options, access)
    }

    /// As [`Pool::open_at`], of a file that is locked; it has the name of an unfinished pool, if it `is_new`.
    pub(super) fn open_in(
        place: &Place,
        file: Arc<LockedFile>,
        is_new: bool,
        options: &PoolOptions,
        access: Access,
    ) -> Result<Self, PoolError> {
        let path = &*place.asked_path();
        // Only now: until then another process may have let it grow.
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
        // An inspection, of a copy say, relies on no promise.
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
        let pool = Self::map(place, file, header, damage, medium, access, options, false)?;
        pool.0.is_new.store(is_new, Ordering::Relaxed);
        Ok(pool)
    }

    #[expect(clippy::too_many_arguments, reason = "the one place where a handle is put together")]
    fn map(
        place: &Place,
        file: Arc<LockedFile>,
        header: Header,
        header_damage: Option<HeaderDamage>,
        medium: Medium,
        access: Access,
        options: &PoolOptions,
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
            // What the kernel writes back of a page is no whole lines.
            line_store: LineStore::detect().filter(|_| header.domain != Domain::Disk),
            tally: Tally::default(),
            notes: Notes::default(),
            place: place.clone(),
            is_new: AtomicBool::new(new),
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
