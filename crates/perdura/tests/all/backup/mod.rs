//! Copies of a database, for every engine: backups and JSON lines. A copy is what was committed at
//! one moment; what is damaged or does not fit is refused with the place; a failure leaves nothing.

pub(crate) mod chunks;
mod damaged;
pub(crate) mod lines;
pub(crate) mod moments;
mod point_in_time;
pub(crate) mod restored;
mod trouble;

use crate::support::{few, small_logs};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use perdura::{
    Backup, ColumnType, CopySummary, Database, Domain, EngineKind, Environment, Error, Options,
    Scan, Schema, TableSchema, Value,
};

/// Each engine with the one that it is copied into, so that each is read from and written to.
fn each_with_the_next() -> impl Iterator<Item = (EngineKind, EngineKind)> {
    EngineKind::ALL.into_iter().zip(EngineKind::ALL.into_iter().cycle().skip(1))
}

fn each(test: impl Fn(EngineKind)) {
    for engine in EngineKind::ALL {
        println!("engine {engine}");
        test(engine);
    }
}

/// So small that a few transactions split nodes, merge runs and take checkpoints.
fn small(engine: EngineKind) -> Options {
    small_logs()
        .engine(engine)
        .domain(Domain::Process)
        .tune("page_bytes", 1024)
        .tune("cache_bytes", 64 << 10)
        .tune("memtable_bytes", 16 << 10)
        .tune("growth", 2)
        .tune("level0_runs", 2)
        .tune("block_bytes", 512)
        .tune("checkpoint_bytes", 64 << 10)
        .tune("wal_reserve_bytes", 16 << 10)
        .pool_limit(1 << 30)
        .volatile_limit(1 << 30)
}

/// A table with a column of each type, and one with a key of two columns.
fn every_type() -> Schema {
    Schema::new()
        .table(
            TableSchema::new("every \"type\"")
                .column("u8", ColumnType::U8)
                .column("u16", ColumnType::U16)
                .column("u32", ColumnType::U32)
                .column("u64", ColumnType::U64)
                .column("i8", ColumnType::I8)
                .nullable()
                .column("i16", ColumnType::I16)
                .column("i32", ColumnType::I32)
                .column("i64", ColumnType::I64)
                .nullable()
                .column("f64", ColumnType::F64)
                .nullable()
                .column("text", ColumnType::Text { max: 60 })
                .nullable()
                .column("bytes", ColumnType::Bytes { max: 60 })
                .nullable()
                .column("bool", ColumnType::Bool)
                .nullable()
                .column("timestamp", ColumnType::Timestamp)
                .nullable()
                .column("uuid", ColumnType::Uuid)
                .nullable()
                .key(&["u64"])
                .index("by_text", &["text", "f64"]),
        )
        .table(
            TableSchema::new("pair")
                .column("left", ColumnType::Text { max: 20 })
                .column("right", ColumnType::F64)
                .column("value", ColumnType::Bytes { max: 300 })
                .key(&["right", "left"]),
        )
}

/// Everything in it: by partition and table the tuples in the order of their keys, as bytes.
type Contents = BTreeMap<(usize, String), Vec<Vec<u8>>>;

fn contents<E: Environment>(db: &Database<E>) -> Contents {
    let mut all = Contents::new();
    for partition in 0..db.partition_count() {
        for table in db.schema().tables() {
            let tuples = all.entry((partition, table.name().into())).or_default();
            let table = db.table(table.name()).unwrap();
            let mut visit = |row: &perdura::Row| {
                tuples.push(row.values().flat_map(|value| raw(&value)).collect());
                ControlFlow::Continue(())
            };
            db.partition(partition).read(|tx| tx.scan(&table, &Scan::all(), &mut visit)).unwrap();
        }
    }
    all
}

