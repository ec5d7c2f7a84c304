//! The state that the database file and the log file of one connection share in WAL mode.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pm::{Domain, Memory as _, Off, Plain};

use crate::database::contract::Failure;
use crate::database::open_close_lock::{OpenCloseLock, check_not_forked};
use crate::database::slot_owners::SlotOwners;
use crate::database::waiting::Queued;
use crate::database::wal::diff::Commits;
use crate::database::wal::index_file::{Found, IndexFile};
use crate::database::wal::index_words::IndexWords;
use crate::database::wal::media::Counters;
use crate::database::wal::records::RecordsFile;
use crate::store::layout::INDEX_FILE_AT;
use crate::store::shm_locks::IndexLocks;
use crate::store::wal_index::{LINES, RECORDS_FILE_AT};
use crate::store::write_queue::{Place, Wish, WriteQueue};

/// The suffix of the name of the index.
const INDEX_SUFFIX: &str = "-shm";

/// One connection's locks of the log.
pub(crate) type Locks = IndexLocks<IndexWords, SlotOwners>;

/// The state that the files of one connection share.
#[derive(Debug)]
pub(crate) struct WalConnection {
    pub(super) data: Plain,
    pub(super) side: Plain,
    open_close: OpenCloseLock,
    index_path: PathBuf,
    pub(super) domain: Option<Domain>,
    /// The connection's line, which it owns by the kernel lock of its slot in the side file.
    line: usize,
    is_allowed: AtomicBool,
    pub(super) log_is_open: AtomicBool,
    /// The connection has the log's lock for writing, or the database exclusively.
    is_writer: [AtomicBool; 2],
    entered: Mutex<Entered>,
    /// The differential log's file.
    records: RecordsFile,
    /// The connection's part in the differential log, while the log is open and has one.
    has_records: AtomicBool,
    commits: Mutex<Option<Weak<dyn Commits>>>,
    pub(crate) counters: Counters,
}

/// The parts of a connection that is in WAL mode.
#[derive(Debug, Default)]
struct Entered {
    index: Option<Arc<IndexFile>>,
    /// The locks, until the database file takes them.
    locks: Option<Locks>,
}

/// An open log.
pub(super) struct OpenLog {
    pub(super) index: Arc<IndexFile>,
    pub(super) log: Plain,
    /// The differential log.
    pub(super) records: Option<Plain>,
}

/// The files and the slot of a connection.
pub(crate) struct Parts<'a> {
    pub(crate) data: &'a Plain,
    pub(crate) side: &'a Plain,
    pub(crate) path: &'a Path,
    pub(crate) domain: Option<Domain>,
    pub(crate) slot: usize,
    /// The connection asks for a differential log.
    pub(crate) wants_records: bool,
}

impl WalConnection {
    pub(crate) fn new(parts: &Parts<'_>) -> Self {
        Self {
            data: parts.data.clone(),
            side: parts.side.clone(),
            open_close: OpenCloseLock::new(parts.side),
            index_path: index_path(parts.path),
            domain: parts.domain,
            line: parts.slot,
            is_allowed: AtomicBool::new(false),
            log_is_open: AtomicBool::new(false),
            is_writer: [const { AtomicBool::new(false) }; 2],
            entered: Mutex::default(),
            records: RecordsFile::new(parts.data, parts.path, parts.domain, parts.wants_records),
            has_records: AtomicBool::new(false),
            commits: Mutex::default(),
            counters: Counters::default(),
        }
    }

    /// The domain that was chosen.
    pub(crate) fn domain(&self) -> Option<Domain> {
        self.domain
    }

    /// The path of the differential log.
    pub(super) fn records_path(&self) -> &Path {
        self.records.path()
    }

    fn entered(&self) -> MutexGuard<'_, Entered> {
        self.entered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets whether the connection may be in WAL mode.
    pub(crate) fn allow(&self, is_allowed: bool) {
        self.is_allowed.store(is_allowed, Ordering::Relaxed);
    }

    /// Returns whether the connection may be in WAL mode.
    pub(crate) fn is_allowed(&self) -> bool {
        self.is_allowed.load(Ordering::Relaxed)
    }

