//! Databases that are attached to one connection, and what is left of their transactions.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use perdura_sqlite::database::{Level, MainFile as _, Mapped, OpenOptions};
use rusqlite::Connection;

use crate::register::open;

pub(crate) fn journal_of(path: &Path) -> PathBuf {
    path.with_file_name(format!("{}-journal", path.file_name().unwrap().to_str().unwrap()))
}

pub(crate) fn attach(connection: &Connection, path: &Path, name: &str, vfs: &str) {
    let attach = format!("ATTACH 'file:{}?vfs={vfs}' AS {name}", path.display());
    connection.execute_batch(&attach).unwrap();
}

/// The journals and super-journals left in a directory.
pub(crate) fn litter(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name.contains("-journal") || name.contains("-mj"));
    names
}

pub(crate) fn insert(names: &[&str], key: i64) -> String {
    let each = names.iter().map(|name| format!("INSERT INTO {name}.t VALUES({key}, 'text');"));
    format!("BEGIN; {} COMMIT", each.collect::<String>())
}

/// The same, still open.
pub(crate) fn preparing(directory: &Path, name: &str, super_journal: &Path) -> (PathBuf, Mapped) {
    let path = directory.join(name);
    let connection = open(&path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); INSERT INTO t VALUES(1, 'x')",
        )
        .unwrap();
    connection.close().unwrap();
    let copy = directory.join("copy");
    std::fs::copy(&path, &copy).unwrap();
    Connection::open(&copy).unwrap().execute_batch("INSERT INTO t VALUES(2, 'y')").unwrap();
    let journals = [journal_of(&path).as_os_str().as_bytes(), b"\0"].concat();
    let mut file =
        std::fs::OpenOptions::new().append(true).create(true).open(super_journal).unwrap();
    file.write_all(&journals).unwrap();
    let mut mapped = Mapped::open(&path, &OpenOptions::default()).unwrap().unwrap();
    for level in [Level::Shared, Level::Reserved, Level::Exclusive] {
        mapped.lock(level).unwrap();
    }
    mapped.write(0, &std::fs::read(&copy).unwrap()).unwrap();
    mapped.commit(Some(super_journal.as_os_str().as_bytes())).unwrap();
    std::fs::remove_file(copy).unwrap();
    (path, mapped)
}
