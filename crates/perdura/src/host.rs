//! A database on the host's file systems: a pool, and next to it a directory with the engine's
//! files.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engines::EngineError;
use engines::below::wal::WalError;
use engines::below::{
    Domain, Epoch, Files, FilesOf, HostFiles, IDENTITY, LastTransaction, LastTransactions, Pairing,
    Place, Pool, PoolError, PoolOptions, stamp_of,
};

use crate::error::Error;

/// The parts of a database on the host's file systems: its pool, and its directory of files.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) pool: Pool,
    pub(crate) files: Option<HostFiles>,
    /// The file in the directory that says whose the files are, open since the database is.
    pub(crate) pairing: Option<Pairing<HostFiles>>,
}

impl Host {
    /// Notes the last transaction of each partition, before the pool says that it is closed: see
    /// [`LastTransactions`].
    pub(crate) fn note_ends(&self, last: Vec<u64>) -> Result<(), Error> {
        let (Some(files), Some(pairing)) = (&self.files, &self.pairing) else { return Ok(()) };
        pairing.note_ends(last).map_err(at_identity(files))
    }

    /// Checks that the names still lead to what is closed here, since the next opening gets what
    /// they lead to.
    pub(crate) fn check_names(&self) -> Result<(), PoolError> {
        self.pool.check_path()?;
        match &self.files {
            Some(files) => PoolError::of_whereabouts(files.path().to_owned(), files.whereabouts()),
            None => Ok(()),
        }
    }
}

/// The suffix that a pool's name gets in the name of the directory with its files.
pub(crate) const FILES: &str = ".files";

/// The suffix that a database's name gets in the name of the directory with copies of another one's
/// files, while it is made of them.
pub(crate) const COPIES: &str = ".salvage";

/// The directories in which there may be files of a database at a place.
pub(crate) fn belonging(place: &Place) -> [Place; 2] {
    [FILES, COPIES].map(|suffix| place.with_suffix(suffix))
}

/// The files that belong to a pool, to work with them; they are not open elsewhere. If a symbolic
/// link led to the pool, they lie next to the pool itself.
pub(crate) fn files_of(pool: &Pool, engine: &str) -> Result<HostFiles, Error> {
    let header = pool.info().header;
    let open = |place| HostFiles::open_at(place, header.domain, header.modelled);
    let files = files_beside(pool, engine, open)?;
    files.lock()?;
    Ok(files)
}

/// The files that belong to a pool, to read them.
pub(crate) fn look_at_files_of(pool: &Pool, engine: &str) -> Result<HostFiles, Error> {
    files_beside(pool, engine, HostFiles::look_at)
}

/// Returns whether files belong to a pool, and to the pool as it is.
pub(crate) fn pair(pool: &Pool, files: &HostFiles) -> Result<Pairing<HostFiles>, Error> {
    let header = pool.info().header;
    files.set_stamp(stamp_of(header.uuid));
    let checked = open_pairing(files)?.and_then(|pairing| {
        pairing.check(header.uuid, header.epoch)?;
        Ok(pairing)
    });
    checked.map_err(|whose| other_files(pool, files.path(), whose))
}

fn open_pairing(files: &HostFiles) -> Result<Result<Pairing<HostFiles>, FilesOf>, Error> {
    Pairing::open(files).map_err(at_identity(files))
}

fn at_identity(files: &HostFiles) -> impl Fn(std::io::Error) -> Error + use<> {
    let path = files.path().join(IDENTITY).display().to_string();
    move |source| Error::Io { path: path.clone(), source }
}

fn other_files(pool: &Pool, files: &Path, whose: FilesOf) -> Error {
    let path = pool.info().path.display().to_string();
    Error::OtherFiles { path, files: files.display().to_string(), whose }
}

/// A pool's files, and that they belong to it.
pub(crate) struct Paired {
    pub(crate) files: HostFiles,
    pub(crate) pairing: Pairing<HostFiles>,
    pub(crate) ends: EndsOf,
}

/// The ends of a pool's partitions when it was closed.
#[derive(Clone)]
pub(crate) struct EndsOf {
    pool: Pool,
    path: PathBuf,
    ends: Option<LastTransactions>,
    /// The epoch in which the pool was closed, if it is.
    closed: Option<Epoch>,
}

impl EndsOf {
    /// Reads what a pool's files say of it.
    ///
    /// # Errors
    /// The medium failed.
    pub(crate) fn of(
        pool: &Pool,
        files: &HostFiles,
        pairing: &Pairing<HostFiles>,
    ) -> Result<Self, Error> {
        let ends = pairing.last_transactions().map_err(at_identity(files))?;
        let header = pool.info().header;
        if header.clean && ends.is_none() {
            // They were durable before the pool said that it is closed.
            return Err(other_files(pool, files.path(), FilesOf::Damaged));
        }
        let closed = header.clean.then_some(header.epoch);
        Ok(Self { pool: pool.clone(), path: files.path().to_owned(), ends, closed })
    }

