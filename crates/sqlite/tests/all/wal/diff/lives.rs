//! Databases with a differential log in use: random SQL, changes of the journal mode, exclusive mode, a full medium, and
//! writers that die at the worst moment.

use std::io::Write as _;

use super::*;
use crate::children::child;
use crate::failing::child::Process;
use crate::kernel_calls::on_a_full_medium;
use crate::ptrace::{Call, End, kill_at};

/// Kills of all connections, after which the image may have lost anything, come in between.
#[test]
fn random_sql_matches_stock() {
    random_sql_matches(with_records, closed_diff, |path, model, step, place| {
        if step % 10 == 9 {
            let left = with_suffix(path, &format!("-left-{step}"));
            copy_without_image(path, &left);
            let one = open_diff(&left);
            check(&one);
            assert_eq!(rows(&one), rows(model), "{place}");
            one.close().unwrap();
            assert_eq!(rows(&closed_diff(&left)), rows(model));
        }
    });
}

/// Copies a database as a kill and a power cut leave it, with an image of which only the header is there.
fn copy_without_image(from: &Path, to: &Path) {
    for file in [|path: &Path| path.to_owned(), records_of] {
        std::fs::copy(file(from), file(to)).unwrap();
    }
    let mut image = std::fs::read(log_of(from)).unwrap();
    let end = image.len().min(32);
    image[end..].fill(0x77);
    std::fs::write(log_of(to), image).unwrap();
}

#[test]
fn journal_mode_is_changed_at_will() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open(&with_records(&path)).unwrap();
    one.execute_batch(&format!("{CREATE}; INSERT INTO t VALUES(1, 'x')")).unwrap();
    for number in 2..6 {
        assert_eq!(journal_mode(&one, "wal"), "wal");
        one.execute("INSERT INTO t VALUES(?1, 'wal')", [number * 2]).unwrap();
        assert_eq!((log_in_use(&one), records_of(&path).exists()), ("diff".into(), true));
        assert_eq!(journal_mode(&one, "delete"), "delete");
        assert!(!log_of(&path).exists());
        one.execute("INSERT INTO t VALUES(?1, 'delete')", [number * 2 + 1]).unwrap();
        check(&one);
    }
    one.close().unwrap();
    assert!(!records_of(&path).exists());
    assert_eq!(rows(&closed(&path, 1)).len(), 9);
}

/// SQLite has its index in its own memory.
#[test]
fn exclusive_mode_logs_each_commit() {
    for synchronous in ["OFF", "NORMAL", "FULL"] {
        let directory = folder();
        let (path, left) = (directory.path().join("db"), directory.path().join("left"));
        let one = open(&with_records(&path)).unwrap();
        one.execute_batch("PRAGMA locking_mode = EXCLUSIVE").unwrap();
        assert_eq!(journal_mode(&one, "wal"), "wal");
        one.execute_batch(&format!(
            "PRAGMA synchronous = {synchronous}; PRAGMA wal_autocheckpoint = 30; {CREATE}"
        ))
        .unwrap();
        for key in 0..200 {
            one.execute("INSERT INTO t VALUES(?1, hex(zeroblob(100)))", [key]).unwrap();
            if key % 20 == 0 {
                one.execute_batch("BEGIN; DELETE FROM t; ROLLBACK").unwrap();
                copy_without_image(&path, &left);
                let recovered = open_diff(&left);
                check(&recovered);
                assert_eq!(rows(&recovered).len() as i64, key + 1, "{synchronous}");
            }
        }
        one.close().unwrap();
        assert_eq!(rows(&closed_diff(&path)).len(), 200);
    }
}

/// A transaction is given up in exclusive mode, after it has spilled frames: others put their frames there.
#[test]
fn exclusive_mode_is_left_and_entered_again() {
    for synchronous in ["OFF", "NORMAL", "FULL"] {
        let directory = folder();
        let (path, left) = (directory.path().join("db"), directory.path().join("left"));
        let one = open_diff(&path);
        let exclusive = "PRAGMA locking_mode = EXCLUSIVE";
        one.execute_batch(&format!(
            "PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = 3; {CREATE};
             WITH RECURSIVE n(a) AS (SELECT 0 UNION ALL SELECT a + 1 FROM n WHERE a < 99)
             INSERT INTO t SELECT a, hex(zeroblob(300)) FROM n;
             PRAGMA synchronous = {synchronous}; {exclusive}"
        ))
        .unwrap();
        // With this end of a transaction SQLite gives up the lock.
        one.execute_batch(
            "BEGIN; UPDATE t SET b = hex(zeroblob(350)); PRAGMA locking_mode = NORMAL; ROLLBACK",
        )
        .unwrap();
        let two = open_diff(&path);
        two.execute_batch("INSERT INTO t VALUES(200, 'two'); INSERT INTO t VALUES(201, 'two')")
            .unwrap();
        drop(two);
        one.execute_batch(exclusive).unwrap();
        for key in 300..303 {
            one.execute("INSERT INTO t VALUES(?1, 'one')", [key]).unwrap();
            copy_without_image(&path, &left);
            let recovered = open_diff(&left);
            check(&recovered);
            assert_eq!(rows(&recovered).len() as i64, 102 + key - 299, "{synchronous}");
        }
    }
}

