//! The medium that a database lies on.

use std::cell::OnceCell;
use std::fmt;
use std::io;

use engines::below::{
    Dram, Environment, HostFiles, Native, Pool, addresses_left, share_of_addresses,
};

use crate::any_engine::Engines;

/// A durable memory, volatile memory for each partition, and files.
///
/// ```
/// # use perdura::*;
/// # let memory = sim::Recording::pool(1 << 20, 1 << 26).map_err(Error::user)?;
/// // The media of crash tests, from the crate of these.
/// let media: Media<sim::Recorded> = faults::recorded(memory, sim::RecordingFiles::new());
/// let table = TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]);
/// let db = Database::create_on(media, &Schema::new().table(table), &Options::new())?;
/// assert_eq!(db.check()?.tuples, 0);
/// # Ok::<(), Error>(())
/// ```
pub struct Media<E: Environment> {
    /// The pool.
    pub durable: E::Durable,
    /// Files, for engines that keep some.
    pub files: Option<E::Files>,
    /// Makes the volatile memory of a partition, given its number and how many there are.
    pub volatile: Box<dyn Fn(u32, u32) -> std::io::Result<E::Volatile>>,
    /// The database's name in errors.
    pub name: String,
    /// The engines for these memories.
    pub engines: Engines<E>,
}

impl<E: Environment> fmt::Debug for Media<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Media").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Bytes of volatile memory that a partition may have by default, if there are addresses for as
/// many.
const VOLATILE_BYTES: u64 = 256 << 30;

/// Volatile memory of `bytes` for each of so many partitions: the process may not have as many
/// addresses.
fn too_many(error: io::Error, bytes: u64, partitions: u32) -> io::Error {
    let Some(left) = addresses_left() else { return error };
    let fits = share_of_addresses(bytes, partitions.into());
    let why = format!(
        "`volatile_limit` is {bytes} bytes for each partition, of {partitions}, and this process may have {left} bytes of addresses more (RLIMIT_AS, `ulimit -v`); {fits} would fit"
    );
    io::Error::new(error.kind(), why)
}

impl Media<Native> {
    /// A pool without files. Engines without them keep nothing in volatile memory: no addresses for
    /// it.
    pub fn native(pool: Pool) -> Self {
        let name = pool.info().path.display().to_string();
        Self {
            durable: pool,
            files: None,
            volatile: Box::new(|_, _| Dram::new(0)),
            name,
            engines: Engines::native(),
        }
    }

    /// Files, and volatile memory for each partition of an engine that has some: so many bytes, or
    /// a share of what there is.
    pub(crate) fn attach(&mut self, files: HostFiles, volatile_bytes: Option<u64>) {
        self.files = Some(files);
        // The addresses that are left are shared once, before the first partition takes its part.
        let share = OnceCell::new();
        self.volatile = Box::new(move |_, partitions| {
            let bytes = volatile_bytes.unwrap_or_else(|| {
                *share.get_or_init(|| share_of_addresses(VOLATILE_BYTES, partitions.into()))
            });
            Dram::new(bytes).map_err(|error| too_many(error, bytes, partitions))
        });
    }
}
