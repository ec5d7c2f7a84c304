//! Lines and fences of transactions that insert one row of 64 bytes, through SQLite, in pages of 4 KiB.

use perdura_sqlite::store::mode::Mode;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::register::{open, stats};
use crate::sql::folder;

const BEFORE: i64 = 4000;
const COUNTED: i64 = 1000;

/// Hundredths of a line, without checkpoints, and hundredths of a fence per transaction.
fn cost(mode: Mode, key: impl Fn(&mut SmallRng, i64) -> i64) -> (u64, u64) {
    let directory = folder();
    let connection = open(&directory.path().join("db")).unwrap();
    let chosen = format!("PRAGMA perdura_mode = {}", mode.name());
    let chosen = connection.query_row(&chosen, [], |row| row.get::<_, String>(0));
    assert_eq!(chosen.as_deref(), Ok(mode.name()));
    connection.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b BLOB)").unwrap();
    let mut random = SmallRng::seed_from_u64(7);
    let mut insert = connection.prepare("INSERT OR IGNORE INTO t VALUES(?1, ?2)").unwrap();
    let mut insert = |number| {
        // Rows with bytes in common could replace each other in place.
        let (key, mut row) = (key(&mut random, number), [0u8; 64]);
        random.fill(&mut row[..]);
        insert.execute((key, row)).unwrap()
    };
    (1..=BEFORE).for_each(|number| assert_eq!(insert(number), 1));
    let counts =
        || ["lines", "fences", "commits", "checkpoint_lines"].map(|name| stats(&connection, name));
    let before = counts();
    (1..=COUNTED).for_each(|number| assert_eq!(insert(BEFORE + number), 1));
    let after = counts();
    let [lines, fences, commits, checkpoints] = std::array::from_fn(|at| after[at] - before[at]);
    assert_eq!(commits, COUNTED as u64);
    ((lines - checkpoints) * 100 / commits, fences * 100 / commits)
}

#[test]
fn an_insert_takes_one_fence_and_few_lines() {
    let (lines, fences) = cost(Mode::Fash1, |_, number| number);
    println!("ascending: {lines} hundredths of a line");
    assert!(lines <= 450 && fences == 100, "ascending: {lines} hundredths of a line, {fences}");
    let (lines, fences) = cost(Mode::Fash1, |random, _| random.random_range(0..1 << 40));
    println!("random: {lines} hundredths of a line");
    assert!(lines <= 1350 && fences == 100, "random: {lines} hundredths of a line, {fences}");
}

#[test]
fn an_insert_in_the_order_of_the_paper_takes_three_fences() {
    let (lines, fences) = cost(Mode::Fash, |_, number| number);
    println!("ascending: {lines} hundredths of a line");
    assert!(lines <= 850 && fences == 300, "ascending: {lines} hundredths of a line, {fences}");
    let (lines, fences) = cost(Mode::Fash, |random, _| random.random_range(0..1 << 40));
    println!("random: {lines} hundredths of a line");
    assert!(lines <= 1700 && fences == 300, "random: {lines} hundredths of a line, {fences}");
}

#[test]
fn append_is_committed_in_place_with_two_fences() {
    let (lines, fences) = cost(Mode::Fast, |_, number| number);
    println!("ascending: {lines} hundredths of a line, {fences} of a fence");
    // A new page after a full one is logged.
    assert!(lines <= 450 && (200..=206).contains(&fences), "ascending: {lines}, {fences}");
}

#[test]
fn nvwal_insert_takes_two_fences_and_few_lines() {
    let (lines, fences) = cost(Mode::Nvwal, |_, number| number);
    println!("ascending: {lines} hundredths of a line, {fences} of a fence");
    assert!(lines <= 400 && (200..=206).contains(&fences), "ascending: {lines}, {fences}");
    let (lines, fences) = cost(Mode::Nvwal, |random, _| random.random_range(0..1 << 40));
    println!("random: {lines} hundredths of a line, {fences} of a fence");
    assert!(lines <= 2300 && (200..=206).contains(&fences), "random: {lines}, {fences}");
}
