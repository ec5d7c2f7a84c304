//! `perdura pool backup`, `restore`, `dump` and `load`: what goes out comes back, and what fails
//! says why, with its exit code, and leaves nothing.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use perdura::{ColumnType, Database, EngineKind, Options, Schema, TableSchema, Value};

use crate::common::{Ran, perdura, run};

fn schema() -> Schema {
    Schema::new()
        .table(
            TableSchema::new("account")
                .column("id", ColumnType::U64)
                .column("owner", ColumnType::Text { max: 80 })
                .column("photo", ColumnType::Bytes { max: 400 })
                .column("score", ColumnType::F64)
                .key(&["id"])
                .index("by_owner", &["owner"]),
        )
        .table(TableSchema::new("empty").column("k", ColumnType::I16).key(&["k"]))
}

/// A directory with a database `db` in it.
struct Place(tempfile::TempDir);

impl Place {
    fn new(engine: EngineKind, partitions: u32, tuples: u64) -> Self {
        let memory = tempfile::tempdir_in("/dev/shm");
        let place = Self(memory.or_else(|_| tempfile::tempdir()).expect("a directory"));
        let options = Options::new().engine(engine).partitions(partitions).pool_limit(1 << 30);
        let db = Database::create(place.at("db"), &schema(), &options).expect("created");
        let account = db.table("account").expect("a table");
        for partition in 0..partitions as usize {
            let insert = |tx: &mut perdura::Tx<'_>, id: u64| {
                let owner = format!("owner {}", id % 7);
                let photo = vec![id as u8; id as usize % 400];
                let score = [0.5, f64::NAN, f64::NEG_INFINITY, -0.0][id as usize % 4];
                let own = [Value::U64(u64::MAX - id), Value::Text(&owner)];
                tx.insert(&account, &[own[0], own[1], Value::Bytes(&photo), Value::F64(score)])
            };
            let all =
                db.partition(partition).write(|tx| (0..tuples).try_for_each(|id| insert(tx, id)));
            all.expect("inserted");
        }
        db.close().expect("closed");
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn path(&self, name: &str) -> String {
        self.at(name).to_str().expect("text").into()
    }

    fn names(&self) -> Vec<String> {
        let list = fs::read_dir(self.0.path()).expect("a directory");
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.expect("an entry").file_name().into_string().expect("text")
        };
        let mut names: Vec<_> = list.map(name).collect();
        names.sort();
        names
    }

    /// `perdura pool <command>`, with the names of files in this directory.
    fn pool(&self, arguments: &[&str]) -> Ran {
        let own = |argument: &&str| match argument.strip_prefix('@') {
            Some(name) => self.path(name),
            None => (*argument).to_owned(),
        };
        let arguments: Vec<String> = arguments.iter().map(own).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run(&[&["pool"], &arguments[..]].concat())
    }

    fn done(&self, arguments: &[&str]) -> String {
        let ran = self.pool(arguments);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{arguments:?}: {}", ran.out);
        ran.out
    }

    /// Waits until one of these files has something in it: then it is locked, and marked as one that
    /// is not finished.
    fn wait_for(&self, names: &[&str]) {
        while names.iter().all(|name| fs::metadata(self.at(name)).map_or(0, |meta| meta.len()) == 0)
        {
            std::thread::yield_now();
        }
    }

    /// Fails with exit code 1, says these things, and changes nothing.
    fn fails(&self, arguments: &[&str], said: &[&str]) {
        let names = self.names();
        let ran = self.pool(arguments);
        assert_eq!(ran.code, Some(1), "{arguments:?}: {ran:?}");
        for said in said {
            assert!(ran.err.contains(said), "{arguments:?}: no `{said}` in: {}", ran.err);
        }
        assert_eq!(ran.out, "", "{arguments:?}");
        assert_eq!(self.names(), names, "{arguments:?}");
    }
}

/// A dump without its first line, which names the engine.
fn tuples(dump: &str) -> &str {
    dump.split_once('\n').expect("several lines").1
}

