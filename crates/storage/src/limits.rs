//! The limits of a table: columns, bytes of a value, of a tuple, of a key.

use index::MAX_KEY_BYTES;

/// The longest text or bytes value of a column, in bytes.
pub const MAX_VALUE_BYTES: u32 = 16 << 20;
/// The longest tuple, by the declaration of its columns, in bytes.
pub const MAX_TUPLE_BYTES: u64 = 128 << 20;
/// The most bytes, encoded, that a primary key may have, and that the columns of a secondary index
/// may have. The keys of a secondary index end with the primary key.
pub const MAX_OWN_KEY_BYTES: usize = 1024;
const _: () = assert!(2 * MAX_OWN_KEY_BYTES <= MAX_KEY_BYTES);
/// The most columns that a table can have.
pub const MAX_COLUMNS: usize = 1024;
