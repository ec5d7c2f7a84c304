//! Random SQL: the frames hold what SQLite wrote, and stock SQLite finds no error in them. Power is cut in each
//! commit.

use std::path::Path;

use perdura_sqlite::store::placement::parse::Page;
use perdura_sqlite::store::shape::Shape;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rusqlite::{Connection, params};

use super::crashes::Wrong;
use super::mirror::Mirror;

/// A folder in memory, if there is one.
pub(crate) fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

pub(crate) const QUICK: &str =
    "pragma locking_mode = exclusive; pragma journal_mode = memory; pragma synchronous = off;";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) page_bytes: usize,
    pub(crate) auto_vacuum: u8,
    pub(crate) secure_delete: bool,
    pub(crate) commits: usize,
    pub(crate) seed: u64,
    pub(crate) wrong: Wrong,
}

fn rows(db: &Connection) -> Vec<(i64, String, Vec<u8>)> {
    let mut all = Vec::new();
    for sql in [
        "select id, name, value from t order by id",
        "select number, name, value from w order by name, number",
        "select id, name, value from t indexed by by_name order by name, id",
    ] {
        let mut statement = db.prepare(sql).unwrap();
        let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        all.extend(found.unwrap().map(Result::unwrap));
    }
    all
}

fn value(random: &mut SmallRng, page_bytes: usize) -> Vec<u8> {
    let most = match random.random_range(0..12) {
        0 => 3 * page_bytes,
        1..4 => page_bytes / 3,
        _ => 80,
    };
    let mut value = vec![0; random.random_range(0..=most)];
    random.fill(&mut value[..]);
    value
}

/// A transaction of some changes, or sometimes a `VACUUM`.
fn change(db: &Connection, random: &mut SmallRng, scenario: Scenario) {
    if random.random_ratio(1, 60) {
        return db.execute_batch("vacuum").unwrap();
    }
    let sql = |text: &str, values: &[&dyn rusqlite::ToSql]| {
        db.prepare_cached(text).unwrap().execute(values).unwrap();
    };
    sql("begin", &[]);
    let many = if random.random_ratio(1, 10) { 40 } else { 3 };
    for _ in 0..random.random_range(1..=many) {
        let id = random.random_range(0..400i64);
        let name = format!("name {}", random.random_range(0..90));
        let bytes = value(random, scenario.page_bytes);
        match random.random_range(0..12) {
            0..4 => sql("insert or replace into t values (?, ?, ?)", &[&id, &name, &bytes]),
            4..6 => sql("insert or replace into w values (?, ?, ?)", &[&name, &(id % 9), &bytes]),
            6 => sql("update t set value = ? where id = ?", &[&bytes, &id]),
            7 => sql("update t set name = ? where id = ?", &[&name, &id]),
            8 => sql("update w set value = ? where name = ?", &[&bytes, &name]),
            9 => sql("delete from t where id between ? and ? + 3", &[&id, &id]),
            10 => sql("delete from w where name = ?", &[&name]),
            _ => sql(
                "insert or ignore into t select id + 400, name, zeroblob(id % 50) from t where id = ?",
                &[&id],
            ),
        }
    }
    if random.random_ratio(1, 40) {
        sql("delete from t where id % 3 = 0", &[]);
    }
    sql("commit", &[]);
}

pub(crate) fn run(scenario: Scenario) {
    let folder = folder();
    let (path, copy) = (folder.path().join("db"), folder.path().join("copy"));
    let mut random = SmallRng::seed_from_u64(scenario.seed);
    let open = || {
        let db = Connection::open(&path).unwrap();
        db.execute_batch(&format!(
            "pragma page_size = {}; pragma auto_vacuum = {}; pragma secure_delete = {}; {QUICK}",
            scenario.page_bytes, scenario.auto_vacuum, scenario.secure_delete
        ))
        .unwrap();
        db
    };
    let mut db = open();
    db.execute_batch(
        "create table t (id integer primary key, name text, value blob);
         create index by_name on t (name, value);
         create table w (name text, number integer, value blob, primary key (name, number)) without rowid;",
    )
    .unwrap();
    let mut mirror = Mirror::new(&std::fs::read(&path).unwrap(), scenario.secure_delete);
    mirror.cut_power(scenario.seed, scenario.wrong);
    for commit in 0..scenario.commits {
        change(&db, &mut random, scenario);
        mirror.commit(&std::fs::read(&path).unwrap());
        if commit % 25 != 24 && commit + 1 != scenario.commits {
            continue;
        }
        std::fs::write(&copy, mirror.file()).unwrap();
        let stock = Connection::open(&copy).unwrap();
        let verdict: String =
            stock.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(verdict, "ok", "{scenario:?}, commit {commit}");
        assert!(rows(&stock) == rows(&db), "{scenario:?}, commit {commit}: rows differ");
        if random.random() {
            drop(db);
            std::fs::write(&path, mirror.file()).unwrap();
            mirror.read_again();
            db = open();
        }
    }
    let (medium, _) = mirror.medium.as_ref().unwrap();
    assert!(medium.newer_lost.min(medium.newer_found) > scenario.commits);
    parsed_as_sqlite_does(&db, &std::fs::read(&path).unwrap());
}

