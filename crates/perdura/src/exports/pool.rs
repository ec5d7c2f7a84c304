//! Pools and what they lie on.

/// The failures that a committed transaction survives: see `docs/guarantees.md`.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// let domain: Domain = db.pool_info().header.domain;
/// println!("survives {}", domain.survives());
/// assert_eq!("adr".parse::<Domain>().unwrap(), Domain::Adr);
/// // Without such memory one can still measure what it would cost.
/// Options::new().domain(Domain::Adr).model(true);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::Domain;

/// The error of a word that names no domain.
///
/// ```
/// # use perdura::*;
/// let wrong: ParseDomainError = "ram".parse::<Domain>().unwrap_err();
/// assert_eq!(wrong.to_string(), "`ram` is no durability domain; there are process, adr, eadr and disk");
/// ```
#[doc(inline)]
pub use engines::below::ParseDomainError;

/// The file, the header and the medium of an open pool.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// let info: &PoolInfo = db.pool_info();
/// println!("{}: {}, on {}", info.path.display(), info.domain_text(), info.medium.name);
/// assert_eq!(info.header_damage, None);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::PoolInfo;

/// The medium under a file, with the strongest domain that it gives by itself.
///
/// ```
/// # use perdura::*;
/// let file = std::fs::File::open(std::env::temp_dir()).map_err(Error::user)?;
/// let medium: Medium = medium_of(&file).map_err(Error::user)?;
/// println!("{} gives {}, with {} bytes free", medium.name, medium.natural, free_bytes(&file).unwrap());
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::Medium;

/// An instruction that writes a cache line back to memory.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// for instruction in FlushInstruction::ALL {
///     println!("{}: {}", instruction.name(), instruction.is_available());
/// }
/// // Only domain `adr` needs one.
/// let adr = db.pool_info().header.domain == Domain::Adr;
/// assert_eq!(db.pool_info().flush.is_some(), adr);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::FlushInstruction;

/// The damage of one copy of a pool's header. The other one is used, and opening mends it.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// if let Some(damage) = db.pool_info().header_damage {
///     println!("one copy of the header was damaged: {}", damage.what());
/// }
/// assert_eq!(HeaderDamage::Checksum.what(), "wrong checksum");
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::HeaderDamage;

/// The reason why a pool cannot be created or opened.
///
/// ```
/// # use perdura::*;
/// let missing = Database::open(std::env::temp_dir().join("no/such/pool"), &Options::new());
/// let Err(Error::Pool(error)) = missing else { panic!("there is none") };
/// assert!(matches!(error, PoolError::Io { .. }));
/// println!("{error}");
/// ```
#[doc(inline)]
pub use engines::below::PoolError;

/// Bytes from a medium that are not what they must be.
///
/// ```
/// # use perdura::*;
/// fn is_mediums_fault(error: &Error) -> bool {
///     matches!(error, Error::Damaged(Bad::Poisoned | Bad::Damaged { .. }))
/// }
/// assert!(is_mediums_fault(&Error::from(Bad::Damaged { what: "tuple", at: 4096 })));
/// ```
#[doc(inline)]
pub use engines::below::Bad;

/// The flushes, fences and syncs since counting began.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// db.count(true);
/// let before: Counters = db.counters();
/// db.update(&account, &[Value::from(1)], &[("balance", Value::from(70))])?;
/// for (name, count) in db.counters().since(&before).named().filter(|(_, count)| *count > 0) {
///     println!("{name}: {count}");
/// }
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::Counters;

/// A choice of memories and files. A function over this takes databases on each.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// fn balance<E: Environment>(tx: &Tx<'_, E>, account: &Table, id: u64) -> Result<i64, Error> {
///     Ok(tx.get(account, &[Value::from(id)])?.map_or(0, |row| row.i64(2)))
/// }
/// assert_eq!(balance(&db.begin()?, &account, 1)?, 100);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::Environment;

/// The environment that ships: a pool file and the directory of files next to it.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// fn tuples(db: &Database<Native>) -> Result<u64, Error> {
///     Ok(db.check()?.tuples)
/// }
/// assert_eq!(tuples(&db)?, 2);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::Native;

/// The promise that nothing is begun or finished any more, while the process ends.
///
/// ```
/// # use perdura::*;
/// // In a thread that handles signals: what a copy has made so far is removed.
/// let nothing: NothingMore = remove_unfinished();
/// // `std::process::exit` comes here.
/// drop(nothing);
/// ```
#[doc(inline)]
pub use engines::below::NothingMore;
