//! The directory with an engine's files: gone, something else, or another user's. Every command says
//! what is missing and where it was looked for; no file's owner or mode changes.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Ran, copy_program, run};

const LINES: &str = r#"{"table": "t", "tuple": {"k": 1, "v": "one"}}
{"table": "t", "tuple": {"k": 2, "v": "two"}}
"#;
const SCHEMA: &str = r#"{"tables": [{"name": "t", "columns": [
    {"name": "k", "kind": "u64"}, {"name": "v", "kind": {"text": {"max": 100}}}],
    "key": ["k"]}]}"#;
const ENGINES: [&str; 3] = ["inp", "cow", "log"];

struct Place(tempfile::TempDir);

impl Place {
    fn new(engine: &str) -> Self {
        let place = Self(tempfile::tempdir().expect("a directory"));
        fs::write(place.at("schema"), SCHEMA).expect("written");
        fs::write(place.at("lines"), LINES).expect("written");
        let (db, lines, schema) = (place.text("db"), place.text("lines"), place.text("schema"));
        let made = run(&["pool", "load", &db, &lines, "--schema", &schema, "--engine", engine]);
        assert_eq!(made.code, Some(0), "{made:?}");
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.at(name).display().to_string()
    }

    /// Every command that opens the database, but `info`.
    fn commands(&self) -> Vec<Vec<String>> {
        let of = |more: &[&str]| {
            let mut command = vec!["pool".to_owned(), more[0].to_owned(), self.text("db")];
            command.extend(more[1..].iter().map(|&word| word.to_owned()));
            command
        };
        vec![
            of(&["check"]),
            of(&["check", "--repair-into", &self.text("saved")]),
            of(&["dump", "--out", &self.text("dumped")]),
            of(&["backup", &self.text("backup")]),
            of(&["load", &self.text("lines")]),
        ]
    }

