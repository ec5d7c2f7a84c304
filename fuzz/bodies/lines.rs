//! Loads JSON lines into a database that exists, and creates one for them. There is no panic, and
//! an end; what is refused leaves whole batches before the line that the error names, and nothing
//! else; what is taken comes out again as it went in.
//!
//! The first byte of the input says how to load, the rest are the lines.

use std::sync::atomic::{AtomicU64, Ordering};

use perdura::{
    ColumnType, Database, Domain, EngineKind, Environment, Error, Existing, Kept, LinesError,
    LoadOptions, Options, Schema, TableSchema,
};
use sim::{Recorded, Recording, RecordingFiles};

const LIMIT: u64 = 8 << 20;
/// Most bytes of an input.
const MOST: usize = 64 << 10;

fn schema() -> Schema {
    let table = TableSchema::new("all")
        .column("id", ColumnType::U64)
        .column("small", ColumnType::I8)
        .column("count", ColumnType::I64)
        .column("score", ColumnType::F64)
        .column("name", ColumnType::Text { max: 20 })
        .column("bytes", ColumnType::Bytes { max: 40 })
        .key(&["id"])
        .index("by_name", &["name"]);
    let pair = TableSchema::new("pair")
        .column("left", ColumnType::Text { max: 8 })
        .column("right", ColumnType::I64)
        .key(&["left", "right"]);
    Schema::new().table(table).table(pair)
}

fn options() -> Options {
    Options::new()
        .engine(EngineKind::NvmInp)
        .chunk_bytes(8 << 10)
        .pool_limit(LIMIT)
        .volatile_limit(LIMIT)
}

fn empty() -> Database<Recorded> {
    let memory = Recording::pool(64 << 10, LIMIT).expect("addresses");
    let media = faults::recorded(memory, RecordingFiles::new());
    Database::create_on(media, &schema(), &options()).expect("a database")
}

fn dump<E: Environment>(db: &Database<E>) -> Vec<u8> {
    let mut out = Vec::new();
    db.dump_to(&mut out, "output", &[], &mut |_| ()).expect("a dump");
    out
}

/// Loads lines into a database.
fn into_one_that_exists(lines: &[u8], load: &LoadOptions, batch: u64, existing: Existing) {
    let db = empty();
    let done = db.load(&mut &*lines, load, &mut |_| ());
    let tuples = db.check().expect("sound").tuples;
    match done {
        Ok(summary) => {
            // Under `Replace` a tuple counts each time that it comes.
            assert!(
                tuples <= summary.tuples()
                    && (existing == Existing::Replace || tuples == summary.tuples())
            );
            let text = dump(&db);
            let again = empty();
            let loaded = again.load(&mut &*text, &LoadOptions::new("dump"), &mut |_| ());
            assert_eq!(loaded.expect("a dump is taken").tuples(), tuples);
            assert!(dump(&again) == text, "what goes in comes out");
        }
        Err(Error::Lines(
            LinesError::Line { line, kept, .. } | LinesError::Refused { line, kept, .. },
        )) => {
            let whole = match kept {
                Kept::Nothing => 0,
                Kept::Before(before) => {
                    assert!(before <= line, "{before} and {line}");
                    before - 1
                }
            };
            assert!(tuples <= whole, "{tuples} tuples of {whole} lines, {batch} a batch");
        }
        Err(other) => panic!("{other}"),
    }
}

/// Creates a database for lines, with the schema that they describe.
fn into_a_new_one(lines: &[u8], load: &LoadOptions, described: bool) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("perdura-fuzz-{}-{number}", std::process::id());
    // Not on a disk, if that can be: each input creates a database.
    let memory = std::path::Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.into() } else { std::env::temp_dir() };
    let path = place.join(name);
    let options = options().domain(Domain::Process).model(true).partitions(1);
    let own = schema();
    let schema = if described { None } else { Some(&own) };
    let made =
        Database::create_from_lines(&path, schema, &options, &mut &*lines, load, &mut |_| ());
    match made {
        Ok(summary) => {
            let db = Database::open(&path, &options).expect("it opens");
            assert!(db.check().expect("sound").tuples <= summary.tuples());
            db.close().expect("it closes");
            std::fs::remove_file(&path).expect("it is there");
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(!path.exists(), "{error}: it is not there");
        }
    }
}

/// Lines, and how to load them.
pub(crate) fn lines(input: &[u8]) {
    let Some((how, lines)) = input.split_first() else { return };
    let lines = &lines[..lines.len().min(MOST)];
    let batch = [1, 3, 1000, 1000][usize::from(how >> 4 & 3)];
    let existing =
        [Existing::Refuse, Existing::Skip, Existing::Replace][usize::from(how >> 2 & 3) % 3];
    let load = LoadOptions::new("input").batch(batch).existing(existing);
    match how & 3 {
        0 => into_a_new_one(lines, &load, true),
        1 => into_a_new_one(lines, &load, false),
        _ => into_one_that_exists(lines, &load, batch, existing),
    }
}

/// Inputs from which the corpus is made: a dump, lines without a description, every kind of value,
/// and lines that are wrong in some way.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let values = concat!(
        r#"{"table":"all","tuple":{"id":1,"small":-1,"count":-9223372036854775808,"score":0.1,"name":"Ada","bytes":"AAEC"}}"#,
        "\n",
        r#"{"table":"all","tuple":{"bytes":"","name":"\u00e9\n\ud83d\ude00","score":"NaN","count":9223372036854775807,"small":127,"id":18446744073709551615}}"#,
        "\n",
        r#"{"table":"all","tuple":{"id":3,"small":0,"count":0,"score":"-Infinity","name":"","bytes":"//8="}}"#,
        "\n",
        r#"{"table":"all","tuple":{"id":4,"small":-128,"count":1,"score":"NaN:7ff8000000000001","name":"x","bytes":"AA=="}}"#,
        "\n",
        r#"{"table":"pair","tuple":{"left":"l","right":-5}}"#,
        "\n",
    );
    let twice = values.repeat(2);
    let db = empty();
    db.load(&mut values.as_bytes(), &LoadOptions::new("values"), &mut |_| ()).expect("loaded");
    let whole = dump(&db);
    let cut = &whole[..whole.len() - 10];
    let described = whole.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let (head, rest) = whole.split_at(described);
    let more = [head, rest, rest].concat();
    let with = |how: u8, lines: &[u8]| [&[how], lines].concat();
    let mut seeds = vec![
        with(0, &whole),
        with(1, &whole),
        with(2, &whole),
        with(2, values.as_bytes()),
        with(1, values.as_bytes()),
        with(0, cut),
        with(2, cut),
        with(2, &more),
        with(0x12, twice.as_bytes()),
        with(0x16, twice.as_bytes()),
        with(0x1a, twice.as_bytes()),
        with(0, head),
        with(2, b""),
    ];
    let wrong = [
        r#"{"table":"none","tuple":{}}"#,
        r#"{"table":"pair","tuple":{"left":"far too long a key","right":1}}"#,
        r#"{"table":"pair","partition":1,"tuple":{"left":"a","right":1}}"#,
        r#"{"table":"pair","tuple":{"left":"a","right":1.5}}"#,
        r#"{"table":"pair","tuple":{"left":"a","right":1,"right":2}}"#,
        r#"{"table":"pair","tuple":{"left":"a"}}"#,
        r#"{"end":{"tuples":1}}"#,
        r#"[[[[[[[[[[[[[[[["#,
    ];
    seeds.extend(wrong.iter().map(|line| with(2, line.as_bytes())));
    seeds
}