#[test]
fn a_backup_is_restored_into_every_engine() {
    let place = Place::new(EngineKind::Inp, 2, 300);
    let said = place.done(&["backup", "@db", "@backup"]);
    assert!(said.contains("backup of") && said.contains("600 tuples in 2 tables"), "{said}");
    let dump = place.done(&["dump", "@db"]);
    for engine in EngineKind::ALL.map(EngineKind::name) {
        let to = format!("@copy-{engine}");
        let said = place.done(&["restore", "@backup", &to, "--engine", engine, "--limit", "1GiB"]);
        assert!(said.contains(&format!("engine {engine}")), "{said}");
        let copy = place.done(&["dump", &to]);
        assert!(copy.starts_with("{\"perdura_dump\":1,"), "{copy}");
        assert!(copy.lines().next().is_some_and(|head| head.contains(engine)));
        assert!(tuples(&copy) == tuples(&dump), "{engine}");
        assert!(place.done(&["check", &to]).contains("no damage found"));
    }
    // Without an engine it is the backup's; partitions can be put together.
    place.done(&["restore", "@backup", "@same"]);
    assert!(place.done(&["info", "@same"]).contains("engine      inp"));
    place.fails(&["restore", "@backup", "@three", "--partitions", "3"], &["backup", "divides"]);
    // Both partitions have the same tuples, as if the table were replicated.
    let said = place.done(&["restore", "@backup", "@one", "--partitions", "1"]);
    assert!(said.contains("300 tuples were there already"), "{said}");
}

#[test]
fn json_says_what_was_done() {
    let place = Place::new(EngineKind::NvmInp, 1, 20);
    for arguments in [
        &["backup", "@db", "@backup", "--json", "-"][..],
        &["restore", "@backup", "@copy", "--json", "-"],
    ] {
        let json = place.done(arguments);
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!((&json["tuples"], &json["skipped"]), (&20.into(), &0.into()));
        assert_eq!(json["tables"][0]["name"], "account");
        assert_eq!(json["tables"][0]["tuples"], 20);
        assert!(json["bytes"].as_u64().is_some_and(|bytes| bytes > 1000));
        assert!(json["from"].is_string() && json["to"].is_string());
    }
    place.fails(&["backup", "@db", "@other", "--json", "/nowhere/report"], &["/nowhere/report"]);
}

#[test]
fn a_dump_goes_through_a_pipe_and_comes_back() {
    let place = Place::new(EngineKind::NvmCow, 3, 100);
    for engine in EngineKind::ALL.map(EngineKind::name) {
        let to = place.path(&format!("copy-{engine}"));
        let mut dump = perdura()
            .args(["pool", "dump", &place.path("db")])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let out = dump.stdout.take().expect("a pipe");
        let load = perdura()
            .args(["pool", "load", &to, "-", "--engine", engine, "--limit", "1GiB"])
            .stdin(out)
            .output()
            .expect("the command runs");
        let ran = Ran::from(load);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
        assert!(ran.out.contains("created and loaded from standard input, 300 tuples"));
        assert!(dump.wait().expect("it ends").success());
        let copy = place.done(&["dump", &format!("@copy-{engine}")]);
        assert!(tuples(&copy) == tuples(&place.done(&["dump", "@db", "-o", "-"])));
    }
    // To a file, one table, and from a file into a database that is there.
    place.done(&["dump", "@db", "--table", "account", "--table", "empty", "-o", "@lines"]);
    let names = place.names();
    assert!(!names.iter().any(|name| name.contains(".perdura-")), "{names:?}");
    place.fails(&["dump", "@db", "--out", "@lines"], &["lines", "exists already"]);
    place.fails(
        &["dump", "@db", "--table", "missing"],
        &["no table `missing`", "`account`, `empty`"],
    );
    let said = place.done(&["load", "@copy-inp", "@lines", "--existing", "skip"]);
    assert!(said.contains("0 tuples") && said.contains("300 tuples were there already"), "{said}");
    let said = place.done(&["load", "@copy-inp", "@lines", "--existing", "replace", "--json", "-"]);
    let json: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(json["tuples"], 300);
    place.fails(&["load", "@copy-inp", "@lines"], &["line 2: ", "already", "nothing was loaded"]);
}

