//! A pool that is being made, with the directories that belong to it.
//!
//! Invariants:
//! - Until it is finished its file is called `<name>.perdura-new`: under its own name there is a whole pool
//!   or none.
//! - Only the process that has that file locked makes a pool of this name, and only while the name is free.
//!   It is locked from its creation until it is finished or removed, also while the pool is closed: nothing is
//!   removed here without that lock.
//! - A directory that belongs to it has a file from its first one on that says so by the pool's uuid, and
//!   the pool's header is durable before that. So the next attempt knows what one that was cut off has left,
//!   and removes nothing else.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::file::header_of;
use super::{Access, Pool, PoolOptions};
use crate::domain::Domain;
use crate::error::{PoolError, io_error};
use crate::files::HostFiles;
use crate::header::POOL_DATA_START;
use crate::memory::Memory;
use crate::names::UNFINISHED;
use crate::offset::Off;
use crate::pairing::Pairing;
use crate::place::{Named, Place};
use crate::registry::LockedFile;
use crate::unfinished::{Left, MARK_BYTES, MARK_IN_POOL, Unfinished, create, sweep};

/// A pool that is being made; see the module's comment. Dropping it removes what was made.
#[derive(Debug)]
pub struct NewPool {
    place: Place,
    unfinished: Unfinished,
    /// Dropped last: what is removed is removed under the lock. Handles of the pool share it.
    file: Arc<LockedFile>,
}

impl Pool {
    /// Creates a pool file. Its contents after the header are zero.
    ///
    /// # Errors
    /// See [`PoolError`]; where creating failed no file is left.
    pub fn create(path: &Path, options: &PoolOptions) -> Result<Self, PoolError> {
        Self::create_at(&Place::of(path).map_err(io_error(path, "create the pool"))?, options)
    }

    /// As [`Pool::create`], at a place.
    ///
    /// # Errors
    /// As [`Pool::create`].
    pub fn create_at(place: &Place, options: &PoolOptions) -> Result<Self, PoolError> {
        let (new, pool) = NewPool::begin(place, &[], options)?;
        new.finish(Some(&pool))?;
        Ok(pool)
    }
}

impl NewPool {
    /// Begins a pool. What an attempt to make one here has left that was cut off is removed, with the files
    /// in these directories that belong to it.
    ///
    /// # Errors
    /// See [`PoolError`]; nothing is left then.
    pub fn begin(
        place: &Place,
        directories: &[Place],
        options: &PoolOptions,
    ) -> Result<(Self, Pool), PoolError> {
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
        let is_free = || match place.is_taken() {
            Ok(false) => Ok(()),
            Ok(true) => Err(PoolError::Exists { path: path.into() }),
            Err(error) => Err(io_error(path, "create the pool")(error)),
        };
        is_free()?;
        let own = place.with_suffix(UNFINISHED);
        let make = || {
            let (file, registered) = create(&own, &mut |left| clear(left, directories))?;
            let named = Named::of(&own, &file).inspect_err(|_| drop(own.remove(&file)))?;
            Ok((LockedFile::new(file, registered), Some(named)))
        };
        let begun = Unfinished::begin(make).map_err(|left| in_the_way(place, left));
        let (unfinished, file) = begun?;
        let new = Self { place: place.clone(), unfinished, file: Arc::new(file) };
        // Another process may have finished one meanwhile; from now on none can.
        is_free()?;
        let pool = Pool::create_in(place, new.file.clone(), options)?;
        Ok((new, pool))
    }

    /// Makes a directory with files of a domain, which is modelled or not, that belongs to the pool. It goes if the pool is not finished, or what
    /// is in it, if it was there before.
    ///
    /// # Errors
    /// As [`HostFiles::create`].
    pub fn add_directory(
        &self,
        pool: &Pool,
        place: Place,
        (domain, modelled): (Domain, bool),
    ) -> io::Result<HostFiles> {
        // It is of no use to remember whose files they are if that can be lost.
        pool.0.file.sync_all()?;
        self.place.sync_directory()?;
        self.unfinished.add_directory(|| {
            let files = HostFiles::create_at(place, domain, modelled)?;
            let named = files.named().inspect_err(|_| drop(files.discard()))?;
            Ok((files, named))
        })
    }

