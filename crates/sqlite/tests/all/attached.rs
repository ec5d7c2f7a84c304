//! Transactions over several databases that are attached to one connection.

mod databases;

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use perdura_sqlite::database::{Failure, Level, MainFile as _, Mapped, OpenOptions};
use rusqlite::{Connection, ErrorCode};

pub(crate) use databases::{attach, insert, journal_of, litter, preparing};

use crate::children::child;
use crate::register::{open, stats};
use crate::sql::{check, folder, rows, side_of, stock};

const ONE: &str = "one";

/// A connection to a database and to attached ones of these names, each with a table.
fn with_attached(directory: &Path, names: &[&str]) -> (Connection, Vec<PathBuf>) {
    let paths: Vec<PathBuf> = [ONE].iter().chain(names).map(|name| directory.join(name)).collect();
    let connection = open(&paths[0]).unwrap();
    connection.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    for (name, path) in names.iter().zip(&paths[1..]) {
        attach(&connection, path, name, "perdura");
        let create = format!("CREATE TABLE {name}.t(a INTEGER PRIMARY KEY, b TEXT)");
        connection.execute_batch(&create).unwrap();
    }
    (connection, paths)
}

pub(crate) fn keys(connection: &Connection, name: &str) -> Vec<i64> {
    let mut select = connection.prepare(&format!("SELECT a FROM {name}.t ORDER BY a")).unwrap();
    select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn multi_database_commit_skips_an_unchanged_one() {
    let folder = folder();
    let (connection, paths) = with_attached(folder.path(), &["two", "three"]);
    let other = open(&paths[1]).unwrap();
    for mode in ["DELETE", "TRUNCATE", "PERSIST", "DELETE"] {
        for name in ["main", "two", "three"] {
            let set = format!("PRAGMA {name}.journal_mode = {mode}");
            connection.execute_batch(&set).unwrap();
        }
        let key = keys(&connection, "main").len() as i64;
        connection
            .execute_batch(&insert(&["main", "three"], key).replace(
                "BEGIN;",
                // It takes the lock and writes nothing.
                "BEGIN; DELETE FROM two.t WHERE a = -1;",
            ))
            .unwrap();
        connection.execute_batch(&insert(&["main", "two", "three"], key + 1)).unwrap();
        assert_eq!(litter(folder.path()), Vec::<String>::new());
        assert_eq!(rows(&other).len() as i64, (key + 2) / 2);
    }
    assert_eq!(keys(&connection, "three"), (0..8).collect::<Vec<_>>());
    drop((connection, other));
    for (path, count) in paths.iter().zip([8, 4, 8]) {
        assert_eq!(rows(&stock(path)).len(), count);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
}

/// Their pages and journals do not stay in memory, and they are committed page by page.
#[test]
fn large_parts_are_committed_and_rolled_back() {
    for mode in crate::process_kills::MODES {
        let folder = folder();
        let (connection, paths) = with_attached(folder.path(), &["two"]);
        connection.execute_batch(&format!("PRAGMA perdura_mode = {mode}")).unwrap();
        let rows_of = |from: i64| {
            format!(
                "WITH n(a) AS (SELECT {from} UNION ALL SELECT a + 1 FROM n LIMIT 1000)
                 SELECT a, hex(zeroblob(1500)) FROM n"
            )
        };
        for (from, end) in [(0, "COMMIT"), (1000, "ROLLBACK"), (1000, "COMMIT")] {
            let all = rows_of(from);
            let change = "SET b = hex(randomblob(1500)) WHERE a % 2 = 0";
            connection
                .execute_batch(&format!(
                    "BEGIN; INSERT INTO t {all}; INSERT INTO two.t {all};
                     UPDATE t {change}; UPDATE two.t {change}; {end}"
                ))
                .unwrap();
            let there = if end == "COMMIT" { from + 1000 } else { from };
            for name in ["main", "two"] {
                assert_eq!(keys(&connection, name).len() as i64, there, "{mode}, {end}");
            }
            check(&connection);
        }
        drop(connection);
        paths.iter().for_each(|path| assert_eq!(rows(&stock(path)).len(), 2000, "{mode}"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}

#[test]
fn databases_of_the_ordinary_vfs_take_part() {
    let folder = folder();
    let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
    for (first, second, vfs) in [(&ours, &theirs, "unix"), (&theirs, &ours, "perdura")] {
        let connection = match vfs {
            "unix" => open(first).unwrap(),
            _ => Connection::open(first).unwrap(),
        };
        attach(&connection, second, "two", vfs);
        let create = "CREATE TABLE IF NOT EXISTS {}.t(a INTEGER PRIMARY KEY, b TEXT)";
        for name in ["main", "two"] {
            connection.execute_batch(&create.replace("{}", name)).unwrap();
        }
        let key = keys(&connection, "main").len() as i64;
        connection.execute_batch(&insert(&["main", "two"], key)).unwrap();
        connection.execute_batch("BEGIN; DELETE FROM main.t; DELETE FROM two.t; ROLLBACK").unwrap();
        connection.execute_batch(&insert(&["main", "two"], key + 1)).unwrap();
        assert_eq!(litter(folder.path()), Vec::<String>::new());
        drop(connection);
        for path in [&ours, &theirs] {
            assert_eq!(rows(&stock(path)).len() as i64, key + 2);
        }
    }
}

#[test]
fn part_is_rolled_back_if_another_cannot_be_prepared() {
    // The failing one comes last, first, or between two others.
    for fails in ["three", "main", "two"] {
        let folder = folder();
        let (connection, paths) = with_attached(folder.path(), &["two", "three"]);
        let all = ["main", "two", "three"];
        connection.execute_batch(&insert(&all, 1)).unwrap();
        let path = &paths[all.iter().position(|name| *name == fails).unwrap()];
        for exclusive in [false, true] {
            if exclusive {
                connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE").unwrap();
                connection.execute_batch(&insert(&all, 2)).unwrap();
            }
            let before = keys(&connection, "main");
            // A reader of the same connection keeps the locks.
            let mut select = connection.prepare("SELECT a FROM main.t").unwrap();
            let mut reading = select.query([]).unwrap();
            reading.next().unwrap().unwrap();
            connection.execute_batch(&insert(&all, 9).replace("COMMIT", "")).unwrap();
            // SQLite would roll this journal back, so there can be no placeholder.
            std::fs::write(journal_of(path), "in the way").unwrap();
            let error = connection.execute_batch("COMMIT").unwrap_err();
            assert_eq!(error.sqlite_error_code(), Some(ErrorCode::SystemIoFailure), "{fails}");
            std::fs::remove_file(journal_of(path)).unwrap();
            drop(reading);
            drop(select);
            assert!(connection.is_autocommit());
            for name in all {
                assert_eq!(keys(&connection, name), before, "{fails}: {name}");
            }
            // SQLite leaves a super-journal that no journal names yet.
            let left = litter(folder.path());
            assert!(left.len() == usize::from(fails == "main"), "{fails}: {left:?}");
            left.iter().for_each(|name| std::fs::remove_file(folder.path().join(name)).unwrap());
        }
        // Later transactions succeed, in one database and in all.
        connection.execute_batch("INSERT INTO two.t VALUES(3, 'alone')").unwrap();
        connection.execute_batch(&insert(&all, 4)).unwrap();
        drop(connection);
        for (path, count) in paths.iter().zip([3, 4, 3]) {
            assert_eq!(rows(&stock(path)).len(), count, "{fails}");
        }
    }
}

#[test]
fn detached_database_is_plain_after_its_transaction() {
    let folder = folder();
    let (connection, paths) = with_attached(folder.path(), &["two"]);
    connection.execute_batch(&insert(&["main", "two"], 1)).unwrap();
    connection.execute_batch("DETACH two").unwrap();
    assert_eq!(rows(&stock(&paths[1])).len(), 1);
    connection.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
    attach(&connection, &paths[1], "two", "perdura");
    connection.execute_batch(&insert(&["main", "two"], 3)).unwrap();
    assert_eq!(keys(&connection, "two"), [1, 3]);
    assert!(side_of(&paths[1]).exists());
}

#[test]
fn truncated_and_oversized_parts_commit() {
    let folder = folder();
    let paths = ["one", "two"].map(|name| folder.path().join(name));
    let connection = open(&paths[0]).unwrap();
    attach(&connection, &paths[1], "two", "perdura");
    connection
        .execute_batch("PRAGMA main.auto_vacuum = FULL; PRAGMA two.auto_vacuum = FULL")
        .unwrap();
    for name in ["main", "two"] {
        let create = format!("CREATE TABLE {name}.t(a INTEGER PRIMARY KEY, b TEXT)");
        connection.execute_batch(&create).unwrap();
    }
    let fill = "WITH RECURSIVE n(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n WHERE a < 600)
         INSERT INTO {}.t SELECT a, hex(randomblob(400)) FROM n;";
    let both = |sql: &str| {
        let all = ["main", "two"].map(|name| sql.replace("{}", name)).concat();
        connection.execute_batch(&format!("BEGIN; {all} COMMIT")).unwrap();
    };
    both(fill);
    both("UPDATE {}.t SET b = hex(randomblob(450));");
    let pages = |name: &str| -> i64 {
        let pragma = format!("PRAGMA {name}.page_count");
        connection.query_row(&pragma, [], |row| row.get(0)).unwrap()
    };
    let before = pages("two");
    both("DELETE FROM {}.t WHERE a > 20;");
    assert!(pages("two") < before / 4, "{before}, {}", pages("two"));
    assert_eq!(stats(&connection, "recoveries"), 0);
    check(&connection);
    drop(connection);
    for path in &paths {
        assert_eq!(rows(&stock(path)).len(), 20);
    }
}

/// A closed database of this VFS with a prepared part, a second row.
fn prepared(directory: &Path, name: &str, super_journal: &Path) -> PathBuf {
    preparing(directory, name, super_journal).0
}

pub(crate) fn refused_by_stock(path: &Path) {
    for sql in ["SELECT * FROM t", "DELETE FROM t"] {
        let error = Connection::open(path).unwrap().execute_batch(sql).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::NotADatabase));
    }
}

#[test]
fn prepared_part_counts_once_super_journal_is_gone() {
    for gone in [false, true] {
        let folder = folder();
        let super_journal = folder.path().join("one-mj012345678");
        let paths = ["one", "two"].map(|name| prepared(folder.path(), name, &super_journal));
        let files = litter(folder.path());
        assert_eq!(files.len(), 3, "{files:?}");
        paths.iter().for_each(|path| refused_by_stock(path));
        // A database of stock SQLite that rolls back leaves the super-journal to the prepared ones.
        let theirs = hot(folder.path(), &super_journal, &paths);
        assert_eq!(rows(&Connection::open(theirs).unwrap()).len(), 1);
        assert_eq!(litter(folder.path()).len(), 3);
        if gone {
            std::fs::remove_file(&super_journal).unwrap();
        }
        for (path, left) in paths.iter().zip([2, 0]) {
            let connection = open(path).unwrap();
            let found = rows(&connection).len();
            assert_eq!(found, if gone { 2 } else { 1 });
            assert_eq!(litter(folder.path()).len(), if gone { left / 2 } else { left });
            // The next commit gets the prepared number, or the one after it.
            connection.execute_batch("INSERT INTO t VALUES(3, 'z')").unwrap();
            drop(connection);
            assert_eq!(rows(&stock(path)).len(), found + 1);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    }
}

/// A database of stock SQLite with a hot journal, which names a super-journal and is named by it.
fn hot(directory: &Path, super_journal: &Path, others: &[PathBuf]) -> PathBuf {
    let (live, path) = (directory.join("live"), directory.join("theirs"));
    let connection = Connection::open(&live).unwrap();
    connection.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'x')").unwrap();
    connection
        .execute_batch("PRAGMA cache_size = 1; BEGIN; INSERT INTO t SELECT 2, hex(zeroblob(9000))")
        .unwrap();
    std::fs::copy(&live, &path).unwrap();
    let mut journal = std::fs::read(journal_of(&live)).unwrap();
    // Spilled pages have a header with their number.
    assert_eq!(&journal[..4], &[0xd9, 0xd5, 0x05, 0xf9]);
    let placeholder = std::fs::read(journal_of(&others[0])).unwrap();
    journal.extend(&placeholder);
    std::fs::write(journal_of(&path), journal).unwrap();
    drop(connection);
    std::fs::remove_file(live).unwrap();
    let mut file = std::fs::OpenOptions::new().append(true).open(super_journal).unwrap();
    file.write_all(&[journal_of(&path).as_os_str().as_bytes(), b"\0"].concat()).unwrap();
    path
}

#[test]
fn others_wait_for_a_prepared_part_or_decide_it() {
    let folder = folder();
    for dies in [false, true] {
        let super_journal = folder.path().join("one-mj012345678");
        let name = format!("dies-{dies}");
        let (path, mut mapped) = preparing(folder.path(), &name, &super_journal);
        let other = open(&path).unwrap();
        other.busy_timeout(std::time::Duration::ZERO).unwrap();
        for sql in ["SELECT * FROM t", "BEGIN IMMEDIATE", "PRAGMA integrity_check"] {
            let error = other.execute_batch(sql).unwrap_err();
            assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
        }
        // Nothing counts while the super-journal exists.
        assert!(mapped.end_transaction().is_err());
        mapped.sync().unwrap();
        if dies {
            drop(mapped);
        } else {
            std::fs::remove_file(&super_journal).unwrap();
            mapped.end_transaction().unwrap();
            mapped.unlock(Level::None).unwrap();
            Box::new(mapped).close().unwrap();
        }
        assert_eq!(rows(&other).len(), if dies { 1 } else { 2 });
        assert_eq!(stats(&other, "recoveries"), u64::from(dies));
        assert_eq!(litter(folder.path()), Vec::<String>::new());
        other.execute_batch("INSERT INTO t VALUES(3, 'z')").unwrap();
        drop(other);
        stock(&path);
    }
}

#[test]
fn undecidable_part_waits_until_it_can_be_decided() {
    let folder = folder();
    let super_journal = folder.path().join("one-mj012345678");
    let (path, mut mapped) = preparing(folder.path(), "one", &super_journal);
    let other = open(&path).unwrap();
    let list = std::fs::read(&super_journal).unwrap();
    // A link to itself: the kernel does not say whether the file exists.
    std::fs::remove_file(&super_journal).unwrap();
    std::os::unix::fs::symlink(&super_journal, &super_journal).unwrap();
    assert!(mapped.end_transaction().is_err());
    mapped.unlock(Level::None).unwrap();
    for _ in 0..2 {
        let error = other.execute_batch("SELECT * FROM t").unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::SystemIoFailure));
        assert!(mapped.lock(Level::Shared).is_err());
    }
    assert_eq!(litter(folder.path()).len(), 2);
    std::fs::remove_file(&super_journal).unwrap();
    std::fs::write(&super_journal, list).unwrap();
    // The connection that prepared it decides as any other.
    mapped.lock(Level::Shared).unwrap();
    mapped.unlock(Level::None).unwrap();
    assert_eq!(rows(&other).len(), 1);
    assert_eq!(litter(folder.path()), Vec::<String>::new());
    Box::new(mapped).close().unwrap();
    drop(other);
    assert_eq!(rows(&stock(&path)).len(), 1);
}

#[test]
fn undecidable_part_is_not_overwritten_by_its_reader() {
    let folder = folder();
    let super_journal = folder.path().join("one-mj012345678");
    let (path, mut mapped) = preparing(folder.path(), "one", &super_journal);
    std::fs::remove_file(&super_journal).unwrap();
    std::os::unix::fs::symlink(&super_journal, &super_journal).unwrap();
    assert!(mapped.end_transaction().is_err());
    mapped.unlock(Level::Shared).unwrap();
    std::fs::remove_file(&super_journal).unwrap();
    for _ in 0..2 {
        assert_eq!(mapped.lock(Level::Reserved), Err(Failure::Busy));
        assert_eq!(mapped.lock(Level::Exclusive), Err(Failure::Busy));
    }
    mapped.unlock(Level::None).unwrap();
    // The next reader finds that it counts.
    for level in [Level::Shared, Level::Reserved, Level::Exclusive] {
        mapped.lock(level).unwrap();
    }
    mapped.unlock(Level::None).unwrap();
    Box::new(mapped).close().unwrap();
    assert_eq!(rows(&stock(&path)).len(), 2);
    assert_eq!(litter(folder.path()), Vec::<String>::new());
}

#[test]
fn forked_child_does_not_decide_its_parents_part() {
    let folder = folder();
    let path = folder.path().join("db");
    let ended = child("prepared-forker").arg(&path).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(rows(&stock(&path)).len(), 2);
}

#[test]
fn placeholder_stays_while_the_side_file_is_missing() {
    let folder = folder();
    let super_journal = folder.path().join("one-mj012345678");
    let path = prepared(folder.path(), "one", &super_journal);
    let away = folder.path().join("away");
    std::fs::rename(side_of(&path), &away).unwrap();
    let error = open(&path).and_then(|one| one.execute_batch("SELECT * FROM t")).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen));
    assert_eq!(litter(folder.path()).len(), 2);
    std::fs::rename(&away, side_of(&path)).unwrap();
    assert_eq!(rows(&open(&path).unwrap()).len(), 1);
    assert_eq!(litter(folder.path()), Vec::<String>::new());
}

