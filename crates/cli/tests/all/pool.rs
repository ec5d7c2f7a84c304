//! `perdura pool`: creating, looking at and checking, and files that are no pools.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::common::{Ran, perdura, run};

const SCHEMA: &str = r#"{"tables": [{
    "name": "account",
    "columns": [
      {"name": "id", "kind": "u64"},
      {"name": "owner", "kind": {"text": {"max": 80}}},
      {"name": "balance", "kind": "i64"}
    ],
    "key": ["id"],
    "indexes": [{"name": "by_owner", "columns": ["owner"]}],
    "inline": false
  }]}"#;

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// A directory with a schema in it.
fn directory() -> (tempfile::TempDir, PathBuf, PathBuf) {
    // Not on a disk, if that can be: nothing here depends on it.
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = directory.expect("a directory");
    let schema = directory.path().join("schema.json");
    fs::write(&schema, SCHEMA).expect("written");
    let pool = directory.path().join("pool");
    (directory, schema, pool)
}

fn create(pool: &Path, schema: &Path, more: &[&str]) -> Ran {
    run(&[&["pool", "create", text(pool), "--schema", text(schema)], more].concat())
}

#[test]
fn the_schema_in_the_help_is_the_one_that_works() {
    let squeeze = |text: &str| text.split_whitespace().collect::<String>();
    let help = run(&["pool", "create", "--help"]).out;
    assert!(squeeze(&help).contains(&squeeze(SCHEMA)), "{help}");
}

#[test]
fn info_of_a_paged_engine_has_its_pages_and_log() {
    let (_directory, schema, pool) = directory();
    let more = ["--engine", "nv-disk", "--domain", "process", "--partitions", "2"];
    assert_eq!(create(&pool, &schema, &more).code, Some(0));
    let info = run(&["pool", "info", text(&pool)]);
    for said in ["of 8.0 KiB", "32,768 frames", "in 8 partitions; recovery begins at 1:"] {
        assert_eq!(info.out.matches(said).count(), 2, "no `{said}` in:\n{}", info.out);
    }
    let json = run(&["pool", "info", text(&pool), "--json", "-"]);
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    let paged = &json["paged"][1];
    assert_eq!((&paged["page_bytes"], &paged["frames"]), (&8192.into(), &32_768.into()));
    assert!(paged["pages"].as_u64() > Some(5), "{paged}");
    assert_eq!(paged["log"]["capacity_bytes"], 3_u64 << 30);
    assert!(paged["log"]["kept_bytes"].as_u64() < Some(64 << 10), "{paged}");
}

#[test]
fn info_of_a_log_in_the_pool_has_its_entries() {
    for engine in ["nv-logging-foi", "nv-logging-foc"] {
        let (_directory, schema, pool) = directory();
        let more = ["--engine", engine, "--domain", "process", "--option", "log_bytes=1MiB"];
        assert_eq!(create(&pool, &schema, &more).code, Some(0));
        let info = run(&["pool", "info", text(&pool)]);
        for said in ["32,768 frames", "of 2,048 entries kept", "in the pool; recovery begins at"] {
            assert_eq!(info.out.matches(said).count(), 1, "no `{said}` in:\n{}", info.out);
        }
        let json = run(&["pool", "info", text(&pool), "--json", "-"]);
        let json: Value = serde_json::from_str(&json.out).expect("JSON");
        let log = &json["paged"][0]["log"];
        assert_eq!((&log["entries"], &log["partitions"]), (&2048.into(), &1.into()));
        assert!(log["kept_bytes"].is_null() && log["kept_entries"].as_u64() < Some(64), "{log}");
    }
}

