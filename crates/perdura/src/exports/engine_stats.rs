//! The figures of engines: work, recovery, checks, storage.

/// The work that an engine has done since it was opened, and the work that waits.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// let stats: EngineStats = db.stats()?;
/// println!("{} bytes of the user's, {} bytes wait", stats.user_bytes, stats.waiting_bytes);
/// assert_eq!((stats.own.kind(), stats.failures), (db.engine(), 0));
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::EngineStats;

/// The figures of one engine that others do not have.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::Cow));
/// let own: OwnStats = db.stats()?.own;
/// assert!(own.runs().is_none(), "it has no runs");
/// assert_eq!(own.pages().map(|pages| pages.batches > 0), Some(true));
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::OwnStats;

/// The figures of `inp`: its checkpoints.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::Inp));
/// db.checkpoint()?;
/// let OwnStats::Inp(InpStats { checkpoints, .. }) = db.stats()?.own else { unreachable!() };
/// assert_eq!(checkpoints, 1);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::InpStats;

/// The figures of `cow`: its pages.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::Cow));
/// let OwnStats::Cow(CowStats { pages }) = db.stats()?.own else { unreachable!() };
/// assert!(pages.made_pages > 0);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::CowStats;

/// The figures of `log`: flushed MemTables and SSTables.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::Log));
/// let OwnStats::Log(LogStats { stalls, levels, .. }) = db.stats()?.own else { unreachable!() };
/// assert_eq!((stalls, levels.merges), (0, 0));
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::LogStats;

/// The figures of `nvm-inp`: none, since it puts nothing off.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::NvmInp));
/// assert_eq!(db.stats()?.own, OwnStats::NvmInp(NvmInpStats {}));
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::NvmInpStats;

/// The figures of `nvm-cow`: its pages.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::NvmCow));
/// let OwnStats::NvmCow(NvmCowStats { pages }) = db.stats()?.own else { unreachable!() };
/// assert!(pages.batches > 0);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::NvmCowStats;

/// The figures of `nvm-log`: frozen MemTables and runs.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::NvmLog));
/// let OwnStats::NvmLog(NvmLogStats { freezes, levels }) = db.stats()?.own else { unreachable!() };
/// assert_eq!((freezes, levels.merges), (0, 0));
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::NvmLogStats;

/// The figures of `nv-disk`: its buffer pool, its log and its locks.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::NvDisk));
/// let OwnStats::NvDisk(own) = db.stats()?.own else { unreachable!() };
/// let NvDiskStats { buffer, log_groups } = own;
/// assert!(buffer.hits > 0 && log_groups > 0 && buffer.lock_requests > 0);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::NvDiskStats;

/// The figures of the buffer pool and the locks of a paged engine.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::NvLoggingFoi));
/// let own = db.stats()?.own;
/// let BufferStats { hits, reads, lock_waits, .. } = own.buffer().expect("a paged engine");
/// println!("{hits} pages were there, {reads} were read");
/// assert_eq!(*lock_waits, 0);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::BufferStats;

/// The figures of `nv-logging-foi`: its buffer pool and locks, and log objects.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::NvLoggingFoi));
/// let OwnStats::NvLoggingFoi(own) = db.stats()?.own else { unreachable!() };
/// let NvLoggingFoiStats { buffer, objects } = own;
/// assert!(objects > 0 && buffer.lock_requests > 0);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::NvLoggingFoiStats;

/// The figures of `nv-logging-foc`: its buffer pool and locks, log objects, and which flushes made
/// them durable.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::NvLoggingFoc));
/// let OwnStats::NvLoggingFoc(own) = db.stats()?.own else { unreachable!() };
/// let NvLoggingFocStats { objects, by_persister, by_commits, .. } = own;
/// assert!((1..=objects).contains(&(by_persister + by_commits)));
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::NvLoggingFocStats;

/// The figures of `fast`: commits in place, and commits by its log.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::Fast));
/// let OwnStats::Fast(own) = db.stats()?.own else { unreachable!() };
/// let FastStats { in_place, logged } = own;
/// assert!(in_place + logged > 0);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::FastStats;

/// The figures of `fash`: commits by its log.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::Fash));
/// let OwnStats::Fash(own) = db.stats()?.own else { unreachable!() };
/// let FashStats { logged } = own;
/// assert!(logged > 0);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::FashStats;