    /// Returns whether the log is open.
    pub(crate) fn is_log_open(&self) -> bool {
        self.log_is_open.load(Ordering::Relaxed)
    }

    /// Sets whether the connection has the log's lock for writing.
    pub(crate) fn set_writes(&self, writes: bool) {
        self.set_writer(0, writes);
    }

    /// Sets whether the connection has the database exclusively.
    pub(crate) fn set_exclusive(&self, exclusive: bool) {
        self.set_writer(1, exclusive);
    }

    fn set_writer(&self, way: usize, is: bool) {
        let was = self.is_writer[way].swap(is, Ordering::Relaxed);
        if is
            && !was
            && let Some(commits) = self.commits()
        {
            commits.begin_writing();
        }
    }

    /// Returns whether no other connection can write to the log.
    pub(super) fn is_writer(&self) -> bool {
        self.is_writer.iter().any(|one| one.load(Ordering::Relaxed))
    }

    /// The index file, while the connection is in WAL mode.
    pub(crate) fn index(&self) -> Option<Arc<IndexFile>> {
        self.entered().index.clone()
    }

    /// The locks, for the database file.
    pub(crate) fn take_locks(&self) -> Option<Locks> {
        self.entered().locks.take()
    }

    /// Enters WAL mode. Returns false if stock SQLite uses the log. `has_door` says that the caller holds the
    /// open-close lock.
    ///
    /// # Errors
    /// The index file cannot be made or has been replaced, or stock SQLite is just making one.
    pub(crate) fn join(&self, has_door: bool) -> Result<bool, Failure> {
        let mut entered = self.entered();
        if entered.index.is_some() {
            return Ok(true);
        }
        if !has_door {
            self.open_close.lock()?;
        }
        let result = self.join_behind_door(&mut entered);
        if !has_door {
            self.open_close.unlock()?;
        }
        result
    }

    fn join_behind_door(&self, entered: &mut Entered) -> Result<bool, Failure> {
        if entered.index.is_some() {
            return Ok(true);
        }
        let alone = self.open_close.is_alone_in_wal_mode()?;
        let number = self.side.load(Off::new(INDEX_FILE_AT), Ordering::Acquire);
        let others = (!alone).then_some(number.unwrap_or(0));
        let found = match IndexFile::open(
            &self.index_path,
            self.data.mode()?,
            others,
            self.side.number(),
        ) {
            Ok(Found::Ours(index)) => index,
            other => {
                if alone {
                    self.open_close.set_in_wal_mode(false)?;
                }
                return other.map(|_| false);
            }
        };
        found.file().give(self.data.access()?)?;
        self.side.store(Off::new(INDEX_FILE_AT), found.number());
        self.open_close.set_in_wal_mode(true)?;
        let words = IndexWords::new(found.file());
        let owners = SlotOwners::of(&self.side);
        entered.locks = Some(IndexLocks::claim(words, owners, LINES, self.line));
        entered.index = Some(Arc::new(found));
        Ok(true)
    }

    /// Enters WAL mode and opens the log by `open`; recovers the database if it has to, and no other connection has its log
    /// open. Returns the log, and the differential one if it has one; `None` if stock SQLite uses the log. The caller has
    /// the database's shared lock.
    ///
    /// # Errors
    /// As [`Self::join`], or those of `open`; the connections do not agree on a differential log, or it cannot be
    /// recovered from.
    pub(super) fn open_log(
        &self,
        open: impl FnOnce() -> Result<Plain, Failure>,
    ) -> Result<Option<OpenLog>, Failure> {
        let mut entered = self.entered();
        self.open_close.lock()?;
        let opened = self.open_log_behind_door(&mut entered, open);
        self.open_close.unlock()?;
        opened
    }

