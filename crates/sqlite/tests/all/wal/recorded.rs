//! A log and its database in a recording, with the code that stores, flushes and fences them. SQLite's locks and its
//! index are in this process's memory.

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use perdura_sqlite::database::{
    Commits, Counters, DiffFiles, DiffLog, Failure, IndexLock, Level, LogFile, LogOpener, MainFile,
    MappedLog, WalDatabase, WalFile, WalShared, WalWord, create_records,
};
use pm::{Memory as _, Off, Range};
use sim::{Recording, record_as};

/// The lengths of the database and of the logs, and whether the log's name is there. Each is a word in a line of its own.
pub(super) const DATABASE_BYTES_AT: u64 = 0;
pub(super) const LOG_BYTES_AT: u64 = 64;
pub(super) const LOG_NAME_AT: u64 = 128;
pub(super) const RECORDS_BYTES_AT: u64 = 192;
/// The files.
pub(super) const DATABASE_AT: u64 = 4096;
const DATABASE_MAX: u64 = 160 << 10;
pub(super) const LOG_AT: u64 = DATABASE_AT + DATABASE_MAX;
const LOG_MAX: u64 = 320 << 10;
/// The differential log.
pub(super) const RECORDS_AT: u64 = LOG_AT + LOG_MAX;
const RECORDS_MAX: u64 = 320 << 10;
const END: u64 = RECORDS_AT + RECORDS_MAX;
/// Bytes of a page of the recorded databases, and of a frame's header.
pub(super) const PAGE: u64 = 512;
const FRAME_HEADER: usize = 24;

/// SQLite's lock for writing.
const WRITE: usize = 0;
const LOCKS: usize = 8;
const WORDS: usize = 11;
/// No word is lost.
const NO_LIMIT: i64 = i64::MAX;
/// Words of a region of the index.
const REGION_WORDS: usize = 4096;

/// Faults that tests seed. Left out instructions come on top of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    None,
    /// SQLite syncs no log's header before its frames.
    HeaderUnsynced,
    /// A checkpoint ends without a fence.
    CheckpointUnfenced,
    /// What is stored counts as durable.
    DurableEarly,
    /// A checkpoint next to a writer empties the word of unflushed lines, too.
    DurableOfAnothers,
    /// The log's length is not synced.
    LogLengthUnsynced,
    /// The database's length is not synced.
    DatabaseLengthUnsynced,
    /// The log's name is not synced.
    NameUnsynced,
    /// Other connections do not learn of truncations of the log.
    CutsNotRaised,
    /// Other connections do not learn that the database has another length.
    ResizesNotRaised,
    // In the differential log:
    /// A page's image before is the database's, though the log has a later one.
    WrongImage,
    /// Frames of a transaction that is rolled back are logged.
    UncommittedLogged,
    /// The last line of a commit is not flushed.
    TailUnflushed,
    /// The differential log's length is not synced.
    RecordsLengthUnsynced,
    /// Recovery takes a fresh page for one that the database has.
    FreshMissing,
}

/// A lock of the index.
#[derive(Clone, Copy, Default, Debug)]
struct Lock {
    owner: Option<usize>,
    /// The connections that share it, a bit each.
    holders: u32,
}

type Between = Box<dyn FnOnce() + Send>;

/// The state that the connections of one database share.
pub(super) struct State {
    pub(super) memory: Recording,
    fault: Fault,
    words: [AtomicU64; WORDS],
    regions: Mutex<Vec<Box<[AtomicU64]>>>,
    locks: Mutex<[Lock; LOCKS]>,
    /// Runs before the next fence of the log.
    pub(super) between: Mutex<Option<Between>>,
    /// Runs when the log's length has next been synced.
    after_length: Mutex<Option<Between>>,
    /// There is a differential log.
    has_records: bool,
    /// Each connection's part in the differential log.
    commits: Mutex<Vec<(usize, Arc<dyn Commits>)>>,
    /// Shared words that are stored before later ones are lost.
    words_left: AtomicI64,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("State").field(&self.fault).finish()
    }
}