    /// Opens the pool once more, when it has been closed.
    ///
    /// # Errors
    /// As [`Pool::open`]; [`PoolError::InUse`] while an earlier handle is there.
    pub fn open(&mut self, options: &PoolOptions) -> Result<Pool, PoolError> {
        self.check_closed()?;
        Pool::open_in(&self.place, self.file.clone(), true, options, Access::ReadWrite)
    }

    /// Checks that no handle of the pool is there, and that its file has its name.
    fn check_closed(&self) -> Result<(), PoolError> {
        let path = self.place.asked_path();
        if Arc::strong_count(&self.file) > 1 {
            return Err(PoolError::InUse { path, holder: "by this process".into() });
        }
        let own = self.place.with_suffix(UNFINISHED);
        PoolError::of_whereabouts(own.asked_path(), own.whereabouts_here(&self.file))
    }

    /// Gives the pool its name, durably. All that belongs to it is durable. `pool` is its handle, unless it
    /// has been closed.
    ///
    /// # Errors
    /// [`PoolError::Exists`], if something has got its name; the kernel refuses. Nothing is left then.
    pub fn finish(self, pool: Option<&Pool>) -> Result<(), PoolError> {
        let path = &*self.place.asked_path();
        let doing = io_error(path, "give the pool its name");
        if pool.is_none() {
            self.check_closed()?;
        }
        let Self { place, unfinished, file: own } = self;
        unfinished.finish(|file| {
            let file = file.expect("it was begun with one");
            file.rename_new(place.clone()).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => PoolError::Exists { path: path.into() },
                _ => doing(error),
            })?;
            place.sync_directory().map_err(&doing)
        })?;
        // It is the mark of another name, so nothing depends on it: it need not be durable, and where this
        // fails nothing is lost.
        match pool {
            Some(pool) => {
                pool.0.is_new.store(false, Ordering::Release);
                pool.copy(Off::new(MARK_IN_POOL), &[0; MARK_BYTES]);
            }
            None => drop(own.write_all_at(&[0; MARK_BYTES], MARK_IN_POOL)),
        }
        Ok(())
    }

    /// Makes a place free of what an attempt to make a pool there has left that was cut off.
    ///
    /// # Errors
    /// The reason why it is not free, and the place that is meant.
    pub fn sweep(place: &Place, directories: &[Place]) -> Result<(), (Place, Left)> {
        let own = place.with_suffix(UNFINISHED);
        sweep(&own, None, &mut |left| clear(left, directories)).map_err(|left| (own, left))
    }
}

/// The error of what is in the place of a new pool.
fn in_the_way(place: &Place, left: Left) -> PoolError {
    let path = place.asked_path();
    match left {
        Left::InUse(holder) => {
            PoolError::InUse { path, holder: format!("{holder}, which is creating it") }
        }
        Left::Foreign => PoolError::InTheWay { path: place.with_suffix(UNFINISHED).asked_path() },
        Left::Io(source) => PoolError::Io { path, doing: "create the pool", source },
    }
}

/// Removes the files in directories that belong to the pool in a file that was left. The directories stay:
/// they may have been there before.
fn clear(left: &File, directories: &[Place]) -> io::Result<()> {
    let bytes = left.metadata()?.len();
    let Ok((header, _)) = header_of(Path::new(""), left, bytes) else { return Ok(()) };
    for directory in directories {
        let files = match directory.clone().resolve_links().and_then(HostFiles::look_at) {
            Ok(files) => files,
            // It was not made, or is something else's.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                continue;
            }
            Err(error) => return Err(error),
        };
        if Pairing::belong(&files, header.uuid)? {
            files.clear()?;
        }
    }
    Ok(())
}
