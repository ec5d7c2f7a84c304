//! A small store: pages of 512 bytes, few frames, a log that soon goes round.

use std::sync::Arc;
use std::time::Duration;

use paged::flaw::Flaw;
use paged::ids::TreeNo;
use paged::latch::Followed;
use paged::lock::LockOptions;
use paged::log::LogManager;
use paged::log::central::{Central, CentralOptions};
use paged::log::nv::{NvForm, NvLog, NvOptions, Persist};
use paged::store::{Restart, Store, StoreOptions};
use paged::threads::Baton;
use pm::{LINE_BYTES, Memory};
use sim::{CombinedImage, CombinedTrace, Recording, RecordingFiles};

use super::lies::{Lie, Lying};

/// The trees of the store.
pub const TREES: [TreeNo; 2] = [TreeNo(1), TreeNo(2)];

const STAMP: u32 = 77;
const ENTRIES: u64 = 128;
/// Records of the largest size that all segments hold together.
const LARGEST_RECORDS: u64 = 48;
/// The place of a log that lies in memory.
const AT: u64 = 4096;
/// The memory of a log that lies in files.
const NO_LOG: u64 = 4096;

/// A log manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogKind {
    /// The central log, in files.
    Central,
    /// NV-Logging with flush-on-insert.
    OnInsert,
    /// NV-Logging with flush-on-commit, and its persister as one of the threads.
    OnCommit,
}

impl LogKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Central, Self::OnInsert, Self::OnCommit];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Central => "central",
            Self::OnInsert => "flush-on-insert",
            Self::OnCommit => "flush-on-commit",
        }
    }

    /// Returns whether the log lies in non-volatile memory.
    pub fn is_nv(self) -> bool {
        self != Self::Central
    }
}

/// A memory and its files.
#[derive(Clone, Debug)]
pub struct Media {
    /// The memory.
    pub memory: Recording,
    /// The files.
    pub files: RecordingFiles,
}

impl Media {
    /// Media as a crash has left them.
    ///
    /// # Panics
    /// The kernel has no addresses left.
    pub fn of(image: &CombinedImage) -> Self {
        let memory = Recording::from_image(&image.memory, 1 << 20).expect("address space");
        let files = memory.files(image.files.clone());
        Self { memory, files }
    }

    /// The contents now.
    pub fn image(&self) -> CombinedImage {
        CombinedImage { memory: self.memory.contents(), files: self.files.image() }
    }

    /// Starts to record.
    pub fn start(&self) {
        self.memory.start();
        self.files.start();
    }

    /// Ends the recording and returns the record.
    pub fn stop(&self) -> CombinedTrace {
        CombinedTrace { memory: self.memory.stop(), files: self.files.stop() }
    }
}

/// The options of a store, and what is wrong with it.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// The log manager.
    pub log: LogKind,
    /// Bytes of a page: one of 512 is a sector, and never torn.
    pub page_bytes: usize,
    /// Frames of the buffer pool.
    pub frames: usize,
    /// Speculative lock inheritance.
    pub inherit: bool,
    /// Early lock release.
    pub early_release: bool,
    /// The order in which it is recovered and opened.
    pub restart: Restart,
    /// Records of the largest size that a segment of a log in memory holds.
    pub segment_records: u64,
    /// A policy of the store that is wrong.
    pub flaw: Option<Flaw>,
    /// A log manager that does wrong.
    pub lie: Option<Lie>,
}

type Nv = NvLog<Recording, Baton>;

/// An open store.
#[derive(Debug)]
pub struct Open {
    /// The store.
    pub store: Arc<Store<RecordingFiles, Baton>>,
    /// The log that has a persister.
    pub persisted: Option<Arc<Nv>>,
}

impl Stage {
    /// A store that has nothing wrong.
    pub fn new(log: LogKind) -> Self {
        Self {
            log,
            page_bytes: 512,
            frames: 16,
            inherit: true,
            early_release: true,
            restart: Restart::Full,
            segment_records: 4,
            flaw: None,
            lie: None,
        }
    }

    /// A baton for it.
    pub fn baton(&self, seed: u64) -> Arc<Baton> {
        Arc::new(Baton::new(seed).with(self.flaw))
    }

