//! Databases on media that record what is done to them.

use perdura::{Engines, Media};
use pm::Dram;
use sim::{Recorded, Recording, RecordingFiles};

/// Media of a recording memory and recording files. The engines for them are compiled here.
///
/// Memory and files remember each thing that is done to them. A replay walks along such a trace and
/// stops where a crash would matter; each state that a power cut may leave there becomes a memory
/// again, and a database is opened on it:
///
/// ```
/// use perdura::{ColumnType, Database, Options, Schema, TableSchema, Value};
/// use sim::{Recorded, Recording, RecordingFiles, Replay};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schema =
///     Schema::new().table(TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]));
/// let memory = Recording::pool(1 << 20, 1 << 26)?;
/// let media = faults::recorded(memory.clone(), RecordingFiles::new());
/// let db = Database::create_on(media, &schema, &Options::new())?;
/// let table = db.table("t")?;
/// memory.start();
/// db.insert(&table, &[Value::from(1)])?;
/// memory.note(1); // it is acknowledged from here on
/// let trace = memory.stop();
///
/// let (mut replay, mut states) = (Replay::new(&trace), 0);
/// while let Some(point) = replay.next_point() {
///     let acknowledged = point.last_note.is_some();
///     point.for_each_state(16, 1, |image| {
///         let left = Recording::pool_from_image(image, 1 << 26).unwrap();
///         left.mark_open().unwrap();
///         let media = faults::recorded(left, RecordingFiles::new());
///         let db = Database::<Recorded>::open_on(media, &Options::new()).unwrap();
///         let row = db.get(&db.table("t").unwrap(), &[Value::from(1)]).unwrap();
///         assert!(row.is_some() || !acknowledged);
///         states += 1;
///     });
/// }
/// assert!(states > 0);
/// # Ok(())
/// # }
/// ```
pub fn recorded(memory: Recording, files: RecordingFiles) -> Media<Recorded> {
    Media {
        durable: memory,
        files: Some(files),
        volatile: Box::new(|_, _| Dram::new(1 << 28)),
        name: "recording".into(),
        engines: Engines::compiled_here(),
    }
}
