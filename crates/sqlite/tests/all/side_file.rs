//! The side file of a database: whose it is, what happens if it is removed, and if there is no room for it.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use crate::register::open;
use crate::sql::{folder, rows, side_of};

const CREATE: &str =
    "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); INSERT INTO t VALUES(1, 'one')";

fn access(path: &Path) -> (u32, u32, u32) {
    let found = std::fs::metadata(path).unwrap();
    (found.uid(), found.gid(), found.mode() & 0o777)
}

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
