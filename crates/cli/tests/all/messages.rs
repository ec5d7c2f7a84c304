//! The command's messages when something is wrong: what it is, of what, and what to do.

use std::fs;
use std::path::{Path, PathBuf};

use perdura::{ColumnType, Database, EngineKind, Options, Schema, TableSchema, Value};

use crate::common::{Ran, run};

struct Place(tempfile::TempDir);

impl Place {
    /// With a database `db` of this engine, which has three tuples, and lines `lines` that it has not.
    fn new(engine: EngineKind) -> Self {
        let place = Self(tempfile::tempdir().expect("a directory"));
        let table = TableSchema::new("t")
            .column("id", ColumnType::U64)
            .column("name", ColumnType::Text { max: 40 })
            .key(&["id", "name"]);
        let options = Options::new().engine(engine).pool_limit(1 << 28);
        let db = Database::create(place.at("db"), &Schema::new().table(table), &options);
        let db = db.expect("created");
        let table = db.table("t").expect("a table");
        let put = |id| db.write(|tx| tx.insert(&table, &[Value::U64(id), Value::Text("Ada")]));
        (1..4).try_for_each(put).expect("inserted");
        db.close().expect("closed");
        place.write("lines", b"{\"table\":\"t\",\"tuple\":{\"id\":4,\"name\":\"\"}}\n");
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.at(name), bytes).expect("written");
    }

    /// `perdura pool <command>`, with the names of files in this directory.
    fn pool(&self, arguments: &[&str]) -> Ran {
        let text = |path: &Path| path.to_str().expect("text").to_owned();
        let own = |argument: &&str| match argument.strip_prefix('@') {
            Some(name) => text(&self.at(name)),
            None => (*argument).to_owned(),
        };
        let arguments: Vec<String> = arguments.iter().map(own).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run(&[&["pool"], &arguments[..]].concat())
    }

    /// Returns the message of a command that fails.
    fn said(&self, arguments: &[&str]) -> String {
        let ran = self.pool(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{arguments:?}: {ran:?}");
        ran.err
    }
}

#[test]
fn who_has_a_database_open_is_named() {
    let place = Place::new(EngineKind::Inp);
    let db = Database::open(place.at("db"), &Options::new()).expect("opened");
    let who = format!("is open already, by process {}, `", std::process::id());
    for command in [&["info", "@db"][..], &["check", "@db"], &["load", "@db", "@lines"]] {
        let said = place.said(command);
        assert!(said.contains(&who), "{command:?}: {said}");
    }
    db.close().expect("closed");
    assert_eq!(place.pool(&["info", "@db"]).code, Some(0));
}

#[test]
fn a_check_does_not_send_to_a_check() {
    let place = Place::new(EngineKind::NvmInp);
    let mut bytes = fs::read(place.at("db")).expect("there");
    bytes[8192..8192 + 4096].fill(0xa5);
    place.write("db", &bytes);
    for command in [&["check", "@db"][..], &["check", "@db", "--repair-into", "@new"]] {
        let said = place.said(command);
        assert!(said.contains("damaged") && !said.contains("run `perdura pool check`"), "{said}");
    }
    // Others do.
    assert!(place.said(&["dump", "@db"]).contains("run `perdura pool check`"));
}

#[test]
fn existing_key_is_refused_with_what_to_do() {
    let place = Place::new(EngineKind::NvmCow);
    place.write("again", b"{\"table\":\"t\",\"tuple\":{\"id\":2,\"name\":\"Ada\"}}\n");
    let said = place.said(&["load", "@db", "@again"]);
    assert!(said.contains("primary key id = 2, name = \"Ada\" already"), "{said}");
    assert!(said.contains("--existing"), "{said}");
}

#[test]
fn other_input_than_json_lines_is_named_by_its_kind() {
    let place = Place::new(EngineKind::Log);
    assert_eq!(place.pool(&["backup", "@db", "@backup"]).code, Some(0));
    place.write("packed", b"\x1f\x8b\x08\0\0\0\0\0");
    for (input, said) in [
        ("@db", "this is a database, not JSON lines; dump it"),
        ("@backup", "this is a backup, not JSON lines; restore it"),
        ("@packed", "this is compressed"),
    ] {
        let found = place.said(&["load", "@new", input]);
        assert!(found.contains(said), "{found}");
        assert!(!place.at("new").exists());
    }
}

