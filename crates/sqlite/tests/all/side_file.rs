//! The side file of a database: whose it is, what happens if it is removed, and if there is no room for it.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use perdura_sqlite::database::{Mapped, OpenOptions, why_not_taken};
use rusqlite::ErrorCode;

use crate::kernel_calls::on_a_full_medium;
use crate::register::{open, stats};
use crate::sql::{check, folder, rows, side_of, stock};

const CREATE: &str =
    "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); INSERT INTO t VALUES(1, 'one')";

fn access(path: &Path) -> (u32, u32, u32) {
    let found = std::fs::metadata(path).unwrap();
    (found.uid(), found.gid(), found.mode() & 0o777)
}

/// Root opens another user's database. Without root's rights nothing can be given away.
#[test]
fn side_file_belongs_to_the_databases_owner() {
    let directory = folder();
    let path = directory.path().join("db");
    rusqlite::Connection::open(&path).unwrap().execute_batch(CREATE).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o660)).unwrap();
    if chown(&path, Some(1234), Some(1235)).is_err() {
        return;
    }
    let one = open(&path).unwrap();
    one.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
    assert_eq!(access(&side_of(&path)), (1234, 1235, 0o660));
    // One that a process of another user left.
    chown(side_of(&path), Some(0), Some(0)).unwrap();
    std::fs::set_permissions(side_of(&path), std::fs::Permissions::from_mode(0o600)).unwrap();
    let two = open(&path).unwrap();
    assert_eq!((rows(&two).len(), access(&side_of(&path))), (2, (1234, 1235, 0o660)));
    // Another name may be another one's file.
    std::fs::hard_link(side_of(&path), directory.path().join("name")).unwrap();
    chown(side_of(&path), Some(0), Some(0)).unwrap();
    drop(open(&path).unwrap());
    assert_eq!(access(&side_of(&path)), (0, 0, 0o660));
}

#[test]
fn commit_without_the_side_files_name_is_refused() {
    for moved in [false, true] {
        for journal in ["delete", "memory", "off"] {
            let directory = folder();
            let (path, copy) = (directory.path().join("db"), directory.path().join("copy"));
            let one = open(&path).unwrap();
            let mode = format!("PRAGMA journal_mode = {journal}; PRAGMA perdura_mode = fash1");
            one.execute_batch(&format!("{mode}; {CREATE}")).unwrap();
            for key in 2..400 {
                let row = (key * 7_919 % 400 + 2, "x".repeat(90));
                one.execute("INSERT OR IGNORE INTO t VALUES(?1, ?2)", row).unwrap();
            }
            let before = rows(&one);
            assert!(stats(&one, "moved") > 0 || journal != "delete");
            match moved {
                true => std::fs::rename(side_of(&path), directory.path().join("away")).unwrap(),
                false => std::fs::remove_file(side_of(&path)).unwrap(),
            }
            pm::Tick::now().wait_for_next();
            let error = one.execute_batch("INSERT INTO t VALUES(1000, 'lost')").unwrap_err();
            assert_eq!(error.sqlite_error_code(), Some(ErrorCode::ReadOnly));
            // A kill now loses nothing.
            std::fs::copy(&path, &copy).unwrap();
            assert_eq!(rows(&stock(&copy)), before, "{journal}");
            assert_eq!(rows(&one), before);
            assert!(one.execute_batch("INSERT INTO t VALUES(1000, 'lost')").is_err());
            // A new connection has a new side file, and the old one notices.
            let two = open(&path).unwrap();
            two.execute_batch("INSERT INTO t VALUES(1000, 'kept')").unwrap();
            assert!(one.execute_batch("SELECT * FROM t").is_err(), "{journal}");
            drop(one);
            check(&two);
            assert_eq!(rows(&two).len(), before.len() + 1);
            drop(two);
            assert_eq!(rows(&stock(&path)).len(), before.len() + 1);
        }
    }
}