#[test]
fn a_pool_says_what_it_was_created_as() {
    for engine in ["inp", "nvm-inp"] {
        let (_directory, schema, pool) = directory();
        let more = ["--engine", engine, "--domain", "adr", "--model", "--partitions", "2"];
        let ran = create(&pool, &schema, &[&more[..], &["--limit", "1GiB"]].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");

        let info = run(&["pool", "info", text(&pool)]);
        assert_eq!(info.code, Some(0), "{info:?}");
        for said in [engine, "adr (modelled)", "power loss", "account", "by_owner", "primary key"] {
            assert!(info.out.contains(said), "no `{said}` in:\n{}", info.out);
        }
        let json = run(&["pool", "info", text(&pool), "--json", "-"]);
        let json: Value = serde_json::from_str(&json.out).expect("JSON");
        assert_eq!(json["engine"], engine);
        assert_eq!((&json["domain"], &json["modelled"]), (&"adr".into(), &true.into()));
        assert_eq!((&json["partitions"], &json["limit_bytes"]), (&2.into(), &(1 << 30).into()));
        assert_eq!(json["tables"][0]["columns"][1]["kind"]["text"]["max"], 80);
        assert!(json["stored_bytes"].as_u64() >= Some(4096), "{json}");
        assert!(info.out.contains("on medium"), "{}", info.out);

        let check = run(&["pool", "check", text(&pool)]);
        assert_eq!(check.code, Some(0), "{check:?}");
        for said in ["recovered", "no damage found", "footprint", "indexes"] {
            assert!(check.out.contains(said), "no `{said}` in {}", check.out);
        }
        let json = run(&["pool", "check", text(&pool), "--json", "-"]);
        let json: Value = serde_json::from_str(&json.out).expect("JSON");
        assert_eq!((&json["good"], &json["engine"]), (&true.into(), &engine.into()));
        assert_eq!((&json["tuples"], &json["leaked"]), (&0.into(), &0.into()), "{json}");
        assert!(json["footprint_bytes"]["other"].as_u64() > Some(0), "{json}");
    }
}

#[test]
fn created_database_is_reported_to_programs() {
    let (_directory, schema, pool) = directory();
    let ran = create(&pool, &schema, &["--engine", "cow", "--partitions", "3", "--json", "-"]);
    let json: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!((&json["engine"], &json["partitions"]), (&"cow".into(), &3.into()), "{json}");
    let info = run(&["pool", "info", text(&pool), "--json", "-"]);
    let info: Value = serde_json::from_str(&info.out).expect("JSON");
    assert_eq!((&json["domain"], &json["modelled"]), (&info["domain"], &info["modelled"]));
}

#[test]
fn paged_is_the_engine_that_fits_the_medium() {
    let places = [std::env::temp_dir(), "/dev/shm".into(), env!("CARGO_TARGET_TMPDIR").into()];
    for place in places.iter().filter_map(|place| tempfile::tempdir_in(place).ok()) {
        let (_directory, schema, _) = directory();
        let pool = place.path().join("pool");
        let more = ["--engine", "paged", "--option", "log_bytes=1MiB", "--json", "-"];
        let ran = create(&pool, &schema, &more);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let json: Value = serde_json::from_str(&ran.out).expect("JSON");
        let wanted = if json["domain"] == "disk" { "nv-disk" } else { "nv-logging-foc" };
        assert_eq!(json["engine"], wanted, "{json}");
        let info = run(&["pool", "info", text(&pool), "--json", "-"]);
        let info: Value = serde_json::from_str(&info.out).expect("JSON");
        assert_eq!(info["engine"], wanted, "{info}");
        let check = run(&["pool", "check", text(&pool)]);
        assert_eq!(check.code, Some(0), "{check:?}");
    }
    let (_directory, schema, pool) = directory();
    let ran = create(&pool, &schema, &["--engine", "pagd"]);
    assert!(ran.code == Some(2) && ran.err.contains("sofort, paged"), "{ran:?}");
}

#[test]
fn looking_at_a_pool_does_not_change_it() {
    let (_directory, schema, pool) = directory();
    assert_eq!(create(&pool, &schema, &[]).code, Some(0));
    let before = fs::read(&pool).expect("readable");
    assert_eq!(run(&["pool", "info", text(&pool)]).code, Some(0));
    assert_eq!(fs::read(&pool).expect("readable"), before);
}

/// A report takes the place of nothing that the command works on, by whatever name, and of no other
/// database.
#[test]
fn a_report_replaces_no_database() {
    let (directory, schema, pool) = directory();
    assert_eq!(create(&pool, &schema, &[]).code, Some(0));
    let at = |name: &str| text(&directory.path().join(name)).to_owned();
    let (pool, schema) = (text(&pool), text(&schema));
    fs::hard_link(pool, at("same")).expect("made");
    std::os::unix::fs::symlink("later", at("link")).expect("made");
    let (other, backup) = (at("other"), at("backup"));
    assert_eq!(run(&["pool", "create", &other, "--schema", schema]).code, Some(0));
    assert_eq!(run(&["pool", "backup", pool, &backup]).code, Some(0));
    fs::write(at("lines"), "").expect("written");
    let before = fs::read(pool).expect("readable");
    for arguments in [
        &["info", pool, "--json", pool][..],
        &["info", pool, "--json", &at("same")],
        &["info", pool, "--json", &other],
        &["check", pool, "--json", &backup],
        &["check", pool, "--repair-into", &at("new"), "--json", &at("./new")],
        &["create", &at("later"), "--schema", schema, "--json", &at("link")],
        &["create", &at("new"), "--schema", schema, "--json", schema],
        &["backup", pool, &at("new"), "--json", &at("new")],
        &["restore", &backup, &at("new"), "--json", &backup],
        &["load", pool, &at("lines"), "--json", &at("lines")],
    ] {
        let ran = run(&[&["pool"], arguments].concat());
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
        let target = arguments.last().expect("a target");
        assert!(ran.err.contains(target) && ran.err.contains("would replace it"), "{}", ran.err);
    }
    assert_eq!(fs::read(pool).expect("readable"), before);
    assert!(!directory.path().join("new").exists() && !directory.path().join("later").exists());
    // Any other file may be replaced.
    assert_eq!(run(&["pool", "info", pool, "--json", &at("lines")]).code, Some(0));
    assert!(fs::read_to_string(at("lines")).expect("readable").contains("\"engine\""));
}

/// To open a pipe and to close it again would end what its reader gets.
#[test]
fn a_report_goes_into_a_named_pipe() {
    let (directory, schema, pool) = directory();
    assert_eq!(create(&pool, &schema, &[]).code, Some(0));
    let pipe = directory.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).expect("text")
    });
    let check = run(&["pool", "check", text(&pool), "--json", text(&pipe)]);
    assert_eq!(check.code, Some(0), "{check:?}");
    let json: Value = serde_json::from_str(&reader.join().expect("read")).expect("JSON");
    assert_eq!(json["good"], true);
}

