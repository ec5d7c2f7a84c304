//! A database in emulated memory that counts lines.

use std::path::Path;
use std::sync::Mutex;

use perdura_sqlite::database::{MemoryFile, OpenOptions, Opened, Opener};
use perdura_sqlite::store::connection::{Media, Store};
use perdura_sqlite::store::mode::Mode;
use perdura_sqlite::store::region::Region;
use rusqlite::{Connection, OpenFlags};
use sim::{Arena, Emulated, LineCounts, Meter, MeterOptions};

use crate::register::register;

/// The memories of the next database.
static NEXT: Mutex<Option<Media<Emulated<Arena>>>> = Mutex::new(None);

/// Opens the next database.
#[derive(Debug)]
pub(crate) struct EmulatedOpener;

impl Opener for EmulatedOpener {
    fn open(&self, _: &Path, _: &OpenOptions) -> Opened {
        let media = NEXT.lock().unwrap().take().expect("one waits");
        Opened::File(Box::new(MemoryFile::new(Store::open(media, 0, 1, 256 << 10).unwrap())))
    }
}

/// Opens a new database in memories whose lines are counted.
fn emulated(meter: &Meter) -> Connection {
    register();
    let memory = || Emulated::new(Arena::new(1 << 20, 1 << 30).unwrap(), meter);
    let (data, side) = (Region::whole(memory()), Region::whole(memory()));
    // Concurrent tests take turns.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap();
    *NEXT.lock().unwrap() = Some(Media { data, side, separate_fences: false, needs_flush: true });
    let flags = OpenFlags::default();
    Connection::open_with_flags_and_vfs("emulated", flags, "perdura-emulated").unwrap()
}

/// The counts of 200 ascending inserts.
fn counts(mode: Mode) -> LineCounts {
    let options = MeterOptions { cache_bytes: 1 << 26, flush_evicts: true, ..Default::default() };
    let meter = Meter::new(options);
    let connection = emulated(&meter);
    let chosen = format!("PRAGMA perdura_mode = {}", mode.name());
    let chosen: String = connection.query_row(&chosen, [], |row| row.get(0)).unwrap();
    assert_eq!(chosen, mode.name());
    connection.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    meter.reset();
    for key in 0..200 {
        connection.execute("INSERT INTO t VALUES(?1, ?2)", (key, "x".repeat(136))).unwrap();
    }
    let found = meter.counts();
    assert_eq!(crate::sql::rows(&connection).len(), 200);
    assert_eq!(crate::register::stats(&connection, "commits"), 201);
    found
}

#[test]
fn emulated_lines_and_fences_match_the_modes_steps() {
    let all = [Mode::Fast, Mode::Fash, Mode::Nvwal].map(|mode| {
        let (one, two) = (counts(mode), counts(mode));
        assert_eq!(one, two, "{mode:?}");
        (one.flush_requests, one.fences, one.accesses)
    });
    println!("{all:?}");
    let [fast, fash, nvwal] = all;
    assert!(fast.0 < fash.0 && nvwal.0 < fash.0, "{all:?}");
    assert!((400..420).contains(&fast.1) && fash.1 == 600 && (400..420).contains(&nvwal.1));
    // NVWAL reads from ordinary memory.
    assert!(nvwal.2 < fash.2, "{all:?}");
}

/// Inserts rows in random order in the mode `fast`. Returns the number of commits, and of those made in place.
fn random_inserts(connection: &Connection) -> [u64; 2] {
    connection
        .execute_batch("PRAGMA perdura_mode = fast; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)")
        .unwrap();
    for number in 0..300_i64 {
        let row = (number * 7_919 % 1_009, format!("{number:0250}"));
        connection.execute("INSERT INTO t VALUES(?1, ?2)", row).unwrap();
    }
    ["commits", "in_place"].map(|name| crate::register::stats(connection, name))
}

#[test]
fn header_line_is_stored_whole_in_files_if_possible() {
    let directory = crate::sql::folder();
    let (meter, path) = (Meter::new(MeterOptions::default()), directory.path().join("db"));
    let by_lines = random_inserts(&emulated(&meter));
    let in_file = random_inserts(&crate::register::open(&path).unwrap());
    assert_eq!((by_lines[0], in_file[0]), (301, 301));
    // Most go between others, which moves pointers.
    assert!(by_lines[1] > 40, "{by_lines:?}");
    let options = pm::PlainOptions { create: true, ..pm::PlainOptions::default() };
    let file = pm::Plain::open(&directory.path().join("other"), &options).unwrap();
    if pm::Memory::has_store_line(&file) {
        assert_eq!(by_lines, in_file);
    } else {
        assert!(in_file[1] < by_lines[1] / 4, "{in_file:?}, {by_lines:?}");
    }
}