    fn open_log_behind_door(
        &self,
        entered: &mut Entered,
        open: impl FnOnce() -> Result<Plain, Failure>,
    ) -> Result<Option<OpenLog>, Failure> {
        if !self.join_behind_door(entered)? {
            return Ok(None);
        }
        let index = entered.index.clone().expect("it has just joined");
        let log = open()?;
        let agreed = if self.open_close.has_no_log_open()? {
            let agreed = self.begin_log(&index, &log);
            if agreed.is_err() {
                self.open_close.set_log_open(false)?;
            }
            agreed
        } else {
            self.records.join(index.load(RECORDS_FILE_AT))
        };
        let records = agreed?;
        self.open_close.set_log_open(true)?;
        self.log_is_open.store(true, Ordering::Relaxed);
        Ok(Some(OpenLog { index, log, records }))
    }

    /// Begins the use of a log that no other connection has open.
    fn begin_log(&self, index: &IndexFile, log: &Plain) -> Result<Option<Plain>, Failure> {
        let records = self.records.recover(log)?;
        index.forget_log(log.len());
        if let Some(records) = &records {
            index.store(RECORDS_FILE_AT, records.number());
        }
        Ok(records)
    }

    /// Notes what logs commits in the differential log.
    pub(super) fn set_commits(&self, commits: &Arc<dyn Commits>) {
        *self.commits.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Arc::downgrade(commits));
        self.has_records.store(true, Ordering::Relaxed);
    }

    /// The connection's part in the differential log, if there is one.
    pub(crate) fn commits(&self) -> Option<Arc<dyn Commits>> {
        if !self.has_records.load(Ordering::Relaxed) {
            return None;
        }
        self.commits.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.upgrade()
    }

    /// Returns whether other connections are in WAL mode. The caller holds the open-close lock, and this connection
    /// is not in WAL mode.
    pub(crate) fn others_are_in_wal_mode(&self) -> Result<bool, Failure> {
        let alone = self.open_close.is_alone_in_wal_mode()?;
        if alone {
            self.open_close.set_in_wal_mode(false)?;
        }
        Ok(!alone)
    }

    /// Leaves WAL mode. The caller has given up its locks. The last connection opens the gate again, and removes the
    /// index file if `remove` and stock SQLite has it not open.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn leave(&self, remove: bool) -> Result<(), Failure> {
        let mut entered = self.entered();
        let Some(index) = entered.index.take() else { return Ok(()) };
        // The database file has not taken them, so none is held.
        entered.locks = None;
        // A forked child has its parent's locks.
        check_not_forked(&self.side)?;
        self.set_writes(false);
        self.open_close.set_log_open(false)?;
        self.open_close.lock()?;
        let left = self.leave_behind_door(&index, remove);
        self.open_close.unlock()?;
        left
    }

    fn leave_behind_door(&self, index: &IndexFile, remove: bool) -> Result<(), Failure> {
        if self.open_close.is_alone_in_wal_mode()? {
            index.end(&self.index_path, remove)?;
            self.side.store(Off::new(INDEX_FILE_AT), 0);
        }
        self.open_close.set_in_wal_mode(false)?;
        index.release()
    }

    /// Notes that SQLite has closed the log.
    pub(super) fn log_closed(&self) {
        self.log_is_open.store(false, Ordering::Relaxed);
        self.has_records.store(false, Ordering::Relaxed);
        let _ = self.open_close.set_log_open(false);
        // In exclusive mode SQLite has used no shared index, and does not say that it is done with it.
        if self.entered().locks.is_some() {
            // Without the exclusive lock stock SQLite may just have opened the file. The close of the database tries again.
            let _ = self.leave(self.is_writer[1].load(Ordering::Relaxed));
        }
    }
}

impl Queued for WalConnection {
    fn sleep(&self, place: Place, wish: Wish, asked_us: u64) -> Option<u64> {
        // A connection whose side file has failed may have lost its line, and a forked child has none.
        self.side.healthy().ok()?;
        let index = self.index()?;
        index.file().healthy().ok()?;
        let words = IndexWords::new(index.file());
        let queue = WriteQueue::new(&words, LINES, place);
        Some(queue.sleep(wish, asked_us, &SlotOwners::of(&self.side)))
    }
}

/// The path of the index of a database's log.
pub(crate) fn index_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(INDEX_SUFFIX);
    path.into()
}
