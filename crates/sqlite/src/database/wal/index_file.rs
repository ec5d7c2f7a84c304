//! `NAME-shm`: the gate that keeps stock SQLite out while a connection of this VFS is in WAL mode.
//!
//! Stock SQLite has a shared kernel lock on the *dead-man byte* for as long as it has the file open. A connection that
//! finds that byte free makes the file anew. So does this VFS, and then:
//!
//! 1. *The byte is free*: make the file anew, with the gate in place of SQLite's header, and keep the byte shared.
//! 2. *It is not, and another connection of this VFS is in WAL mode*: join. The side file has the file's number, so that
//!    no connection joins a file that has replaced the one in use.
//! 3. *It is not, and the gate is there*: connections of this VFS were killed, and stock SQLite, refused, keeps the file
//!    open. Clear what they left.
//! 4. *It is not, and there is no gate*: stock SQLite uses the log.
//!
//! Stock SQLite that comes later finds a header of a version that it does not know, and refuses the database. The last
//! connection of this VFS zeroes the gate. Stock SQLite takes a header of zeros for one to be recovered.
//!
//! The open-close lock, and what says that no other connection of this VFS is in WAL mode, are locks on the side file.
//! One that has replaced the side file in use would say so wrongly: in the third case the index file has to name the
//! same side file.
//!
//! All of this happens under the open-close lock.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use pm::{Lock, Memory as _, Off, Plain, PlainOptions, Range};

use crate::database::contract::Failure;
use crate::database::wal::index_words::IndexWords;
use crate::database::wal::media::Lines;
use crate::store::shm_locks::forget_locks;
use crate::store::wal_index::{
    CUTS_AT, DEAD_MAN_AT, GATE_BYTES, INDEX_HEADER_BYTES, LINE_AT, LINES, LINES_AT, MAGIC,
    MAGIC_AT, OWNERS_AT, RECORDS_FILE_AT, RECORDS_TURN_AT, RECORDS_WORDS_END, REGION_BYTES,
    REGIONS_AT, SIDE_FILE_AT, STOCK_LOCKS, UNFLUSHED_AT, VERSION, VERSION_AT, gate,
};

/// Reserved addresses: the index of half a terabyte of frames.
const ADDRESSES: u64 = 1 << 30;
const DEAD_MAN: Range = Range::new(DEAD_MAN_AT, 1);
/// Looks at a file of stock SQLite's, which may be just being removed, or whose last user may be just closing it.
const LOOKS: u32 = 12;
/// Looks at a file that another process is making or closing.
const LOOKS_MAX: u32 = 200;
/// Looks between which another thread runs; later ones sleep.
const YIELDS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(1);

/// Lets a moment pass after a look. A close of this VFS takes all of stock SQLite's locks for a moment, so that it
/// releases none of a living one's.
fn pause(look: u32) {
    if look < YIELDS { thread::yield_now() } else { thread::sleep(PAUSE) }
}

/// The outcome of opening an index file.
#[derive(Debug)]
pub(super) enum Found {
    /// It is this VFS's.
    Ours(IndexFile),
    /// Stock SQLite uses it.
    Stock,
}

/// A mapped index file whose gate is passed.
#[derive(Debug)]
pub(crate) struct IndexFile(Plain);

fn open(path: &Path, create: bool, mode: Option<u32>) -> std::io::Result<Plain> {
    let foreign = Range::new(STOCK_LOCKS.0, STOCK_LOCKS.1);
    let options = PlainOptions {
        create,
        mode,
        domain: None,
        reserved_bytes: ADDRESSES,
        foreign_locks: Some(foreign),
    };
    Plain::open(path, &options)
}

/// Returns whether stock SQLite uses the log of a database, as far as its index file shows without a change.
pub(crate) fn stock_lives(path: &Path) -> bool {
    (0..LOOKS).all(|look| {
        let lives = match open(path, false, None) {
            // One that has the byte exclusively makes the file, or closes it. The open-close lock waits for it.
            Ok(file) => {
                file.is_free(DEAD_MAN, Lock::Exclusive).is_ok_and(|is_free| !is_free)
                    && file.is_free(DEAD_MAN, Lock::Shared).is_ok_and(|is_free| is_free)
                    && !has_gate(&file)
            }
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        };
        if lives {
            pause(look);
        }
        lives
    })
}

/// Returns whether a file has the gate.
fn has_gate(file: &Plain) -> bool {
    let mut found = [0; GATE_BYTES];
    let word = |at| file.load(Off::new(at), Ordering::Acquire).unwrap_or(0);
    file.len() >= REGIONS_AT + REGION_BYTES
        && file.read_into(Off::new(0), &mut found).is_ok()
        && found == gate()
        && (word(MAGIC_AT), word(VERSION_AT)) == (MAGIC, VERSION)
}

