//! Engines: their kinds and properties, and their transactions.

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
///     println!("transaction {id} goes on after {statements} statements");
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
