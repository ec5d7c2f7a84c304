//! One or two databases on which system calls fail, and a model of their contents.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode};

use super::child::{
    AGAIN, ALONE, CLOSE, HeldLocks, KEEP, LONG, NAMES, Process, Size, THEN, Work, connect, keys_of,
    outcome, transaction,
};
use crate::attached::litter;
use crate::ptrace::{Call, End, Fault, fail, kill_at};
use crate::register::open;
use crate::sql::{check, folder, stock};

/// What happens to a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Its calls fail.
    Fails(Fault),
    /// It is killed at a system call.
    Killed,
}

/// Counters of processes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counts {
    /// Processes after which the transaction was there, and was not.
    pub(crate) with: u32,
    pub(crate) without: u32,
    /// Times that stock SQLite was refused at first.
    pub(crate) refused: u32,
    /// Processes whose first failure was reported as an error.
    pub(crate) errors: u32,
}

/// Databases that are opened in one way.
#[derive(Debug)]
pub(crate) struct Databases {
    folder: tempfile::TempDir,
    paths: Vec<PathBuf>,
    way: &'static str,
    /// The keys of each database.
    model: Vec<BTreeSet<i64>>,
    pub(crate) counts: Counts,
}

/// Files after a kill.
#[derive(Clone, Debug)]
pub(crate) struct Left {
    files: Vec<(PathBuf, Vec<u8>)>,
    model: Vec<BTreeSet<i64>>,
}

impl Databases {
    pub(crate) fn new(count: usize, way: &'static str) -> Self {
        let folder = folder();
        let paths: Vec<_> = NAMES[..count].iter().map(|name| folder.path().join(name)).collect();
        for path in &paths {
            let create = "PRAGMA auto_vacuum = full; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)";
            Connection::open(path).unwrap().execute_batch(create).unwrap();
        }
        let model = vec![BTreeSet::new(); count];
        Self { folder, paths, way, model, counts: Counts::default() }
    }

