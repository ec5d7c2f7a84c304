//! Damaged null words and truth values in the pools of the NVM engines, which have no checksum over
//! them: the check reports them, an examination names the tuple, a salvage leaves it out and keeps
//! the others, and nothing that reads them panics.

use crate::support::small_logs;
use std::ops::ControlFlow;
use std::path::Path;

use perdura::{
    ColumnType, Database, Domain, EngineKind, Error, Row, Scan, Schema, TableSchema, Value, salvage,
};

const MARKER: u64 = 0x1122_3344_5566_7788;

fn schema() -> Schema {
    Schema::new().table(
        TableSchema::new("t")
            .column("id", ColumnType::U64)
            .column("marker", ColumnType::U64)
            .column("truth", ColumnType::Bool)
            .nullable()
            .column("text", ColumnType::Text { max: 40 })
            .nullable()
            .column("uuid", ColumnType::Uuid)
            .nullable()
            .key(&["id"])
            .index("by_truth", &["truth"]),
    )
}

/// A database with ten tuples, and where the words after the marker of number 5 stand in its file.
fn made(path: &Path, engine: EngineKind) -> usize {
    let options = small_logs()
        .engine(engine)
        .domain(Domain::Process)
        .pool_limit(1 << 28)
        .chunk_bytes(16 << 10);
    let db = Database::create(path, &schema(), &options).unwrap();
    let table = db.table("t").unwrap();
    for id in 0..10 {
        let text = if id == 5 { Value::Text("a text with a slot") } else { Value::Null };
        let values =
            [Value::U64(id), Value::U64(MARKER + id), Value::Bool(true), text, Value::Null];
        db.write(|tx| tx.insert(&table, &values)).unwrap();
    }
    db.close().unwrap();
    let bytes = std::fs::read(path).unwrap();
    let marker = (MARKER + 5).to_le_bytes();
    let mut places = bytes.windows(8).enumerate().filter(|(_, window)| *window == marker);
    let (at, _) = places.next().unwrap();
    assert!(places.next().is_none(), "the marker stands in one place");
    at + 8
}

fn word(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

#[test]
fn impossible_null_words_and_truth_values_are_reported_and_never_panic() {
    // Engines in whose tuples each column is a word. In packed rows another column adjoins.
    let engines = EngineKind::P1.into_iter().filter(|engine| !engine.traits().needs_files());
    for engine in engines {
        // Which word after the marker, and what stands there then. A bit of 1 is the truth value's,
        // 2 the text's, 4 the UUID's.
        for (what, place, value) in [
            ("a bool of 2", 0, 2),
            ("a bool of all ones", 0, u64::MAX),
            ("a bit of no column", 3, 4 | 8),
            ("the highest bit", 3, 4 | 1 << 63),
            ("a truth value that is NULL", 3, 4 | 1),
            ("a text that is NULL", 3, 4 | 2),
            ("a UUID of no bytes", 3, 0),
        ] {
            println!("{engine}: {what}");
            let directory = crate::support::in_memory();
            let path = directory.path().join("db");
            let at = made(&path, engine);
            let mut bytes = std::fs::read(&path).unwrap();
            word(&mut bytes, at + place * 8, value);
            std::fs::write(&path, &bytes).unwrap();
            let db = Database::open(&path, &small_logs()).unwrap();
            let error = db.check().unwrap_err();
            assert!(matches!(error, Error::Damaged(_)), "{error}");
            let table = db.table("t").unwrap();
            let mut shown = 0;
            for scan in [Scan::all(), Scan::all().backward(), Scan::all().by("by_truth")] {
                let mut visit = |row: &Row| {
                    shown += row.values().count();
                    ControlFlow::Continue(())
                };
                let _whatever = db.read(|tx| tx.scan(&table, &scan, &mut visit));
            }
            assert!(shown >= 100, "{shown}");
            let mut row = Row::new();
            let _whatever = db.read(|tx| tx.get_into(&table, &[Value::U64(5)], &mut row));
            let found = db.examine().unwrap();
            let named = |finding: &perdura::Finding| finding.lost.contains("the key (5)");
            assert!(found.findings.listed.iter().any(named), "{:?}", found.findings);
            drop(db);
            let to = directory.path().join("salvaged");
            let salvaged = salvage(&path, &to).unwrap();
            assert_eq!(salvaged.tuples(), 9, "{salvaged:?}");
            let db = Database::open(&to, &small_logs()).unwrap();
            assert_eq!(db.check().unwrap().tuples, 9);
        }
    }
}
