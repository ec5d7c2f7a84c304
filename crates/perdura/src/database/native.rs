//! A database in a pool file: creating it, opening it, and what its host says of it.

use std::cell::Cell;
use std::path::Path;

use engines::below::{
    Access, Catalog, Counters, Files, HostFiles, Native, NewPool, Pairing, Place, Pool, PoolError,
    PoolInfo, Schema, stamp_of,
};

use crate::any_engine::EngineSource;
use crate::error::Error;
use crate::host::{FILES, Host, Paired, belonging, files_of, mark_open, place_of, take_mark_back};
use crate::media::Media;
use crate::opening::{OpeningTimes, Stopwatch};
use crate::options::Options;

use super::{Database, Identity};

impl Database<Native> {
    /// Creates a database in a new pool file at `path`. An engine that keeps files has them in the
    /// directory `<path>.files`.
    ///
    /// The database has its name only once it is whole. A creation that was killed may leave
    /// `<path>.perdura-new` and its files; they mean nothing, and the next creation begins anew.
    ///
    /// # Errors
    /// The schema or the options make no sense, something exists at `path`, or there is no room.
    /// Then no file is left. [`PoolError::InUse`], while another process creates it.
    pub fn create(
        path: impl AsRef<Path>,
        schema: &Schema,
        options: &Options,
    ) -> Result<Self, Error> {
        Self::create_at(&place_of(path.as_ref())?, schema, options)
    }

    pub(crate) fn create_at(
        place: &Place,
        schema: &Schema,
        options: &Options,
    ) -> Result<Self, Error> {
        let (new, database) = Self::begin_at(place, schema, options)?;
        new.finish(Some(database.pool()))?;
        Ok(database)
    }

    /// Creates a database that gets its name when it is [finished](NewPool::finish): until then it
    /// goes when that is dropped.
    pub(crate) fn begin_at(
        place: &Place,
        schema: &Schema,
        options: &Options,
    ) -> Result<(NewPool, Self), Error> {
        options.check()?;
        let catalog = Catalog::new(schema)?;
        let partitions = options.partitions.unwrap_or(1);
        if partitions == 0 || partitions > 256 {
            return Err(Error::Options(format!("{partitions} partitions; choose 1 to 256")));
        }
        let mut pool_options = options.pool.clone();
        pool_options.initial_bytes =
            options.initial_bytes.unwrap_or(64 << 10).min(pool_options.limit_bytes);
        let (new, pool) = NewPool::begin(place, &belonging(place), &pool_options)?;
        let database = Self::create_in(&new, pool, &catalog.schema, options)?;
        Ok((new, database))
    }

    fn create_in(
        new: &NewPool,
        pool: Pool,
        schema: &Schema,
        options: &Options,
    ) -> Result<Self, Error> {
        let kind = options.kind_on(pool.info().medium.natural);
        let engine = options.engine_options(kind)?;
        let header = pool.info().header;
        let mut media = Media::native(pool.clone());
        let (mut files, mut pairing) = (None, None);
        if kind.traits().needs_files() {
            let place = pool.place().with_suffix(FILES);
            let path = place.path().display().to_string();
            let error = |source| Error::Io { path: path.clone(), source };
            let own =
                new.add_directory(&pool, place, (header.domain, header.modelled)).map_err(error)?;
            own.lock()?;
            own.set_stamp(stamp_of(header.uuid));
            pairing = Some(Pairing::create(&own, header.uuid).map_err(error)?);
            media.attach(own.clone(), options.volatile_bytes);
            files = Some(own);
        }
        let source = EngineSource::Known(&engine, media.engines);
        let mut database = Self::create_as(source, media, schema, options)?;
        database.host = Some(Host { pool, files, pairing });
        Ok(database)
    }