    fn names(&self) -> &'static [&'static str] {
        &NAMES[..self.paths.len()]
    }

    fn uri(&self, path: &Path) -> String {
        format!("file:{}?vfs=perdura&{}", path.display(), self.way)
    }

    fn uris(&self) -> Vec<String> {
        self.paths.iter().map(|path| self.uri(path)).collect()
    }

    fn is_shared(&self) -> bool {
        self.way.contains("perdura_share=stock")
    }

    /// Returns whether a commit that reported an error may have happened: a failed sync does not say what it wrote.
    fn may_have_committed(&self) -> bool {
        self.way.contains("perdura_domain=disk")
    }

    fn open(&self, path: &Path) -> Connection {
        let connection = open(Path::new(&self.uri(path))).unwrap();
        connection.busy_timeout(LONG).unwrap();
        connection
    }

    /// Prepares the next transaction's change of size: a file has to grow before it can shrink.
    fn prepare(&mut self, size: Size) {
        let is_large = self.model[0].contains(&0);
        let wanted = match size {
            Size::Stays => return,
            Size::Grows => false,
            Size::Cuts => true,
        };
        if is_large == wanted {
            return;
        }
        let size = if wanted { Size::Grows } else { Size::Cuts };
        for number in 0..self.paths.len() {
            let key = self.model[number].last().map_or(1, |last| last + 1).max(2 * THEN);
            let sql = format!("{} COMMIT", transaction(&["main"], key, size));
            self.open(&self.paths[number]).execute_batch(&sql).unwrap();
            self.model[number].insert(key);
            note_large_row(&mut self.model[number], size);
        }
    }

    /// Runs a process, optionally next to another connection, and checks what it leaves; while it lives, if it has
    /// closed the databases. Returns whether any call failed or killed it.
    pub(crate) fn run(
        &mut self,
        (work, size, held_locks): (Work, Size, HeldLocks),
        (fate, number): (Fate, usize),
        key: i64,
        with_other: bool,
    ) -> bool {
        if work != Work::Open {
            self.prepare(size);
        }
        let other = with_other.then(|| {
            let one = connect(&self.uris(), LONG).unwrap();
            keys_of(&one, self.names()).unwrap();
            one
        });
        let mut process = Process::start(&self.uris(), (work, size, held_locks), key);
        if work == Work::Close {
            self.insert(key, size);
        }
        let go = || process.stdin.write_all(b"\n").unwrap();
        let (child, thread) = (&mut process.child, process.thread);
        let (end, failed) = match fate {
            Fate::Fails(fault) => fail(child, thread, fault, number, go),
            Fate::Killed => {
                let end = kill_at(child, thread, number, |_| true, go);
                (end, usize::from(end == End::Killed))
            }
        };
        let mut output = process.output_until("=marked");
        let lives = end == End::Left && [Work::Life, Work::Close, Work::Open].contains(&work);
        if end == End::Left && !lives {
            process.child.wait().unwrap();
        }
        let about = format!(
            "{} {work:?} {size:?} {held_locks:?}, {fate:?} at {number}, with another connection: {with_other}, {end:?}",
            self.way
        );
        assert!(end != End::Exited || work == Work::Commit, "{about}: {output}");
        let before = self.lists();
        let then = |process: &mut Process, output: &mut String, line: &str| {
            process.stdin.write_all(line.as_bytes()).unwrap();
            output.push_str(&process.output_until("=then"));
            assert!(output.contains("=then Ok"), "{about}: {output}");
        };
        // A lock that the kernel did not release goes when the process opens the next file.
        let first = lives && fate == Fate::Fails(Fault::Alike);
        if first {
            then(&mut process, &mut output, CLOSE);
            self.insert(THEN + key, Size::Stays);
        }
        self.look((work, size), key, &before, &format!("{about}: {output}"), other);
        let one = connect(&self.uris(), LONG).unwrap();
        let locked = one.execute_batch("BEGIN EXCLUSIVE; ROLLBACK");
        locked.unwrap_or_else(|error| panic!("no lock: {error}, {about}: {output}"));
        drop(one);
        if lives && !first {
            // Every other time the next connection opens what is left.
            then(&mut process, &mut output, if key % 2 == 0 { CLOSE } else { KEEP });
            self.insert(THEN + key, Size::Stays);
        }
        if lives {
            process.stdin.write_all(b"\n").unwrap();
            process.child.wait().unwrap();
        }
        failed > 0
    }

    fn insert(&mut self, key: i64, size: Size) {
        for model in &mut self.model {
            model.insert(key);
            note_large_row(model, size);
        }
    }

    /// Checks that exactly the reported contents are there.
    fn look(
        &mut self,
        (work, size): (Work, Size),
        key: i64,
        before: &[Vec<i64>],
        output: &str,
        other: Option<Connection>,
    ) {
        let lives = other.map(|one| {
            let keys = keys_of(&one, self.names());
            keys.unwrap_or_else(|error| panic!("a live one is locked out: {error}, {output}"))
        });
        let mut found = vec![Vec::new(); self.paths.len()];
        let mut order: Vec<usize> = (0..self.paths.len()).collect();
        if key % 2 == 0 {
            order.reverse();
        }
        for at in order {
            found[at] = self.found(at, output);
        }
        if let Some(lives) = lives {
            assert_eq!(lives, found, "{output}");
        }
        let first = outcome(output, "first");
        self.counts.errors += u32::from(first == Some(false));
        match work {
            Work::Open => {
                let right = format!("=first Ok({before:?})");
                assert!(first != Some(true) || output.contains(&right), "{right}: {output}");
            }
            Work::Close => {}
            Work::Commit | Work::Commits | Work::Life => {
                let has = self.record_outcome(key, first, size, &found, output);
                self.counts.with += u32::from(has);
                self.counts.without += u32::from(!has);
                self.record_outcome(
                    AGAIN + key,
                    outcome(output, "again"),
                    Size::Stays,
                    &found,
                    output,
                );
                for (number, keys) in found.iter().enumerate() {
                    let has = keys.contains(&(ALONE + key));
                    let outcome = outcome(output, &format!("alone-{number}"));
                    let is_right = match outcome {
                        Some(done) => done == has || !done && self.may_have_committed(),
                        None => true,
                    };
                    assert!(is_right, "alone: {has}, {output}");
                    if has {
                        self.model[number].insert(ALONE + key);
                    }
                }
            }
        }
        assert_eq!(found, self.lists(), "{output}");
        for name in litter(self.folder.path()) {
            // SQLite leaves a super-journal that no journal names yet, or that the kernel does not remove.
            assert!(name.contains("-mj"), "{name}: {output}");
            std::fs::remove_file(self.folder.path().join(name)).unwrap();
        }
    }

    fn lists(&self) -> Vec<Vec<i64>> {
        self.model.iter().map(|model| model.iter().copied().collect()).collect()
    }

    /// Checks that a transaction is in all databases or in none, as reported, and adds it to the model.
    fn record_outcome(
        &mut self,
        key: i64,
        outcome: Option<bool>,
        size: Size,
        found: &[Vec<i64>],
        output: &str,
    ) -> bool {
        let has: Vec<bool> = found.iter().map(|keys| keys.contains(&key)).collect();
        assert!(has.iter().all(|one| *one == has[0]), "{key} in {has:?}: {output}");
        // A transaction over several databases may have committed although an error was reported.
        let is_right = match outcome {
            Some(true) => has[0],
            Some(false) => !has[0] || has.len() > 1 || self.may_have_committed(),
            None => true,
        };
        assert!(is_right, "{key}, {has:?}: {output}");
        if has[0] {
            self.insert(key, size);
        }
        has[0]
    }

    /// Returns what stock SQLite finds, unless it is refused, and then a connection of this VFS; both have to
    /// agree.
    fn found(&mut self, at: usize, output: &str) -> Vec<i64> {
        let keys = |one: &Connection| {
            keys_of(one, &["main"]).map(|mut all| all.pop().expect("one database"))
        };
        let path = &self.paths[at];
        let stocks = Connection::open(path).unwrap();
        stocks.busy_timeout(LONG).unwrap();
        let first = keys(&stocks);
        match &first {
            Ok(_) => check(&stocks),
            Err(error) => {
                let code = error.sqlite_error_code();
                assert_eq!(code, Some(ErrorCode::NotADatabase), "{error}: {output}");
                self.counts.refused += 1;
            }
        }
        let ours = self.open(path);
        let found = keys(&ours).unwrap_or_else(|error| panic!("locked out: {error}, {output}"));
        check(&ours);
        if let Ok(first) = first {
            assert_eq!(first, found, "{output}");
        }
        if !self.is_shared() {
            ours.close().unwrap();
        }
        // The next connection that opens or closes it readmits stock SQLite.
        let then = keys(&stocks).unwrap_or_else(|error| panic!("stock SQLite: {error}, {output}"));
        assert_eq!(then, found, "{output}");
        found
    }

    /// Kills a process that commits to two databases as it is about to remove the super-journal, then removes that
    /// if `gone`. Returns the files.
    pub(crate) fn cut_off(&mut self, key: i64, gone: bool) -> Left {
        let mut process =
            Process::start(&self.uris(), (Work::Commit, Size::Stays, HeldLocks::Normal), key);
        let go = || process.stdin.write_all(b"\n").unwrap();
        let end = kill_at(&mut process.child, process.thread, 1, Call::removes, go);
        assert_eq!(end, End::Killed);
        let names = litter(self.folder.path());
        assert_eq!(names.len(), 3, "a placeholder each, and the super-journal: {names:?}");
        if gone {
            let name = names.iter().find(|name| name.contains("-mj")).unwrap();
            std::fs::remove_file(self.folder.path().join(name)).unwrap();
            self.insert(key, Size::Stays);
        }
        let files = std::fs::read_dir(self.folder.path()).unwrap().map(|entry| {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            (path, bytes)
        });
        Left { files: files.collect(), model: self.model.clone() }
    }

    /// Restores the files of a kill.
    pub(crate) fn put_back(&mut self, left: &Left) {
        for entry in std::fs::read_dir(self.folder.path()).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        left.files.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
        self.model.clone_from(&left.model);
    }

    /// Closes the databases, which have to be plain then.
    pub(crate) fn end(&self) {
        for path in &self.paths {
            drop(self.open(path));
            check(&stock(path));
        }
    }
}

fn note_large_row(model: &mut BTreeSet<i64>, size: Size) {
    if size == Size::Grows {
        model.insert(0);
    } else if size == Size::Cuts {
        model.remove(&0);
    }
}
