//! Folders that a process may use and not read, so that it cannot sync them. SQLite does not sync such a folder.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use perdura_sqlite::database::{Level, MainFile as _, Mapped, OpenOptions};
use pm::{Domain, Plain, PlainOptions};
use rusqlite::{Connection, OpenFlags};

use crate::attached::{litter, preparing};
use crate::forked::in_forked_child;
use crate::kernel_calls::syncs_of_all;
use crate::register::register;
use crate::sql::{folder, rows, side_of, stock};

/// The user that the tests become if root runs them: permissions do not bind root.
const USER: u32 = 65_534;

/// Runs `work` in a forked child, as a user who owns all in the folder `tree`, may use the names in `unreadable`, and
/// may not list them.
fn as_its_user(tree: &Path, unreadable: &Path, work: impl FnOnce() -> bool) -> bool {
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if is_root {
        own(tree);
    }
    std::fs::set_permissions(unreadable, Permissions::from_mode(0o300)).unwrap();
    let done = in_forked_child(|| {
        // Relative paths lead there whatever that user may do elsewhere.
        std::env::set_current_dir(unreadable).unwrap();
        if is_root {
            become_user(USER);
        }
        assert!(std::fs::File::open(".").is_err());
        work()
    });
    std::fs::set_permissions(unreadable, Permissions::from_mode(0o700)).unwrap();
    done
}

fn own(path: &Path) {
    chown(path, Some(USER), None).unwrap();
    if path.is_dir() {
        std::fs::read_dir(path).unwrap().for_each(|entry| own(&entry.unwrap().path()));
    }
}

/// A folder on a disk, whose names have to be synced; `None` if the folder of this build is on none.
fn on_disk() -> Option<tempfile::TempDir> {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = PlainOptions { create: true, ..PlainOptions::default() };
    let found = Plain::open(&directory.path().join("medium"), &options).unwrap();
    if found.domain() != Domain::Disk {
        println!("left out: the folder of this build is not on a disk");
        return None;
    }
    Some(directory)
}

fn on_a_disk() -> OpenOptions {
    OpenOptions { create: true, domain: Some("disk".into()), ..OpenOptions::default() }
}

#[test]
fn database_in_unreadable_folder_is_left_to_stock() {
    let Some(directory) = on_disk() else { return };
    let path = directory.path().join("db");
    for is_new in [true, false] {
        let done = as_its_user(directory.path(), directory.path(), || {
            let opened = Mapped::open(Path::new("db"), &on_a_disk());
            assert!(matches!(opened, Ok(None)), "{opened:?}");
            syncs_of_all() == 0
        });
        assert!(done, "new: {is_new}");
        assert!(!side_of(&path).exists());
        let create = "CREATE TABLE IF NOT EXISTS t(a INTEGER PRIMARY KEY, b TEXT)";
        Connection::open(&path).unwrap().execute_batch(create).unwrap();
    }
    let opened = Mapped::open(&path, &on_a_disk()).unwrap().expect("it can be read again");
    Box::new(opened).close().unwrap();
}

/// It is marked, so stock SQLite cannot open it.
#[test]
fn killed_database_in_unreadable_folder_is_recovered() {
    let Some(directory) = on_disk() else { return };
    let path = directory.path().join("db");
    assert!(in_forked_child(|| {
        register();
        let name = format!("file:{}?perdura_domain=disk", path.display());
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
        let one = Connection::open_with_flags_and_vfs(name, flags, "perdura").unwrap();
        let write = "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); INSERT INTO t VALUES(1, 'x')";
        one.execute_batch(write).unwrap();
        // It dies with the database open.
        std::mem::forget(one);
        true
    }));
    assert!(side_of(&path).exists());
    assert!(as_its_user(directory.path(), directory.path(), || {
        let mut opened = Mapped::open(Path::new("db"), &on_a_disk()).unwrap().expect("marked");
        opened.lock(Level::Shared).unwrap();
        opened.unlock(Level::None).unwrap();
        Box::new(opened).close().unwrap();
        // One for the side file's name, and one for its removal.
        syncs_of_all() == 2
    }));
    assert!(!side_of(&path).exists());
    assert_eq!(rows(&stock(&path)).len(), 1);
}

#[test]
fn super_journal_in_unreadable_folder_is_decided() {
    let folder = folder();
    let apart: PathBuf = folder.path().join("apart");
    std::fs::create_dir(&apart).unwrap();
    let super_journal = apart.join("one-mj012345678");
    let (path, owner) = preparing(folder.path(), "one", &super_journal);
    drop(owner);
    std::fs::remove_file(&super_journal).unwrap();
    assert!(as_its_user(folder.path(), &apart, || {
        let mut opened = Mapped::open(&path, &OpenOptions::default()).unwrap().expect("marked");
        opened.lock(Level::Shared).unwrap();
        opened.unlock(Level::None).unwrap();
        let synced = syncs_of_all();
        Box::new(opened).close().unwrap();
        synced == 1
    }));
    assert_eq!(rows(&stock(&path)).len(), 2);
    assert_eq!(litter(folder.path()), Vec::<String>::new());
}

/// Makes the process, a forked child of root's, one of another user, for good.
fn become_user(user: u32) {
    // SAFETY: numbers alone are passed, and the child has no other thread.
    assert_eq!(unsafe { libc::setresuid(user, user, user) }, 0);
}
