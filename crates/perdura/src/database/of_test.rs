//! Databases in pool files under an engine of a test.

use std::cell::Cell;
use std::path::Path;

use engines::Maker;
use engines::below::{Access, Native, NewPool, Pool, Schema};

use super::Database;
use crate::error::Error;
use crate::host::{Host, place_of};
use crate::media::Media;
use crate::options::Options;

impl Database<Native> {
    /// [`Database::create`] with an engine of a test, which keeps no files.
    ///
    /// # Errors
    /// As [`Database::create`].
    #[doc(hidden)]
    pub fn create_at_with(
        path: impl AsRef<Path>,
        schema: &Schema,
        options: &Options,
        maker: &dyn Maker<Native>,
    ) -> Result<Self, Error> {
        options.check()?;
        let (new, pool) = NewPool::begin(&place_of(path.as_ref())?, &[], &options.pool)?;
        let media = Media::native(pool.clone());
        let mut database = Self::create_with(media, schema, options, maker)?;
        new.finish(Some(&pool))?;
        database.host = Some(Host { pool, files: None, pairing: None });
        Ok(database)
    }

    /// [`Database::open`] with an engine of a test.
    ///
    /// # Errors
    /// As [`Database::open`].
    #[doc(hidden)]
    pub fn open_at_with(
        path: impl AsRef<Path>,
        options: &Options,
        maker: &dyn Maker<Native>,
    ) -> Result<Self, Error> {
        options.check()?;
        let pool = Pool::open(path.as_ref(), &options.pool, Access::ReadWrite)?;
        let media = Media::native(pool.clone());
        let clean = pool.info().header.clean;
        let mark = |_: &mut Media<Native>, _: &_| {
            pool.mark_open(&options.pool)?;
            Ok(None)
        };
        let changed = Cell::new(false);
        let mut database = Self::open_checked(Some(maker), media, options, clean, mark, &changed)?;
        database.host = Some(Host { pool, files: None, pairing: None });
        Ok(database)
    }
}
