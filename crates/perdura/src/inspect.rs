//! Looking at a pool without changing it.

use std::path::Path;

use engines::below::{Access, Description, HostFiles, Pool, PoolInfo, PoolOptions, Schema};

use crate::database::{open_heap, unless_failed};
use crate::error::Error;
use crate::host::files_beside;

/// What a pool says of itself.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Header, medium, damage of a header copy.
    pub pool: PoolInfo,
    /// The engine's name.
    pub engine: String,
    /// How many partitions there are.
    pub partitions: u32,
    /// Bytes of an index node.
    pub node_bytes: u32,
    /// Bytes of the allocator's chunks.
    pub chunk_bytes: u64,
    /// Bytes that the pool and the engine's files take on their medium.
    pub stored_bytes: u64,
    /// The tables.
    pub schema: Schema,
}

/// Reads what a pool says of itself. The file is not changed, not even recovered.
///
/// # Errors
/// There is no pool, it is in use, or its header or description is damaged.
pub fn inspect(path: impl AsRef<Path>) -> Result<Inspection, Error> {
    let pool = Pool::open(path.as_ref(), &PoolOptions::default(), Access::Inspect)?;
    let info = pool.info().clone();
    let error = |source| Error::Io { path: info.path.display().to_string(), source };
    let mut stored_bytes = pool.stored_bytes().map_err(error)?;
    if let Some(files) = files_beside(&pool, HostFiles::look_at)? {
        stored_bytes += files.stored_bytes().map_err(error)?;
    }
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
    Ok(Inspection {
        pool: info,
        engine: description.engine,
        partitions: description.partitions,
        node_bytes: description.node_bytes,
        chunk_bytes: heap.chunk_bytes(),
        stored_bytes,
        schema: description.schema,
    })
}
