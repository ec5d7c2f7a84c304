//! Names, keys and paths with control characters, line ends and marks of the direction of writing: no
//! error shows one of them as it is.

use std::error::Error as StdError;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;

use engines::below::checkpoint::CheckpointError;
use engines::below::wal::WalError;
use engines::below::{GrowError, HeapError, LsmError, StorageError};
use perdura::{
    BackupError, ColumnType, Database, Domain, EngineChoice, EngineKind, Error, Finding, Kept,
    LinesError, OptionError, PoolError, Row, RowError, Scan, Schema, TableSchema, Until, Value,
};

use engines::EngineError;

/// A line that could be a command's own, and characters that a terminal acts upon: of one byte, of two,
/// and a mark that turns the direction of writing.
const ODD: &str = "a\nDAMAGE: forged\r\u{1b}[31m\u{7f}\u{9b}\u{202e}";
/// The same as it has to be shown.
const SHOWN: &str = "a\\nDAMAGE: forged\\r\\u{1b}[31m\\u{7f}\\u{9b}\\u{202e}";

fn odd(name: &str) -> String {
    format!("{name}{ODD}")
}

/// Checks that a text shows the odd name, and nothing of it raw.
fn check(what: &str, text: &str) {
    let is_raw = |character: char| character.is_control() || character == '\u{202e}';
    assert!(!text.contains(is_raw), "{what}: {text:?}");
    assert!(text.contains("DAMAGE: forged"), "{what}: {text:?}");
}

fn refusal() -> io::Error {
    io::Error::other(ODD)
}

/// Errors about a pool, each with everything that it can name.
fn pool_errors() -> Vec<PoolError> {
    let path = || PathBuf::from(ODD);
    let domain = || odd("domain");
    vec![
        PoolError::Io { path: path(), doing: "open", source: refusal() },
        PoolError::Exists { path: path() },
        PoolError::InTheWay { path: path() },
        PoolError::NotAFile { path: path(), what: "a directory" },
        PoolError::InUse { path: path(), holder: odd("by") },
        PoolError::Removed { path: path() },
        PoolError::Elsewhere { path: path(), now: Some(path()) },
        PoolError::TooShort { path: path(), bytes: 1 },
        PoolError::NotAPool { path: path() },
        PoolError::HeaderDamaged { path: path(), why: "checksum" },
        PoolError::Version { path: path(), found: 1, supported: 2, hint: "" },
        PoolError::Features { path: path(), flags: 1 },
        PoolError::OtherMachine { path: path(), what: "another order of bytes" },
        PoolError::Truncated { path: path(), expected: 2, found: 1 },
        PoolError::Holes { path: path(), missing: 1, free: 0, source: refusal() },
        PoolError::Rebooted { path: path(), domain: domain() },
        PoolError::DomainTooStrong {
            path: path(),
            wanted: Domain::Adr,
            natural: Domain::Process,
            remedy: "model it",
        },
        PoolError::DomainDiffers { path: path(), stored: domain(), wanted: domain() },
        PoolError::Sizes { path: path(), why: odd("why") },
    ]
}

/// Errors about values, rows and the schema.
fn storage_errors() -> Vec<StorageError> {
    let [table, column, index, key] = ["table", "column", "index", "key"].map(odd);
    let (table, column) = (|| table.clone(), || column.clone());
    vec![
        StorageError::DuplicateKey { table: table() },
        StorageError::NotUnique { table: table(), index, key },
        StorageError::MissingKey { table: table() },
        StorageError::TooLarge { column: column(), bytes: 2, max: 1 },
        StorageError::OutOfRange { column: column(), wanted: odd("u8"), found: odd("7") },
        StorageError::Null { table: table(), column: column() },
        StorageError::NoValue { table: table(), column: column() },
        StorageError::WrongType { column: column(), wanted: odd("u8"), found: "text" },
        StorageError::WrongCount { what: odd("table"), wanted: 1, found: 2 },
        StorageError::NoColumn { table: table(), column: 7 },
        StorageError::TooManyChanges { table: table(), found: 99 },
        StorageError::ColumnTwice { table: table(), column: column() },
        StorageError::KeyColumn { column: column() },
        StorageError::Schema(odd("schema")),
        StorageError::UnknownDescription { why: odd("why") },
        StorageError::Heap(HeapError::BadName { name: odd("name"), max: 1 }),
    ]
}

