//! Holes: parts of a pool's file that have no space on the medium, as a sparse copy, `rsync -S` or a
//! restore tool leaves them.
//!
//! Stored to through a mapping while the medium is full, a hole gives SIGBUS, as a media error does.
//! So opening a pool to write to it reserves space for them; what the file reads as does not change.
//!
//! Looking for holes must not take time where there are none:
//!
//! - tmpfs has to look at every page, and takes reserved ones that were not stored to for holes. But
//!   it counts its pages exactly: if there are as many as the pool has, there is no hole.
//! - A file system on a disk goes by its extents, which are few. It takes reserved space that
//!   was not stored to for a hole as well; to reserve that again is cheap.
//! - hugetlbfs reserves what is mapped when it is mapped.
//!
//! Where a file system says nothing of holes (NFS before 4.2, some of FUSE), or moves what is stored
//! anew to another place (btrfs, bcachefs, ZFS, shared extents of XFS), nothing can be reserved, and a
//! full medium is a media error. Nothing that was acknowledged is lost by that: see `poison`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crate::error::PoolError;
use crate::error::io_error;
use crate::limits::{check_file_size, largest_file};
use crate::mapping::Mapping;
use crate::media::{Medium, room};
use crate::offset::Range;
use crate::space::reserve_existing;

/// Holes that are covered when a pool is looked at, at most: the kernel has a limit of mappings.
const MOST_COVERED: usize = 10_000;

/// Reserves space for what the first `size` bytes of a pool's file lack.
///
/// # Errors
/// There is no room. What the file reads as has not changed.
pub(super) fn fill(path: &Path, file: &File, size: u64, medium: &Medium) -> Result<(), PoolError> {
    let meta = file.metadata().map_err(io_error(path, "read the file's size"))?;
    let stored = meta.blocks().saturating_mul(512);
    if !may_have_holes(medium, size, stored) {
        return Ok(());
    }
    let found: Vec<Range> = Holes { file, at: 0, end: size }.collect();
    // Either may be too large: reserved space that was never stored to counts as a hole, and what is
    // compressed has fewer blocks than bytes.
    let missing = found.iter().map(|hole| hole.len).sum::<u64>().min(size.saturating_sub(stored));
    let room = room(file).map_err(io_error(path, "find how much room its medium has"))?;
    let no_room =
        |source| PoolError::Holes { path: path.into(), missing, free: room.for_everybody, source };
    // Not every file system gives back what it has reserved before it finds that there is no room.
    if room.for_root < missing {
        return Err(no_room(io::ErrorKind::StorageFull.into()));
    }
    for hole in found {
        reserve(file, hole).map_err(|error| match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => no_room(error),
            _ => io_error(path, "reserve space for holes in the pool")(error),
        })?;
    }
    Ok(())
}

/// Covers the holes of a pool that is only looked at. On tmpfs reading a hole through a mapping asks
/// for a page, which a full medium has not.
pub(super) fn cover(mapping: &Mapping, file: &File, size: u64, medium: &Medium) {
    let stored = file.metadata().map_or(u64::MAX, |meta| meta.blocks().saturating_mul(512));
    if medium.name == "tmpfs" && stored < size {
        Holes { file, at: 0, end: size }.take(MOST_COVERED).for_each(|hole| mapping.cover(hole));
    }
}

fn may_have_holes(medium: &Medium, size: u64, stored: u64) -> bool {
    match &*medium.name {
        "tmpfs" => stored < size,
        "hugetlbfs" => false,
        _ => true,
    }
}

fn reserve(file: &File, hole: Range) -> io::Result<()> {
    match reserve_existing(file, hole) {
        // ext4 with files from before it had extents, for one.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => write_zeros(file, hole),
        done => done,
    }
}

/// Zeros in the place of a hole: nothing reads differently.
fn write_zeros(file: &File, hole: Range) -> io::Result<()> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    check_file_size(hole.end(), largest_file())?;
    let mut at = hole.start;
    while at < hole.end() {
        let len = (hole.end() - at).min(ZEROS.len() as u64);
        file.write_all_at(&ZEROS[..len as usize], at)?;
        at += len;
    }
    Ok(())
}

/// The holes between two places of a file, whose end counts as one.
struct Holes<'f> {
    file: &'f File,
    at: u64,
    end: u64,
}

impl Holes<'_> {
    /// The first byte from `at` on that is one of a hole, or is not; the end if the kernel knows none.
    fn seek(&self, at: u64, what: libc::c_int) -> u64 {
        let Ok(from) = libc::off_t::try_from(at) else { return self.end };
        // SAFETY: the descriptor is open; nothing goes by its position.
        let found = unsafe { libc::lseek(self.file.as_raw_fd(), from, what) };
        u64::try_from(found).map_or(self.end, |found| found.min(self.end))
    }
}