    /// All of them fail, and say this.
    fn all_say(&self, said: &[&str]) {
        let before = fs::read(self.at("db")).expect("a pool");
        for command in self.commands() {
            let ran = run(&command.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(ran.code, Some(1), "{command:?}: {ran:?}");
            for said in said {
                assert!(ran.err.contains(said), "no `{said}` from {command:?}: {ran:?}");
            }
        }
        for name in ["saved", "dumped", "backup"] {
            for left in [name.to_owned(), format!("{name}.perdura-new")] {
                assert!(!self.at(&left).exists(), "{left}");
            }
        }
        assert!(fs::read(self.at("db")).expect("a pool") == before, "the pool is as it was");
        let info = run(&["pool", "info", &self.text("db")]);
        assert_eq!(info.code, Some(0), "{info:?}");
        assert!(info.out.contains("MISSING") && info.out.contains("without the files"), "{info:?}");
        for said in said {
            assert!(info.out.contains(said), "no `{said}`: {info:?}");
        }
    }
}

/// The directory of another database with the same tables: every command but one refuses it, and the
/// one that saves what there is says whose it is.
#[test]
fn files_of_another_database_are_refused_and_saved_as_such() {
    for engine in ENGINES {
        let (place, other) = (Place::new(engine), Place::new(engine));
        fs::rename(place.at("db.files"), place.at("own")).expect("renamed");
        fs::rename(other.at("db.files"), place.at("db.files")).expect("renamed");
        let before = fs::read(place.at("db")).expect("a pool");
        let said = "do not belong to this pool: they are those of another database";
        for command in place.commands() {
            let ran = run(&command.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(ran.code, Some(1), "{command:?}: {ran:?}");
            let saves = command.iter().any(|word| word == "--repair-into");
            let text = if saves { &ran.out } else { &ran.err };
            assert!(text.contains(said), "{command:?}: {ran:?}");
            assert!(!saves || text.contains("what is taken over is theirs"), "{ran:?}");
        }
        assert!(fs::read(place.at("db")).expect("a pool") == before, "the pool is as it was");
        let info = run(&["pool", "info", &place.text("db")]);
        assert_eq!(info.code, Some(0), "{info:?}");
        assert!(info.out.contains(said) && info.out.contains("without the files"), "{info:?}");
        fs::remove_dir_all(place.at("db.files")).expect("removed");
        fs::rename(place.at("own"), place.at("db.files")).expect("renamed");
        let good = run(&["pool", "check", &place.text("db")]);
        assert_eq!(good.code, Some(0), "{good:?}");
    }
}

#[test]
fn files_that_remain_are_named_with_their_place() {
    for engine in ENGINES {
        let place = Place::new(engine);
        let info = run(&["pool", "info", &place.text("db")]);
        assert!(info.out.contains("files included") && !info.out.contains("MISSING"), "{info:?}");
        fs::rename(place.at("db.files"), place.at("left")).expect("renamed");
        let looked_for = place.text("db.files");
        place.all_say(&[&looked_for, "its files are missing", engine]);
        fs::rename(place.at("left"), place.at("db.files")).expect("renamed");
        let good = run(&["pool", "check", &place.text("db")]);
        assert_eq!(good.code, Some(0), "{good:?}");
    }
    let place = Place::new("nvm-inp");
    let info = run(&["pool", "info", &place.text("db")]);
    assert!(info.out.contains("none needed"), "{info:?}");
    // Other files in the directory are of no concern.
    fs::write(place.at("db.files"), "something").expect("written");
    for command in place.commands().iter().filter(|command| command[1] != "load") {
        let ran = run(&command.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(ran.code, Some(0), "{command:?}: {ran:?}");
    }
}

#[test]
fn something_else_where_the_files_should_be_is_named() {
    for engine in ENGINES {
        let place = Place::new(engine);
        fs::rename(place.at("db.files"), place.at("left")).expect("renamed");
        fs::write(place.at("db.files"), "something").expect("written");
        place.all_say(&[&place.text("db.files"), "is a regular file, not a directory"]);
        fs::remove_file(place.at("db.files")).expect("removed");
        std::os::unix::fs::symlink("nowhere", place.at("db.files")).expect("a link");
        place.all_say(&[&place.text("db.files"), "missing"]);
    }
}

/// Enough that `log` makes new files.
fn write_more(place: &Place) {
    let mut lines = String::new();
    for key in 100..100_000 {
        lines += &format!("{{\"table\":\"t\",\"tuple\":{{\"k\":{key},\"v\":\"{key:0100}\"}}}}\n");
    }
    fs::write(place.at("more"), lines).expect("written");
    let ran = run(&["pool", "load", &place.text("db"), &place.text("more")]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

/// Root writes to another user's database. Only root can play both; for others there is `perdura/tests/all/paths.rs`.
#[test]
fn a_database_that_root_has_written_to_is_still_its_users() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let user = 65_534;
    for engine in ENGINES {
        let place = Place::new(engine);
        // Where that user can run it.
        let binary = place.at("perdura");
        copy_program(&binary);
        let own = |path: &Path| chown(path, Some(user), Some(user)).expect("given");
        own(place.0.path());
        own(&place.at("db"));
        own(&place.at("db.files"));
        let each = |work: &mut dyn FnMut(&Path)| {
            for entry in fs::read_dir(place.at("db.files")).expect("read") {
                work(&entry.expect("an entry").path());
            }
        };
        each(&mut |path| own(path));
        let as_user = |arguments: &[&str]| {
            let mut command = Command::new(&binary);
            Ran::from(command.args(arguments).uid(user).gid(user).output().expect("it runs"))
        };
        assert_eq!(as_user(&["pool", "check", &place.text("db")]).code, Some(0));
        write_more(&place);
        each(&mut |path| {
            let meta = fs::metadata(path).expect("looked at");
            assert_eq!((meta.uid(), meta.gid()), (user, user), "{engine}: {}", path.display());
            assert_eq!(meta.mode() & 0o777, 0o600);
        });
        let checked = as_user(&["pool", "check", &place.text("db")]);
        assert_eq!(checked.code, Some(0), "{engine}: {checked:?}");

        // Where it went wrong all the same, the cause is named.
        let mut changed = Vec::new();
        each(&mut |path| {
            chown(path, Some(0), Some(0)).expect("taken");
            changed.push(path.to_owned());
        });
        let checked = as_user(&["pool", "check", &place.text("db")]);
        assert_eq!(checked.code, Some(1), "{checked:?}");
        let said = format!("{}{}", checked.out, checked.err);
        assert!(said.contains("belongs to user 0"), "{engine}: {said}");
        assert!(changed.iter().any(|path| said.contains(&path.display().to_string())), "{said}");
        chown(place.at("db.files"), Some(0), Some(0)).expect("taken");
        let said = as_user(&["pool", "dump", &place.text("db")]).err;
        assert!(said.contains("db.files") && said.contains("belongs to user 0"), "{said}");
        chown(place.at("db"), Some(0), Some(0)).expect("taken");
        let said = as_user(&["pool", "info", &place.text("db")]).err;
        assert!(said.contains("belongs to user 0"), "{said}");
    }
}