/// Errors of engines, and of what they store in files.
fn engine_errors() -> Vec<EngineError> {
    let name = || odd("name");
    let mut all = vec![
        EngineError::Files(refusal()),
        EngineError::Thread(refusal()),
        EngineError::Missing { what: odd("what") },
        EngineError::NoStructure { name: name(), near: odd("near"), known: odd("known") },
        EngineError::Stopped { why: odd("why") },
        EngineError::Wal(WalError::Io { doing: "read", name: name(), source: refusal() }),
        EngineError::Wal(WalError::Damaged { name: name(), at: 1, what: "length" }),
        EngineError::Wal(WalError::Short { name: name(), at: 1, last: 2, needed: 3 }),
        EngineError::Wal(WalError::OtherEnd { name: name(), last: 2, needed: 3 }),
        EngineError::Wal(WalError::Missing { name: name() }),
        EngineError::Wal(WalError::Version { name: name(), found: 1, supported: 2 }),
        EngineError::Lsm(LsmError::Io { doing: "read", name: name(), source: refusal() }),
        EngineError::Lsm(LsmError::Damaged { name: name(), at: 1, what: "length" }),
        EngineError::Lsm(LsmError::Missing { name: name() }),
        EngineError::Lsm(LsmError::Foreign { name: name(), what: "size" }),
        EngineError::Lsm(LsmError::NoManifest { name: name() }),
        EngineError::Lsm(LsmError::Version { name: name(), found: 1, supported: 2 }),
        EngineError::Checkpoint(CheckpointError::Io {
            doing: "read",
            name: name(),
            source: refusal(),
        }),
    ];
    all.extend(storage_errors().into_iter().map(EngineError::Storage));
    all
}

/// Errors about backups and lines.
fn copy_errors() -> Vec<Box<dyn StdError>> {
    let path = || ODD.to_owned();
    let source = || Box::new(Error::Options(odd("source")));
    let kept = Kept::Before(7);
    vec![
        Box::new(BackupError::NotABackup { path: path() }),
        Box::new(BackupError::NeedsArchive { path: path() }),
        Box::new(BackupError::NoBase { path: path() }),
        Box::new(BackupError::Moment { path: path(), what: odd("what") }),
        Box::new(BackupError::Version { path: path(), found: 9 }),
        Box::new(BackupError::Unknown { path: path(), why: odd("why") }),
        Box::new(BackupError::Damaged { path: path(), at: 1, what: odd("what") }),
        Box::new(BackupError::Partitions { path: path(), found: 3, wanted: 2 }),
        Box::new(BackupError::UnknownEngine { path: path(), engine: odd("engine") }),
        Box::new(BackupError::Collision { path: path(), partition: 1, table: odd("table") }),
        Box::new(LinesError::Line { input: path(), line: 1, why: odd("why"), kept }),
        Box::new(LinesError::Refused { input: path(), line: 1, source: source(), kept }),
        Box::new(LinesError::NoSchema { input: path() }),
    ]
}

/// The errors that only [`Error`] has.
fn own_errors() -> Vec<Error> {
    let path = || ODD.to_owned();
    let [table, name, known, engine] = ["table", "name", "known", "engine"].map(odd);
    let table = || table.clone();
    let (name, known) = (|| name.clone(), || known.clone());
    let (index, key, differs) = (Some(odd("index")), odd("key"), || odd("differs"));
    vec![
        Error::DuplicateKey { table: table(), index, key: key.clone() },
        Error::MissingKey { table: table(), key },
        Error::NoTable { name: name(), known: known() },
        Error::NoIndex { table: table(), name: name(), known: known() },
        Error::NoColumn { table: table(), name: name(), known: known() },
        Error::ForeignTable { table: table() },
        Error::WrongEngine { path: path(), found: engine.clone(), wanted: odd("wanted") },
        Error::WrongSchema { differs: differs() },
        Error::WrongRows { rows: odd("rows"), differs: differs() },
        Error::NoFiles { path: path(), engine: engine.clone(), files: odd("files") },
        Error::Unfinished { path: path() },
        Error::NoSnapshots { engine },
        Error::Background { partition: 1, source: EngineError::Stopped { why: odd("why") } },
        Error::Unsupported { what: odd("what") },
        Error::InTheWay { path: path(), what: odd("what") },
        Error::Differs { path: path(), what: odd("what") },
        Error::Options(odd("options")),
        Error::Io { path: path(), source: refusal() },
        Error::Full(GrowError::Medium { wanted: 1, source: refusal() }),
    ]
}