impl IndexFile {
    /// Opens the index file. `others` is the number of the file that other connections of this VFS have; `None` if
    /// there are none. `side` is the number of the side file.
    pub(super) fn open(
        path: &Path,
        mode: u32,
        others: Option<u64>,
        side: u64,
    ) -> Result<Found, Failure> {
        let cannot = |why: String| Failure::CannotOpen(format!("its file {path:?}: {why}"));
        let mut stock_looks = 0;
        for look in 0..LOOKS_MAX {
            let file = open(path, others.is_none(), Some(mode))
                .map_err(|error| cannot(error.to_string()))?;
            if let Some(number) = others {
                if file.number() != number || !has_gate(&file) {
                    return Err(cannot("it has been replaced while it was in use".into()));
                }
                return match file.lock(DEAD_MAN, Lock::Shared)? {
                    true => Ok(Found::Ours(Self(file))),
                    false => Err(Failure::Busy),
                };
            }
            let is_new = file.lock(DEAD_MAN, Lock::Exclusive)?;
            let is_shared = !is_new && file.lock(DEAD_MAN, Lock::Shared)?;
            let is_ours = is_new || is_shared && has_gate(&file);
            // Its last user may have removed it meanwhile.
            if !is_ours || !file.is_at(path) {
                stock_looks += u32::from(is_shared && !is_ours);
                if stock_looks == LOOKS {
                    return Ok(Found::Stock);
                }
                drop(file);
                pause(look);
                continue;
            }
            let index = Self(file);
            if is_new {
                index.make(side)?;
            } else if index.load(SIDE_FILE_AT) == side {
                index.clear();
            } else {
                return Err(cannot("its side file has been replaced while it was in use".into()));
            }
            return Ok(Found::Ours(index));
        }
        // Another process has the byte exclusively, for longer than it takes to make or to close the file.
        Err(Failure::Busy)
    }

    /// Makes the file anew. The caller has the dead-man byte exclusively; it is shared afterwards.
    fn make(&self, side: u64) -> Result<(), Failure> {
        let Self(file) = self;
        file.cut(0)?;
        file.grow(REGIONS_AT + REGION_BYTES)?;
        file.store(Off::new(MAGIC_AT), MAGIC);
        file.store(Off::new(VERSION_AT), VERSION);
        file.store(Off::new(SIDE_FILE_AT), side);
        file.copy(Off::new(0), &gate());
        // In one step: stock SQLite never finds the byte free.
        if file.lock(DEAD_MAN, Lock::Shared)? { Ok(()) } else { Err(Failure::Busy) }
    }

    /// Clears what killed connections left.
    fn clear(&self) {
        self.0.copy(Off::new(OWNERS_AT), &vec![0; (REGIONS_AT - OWNERS_AT) as usize]);
        self.0.store(Off::new(LINES_AT), 0);
    }

    /// Forgets what connections knew about the log and the database, none of which has the log open, and the locks that
    /// dead ones had. SQLite then recovers its index from the log, of which nothing counts as durable.
    pub(super) fn forget_log(&self, log_bytes: u64) {
        forget_locks(&IndexWords::new(&self.0), LINES);
        self.0.copy(Off::new(REGIONS_AT), &[0; INDEX_HEADER_BYTES]);
        self.0.copy(Off::new(CUTS_AT), &[0; (LINE_AT - CUTS_AT) as usize]);
        self.store(RECORDS_FILE_AT, 0);
        let words = [0; (RECORDS_WORDS_END - RECORDS_TURN_AT) as usize];
        self.0.copy(Off::new(RECORDS_TURN_AT), &words);
        self.store(UNFLUSHED_AT, Lines::of(Range::new(0, log_bytes)).word());
    }

    /// Ends the file's use by this VFS: removes it, unless stock SQLite has it open or `remove` is false; then
    /// zeroes the gate.
    pub(super) fn end(&self, path: &Path, remove: bool) -> Result<(), Failure> {
        if remove && self.0.lock(DEAD_MAN, Lock::Exclusive)? {
            return Ok(self.0.remove(path)?);
        }
        self.0.copy(Off::new(0), &[0; GATE_BYTES]);
        Ok(())
    }

    /// Gives up the dead-man byte.
    pub(super) fn release(&self) -> Result<(), Failure> {
        Ok(self.0.unlock(DEAD_MAN)?)
    }

    pub(super) fn file(&self) -> &Plain {
        &self.0
    }

    /// The file's number.
    pub(super) fn number(&self) -> u64 {
        self.0.number()
    }

    /// The address of a region. `None` if it is not there and may not be made.
    pub(crate) fn region(&self, number: u64, create: bool) -> Result<Option<*const u8>, Failure> {
        let at = Range::new(REGIONS_AT + number * REGION_BYTES, REGION_BYTES);
        if at.end() > self.0.len() {
            self.0.see()?;
        }
        if at.end() > self.0.len() {
            if !create {
                return Ok(None);
            }
            self.0.grow(at.end())?;
        }
        Ok(Some(self.0.address(at)?))
    }

    /// A word.
    #[inline]
    pub(crate) fn load(&self, at: u64) -> u64 {
        self.0.load(Off::new(at), Ordering::Acquire).unwrap_or(0)
    }

    /// Stores a word that only one connection changes at a time.
    pub(crate) fn store(&self, at: u64, value: u64) {
        self.0.store(Off::new(at), value);
    }
}