#[test]
fn lines_of_other_programs_are_loaded_with_a_schema() {
    let place = Place::new(EngineKind::NvmInp, 1, 0);
    let json = serde_json::to_string(&schema()).expect("JSON");
    fs::write(place.at("schema"), json).expect("written");
    let line = |k: i64| format!("{{\"table\": \"empty\", \"tuple\": {{\"k\": {k}}}}}\n");
    let good: String = (0..10).map(line).collect();
    fs::write(place.at("good"), &good).expect("written");
    fs::write(place.at("bad"), good.clone() + &line(40_000) + &line(11)).expect("written");
    place.fails(&["load", "@new", "@good"], &["good", "no description", "schema"]);
    let said = ["bad: line 11: ", "column `k` holds i16", "nothing was loaded"];
    place.fails(&["load", "@new", "@bad", "--schema", "@schema"], &said);
    place.done(&["load", "@new", "@good", "--schema", "@schema", "--engine", "log"]);
    // In batches of four into a database that is there: two of them are whole before line 11.
    let before = place.names();
    let ran = place.pool(&["load", "@db", "@bad", "--batch", "4"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.err.contains("the tuples before line 9 are loaded"), "{}", ran.err);
    assert_eq!(place.done(&["dump", "@db"]).lines().count(), 2 + 8);
    assert_eq!(place.names(), before);
    for option in
        [["--engine", "inp"], ["--schema", "x"], ["--limit", "1GiB"], ["--partitions", "1"]]
    {
        let ran = place.pool(&[&["load", "@db", "@good"][..], &option].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains("is for a new database"), "{}", ran.err);
    }
}

#[test]
fn what_cannot_be_copied_is_named_and_nothing_is_made() {
    let place = Place::new(EngineKind::NvmInp, 1, 50);
    place.done(&["backup", "@db", "@backup"]);
    place.fails(&["backup", "@db", "@backup"], &["backup", "exists already"]);
    place.fails(&["backup", "@missing", "@other"], &["missing"]);
    place.fails(&["backup", "@db", "@no/where"], &["no/where"]);
    place.fails(&["backup", "@backup", "@other"], &["is not a Perdura pool"]);
    place.fails(&["restore", "@missing", "@copy"], &["missing"]);
    place.fails(&["restore", "@db", "@copy"], &["db", "is no backup"]);
    place.fails(&["restore", "@backup", "@db"], &["db", "exists already"]);
    place.fails(&["restore", "@backup", "@copy", "--limit", "100KiB"], &["copy"]);
    place.fails(&["load", "@copy", "@missing"], &["missing"]);
    place.fails(&["load", "@copy", "@backup"], &["backup", "this is a backup"]);
    let directory = place.0.path().to_str().expect("text").to_owned();
    place.fails(&["restore", &directory, "@copy"], &[&directory, "not a regular file"]);
    place.fails(&["load", "@copy", &directory], &[&directory]);
    let sound = fs::read(place.at("backup")).expect("readable");
    for (bytes, said) in [
        (sound[..sound.len() / 2].to_vec(), "the file was cut off"),
        ([&sound[..1000], &[sound[1000] ^ 1], &sound[1001..]].concat(), "checksum is wrong"),
    ] {
        fs::write(place.at("backup"), bytes).expect("written");
        place.fails(&["restore", "@backup", "@copy"], &["backup: damaged at byte ", said]);
    }
}

#[test]
fn the_backup_of_an_application_is_restored_by_the_command() {
    let place = Place::new(EngineKind::NvmInp, 1, 5);
    let open = Database::open(place.at("db"), &Options::new()).expect("a database");
    open.backup(place.at("backup")).expect("a backup");
    place.done(&["restore", "@backup", "@copy"]);
}

#[test]
fn a_reader_of_a_dump_that_goes_away_is_no_error() {
    let place = Place::new(EngineKind::NvmInp, 1, 5000);
    let mut child = perdura()
        .args(["pool", "dump", &place.path("db")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut head = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    out.read_line(&mut head).expect("a line");
    assert!(head.contains("perdura_dump"));
    drop(out);
    let ran = Ran::from(child.wait_with_output().expect("ends"));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(place.done(&["check", "@db"]).contains("5,000"));
    // Where there is no room for it, it is one.
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let ran = perdura().args(["pool", "dump", &place.path("db")]).stdout(full).output();
    let ran = Ran::from(ran.expect("the command runs"));
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("standard output: "), "{}", ran.err);
}

/// No file may get longer than 64 KiB, as if the disk were full.
#[test]
fn a_full_disk_leaves_no_backup() {
    let place = Place::new(EngineKind::NvmInp, 1, 1000);
    let names = place.names();
    for (command, option) in [("backup", ""), ("dump", "-o")] {
        let (binary, db, to) = (env!("CARGO_BIN_EXE_perdura"), place.path("db"), place.path("to"));
        let limited =
            format!("ulimit -f 128; trap '' XFSZ; exec {binary} pool {command} {db} {option} {to}");
        let ran = Command::new("sh").args(["-c", &limited]).output().expect("a shell");
        let ran = Ran::from(ran);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.err.contains(&to) && ran.err.contains("RLIMIT_FSIZE"), "{}", ran.err);
        assert_eq!(place.names(), names);
    }
    assert!(place.done(&["check", "@db"]).contains("1,000"));
}

/// Killed in the middle of the lines: no database has the name, and the next attempt removes what is
/// left.
#[test]
fn a_kill_leaves_no_half_database_at_its_name() {
    let place = Place::new(EngineKind::NvmInp, 1, 100);
    for engine in ["nvm-inp", "inp"] {
        let dump = place.done(&["dump", "@db"]);
        let mut child = perdura()
            .args(["pool", "load", &place.path("new"), "-", "--engine", engine])
            .stdin(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(&dump.as_bytes()[..dump.len() / 2]).expect("written");
        input.flush().expect("written");
        place.wait_for(&["new.perdura-new"]);
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert!(!place.at("new").exists());
        fs::write(place.at("lines"), &dump).expect("written");
        assert!(place.at("new.perdura-new").exists());
        place.done(&["load", "@new", "@lines", "--engine", engine]);
        assert!(!place.at("new.perdura-new").exists());
        remove(&place, "new");
        fs::remove_file(place.at("lines")).expect("removed");
    }
}

/// Killed while it takes over what can be read: likewise.
#[test]
fn a_kill_leaves_no_half_repaired_database_at_its_name() {
    let place = Place::new(EngineKind::NvmInp, 1, 20_000);
    let repair = ["pool", "check", &place.path("db"), "--repair-into", &place.path("new")];
    for attempt in 0.. {
        let mut child =
            perdura().args(repair).stdout(Stdio::null()).spawn().expect("the command starts");
        place.wait_for(&["new.perdura-new", "new"]);
        child.kill().expect("killed");
        if !child.wait().expect("ended").success() {
            break;
        }
        assert!(attempt < 20, "it is always done before it can be killed");
        remove(&place, "new");
    }
    assert!(!place.at("new").exists());
    assert!(place.at("new.perdura-new").exists());
    let said = place.done(&["check", "@db", "--repair-into", "@new"]);
    assert!(!place.at("new.perdura-new").exists());
    assert!(said.contains("20,000 tuples") && said.contains("nothing is missing"), "{said}");
}

fn remove(place: &Place, name: &str) {
    fs::remove_file(place.at(name)).expect("removed");
    let files = place.path(name) + ".files";
    if Path::new(&files).exists() {
        fs::remove_dir_all(files).expect("removed");
    }
}

#[test]
fn a_base_backup_with_its_archive_is_restored_to_a_moment() {
    let place = Place::new(EngineKind::NvDisk, 1, 20);
    fs::create_dir(place.at("archive")).expect("a directory");
    let based = place.pool(&["backup", "@db", "@base", "--archive", "@archive"]);
    assert_eq!((based.code, &*based.err), (Some(0), ""), "{based:?}");
    assert!(based.out.contains("base backup of"), "{based:?}");
    // A process that archives its log dies after a mistake.
    let options = Options::new().archive(place.at("archive"));
    let db = Database::open(place.at("db"), &options).expect("opened");
    let account = db.table("account").expect("a table");
    let mut good = db.begin().expect("begun");
    good.delete(&account, &[Value::U64(u64::MAX)]).expect("deleted");
    let good = good.commit().expect("committed").number();
    for id in 1..20 {
        db.write(|tx| tx.delete(&account, &[Value::U64(u64::MAX - id)])).expect("deleted");
    }
    db.abandon();
    let archived = place.pool(&["archive", "@db", "@archive"]);
    assert_eq!(archived.code, Some(0), "{archived:?}");
    let restored = |to: &str, until: &str| {
        let to = format!("@{to}");
        place.pool(&["restore", "@base", &to, "--archive", "@archive", "--until", until])
    };
    let (then, end) = (restored("then", &good.to_string()), restored("end", "end"));
    assert!(then.code == Some(0) && then.out.contains("19 tuples"), "{then:?}");
    assert!(end.code == Some(0) && end.out.contains(" 0 tuples"), "{end:?}");
    let early = restored("early", "1999-12-31T23:59:59Z");
    assert!(early.code == Some(1) && early.err.contains("take an older backup"), "{early:?}");
    let wrong = restored("wrong", "yesterday");
    assert!(wrong.code == Some(2) && wrong.err.contains("neither `end`"), "{wrong:?}");
    let alone = place.pool(&["restore", "@base", "@alone"]);
    assert!(alone.code == Some(1) && alone.err.contains("--archive DIR"), "{alone:?}");
    assert!(["early", "wrong", "alone"].iter().all(|name| !place.at(name).exists()));
    // Another directory is refused until the archive is ended.
    fs::create_dir(place.at("other")).expect("a directory");
    let other = place.pool(&["archive", "@db", "@other"]);
    assert!(other.code == Some(1) && other.err.contains("has no segment"), "{other:?}");
    let ended = place.pool(&["archive", "@db", "--end"]);
    assert!(ended.code == Some(0) && ended.out.contains("has no archive"), "{ended:?}");
    let other = place.pool(&["archive", "@db", "@other"]);
    assert_eq!(other.code, Some(0), "{other:?}");
}