/// Errors of words, rows and options.
fn word_errors() -> Vec<Box<dyn StdError>> {
    let (column, near) = (|| odd("column"), odd("near"));
    let engine = EngineKind::NvmInp;
    let unknown = OptionError::Unknown {
        engine,
        name: odd("name"),
        elsewhere: odd("elsewhere"),
        has: odd("has"),
    };
    vec![
        Box::new(unknown),
        Box::new(OptionError::Nowhere { name: odd("name"), near }),
        Box::new(RowError::NoColumn { column: column(), known: odd("known") }),
        Box::new(RowError::NoNames { column: column() }),
        Box::new(RowError::WrongType { column: column(), found: odd("found"), wanted: "u64" }),
        Box::new(ODD.parse::<EngineKind>().unwrap_err()),
        Box::new(ODD.parse::<EngineChoice>().unwrap_err()),
        Box::new(ODD.parse::<Domain>().unwrap_err()),
        ODD.parse::<Until>().unwrap_err().into(),
    ]
}

#[test]
fn every_error_escapes_what_it_names() {
    let mut all = copy_errors();
    all.extend(word_errors());
    all.extend(pool_errors().into_iter().map(|error| Box::new(error) as Box<dyn StdError>));
    all.extend(engine_errors().into_iter().map(|error| Box::new(Error::from(error)) as _));
    all.extend(storage_errors().into_iter().map(|error| Box::new(error) as Box<dyn StdError>));
    all.extend(own_errors().into_iter().map(|error| Box::new(error) as Box<dyn StdError>));
    for error in all {
        check(&format!("{error:?}"), &error.to_string());
        assert!(error.to_string().contains(SHOWN), "{error:?}");
    }
}

#[test]
fn findings_escape_what_they_name() {
    let finding = Finding {
        partition: Some(1),
        table: Some(odd("table")),
        index: Some(odd("index")),
        what: odd("what"),
        lost: odd("lost"),
    };
    check("finding", &finding.to_string());
    assert_eq!(finding.to_string().matches(SHOWN).count(), 4, "{finding}");
}

fn schema(more: &str) -> Schema {
    let [key, text, index] = ["key", "text", "index"].map(odd);
    let table = TableSchema::new(odd("table"))
        .column(&key, ColumnType::Text { max: 60 })
        .column(&text, ColumnType::Text { max: 60 })
        .column(odd(more), ColumnType::U64)
        .key(&[&key])
        .unique_index(&index, &[&text]);
    Schema::new().table(table)
}

fn refused<T>(engine: EngineKind, done: Result<T, Error>) {
    let error = done.err().unwrap_or_else(|| panic!("{engine}: it is refused"));
    check(engine.name(), &error.to_string());
}

#[test]
fn what_a_database_refuses_is_escaped() {
    for engine in crate::support::few() {
        let directory = crate::support::in_memory();
        let path = directory.path().join(odd("db"));
        let options = crate::support::small_logs().engine(engine);
        refused(engine, Database::open(&path, &options));
        let db = Database::create(&path, &schema("number"), &options).unwrap();
        refused(engine, Database::create(&path, &schema("number"), &options));
        refused(engine, Database::open(&path, &options));
        let table = db.table(&odd("table")).unwrap();
        let row = |key: &'static str, text: &'static str| {
            [Value::Text(key), Value::Text(text), Value::U64(1)]
        };
        db.insert(&table, &row(ODD, ODD)).unwrap();
        refused(engine, db.insert(&table, &row(ODD, "other")));
        refused(engine, db.insert(&table, &row("other", ODD)));
        refused(engine, db.write(|tx| tx.delete(&table, &[Value::Text("\n\u{202e}")])));
        refused(engine, db.insert(&table, &[Value::U64(1), Value::Text(""), Value::U64(1)]));
        refused(engine, db.insert(&table, &[Value::Text("")]));
        let long = "x".repeat(61);
        refused(engine, db.insert(&table, &[Value::Text(&long), Value::Text(""), Value::U64(1)]));
        refused(engine, db.table(&odd("tabel")));
        let index = odd("indxe");
        let scan = Scan::all().by(&index);
        refused(engine, db.read(|tx| tx.scan(&table, &scan, |_| ControlFlow::Continue(()))));
        let found: Row = db.get(&table, &[Value::Text(ODD)]).unwrap().expect("it is there");
        check("column", &found.try_get::<u64>(odd("txet").as_str()).unwrap_err().to_string());
        let dump = directory.path().join("dump");
        db.dump(&dump, &[], &mut |_| ()).unwrap();
        let dump = std::fs::read_to_string(dump).unwrap();
        assert_eq!(dump.lines().count(), 3, "{engine}: {dump:?}");
        dump.lines().take(2).for_each(|line| check("dump", line));
        db.close().unwrap();
        refused(engine, Database::open_or_create(&path, &schema("other"), &options));
        let other = match engine {
            EngineKind::NvmInp => EngineKind::Cow,
            _ => EngineKind::NvmInp,
        };
        refused(engine, Database::open(&path, &options.clone().engine(other)));
    }
}