fn raw(value: &Value<'_>) -> Vec<u8> {
    let bytes = match value {
        Value::U64(number) => number.to_le_bytes().to_vec(),
        Value::I64(number) => number.to_le_bytes().to_vec(),
        Value::F64(number) => number.to_bits().to_le_bytes().to_vec(),
        Value::Text(text) => text.as_bytes().to_vec(),
        Value::Bytes(bytes) => bytes.to_vec(),
        Value::Bool(truth) => vec![u8::from(*truth)],
        Value::Null => return vec![0xff; 8],
    };
    [&(bytes.len() as u64).to_le_bytes()[..], &bytes].concat()
}

/// A directory of its own, with what lies in it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        // Memory, where there is such a file system: what is tested here is not its syncs.
        Self(crate::support::in_memory())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn names(&self) -> Vec<String> {
        let list = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> =
            list.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn restore(backup: &Path, to: &Path, options: &Options) -> Result<CopySummary, Error> {
    Backup::open(backup)?.restore(to, options, &mut |_| ())
}

/// Restores and opens; what it holds is checked.
fn restored(backup: &Path, to: &Path, options: &Options) -> Database {
    restore(backup, to, options).unwrap();
    let db = Database::open(to, options).unwrap();
    let report = db.check().unwrap();
    assert_eq!((report.leaked, report.dangling), (0, 0), "{report:?}");
    db
}

/// The values of a tuple of [`every_type`] for this number, at limits and in between.
fn insert_both(db: &Database, partition: usize, number: u64) -> Result<(), Error> {
    let floats = [0.0, -0.0, 1.5, f64::NAN, -f64::NAN, f64::INFINITY, f64::MIN, 5e-324, f64::MAX];
    let at = number as usize;
    let text: String = "aé\"\\\n\0€😀".chars().cycle().skip(at % 8).take(at % 13).collect();
    let bytes: Vec<u8> = (0..at * 7 % 60).map(|byte| (byte * 37 + at) as u8).collect();
    let limit = at % 3;
    let mut values = [
        Value::U64([0, 7, u8::MAX.into()][limit]),
        Value::U64([0, 700, u16::MAX.into()][limit]),
        Value::U64([0, 70_000, u32::MAX.into()][limit]),
        Value::U64(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        Value::I64([i8::MIN.into(), -7, i8::MAX.into()][limit]),
        Value::I64([i16::MIN.into(), -700, i16::MAX.into()][limit]),
        Value::I64([i32::MIN.into(), -70_000, i32::MAX.into()][limit]),
        Value::I64([i64::MIN, -1, i64::MAX][limit]),
        Value::F64(floats[at % floats.len()]),
        Value::Text(&text),
        Value::Bytes(&bytes),
        Value::Bool(limit == 1),
        Value::I64(
            [i64::MIN, -62_167_219_200_000_000 + number as i64, 253_402_300_800_000_000][limit],
        ),
        Value::Bytes(&[[0; 16], [at as u8; 16], [0xff; 16]][limit]),
    ];
    for column in [4, 7, 8, 9, 10, 11, 12, 13] {
        if (at * 5 + column * 3).is_multiple_of(7) {
            values[column] = Value::Null;
        }
    }
    let left = format!("l{at}");
    let value = vec![at as u8; at * 31 % 300];
    let pair = [Value::Text(&left), Value::F64(floats[at % floats.len()]), Value::Bytes(&value)];
    let (all, pairs) = (db.table("every \"type\"")?, db.table("pair")?);
    db.partition(partition).write(|tx| {
        tx.insert(&all, &values)?;
        tx.insert(&pairs, &pair)
    })
}

/// A database with so many tuples of each table in each partition.
fn filled(path: &Path, options: &Options, tuples: u64) -> Database {
    let db = Database::create(path, &every_type(), options).unwrap();
    for number in 0..tuples {
        for partition in 0..db.partition_count() {
            insert_both(&db, partition, number + partition as u64 * 1000).unwrap();
        }
    }
    db
}