#[test]
fn failed_creation_leaves_no_files() {
    let (directory, schema, pool) = directory();
    assert_eq!(create(&pool, &schema, &[]).code, Some(0));
    let again = create(&pool, &schema, &[]);
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains(text(&pool)) && again.err.contains("exists"), "{}", again.err);

    let other = directory.path().join("other");
    let broken = directory.path().join("broken.json");
    for wrong in ["", "[]", "{\"tables\": []}", "{\"tables\": [{\"name\": \"t\"}]}"] {
        fs::write(&broken, wrong).expect("written");
        let ran = create(&other, &broken, &[]);
        assert_eq!(ran.code, Some(1), "{wrong}: {ran:?}");
        assert!(!other.exists(), "{wrong}");
    }
    let ran = create(&other, &directory.path().join("missing.json"), &[]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("missing.json"), "{}", ran.err);
}

#[test]
fn a_model_must_be_asked_for() {
    let (_directory, schema, pool) = directory();
    let ran = create(&pool, &schema, &["--domain", "eadr"]);
    // On persistent memory with saved caches it is none.
    if ran.code == Some(1) {
        assert!(ran.err.contains("--model"), "{}", ran.err);
        assert!(!pool.exists());
    }
}

#[test]
fn what_is_no_pool_is_named_and_refused() {
    let (directory, _, pool) = directory();
    fs::write(&pool, vec![7; 100_000]).expect("written");
    let empty = directory.path().join("empty");
    fs::write(&empty, "").expect("written");
    let missing = directory.path().join("missing");
    for path in [pool.as_path(), &empty, &missing, directory.path(), Path::new("/dev/zero")] {
        for command in ["info", "check"] {
            let ran = run(&["pool", command, text(path)]);
            assert_eq!(ran.code, Some(1), "{command} {}: {ran:?}", path.display());
            assert!(ran.err.contains(text(path)), "{}", ran.err);
            assert_eq!(ran.out, "");
        }
    }
}

