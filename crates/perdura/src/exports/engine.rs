//! Engines: their kinds, options, properties and figures.
//!
//! Longer than 600 lines: every export has an example, and there are two for each engine.

/// A method of storage and recovery; `docs/guides/choosing-an-engine.md` compares them.
///
/// ```
/// # use perdura::*;
/// for kind in EngineKind::ALL {
///     println!("{kind}: snapshots {}", kind.traits().snapshots);
/// }
/// assert_eq!("nvm-log".parse::<EngineKind>().unwrap(), EngineKind::NvmLog);
/// Options::new().engine(EngineKind::NvmLog);
/// ```
#[doc(inline)]
pub use engines::EngineKind;

/// The error of a word that names no engine.
///
/// ```
/// # use perdura::*;
/// let wrong: ParseEngineError = "lsm".parse::<EngineKind>().unwrap_err();
/// assert!(wrong.to_string().starts_with("there is no engine `lsm`; there are inp, cow"));
/// ```
#[doc(inline)]
pub use engines::ParseEngineError;

/// An engine's properties in one value.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// let traits: EngineTraits = db.traits();
/// if traits.snapshots {
///     println!("{} tuples in a snapshot", db.snapshot()?.rows(&account, Scan::all()).count());
/// }
/// assert!(traits.isolation >= Isolation::Snapshot);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::EngineTraits;

/// The place of what an engine makes durable.
///
/// ```
/// # use perdura::*;
/// assert_eq!(EngineKind::NvmInp.traits().durable_in, DurableIn::Pool);
/// assert_eq!(EngineKind::Inp.traits().durable_in, DurableIn::Files);
/// ```
#[doc(inline)]
pub use engines::DurableIn;

/// The number of transactions that a partition runs at the same time.
///
/// ```
/// # use perdura::*;
/// for kind in EngineKind::P1 {
///     assert_eq!(kind.traits().concurrency, Concurrency::Serial);
/// }
/// assert_eq!(EngineKind::NvDisk.traits().concurrency, Concurrency::Shared);
/// ```
#[doc(inline)]
pub use engines::Concurrency;

/// The isolation of transactions from each other, from the weakest level to the strongest.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// let at_least = WriteOptions::new().isolation(Isolation::Snapshot);
/// db.write_with(at_least, |tx| -> Result<(), Error> {
///     tx.update(&account, &[Value::from(1)], &[("balance", Value::from(70))])
/// })?;
/// assert!(Isolation::Serializable > Isolation::Snapshot);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::Isolation;

/// The fate of a transaction that a crash has cut off.
///
/// ```
/// # use perdura::*;
/// assert_eq!(EngineKind::NvmInp.traits().unfinished, Unfinished::Undone);
/// assert_eq!(EngineKind::Sofort.traits().unfinished, Unfinished::Continued);
/// ```
#[doc(inline)]
pub use engines::Unfinished;

/// The number of an open transaction in its partition.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// // Only engines that continue transactions after a crash have some here.
/// let ids: Vec<TxId> = db.partition(0).in_flight().iter().map(|open| open.id).collect();
/// assert!(ids.is_empty());
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::TxId;

/// A transaction that a crash has cut off and that goes on, in an engine that continues them.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// let open: Vec<InFlight> = db.partition(0).in_flight();
/// for InFlight { id, statements, .. } in &open {
///     println!("transaction {id} goes on behind {statements} statements");
/// }
/// assert!(open.is_empty(), "this engine undoes them");
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::InFlight;

/// The way in which two transactions conflict.
///
/// ```
/// # use perdura::*;
/// let error = Error::Conflict { reason: ConflictReason::WriteWrite, tries: 3 };
/// assert!(error.to_string().contains("both changed the same tuple"));
/// ```
#[doc(inline)]
pub use engines::ConflictReason;

/// An engine, and what was chosen about it.
///
/// ```
/// # use perdura::*;
/// let mut options: EngineOptions = EngineKind::Inp.into();
/// options.set("checkpoint_bytes", 16 << 20).unwrap();
/// assert_eq!(options, InpOptions { checkpoint_bytes: 16 << 20, ..InpOptions::default() }.into());
/// Options::new().engine(options);
/// ```
#[doc(inline)]
pub use engines::EngineOptions;

/// An option of an engine: its meaning, its default and its limits.
///
/// ```
/// # use perdura::*;
/// let option: &EngineOption = EngineKind::Log.option("memtable_bytes").unwrap();
/// assert_eq!((option.default, option.unit), (32 << 20, "bytes"));
/// assert!(option.check(1).is_err());
/// ```
#[doc(inline)]
pub use engines::EngineOption;

