//! The recording media of crash tests; see [`Media`](crate::Media).
//!
//! Memory and files remember each thing that is done to them. A replay walks along such a trace and
//! stops where a crash would matter; each state that a power cut may leave there becomes a memory
//! again, and a database is opened on it.
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use perdura::recording::{Recording, RecordingFiles, Replay};
//! use perdura::{ColumnType, Database, Media, Options, Recorded, Schema, TableSchema, Value};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let schema =
//!     Schema::new().table(TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]));
//! let memory = Recording::pool(1 << 20, 1 << 26)?;
//! let media = Media::recorded(memory.clone(), RecordingFiles::new());
//! let db = Database::create_on(media, &schema, &Options::new())?;
//! let table = db.table("t")?;
//! memory.start();
//! db.insert(&table, &[Value::from(1)])?;
//! memory.note(1); // it is acknowledged from here on
//! let trace = memory.stop();
//!
//! let (mut replay, mut states) = (Replay::new(&trace), 0);
//! while let Some(point) = replay.next_point() {
//!     let acknowledged = point.last_note.is_some();
//!     point.for_each_state(16, 1, |image| {
//!         let left = Recording::pool_from_image(image, 1 << 26).unwrap();
//!         left.mark_open().unwrap();
//!         let media = Media::recorded(left, RecordingFiles::new());
//!         let db = Database::<Recorded>::open_on(media, &Options::new()).unwrap();
//!         let row = db.get(&db.table("t").unwrap(), &[Value::from(1)]).unwrap();
//!         assert!(row.is_some() || !acknowledged);
//!         states += 1;
//!     });
//! }
//! assert!(states > 0);
//! # Ok(())
//! # }
//! ```

pub use engines::table2;

/// Memory that records what is done to it. Clones share it.
///
/// ```
/// # use perdura::*;
/// # use perdura::recording::*;
/// # let schema = Schema::new()
/// #     .table(TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]));
/// let memory = Recording::pool(1 << 20, 1 << 26).map_err(Error::user)?;
/// let media = Media::recorded(memory.clone(), RecordingFiles::new());
/// let db = Database::create_on(media, &schema, &Options::new())?;
/// memory.start();
/// db.insert(&db.table("t")?, &[Value::from(1)])?;
/// assert!(!memory.stop().events.is_empty());
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::Recording;

/// The record of what was done to a memory.
///
/// ```
/// # use perdura::*;
/// # use perdura::recording::*;
/// # let schema = Schema::new()
/// #     .table(TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]));
/// # let memory = Recording::pool(1 << 20, 1 << 26).map_err(Error::user)?;
/// # let files = RecordingFiles::new();
/// # let media = Media::recorded(memory.clone(), files.clone());
/// # let db = Database::create_on(media, &schema, &Options::new())?;
/// # let table = db.table("t")?;
/// memory.start();
/// db.insert(&table, &[Value::from(1)])?;
/// let trace: Trace = memory.stop();
/// // The same without what one place in the source flushes: does a test notice?
/// let site = trace.flush_sites()[0];
/// assert!(trace.without_flushes_of(site).events.len() < trace.events.len());
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::Trace;

/// A thing that was done to a memory.
///
/// ```
/// # use perdura::*;
/// # use perdura::recording::*;
/// # let schema = Schema::new()
/// #     .table(TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]));
/// # let memory = Recording::pool(1 << 20, 1 << 26).map_err(Error::user)?;
/// # let files = RecordingFiles::new();
/// # let media = Media::recorded(memory.clone(), files.clone());
/// # let db = Database::create_on(media, &schema, &Options::new())?;
/// # let table = db.table("t")?;
/// memory.start();
/// db.insert(&table, &[Value::from(1)])?;
/// let trace = memory.stop();
/// let fences = trace.events.iter().filter(|recorded| matches!(recorded.event, Event::Fence));
/// assert_eq!(fences.count() as u64, trace.counters().fences);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::Event;