#[test]
fn damaged_super_journal_name_is_refused() {
    let folder = folder();
    let super_journal = folder.path().join("one-mj012345678");
    let path = prepared(folder.path(), "one", &super_journal);
    let (data, side) = (std::fs::read(&path).unwrap(), std::fs::read(side_of(&path)).unwrap());
    let bytes = super_journal.as_os_str().len();
    for at in (104..112).chain(128..136 + bytes) {
        let mut damaged = side.clone();
        damaged[at] ^= 1;
        std::fs::write(side_of(&path), damaged).unwrap();
        let refused = Mapped::open(&path, &OpenOptions::default()).unwrap_err();
        assert!(matches!(refused, Failure::CannotOpen(_)), "{at}");
    }
    assert_eq!((std::fs::read(&path).unwrap(), litter(folder.path()).len()), (data, 2));
}

#[test]
fn placeholder_left_before_prepare_is_removed() {
    let folder = folder();
    let super_journal = folder.path().join("one-mj012345678");
    let path = prepared(folder.path(), "one", &super_journal);
    let placeholder = std::fs::read(journal_of(&path)).unwrap();
    drop(open(&path).unwrap());
    // A plain database, a live one, and one that stock SQLite is writing.
    for (mode, left) in [("plain", 0), ("live", 1), ("stock", 2)] {
        std::fs::write(&super_journal, [journal_of(&path).as_os_str().as_bytes(), b"\0"].concat())
            .unwrap();
        std::fs::write(journal_of(&path), &placeholder).unwrap();
        let others = match mode {
            "live" => {
                // While another connection has it open, no placeholder is searched for.
                std::fs::remove_file(journal_of(&path)).unwrap();
                let live = open(&path).unwrap();
                live.execute_batch("INSERT INTO t VALUES(9, 'live')").unwrap();
                std::fs::write(journal_of(&path), &placeholder).unwrap();
                Some(live)
            }
            "stock" => {
                let writes = Connection::open(&path).unwrap();
                writes.execute_batch("PRAGMA journal_mode = MEMORY; BEGIN IMMEDIATE").unwrap();
                Some(writes)
            }
            _ => None,
        };
        let connection = open(&path).unwrap();
        let _ = connection.execute_batch("SELECT * FROM t");
        let there = litter(folder.path()).len();
        assert_eq!(there, if mode == "plain" { 0 } else { 2 }, "{mode}: {left}");
        drop(others);
        drop(connection);
        assert_eq!(litter(folder.path()), Vec::<String>::new(), "{mode}: the last one removes it");
    }
}
