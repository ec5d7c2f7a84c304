//! Scenarios about values that take several chunks, pages or blocks: inserted, replaced, aborted,
//! deleted, and others in their place.

use perdura::{ColumnType, Commit, Database, EngineKind, Error, Schema, TableSchema, Value};
use sim::{Recorded, Recording, RecordingFiles};

use crate::explorer::Scenario;
use crate::files::{self, FileMedium};
use crate::items::{ITEM, Item, Model, Tables, compare, insert_item, schema, update_item};
use crate::plot::options;
use crate::pool::PoolMedium;
use crate::scenario::record_with;
use crate::work::Items;

/// The tables of [`crate::items`], whose payload may have 100 KB.
pub fn large_schema() -> Schema {
    let item = TableSchema::new(ITEM)
        .column("id", ColumnType::U64)
        .column("name", ColumnType::Text { max: 20 })
        .column("payload", ColumnType::Bytes { max: 100_000 })
        .column("count", ColumnType::I64)
        .column("flag", ColumnType::Bytes { max: 5 })
        .column("score", ColumnType::F64)
        .key(&["id"])
        .index("by_name", &["name"])
        .index("by_count_flag", &["count", "flag"]);
    let pair = schema().tables()[1].clone();
    Schema::new().table(item).table(pair)
}

/// A payload that a chunk of 8 KiB does not hold, now and then one that it does.
fn item(key: u64, version: u64) -> Item {
    let bytes = [8_300, 17_000, 300, 9_000][(key + version) as usize % 4];
    // Every other word looks like one of the allocator's.
    let words = (0..bytes as u64 / 8 + 1).map(|at| match at % 2 {
        0 => u64::from(u32::from_le_bytes(*b"PDCK")),
        _ => key << 32 | version << 16 | at,
    });
    let mut payload: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    payload.truncate(bytes);
    Item { name: format!("n{key}"), payload, count: version as i64, flag: vec![], score: 0.0 }
}

/// An action of one of the scenario's transactions: key, version, and how it ends.
enum Step {
    Insert(u64, u64),
    Update(u64, u64),
    Statement(u64, u64),
    Delete(u64),
    /// Deletes one, inserts another and replaces that one's payload.
    Several(u64, u64),
    /// The same, and aborts.
    Aborted(u64, u64),
}

const STEPS: [Step; 12] = [
    Step::Insert(1, 0),
    Step::Insert(2, 0),
    Step::Update(1, 1),
    Step::Statement(2, 2),
    Step::Aborted(1, 3),
    Step::Several(2, 3),
    Step::Delete(1),
    Step::Insert(1, 2),
    Step::Statement(1, 3),
    Step::Aborted(3, 4),
    Step::Several(1, 5),
    Step::Delete(5),
];

impl Step {
    /// Runs it; the model follows. Returns whether it has changed something.
    fn run(
        &self,
        db: &Database<Recorded>,
        tables: &Tables,
        model: &mut Model,
    ) -> Result<bool, Error> {
        let key = |key: u64| [Value::U64(key)];
        match *self {
            Self::Insert(at, version) => {
                db.write(|tx| insert_item(tx, tables, at, &item(at, version)))?;
                model.items.insert(at, item(at, version));
            }
            Self::Update(at, version) => {
                db.write(|tx| update_item(tx, tables, at, &item(at, version), 2 | 4))?;
                model.items.insert(at, item(at, version));
            }
            Self::Statement(at, version) => {
                let new = item(at, version);
                db.update(&tables.item, &key(at), &[(2, Value::Bytes(&new.payload))])?;
                if let Some(item) = model.items.get_mut(&at) {
                    item.payload = new.payload;
                }
            }
            Self::Delete(at) => {
                db.write(|tx| tx.delete(&tables.item, &key(at)))?;
                model.items.remove(&at);
            }
            Self::Several(at, other) | Self::Aborted(at, other) => {
                let mut tx = db.begin()?;
                tx.delete(&tables.item, &key(at)).or_else(|error| match error {
                    Error::MissingKey { .. } => Ok(()),
                    error => Err(error),
                })?;
                insert_item(&mut tx, tables, other + 100, &item(other, 6))?;
                update_item(&mut tx, tables, other + 100, &item(other, 7), 2)?;
                if matches!(self, Self::Aborted(..)) {
                    tx.abort()?;
                    return Ok(false);
                }
                assert!(tx.commit()?.is_durable());
                model.items.remove(&at);
                let both = Item { payload: item(other, 7).payload, ..item(other, 6) };
                model.items.insert(other + 100, both);
            }
        }
        Ok(true)
    }
}

/// The scenario of an engine in the pool.
///
/// # Panics
/// The engine fails without any crash.
pub fn large_values_in_a_pool(engine: EngineKind) -> Scenario<PoolMedium> {
    let mut models = vec![Model::default()];
    models[0].items.insert(5, item(5, 0));
    let first = |db: &Database<Recorded>, tables: &Tables| {
        db.write(|tx| insert_item(tx, tables, 5, &item(5, 0)))
    };
    let act = |db: &Database<Recorded>, tables: &Tables, memory: &Recording| {
        for step in &STEPS {
            let mut model = models[models.len() - 1].clone();
            // Each in a thread of its own: no fence may be relied on that another thread makes.
            let mut work = || step.run(db, tables, &mut model);
            if std::thread::scope(|scope| scope.spawn(&mut work).join().expect("it runs"))? {
                models.push(model);
            }
            memory.note(models.len() as u64 - 1);
        }
        Ok(())
    };
    let options = options(engine).chunk_bytes(8 << 10).tune("memtable_bytes", 30_000);
    let (medium, trace) = record_with(&large_schema(), options, first, act).expect("it runs");
    Scenario { work: Items, medium, trace, models, in_flight: 1, created: false }
}

/// The scenario of an engine with files.
///
/// # Panics
/// The engine fails without any crash.
pub fn large_values_in_files(engine: EngineKind) -> Scenario<FileMedium> {
    let options = options(engine).commit(Commit::Durable).tune("log_bytes", 1 << 20);
    let memory = Recording::pool(64 << 10, files::LIMIT).expect("address space");
    let files = RecordingFiles::new();
    let media = crate::recorded(memory.clone(), files.clone());
    files.start();
    let db: Database<Recorded> =
        Database::create_on(media, &large_schema(), &options).expect("a database");
    files.note(0);
    let tables = Tables::of(&db);
    let mut models = vec![Model::default()];
    for step in [&[Step::Insert(5, 0)], &STEPS[..]].into_iter().flatten() {
        let mut model = models[models.len() - 1].clone();
        if step.run(&db, &tables, &mut model).expect("it runs") {
            models.push(model);
        }
        files.note(models.len() as u64 - 1);
    }
    compare(&db, &models[models.len() - 1]);
    db.close().expect("it closes");
    let medium = FileMedium { options, pool: memory.contents() };
    let trace = files.stop();
    Scenario { work: Items, medium, trace, models, in_flight: 1, created: true }
}