#[test]
fn damage_is_found_and_reported() {
    let (_directory, schema, pool) = directory();
    assert_eq!(create(&pool, &schema, &[]).code, Some(0));
    let mut contents = fs::read(&pool).expect("readable");
    contents[4096 + 20] ^= 1;
    fs::write(&pool, &contents).expect("written");
    let info = run(&["pool", "info", text(&pool)]);
    assert!(info.out.contains("DAMAGE"), "{info:?}");
    let check = run(&["pool", "check", text(&pool)]);
    assert_eq!(check.code, Some(1), "{check:?}");
    assert!(check.out.contains("DAMAGE"), "{check:?}");

    contents[20] ^= 1;
    fs::write(&pool, &contents).expect("written");
    let ran = run(&["pool", "check", text(&pool)]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
}

#[test]
fn a_pool_in_use_is_refused_with_the_reason() {
    let (_directory, schema, pool) = directory();
    assert_eq!(create(&pool, &schema, &[]).code, Some(0));
    let open = perdura::Database::open(&pool, &perdura::Options::new()).expect("a pool");
    for command in ["info", "check"] {
        let ran = run(&["pool", command, text(&pool)]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.err.contains("is open already"), "{}", ran.err);
    }
    drop(open);
    assert_eq!(run(&["pool", "check", text(&pool)]).code, Some(0));
}

/// A pool whose primary index is broken at a leaf: the check says where and what is lost and goes
/// on; what can be read goes into a new database, and the old one stays as it is.
#[test]
fn damaged_pool_is_reported_and_repaired_into_a_new_one() {
    let (directory, schema, pool) = directory();
    assert_eq!(create(&pool, &schema, &["--engine", "nvm-inp"]).code, Some(0));
    let db = perdura::Database::open(&pool, &perdura::Options::new()).expect("a pool");
    let account = db.table("account").expect("a table");
    for id in 0..500u64 {
        let owner = format!("owner {id}");
        let values =
            [perdura::Value::U64(id), perdura::Value::Text(&owner), perdura::Value::I64(1)];
        db.write(|tx| tx.insert(&account, &values)).expect("inserted");
    }
    db.close().expect("closed");
    // Some leaf; every tree has several.
    let mut contents = fs::read(&pool).expect("readable");
    let is_leaf = |at: &usize| contents[*at..].starts_with(b"PDBN\0\0\0\0");
    let leaf = (8192..contents.len()).step_by(64).filter(is_leaf).nth(4);
    contents[leaf.expect("a leaf")] ^= 1;
    fs::write(&pool, &contents).expect("written");

    let check = run(&["pool", "check", text(&pool)]);
    assert_eq!(check.code, Some(1), "{check:?}");
    for said in ["DAMAGE", "table `account`", "at offset 0x", "lost: ", "tuples      "] {
        assert!(check.out.contains(said), "no `{said}` in {}", check.out);
    }
    assert!(check.err.contains("--repair-into"), "{}", check.err);
    let json = run(&["pool", "check", text(&pool), "--json", "-"]);
    assert_eq!(json.code, Some(1), "{json:?}");
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!((&json["opens"], &json["good"]), (&true.into(), &false.into()), "{json}");
    assert_eq!(json["damage"][0]["table"], "account", "{json}");
    assert!(json["damage"][0]["what"].as_str().expect("said").contains("at offset 0x"), "{json}");

    // The exit code reports damage even if the report is not read.
    for more in [&[][..], &["--json", "-"]] {
        let mut child = perdura()
            .args(["pool", "check", text(&pool)])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        drop(child.stdout.take());
        let ran = Ran::from(child.wait_with_output().expect("ends"));
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.err.contains("is damaged"), "{ran:?}");
    }

    let before = fs::read(&pool).expect("readable");
    let new = directory.path().join("new");
    let repair = run(&["pool", "check", text(&pool), "--repair-into", text(&new)]);
    assert!(
        repair.out.contains("taken over") && repair.out.contains("table `account`: 500 tuples")
    );
    assert_eq!(fs::read(&pool).expect("readable"), before, "the damaged one stays");
    let check = run(&["pool", "check", text(&new)]);
    assert_eq!(check.code, Some(0), "{check:?}");
    assert!(check.out.contains("tuples      500\n"), "{check:?}");
    // A second time there is something already.
    let again = run(&["pool", "check", text(&pool), "--repair-into", text(&new)]);
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("exists"), "{}", again.err);
}

