//! The home of objects: a persistent allocator, persistent pointers and names (P1 2.3).
//!
//! A [`Heap`] divides a memory into chunks; each chunk holds slots of one size class and belongs
//! to one [`Lane`]; an object that is larger takes neighbouring chunks. A lane is the allocator of
//! one partition: only its owner allocates and frees there, so the hot path needs no lock and no
//! atomic read-modify-write, and lanes of different threads never touch the same line. Threads that
//! come and go take lanes of their own from [`Lanes`], which are theirs until they drop them.
//!
//! P1's durability states of a slot are kept as two bits in two places: *allocated* is a volatile
//! bit, *persisted* a bit in the chunk's bitmap. A slot that was allocated but not persisted is
//! free again after a crash, without anybody doing anything.
//!
//! The same code runs over volatile memory, where flushes and fences fold away.

#![forbid(unsafe_code)]

mod block;
mod chunk;
mod classes;
mod error;
mod heap;
mod known;
mod lane;
mod lanes;
mod layout;
mod mini;
mod persisted;
mod purpose;
mod shared;
mod span;
mod sync;

pub use block::MAX_LANES;
pub use classes::LARGE_ALIGN;
pub use error::HeapError;
pub use heap::{ChunkUse, HeapOptions, MAX_NAME_BYTES};
pub use lane::Lane;
pub use lanes::Lanes;
pub use layout::{CHUNK_HEADER_BYTES, LANE_AREA_BYTES, SUPERBLOCK_BYTES};
pub use purpose::Purpose;
pub use shared::Heap;
pub use span::MAX_OBJECT_BYTES;
