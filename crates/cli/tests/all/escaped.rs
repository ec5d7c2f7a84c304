//! Names, values, paths and arguments with control characters, line ends and marks of the direction of
//! writing: no command prints one of them as it is, and none makes a line of its own.

use std::fs;
use std::path::{Path, PathBuf};

use peers::extension::open_stock;
use perdura::{ColumnType, Database, EngineKind, Options, Schema, TableSchema, Value};
use rusqlite::OpenFlags;
use serde_json::json;

use crate::common::{Ran, run};

/// What a name ends with: a line that could be the command's own, and characters that a terminal acts
/// upon.
const ODD: &str = "a\nDAMAGE: forged\r\u{1b}[31m\u{7f}\u{9b}\u{202e}";
/// The same as it has to be shown.
const SHOWN: &str = "a\\nDAMAGE: forged\\r\\u{1b}[31m\\u{7f}\\u{9b}\\u{202e}";

fn odd(name: &str) -> String {
    format!("{name}{ODD}")
}

/// Returns what a command printed with this exit code, of which every line is its own.
fn printed(arguments: &[&str], code: i32) -> Ran {
    let ran = run(arguments);
    assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
    for line in ran.out.split('\n').chain(ran.err.split('\n')) {
        let is_raw = |character: char| character.is_control() || character == '\u{202e}';
        assert!(!line.contains(is_raw), "{arguments:?}: {line:?}");
        assert!(!line.trim_start().starts_with("DAMAGE: forged"), "{arguments:?}: {ran:?}");
    }
    ran
}

/// A directory with such a name.
struct Place {
    _parent: tempfile::TempDir,
    directory: PathBuf,
}

impl Place {
    fn new() -> Self {
        let parent = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let parent = parent.expect("a directory");
        let directory = parent.path().join(odd("directory"));
        fs::create_dir(&directory).expect("made");
        Self { _parent: parent, directory }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.join(odd(name))
    }

    /// Runs a command with this exit code. `@name` stands for a file in this directory.
    fn printed(&self, arguments: &[&str], code: i32) -> Ran {
        let own = |argument: &&str| match argument.strip_prefix('@') {
            Some(name) => text(&self.at(name)).to_owned(),
            None => (*argument).to_owned(),
        };
        let arguments: Vec<String> = arguments.iter().map(own).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        printed(&arguments, code)
    }

