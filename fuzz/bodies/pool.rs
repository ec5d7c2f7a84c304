//! Damages words of a sound pool of an NVM engine, then opens, checks, reads and changes it. There
//! is no panic, and an end.
//!
//! The input says how the pool is damaged, so that it is small: a byte for the pool (one of three
//! engines, closed or killed), then for each word three bytes for its place, in words from the
//! end of the header on, and eight for its new value.

use std::ops::ControlFlow;
use std::sync::OnceLock;

use perdura::{
    ColumnType, Database, EngineKind, Error, Options, Scan, Schema, Table, TableSchema, Value,
};
use sim::{Recorded, Recording, RecordingFiles};

const LIMIT: u64 = 1 << 21;
const DATA_START: usize = 8192;
const EDIT_BYTES: usize = 11;
const MOST_EDITS: usize = 64;
/// More tuples than a scan can show.
const MANY: usize = 100_000;

fn schema() -> Schema {
    Schema::new()
        .table(
            TableSchema::new("one")
                .column("id", ColumnType::U64)
                .column("text", ColumnType::Text { max: 40 })
                .column("bytes", ColumnType::Bytes { max: 200 })
                .key(&["id"])
                .index("by_text", &["text"])
                .inline_columns(),
        )
        .table(
            TableSchema::new("two")
                .column("left", ColumnType::Text { max: 8 })
                .column("right", ColumnType::I64)
                .key(&["left", "right"]),
        )
}

fn options(engine: EngineKind) -> Options {
    Options::new()
        .engine(engine)
        .chunk_bytes(8 << 10)
        .tune("node_bytes", 128)
        .tune("tree_node_bytes", 128)
        .tune("memtable_bytes", 1 << 10)
        .tune("growth", 2)
        .tune("level0_runs", 2)
}

struct Tables {
    one: Table,
    two: Table,
}

impl Tables {
    fn of(db: &Database<Recorded>) -> Option<Self> {
        Some(Self { one: db.table("one").ok()?, two: db.table("two").ok()? })
    }
}

fn run(db: &Database<Recorded>, tables: &Tables, number: u64) -> Result<(), Error> {
    let text = format!("t{}", number * 7 % 13);
    let bytes = vec![number as u8; number as usize % 5 * 40];
    let key = [Value::U64(number % 40)];
    let values = [key[0], Value::Text(&text), Value::Bytes(&bytes)];
    let pair = [Value::Text(&text), Value::I64(number as i64)];
    match number % 4 {
        3 => db.write(|tx| tx.delete(&tables.one, &key)),
        2 if number.is_multiple_of(3) => db.update(&tables.one, &key, &[(2, values[2])]),
        2 => db.write(|tx| tx.update(&tables.one, &key, &[(1, values[1]), (2, values[2])])),
        _ => db.write(|tx| tx.insert(&tables.one, &values)),
    }?;
    db.write(|tx| tx.insert(&tables.two, &pair))
}

/// Pools of three engines, closed and killed.
fn pools() -> &'static [Vec<u8>] {
    static POOLS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    POOLS.get_or_init(|| {
        let engines = [EngineKind::NvmInp, EngineKind::NvmCow, EngineKind::NvmLog];
        engines
            .into_iter()
            .flat_map(|engine| [true, false].map(|closed| image(engine, closed)))
            .collect()
    })
}

fn image(engine: EngineKind, closed: bool) -> Vec<u8> {
    let memory = Recording::pool(64 << 10, LIMIT).expect("addresses");
    let media = faults::recorded(memory.clone(), RecordingFiles::new());
    let db: Database<Recorded> =
        Database::create_on(media, &schema(), &options(engine)).expect("a database");
    let tables = Tables::of(&db).expect("its tables");
    for number in 0..120 {
        // Some find a key that is there, or none.
        let _ = run(&db, &tables, number);
    }
    if closed {
        db.close().expect("closed");
        return memory.contents();
    }
    let mut tx = db.begin().expect("a transaction");
    for number in 500..504 {
        let values = [Value::U64(number), Value::Text("open"), Value::Bytes(&[1; 100])];
        tx.insert(&tables.one, &values).expect("inserted");
    }
    let contents = memory.contents();
    drop(tx);
    contents
}

fn open(image: &[u8]) -> Option<(Database<Recorded>, Recording)> {
    let memory = Recording::from_image(image, LIMIT).expect("addresses");
    let media = faults::recorded(memory.clone(), RecordingFiles::new());
    Some((Database::open_on(media, &Options::new()).ok()?, memory))
}

fn read(db: &Database<Recorded>, tables: &Tables) {
    let all = Scan::all;
    for (table, scan) in [
        (&tables.one, all()),
        (&tables.one, all().backward()),
        (&tables.one, all().by("by_text")),
        (&tables.one, all().by("by_text").backward()),
        (&tables.two, all()),
        (&tables.two, all().backward()),
    ] {
        let mut rows = 0;
        let _ = db.read(|tx| {
            tx.scan(table, &scan, |_| {
                rows += 1;
                assert!(rows < MANY, "a scan without end");
                ControlFlow::Continue(())
            })
        });
    }
    let mut row = perdura::Row::new();
    for key in 0..40 {
        let _ = db.read(|tx| tx.get_into(&tables.one, &[Value::U64(key)], &mut row));
    }
}

/// A pool some of whose words were changed.
pub(crate) fn pool(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else { return };
    let pools = pools();
    let mut image = pools[usize::from(*first) % pools.len()].clone();
    let words = (image.len() - DATA_START) / 8;
    for edit in rest.chunks_exact(EDIT_BYTES).take(MOST_EDITS) {
        let place = u32::from_le_bytes([edit[0], edit[1], edit[2], 0]) as usize % words;
        let at = DATA_START + place * 8;
        image[at..at + 8].copy_from_slice(&edit[3..]);
    }
    let Some((db, memory)) = open(&image) else { return };
    let Some(tables) = Tables::of(&db) else { return };
    let _ = (db.check(), db.examine(), db.footprint(), db.stats());
    read(&db, &tables);
    for number in 200..240 {
        let _ = run(&db, &tables, number);
    }
    for _ in 0..20 {
        if db.background(4096).is_ok_and(|left| left == 0) {
            break;
        }
    }
    read(&db, &tables);
    let _ = db.close();
    if let Some((db, _)) = open(&memory.contents()) {
        let _ = db.check();
    }
}

/// Inputs from which the corpus is made: each pool unchanged, and some with words changed.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = (0..6).map(|pool| vec![pool]).collect();
    for (number, value) in [0, 1, u64::MAX, 8192, 1 << 63, 65_535].into_iter().enumerate() {
        let places = [520u32, 1600, 1700, 3100, 4200, 5300, 6400, 7500];
        let edits = places.iter().skip(number % 3).step_by(2).flat_map(|place| {
            place.to_le_bytes()[..3]
                .iter()
                .copied()
                .chain(u64::to_le_bytes(value))
                .collect::<Vec<_>>()
        });
        seeds.push(std::iter::once(number as u8).chain(edits).collect());
    }
    seeds
}
