//! Schemas and JSON lines that people write by hand: the error for a slip says what was meant, and
//! changes that editors make to a text have no effect.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Ran, run};

const SCHEMA: &str = r#"{"tables": [{
    "name": "account",
    "columns": [{"name": "id", "kind": "u64"}, {"name": "owner", "kind": {"text": {"max": 80}}}],
    "key": ["id"],
    "indexes": [{"name": "by_owner", "columns": ["owner"]}],
    "inline": false
  }]}"#;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("a directory"));
        fs::write(place.at("schema"), SCHEMA).expect("written");
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
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
}

#[test]
fn a_schema_with_a_slip_is_refused_with_what_was_meant() {
    let place = Place::new();
    for (from, to, said) in [
        ("\"tables\": [{", "\"tabels\": [{", "line 1, column 9: unknown field `tabels`"),
        ("\"tables\": [{", "\"tabels\": [{", "did you mean `tables`?"),
        ("{\"tables\"", "{\"version\": 1, \"tables\"", "unknown field `version`"),
        ("\"indexes\"", "\"index\"", "did you mean `indexes`?"),
        ("\"inline\"", "\"inlined\"", "did you mean `inline`?"),
        ("\"key\"", "\"keys\"", "did you mean `key`?"),
        ("{\"name\": \"id\", \"kind\"", "{\"name\": \"id\", \"knid\"", "unknown field `knid`"),
        ("\"name\": \"id\", ", "\"name\": \"id\", \"nullabel\": 1, ", "unknown field `nullabel`"),
        ("\"columns\": [\"owner\"]", "\"column\": [\"owner\"]", "did you mean `columns`?"),
        ("{\"max\": 80}", "{\"max\": 80, \"min\": 1}", "unknown field `min`"),
        ("{\"max\": 80}", "{\"maks\": 80}", "did you mean `max`?"),
        ("{\"text\": {\"max\": 80}}", "\"text\"", "needs its longest value"),
        ("{\"text\"", "{\"txt\"", "did you mean `text`?"),
        ("\"u64\"", "\"U64\"", "did you mean `u64`?"),
        ("\"key\": [\"id\"]", "\"key\": [\"id\"], \"key\": [\"id\"]", "duplicate field `key`"),
        ("\"key\": [\"id\"]", "\"key\": [\"id\", \"id\"]", "the primary key has column `id` twice"),
        ("\"key\": [\"id\"]", "\"key\": [\"ids\"]", "no column `ids`; did you mean `id`?"),
        ("[\"owner\"]", "[\"owner\", \"owner\"]", "index `by_owner` has column `owner` twice"),
        ("\"name\": \"id\"", "\"name\": \"\"", "a column has no name"),
        ("\"by_owner\"", "\"\"", "an index has no name"),
        ("false\n", "false,\n", "line 7, column 3: trailing comma"),
        ("}]}", "}]} }", "trailing characters"),
    ] {
        let text = SCHEMA.replacen(from, to, 1);
        assert_ne!(text, SCHEMA, "{from}");
        fs::write(place.at("slip"), text).expect("written");
        for command in [
            &["create", "@db", "--schema", "@slip"][..],
            &["load", "@db", "/dev/null", "--schema", "@slip"],
        ] {
            let ran = place.pool(command);
            assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{to}: {ran:?}");
            assert!(ran.err.contains(said), "{to}: no `{said}` in: {}", ran.err);
            assert!(!place.at("db").exists(), "{to}");
        }
    }
}

#[test]
fn lines_with_a_slip_are_refused_with_what_was_meant() {
    let place = Place::new();
    let good = "{\"table\": \"account\", \"tuple\": {\"id\": 1, \"owner\": \"Ada\"}}\n";
    for (from, to, said) in [
        ("\"table\"", "\"tables\"", "did you mean `table`?"),
        ("\"tuple\"", "\"tupel\"", "unknown field `tupel`"),
        ("\"account\"", "\"acount\"", "no table `acount`; did you mean `account`?"),
        ("\"owner\"", "\"onwer\"", "no column `onwer`; did you mean `owner`?"),
        ("\"id\": 1", "\"id\": 1, \"id\": 1", "column `id` comes twice"),
        ("\"table\"", "\"table\": \"account\", \"table\"", "duplicate field `table`"),
        ("\"Ada\"", "\"Ada\",", "is the comma before it one too many?"),
        ("}}\n", "}},\n", "trailing characters"),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        fs::write(place.at("lines"), text).expect("written");
        let ran = place.pool(&["load", "@db", "@lines", "--schema", "@schema"]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{to}: {ran:?}");
        assert!(ran.err.contains("lines: line 1: "), "{}", ran.err);
        assert!(ran.err.contains(said), "{to}: no `{said}` in: {}", ran.err);
        assert!(!place.at("db").exists(), "{to}");
    }
}

/// Byte order marks, the line ends of Windows, blank lines, integers with a point.
#[test]
fn what_editors_and_other_programs_do_to_a_text_changes_nothing() {
    let place = Place::new();
    let marked = [b"\xef\xbb\xbf", SCHEMA.replace('\n', "\r\n").as_bytes()].concat();
    fs::write(place.at("schema"), marked).expect("written");
    let lines = "\u{feff}{\"table\": \"account\", \"tuple\": {\"id\": -0, \"owner\": \"Ada\"}}\r\n\r\n \
                 {\"table\": \"account\", \"tuple\": {\"id\": 1.0, \"owner\": \"Grace\"}}\t\r\n\
                 {\"table\": \"account\", \"tuple\": {\"owner\": \"\", \"id\": 2e0}}";
    fs::write(place.at("lines"), lines).expect("written");
    let ran = place.pool(&["load", "@db", "@lines", "--schema", "@schema"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let dump = place.pool(&["dump", "@db"]).out;
    let ids: Vec<&str> = ["\"id\":0,", "\"id\":1,", "\"id\":2,"].into();
    assert!(ids.iter().all(|id| dump.contains(id)), "{dump}");
    // A dump, too.
    fs::write(place.at("dump"), format!("\u{feff}{}", dump.replace('\n', "\r\n")))
        .expect("written");
    assert_eq!(place.pool(&["load", "@copy", "@dump"]).code, Some(0));
    assert_eq!(place.pool(&["dump", "@copy"]).out, dump);
    // Another encoding is named.
    let wide: Vec<u8> =
        format!("\u{feff}{dump}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(place.at("wide"), wide).expect("written");
    let ran = place.pool(&["load", "@new", "@wide"]);
    assert!(ran.err.contains("UTF-16; save it as UTF-8"), "{ran:?}");
    let ran = place.pool(&["create", "@new", "--schema", "@wide"]);
    assert!(ran.err.contains("UTF-16; save it as UTF-8"), "{ran:?}");
}
