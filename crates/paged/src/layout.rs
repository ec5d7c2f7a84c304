//! The layout of a page; docs/format/paged-pages.md draws it. All integers are little-endian.

/// Bytes of a page's header.
pub const HEADER_BYTES: usize = 64;
/// The smallest page.
pub const LEAST_PAGE_BYTES: usize = 512;
/// The largest page: a place in it fits in 16 bits.
pub const MOST_PAGE_BYTES: usize = 32 << 10;
/// The page size that is used by default.
pub const DEFAULT_PAGE_BYTES: usize = 8 << 10;
/// Bytes of a slot: the head of its key, the place of its record, and the length of the key.
pub const SLOT_BYTES: usize = 8;
/// Bytes of a record before its key.
pub const RECORD_BYTES: usize = 8;
/// Bytes that a leaf has in place of a row that lies in a chain: its length, and its first page.
pub const STUB_BYTES: usize = 16;
/// Bytes of a row of an inner page: the child.
pub const CHILD_BYTES: usize = 8;
/// The longest key of all, where pages are large enough.
pub const MOST_KEY_BYTES: usize = limit_key(MOST_PAGE_BYTES);

pub(crate) const CHECKSUM: usize = 0;
pub(crate) const KIND: usize = 4;
pub(crate) const LEVEL: usize = 5;
pub(crate) const SLOTS: usize = 6;
pub(crate) const LSN: usize = 8;
pub(crate) const NUMBER: usize = 16;
pub(crate) const STAMP: usize = 24;
pub(crate) const TREE: usize = 32;
pub(crate) const HEAP: usize = 36;
pub(crate) const GARBAGE: usize = 38;
pub(crate) const RIGHT: usize = 40;
pub(crate) const LOW: usize = 48;
pub(crate) const HIGH: usize = 52;
pub(crate) const PREFIX: usize = 56;

/// The record's places, from its begin.
pub(crate) const KEY_LEN: usize = 0;
pub(crate) const ROW_LEN: usize = 2;
pub(crate) const ROOM: usize = 4;
pub(crate) const FLAGS: usize = 6;

/// The row was deleted, by a transaction that may not have committed.
pub(crate) const GHOST: u8 = 1;
/// The row lies in a chain of pages; the leaf has its stub.
pub(crate) const LONG: u8 = 2;

const _: () = assert!(MOST_PAGE_BYTES <= u16::MAX as usize);
const _: () = assert!(PREFIX + 2 <= HEADER_BYTES && HEADER_BYTES.is_multiple_of(SLOT_BYTES));
const _: () =
    assert!(limit_key(DEFAULT_PAGE_BYTES) >= 1040 && limit_key(MOST_PAGE_BYTES) == MOST_KEY_BYTES);

/// Returns the bytes of the longest key in pages of this size: two fences of it leave room for two
/// entries of the largest size.
#[must_use]
pub const fn limit_key(page_bytes: usize) -> usize {
    (page_bytes - HEADER_BYTES) / 7 - 10
}

/// Returns the bytes of a page that an entry takes, with its slot.
#[must_use]
pub const fn entry_bytes(key: usize, room: usize) -> usize {
    SLOT_BYTES + RECORD_BYTES + key + room
}

/// Returns the bytes of the largest entry; a row that makes its entry larger goes into a chain.
#[must_use]
pub const fn limit_entry(page_bytes: usize) -> usize {
    (page_bytes - HEADER_BYTES) / 4
}

/// Returns whether pages may have this size.
#[must_use]
pub const fn is_page_size(bytes: usize) -> bool {
    bytes.is_power_of_two() && bytes >= LEAST_PAGE_BYTES && bytes <= MOST_PAGE_BYTES
}
