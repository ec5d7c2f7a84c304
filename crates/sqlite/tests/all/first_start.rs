//! The first start of a database: killed at any system call it can be repeated, and what it relies on is durable.

use std::cell::RefCell;
use std::io::Write as _;
use std::path::Path;
use std::rc::Rc;

use perdura_sqlite::database::{MainFile as _, Mapped, OpenOptions};
use pm::{Domain, Plain, PlainOptions};

use crate::children::child;
use crate::failing::child::{LONG, Process};
use crate::kernel_calls::watching_syncs;
use crate::ptrace::{Call, End, kill_at};
use crate::register::open;
use crate::sql::{check, folder, rows, side_of, stock};

const CREATE: &str = "BEGIN; CREATE TABLE IF NOT EXISTS t(a INTEGER PRIMARY KEY, b TEXT);
    INSERT OR IGNORE INTO t VALUES(1, 'one'); COMMIT";

#[test]
fn killed_creation_can_be_repeated() {
    for way in [
        "perdura_share=perdura",
        "perdura_share=stock",
        "perdura_share=perdura&perdura_domain=disk",
        "perdura_share=stock&perdura_mode=nvwal",
    ] {
        let mut found = [0, 0];
        for number in 1.. {
            let folder = folder();
            let path = folder.path().join("db");
            let uri = format!("file:{}?{way}", path.display());
            let mut process = Process::spawn(child("creator").args([uri.as_str(), CREATE]));
            let go = || process.stdin.write_all(b"\n").unwrap();
            let end = kill_at(&mut process.child, process.thread, number, Call::is_of_files, go);
            let one = open(Path::new(&uri)).unwrap();
            one.busy_timeout(LONG).unwrap();
            check(&one);
            let tables = "SELECT count(*) FROM sqlite_schema";
            let tables: u32 = one.query_row(tables, [], |row| row.get(0)).unwrap();
            found[tables as usize] += 1;
            assert!(tables == 1 || end == End::Killed, "{way}, call {number}");
            one.execute_batch(CREATE).unwrap();
            one.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
            one.close().unwrap();
            assert_eq!(rows(&stock(&path)).len(), 2, "{way}, call {number}");
            if end == End::Exited {
                break;
            }
        }
        println!("{way}: {found:?}");
        assert!(found[0] > 10 && found[1] > 2, "{way}: {found:?}");
    }
}

/// The marker refuses a database without its side file for ever, so the name may not be lost.
#[test]
fn side_files_name_is_durable_before_the_marker() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let directory = directory.path().canonicalize().unwrap();
    let path = directory.join("db");
    let options = PlainOptions { create: true, ..PlainOptions::default() };
    if Plain::open(&path, &options).unwrap().domain() != Domain::Disk {
        println!("left out: the folder of this build is not on a disk");
        return;
    }
    std::fs::remove_file(&path).unwrap();
    let synced = Rc::new(RefCell::new(false));
    let (noted, side) = (Rc::clone(&synced), side_of(&path));
    let watch = move |of: &Path| *noted.borrow_mut() |= of == directory && side.exists();
    let options =
        OpenOptions { create: true, domain: Some("disk".into()), ..OpenOptions::default() };
    let opened = watching_syncs(Box::new(watch), || Mapped::open(&path, &options));
    let opened = opened.unwrap().unwrap();
    assert!(*synced.borrow(), "no commit can set the marker before this");
    Box::new(opened).close().unwrap();
}