/// The log stays as it is at the last close, and the next one empties it.
#[test]
fn log_that_is_to_stay_is_empty_after_the_last_close() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open_diff(&path);
    one.execute_batch(&format!("{CREATE}; INSERT INTO t VALUES(1, 'one')")).unwrap();
    one.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    one.close().unwrap();
    assert_eq!(std::fs::metadata(log_of(&path)).unwrap().len(), 0);
    assert!(!records_of(&path).exists());
    let stock = Connection::open(&path).unwrap();
    check(&stock);
    assert_eq!(rows(&stock).len(), 1);
}

#[test]
fn full_medium_refuses_a_commit_and_loses_nothing() {
    for synchronous in ["FULL", "NORMAL"] {
        let directory = folder();
        let (path, left) = (directory.path().join("db"), directory.path().join("left"));
        let one = open_diff(&path);
        one.execute_batch(&format!("PRAGMA wal_autocheckpoint = 0; {CREATE}")).unwrap();
        let mut random = SmallRng::seed_from_u64(3);
        let mut insert = |key: i64| {
            let row: String = (0..3_000).map(|_| random.random_range('a'..='z')).collect();
            one.execute("INSERT INTO t VALUES(?1, ?2)", (key, row))
        };
        insert(0).unwrap();
        one.execute_batch(&format!("PRAGMA synchronous = {synchronous}")).unwrap();
        let mut acknowledged = 1;
        let error = on_a_full_medium(|| {
            (1..100).find_map(|key| insert(key).map(|_| acknowledged += 1).err())
        });
        // Space for what a commit logs is reserved when its frames are written.
        assert_eq!(error.unwrap().sqlite_error_code(), Some(ErrorCode::DiskFull));
        assert!((10..60).contains(&acknowledged), "{synchronous}: {acknowledged}");
        copy_without_image(&path, &left);
        assert_eq!(rows(&open_diff(&left)).len(), acknowledged, "{synchronous}, after a kill");
        check(&one);
        assert_eq!(rows(&one).len(), acknowledged);
        insert(1_000).unwrap();
        copy_without_image(&path, &left);
        assert_eq!(rows(&open_diff(&left)).len(), acknowledged + 1);
        on_a_full_medium(|| drop(one));
        let one = open_diff(&path);
        assert_eq!(rows(&one).len(), acknowledged + 1);
        assert_eq!(checkpoint(&one, "TRUNCATE").0, 0);
        one.close().unwrap();
        assert_eq!(rows(&closed_diff(&path)).len(), acknowledged + 1);
    }
}

/// Killed at any call about a file, a process that enters WAL mode, commits, leaves it, and comes back loses nothing.
#[test]
fn killed_changes_of_the_mode_lose_nothing() {
    let sql = "PRAGMA journal_mode = wal; INSERT INTO t VALUES(2, 'x');
        PRAGMA wal_checkpoint(TRUNCATE); INSERT INTO t VALUES(3, 'x');
        PRAGMA journal_mode = delete; INSERT INTO t VALUES(4, 'x');
        PRAGMA journal_mode = wal; INSERT INTO t VALUES(5, 'x')";
    let mut found = [0; 6];
    for number in 1.. {
        let directory = folder();
        let path = directory.path().join("db");
        let one = open(&path).unwrap();
        one.execute_batch(&format!("{CREATE}; INSERT INTO t VALUES(1, 'x')")).unwrap();
        one.close().unwrap();
        let mut process = Process::spawn(child("creator").arg(with_records(&path)).arg(sql));
        let go = || process.stdin.write_all(b"\n").unwrap();
        let end = kill_at(&mut process.child, process.thread, number, Call::is_of_files, go);
        let uri = if number % 2 == 0 { with_records(&path) } else { without_records(&path) };
        let one = open(&uri).unwrap();
        one.busy_timeout(Duration::from_secs(10)).unwrap();
        check(&one);
        let keys: Vec<i64> = rows(&one).into_iter().map(|row| row.0).collect();
        assert_eq!(keys, (1..=keys.len() as i64).collect::<Vec<_>>(), "call {number}");
        found[keys.len()] += 1;
        assert_eq!(journal_mode(&one, "wal"), "wal", "call {number}");
        one.execute_batch("INSERT INTO t VALUES(9, 'y')").unwrap();
        one.close().unwrap();
        assert_eq!(rows(&closed_diff(&path)).len(), keys.len() + 1, "call {number}");
        if end == End::Exited {
            assert_eq!(keys.len(), 5);
            break;
        }
    }
    println!("{found:?}");
    assert!(found[1..].iter().all(|count| *count > 2), "{found:?}");
}
