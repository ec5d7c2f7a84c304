//! `perdura lab`, `crash` and `demo` start `perdura-lab`, which takes their place.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Ran, copy_program, run, write_script};

/// A copy of `perdura` in a directory of its own, and an empty directory on PATH.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("a directory"));
        fs::create_dir(place.at("bin")).expect("made");
        fs::create_dir(place.at("path")).expect("made");
        copy_program(&place.at("bin/perdura"));
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a program `perdura-lab` of the shell into one of the directories.
    fn laboratory(&self, directory: &str, script: &str) {
        let path = self.at(directory).join("perdura-lab");
        write_script(&path, &format!("#!/bin/sh\n{script}\n"));
    }

    fn perdura(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.at("bin/perdura"));
        command.args(arguments).env("PATH", path_with(&self.at("path")));
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.perdura(arguments).output().expect("it starts").into()
    }
}

/// A PATH that begins with a directory; the shell's own programs are still found.
fn path_with(directory: &Path) -> String {
    format!("{}:/usr/bin:/bin", directory.display())
}

#[test]
fn missing_program_is_named_with_its_build() {
    let place = Place::new();
    for command in [&["lab", "list"][..], &["crash"], &["demo"]] {
        let ran = place.run(command);
        // Not 1: `perdura crash` ends with that where it has found something.
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{command:?}: {ran:?}");
        for word in ["perdura-lab", "bin/perdura-lab", "`cargo build --release --workspace`"] {
            assert!(ran.err.contains(word), "{command:?}: {ran:?}");
        }
    }
}

#[test]
fn program_beside_comes_before_that_on_path() {
    let place = Place::new();
    place.laboratory("path", "echo path");
    assert_eq!(place.run(&["lab", "list"]).out, "path\n");
    place.laboratory("bin", "echo beside");
    assert_eq!(place.run(&["lab", "list"]).out, "beside\n");
    // One that is there and cannot be run is not passed over in silence.
    fs::write(place.at("bin/perdura-lab"), "").expect("written");
    fs::set_permissions(place.at("bin/perdura-lab"), fs::Permissions::from_mode(0o644))
        .expect("set");
    let ran = place.run(&["lab", "list"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("bin/perdura-lab: Permission denied"), "{ran:?}");
}

#[test]
fn arguments_input_and_exit_code_pass_through() {
    let place = Place::new();
    place.laboratory("bin", "for word in \"$@\"; do echo \"<$word>\"; done; cat; exit 7");
    let mut child = place
        .perdura(&["lab", "report", "--out", "a b", "--csv=c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("a pipe").write_all(b"input\n").expect("written");
    let ran = Ran::from(child.wait_with_output().expect("it ends"));
    assert_eq!(ran.code, Some(7));
    assert_eq!(ran.out, "<lab>\n<report>\n<--out>\n<a b>\n<--csv=c>\ninput\n");
}

#[test]
fn program_is_the_process_that_was_started() {
    let place = Place::new();
    place.laboratory("bin", "echo $$; kill -TERM $$");
    let child = place.perdura(&["crash"]).stdout(Stdio::piped()).spawn().expect("it starts");
    let id = child.id();
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.signal(), Some(15));
    assert_eq!(String::from_utf8(output.stdout).expect("text"), format!("{id}\n"));
}

#[test]
fn help_and_wrong_usage_need_no_program() {
    let place = Place::new();
    let help = place.run(&["crash", "--help"]);
    assert!(help.code == Some(0) && help.out.contains("--list-faults"), "{help:?}");
    for wrong in [&["crash", "--states", "many"][..], &["lab", "runs"], &["demo", "--users", "0"]] {
        let ran = place.run(wrong);
        assert_eq!(ran.code, Some(2), "{wrong:?}: {ran:?}");
        assert!(!ran.err.contains("perdura-lab"), "{wrong:?}: {ran:?}");
    }
    let completions = run(&["completions", "bash"]).out;
    for option in ["--list-faults", "--fail-over", "--beside"] {
        assert!(completions.contains(option), "{option}");
    }
}
