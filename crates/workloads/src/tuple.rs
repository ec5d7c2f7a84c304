//! The tuple of YCSB (P1 5.1), which every store keeps.

/// Columns of a tuple besides its key.
pub const COLUMNS: usize = 10;
/// Bytes of a column.
pub const COLUMN_BYTES: usize = 100;
/// Bytes of a tuple without its key.
pub const ROW_BYTES: usize = COLUMNS * COLUMN_BYTES;
/// Bytes of user data in a tuple: the key and the columns.
pub const TUPLE_USER_BYTES: u64 = 8 + ROW_BYTES as u64;

/// The contents of one column.
pub type Column = [u8; COLUMN_BYTES];