impl State {
    /// A database without a log, or with an empty differential log.
    pub(super) fn new(database: &[u8], fault: Fault, has_records: bool) -> Arc<Self> {
        let memory = Recording::new(END).unwrap();
        memory.grow(END).unwrap();
        memory.copy(Off::new(DATABASE_AT), database);
        memory.store(Off::new(DATABASE_BYTES_AT), database.len() as u64);
        let state = Arc::new(Self {
            memory,
            fault,
            words: [const { AtomicU64::new(0) }; WORDS],
            regions: Mutex::default(),
            locks: Mutex::default(),
            between: Mutex::default(),
            after_length: Mutex::default(),
            has_records,
            commits: Mutex::default(),
            words_left: AtomicI64::new(NO_LIMIT),
        });
        if has_records {
            create_records(&RecordedFile::new(&state, Role::Records)).unwrap();
        }
        state
    }

    /// The same files in a state of a recording.
    pub(super) fn again(image: &[u8]) -> Arc<Self> {
        let state = Self::new(&[], Fault::None, false);
        state.memory.copy(Off::new(0), image);
        state
    }

    /// All bytes, as they are now.
    pub(super) fn image(&self) -> Vec<u8> {
        let mut image = vec![0; END as usize];
        self.memory.read_into(Off::new(0), &mut image).unwrap();
        image
    }

    /// The files, as recovery has them.
    pub(super) fn files(self: &Arc<Self>) -> [RecordedFile; 3] {
        [Role::Records, Role::Log, Role::Database].map(|role| RecordedFile::new(self, role))
    }

    /// Shows frames in the index as committed.
    pub(super) fn show(&self, frames: u32) {
        let mut regions = self.regions.lock().unwrap();
        if regions.is_empty() {
            regions.push((0..REGION_WORDS).map(|_| AtomicU64::new(0)).collect());
        }
        regions[0][2].store(frames.into(), Ordering::SeqCst);
    }

    /// Sets how many shared words are stored before later ones are lost, as when the process dies.
    pub(super) fn lose_words_after(&self, words: i64) {
        self.words_left.store(words, Ordering::SeqCst);
    }

    /// Ends that.
    pub(super) fn keep_words(&self) {
        self.words_left.store(NO_LIMIT, Ordering::SeqCst);
    }

    /// A connection's part in the differential log.
    pub(super) fn commits(&self, number: usize) -> Option<Arc<dyn Commits>> {
        let commits = self.commits.lock().unwrap();
        commits.iter().rev().find(|known| known.0 == number).map(|known| Arc::clone(&known.1))
    }

    fn word(&self, word: WalWord) -> &AtomicU64 {
        &self.words[match word {
            WalWord::Cuts => 0,
            WalWord::Unflushed => 1,
            WalWord::LogSynced => 2,
            WalWord::Resized => 3,
            WalWord::Synced => 4,
            WalWord::RecordsTurn => 5,
            WalWord::RecordsEnd(end) => 6 + end,
            WalWord::RecordsAt(end) => 8 + end,
            WalWord::RecordsSynced => 10,
        }]
    }

    /// The frames of which the changes are logged.
    fn logged_frames(&self) -> u64 {
        let word = |word| self.word(word).load(Ordering::SeqCst);
        word(WalWord::RecordsEnd(word(WalWord::RecordsTurn) as usize % 2)) >> 32
    }

    /// Returns whether two uncommitted frames of this log are after the one that the index shows.
    fn has_spilled(&self, shown: u32) -> bool {
        let bytes = |at: u64| {
            let mut bytes = [0; 8];
            self.memory.read_into(Off::new(LOG_AT + at), &mut bytes).unwrap();
            bytes
        };
        let at = |frame: u32| 32 + u64::from(frame) * (PAGE + FRAME_HEADER as u64);
        [shown, shown + 1].map(at).iter().all(|at| bytes(at + 8) == bytes(16))
    }

    /// The last frame that the index shows as committed.
    fn published(&self) -> u32 {
        let regions = self.regions.lock().unwrap();
        regions.first().map_or(0, |words| words[2].load(Ordering::SeqCst) as u32)
    }

    pub(super) fn lock(&self, by: usize, asked: IndexLock) -> Result<(), Failure> {
        let mut locks = self.locks.lock().unwrap();
        let locks = &mut locks[asked.first..asked.first + asked.count];
        let (bit, others) = (1 << by, !(1 << by));
        let busy = locks.iter().any(|lock| {
            lock.owner.is_some_and(|owner| owner != by)
                || !asked.shared && lock.holders & others != 0
        });
        if asked.take && busy {
            return Err(Failure::Busy);
        }
        for lock in locks {
            match (asked.shared, asked.take) {
                (true, true) => lock.holders |= bit,
                (true, false) => lock.holders &= others,
                (false, take) => lock.owner = take.then_some(by),
            }
        }
        Ok(())
    }
}