    /// Opens the database in the pool file at `path` and recovers it.
    ///
    /// # Errors
    /// There is no database at `path`, it is damaged, it is in use, or it contradicts the options;
    /// the error says what to do. The pool is unchanged then.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        let path = path.as_ref();
        let place = Place::find(path).map_err(|source| PoolError::Io {
            path: path.into(),
            doing: "find the pool",
            source,
        })?;
        Self::open_at(&place, options)
    }

    pub(crate) fn open_at(place: &Place, options: &Options) -> Result<Self, Error> {
        options.check()?;
        Self::open_pool(|| Pool::open_at(place, &options.pool, Access::ReadWrite), options)
    }

    /// Opens a database once more that has not got its name.
    pub(crate) fn open_new(new: &mut NewPool, options: &Options) -> Result<Self, Error> {
        Self::open_pool(|| new.open(&options.pool), options)
    }

    fn open_pool(
        open: impl FnOnce() -> Result<Pool, PoolError>,
        options: &Options,
    ) -> Result<Self, Error> {
        let mut watch = Stopwatch::start();
        let pool = open()?;
        let header = pool.info().header;
        let media = Media::native(pool.clone());
        let map = watch.lap();
        let (mut paired, marked) = (None, Cell::new(false));
        let begin = |media: &mut Media<Native>, engine: &Identity| {
            if engine.traits.needs_files() {
                let own = paired.insert(Paired::of(&pool, files_of(&pool, &engine.name)?)?);
                media.attach(own.files.clone(), options.volatile_bytes);
            }
            mark_open(&pool, paired.as_mut(), &options.pool, &marked)?;
            Ok(paired.as_ref().map(|paired| paired.ends.clone()))
        };
        let changed = Cell::new(false);
        let opened = Self::open_checked(None, media, options, header.clean, begin, &changed);
        if opened.is_err() && header.clean && marked.get() && !changed.get() {
            // A partition was refused, for a damaged file perhaps: what was closed stays closed.
            // Where that fails too the pool stays marked as open, which is safe.
            let _ = take_mark_back(&pool, paired.as_mut());
        }
        let mut database = opened?;
        database.opening = database.opening.map(|times| OpeningTimes { map, ..times });
        let (files, pairing) = paired.map(|paired| (paired.files, paired.pairing)).unzip();
        database.host = Some(Host { pool, files, pairing });
        Ok(database)
    }

    /// Opens the database at `path`, or creates it with this schema if there is none.
    ///
    /// # Errors
    /// As [`Database::open`] and [`Database::create`]; [`Error::WrongSchema`] if there is one with
    /// another schema.
    pub fn open_or_create(
        path: impl AsRef<Path>,
        schema: &Schema,
        options: &Options,
    ) -> Result<Self, Error> {
        let path = path.as_ref();
        let place = place_of(path)?;
        let io = |source| Error::Io { path: path.display().to_string(), source };
        if !place.is_taken().map_err(io)? {
            match Self::create_at(&place, schema, options) {
                // Another process has created it meanwhile.
                Err(Error::Pool(PoolError::Exists { .. })) => {}
                created => return created,
            }
        }
        let database = Self::open(path, options)?;
        if let Some(differs) = database.catalog.schema.difference(&schema.normalized()) {
            return Err(Error::WrongSchema { differs });
        }
        Ok(database)
    }

    /// The pool of a database that has one.
    pub(crate) fn pool(&self) -> &Pool {
        &self.host.as_ref().expect("a native database has a pool").pool
    }

    /// Returns the file, the header and the medium of the pool.
    ///
    /// # Panics
    /// Never: a native database has a pool.
    pub fn pool_info(&self) -> &PoolInfo {
        self.pool().info()
    }

    /// Starts or stops counting flushes, fences, and file operations. While off, counting costs
    /// nothing.
    pub fn count(&self, on: bool) {
        if let Some(host) = &self.host {
            host.pool.count(on);
        }
        if let Some(files) = &self.files {
            files.count(on);
        }
    }

    /// Returns what was counted so far.
    pub fn counters(&self) -> Counters {
        let pool = self.host.as_ref().map(|host| host.pool.counters()).unwrap_or_default();
        pool + self.files.as_ref().map(Files::counters).unwrap_or_default()
    }

    /// Returns the bytes that the pool and the files take on their medium.
    ///
    /// # Errors
    /// The operating system reported an error.
    pub fn stored_bytes(&self) -> Result<u64, Error> {
        let error =
            |source| Error::Io { path: self.pool_info().path.display().to_string(), source };
        let pool = self.host.as_ref().map_or(Ok(0), |host| host.pool.stored_bytes());
        let pool = pool.map_err(error)?;
        let files = self.files.as_ref().map_or(Ok(0), HostFiles::stored_bytes).map_err(error)?;
        Ok(pool + files)
    }
}
