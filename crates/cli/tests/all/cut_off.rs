//! Commands that are cut off while they make something: a signal leaves nothing, SIGKILL leaves what
//! the next attempt removes, and what is not ours, or is in use, stays.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use perdura::{Backup, ColumnType, Database, EngineKind, Options, Schema, TableSchema, Value};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Ran, interruptible, perdura, run};

/// So many that copying them takes a while.
const TUPLES: u64 = 60_000;
/// The number of times that a command may be done before it could be cut off.
const TRIES: usize = 400;

struct Place(tempfile::TempDir);

impl Place {
    /// With a database `db` of this engine, a backup `backup` and a dump `dump` of it.
    fn new(engine: EngineKind) -> Self {
        // In memory, where a fence costs nothing.
        let memory = tempfile::tempdir_in("/dev/shm");
        let place = Self(memory.or_else(|_| tempfile::tempdir()).expect("a directory"));
        let table = TableSchema::new("t")
            .column("k", ColumnType::U64)
            .column("v", ColumnType::Text { max: 60 })
            .key(&["k"]);
        let options = Options::new().engine(engine).pool_limit(1 << 28);
        let db = Database::create(place.at("db"), &Schema::new().table(table), &options);
        let db = db.expect("created");
        let table = db.table("t").expect("a table");
        let text = "x".repeat(60);
        for from in (0..TUPLES).step_by(1000) {
            let insert = |tx: &mut perdura::Tx<'_>, k| {
                tx.insert(&table, &[Value::U64(k), Value::Text(&text)])
            };
            let all = db.write(|tx| (from..from + 1000).try_for_each(|k| insert(tx, k)));
            all.expect("inserted");
        }
        db.backup(place.at("backup")).expect("written");
        db.dump(place.at("dump"), &[], &mut |_| ()).expect("written");
        db.close().expect("closed");
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn arguments(&self, arguments: &[&str]) -> Vec<String> {
        let text = |path: &Path| path.to_str().expect("text").to_owned();
        let own = |argument: &&str| match argument.strip_prefix('@') {
            Some(name) => text(&self.at(name)),
            None => (*argument).to_owned(),
        };
        ["pool"].iter().chain(arguments).map(own).collect()
    }