/// A use of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Database,
    Log,
    /// SQLite's log, and the database, of which changes are logged.
    LoggedLog,
    LoggedDatabase,
    Records,
}

/// A file in the recording, as one connection sees it.
#[derive(Debug)]
pub(super) struct RecordedFile {
    state: Arc<State>,
    role: Role,
    base: u64,
    bytes_at: u64,
    /// The length as last seen.
    bytes: Cell<u64>,
}

impl RecordedFile {
    fn new(state: &Arc<State>, role: Role) -> Self {
        let (base, bytes_at) = match role {
            Role::Database | Role::LoggedDatabase => (DATABASE_AT, DATABASE_BYTES_AT),
            Role::Log | Role::LoggedLog => (LOG_AT, LOG_BYTES_AT),
            Role::Records => (RECORDS_AT, RECORDS_BYTES_AT),
        };
        let file = Self { state: Arc::clone(state), role, base, bytes_at, bytes: Cell::new(0) };
        file.bytes.set(file.length());
        file
    }

    /// The bytes that a fault puts in place of those that are read.
    fn mistake(&self, at: u64, out: &mut [u8]) {
        let memory = &self.state.memory;
        let frame = at.saturating_sub(32) / (PAGE + FRAME_HEADER as u64);
        match self.state.fault {
            Fault::WrongImage if out.len() as u64 == PAGE && frame < self.state.logged_frames() => {
                let mut page = [0; 4];
                memory
                    .read_into(Off::new(self.base + at - FRAME_HEADER as u64), &mut page)
                    .unwrap();
                let page_at = (u64::from(u32::from_be_bytes(page)) - 1) * PAGE;
                memory.read_into(Off::new(DATABASE_AT + page_at), out).unwrap();
            }
            Fault::UncommittedLogged if out.len() == FRAME_HEADER && out[4..8] == [0; 4] => {
                out[7] = 40;
            }
            _ => {}
        }
    }

    fn is_log(&self) -> bool {
        self.base == LOG_AT
    }

    fn most(&self) -> u64 {
        match self.role {
            Role::Records => RECORDS_MAX,
            _ if self.is_log() => LOG_MAX,
            _ => DATABASE_MAX,
        }
    }

    fn length(&self) -> u64 {
        self.state.memory.load(Off::new(self.bytes_at), Ordering::Acquire).unwrap()
    }

    fn persist(&self, at: u64) {
        self.state.memory.flush(Range::new(at, 8));
        self.state.memory.fence();
    }
}

impl WalFile for RecordedFile {
    fn bytes(&self) -> u64 {
        self.bytes.get()
    }
    fn see(&self) -> Result<(), Failure> {
        self.bytes.set(self.length());
        Ok(())
    }
    fn read_into(&self, at: u64, out: &mut [u8]) -> Result<(), Failure> {
        assert!(at + out.len() as u64 <= self.bytes());
        self.state.memory.read_into(Off::new(self.base + at), out)?;
        if self.role == Role::LoggedLog {
            self.mistake(at, out);
        }
        Ok(())
    }
    fn address(&self, _: Range) -> Result<*const u8, Failure> {
        unreachable!("pages are copied")
    }
    #[track_caller]
    fn copy(&self, at: u64, bytes: &[u8]) {
        assert!(at + bytes.len() as u64 <= self.bytes());
        // What is stored beyond the end is lost.
        let there = self.length().saturating_sub(at).min(bytes.len() as u64) as usize;
        if there > 0 {
            self.state.memory.copy(Off::new(self.base + at), &bytes[..there]);
        }
    }
    fn write_at(&self, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        let end = at + bytes.len() as u64;
        assert!(end <= self.most());
        self.state.memory.copy(Off::new(self.base + at), bytes);
        if end > self.length() {
            self.state.memory.store(Off::new(self.bytes_at), end);
        }
        self.bytes.set(self.bytes().max(end));
        Ok(())
    }
    fn cut(&self, to: u64) -> Result<(), Failure> {
        self.state.memory.store(Off::new(self.bytes_at), to);
        self.see()
    }
    fn sync_length(&self) -> Result<(), Failure> {
        let left_out = match self.role {
            Role::Records => Fault::RecordsLengthUnsynced,
            _ if self.is_log() => Fault::LogLengthUnsynced,
            _ => Fault::DatabaseLengthUnsynced,
        };
        if self.state.fault != left_out {
            self.persist(self.bytes_at);
        }
        let work =
            if self.is_log() { self.state.after_length.lock().unwrap().take() } else { None };
        if let Some(work) = work {
            work();
        }
        Ok(())
    }
    fn sync_name(&self) -> Result<(), Failure> {
        if self.is_log() && self.state.fault != Fault::NameUnsynced {
            self.persist(LOG_NAME_AT);
        }
        Ok(())
    }
    fn outlasts_power(&self) -> bool {
        true
    }
    fn needs_flush(&self) -> bool {
        true
    }
    #[track_caller]
    fn flush(&self, range: Range) {
        let is_cut = self.role == Role::Records && self.state.fault == Fault::TailUnflushed;
        let (first, end) = range.lines();
        let range = match is_cut && end - first > 1 {
            true => Range::new(range.start, (end - 1) * pm::LINE_BYTES - range.start),
            false => range,
        };
        if range.len > 0 {
            self.state.memory.flush(Range::new(self.base + range.start, range.len));
        }
    }
    #[track_caller]
    fn fence(&self) {
        // It fences as well.
        let work = if self.is_log() { self.state.between.lock().unwrap().take() } else { None };
        if let Some(work) = work {
            work();
        }
        self.state.memory.fence();
    }
    fn healthy(&self) -> Result<(), Failure> {
        Ok(())
    }
}

