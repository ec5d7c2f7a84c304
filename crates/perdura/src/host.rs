//! A database on the host's file systems: a pool, and beside it a directory with the engine's files.

use std::path::Path;

use engines::below::{HostFiles, Place, Pool, PoolError};

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