#[test]
fn renamed_database_is_not_written_to() {
    let directory = folder();
    let path = directory.path().join("db");
    let one = open(&path).unwrap();
    one.execute_batch(CREATE).unwrap();
    std::fs::rename(&path, directory.path().join("elsewhere")).unwrap();
    pm::Tick::now().wait_for_next();
    let error = one.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::ReadOnly));
    std::fs::rename(directory.path().join("elsewhere"), &path).unwrap();
    one.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
}

#[test]
fn database_without_room_for_a_side_file_is_stock_sqlites() {
    let directory = folder();
    let path = directory.path().join("db");
    rusqlite::Connection::open(&path).unwrap().execute_batch(CREATE).unwrap();
    let one = on_a_full_medium(|| open(&path)).unwrap();
    assert!(one.query_row("PRAGMA perdura_share", [], |_| Ok(())).is_err(), "it is not ours");
    assert!(!side_of(&path).exists());
    assert_eq!(rows(&one).len(), 1);
    one.execute_batch("DELETE FROM t").unwrap();
    drop(one);
    // One that a kill left needs no room.
    let (killed, one) = (directory.path().join("killed"), open(&path).unwrap());
    one.execute_batch("INSERT INTO t VALUES(3, 'three')").unwrap();
    std::fs::copy(&path, &killed).unwrap();
    std::fs::copy(side_of(&path), side_of(&killed)).unwrap();
    drop(one);
    let two = on_a_full_medium(|| {
        let two = open(&killed).unwrap();
        assert_eq!(rows(&two).len(), 1);
        two.execute_batch("DELETE FROM t").unwrap();
        two
    });
    drop(two);
    assert_eq!(rows(&stock(&killed)), []);
}