/// The least and the largest value of an option.
///
/// ```
/// # use perdura::*;
/// let limits: Limits = EngineKind::Log.option("level0_runs").unwrap().limits();
/// assert_eq!(limits.to_string(), "1 to 1000000");
/// ```
#[doc(inline)]
pub use engines::Limits;

/// The reason why an option of an engine is refused.
///
/// ```
/// # use perdura::*;
/// let mut options: EngineOptions = EngineKind::Inp.into();
/// assert!(matches!(options.set("memtable_bytes", 1), Err(OptionError::Unknown { .. })));
/// assert!(matches!(options.set("checkpoint_bytes", 0), Err(OptionError::Limits { .. })));
/// ```
#[doc(inline)]
pub use engines::OptionError;

/// The options of one engine, by their names.
///
/// ```
/// # use perdura::*;
/// fn print<O: OwnOptions>() {
///     for option in O::ALL {
///         println!("{}: {} ({})", option.name, option.meaning, option.default);
///     }
/// }
/// print::<NvmLogOptions>();
/// assert_eq!(NvmLogOptions::default().get("growth"), Some(10));
/// ```
#[doc(inline)]
pub use engines::OwnOptions;

/// The options of `inp`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = InpOptions { checkpoint_bytes: 16 << 20, ..InpOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("checkpoint_bytes"), Some(16 << 20));
/// ```
#[doc(inline)]
pub use engines::InpOptions;

/// The options of `cow`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = CowOptions { cache_bytes: 1 << 30, ..CowOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("cache_bytes"), Some(1 << 30));
/// ```
#[doc(inline)]
pub use engines::CowOptions;

/// The options of `log`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = LogOptions { memtable_bytes: 64 << 20, ..LogOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("memtable_bytes"), Some(64 << 20));
/// ```
#[doc(inline)]
pub use engines::LogOptions;

/// The options of `nvm-inp`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = NvmInpOptions { node_bytes: 1024, ..NvmInpOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("node_bytes"), Some(1024));
/// ```
#[doc(inline)]
pub use engines::NvmInpOptions;

/// The options of `nvm-cow`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = NvmCowOptions { tree_node_bytes: 512, ..NvmCowOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("tree_node_bytes"), Some(512));
/// ```
#[doc(inline)]
pub use engines::NvmCowOptions;

/// The options of `nvm-log`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = NvmLogOptions { memtable_bytes: 64 << 20, ..NvmLogOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("memtable_bytes"), Some(64 << 20));
/// ```
#[doc(inline)]
pub use engines::NvmLogOptions;

/// The options of `nv-disk`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = NvDiskOptions { buffer_bytes: 1 << 30, ..NvDiskOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("buffer_bytes"), Some(1 << 30));
/// ```
#[doc(inline)]
pub use engines::NvDiskOptions;

/// The options of `nv-logging-foi`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = NvLoggingFoiOptions { log_bytes: 64 << 20, ..NvLoggingFoiOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("log_bytes"), Some(64 << 20));
/// ```
#[doc(inline)]
pub use engines::NvLoggingFoiOptions;

/// The options of `nv-logging-foc`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = NvLoggingFocOptions { persister: 0, ..NvLoggingFocOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("persister"), Some(0));
/// ```
#[doc(inline)]
pub use engines::NvLoggingFocOptions;

/// The options of `fast`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = FastOptions { checksummed: 1, ..FastOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("checksummed"), Some(1));
/// ```
#[doc(inline)]
pub use engines::FastOptions;

/// The options of `fash`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = FashOptions { checksummed: 1, ..FashOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("checksummed"), Some(1));
/// ```
#[doc(inline)]
pub use engines::FashOptions;

/// The options of `nvwal`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = NvwalOptions { page_bytes: 1024, ..NvwalOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("page_bytes"), Some(1024));
/// ```
#[doc(inline)]
pub use engines::NvwalOptions;

/// The options of `journal`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = JournalOptions { page_bytes: 1024 };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("page_bytes"), Some(1024));
/// ```
#[doc(inline)]
pub use engines::JournalOptions;

/// The options of `wal`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = WalOptions { page_bytes: 1024, ..WalOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("page_bytes"), Some(1024));
/// ```
#[doc(inline)]
pub use engines::WalOptions;

/// The options of `sofort`, each with its default.
///
/// ```
/// # use perdura::*;
/// let chosen = SofortOptions { reserve: 4096, ..SofortOptions::default() };
/// Options::new().engine(chosen.clone());
/// assert_eq!(chosen.get("reserve"), Some(4096));
/// ```
#[doc(inline)]
pub use engines::SofortOptions;

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
