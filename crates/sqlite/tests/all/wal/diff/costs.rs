//! The cost of a commit with a differential log: system calls, fences, and flushed lines.

use super::super::costs::calls_in_steady_state;
use super::*;

fn counts(connection: &Connection) -> [u64; 3] {
    ["commits", "fences", "lines"].map(|name| stats(connection, name))
}

/// The cost of inserts of rows of 100 bytes: hundredths of a line and of a fence for each, and of a line for each that
/// changes one page.
fn cost((exclusive, new_log): (bool, bool), mut key: impl FnMut(i64) -> i64) -> [u64; 3] {
    let directory = folder();
    let one = open_diff(&directory.path().join("db"));
    if exclusive {
        one.execute_batch("PRAGMA locking_mode = EXCLUSIVE").unwrap();
    }
    one.execute_batch("PRAGMA wal_autocheckpoint = 0").unwrap();
    one.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b BLOB)").unwrap();
    let mut random = SmallRng::seed_from_u64(7);
    let mut insert = one.prepare("INSERT OR IGNORE INTO t VALUES(?1, ?2)").unwrap();
    let mut insert = |number| {
        let mut row = [0_u8; 100];
        random.fill(&mut row[..]);
        insert.execute((key(number), row)).unwrap()
    };
    (1..=3_000).for_each(|number| assert_eq!(insert(number), 1));
    if new_log {
        assert_eq!(checkpoint(&one, "TRUNCATE").0, 0);
        assert_eq!(insert(0), 1);
    }
    let counts = || ["commits", "fences", "lines", "wal_frames"].map(|name| stats(&one, name));
    let (first, mut before) = (counts(), counts());
    let (mut ones, mut lines_of_ones) = (0, 0);
    for number in 3_001..=4_000 {
        assert_eq!(insert(number), 1);
        let after = counts();
        if after[3] - before[3] == 1 {
            (ones, lines_of_ones) = (ones + 1, lines_of_ones + after[2] - before[2]);
        }
        before = after;
    }
    let [commits, fences, lines, _] = std::array::from_fn(|at| before[at] - first[at]);
    assert_eq!(commits, 1_000);
    [lines * 100 / commits, fences * 100 / commits, lines_of_ones * 100 / ones]
}

/// With random keys every fifth insert makes SQLite spread the rows of three pages anew, and gives these other numbers. In a
/// new log such a page is logged whole when that happens to it for the first time.
#[test]
fn insert_takes_one_fence_and_few_lines() {
    for (exclusive, new_log, most) in
        [(false, false, 1_000), (true, false, 1_000), (false, true, 1_600)]
    {
        let way = (exclusive, new_log);
        let ascending = cost(way, |number| number);
        let mut random = SmallRng::seed_from_u64(8);
        let random = cost(way, |_| random.random_range(1..1 << 40));
        println!("{way:?}: ascending {ascending:?}, random {random:?} hundredths");
        assert!(ascending[0] <= 400 && random[0] <= most, "{ascending:?}, {random:?}");
        assert!(ascending[2] <= 360 && random[2] <= 425, "{ascending:?}, {random:?}");
        assert_eq!([ascending[1], random[1]], [100, 100]);
    }
}

/// Whatever `synchronous` says: a commit is durable when it is acknowledged.
#[test]
fn commit_of_a_page_takes_one_fence_in_each_mode() {
    for synchronous in ["OFF", "NORMAL", "FULL", "EXTRA"] {
        let directory = folder();
        let one = open_diff(&directory.path().join("db"));
        one.execute_batch(&format!("PRAGMA synchronous = {synchronous}; {CREATE}")).unwrap();
        one.execute_batch("INSERT INTO t VALUES(0, '')").unwrap();
        let before = counts(&one);
        for number in 0..100 {
            one.execute("UPDATE t SET b = ?1", [format!("{number:08}")]).unwrap();
        }
        let after = counts(&one);
        let [commits, fences, lines] = [0, 1, 2].map(|at| after[at] - before[at]);
        assert_eq!((commits, fences), (100, 100), "{synchronous}");
        assert!(lines <= 300, "{synchronous}: {lines}");
    }
}

/// A checkpoint flushes pages, and nothing of SQLite's log. A new log takes two fences more.
#[test]
fn image_is_never_flushed() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open_diff(&path);
    one.execute_batch(&format!("PRAGMA wal_autocheckpoint = 0; {CREATE}")).unwrap();
    one.execute_batch("INSERT INTO t VALUES(0, '')").unwrap();
    let update = |number: u64| {
        one.execute("UPDATE t SET b = ?1", [format!("{number:08}")]).unwrap();
    };
    (0..500).for_each(update);
    let before = counts(&one);
    assert_eq!(checkpoint(&one, "PASSIVE").0, 0);
    let [fences, lines] = [1, 2].map(|at| counts(&one)[at] - before[at]);
    assert!(fences <= 3 && lines <= 3 * 65, "{fences}, {lines}");
    let before = counts(&one);
    update(500);
    let [fences, lines] = [1, 2].map(|at| counts(&one)[at] - before[at]);
    assert!(fences == 3 && lines <= 5, "{fences}, {lines}");
}

#[test]
fn steady_state_makes_no_system_call() {
    let calls = calls_in_steady_state("steady", with_records);
    assert!(calls.is_empty(), "{} calls: {:?}", calls.len(), &calls[..calls.len().min(50)]);
}