/// SQLite's cache has a page 1 that says so.
#[test]
fn copy_of_a_wal_database_leaves_its_connection_usable() {
    let directory = folder();
    let source = rusqlite::Connection::open(directory.path().join("wal")).unwrap();
    let mode: String = source.query_row("PRAGMA journal_mode = wal", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
    source.execute_batch(CREATE).unwrap();
    for (mode, wal) in
        crate::process_kills::MODES.into_iter().flat_map(|mode| [(mode, "on"), (mode, "off")])
    {
        let path = directory.path().join(format!("{mode}-{wal}"));
        let uri = format!("file:{}?perdura_mode={mode}&perdura_wal={wal}", path.display());
        let open = || open(Path::new(&uri)).unwrap();
        let one = open();
        for key in 2..5 {
            crate::register::backup(&source, &one);
            assert_eq!(rows(&one).len(), 1, "{mode}, {wal}");
            one.execute("INSERT INTO t VALUES(?1, 'more')", [key]).unwrap();
            assert_eq!((rows(&one).len(), rows(&open()).len()), (2, 2), "{mode}, {wal}");
        }
        drop(one);
        // With WAL mode the copy is in it, as its source is.
        let later = match wal {
            "on" => rusqlite::Connection::open(&path).unwrap(),
            _ => stock(&path),
        };
        assert_eq!(rows(&later).len(), 2, "{mode}, {wal}");
    }
}

#[test]
fn first_commit_and_last_close_change_the_files_time() {
    let directory = folder();
    let path = directory.path().join("db");
    rusqlite::Connection::open(&path).unwrap().execute_batch(CREATE).unwrap();
    let past = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    let set = || std::fs::File::options().write(true).open(&path).unwrap().set_modified(past);
    let is_past = || std::fs::metadata(&path).unwrap().modified().unwrap() == past;
    set().unwrap();
    let one = open(&path).unwrap();
    assert_eq!((rows(&one).len(), is_past()), (1, true), "a reader changes nothing");
    one.execute_batch("UPDATE t SET b = 'two'").unwrap();
    assert!(!is_past());
    set().unwrap();
    drop(one);
    assert!(!is_past());
}

/// A checkpoint stores in the mapping, which leaves the time as it is: a program that copies what has changed, by time
/// and length, would miss it.
#[test]
fn first_checkpoint_and_last_close_change_the_files_time() {
    let directory = folder();
    let path = directory.path().join("db");
    let plain = rusqlite::Connection::open(&path).unwrap();
    plain.execute_batch("PRAGMA journal_mode = wal").unwrap();
    plain.execute_batch(CREATE).unwrap();
    drop(plain);
    let past = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    let set = || std::fs::File::options().write(true).open(&path).unwrap().set_modified(past);
    let is_past = || std::fs::metadata(&path).unwrap().modified().unwrap() == past;
    set().unwrap();
    let one = open(&path).unwrap();
    assert_eq!((rows(&one).len(), is_past()), (1, true), "a reader changes nothing");
    one.execute_batch("UPDATE t SET b = 'two'").unwrap();
    assert!(is_past(), "the commit is in the log");
    one.execute_batch("PRAGMA wal_checkpoint").unwrap();
    assert!(!is_past());
    set().unwrap();
    one.execute_batch("UPDATE t SET b = 'six'").unwrap();
    drop(one);
    assert!(!is_past());
    set().unwrap();
    let one = open(&path).unwrap();
    one.execute_batch("UPDATE t SET b = 'ten'").unwrap();
    drop(one);
    assert!(!is_past(), "a checkpoint at the close");
    set().unwrap();
    assert_eq!((rows(&open(&path).unwrap()).len(), is_past()), (1, true));
}

/// The log and the index file have names, and are those of the removed database as long as it is in use.
#[test]
fn database_made_in_place_of_an_open_one_is_locked() {
    let directory = folder();
    let path = directory.path().join("db");
    let old = open(&path).unwrap();
    old.execute_batch("PRAGMA journal_mode = wal").unwrap();
    old.execute_batch(CREATE).unwrap();
    std::fs::remove_file(&path).unwrap();
    let new = open(&path).unwrap();
    new.busy_timeout(std::time::Duration::ZERO).unwrap();
    let error = new.execute_batch("CREATE TABLE u(c)").unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy), "{error}");
    old.execute_batch("INSERT INTO t VALUES(2, 'more')").unwrap();
    assert_eq!(rows(&old).len(), 2);
    drop(old);
    new.execute_batch("CREATE TABLE u(c)").unwrap();
    drop(new);
    let plain = rusqlite::Connection::open(&path).unwrap();
    let tables: String = plain
        .query_row("SELECT group_concat(name) FROM sqlite_schema", [], |row| row.get(0))
        .unwrap();
    assert_eq!(tables, "u");
}

#[test]
fn reason_is_given_for_each_database_that_is_left() {
    let directory = folder();
    let path = |name: &str| directory.path().join(name);
    let made = |name: &str, sql: &str| {
        let stock = rusqlite::Connection::open(path(name)).unwrap();
        stock.execute_batch(sql).unwrap();
        stock
    };
    let wal = made("wal", "PRAGMA journal_mode = wal; CREATE TABLE t(a)");
    drop(made("full", CREATE));
    std::fs::write(path("cipher"), [7; 4096]).unwrap();
    std::fs::create_dir(path("taken-perdura")).unwrap();
    drop(made("taken", CREATE));
    let options = OpenOptions::default;
    let reason = |name: &str, options: OpenOptions| {
        assert!(Mapped::open(&path(name), &options).unwrap().is_none(), "{name}");
        why_not_taken().unwrap().to_str().unwrap()
    };
    let mode = Some("stock".to_owned());
    for (name, options, wanted) in [
        ("wal", options(), "WAL mode"),
        ("cipher", options(), "encrypts it"),
        ("taken", options(), "no side file can be made"),
        ("none", options(), "cannot be opened for writing"),
        ("full", OpenOptions { mode, ..options() }, "perdura_mode=stock"),
    ] {
        assert!(reason(name, options).contains(wanted), "{name}");
    }
    assert!(on_a_full_medium(|| reason("full", options())).contains("no room"));
    drop(wal);
    assert!(Mapped::open(&path("full"), &options()).unwrap().is_some());
    assert_eq!(why_not_taken(), None);
}