/// Each page of a b-tree is parsed with SQLite's numbers of cells and free bytes, and no other page is taken for
/// one.
fn parsed_as_sqlite_does(db: &Connection, file: &[u8]) {
    let shape = Shape::of_file(file).unwrap();
    let mut statement =
        db.prepare("select pageno, pagetype, ncell, unused from dbstat").expect("dbstat is there");
    let mut found = statement.query([]).unwrap();
    let mut trees = 0;
    while let Some(row) = found.next().unwrap() {
        let number: u32 = row.get(0).unwrap();
        let kind: String = row.get(1).unwrap();
        let image = &file[(number as usize - 1) * shape.page_bytes()..][..shape.page_bytes()];
        let page = Page::parse(image, shape, number == 1);
        assert!(!shape.is_pointer_map(number));
        if kind == "overflow" {
            assert!(page.is_none());
            continue;
        }
        let page = page.unwrap_or_else(|| panic!("page {number}, {kind}, is not parsed"));
        trees += 1;
        let unused = shape.usable()
            - page.pointers_end()
            - page.cells().iter().map(|cell| cell.bytes.max(4)).sum::<usize>();
        assert_eq!(page.kind().is_inner(), kind == "internal");
        assert_eq!(
            (page.cells().len() as u32, unused as u32),
            (row.get::<_, u32>(2).unwrap(), row.get::<_, u32>(3).unwrap())
        );
    }
    assert!(trees > 3);
}

#[test]
fn stock_sqlite_reads_what_was_placed() {
    let (mut seed, wrong) = (1, Wrong::Nothing);
    for (page_bytes, commits) in [(512, 150), (1024, 150), (4096, 200), (65_536, 50)] {
        for (auto_vacuum, secure_delete) in [(0, false), (1, true), (2, false), (0, true)] {
            run(Scenario { page_bytes, auto_vacuum, secure_delete, commits, seed, wrong });
            seed += 1;
        }
    }
}

/// The test notices seeded faults.
#[test]
fn wrong_stores_are_noticed() {
    for wrong in [Wrong::ReplaysOverDirect, Wrong::CarriesNothing, Wrong::SkipsDirect] {
        let (page_bytes, auto_vacuum, secure_delete) = (1024, 0, false);
        let scenario =
            Scenario { page_bytes, auto_vacuum, secure_delete, commits: 300, seed: 3, wrong };
        let noticed = std::panic::catch_unwind(|| run(scenario)).expect_err("a wrong store passes");
        let why = noticed.downcast_ref::<String>().expect("a message");
        assert!(why.starts_with("page "), "{wrong:?}: {why}");
    }
}

/// Randomly changed bytes of real pages: what is still parsed as a page of a b-tree obeys the rules, checked byte
/// by byte.
#[test]
fn damaged_pages_are_parsed_without_harm() {
    let folder = folder();
    let path = folder.path().join("db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch(&format!(
        "pragma page_size = 512; {QUICK} create table t (id integer primary key, v);"
    ))
    .unwrap();
    let mut random = SmallRng::seed_from_u64(9);
    for id in 0..200 {
        db.execute("insert into t values (?, ?)", params![id, value(&mut random, 512)]).unwrap();
    }
    db.execute_batch("create index i on t (v); delete from t where id % 4 = 1;").unwrap();
    let file = std::fs::read(&path).unwrap();
    let shape = Shape::of_file(&file).unwrap();
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..60_000 {
        let number = random.random_range(0..file.len() / 512);
        let mut image = file[number * 512..][..512].to_vec();
        for _ in 0..random.random_range(0..3) {
            let at = if round % 2 == 0 {
                random.random_range(0..512)
            } else {
                random.random_range(0..40)
            };
            image[at] = random.random();
        }
        let Some(page) = Page::parse(&image, shape, number == 0) else {
            refused += 1;
            continue;
        };
        accepted += 1;
        let mut uses = [0u8; 512];
        let cells = page.cells().iter().map(|cell| cell.at..cell.at + cell.bytes.max(4));
        for run in cells.chain(page.free_blocks().iter().map(|block| block.at..block.end())) {
            assert!(run.start >= page.content() && run.end <= 512);
            uses[run].iter_mut().for_each(|uses| *uses += 1);
        }
        assert!(page.content() >= page.pointers_end() && uses.iter().all(|uses| *uses < 2));
        let fragments = uses[page.content()..].iter().filter(|uses| **uses == 0).count();
        assert_eq!((fragments, page.fragments()), (page.fragments(), fragments.min(60)));
    }
    assert!(accepted > 5_000 && refused > 5_000, "{accepted}, {refused}");
}