    /// Runs a command that fails and says so on standard error, with the name as it has to be shown.
    fn refused(&self, arguments: &[&str], code: i32) {
        let ran = self.printed(arguments, code);
        assert!(ran.err.contains(SHOWN), "{arguments:?}: {ran:?}");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// A database at `db` with so many tuples in a table of which every name is odd.
fn create(place: &Place, engine: EngineKind, tuples: u64) {
    let [table, key, name, index] = ["table", "key", "name", "index"].map(odd);
    let declared = TableSchema::new(&table)
        .column(&key, ColumnType::Text { max: 80 })
        .column(&name, ColumnType::Text { max: 80 })
        .key(&[&key])
        .index(&index, &[&name]);
    let schema = Schema::new().table(declared);
    let options = Options::new().engine(engine).pool_limit(1 << 30).tune("log_bytes", 16 << 20);
    let db = Database::create(place.at("db"), &schema, &options).expect("created");
    let table = db.table(&table).expect("a table");
    db.write(|tx| {
        (0..tuples).try_for_each(|number| {
            let value = format!("{number}{ODD}");
            tx.insert(&table, &[Value::Text(&value), Value::Text(&value)])
        })
    })
    .expect("inserted");
    db.close().expect("closed");
}

#[test]
fn names_of_a_sound_pool_are_escaped() {
    for engine in EngineKind::ALL {
        let place = Place::new();
        create(&place, engine, 2);
        for command in ["info", "check", "dump"] {
            let ran = place.printed(&["pool", command, "@db"], 0);
            let names = ran.out.matches("DAMAGE: forged").count();
            assert!(names > 0, "{engine}: {command}: {ran:?}");
        }
        for command in ["info", "check"] {
            let ran = place.printed(&["pool", command, "@db", "--json", "-"], 0);
            let json: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
            assert_eq!(json["file"], text(&place.at("db")), "{engine}: {command}");
        }
        let info = place.printed(&["pool", "info", "@db"], 0).out;
        for name in ["table", "key", "name", "index"] {
            assert!(info.contains(&format!("{name}{SHOWN}")), "{engine}: {name}: {info}");
        }
        place.printed(&["pool", "dump", "@db", "--out", "@lines"], 0);
        for (command, said) in [
            (&["load", "@loaded", "@lines"][..], "created and loaded from"),
            (&["backup", "@db", "@backup"], "backup of"),
            (&["restore", "@backup", "@restored"], "restored from"),
            (&["check", "@db", "--repair-into", "@saved"], "taken over"),
        ] {
            let ran = place.printed(&[&["pool"], command].concat(), 0);
            assert!(ran.out.contains(said), "{engine}: {command:?}: {ran:?}");
        }
        for command in [["pool", "backup", "@db", "@backup"], ["pool", "restore", "@backup", "@db"]]
        {
            place.refused(&command, 1);
        }
    }
}

#[test]
fn names_of_a_damaged_pool_are_escaped() {
    let place = Place::new();
    create(&place, EngineKind::NvmInp, 500);
    let pool = place.at("db");
    let mut contents = fs::read(&pool).expect("readable");
    let is_leaf = |at: &usize| contents[*at..].starts_with(b"PDBN\0\0\0\0");
    let leaves: Vec<usize> = (8192..contents.len()).step_by(64).filter(is_leaf).collect();
    leaves.iter().skip(4).for_each(|leaf| contents[*leaf] ^= 1);
    fs::write(&pool, &contents).expect("written");
    let check = place.printed(&["pool", "check", "@db"], 1);
    for said in ["table `table", "index `index", "(\"", "is damaged"] {
        assert!(check.out.contains(said) || check.err.contains(said), "{said}: {check:?}");
    }
    place.printed(&["pool", "check", "@db", "--json", "-"], 1);
    let saved = text(&place.at("saved")).to_owned();
    let repaired = place.printed(&["pool", "check", "@db", "--repair-into", &saved], 1);
    assert!(repaired.out.contains(&format!("table `table{SHOWN}`: ")), "{repaired:?}");
    place.refused(&["pool", "check", "@db", "--repair-into", &saved], 1);
}

#[test]
fn names_in_a_schema_and_in_lines_are_escaped() {
    let place = Place::new();
    create(&place, EngineKind::NvmInp, 2);
    let [table, key, name] = ["table", "key", "name"].map(odd);
    let line = |table: &str, key: &str, value: serde_json::Value| {
        let tuple = [(key.to_owned(), value), (name.clone(), "a name".into())];
        let tuple: serde_json::Map<_, _> = tuple.into_iter().collect();
        json!({ "table": table, "tuple": tuple }).to_string()
    };
    for line in [
        line(&odd("tabel"), &key, "1".into()),
        line(&table, &odd("kye"), "1".into()),
        line(&table, &key, 1.into()),
        line(&table, &key, odd("1").into()),
        line(&table, &key, odd(&"x".repeat(80)).into()),
    ] {
        fs::write(place.at("lines"), line).expect("written");
        place.refused(&["pool", "load", "@db", "@lines"], 1);
    }
    let column = |kind: serde_json::Value| json!([{ "name": key, "kind": kind }]);
    for schema in [
        json!({ "tables": [{ odd("nmae"): table }] }),
        json!({ "tables": [{ "name": table, "columns": column("u64".into()), "key": [odd("kye")] }] }),
        json!({ "tables": [{ "name": table, "columns": column(odd("u46").into()), "key": [key] }] }),
        json!({ "tables": [{ "name": table, "columns": [], "key": [] }] }),
    ] {
        fs::write(place.at("schema"), schema.to_string()).expect("written");
        place.refused(&["pool", "create", "@new", "--schema", "@schema"], 1);
    }
}

#[test]
fn names_of_files_are_escaped() {
    let place = Place::new();
    create(&place, EngineKind::NvDisk, 2);
    fs::create_dir(place.at("archive")).expect("made");
    let archive = text(&place.at("archive")).to_owned();
    let based = ["pool", "backup", "@db", "@base", "--archive", &archive];
    assert!(place.printed(&based, 0).out.contains("base backup of"));
    assert!(
        place.printed(&["pool", "archive", "@db", "@archive"], 0).out.contains("up to its end")
    );
    place.refused(&["pool", "archive", "@db", "@elsewhere"], 1);
    place.refused(&["pool", "restore", "@base", "@new"], 1);
    assert!(place.printed(&["pool", "archive", "@db", "--end"], 0).out.contains("no archive"));
    fs::write(place.at("other"), "no database".repeat(1000)).expect("written");
    for file in ["@missing", "@other"] {
        for command in ["info", "check", "dump", "archive"] {
            let more: &[&str] = if command == "archive" { &["--end"] } else { &[] };
            place.refused(&[&["pool", command, file], more].concat(), 1);
        }
        for command in ["backup", "restore"] {
            place.refused(&["pool", command, file, "@copy"], 1);
        }
        place.refused(&["pool", "load", "@db", file], 1);
        place.refused(&["pool", "create", "@new", "--schema", file], 1);
        place.refused(&["sqlite", "plain", file], 1);
    }
    place.refused(&["sqlite", "install", "--library", text(&place.at("other"))], 1);
    place.refused(&["sqlite", "check", "@missing"], 1);
    place.refused(&["pool", "dump", "@db", "--table", ODD], 1);
    place.refused(&["pool", "info", "@db", "--json", text(&place.at("db"))], 2);
    let nowhere = place.at("missing").join("file");
    place.refused(&["pool", "info", "@db", "--json", text(&nowhere)], 1);
    for bench in ["ycsb", "tpcc", "tpcb", "tatp", "slotted", "sqlite", "recovery"] {
        place.refused(&["bench", bench, "--path", text(&nowhere)], 1);
    }
    place.refused(&["tour", "--path", text(&nowhere)], 1);
    let open = Database::open(place.at("db"), &Options::new()).expect("opened");
    place.refused(&["pool", "check", "@db"], 1);
    open.close().expect("closed");
}

#[test]
fn names_in_a_database_of_sqlite_are_escaped() {
    let place = Place::new();
    let path = place.at("db");
    let stock = open_stock(&path, OpenFlags::default()).expect("opens");
    let quoted = |name: &str| format!("\"{}\"", odd(name));
    let [table, column] = ["table", "column"].map(quoted);
    // The schema says NOT NULL after a NULL was stored: the check of SQLite names table and column.
    let made = format!(
        "CREATE TABLE {table}({column} TEXT); INSERT INTO {table} VALUES(NULL);
         PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(sql, ' TEXT', ' TEXT NOT NULL');"
    );
    stock.execute_batch(&made).expect("made");
    stock.close().expect("closes");
    let check = place.printed(&["sqlite", "check", "@db"], 1);
    let problem = format!("NULL value in table{SHOWN}.column{SHOWN}");
    assert!(check.out.contains(&problem), "{check:?}");
    place.printed(&["sqlite", "check", "@db", "--json", "-"], 1);
    assert!(place.printed(&["sqlite", "plain", "@db"], 0).out.contains(SHOWN));
}

#[test]
fn arguments_are_escaped() {
    let place = Place::new();
    let (option, joined) = (format!("--{ODD}"), format!("--limit=5{ODD}"));
    let (unknown, numbered) = (format!("{ODD}=5"), format!("page_bytes=5{ODD}"));
    let (many, valued) = (format!("inp,{ODD}"), format!("--{ODD}=5"));
    let create = ["pool", "create", "file", "--schema", "schema"];
    let restore = ["pool", "restore", "backup", "file", "--archive", "archive"];
    for (command, wrong) in [
        (&[][..], &[ODD][..]),
        (&["pool"], &[ODD]),
        (&["pool", "info", "file"], &[ODD]),
        (&["pool", "info", "file"], &[&option]),
        (&["pool", "info", "file"], &[&valued]),
        (&create, &[&joined]),
        (&create, &["--limit", &unknown]),
        (&create, &["--engine", ODD]),
        (&create, &["--domain", ODD]),
        (&create, &["--option", ODD]),
        (&create, &["--option", &unknown]),
        (&create, &["--option", &numbered]),
        (&restore, &["--until", ODD]),
        (&["pool", "options"], &["--engine", &many]),
        (&["bench", "ycsb"], &["--mix", ODD]),
        (&["bench", "ycsb"], &["--skew", ODD]),
        (&["bench", "ycsb"], &["--peer", &many]),
        (&["bench", "ycsb"], &["--commit", ODD]),
        (&["bench", "tatp"], &["--as", ODD]),
        (&["bench", "recovery"], &["--mix", ODD]),
        (&["bench", "slotted"], &["--engine", &many]),
        (&["bench", "slotted"], &["--mix", ODD]),
        (&["bench", "slotted"], &["--baseline", ODD]),
        (&["bench", "sqlite"], &["--mode", ODD]),
        (&["bench", "sqlite"], &["--keys", ODD]),
        (&["bench", "sqlite"], &["--record", ODD]),
        (&["sqlite", "install"], &[ODD]),
        (&["completions"], &[ODD]),
    ] {
        place.refused(&[command, wrong].concat(), 2);
    }
}