    /// Returns where the log of each partition has to end; empty if that is not known.
    pub(crate) fn of_logs(&self) -> Arc<[LastTransaction]> {
        let Some(ends) = &self.ends else { return Arc::default() };
        let exactly = self.closed == Some(ends.epoch);
        ends.last.iter().map(|&last| LastTransaction { last, exactly }).collect()
    }

    /// Says what a log that ends elsewhere means, if that is why a partition does not open.
    ///
    /// # Errors
    /// [`Error::OtherFiles`].
    pub(crate) fn check_failure(&self, partition: u32, error: &EngineError) -> Result<(), Error> {
        match error {
            EngineError::Wal(WalError::OtherEnd { last, .. }) => self.check(partition, *last),
            _ => Ok(()),
        }
    }

    /// Checks that a partition that was opened ends where it has to.
    ///
    /// # Errors
    /// [`Error::OtherFiles`]: a file in it is of another moment.
    pub(crate) fn check(&self, partition: u32, found: u64) -> Result<(), Error> {
        let Some(ends) = &self.ends else { return Ok(()) };
        let checked = ends.check(partition, found, self.closed == Some(ends.epoch));
        checked.map_err(|whose| other_files(&self.pool, &self.path, whose))
    }
}

impl Paired {
    /// Files that were found to belong to a pool as it is.
    ///
    /// # Errors
    /// [`Error::OtherFiles`], or the medium failed.
    pub(crate) fn of(pool: &Pool, files: HostFiles) -> Result<Self, Error> {
        let pairing = pair(pool, &files)?;
        let ends = EndsOf::of(pool, &files, &pairing)?;
        Ok(Self { files, pairing, ends })
    }

    fn error(&self) -> impl Fn(std::io::Error) -> Error + use<> {
        let path = self.files.path().display().to_string();
        move |source| Error::Io { path: path.clone(), source }
    }

    /// A pool is marked as durably as its medium can, whatever its domain, and so are its files.
    fn sync(&self, pool: &Pool) -> Result<(), Error> {
        let header = pool.info().header;
        let weak = header.modelled || header.domain == Domain::Process;
        if weak { self.files.sync_all().map_err(self.error()) } else { Ok(()) }
    }
}

/// Marks a pool as open, together with its files if its engine has some. From `began` on that can
/// be taken back; before, all stays as it is.
pub(crate) fn mark_open(
    pool: &Pool,
    paired: Option<&mut Paired>,
    options: &PoolOptions,
    began: &Cell<bool>,
) -> Result<(), Error> {
    let Some(paired) = paired else {
        began.set(true);
        return Ok(pool.mark_open(options)?);
    };
    let epoch = pool.info().header.epoch;
    let next = epoch.next();
    let error = paired.error();
    if paired.pairing.was_cut_off() {
        pool.rewrite_header()?;
    }
    paired.pairing.rewrite().map_err(&error)?;
    paired.sync(pool)?;
    began.set(true);
    paired.pairing.begin(epoch, next).map_err(&error)?;
    paired.sync(pool)?;
    pool.mark_open_in(next, options)?;
    paired.pairing.finish().map_err(&error)
}

/// Takes [`mark_open`] back: in a database that was closed, and could not be opened, nothing has
/// changed. It is closed, and belongs to the same copies as before.
///
/// # Errors
/// The medium failed. The database counts as open then.
pub(crate) fn take_mark_back(pool: &Pool, paired: Option<&mut Paired>) -> Result<(), Error> {
    let Some(paired) = paired else { return Ok(pool.close()?) };
    let error = paired.error();
    paired.files.sync_all().map_err(&error)?;
    let epoch = pool.info().header.epoch;
    paired.pairing.begin_back(epoch).map_err(&error)?;
    paired.sync(pool)?;
    pool.close_in(epoch)?;
    paired.pairing.finish().map_err(&error)
}

fn files_beside(
    pool: &Pool,
    engine: &str,
    open: impl FnOnce(Place) -> std::io::Result<HostFiles>,
) -> Result<HostFiles, Error> {
    let place = pool.place().with_suffix(FILES);
    let files = place.path().display().to_string();
    place.resolve_links().and_then(open).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => Error::NoFiles {
            path: pool.info().path.display().to_string(),
            engine: engine.into(),
            files,
        },
        _ => Error::Io { path: files, source },
    })
}

/// The place that a path leads to, for something new.
pub(crate) fn place_of(path: &Path) -> Result<Place, Error> {
    Place::of(path).map_err(|source| {
        PoolError::Io { path: path.into(), doing: "find the directory for it", source }.into()
    })
}
