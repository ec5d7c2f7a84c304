//! Processes of this VFS and of stock SQLite that are killed while they write to one database.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{ALONE, MODES, open_shared, open_stock};
use crate::children::child;
use crate::sql::{check, folder, rows, stock};

/// A process that inserts and prints numbers from `first` on.
fn start(path: &Path, way: &str, first: i64) -> Child {
    child("shared-writer")
        .arg(path)
        .args([way, &first.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Kills a process of this VFS, one of stock SQLite, and `others`, after a few commits each.
pub(crate) fn kills(rounds: i64, others: &[&str]) {
    let directory = folder();
    let path = directory.path().join("db");
    let watcher = open_shared(&path, "fash1");
    watcher.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    let mut random = SmallRng::seed_from_u64(3);
    let mut reported = Vec::new();
    let mut marked = 0;
    for round in 0..rounds {
        let mode = MODES[round as usize % MODES.len()];
        let ways: Vec<&str> = [mode, "stock"].iter().chain(others).copied().collect();
        let first = |at: usize| (round * ways.len() as i64 + at as i64 + 1) * 10_000;
        let mut children: Vec<Child> =
            (0..).zip(&ways).map(|(at, way)| start(&path, way, first(at))).collect();
        let lines_of = |child: &mut Child| {
            BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok)
        };
        let mut lines: Vec<_> = children.iter_mut().map(lines_of).collect();
        let mut note = |line: &str| {
            if let Some((_, number)) = line.split_once("=done ") {
                reported.push(number.parse::<i64>().unwrap());
                true
            } else {
                false
            }
        };
        for (lines, way) in lines.iter_mut().zip(&ways) {
            for _ in 0..random.random_range(1..6) {
                assert!(lines.any(|line| note(&line)), "round {round}: {way} has ended");
            }
        }
        std::thread::sleep(Duration::from_micros(random.random_range(0..3_000)));
        let first = random.random_range(0..ways.len());
        for at in (0..ways.len()).map(|at| (first + at) % ways.len()) {
            children[at].kill().unwrap();
            children[at].wait().unwrap();
        }
        for line in lines.iter_mut().flatten() {
            note(&line);
        }
        marked += i32::from(std::fs::read(&path).unwrap()[19] == 80);
        let found: HashSet<i64> = rows(&watcher).into_iter().map(|row| row.0).collect();
        assert!(reported.iter().all(|number| found.contains(number)), "round {round}");
        assert!(found.len() <= reported.len() + ways.len() * (round as usize + 1), "round {round}");
        check(&watcher);
        // A sharing reader readmits stock SQLite after a kill. After an unshared commit it takes a commit.
        if ways.contains(&ALONE) {
            watcher.execute_batch(&format!("PRAGMA user_version = {round}")).unwrap();
        }
        let stocks = open_stock(&path);
        check(&stocks);
        assert_eq!(rows(&stocks).len(), found.len());
    }
    println!("{marked} of {rounds} kills left the marker");
    watcher.close().unwrap();
    check(&stock(&path));
}

#[test]
fn kills_of_stock_or_ours_lose_no_acknowledged_row() {
    kills(12, &[]);
    kills(6, &[ALONE]);
}
