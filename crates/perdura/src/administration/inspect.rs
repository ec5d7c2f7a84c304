//! Looking at a pool without changing it.

use std::path::{Path, PathBuf};

use engines::below::{Access, Description, Pool, PoolInfo, PoolOptions, Schema};
use engines::{EngineKind, PagedFigures, inspect_paged};

use crate::database::{open_heap, unless_failed};
use crate::error::Error;
use crate::host::{FILES, look_at_files_of, pair};

/// The pool's description of itself.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (directory, db, _) = accounts(&Options::new().engine(EngineKind::Inp));
/// # db.close()?;
/// # let path = directory.path().join("accounts");
/// let found: Inspection = inspect(&path)?;
/// assert_eq!((found.engine.as_str(), found.partitions), ("inp", 1));
/// assert_eq!(found.schema.tables()[0].name(), "account");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Header, medium, damage of a header copy.
    pub pool: PoolInfo,
    /// The engine's name.
    pub engine: String,
    /// The number of partitions.
    pub partitions: u32,
    /// Bytes of an index node.
    pub node_bytes: u32,
    /// Bytes of the allocator's chunks.
    pub chunk_bytes: u64,
    /// Bytes that the pool and the engine's files take on their medium.
    pub stored_bytes: u64,
    /// The place of the engine's files, in an engine that has some.
    pub files: Option<InspectedFiles>,
    /// The tables.
    pub schema: Schema,
}

/// The place of an engine's files.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (directory, db, _) = accounts(&Options::new().engine(EngineKind::Inp));
/// # db.close()?;
/// # let path = directory.path().join("accounts");
/// let files: InspectedFiles = inspect(&path)?.files.expect("engine `inp` has files");
/// assert_eq!(files.missing, None);
/// println!("they are in {}", files.path.display());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InspectedFiles {
    /// The directory.
    pub path: PathBuf,
    /// The reason why they cannot be opened or used with the pool; `None` if they can.
    pub missing: Option<String>,
    /// Pages and log of each partition, in an engine with a buffer pool; empty if they cannot be
    /// read.
    pub paged: Vec<PagedFigures>,
}

/// Reads a pool's description of itself. The file is not changed, not even recovered.
///
/// # Errors
/// There is no pool, it is in use, or its header or description is damaged.
pub fn inspect(path: impl AsRef<Path>) -> Result<Inspection, Error> {
    let pool = Pool::open(path.as_ref(), &PoolOptions::default(), Access::Inspect)?;
    let info = pool.info().clone();
    let error = |source| Error::Io { path: info.path.display().to_string(), source };
    let mut stored_bytes = pool.stored_bytes().map_err(error)?;
    // Private pages: what opening a heap finishes does not reach the file.
    let described = || {
        let path = info.path.display().to_string();
        let heap = open_heap(pool.clone(), &path)?;
        match Description::read(&heap)? {
            Some((description, _)) => Ok((heap, description)),
            None => Err(Error::Unfinished { path }),
        }
    };
    let (heap, description) = unless_failed(&pool, described())?;
    let kind: Option<EngineKind> = description.engine.parse().ok();
    let files = kind.filter(|kind| kind.traits().needs_files()).map(|kind| {
        let mut path = pool.place().with_suffix(FILES).path().to_owned();
        let mut paged = Vec::new();
        let missing = match look_at_files_of(&pool, kind.name()) {
            Ok(files) => {
                path = files.path().to_owned();
                let others = pair(&pool, &files).err();
                if others.is_none() {
                    stored_bytes += files.stored_bytes().map_err(error)?;
                    // Damage is reported when the database is opened, or checked.
                    let partitions = 0..description.partitions;
                    let look = |one| inspect_paged(&files, &heap, kind, one).ok()?;
                    paged.extend(partitions.filter_map(look));
                }
                others.map(|error| error.to_string())
            }
            Err(error) => Some(error.to_string()),
        };
        Ok::<_, Error>(InspectedFiles { path, missing, paged })
    });
    let files = files.transpose()?;
    Ok(Inspection {
        pool: info,
        engine: description.engine,
        partitions: description.partitions,
        node_bytes: description.node_bytes,
        chunk_bytes: heap.chunk_bytes(),
        stored_bytes,
        files,
        schema: description.schema,
    })
}