#[test]
fn a_table_is_dumped_once() {
    let place = Place::new(EngineKind::Cow);
    let said = place.said(&["dump", "@db", "--table", "t", "--table", "t"]);
    assert!(said.contains("table `t` is named twice"), "{said}");
    let said = place.said(&["dump", "@db", "--table", "T"]);
    assert!(said.contains("no table `T`; the database has `t`; did you mean `t`?"), "{said}");
}

/// If a command line names two files, the message says which one is wrong.
#[test]
fn an_error_names_the_file_that_it_is_about_and_no_other() {
    let place = Place::new(EngineKind::NvmLog);
    fs::create_dir(place.at("there")).expect("made");
    for command in [
        &["check", "@db", "--repair-into", "@there"][..],
        &["backup", "@db", "@there"],
        &["dump", "@db", "--out", "@there"],
    ] {
        let (said, name) = (place.said(command), place.at("there").display().to_string());
        assert!(said.starts_with(&format!("perdura: {name}: exists already")), "{said}");
    }
}

/// The options that do not fit are named, and no others.
#[test]
fn a_database_that_is_there_takes_no_options_of_a_new_one() {
    let place = Place::new(EngineKind::NvmInp);
    for (options, named) in [
        (&["--option", "page_bytes=8KiB"][..], "--option is for a new database; leave it out"),
        (&["--model"], "--model is for a new database; leave it out"),
        (&["--domain", "process"], "--domain is for a new database; leave it out"),
        (
            &["--option", "page_bytes=8KiB", "--schema", "x", "--engine", "cow"],
            "--schema, --engine, --option are for a new database; leave them out",
        ),
    ] {
        let ran = place.pool(&[&["load", "@db", "@lines"], options].concat());
        assert_eq!(ran.code, Some(2), "{options:?}: {ran:?}");
        let said = format!("{} exists, and {named}", place.at("db").display());
        assert!(ran.err.contains(&said), "{options:?}: {}", ran.err);
    }
}

/// A batch ends at 1 MiB, however many lines it may have: so says the help.
#[test]
fn the_help_of_a_batch_has_both_its_limits() {
    let help = run(&["pool", "load", "--help"]).out;
    let (_, batch) = help.split_once("--batch <N>").expect("an option");
    let (batch, _) = batch.split_once("[default: 1000]").expect("a default");
    assert!(batch.contains("1 MiB"), "{batch}");

    let place = Place::new(EngineKind::NvmInp);
    place.write(
        "schema",
        br#"{"tables": [{"name": "t", "key": ["k"], "indexes": [], "columns": [
            {"name": "k", "kind": "u64"}, {"name": "v", "kind": {"text": {"max": 700000}}}]}]}"#,
    );
    let new = ["create", "@wide", "--schema", "@schema", "--limit", "256MiB"];
    assert_eq!(place.pool(&new).code, Some(0));
    let text = "x".repeat(600_000);
    let line = |k| format!("{{\"table\":\"t\",\"tuple\":{{\"k\":{k},\"v\":\"{text}\"}}}}\n");
    let lines: String = [1, 2, 3, 3].map(line).concat();
    place.write("wide-lines", lines.as_bytes());
    let said = place.said(&["load", "@wide", "@wide-lines"]);
    assert!(said.contains("before line 3 are loaded"), "{said}");
}

/// The error for a default that its column cannot hold says how such a value is written.
#[test]
fn wrong_default_is_refused_with_what_to_do() {
    let place = Place::new(EngineKind::NvmInp);
    for (kind, default, said) in [
        (r#""u8""#, "256", "column `c` holds u8 from 0 to 255, not 256"),
        (r#""timestamp""#, r#""2026-01-31""#, "a timestamp is written as \"2015-06-04T12:30:00Z\""),
        (r#"{"bytes": {"max": 2}}"#, r#""ab""#, "bytes are written as {\"hex\": \"00ff\"}"),
    ] {
        let schema = format!(
            r#"{{"tables": [{{"name": "t", "key": ["k"], "columns": [{{"name": "k", "kind": "u8"}},
                {{"name": "c", "kind": {kind}, "default": {default}}}]}}]}}"#
        );
        place.write("schema", schema.as_bytes());
        let found = place.said(&["create", "@new", "--schema", "@schema"]);
        let whole = "table `t` has a default that its column cannot hold: ";
        assert!(found.contains(whole) && found.contains(said), "{found}");
        assert!(!place.at("new").exists());
    }
}