    fn pool(&self, arguments: &[&str]) -> Ran {
        let arguments = self.arguments(arguments);
        run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn names(&self) -> Vec<String> {
        let list = fs::read_dir(self.0.path()).expect("a directory");
        let mut names: Vec<_> = list
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
            .collect();
        names.sort();
        names
    }

    /// The first and the second half of the dump.
    fn dump(&self) -> (Vec<u8>, Vec<u8>) {
        let mut lines = fs::read(self.at("dump")).expect("there");
        let second = lines.split_off(lines.len() / 2);
        (lines, second)
    }

    /// Starts a command and waits until it has begun `temporary`; `None` if it was done before that was
    /// seen, and what it made is gone. It has a dump on its standard input, which does not end.
    fn started(&self, arguments: &[&str], temporary: &str) -> Option<Child> {
        // The waiting test has priority: on a busy machine the command would otherwise be done
        // before it is seen.
        self.started_by(interruptible(&["nice", "-n", "19"]), arguments, temporary)
    }

    /// The same with a program that runs `perdura` with these arguments.
    fn started_by(
        &self,
        mut program: Command,
        arguments: &[&str],
        temporary: &str,
    ) -> Option<Child> {
        let mut child = program
            .args(self.arguments(arguments))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        if arguments.contains(&"-") {
            let input = child.stdin.as_mut().expect("a pipe");
            let written = input.write_all(&self.dump().0);
            written.unwrap_or_else(|error| panic!("{arguments:?}: {error}, {}", said(&mut child)));
        }
        // It is locked and marked once there is something in it.
        while fs::metadata(self.at(temporary)).map_or(0, |meta| meta.len()) == 0 {
            if let Some(ended) = child.try_wait().expect("a child") {
                assert!(ended.success(), "{arguments:?}: {ended:?}, {}", said(&mut child));
                self.remove_made(temporary);
                return None;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Some(child)
    }

    /// Removes what a command that was done has made of `temporary`.
    fn remove_made(&self, temporary: &str) {
        let (made, _) = temporary.split_once('.').expect("an ending");
        fs::remove_file(self.at(made)).expect("it is there");
        let _ = fs::remove_dir_all(self.at(&format!("{made}.files")));
    }

    /// Tries until `cut` has cut a command off: it says whether it has.
    fn cut_off(&self, arguments: &[&str], temporary: &str, mut cut: impl FnMut(Child) -> bool) {
        let caught = (0..TRIES).any(|_| self.started(arguments, temporary).is_some_and(&mut cut));
        assert!(caught, "{arguments:?}: it was done each time");
    }
}

/// Everything that a child which ends has written to its standard error.
fn said(child: &mut Child) -> String {
    let mut text = String::new();
    let read = child.stderr.as_mut().expect("a pipe").read_to_string(&mut text);
    read.map_or_else(|error| error.to_string(), |_| text)
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it lives");
}

/// Stops a child, and returns when all of its threads stand still or have ended: the first thread may
/// do so before the one that does the work.
fn stop(child: &Child) {
    signal(child, Signal::STOP);
    let state = |thread: fs::DirEntry| {
        let line = fs::read_to_string(thread.path().join("stat"));
        // One that has ended may be gone.
        line.map_or('X', |line| {
            line.rsplit(") ").next().and_then(|rest| rest.chars().next()).expect("a state")
        })
    };
    let stands = || {
        let threads = fs::read_dir(format!("/proc/{}/task", child.id()));
        let mut threads = threads.expect("it has not been waited for");
        threads.all(|thread| thread.is_ok_and(|thread| matches!(state(thread), 'T' | 'Z' | 'X')))
    };
    while !stands() {
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Commands that make something, and what it is called until then.
const MAKERS: [(&[&str], &str); 4] = [
    (&["backup", "@db", "@made"], "made.perdura-new"),
    (&["dump", "@db", "--out", "@made"], "made.perdura-new"),
    (&["restore", "@backup", "@made"], "made.perdura-new"),
    (&["load", "@made", "-"], "made.perdura-new"),
];

#[test]
fn a_signal_leaves_nothing() {
    for engine in [EngineKind::Inp, EngineKind::NvmInp] {
        let place = Place::new(engine);
        let names = place.names();
        for (command, temporary) in MAKERS {
            for (given, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1)] {
                place.cut_off(command, temporary, |mut child| {
                    // Waiting for a child closes its input, whose end would end it, too.
                    let input = child.stdin.take();
                    signal(&child, given);
                    let status = child.wait().expect("it ends");
                    drop(input);
                    if command[0] != "load" && place.at("made").exists() {
                        place.remove_made(temporary);
                        return false;
                    }
                    let said = said(&mut child);
                    let text = format!("{engine}: {command:?}: {status:?}, {said}");
                    assert_eq!(status.signal(), Some(number), "{text}");
                    assert_eq!(place.names(), names, "{engine}: {command:?}, {given:?}");
                    true
                });
            }
        }
    }
}

/// `nohup` starts a command so.
#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let place = Place::new(EngineKind::NvmInp);
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_perdura")]);
    let child = place.started_by(shell, &["load", "@made", "-"], "made.perdura-new");
    let mut child = child.expect("its input has not ended");
    signal(&child, Signal::HUP);
    // It cannot have ended before: its input has not.
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(&place.dump().1).expect("it reads");
    drop(input);
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{status:?}, {}", said(&mut child));
    assert!(place.at("made").exists());
}

#[test]
fn what_a_kill_leaves_the_next_attempt_removes() {
    for engine in [EngineKind::Log, EngineKind::NvmCow] {
        let place = Place::new(engine);
        let names = place.names();
        for (command, temporary) in MAKERS {
            place.cut_off(command, temporary, |mut child| {
                signal(&child, Signal::KILL);
                child.wait().expect("it ends");
                if place.at("made").exists() {
                    place.remove_made(temporary);
                    return false;
                }
                true
            });
            // It may have been cut off in its last step.
            let left = [temporary, "made.perdura-whole"].map(|name| place.at(name).exists());
            assert!(left[0] || left[1], "{command:?}");
            let whole = command.iter().map(|word| if *word == "-" { "@dump" } else { word });
            let ran = place.pool(&whole.collect::<Vec<_>>());
            assert_eq!(ran.code, Some(0), "{engine}: {command:?}: {ran:?}");
            let made = place.names().into_iter().filter(|name| !names.contains(name));
            let made: Vec<String> = made.collect();
            // What is loaded has the engine of its medium.
            let has_files = command[0] == "restore" && engine.traits().needs_files();
            let wanted: &[&str] = if has_files { &["made", "made.files"] } else { &["made"] };
            assert_eq!(made, wanted, "{engine}: {command:?}");
            place.remove_made(temporary);
        }
    }
}

#[test]
fn what_is_in_use_is_waited_for() {
    let place = Place::new(EngineKind::NvmInp);
    for (command, temporary) in MAKERS {
        place.cut_off(command, temporary, |mut child| {
            stop(&child);
            if place.at("made").exists() {
                signal(&child, Signal::CONT);
                child.wait().expect("it ends");
                place.remove_made(temporary);
                return false;
            }
            let whole = command.iter().map(|word| if *word == "-" { "@dump" } else { word });
            let ran = place.pool(&whole.collect::<Vec<_>>());
            assert_eq!(ran.code, Some(1), "{command:?}: {ran:?}, {:?}", child.try_wait());
            let who = format!("by process {}", child.id());
            assert!(ran.err.contains(&who) && ran.err.contains("wait for that"), "{ran:?}");
            signal(&child, Signal::TERM);
            signal(&child, Signal::CONT);
            child.wait().expect("it ends");
            assert!(!place.at(temporary).exists(), "{command:?}");
            // It goes on with all of its threads: it may be done before one of them acts on the signal.
            if place.at("made").exists() {
                place.remove_made(temporary);
            }
            true
        });
    }
}

/// A database, a dump and a note of the user's that have the names of what is not finished.
#[test]
fn what_is_not_ours_stays() {
    let place = Place::new(EngineKind::NvmInp);
    assert_eq!(place.pool(&["restore", "@backup", "@made.perdura-new"]).code, Some(0));
    let dump = fs::read(place.at("dump")).expect("there");
    for foreign in
        [fs::read(place.at("made.perdura-new")).expect("there"), dump, b"a note".to_vec()]
    {
        for (command, temporary) in MAKERS {
            fs::write(place.at(temporary), &foreign).expect("written");
            let whole = command.iter().map(|word| if *word == "-" { "@dump" } else { word });
            let ran = place.pool(&whole.collect::<Vec<_>>());
            assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{command:?}: {ran:?}");
            assert!(ran.err.contains("is not what an attempt that was cut off leaves"), "{ran:?}");
            assert!(fs::read(place.at(temporary)).expect("there") == foreign, "{command:?}");
            fs::remove_file(place.at(temporary)).expect("removed");
        }
    }
    // Nor what was left under another name, and renamed since.
    place.cut_off(&["restore", "@backup", "@other"], "other.perdura-new", |mut child| {
        signal(&child, Signal::KILL);
        child.wait().expect("it ends");
        let caught = place.at("other.perdura-new").exists();
        if !caught {
            place.remove_made("other.perdura-new");
        }
        caught
    });
    fs::rename(place.at("other.perdura-new"), place.at("made.perdura-new")).expect("renamed");
    assert_eq!(place.pool(&["restore", "@backup", "@made"]).code, Some(1));
    assert!(place.at("made.perdura-new").exists());
}

/// Names that are not UTF-8 go wherever others do.
#[test]
fn names_need_not_be_text() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new(EngineKind::Inp);
    let at = |name: &[u8]| place.0.path().join(std::ffi::OsStr::from_bytes(name));
    let pool = |command: &str, arguments: &[&Path]| {
        let mut command_line = perdura();
        command_line.args(["pool", command]);
        let done = command_line.args(arguments).output().expect("the command starts");
        assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
    };
    pool("backup", &[&place.at("db"), &at(b"back\xffup")]);
    pool("restore", &[&at(b"back\xffup"), &at(b"\xfe")]);
    pool("dump", &[&at(b"\xfe"), Path::new("--out"), &at(b"\xc3")]);
    pool("load", &[&at(b"\xc3\x28"), &at(b"\xc3")]);
    pool("check", &[&at(b"\xc3\x28"), Path::new("--repair-into"), &at(b"\xf0")]);
    pool("info", &[&at(b"\xf0")]);
    assert!(fs::read(at(b"\xc3")).expect("there") == fs::read(place.at("dump")).expect("there"));
    Backup::open(at(b"back\xffup")).expect("a backup").verify(&mut |_| ()).expect("sound");
}
