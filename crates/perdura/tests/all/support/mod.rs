//! The parts that tests of whole databases share: a schema with every kind of column and key, a
//! model, random transactions that run on both, and the comparison of the two. It is that of the
//! crash tests.

pub(crate) use faults::driver::Driver;
pub(crate) use faults::items::{
    Item, Model, PAIR, Tables, compare, contents, insert_item, item_of, schema, update_item,
};

/// A directory that is not on a disk, if that can be: for tests that commit often and do not depend on
/// what the files lie on.
pub(crate) fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Options that leave a pool in small pages of memory: putting a huge page in place costs more than
/// what a test writes into it.
pub(crate) fn small_pages() -> perdura::Options {
    perdura::Options::new().huge_pages(false)
}