/// The shared words, as one connection sees them.
#[derive(Debug)]
struct Words {
    state: Arc<State>,
    number: usize,
    counters: Counters,
}

impl Words {
    fn new(state: &Arc<State>, number: usize) -> Self {
        Self { state: Arc::clone(state), number, counters: Counters::default() }
    }
}

impl WalShared for Words {
    fn load(&self, word: WalWord) -> u64 {
        self.state.word(word).load(Ordering::SeqCst)
    }
    fn store(&self, word: WalWord, value: u64) {
        let is_lost = match self.state.fault {
            Fault::DurableEarly => word == WalWord::Unflushed,
            Fault::CutsNotRaised => word == WalWord::Cuts,
            Fault::ResizesNotRaised => word == WalWord::Resized,
            _ => false,
        };
        let left = self.state.words_left.load(Ordering::SeqCst);
        if (1..NO_LIMIT).contains(&left) {
            self.state.words_left.store(left - 1, Ordering::SeqCst);
        }
        if !is_lost && left > 0 {
            self.state.word(word).store(value, Ordering::SeqCst);
        }
    }
    fn is_writer(&self) -> bool {
        self.state.fault == Fault::DurableOfAnothers
            || self.state.locks.lock().unwrap()[WRITE].owner == Some(self.number)
    }
    fn published(&self) -> u32 {
        let shown = self.state.published();
        let lies = self.state.fault == Fault::UncommittedLogged && self.state.has_spilled(shown);
        if lies { shown + 2 } else { shown }
    }
    fn counters(&self) -> &Counters {
        &self.counters
    }
}

#[derive(Debug)]
pub(super) struct Opens {
    pub(super) state: Arc<State>,
    pub(super) number: usize,
}

impl LogOpener for Opens {
    fn open_log(&self, _: &Path) -> Result<Box<dyn LogFile>, Failure> {
        self.state.memory.store(Off::new(LOG_NAME_AT), 1);
        let file = |role| RecordedFile::new(&self.state, role);
        let words = || Words::new(&self.state, self.number);
        if !self.state.has_records {
            return Ok(Box::new(MappedLog::new(file(Role::Log), words())));
        }
        let files = DiffFiles {
            records: file(Role::Records),
            log: [Role::Log, Role::Log, Role::LoggedLog].map(file),
            database: file(Role::LoggedDatabase),
        };
        let log = DiffLog::new(files, words);
        self.state.commits.lock().unwrap().push((self.number, log.commits()));
        Ok(Box::new(log))
    }
}

/// The database of one connection.
#[derive(Debug)]
pub(crate) struct Part {
    database: WalDatabase<RecordedFile, Words>,
    state: Arc<State>,
    number: usize,
    level: Level,
}

impl Part {
    pub(super) fn new(state: &Arc<State>, number: usize) -> Self {
        let file = RecordedFile::new(state, Role::Database);
        let database = WalDatabase::new(file, Words::new(state, number)).unwrap();
        Self { database, state: Arc::clone(state), number, level: Level::None }
    }
}

