//! Databases that older builds have made: they are refused, untouched, with the way to carry them
//! over, and what an old build has dumped or backed up is taken.
//!
//! The fixtures are one database of pool version 3: in `nvm-inp`, in `inp` with its log, as a dump
//! and as a backup.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use perdura::{Database, Options};

use crate::common::run;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn unpack(name: &str, to: &Path) {
    let packed = fs::File::open(fixture(name)).expect("a fixture");
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).expect("whole");
    fs::write(to, bytes).expect("written");
}

/// A database of version 3.
fn old(directory: &Path, engine: &str) -> PathBuf {
    let pool = directory.join(engine);
    unpack(&format!("v3-{engine}.pool.gz"), &pool);
    if engine == "inp" {
        let files = directory.join("inp.files");
        fs::create_dir(&files).expect("made");
        unpack("v3-inp.wal.gz", &files.join("wal-0-0000000000000000"));
    }
    pool
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn version_3_is_refused_everywhere_and_left_as_it_is() {
    for engine in ["nvm-inp", "inp"] {
        let directory = tempfile::tempdir().expect("a directory");
        let pool = old(directory.path(), engine);
        let before = fs::read(&pool).expect("read");
        let other = directory.path().join("other");
        let (pool_text, other) = (text(&pool), text(&other));
        for arguments in [
            &["info", pool_text][..],
            &["check", pool_text],
            &["check", pool_text, "--repair-into", other],
            &["dump", pool_text],
            &["backup", pool_text, other],
            &["load", pool_text, text(&fixture("v3.jsonl"))],
        ] {
            let ran = run(&[&["pool"], arguments].concat());
            assert!(ran.code.is_some_and(|code| code != 0), "{arguments:?}: {ran:?}");
            for said in [
                pool_text,
                "format version 3",
                "this build reads version 4",
                "`perdura pool dump` with the build that wrote it",
                "`perdura pool load` with this one",
            ] {
                assert!(ran.err.contains(said), "{arguments:?}, no `{said}`: {ran:?}");
            }
            assert!(ran.out.is_empty(), "{arguments:?}: {ran:?}");
            assert!(!Path::new(other).exists(), "{arguments:?}");
        }
        let error = Database::open(&pool, &Options::new()).expect_err("refused").to_string();
        assert!(error.contains("format version 3"), "{error}");
        assert_eq!(fs::read(&pool).expect("read"), before, "{engine}");
    }
}

#[test]
fn what_a_build_of_version_3_has_dumped_or_backed_up_is_taken() {
    let directory = tempfile::tempdir().expect("a directory");
    let lines = fs::read_to_string(fixture("v3.jsonl")).expect("text");
    for (command, name) in [("load", "v3.jsonl"), ("restore", "v3.backup")] {
        let (pool, name) = (directory.path().join(name), fixture(name));
        let (pool, name) = (text(&pool), text(&name));
        let from_to = if command == "load" { [pool, name] } else { [name, pool] };
        let ran = run(&["pool", command, from_to[0], from_to[1], "--engine", "nvm-inp"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let check = run(&["pool", "check", pool]);
        assert_eq!(check.code, Some(0), "{check:?}");
        let dump = run(&["pool", "dump", pool]);
        assert_eq!(dump.out, lines, "{command}");
    }
}