#[test]
fn a_pool_that_does_not_open_is_examined_all_the_same() {
    let (directory, schema, pool) = directory();
    let more = ["--engine", "inp", "--partitions", "2"];
    assert_eq!(create(&pool, &schema, &more).code, Some(0));
    let log = directory.path().join("pool.files").join("wal-1-0000000000000000");
    fs::write(&log, "this is no log").expect("written");
    let check = run(&["pool", "check", text(&pool)]);
    assert_eq!(check.code, Some(1), "{check:?}");
    for said in ["does not open", "partition 1: ", "wal-1-", "lost: the whole partition"] {
        assert!(check.out.contains(said), "no `{said}` in {check:?}");
    }
    let new = directory.path().join("new");
    let repair = run(&["pool", "check", text(&pool), "--repair-into", text(&new)]);
    assert_eq!(repair.code, Some(1), "{repair:?}");
    assert!(repair.out.contains("lost: the whole partition"), "{repair:?}");
    assert_eq!(run(&["pool", "check", text(&new)]).code, Some(0));
}

#[test]
fn pool_options_lists_what_each_engine_has_and_create_takes_it() {
    let listed = run(&["pool", "options", "--json", "-"]);
    assert_eq!(listed.code, Some(0), "{}", listed.err);
    let listed: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
    let found: Vec<_> = listed["options"]
        .as_array()
        .unwrap()
        .iter()
        .map(|option| {
            let text = |key: &str| option[key].as_str().unwrap().to_owned();
            let number = |key: &str| option[key].as_u64();
            let fixed = option["fixed_at_creation"].as_bool().unwrap();
            let (name, meaning) = (text("name"), text("meaning"));
            let limits = (number("default"), number("least"), number("most"));
            (text("engine"), name, meaning, text("unit"), limits, fixed)
        })
        .collect();
    let known: Vec<_> = perdura::EngineKind::ALL
        .into_iter()
        .flat_map(|kind| {
            kind.options().iter().map(move |option| {
                let most = Some(option.most).filter(|most| *most != u64::MAX);
                let limits = (Some(option.default), Some(option.least), most);
                let (name, meaning) = (option.name.to_owned(), option.meaning.to_owned());
                let unit = option.unit.to_owned();
                (kind.name().to_owned(), name, meaning, unit, limits, option.fixed)
            })
        })
        .collect();
    assert_eq!(found, known);
    let shown = run(&["pool", "options", "--engine", "cow"]).out;
    assert!(shown.starts_with("cow\n  page_bytes"), "{shown}");
    assert!(!shown.contains("memtable_bytes"), "{shown}");

    let directory = tempfile::tempdir().unwrap();
    let (schema, pool) = (directory.path().join("schema.json"), directory.path().join("pool"));
    let table =
        r#"{"tables": [{"name": "t", "columns": [{"name": "id", "kind": "u64"}], "key": ["id"]}]}"#;
    std::fs::write(&schema, table).unwrap();
    let (schema, pool) = (schema.to_str().unwrap(), pool.to_str().unwrap());
    let create = |option: &str| {
        let what =
            ["pool", "create", pool, "--schema", schema, "--engine", "nvm-inp", "--limit", "64MiB"];
        run(&[&what[..], &["--option", option]].concat())
    };
    let refused = create("page_bytes=8KiB");
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    let expected =
        "nvm-inp has no option `page_bytes`, only cow, nv-disk, nv-logging-foi, nv-logging-foc";
    assert!(refused.err.contains(expected), "{}", refused.err);
    for wrong in ["page_bits=1", "page_bytes", "page_bytes=many"] {
        assert_eq!(create(wrong).code, Some(2), "{wrong}");
    }
    assert_eq!(create("node_bytes=1KiB").code, Some(0));
    let info = run(&["pool", "info", pool, "--json", "-"]).out;
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["node_bytes"], 1024);
}