/// The place in the source that asked for something.
///
/// ```
/// # use perdura::*;
/// # use perdura::recording::*;
/// # let schema = Schema::new()
/// #     .table(TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]));
/// # let memory = Recording::pool(1 << 20, 1 << 26).map_err(Error::user)?;
/// # let files = RecordingFiles::new();
/// # let media = Media::recorded(memory.clone(), files.clone());
/// # let db = Database::create_on(media, &schema, &Options::new())?;
/// # let table = db.table("t")?;
/// memory.start();
/// db.insert(&table, &[Value::from(1)])?;
/// let sites: Vec<Site> = memory.stop().fence_sites();
/// println!("{sites:?}");
/// assert!(!sites.is_empty());
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::Site;

/// A step of an engine's work that it marks in a trace; [`table2`] has those of P1's Table 2.
///
/// ```
/// # use perdura::*;
/// # use perdura::recording::*;
/// # let schema = Schema::new()
/// #     .table(TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]));
/// # let memory = Recording::pool(1 << 20, 1 << 26).map_err(Error::user)?;
/// # let files = RecordingFiles::new();
/// # let media = Media::recorded(memory.clone(), files.clone());
/// # let db = Database::create_on(media, &schema, &Options::new())?;
/// # let table = db.table("t")?;
/// memory.start();
/// db.insert(&table, &[Value::from(1)])?;
/// let trace = memory.stop();
/// let steps = trace.events.iter().filter_map(|recorded| match recorded.event {
///     Event::Mark(Step(name)) => Some(name),
///     _ => None,
/// });
/// assert!(steps.count() > 0);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::Step;

/// Walks along a trace of a memory and stops where a crash would matter.
///
/// ```
/// # use perdura::*;
/// # use perdura::recording::*;
/// # let schema = Schema::new()
/// #     .table(TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]));
/// # let memory = Recording::pool(1 << 20, 1 << 26).map_err(Error::user)?;
/// # let files = RecordingFiles::new();
/// # let media = Media::recorded(memory.clone(), files.clone());
/// # let db = Database::create_on(media, &schema, &Options::new())?;
/// # let table = db.table("t")?;
/// memory.start();
/// db.insert(&table, &[Value::from(1)])?;
/// let trace = memory.stop();
/// let (mut replay, mut points) = (Replay::new(&trace), 0);
/// while replay.pass_point() {
///     points += 1;
/// }
/// assert!(points > 0 && replay.fences() > 0);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::Replay;

/// A place in a trace, with all that memory may hold if the power is cut there.
///
/// ```
/// # use perdura::*;
/// # use perdura::recording::*;
/// # let schema = Schema::new()
/// #     .table(TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]));
/// # let memory = Recording::pool(1 << 20, 1 << 26).map_err(Error::user)?;
/// # let files = RecordingFiles::new();
/// # let media = Media::recorded(memory.clone(), files.clone());
/// # let db = Database::create_on(media, &schema, &Options::new())?;
/// # let table = db.table("t")?;
/// memory.start();
/// db.insert(&table, &[Value::from(1)])?;
/// let trace = memory.stop();
/// let mut replay = Replay::new(&trace);
/// let point: CrashPoint<'_> = replay.next_point().expect("something was stored");
/// let mut states = 0;
/// point.for_each_state(16, 1, |image| states += usize::from(image.len() == point.persisted.len()));
/// assert!(states > 0);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::CrashPoint;

/// A memory when the process that used it was killed: what it has stored is there.
///
/// ```
/// # use perdura::*;
/// # use perdura::recording::*;
/// # let schema = Schema::new()
/// #     .table(TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]));
/// # let memory = Recording::pool(1 << 20, 1 << 26).map_err(Error::user)?;
/// # let files = RecordingFiles::new();
/// # let media = Media::recorded(memory.clone(), files.clone());
/// # let db = Database::create_on(media, &schema, &Options::new())?;
/// # let table = db.table("t")?;
/// memory.start();
/// db.insert(&table, &[Value::from(1)])?;
/// let mut kills = 0;
/// memory.stop().kills(1, |killed: &Killed| {
///     assert!(killed.visible().len() >= 1 << 20);
///     kills += 1;
/// });
/// assert!(kills > 0);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::Killed;

