//! The parts that tests of whole databases share: a schema with every kind of column and key, a
//! model, random transactions that run on both, and the comparison of the two. It is that of the
//! crash tests.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use perdura::EngineKind;

pub(crate) use faults::driver::Driver;
pub(crate) use faults::items::{
    Item, Model, PAIR, Tables, compare, contents, insert_item, item_of, schema, update_item,
};

/// Engines for which another one stands in long tests: those on slotted pages differ in their
/// commits alone, and `fast` has its pages in the pool, `nvwal` in a cache; the two with their log
/// in the pool differ in when they flush it.
const STOOD_FOR: [EngineKind; 4] =
    [EngineKind::Fash, EngineKind::Journal, EngineKind::Wal, EngineKind::NvLoggingFoc];

/// Every engine but those that [`the_others`] are: for tests of seconds. Those in `whole` run the
/// others.
pub(crate) fn few() -> impl Iterator<Item = EngineKind> + Clone {
    EngineKind::ALL.into_iter().filter(|engine| !STOOD_FOR.contains(engine))
}

/// The engines that [`few`] leaves out.
pub(crate) fn the_others() -> impl Iterator<Item = EngineKind> {
    STOOD_FOR.into_iter().inspect(|engine| println!("engine {engine}"))
}

/// A directory that is not on a disk, if that can be: for tests that commit often and do not depend
/// on what the files lie on.
pub(crate) fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Options that leave a pool in small pages of memory: putting a huge page in place costs more than
/// what a test writes into it.
pub(crate) fn small_pages() -> perdura::Options {
    perdura::Options::new().huge_pages(false)
}

/// Small pages, and small logs in the engines that put their whole log in place: for tests without
/// large transactions.
pub(crate) fn small_logs() -> perdura::Options {
    small_pages().tune("log_bytes", 16 << 20)
}

/// Copies a file, of which most may be empty: its zeros take neither room nor time in the copy.
pub(crate) fn copy_file(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    const PIECE: usize = 16 << 10;
    let bytes = fs::read(from).unwrap();
    let copy = File::create(to).unwrap();
    copy.set_len(bytes.len() as u64).unwrap();
    for (piece, at) in bytes.chunks(PIECE).zip((0..).step_by(PIECE)) {
        if piece.iter().any(|byte| *byte != 0) {
            copy.write_all_at(piece, at).unwrap();
        }
    }
}
