//! Processes that are killed while they commit to two databases.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};

use perdura_sqlite::database::name_at_end;
use rusqlite::Connection;

use crate::attached::{journal_of, keys, litter, refused_by_stock};
use crate::children::child;
use crate::failing::child::{HeldLocks, Process, Size, Work};
use crate::ptrace::{End, kill_at_call};
use crate::register::open;
use crate::sql::{check, folder, rows, stock};

/// The VFS, with both databases shared with stock SQLite.
const SHARED: &str = "perdura&perdura_share=stock";

/// Opens a database with this VFS, shared with stock SQLite if `vfs` says so.
fn open_by(vfs: &str, path: &Path) -> Connection {
    let uri = format!("file:{}?vfs={SHARED}", path.display());
    open(if vfs == SHARED { Path::new(&uri) } else { path }).unwrap()
}

/// Kills a process at each of its system calls while it commits to two databases, the second one by `vfs`. With
/// `live`, open connections continue afterwards, else new ones. Returns how often the transaction was missing, and
/// how often it was there.
fn kill_at_every_call(vfs: &str, live: bool) -> [usize; 2] {
    let folder = folder();
    let paths = ["one", "two"].map(|name| folder.path().join(name));
    let connect = |number: usize| match (number, vfs) {
        (1, "unix") => Connection::open(&paths[1]).unwrap(),
        _ => open_by(vfs, &paths[number]),
    };
    for number in 0..2 {
        let create = "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)";
        connect(number).execute_batch(create).unwrap();
    }
    let mut found = [0, 0];
    for number in 1.. {
        let lives = live.then(|| {
            [0, 1].map(|number| {
                let one = connect(number);
                check(&one);
                one
            })
        });
        let uris = [(&paths[0], if vfs == SHARED { SHARED } else { "perdura" }), (&paths[1], vfs)]
            .map(|(path, vfs)| format!("file:{}?vfs={vfs}", path.display()));
        let mut process =
            Process::start(&uris, (Work::Commit, Size::Stays, HeldLocks::Normal), number as i64);
        let go = || process.stdin.write_all(b"\n").unwrap();
        let end = kill_at_call(&mut process.child, process.thread, number, go);
        let left = litter(folder.path());
        let journals = paths.iter().map(|path| std::fs::read(journal_of(path)).unwrap_or_default());
        let named = journals.filter(|journal| name_at_end(journal).is_some()).count() > 0;
        if !live && std::fs::read(&paths[0]).unwrap()[19] == 80 {
            refused_by_stock(&paths[0]);
            assert_eq!(litter(folder.path()), left, "stock SQLite removes nothing");
        }
        // Stock SQLite comes first, where it is not refused.
        let stocks = paths.each_ref().map(|path| {
            let plain = vfs == SHARED && std::fs::read(path).unwrap()[19] != 80;
            plain.then(|| {
                let stocks = Connection::open(path).unwrap();
                check(&stocks);
                keys(&stocks, "main").contains(&(number as i64))
            })
        });
        let first = number % 2;
        let has = |number: usize, key: usize| {
            let one;
            let connection = match &lives {
                Some(lives) => &lives[number],
                None => {
                    one = connect(number);
                    &one
                }
            };
            check(connection);
            keys(connection, "main").contains(&(key as i64))
        };
        let both = [first, 1 - first].map(|one| has(one, number));
        assert_eq!(both[0], both[1], "call {number} of {vfs}, {live}: {left:?}");
        assert!(both[0] || end == End::Killed, "what was acknowledged is there");
        let is_right = stocks.iter().flatten().all(|stocks| *stocks == both[0]);
        assert!(is_right, "call {number} of {vfs}, {live}: {stocks:?}, {both:?}");
        drop(lives);
        let litter = litter(folder.path());
        // SQLite leaves a super-journal that no journal names yet, and an unsynced journal of its own.
        let unsynced = vfs == "unix" && litter.iter().any(|name| name == "two-journal");
        let may_be = |name: &String| {
            name.contains("-mj") && (!named || unsynced) || unsynced && name == "two-journal"
        };
        let is_left = litter.iter().all(may_be);
        assert!(litter.is_empty() || is_left, "call {number}: {litter:?}, {left:?}");
        litter.iter().for_each(|name| std::fs::remove_file(folder.path().join(name)).unwrap());
        found[usize::from(both[0])] += 1;
        if end == End::Exited {
            break;
        }
    }
    paths.iter().for_each(|path| assert_eq!(rows(&stock(path)).len(), found[1]));
    found
}

#[test]
fn kill_at_any_call_keeps_two_databases_alike() {
    for (vfs, live) in
        [("perdura", false), ("perdura", true), ("unix", false), (SHARED, false), (SHARED, true)]
    {
        let [without, with] = kill_at_every_call(vfs, live);
        println!("{vfs}, live {live}: {without} kills without the transaction, {with} with it");
        assert!(without > 10 && with > 5, "{without}, {with}");
    }
}

#[test]
fn killed_process_next_to_a_live_one_keeps_databases_alike() {
    const ACKNOWLEDGED: usize = 40;
    let folder = folder();
    let paths = ["one", "two"].map(|name| folder.path().join(name));
    for path in &paths {
        let create = "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)";
        open(path).unwrap().execute_batch(create).unwrap();
    }
    let listen = |child: &mut Child| {
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        lines.filter_map(|line| line.split("=done ").nth(1).and_then(|key| key.parse::<i64>().ok()))
    };
    for round in 0..6 {
        let firsts = [1_000_000, 2_000_000].map(|first| first + round * 10_000);
        let mut children = firsts.map(|first| {
            child("pair-writer")
                .args(&paths)
                .arg(first.to_string())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        });
        let mut reported = children.each_mut().map(listen);
        let last = reported[0].by_ref().nth(ACKNOWLEDGED + round as usize).unwrap();
        children[0].kill().unwrap();
        let last = reported[0].by_ref().last().unwrap_or(last);
        // The other process continues.
        let then = reported[1].by_ref().nth(ACKNOWLEDGED).unwrap();
        children[1].kill().unwrap();
        let then = reported[1].by_ref().last().unwrap_or(then);
        for child in &mut children {
            child.wait().unwrap();
        }
        let found = paths.each_ref().map(|path| {
            let one = open(path).unwrap();
            check(&one);
            keys(&one, "main")
        });
        for (first, last) in firsts.into_iter().zip([last, then]) {
            let wanted = |all: bool, last: i64| -> Vec<i64> {
                (first..=last).filter(|key| key % 5 > 0 && (all || key % 3 > 0)).collect()
            };
            let range = first..first + 10_000;
            let of = |keys: &[i64]| -> Vec<i64> {
                keys.iter().copied().filter(|key| range.contains(key)).collect()
            };
            let pair = found.each_ref().map(|keys| of(keys));
            // The transaction under way may be there, in both.
            let right = [last, last + 1].map(|last| [wanted(true, last), wanted(false, last)]);
            assert!(right.contains(&pair), "round {round}: acknowledged {last}, {pair:?}");
        }
        assert!(litter(folder.path()).iter().all(|name| name.contains("-mj")), "round {round}");
    }
    paths.iter().for_each(|path| drop(stock(path)));
}
