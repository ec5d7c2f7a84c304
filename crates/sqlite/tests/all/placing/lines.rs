//! Lines that an insert writes back: a deterministic count.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rusqlite::{Connection, params};

use super::databases::{QUICK, folder};
use super::mirror::{Cost, Mirror};

const LOADED: i64 = 4_000;
const COUNTED: i64 = 1_500;

/// Makes single inserts of 64 bytes into a table with rows, in ascending or random order. Returns lines per insert.
fn lines_an_insert(ascending: bool) -> f64 {
    let folder = folder();

    let path = folder.path().join("db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch(&format!(
        "pragma page_size = 4096; {QUICK} create table t (id integer primary key, value blob); begin;"
    ))
    .unwrap();
    let mut random = SmallRng::seed_from_u64(1);
    let mut insert = |number: i64| {
        let key = if ascending { number } else { random.random_range(0..1 << 40) };
        let mut value = [0u8; 64];
        random.fill(&mut value);
        db.prepare_cached("insert into t values (?, ?)")
            .unwrap()
            .execute(params![key, value])
            .unwrap();
    };
    (0..LOADED).for_each(&mut insert);
    db.execute_batch("commit").unwrap();
    let mut mirror = Mirror::new(&std::fs::read(&path).unwrap(), false);
    let mut total = Cost::default();
    let mut worst = 0;
    for number in LOADED..LOADED + COUNTED {
        insert(number);
        let cost = mirror.commit(&std::fs::read(&path).unwrap());
        worst = worst.max(cost.lines());
        total.add(cost);
    }
    let each = |count: usize| count as f64 / COUNTED as f64;
    println!(
        "{}: {:.2} lines an insert: {:.2} direct, {:.2} of the log, {:.2} applied; \
         {:.0} + {:.0} + {:.0} bytes; {} moved, {} away; at most {worst}",
        if ascending { "ascending" } else { "random" },
        each(total.lines()),
        each(total.direct_lines),
        each(total.log_lines),
        each(total.applied_lines),
        each(total.direct_bytes),
        each(total.log_bytes),
        each(total.applied_bytes),
        total.moved,
        mirror.displaced(),
    );
    each(total.lines())
}

#[test]
fn inserts_write_few_lines_back() {
    let (ascending, random) = (lines_an_insert(true), lines_an_insert(false));
    assert!(ascending <= 4.5, "{ascending}");
    assert!(random <= 13.5, "{random}");
}