impl Iterator for Holes<'_> {
    type Item = Range;

    fn next(&mut self) -> Option<Range> {
        let start = self.seek(self.at, libc::SEEK_HOLE);
        if start >= self.end {
            return None;
        }
        self.at = self.seek(start, libc::SEEK_DATA);
        // A file system that answers otherwise would go on for ever.
        (self.at > start).then(|| Range::new(start, self.at - start))
    }
}

// An interpreter has no files to map.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::{Access, Memory, Off, POOL_DATA_START, Pool, PoolOptions};

    const BYTES: u64 = 1 << 20;

    /// A pool with words far from each other.
    fn pool(path: &Path) -> Pool {
        let options = PoolOptions { initial_bytes: BYTES, ..PoolOptions::default() };
        let pool = Pool::create(path, &options).unwrap();
        for at in [POOL_DATA_START, BYTES / 2, BYTES - 8] {
            pool.store(Off::new(at), at);
        }
        pool
    }

    /// Makes a copy as `cp --sparse=always` does.
    fn sparse_copy(from: &Path, to: &Path) {
        let bytes = std::fs::read(from).unwrap();
        let copy = File::create(to).unwrap();
        copy.set_len(bytes.len() as u64).unwrap();
        for (at, page) in (0u64..).step_by(4096).zip(bytes.chunks(4096)) {
            if page.iter().any(|byte| *byte != 0) {
                copy.write_all_at(page, at).unwrap();
            }
        }
    }

    fn stored(path: &Path) -> u64 {
        std::fs::metadata(path).unwrap().blocks() * 512
    }

    #[test]
    fn a_sparse_copy_has_all_its_space_once_it_is_open() {
        let place = tempfile::tempdir().unwrap();
        let (path, copy) = (place.path().join("pool"), place.path().join("copy"));
        pool(&path).close().unwrap();
        sparse_copy(&path, &copy);
        let before = std::fs::read(&copy).unwrap();
        assert!(stored(&copy) < BYTES / 2, "this file system knows no holes");
        let looked = Pool::open(&copy, &PoolOptions::default(), Access::Inspect).unwrap();
        assert_eq!(looked.read(Off::<u64>::new(BYTES / 2)), Ok(BYTES / 2));
        assert_eq!(looked.read(Off::<u64>::new(BYTES / 4)), Ok(0));
        drop(looked);
        assert!(stored(&copy) < BYTES / 2, "looking at it changes nothing");
        drop(Pool::open(&copy, &PoolOptions::default(), Access::ReadWrite).unwrap());
        assert!(stored(&copy) >= BYTES, "nothing can be missing any more");
        assert!(std::fs::read(&copy).unwrap() == before);
    }

    #[test]
    fn a_sparse_copy_without_room_is_refused_unchanged() {
        // More than any disk of a machine that runs tests, and less than a file can have.
        const HUGE: u64 = 12 << 40;
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("pool");
        let pool = pool(&path);
        let mut header = pool.info().header;
        (header.size, header.limit) = (HUGE, HUGE);
        header.sequence += 1;
        header.write(&pool);
        drop(pool);
        File::options().write(true).open(&path).unwrap().set_len(HUGE).unwrap();
        let before = stored(&path);
        let error = Pool::open(&path, &PoolOptions::default(), Access::ReadWrite).unwrap_err();
        let PoolError::Holes { missing, free, .. } = &error else { panic!("{error}") };
        assert!(*missing > HUGE - 2 * BYTES && *missing < HUGE && free < missing, "{error}");
        assert!(error.to_string().contains(&missing.to_string()), "{error}");
        assert_eq!(stored(&path), before);
        let looked = Pool::open(&path, &PoolOptions::default(), Access::Inspect).unwrap();
        assert_eq!(looked.read(Off::<u64>::new(BYTES / 2)), Ok(BYTES / 2));
    }

    #[test]
    fn holes_are_found_where_they_are() {
        let place = tempfile::tempdir().unwrap();
        let file = File::create_new(place.path().join("file")).unwrap();
        file.set_len(BYTES).unwrap();
        let holes = |end| Holes { file: &file, at: 0, end }.collect::<Vec<_>>();
        assert_eq!(holes(BYTES), [Range::new(0, BYTES)]);
        file.write_all_at(&[1; 8192], BYTES / 2).unwrap();
        let after = BYTES / 2 + 8192;
        assert_eq!(holes(BYTES), [Range::new(0, BYTES / 2), Range::new(after, BYTES - after)]);
        assert_eq!(holes(BYTES / 4), [Range::new(0, BYTES / 4)]);
        write_zeros(&file, Range::new(0, BYTES / 2)).unwrap();
        assert_eq!(holes(BYTES), [Range::new(after, BYTES - after)]);
    }
}
