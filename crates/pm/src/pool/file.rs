//! The file under a pool: what it is, and its header.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FileType, OFlags};

use super::{Access, PoolOptions};
use crate::error::{PoolError, io_error};
use crate::header::{FORMAT_VERSION, HEADER_BYTES, Header, HeaderDamage};
use crate::media::boot_id;
use crate::place::{Place, no_right, what};
use crate::registry::{LockedFile, Registered};

/// Opens the file of a pool and keeps everybody else out.
pub(super) fn open_locked(
    place: &Place,
    path: &Path,
    access: Access,
) -> Result<LockedFile, PoolError> {
    let flags = match access {
        Access::ReadWrite => OFlags::RDWR,
        Access::Inspect => OFlags::RDONLY,
    };
    loop {
        check_regular(place, path)?;
        let file = place.open(flags).map_err(|error| match (error.kind(), place.owner()) {
            (io::ErrorKind::PermissionDenied, Ok((owner, mode))) => {
                let why = format!("it {}", no_right(owner, mode));
                io_error(path, "open the pool")(io::Error::new(error.kind(), why))
            }
            _ => io_error(path, "open the pool")(error),
        })?;
        let registered = Registered::lock(path, &file)?;
        // What was removed or replaced before it was locked has no name, and there may be another
        // one.
        if place.leads_to(&file).map_err(io_error(path, "find the pool"))? {
            return Ok(LockedFile::new(file, registered));
        }
    }
}

fn check_regular(place: &Place, path: &Path) -> Result<(), PoolError> {
    let kind = place.kind().map_err(io_error(path, "find the pool"))?;
    if kind == FileType::RegularFile {
        return Ok(());
    }
    let what = what(kind);
    Err(PoolError::NotAFile { path: path.into(), what })
}

/// The header of a file of `bytes`, and what is wrong with the copy that was not used.
pub(super) fn header_of(
    path: &Path,
    file: &File,
    bytes: u64,
) -> Result<(Header, Option<HeaderDamage>), PoolError> {
    if bytes < HEADER_BYTES as u64 {
        return Err(PoolError::TooShort { path: path.into(), bytes });
    }
    let mut copies = [[0u8; HEADER_BYTES]; 2];
    let mut unreadable = None;
    for (copy, start) in copies.iter_mut().zip(crate::header::COPIES) {
        // A copy that is not there, or that the medium does not give back, stays zero, that is,
        // damaged: the other one may serve.
        match file.read_exact_at(copy, start) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => unreadable = Some(error),
            _ => {}
        }
    }
    let chosen = Header::choose([&copies[0], &copies[1]]);
    if let Some(error) = unreadable {
        let (header, _) = chosen.map_err(|_| io_error(path, "read the header")(error))?;
        return Ok((header, Some(HeaderDamage::Unreadable)));
    }
    chosen.map_err(|damage| match damage {
        HeaderDamage::Magic => PoolError::NotAPool { path: path.into() },
        HeaderDamage::OtherMachine(what) => PoolError::OtherMachine { path: path.into(), what },
        HeaderDamage::Version(found) => PoolError::Version {
            path: path.into(),
            found,
            supported: FORMAT_VERSION,
            hint: if found > FORMAT_VERSION {
                "; use a newer build"
            } else {
                "; carry it over: `perdura pool dump` with the build that wrote it, `perdura pool load` with this one"
            },
        },
        HeaderDamage::Features(flags) => PoolError::Features { path: path.into(), flags },
        HeaderDamage::Checksum | HeaderDamage::Field(_) | HeaderDamage::Unreadable => {
            PoolError::HeaderDamaged { path: path.into(), why: damage.what() }
        }
    })
}

/// The boot to write into a header. Of a pool that survives a reboot it is not asked for, so one
/// that the kernel does not say is zero there.
pub(super) fn boot_to_store(
    path: &Path,
    options: &PoolOptions,
    survives_reboot: bool,
) -> Result<[u8; 16], PoolError> {
    match this_boot(path, options) {
        Err(_) if survives_reboot => Ok([0; 16]),
        known => known,
    }
}

/// The boot that the machine is in.
pub(super) fn this_boot(path: &Path, options: &PoolOptions) -> Result<[u8; 16], PoolError> {
    #[cfg(test)]
    if tests::UNTOLD.get() {
        return Err(io_error(path, "find the machine's boot id")(io::ErrorKind::NotFound.into()));
    }
    match options.boot_id {
        Some(id) => Ok(id),
        None => boot_id().map_err(io_error(path, "find the machine's boot id")),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    thread_local! {
        /// The kernel does not say to this thread which boot it is.
        pub(super) static UNTOLD: Cell<bool> = const { Cell::new(false) };
    }

    // An interpreter has no files to map.
    #[cfg(not(miri))]
    #[test]
    fn which_boot_it_is_matters_only_where_a_reboot_does() {
        use super::super::Pool;
        use super::*;
        use crate::domain::Domain;

        let directory = tempfile::tempdir().unwrap();
        let options = |domain| PoolOptions {
            domain,
            initial_bytes: 1 << 20,
            limit_bytes: 1 << 30,
            ..PoolOptions::default()
        };
        // Process, a model, and the medium's own, which is a disk's where a tempdir is on one.
        for (name, domain, model) in [
            ("process", Some(Domain::Process), false),
            ("model", Some(Domain::Eadr), true),
            ("own", None, false),
        ] {
            let path = directory.path().join(name);
            let options = PoolOptions { model, ..options(domain) };
            UNTOLD.set(false);
            let pool = Pool::create(&path, &options).unwrap();
            let header = pool.info().header;
            let survives = header.domain != Domain::Process && !header.modelled;
            drop(pool);
            UNTOLD.set(true);
            let looked = Pool::open(&path, &options, Access::Inspect).unwrap();
            assert_eq!(looked.info().header.boot_id, header.boot_id);
            drop(looked);
            let again = directory.path().join(format!("{name}-again"));
            let error_of = |result: Result<Pool, PoolError>| {
                result.map(drop).map_err(|error| error.to_string())
            };
            let (open, create) = (
                error_of(Pool::open(&path, &options, Access::ReadWrite)),
                error_of(Pool::create(&again, &options)),
            );
            if survives {
                assert_eq!((open, create), (Ok(()), Ok(())));
                let pool = Pool::open(&path, &options, Access::ReadWrite).unwrap();
                pool.mark_open(&options).unwrap();
                drop(pool);
                UNTOLD.set(false);
                drop(Pool::open(&path, &options, Access::ReadWrite).unwrap());
            } else {
                assert!(open.unwrap_err().contains("boot id"), "{name}");
                assert!(create.unwrap_err().contains("boot id"), "{name}");
                assert!(!again.exists());
                // Accepting the loss opens it, but it cannot be marked with a boot.
                let accepting = PoolOptions { accept_loss: true, ..options.clone() };
                let pool = Pool::open(&path, &accepting, Access::ReadWrite).unwrap();
                assert!(pool.mark_open(&accepting).unwrap_err().to_string().contains("boot id"));
            }
        }
    }
}