impl MainFile for Part {
    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<usize, Failure> {
        self.database.read(at, out)
    }
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        if let Some(commits) = self.state.commits(self.number) {
            commits.before_checkpoint()?;
        }
        self.database.write(at, bytes)
    }
    fn truncate(&mut self, to: u64) -> Result<(), Failure> {
        self.database.truncate(to)
    }
    fn size(&mut self) -> Result<u64, Failure> {
        self.database.size()
    }
    fn commit(&mut self, _: Option<&[u8]>) -> Result<(), Failure> {
        Ok(())
    }
    fn sync(&mut self) -> Result<(), Failure> {
        self.database.sync()
    }
    fn end_transaction(&mut self) -> Result<(), Failure> {
        self.state.commits(self.number).map_or(Ok(()), |commits| commits.end_transaction())
    }
    fn lock(&mut self, to: Level) -> Result<(), Failure> {
        // It stays in WAL mode, and the last close does not end it.
        if to > Level::Shared {
            return Err(Failure::Busy);
        }
        self.level = self.level.max(to);
        Ok(())
    }
    fn unlock(&mut self, to: Level) -> Result<(), Failure> {
        self.level = self.level.min(to);
        Ok(())
    }
    fn level(&self) -> Level {
        self.level
    }
    fn is_reserved(&mut self) -> Result<bool, Failure> {
        Ok(false)
    }
    fn has_moved(&self) -> bool {
        false
    }
    fn has_wal_mode(&self) -> bool {
        true
    }
    fn log_opener(&self) -> Option<Arc<dyn LogOpener>> {
        Some(Arc::new(Opens { state: Arc::clone(&self.state), number: self.number }))
    }
    fn map_index(
        &mut self,
        region: u64,
        _: u64,
        create: bool,
    ) -> Result<Option<*const u8>, Failure> {
        let mut regions = self.state.regions.lock().unwrap();
        while create && regions.len() as u64 <= region {
            regions.push((0..REGION_WORDS).map(|_| AtomicU64::new(0)).collect());
        }
        Ok(regions.get(region as usize).map(|words| words.as_ptr().cast()))
    }
    fn lock_index(&mut self, locks: IndexLock) -> Result<(), Failure> {
        if (locks.shared, locks.take, locks.first) == (false, false, WRITE)
            && let Some(commits) = self.state.commits(self.number)
        {
            let logged = commits.end_writing();
            assert!(logged.is_ok() || self.state.fault != Fault::None, "{logged:?}");
        }
        self.state.lock(self.number, locks)?;
        if (locks.shared, locks.take, locks.first) == (false, true, WRITE)
            && let Some(commits) = self.state.commits(self.number)
        {
            commits.begin_writing();
        }
        Ok(())
    }
    fn end_checkpoint(&mut self) -> Result<(), Failure> {
        if let Some(commits) = self.state.commits(self.number) {
            commits.end_checkpoint();
        }
        if self.state.fault == Fault::CheckpointUnfenced {
            return Ok(());
        }
        self.database.end_checkpoint()
    }
    fn is_sequential(&self) -> bool {
        self.state.fault == Fault::HeaderUnsynced
    }
    fn pragma(&mut self, _: &str, _: Option<&str>) -> Option<Result<String, String>> {
        None
    }
    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}

/// Runs `work` as a processor of its own, whose fences cover its own flushes alone.
pub(super) fn as_processor<T>(number: usize, before: usize, work: impl FnOnce() -> T) -> T {
    record_as(Some(number as u32));
    let done = work();
    record_as(Some(before as u32));
    done
}

/// The writer truncates the log after another connection has synced its length, and before that notes it.
#[test]
fn length_from_before_a_truncation_is_not_noted() {
    let state = State::new(&[0; 4096], Fault::None, false);
    let open = |number| {
        let opens = Opens { state: Arc::clone(&state), number };
        opens.open_log(Path::new("log")).unwrap()
    };
    let synced = || state.word(WalWord::LogSynced).load(Ordering::SeqCst);
    let (mut writer, mut other) = (open(0), open(1));
    writer.write(0, &[1; 4128]).unwrap();
    other.sync().unwrap();
    assert_eq!(synced(), 4128);
    writer.write(4128, &[1; 4120]).unwrap();
    let truncate = Box::new(move || writer.truncate(32).unwrap());
    *state.after_length.lock().unwrap() = Some(truncate);
    other.sync().unwrap();
    assert_eq!((state.after_length.lock().unwrap().is_none(), synced()), (true, 32));
}