    fn options(&self) -> StoreOptions {
        let inherit_after = self.inherit.then_some(2);
        let timeout = Duration::from_millis(200);
        let locks = LockOptions { shards: 4, timeout, inherit_after, ..LockOptions::default() };
        let Self { page_bytes, frames, early_release, restart, .. } = *self;
        let room_wait = Duration::from_millis(20);
        let options =
            StoreOptions { page_bytes, frames, locks, room_wait, ..StoreOptions::default() };
        StoreOptions { early_release, restart, ..options }
    }

    /// Bytes of the largest record: a part of a long row before and afterwards.
    fn record_bytes(&self) -> usize {
        2 * self.page_bytes + 512
    }

    fn form(&self) -> NvForm {
        let record_bytes = (self.record_bytes() as u64).next_multiple_of(LINE_BYTES);
        NvForm {
            entries: ENTRIES,
            segments: LARGEST_RECORDS / self.segment_records,
            segment_bytes: self.segment_records * record_bytes,
            record_bytes,
        }
    }

    fn central_options(&self) -> CentralOptions {
        let record_bytes = self.record_bytes().max(1024);
        CentralOptions {
            partitions: 8,
            partition_bytes: 5 * record_bytes as u64,
            buffer_bytes: 64 << 10,
            group_bytes: 8 << 10,
            record_bytes,
            reserve_bytes: 4096,
            checkpoint_bytes: 12 << 10,
            group_wait: Duration::ZERO,
        }
    }

    fn nv_options(&self) -> NvOptions {
        let on_commit = self.log == LogKind::OnCommit;
        NvOptions {
            persist: if on_commit { Persist::OnCommit } else { Persist::OnInsert },
            // A thread that is stopped in an insert has its lane: each needs one.
            lanes: 4,
            checkpoint_records: 40,
        }
    }

    /// Makes an empty store on media of its own.
    ///
    /// # Panics
    /// It can't be made.
    pub fn create(&self, baton: &Arc<Baton>) -> (Media, Open) {
        let memory = Recording::new(1 << 20).expect("address space");
        let bytes = if self.log.is_nv() { AT + self.form().bytes() } else { NO_LOG };
        memory.grow(bytes).expect("within its limit");
        let media = Media { files: memory.files(CombinedImage::default().files), memory };
        let (memory, threads) = (media.memory.clone(), Arc::clone(baton));
        let (log, persisted) = if self.log.is_nv() {
            let log = NvLog::create(memory, AT, self.form(), STAMP, self.nv_options(), threads);
            with_persister(log, self.log)
        } else {
            let log = Central::create(&media.files, "log-", self.central_options(), threads);
            let log: Arc<dyn LogManager> = Arc::new(log.expect("a log"));
            (log, None)
        };
        let log = self.lie.map_or(Arc::clone(&log), |lie| Lying::over(log, lie));
        let stamp = u64::from(STAMP);
        let options = self.options();
        let store =
            Store::create_by(Arc::clone(baton), &media.files, "", stamp, log, options, &TREES);
        (media, Open { store: store.expect("a store"), persisted })
    }

    /// Opens the store on media that a crash has left.
    ///
    /// # Errors
    /// It does not open.
    pub fn open(&self, media: &Media) -> paged::Result<Open> {
        let baton = self.baton(1);
        Followed::by(baton.clone(), || {
            let (memory, threads) = (media.memory.clone(), Arc::clone(&baton));
            let (log, persisted) = if self.log.is_nv() {
                let log = NvLog::open(memory, AT, STAMP, self.nv_options(), threads)?;
                with_persister(log, self.log)
            } else {
                let log = Central::open(&media.files, "log-", self.central_options(), threads)?;
                let log: Arc<dyn LogManager> = Arc::new(log);
                (log, None)
            };
            let log = self.lie.map_or(Arc::clone(&log), |lie| Lying::over(log, lie));
            let options = self.options();
            let (store, _) = Store::open_by(baton, &media.files, "", log, options)?;
            Ok(Open { store, persisted })
        })
    }
}

fn with_persister(log: Nv, kind: LogKind) -> (Arc<dyn LogManager>, Option<Arc<Nv>>) {
    let log = Arc::new(log);
    let persisted = (kind == LogKind::OnCommit).then(|| Arc::clone(&log));
    (log, persisted)
}
