//! A database on the host's file systems: a pool, and beside it a directory with the engine's files.

use std::path::Path;

use engines::below::{
    Domain, Files, HostFiles, IDENTITY, Pairing, Place, Pool, PoolError, PoolOptions,
};

use crate::error::Error;

/// The parts of a database on the host's file systems: its pool, and its directory of files.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) pool: Pool,
    pub(crate) files: Option<HostFiles>,
}

impl Host {
    /// Whether names still lead to what is closed here: whoever opens the database next gets what
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

/// The files that belong to a pool, to work with them; nobody else has them open. A symbolic link
/// may have led to the pool: they lie beside the pool itself.
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

/// Whether files belong to a pool, and to the pool as it is.
pub(crate) fn pair(pool: &Pool, files: &HostFiles) -> Result<Pairing<HostFiles>, Error> {
    let (header, path) = (pool.info().header, files.path().display().to_string());
    let opened = Pairing::open(files).map_err(|source| {
        let name = files.path().join(IDENTITY).display().to_string();
        Error::Io { path: name, source }
    })?;
    let checked = opened.and_then(|pairing| {
        pairing.check(header.uuid, header.epoch)?;
        Ok(pairing)
    });
    checked.map_err(|whose| Error::OtherFiles {
        path: pool.info().path.display().to_string(),
        files: path,
        whose,
    })
}

/// Marks a pool as open, together with its files if its engine has some and they are paired.
pub(crate) fn mark_open(
    pool: &Pool,
    files: Option<(&HostFiles, Pairing<HostFiles>)>,
    options: &PoolOptions,
) -> Result<(), Error> {
    let Some((files, mut pairing)) = files else { return Ok(pool.mark_open(options)?) };
    let header = pool.info().header;
    let next = header.epoch.next();
    let error = |source| Error::Io { path: files.path().display().to_string(), source };
    // A pool is marked as durably as its medium can, whatever its domain, and so are its files.
    let weak = header.modelled || header.domain == Domain::Process;
    let sync = || if weak { files.sync_all().map_err(error) } else { Ok(()) };
    if pairing.was_cut_off() {
        pool.settle()?;
    }
    pairing.settle().map_err(error)?;
    sync()?;
    pairing.begin(header.epoch, next).map_err(error)?;
    sync()?;
    pool.mark_open_in(next, options)?;
    pairing.finish().map_err(error)
}

fn files_beside(
    pool: &Pool,
    engine: &str,
    open: impl FnOnce(Place) -> std::io::Result<HostFiles>,
) -> Result<HostFiles, Error> {
    let place = pool.place().beside(FILES);
    let files = place.path().display().to_string();
    place.behind_links().and_then(open).map_err(|source| match source.kind() {
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