/// The figures of `nvwal`: commits, and checkpoints of its log.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::Nvwal));
/// let OwnStats::Nvwal(own) = db.stats()?.own else { unreachable!() };
/// let NvwalStats { logged, checkpoints, checkpoint_bytes } = own;
/// assert!(logged > 0 && checkpoint_bytes >= checkpoints);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::NvwalStats;

/// The figures of `journal`: commits, and the pages that they have written.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::Journal));
/// let OwnStats::Journal(own) = db.stats()?.own else { unreachable!() };
/// let JournalStats { logged, page_bytes } = own;
/// assert!(logged > 0 && page_bytes >= logged);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::JournalStats;

/// The figures of `wal`: commits, and checkpoints of its log.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::Wal));
/// let OwnStats::Wal(own) = db.stats()?.own else { unreachable!() };
/// let WalStats { logged, checkpoints, checkpoint_bytes } = own;
/// assert!(logged > 0 && checkpoint_bytes >= checkpoints);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::WalStats;

/// The figures of `sofort`: statements and commits, and how much of its indexes is built.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::Sofort));
/// let OwnStats::Sofort(own) = db.stats()?.own else { unreachable!() };
/// let SofortStats { commits, statements, built, unbuilt, .. } = own;
/// assert!(statements >= commits && built > 0 && unbuilt == 0);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::SofortStats;

/// An index of `sofort`: whether it lies in persistent memory, how much of it is built, how often
/// it is used.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::Sofort));
/// for StructureStats { name, durable, waiting, built, uses } in db.structures()? {
///     println!("{name}: durable {durable}, {built} built, {waiting} wait; used {uses} times");
/// }
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::StructureStats;

/// Pages and log of a partition that has a buffer pool, as its files say.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (directory, db, _) = accounts(&Options::new().engine(EngineKind::NvDisk));
/// # db.close()?;
/// # let path = directory.path().join("accounts");
/// let files = inspect(&path)?.files.expect("engine `nv-disk` has files");
/// let PagedFigures { page_bytes, pages, .. } = files.paged[0];
/// assert!(page_bytes == 8192 && pages > 3);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::PagedFigures;

/// The figures of a log in files with partitions.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (directory, db, _) = accounts(&Options::new().engine(EngineKind::NvDisk));
/// # db.close()?;
/// # let path = directory.path().join("accounts");
/// let files = inspect(&path)?.files.expect("engine `nv-disk` has files");
/// let LogFigures { partitions, kept_bytes, capacity_bytes, .. } = files.paged[0].log.unwrap();
/// assert!(partitions == 8 && kept_bytes.unwrap() < capacity_bytes);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::LogFigures;

/// The figures of a log-structured engine's runs, level by level.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::NvmLog));
/// let stats = db.stats()?;
/// let runs: &RunStats = stats.own.runs().expect("a log-structured engine has runs");
/// println!("{} runs at level 0, {} bytes merged", runs.runs[0], runs.all_merged_bytes());
/// assert_eq!(runs.merges, 0);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::RunStats;

/// The figures of a copy-on-write engine's pages.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::NvmCow));
/// let stats = db.stats()?;
/// let pages: &PageStats = stats.own.pages().expect("a copy-on-write engine has pages");
/// assert!(pages.made_pages >= pages.batches);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::PageStats;

/// Work that was put off and has been done.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// let work: WorkDone = db.stats()?.inline;
/// println!("{} steps, {} bytes", work.steps, work.bytes);
/// assert_eq!(db.stats()?.inline - work, WorkDone::default());
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::WorkDone;

/// The work of recovery when a database was opened.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// let report: RecoveryReport = db.recovery_report();
/// assert_eq!(report, RecoveryReport::default(), "this handle has created it");
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::RecoveryReport;

/// The frames of a log on slotted pages that an opening has stored where they belong.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (directory, db, _) = accounts(&Options::new().engine(EngineKind::Nvwal));
/// # let path = directory.path().join("accounts");
/// db.abandon();
/// let log: RecoveredLog = Database::open(&path, &Options::new())?.recovery_report().log;
/// assert!(log.frames > 0 && log.frame_bytes > 0);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::RecoveredLog;

/// The result of a check of a whole database that is not damaged.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// let report: CheckReport = db.check()?;
/// assert_eq!((report.tuples, report.leaked, report.dangling), (2, 0, 0));
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::CheckReport;

/// Bytes of storage by component.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// let footprint: Footprint = db.footprint()?;
/// println!("{} bytes, of them {} of indexes", footprint.total(), footprint.index);
/// assert!(footprint.total() > 0);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::Footprint;
