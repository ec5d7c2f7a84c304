//! Processes that are killed while they write.

use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rusqlite::{Connection, ErrorCode};

use crate::children::child;
use crate::contents::{MORE, SHARE};
use crate::register::{open, stats};
use crate::sql::{check, folder, side_of, stock};

/// The connections of a database: their modes in turn, and the value of `perdura_share`.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) modes: &'static [&'static str],
    pub(crate) share: &'static str,
}

pub(crate) const MODES: [&str; 6] = ["lean", "fash1", "fast", "fash", "nvwal", "full"];
pub(crate) const FASH1: Kind = Kind { modes: &["fash1"], share: "perdura" };

impl Kind {
    /// The database's URI for a connection.
    fn uri(self, path: &Path, number: usize) -> PathBuf {
        let (mode, share) = (self.modes[number % self.modes.len()], self.share);
        format!("file:{}?perdura_mode={mode}&perdura_share={share}", path.display()).into()
    }
}

/// A process that inserts and prints numbers from `first` on.
fn start(path: &Path, first: i64) -> Child {
    child("writer")
        .arg(path)
        .arg(first.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Lets a process continue, and waits until it does. Its next numbers are still to be read.
fn go_on(
    child: &mut Child,
    lines: &mut impl Iterator<Item = std::io::Result<String>>,
) -> Option<i64> {
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let mut before = lines.map_while(Result::ok).take_while(|line| !line.contains("=going on"));
    listen(&mut before.by_ref().map(Ok), usize::MAX)
}

/// Reads up to `most` numbers that a process prints; returns the last one.
fn listen(lines: &mut impl Iterator<Item = std::io::Result<String>>, most: usize) -> Option<i64> {
    let reported = lines.map_while(Result::ok).filter_map(|line| {
        // The test's own first line may precede it.
        line.split("=done ").nth(1).and_then(|number| number.trim().parse().ok())
    });
    reported.take(most).last()
}

fn numbers(connection: &Connection, first: i64) -> Vec<i64> {
    let mut select =
        connection.prepare("SELECT a FROM t WHERE a BETWEEN ?1 AND ?1 + 99999 ORDER BY a").unwrap();
    select.query_map([first], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Processes that insert numbers into one database and are killed, round after round.
pub(crate) struct Writers {
    random: SmallRng,
    seed: u64,
    /// The first number of each one in the next round.
    firsts: Vec<i64>,
    /// The last number that each one has reported in this round.
    reported: Vec<Option<i64>>,
}

impl Writers {
    pub(crate) fn new(writers: i64, seed: u64) -> Self {
        let firsts: Vec<i64> = (1..=writers).map(|writer| writer * 1_000_000).collect();
        let reported = vec![None; firsts.len()];
        Self { random: SmallRng::seed_from_u64(seed), seed, firsts, reported }
    }

    /// Starts the processes, each with the database's URI for its number; kills one of them, and then the others.
    pub(crate) fn kill(&mut self, uri: impl Fn(usize) -> PathBuf, round: usize) {
        let mut children: Vec<_> =
            (0..).zip(&self.firsts).map(|one| start(&uri(one.0), *one.1)).collect();
        let mut outs: Vec<_> = children
            .iter_mut()
            .map(|child| BufReader::new(child.stdout.take().unwrap()).lines())
            .collect();
        let victim = self.random.random_range(0..children.len());
        let most = self.random.random_range(1..SHARE);
        self.reported.fill(None);
        self.reported[victim] = listen(&mut outs[victim], most);
        children[victim].kill().unwrap();
        // The others continue: the dead process may have held any lock, and had an unfinished commit.
        for other in (0..outs.len()).filter(|other| *other != victim) {
            let before = go_on(&mut children[other], &mut outs[other]);
            let then = listen(&mut outs[other], MORE);
            assert!(before < then, "round {round}: {before:?}, {then:?}");
            self.reported[other] = then;
            children[other].kill().unwrap();
        }
        for ((child, out), last) in children.iter_mut().zip(&mut outs).zip(&mut self.reported) {
            *last = listen(out, usize::MAX).or(*last);
            child.wait().unwrap();
        }
    }

    /// No acknowledged number is lost, and none that no process has written is there.
    pub(crate) fn check(&mut self, connection: &Connection, round: usize) {
        let seed = self.seed;
        for (first, last) in self.firsts.iter_mut().zip(&self.reported) {
            let found = numbers(connection, *first);
            let last = last.unwrap_or(*first - 1);
            let until = *first + found.len() as i64 - 1;
            assert_eq!(found, (*first..=until).collect::<Vec<_>>(), "round {round}, seed {seed}");
            assert!(until == last || until == last + 1, "round {round}: {until}; noted {last}");
            *first += found.len() as i64;
        }
    }
}

/// Kills `writers` processes in each round. Stock SQLite refuses what they leave, but for a database that it shares.
pub(crate) fn kill_in_rounds(kind: Kind, writers: i64, rounds: usize, seed: u64) {
    let directory = folder();
    let path = directory.path().join("db");
    let connection = open(&kind.uri(&path, 0)).unwrap();
    connection.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    connection.close().unwrap();
    let mut writers = Writers::new(writers, seed);
    for round in 0..rounds {
        let uri = |number| kind.uri(&path, number);
        writers.kill(uri, round);
        let marked = std::fs::read(&path).unwrap()[19] == 80;
        assert!(marked || kind.share == "stock", "round {round}");
        if round % 2 == 0 {
            let stocks = Connection::open(&path).unwrap();
            let code = stocks
                .execute_batch("SELECT * FROM t")
                .err()
                .map(|error| error.sqlite_error_code());
            let refused = marked.then_some(Some(ErrorCode::NotADatabase));
            assert_eq!(code, refused, "round {round}");
            if !marked {
                check(&stocks);
            }
        }
        let connection = open(&uri(round)).unwrap();
        check(&connection);
        assert_eq!(stats(&connection, "recoveries"), u64::from(marked), "round {round}");
        writers.check(&connection, round);
        connection.close().unwrap();
        if round % 3 == 0 {
            check(&stock(&path));
        }
    }
    assert!(!side_of(&path).exists());
}

#[test]
fn kills_lose_no_acknowledged_row() {
    kill_in_rounds(FASH1, 1, 5, 1);
    kill_in_rounds(FASH1, 2, 4, 2);
    kill_in_rounds(Kind { modes: &MODES, share: "perdura" }, MODES.len() as i64, 1, 3);
    kill_in_rounds(Kind { modes: &MODES, share: "stock" }, MODES.len() as i64, 1, 4);
}
