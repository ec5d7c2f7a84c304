//! Transactions over several databases that are attached to one connection.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode};

use crate::registered::{open, stats};
use crate::sql::{check, folder, rows, side_of, stock};

const ONE: &str = "one";

pub(crate) fn journal_of(path: &Path) -> PathBuf {
    path.with_file_name(format!("{}-journal", path.file_name().unwrap().to_str().unwrap()))
}

pub(crate) fn attach(connection: &Connection, path: &Path, name: &str, vfs: &str) {
    let attach = format!("ATTACH 'file:{}?vfs={vfs}' AS {name}", path.display());
    connection.execute_batch(&attach).unwrap();
}

/// A connection with databases attached that are called by these names, each with a table.
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

fn keys(connection: &Connection, name: &str) -> Vec<i64> {
    let mut select = connection.prepare(&format!("SELECT a FROM {name}.t ORDER BY a")).unwrap();
    select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// The files in a directory that are neither a database nor a side file.
pub(crate) fn litter(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name.contains("-journal") || name.contains("-mj"));
    names
}

fn insert(names: &[&str], key: i64) -> String {
    let each = names.iter().map(|name| format!("INSERT INTO {name}.t VALUES({key}, 'text');"));
    format!("BEGIN; {} COMMIT", each.collect::<String>())
}

#[test]
fn a_transaction_over_three_databases_of_which_one_is_unchanged_is_in_both_others() {
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
                // It has the lock, and writes nothing.
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

#[test]
fn databases_of_the_ordinary_vfs_take_part_on_either_side() {
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
fn a_part_is_rolled_back_if_another_one_cannot_be_prepared() {
    // The one that fails comes last, first, and between two others.
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
            // A reader of the same connection: the locks are not given up.
            let mut select = connection.prepare("SELECT a FROM main.t").unwrap();
            let mut reading = select.query([]).unwrap();
            reading.next().unwrap().unwrap();
            connection.execute_batch(&insert(&all, 9).replace("COMMIT", "")).unwrap();
            // One that SQLite would roll back: there can be no stub.
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
        // It goes on: each alone, and all together.
        connection.execute_batch("INSERT INTO two.t VALUES(3, 'alone')").unwrap();
        connection.execute_batch(&insert(&all, 4)).unwrap();
        drop(connection);
        for (path, count) in paths.iter().zip([3, 4, 3]) {
            assert_eq!(rows(&stock(path)).len(), count, "{fails}");
        }
    }
}

#[test]
fn a_database_is_detached_behind_a_transaction_over_it_and_is_plain() {
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
fn a_part_that_is_cut_behind_its_commit_and_one_that_fits_into_no_slot_count() {
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
