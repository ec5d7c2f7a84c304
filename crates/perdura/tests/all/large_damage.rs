//! Damage to values that take several chunks: a length that was not written, a place that is
//! another value's or no value's, a span whose length is wrong. The check names the place, reading
//! gives an error or what is there, nothing hangs, and repairing takes the other tuples over.

use crate::support::small_logs;
use std::path::Path;

use perdura::{
    ColumnType, Database, Domain, EngineKind, Error, Options, Schema, TableSchema, Value,
};

/// Lengths of the values of the first two tuples; others are short.
const LENGTHS: [u64; 2] = [300_001, 270_003];

fn options(engine: EngineKind) -> Options {
    small_logs().engine(engine).domain(Domain::Process).chunk_bytes(16 << 10)
}

fn tuple(id: u64) -> Vec<u8> {
    let bytes = LENGTHS.get(id as usize).copied().unwrap_or(50);
    (0..bytes).map(|at| (at * 7 + id) as u8).collect()
}

fn create(path: &Path, engine: EngineKind) {
    let table = TableSchema::new("t").column("id", ColumnType::U64);
    let table = table.column("value", ColumnType::Bytes { max: 1 << 20 }).key(&["id"]);
    let db = Database::create(path, &Schema::new().table(table), &options(engine)).unwrap();
    let table = db.table("t").unwrap();
    for id in 0..6 {
        db.write(|tx| tx.insert(&table, &[Value::U64(id), Value::Bytes(&tuple(id))])).unwrap();
    }
    assert_eq!(db.check().unwrap().tuples, 6);
    db.close().unwrap();
}

/// Returns where in the file the word of a value of this length stands, and where the value lies.
fn word_of(file: &[u8], len: u64) -> (usize, u64) {
    let (words, _) = file.as_chunks::<8>();
    let mut found = words.iter().enumerate().filter_map(|(at, word)| {
        let word = u64::from_le_bytes(*word);
        let place = (word & ((1 << 39) - 1)) * 512;
        let is_it = word >> 39 == 1 << 24 | (len - 1) && place + len < file.len() as u64;
        is_it.then_some((at * 8, place))
    });
    let first = found.next().unwrap();
    assert!(found.next().is_none(), "one word leads to it");
    first
}

/// Returns what is wrong with the database now, by reading everything, and by its check.
fn looked_at(path: &Path, engine: EngineKind) -> (Vec<Result<(), String>>, Result<(), String>) {
    let db = match Database::open(path, &options(engine)) {
        Ok(db) => db,
        Err(error) => return (Vec::new(), Err(error.to_string())),
    };
    let table = db.table("t").unwrap();
    let read = |id: u64| -> Result<(), Error> {
        let mut out = vec![0; 2 << 20];
        let found = db.read(|tx| tx.get_bytes(&table, &[Value::U64(id)], &[1], &mut out))?;
        let _ = found.map(|bytes| out.truncate(bytes));
        Ok(())
    };
    let reads = (0..6).map(|id| read(id).map_err(|error| error.to_string())).collect();
    let report = db.check().map_err(|error| error.to_string());
    db.abandon();
    let sound = |report: perdura::CheckReport| {
        let clean = report.leaked == 0 && report.dangling == 0 && report.tuples == 6;
        if clean { Ok(()) } else { Err(format!("{report:?}")) }
    };
    (reads, report.and_then(sound))
}

#[test]
fn damage_to_values_of_several_chunks_is_named() {
    // Engines whose values lie in slots; others have them in pages.
    for engine in EngineKind::P1.into_iter().filter(|engine| !engine.traits().needs_files()) {
        let directory = crate::support::in_memory();
        let path = directory.path().join("db");
        create(&path, engine);
        let whole = std::fs::read(&path).unwrap();
        let (word_at, place) = word_of(&whole, LENGTHS[0]);
        let (_, other) = word_of(&whole, LENGTHS[1]);
        let word = |place: u64, len: u64| (1 << 63) | ((len - 1) << 39) | (place / 512);
        let tag_at = (0..place as usize).rev().find(|at| whole[*at..].starts_with(b"PDCK"));
        let tag_at = tag_at.unwrap();
        for (what, at, value, expected) in [
            ("longer than its span", word_at, word(place, 320_000), "length of an object"),
            ("longer than the column", word_at, word(place, 16 << 20), "length of a"),
            ("another one's", word_at, word(other, LENGTHS[1]), "two owners"),
            ("in another one's middle", word_at, word(other + 512 * 40, 270_000), "damaged"),
            ("nowhere", word_at, word(1 << 47, LENGTHS[0]), ""),
            ("a span of one chunk", tag_at + 8, 1, "span of chunks"),
            ("a span to the end", tag_at + 8, 1 << 30, "span of chunks"),
            ("no span", tag_at, 0, ""),
        ] {
            println!("{engine}: {what}");
            let mut damaged = whole.clone();
            damaged[at..at + 8].copy_from_slice(&value.to_le_bytes());
            std::fs::write(&path, &damaged).unwrap();
            let (reads, checked) = looked_at(&path, engine);
            let said = checked.unwrap_err();
            assert!(said.contains(expected), "{engine}, {what}: {said}");
            // The short ones are there, and the other long one.
            assert!(reads.iter().skip(1).all(Result::is_ok), "{engine}, {what}: {reads:?}");
            std::fs::write(&path, &damaged).unwrap();
            let to = directory.path().join(format!("repaired {what}"));
            let taken = perdura::salvage(&path, &to).unwrap().tuples();
            assert!(taken >= 5, "{engine}, {what}: {taken} taken over");
            assert_eq!(Database::open(&to, &options(engine)).unwrap().check().unwrap().leaked, 0);
        }
    }
}