/// Memory that is addressed by offsets, volatile or durable.
///
/// ```
/// # use perdura::*;
/// # use perdura::recording::*;
/// fn bytes(memory: &impl Memory) -> u64 {
///     memory.len()
/// }
/// let memory = Recording::pool(1 << 20, 1 << 26).map_err(Error::user)?;
/// assert_eq!(bytes(&memory), 1 << 20);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::Memory;

/// Memory that ends with the process.
///
/// ```
/// # use perdura::*;
/// # use perdura::recording::*;
/// let memory = Dram::new(1 << 20).map_err(Error::user)?;
/// assert!(!Dram::DURABLE && memory.is_empty());
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::Dram;

/// A directory in memory that records what is done to it. Clones share it.
///
/// ```
/// # use perdura::*;
/// # use perdura::recording::*;
/// # let schema = Schema::new()
/// #     .table(TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]));
/// # let memory = Recording::pool(1 << 20, 1 << 26).map_err(Error::user)?;
/// let files = RecordingFiles::new();
/// let inp = Options::new().engine(EngineKind::Inp);
/// let db = Database::create_on(Media::recorded(memory, files.clone()), &schema, &inp)?;
/// files.start();
/// db.insert(&db.table("t")?, &[Value::from(1)])?;
/// assert!(!files.stop().sync_sites().is_empty());
/// println!("{:?}", files.image().keys());
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::RecordingFiles;

/// The record of what was done to files.
///
/// ```
/// # use perdura::*;
/// # use perdura::recording::*;
/// # let schema = Schema::new()
/// #     .table(TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]));
/// # let memory = Recording::pool(1 << 20, 1 << 26).map_err(Error::user)?;
/// # let files = RecordingFiles::new();
/// # let media = Media::recorded(memory.clone(), files.clone());
/// # let inp = Options::new().engine(EngineKind::Inp);
/// # let db = Database::create_on(media, &schema, &inp)?;
/// # let table = db.table("t")?;
/// files.start();
/// db.insert(&table, &[Value::from(1)])?;
/// let trace: DiskTrace = files.stop();
/// // The same without the syncs of one place in the source: does a test notice?
/// let site = trace.sync_sites()[0];
/// assert!(trace.without_syncs_of(site).events.len() < trace.events.len());
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::DiskTrace;

/// A thing that was done to files.
///
/// ```
/// # use perdura::*;
/// # use perdura::recording::*;
/// # let schema = Schema::new()
/// #     .table(TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]));
/// # let memory = Recording::pool(1 << 20, 1 << 26).map_err(Error::user)?;
/// let files = RecordingFiles::new();
/// let options = Options::new().engine(EngineKind::Inp);
/// let db = Database::create_on(Media::recorded(memory, files.clone()), &schema, &options)?;
/// files.start();
/// db.insert(&db.table("t")?, &[Value::from(1)])?;
/// let events = files.stop().events;
/// assert!(events.iter().any(|record| matches!(record.event, DiskEvent::Sync { .. })));
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::DiskEvent;

/// Walks along a trace of files and stops where a crash would matter.
///
/// ```
/// # use perdura::*;
/// # use perdura::recording::*;
/// # let schema = Schema::new()
/// #     .table(TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]));
/// # let memory = Recording::pool(1 << 20, 1 << 26).map_err(Error::user)?;
/// # let files = RecordingFiles::new();
/// # let media = Media::recorded(memory.clone(), files.clone());
/// # let inp = Options::new().engine(EngineKind::Inp);
/// # let db = Database::create_on(media, &schema, &inp)?;
/// # let table = db.table("t")?;
/// files.start();
/// db.insert(&table, &[Value::from(1)])?;
/// let trace = files.stop();
/// let (mut replay, mut points) = (DiskReplay::new(&trace), 0);
/// while replay.pass_point() {
///     points += 1;
/// }
/// assert!(points > 0 && replay.syncs() > 0);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engines::below::DiskReplay;

pub use engines::below::read_header;
