//! The description that a pool has of the database in it: engine, schema, partitions. Written once,
//! when the database is created; a pool without it was never finished.

use heap::{Heap, Lane, MAX_OBJECT_BYTES, Purpose};
use pm::{Bad, LineSet, Memory, Off, Range};
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::error::StorageError;
use crate::rows::by_hand::json_error;
use crate::rows::schema::Schema;

const NAME: &str = "database";
const MAGIC: u64 = u64::from_le_bytes(*b"PDDESCR1");

/// The description as it is stored, in JSON, after a header with its length and checksum.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The engine's name.
    pub engine: String,
    /// Bytes of an index node.
    pub node_bytes: u32,
    /// The number of partitions.
    pub partitions: u32,
    /// The tables.
    pub schema: Schema,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Header {
    magic: u64,
    bytes: u64,
    checksum: u64,
}

const _: () = assert!(size_of::<Header>() == 24);

impl Description {
    /// Stores the description. It counts, and with it the database, once this returns.
    ///
    /// # Errors
    /// The memory is full.
    pub fn write<M: Memory>(&self, lane: &mut Lane<M>) -> Result<(), StorageError> {
        let json =
            serde_json::to_vec(self).map_err(|error| StorageError::Schema(error.to_string()))?;
        let header = Header {
            magic: MAGIC,
            bytes: json.len() as u64,
            checksum: u64::from(crc32c::crc32c(&json)),
        };
        let bytes = [header.as_bytes(), &json].concat();
        let at = lane.allocate(bytes.len() as u64, Purpose::Log)?;
        let memory = lane.memory().clone();
        let mut lines = LineSet::new();
        memory.copy(Off::new(at), &bytes);
        lines.add(Range::new(at, bytes.len() as u64));
        lane.mark_persisted(at, &mut lines);
        lines.flush(&memory);
        memory.fence();
        Ok(lane.heap().set_root(NAME, at)?)
    }

    /// The description in a heap and where it lies; `None` if creating the database was cut off.
    ///
    /// # Errors
    /// Damage.
    pub fn read<M: Memory>(heap: &Heap<M>) -> Result<Option<(Self, u64)>, StorageError> {
        let Some(at) = heap.root(NAME)? else { return Ok(None) };
        let damaged = Bad::Damaged { what: "database description", at };
        let memory = heap.memory();
        let header: Header = memory.read(Off::new(at))?;
        if header.magic != MAGIC || header.bytes > MAX_OBJECT_BYTES.min(memory.len()) {
            return Err(damaged.into());
        }
        let mut json = vec![0; header.bytes as usize];
        memory.read_into(Off::new(at + size_of::<Header>() as u64), &mut json)?;
        if u64::from(crc32c::crc32c(&json)) != header.checksum {
            return Err(damaged.into());
        }
        // The bytes are as they were written, so a newer build has written them.
        let description = serde_json::from_slice(&json)
            .map_err(|error| StorageError::UnknownDescription { why: json_error(&error) })?;
        Ok(Some((description, at)))
    }
}
