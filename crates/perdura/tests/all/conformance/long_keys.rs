//! Keys of up to 1 KiB in every engine: primary ones of text and of many columns, secondary ones
//! followed by such a primary key, unique and not, through aborts, kills, splits, merges and
//! checkpoints, scans by prefix, backups and dumps.

use crate::support::small_pages;
use std::collections::BTreeMap;

use perdura::{Backup, ColumnType, Database, Error, LoadOptions, Scan, Schema, Table, TableSchema};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{Own, Setup, Store, Tuple, Under, each, each_known, holds, scan, small, values};

/// The widest keys that there are: of text, and of bytes, a number and text, each with a secondary
/// index of as many bytes.
fn schema() -> Schema {
    let name = TableSchema::new("name")
        .column("name", ColumnType::Text { max: 1_022 })
        .column("mail", ColumnType::Bytes { max: 1_021 })
        .nullable()
        .column("number", ColumnType::I32)
        .column("note", ColumnType::Text { max: 400 })
        .key(&["name"])
        .unique_index("by_mail", &["mail"])
        .index("by_note", &["note", "number"])
        .index("by_number", &["number"]);
    let pair = TableSchema::new("pair")
        .column("left", ColumnType::Bytes { max: 500 })
        .column("middle", ColumnType::I32)
        .column("right", ColumnType::Text { max: 514 })
        .column("count", ColumnType::U64)
        .key(&["left", "middle", "right"])
        .index("by_count", &["count"]);
    let short = TableSchema::new("short")
        .column("id", ColumnType::U64)
        .column("text", ColumnType::Text { max: 1_022 })
        .key(&["id"])
        .index("by_text", &["text"]);
    Schema::new().table(name).table(pair).table(short)
}

/// Memory for nodes of long keys; pages, nodes and blocks are those that long keys ask for.
fn room(engine: impl Into<Under>) -> Setup {
    small(engine).map(|options| {
        options
            .chunk_bytes(256 << 10)
            .tune("cache_bytes", 256 << 10)
            .tune("memtable_bytes", 40 << 10)
    })
}

/// Texts of all lengths, which differ in their last bytes or in their length only.
fn text(number: u64, max: usize) -> String {
    let end = format!("{number:04}");
    let most = max - end.len();
    let len = [0, 3, 250, most][number as usize % 4].min(most);
    format!("{}{end}", "k".repeat(len))
}

type Key = (String, u64);
type Model = BTreeMap<Key, Tuple>;

const TABLES: [&str; 3] = ["name", "pair", "short"];

/// The tuple of a table for a number, and for a version what is not its key.
fn tuple(table: &str, number: u64, version: u64) -> Tuple {
    match table {
        "name" => vec![
            Own::Text(text(number, 1_022)),
            match version % 3 {
                0 => Own::Null,
                // Each tuple and version has another value.
                _ => Own::Bytes(text(number * 100 + version % 50, 1_021).into()),
            },
            Own::I64(version as i64 % 5 - 2),
            Own::Text(text(version % 7, 400)),
        ],
        "pair" => vec![
            Own::Bytes(text(number % 3, 500).into()),
            Own::I64(number as i64 % 2 - 1),
            Own::Text(text(number, 514)),
            Own::U64(version % 4),
        ],
        _ => vec![Own::U64(number), Own::Text(text(version % 9, 1_022))],
    }
}

fn key(table: &Table, tuple: &Tuple) -> Tuple {
    let columns = table.schema().key_columns().iter();
    columns.map(|name| tuple[usize::from(table.column(name).unwrap())].clone()).collect()
}

fn all(db: &Database, model: &Model) -> u64 {
    let tables = TABLES.map(|name| db.table(name).unwrap());
    let expected: Vec<_> = tables
        .iter()
        .map(|table| {
            let own = model.iter().filter(|((name, _), _)| name == table.name());
            (table, own.map(|(_, tuple)| tuple.clone()).collect::<Vec<_>>())
        })
        .collect();
    holds(db, &expected)
}

/// Fifty transactions, of which some abort.
fn change(db: &Database, model: &mut Model, random: &mut SmallRng, deletes: u32) {
    for round in 0..50 {
        let mut after = model.clone();
        let mut tx = db.begin().unwrap();
        for _ in 0..random.random_range(1..6) {
            let table = db.table(TABLES[random.random_range(0..3)]).unwrap();
            let number = random.random_range(0..90);
            let new = tuple(table.name(), number, random.random_range(0..50));
            let at = (table.name().to_string(), number);
            let key = key(&table, &new);
            match (after.contains_key(&at), random.random_range(0..10) < deletes) {
                (false, _) => {
                    tx.insert(&table, &values(&new)).unwrap();
                    after.insert(at, new);
                }
                (true, true) => {
                    tx.delete(&table, &values(&key)).unwrap();
                    after.remove(&at);
                }
                (true, false) => {
                    let first = if table.name() == "pair" { 3 } else { 1 };
                    let changes: Vec<_> = (first..new.len())
                        .map(|column| (column as u16, new[column].value()))
                        .collect();
                    tx.update(&table, &values(&key), &changes).unwrap();
                    after.insert(at, new.clone());
                }
            }
        }
        if round % 6 == 5 {
            tx.abort().unwrap();
        } else {
            let _ticket = tx.commit().unwrap();
            *model = after;
        }
        if round % 9 == 4 {
            let _waiting = db.background(9_000).unwrap();
        }
    }
}

pub(crate) fn run(seed: u64) {
    println!("seed {seed}");
    let digests = std::cell::RefCell::new(Vec::new());
    each(|engine| {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut store = Store::new(&schema(), room(engine));
        let mut model = Model::new();
        // Trees grow, shrink until leaves are merged, and grow again.
        for (round, deletes) in [2, 2, 9, 9, 3].into_iter().enumerate() {
            change(store.db(), &mut model, &mut random, deletes);
            all(store.db(), &model);
            match round % 2 {
                0 => store.crash(),
                _ => store.reopen(),
            }
            digests.borrow_mut().push((round, all(store.db(), &model)));
        }
    });
    let digests = digests.into_inner();
    for (round, digest) in &digests {
        assert_eq!(*digest, digests[*round].1, "round {round}");
    }
}

#[test]
fn long_keys_agree_with_a_model_in_every_engine() {
    run(1);
}

#[test]
fn prefixes_of_long_keys_bound_what_starts_with_them() {
    each(|engine| {
        let mut store = Store::new(&schema(), room(engine));
        let pair = store.db().table("pair").unwrap();
        let tuples: Vec<_> = (0..60).map(|number| tuple("pair", number, number)).collect();
        for tuple in &tuples {
            store.db().write(|tx| tx.insert(&pair, &values(tuple))).unwrap();
        }
        store.thrice(|db| {
            let pair = db.table("pair").unwrap();
            for number in 0..6 {
                let wanted = tuple("pair", number, 0);
                for columns in [1, 2, 3] {
                    let prefix = values(&wanted[..columns]);
                    let found = scan(db, &pair, &Scan::prefix(&prefix[..]));
                    let starts = tuples.iter().filter(|it| it[..columns] == wanted[..columns]);
                    assert_eq!(found.len(), starts.count(), "{number}, {columns} columns");
                    assert!(found.iter().all(|it| it[..columns] == wanted[..columns]));
                }
            }
        });
    });
}

#[test]
fn a_second_tuple_with_the_same_long_key_is_refused() {
    each(|engine| {
        let mut store = Store::new(&schema(), room(engine));
        let name = store.db().table("name").unwrap();
        let of = |name: &str, mail: &str| {
            vec![
                Own::Text(name.into()),
                Own::Bytes(mail.into()),
                Own::I64(0),
                Own::Text(String::new()),
            ]
        };
        let (long, other) = ("a".repeat(1_021), "b".repeat(1_020));
        // Each differs from the others in one byte at the end.
        let first = of(&format!("{long}x"), &format!("{other}x"));
        let second = of(&format!("{long}y"), &format!("{other}y"));
        let insert = |db: &Database, tuple: &Tuple| db.write(|tx| tx.insert(&name, &values(tuple)));
        insert(store.db(), &first).unwrap();
        insert(store.db(), &second).unwrap();
        for (wrong, by) in [
            (of(&format!("{long}x"), "z"), None),
            (of(&format!("{long}z"), &format!("{other}y")), Some("by_mail")),
        ] {
            let error = insert(store.db(), &wrong).unwrap_err();
            let Error::DuplicateKey { index, .. } = &error else { panic!("{error}") };
            assert_eq!(index.as_deref(), by, "{error}");
        }
        let too_long = of(&format!("{long}xy"), "z");
        let error = insert(store.db(), &too_long).unwrap_err().to_string();
        assert!(error.contains("at most 1022 bytes, not 1023"), "{error}");
        store.thrice(|db| {
            let name = db.table("name").unwrap();
            let [pair, short] = ["pair", "short"].map(|table| db.table(table).unwrap());
            let both = vec![first.clone(), second.clone()];
            holds(db, &[(&name, both), (&pair, vec![]), (&short, vec![])]);
        });
    });
}

/// More columns than a key of numbers of two bytes has: 130 of one byte, and as many as there can
/// be.
#[test]
fn keys_of_very_many_columns_are_keys() {
    for columns in [121usize, 130, 240, 400] {
        each(|engine| {
            let names: Vec<String> = (0..columns).map(|number| format!("c{number}")).collect();
            let mut table = TableSchema::new("t");
            for name in &names {
                table = table.column(name, ColumnType::U8);
            }
            let key: Vec<&str> = names.iter().map(String::as_str).collect();
            let schema = Schema::new().table(table.key(&key).index("last", &[key[columns - 1]]));
            let mut store = Store::new(&schema, room(engine).page_bytes(16 << 10));
            let table = store.db().table("t").unwrap();
            let tuples: Vec<Tuple> = (0..12)
                .map(|number| {
                    let of = |at| if at == columns - 1 - number % 3 { number as u64 } else { 7 };
                    (0..columns).map(|at| Own::U64(of(at))).collect()
                })
                .collect();
            for tuple in &tuples {
                store.db().write(|tx| tx.insert(&table, &values(tuple))).unwrap();
            }
            let gone = values(&tuples[3]);
            store.db().write(|tx| tx.delete(&table, &gone)).unwrap();
            store.thrice(|db| {
                let left = tuples.iter().enumerate().filter(|(at, _)| *at != 3);
                let left = left.map(|(_, tuple)| tuple.clone()).collect();
                holds(db, &[(&db.table("t").unwrap(), left)]);
            });
        });
    }
}

#[test]
fn long_keys_go_into_backups_and_dumps_and_come_back() {
    long_keys_come_back(5);
}

/// Each engine's copies go into each other one, or into one in so many.
pub(crate) fn long_keys_come_back(one_in: usize) {
    each_known(|engine| {
        let mut random = SmallRng::seed_from_u64(7);
        let store = Store::new(&schema(), room(engine));
        let mut model = Model::new();
        change(store.db(), &mut model, &mut random, 2);
        let options = &store.setup.options;
        let directory = crate::support::in_memory();
        let at = |name: &str| directory.path().join(name);
        store.db().backup(at("backup")).unwrap();
        let backup = Backup::open(at("backup")).unwrap();
        backup.restore(at("restored"), options, &mut |_| ()).unwrap();
        let mut lines = Vec::new();
        store.db().dump_to(&mut lines, "output", &[], &mut |_| ()).unwrap();
        let input = LoadOptions::new("input");
        Database::create_from_lines(
            at("loaded"),
            None,
            options,
            &mut &lines[..],
            &input,
            &mut |_| (),
        )
        .unwrap();
        let digest = all(store.db(), &model);
        for copy in ["restored", "loaded"] {
            let db = Database::open(at(copy), options).unwrap();
            assert_eq!(all(&db, &model), digest, "{copy}");
        }
        // Whatever the engine was, another one takes it, with the options that are the default.
        let first = engine as usize % one_in;
        for other in perdura::EngineKind::ALL.into_iter().skip(first).step_by(one_in) {
            let to = at(&format!("as {other}"));
            let options = small_pages()
                .engine(other)
                .domain(perdura::Domain::Process)
                .pool_limit(1 << 30)
                .volatile_limit(1 << 30);
            Database::create_from_lines(&to, None, &options, &mut &lines[..], &input, &mut |_| ())
                .unwrap();
            let db = Database::open(&to, &options).unwrap();
            assert_eq!(all(&db, &model), digest, "as {other}");
            drop(db);
        }
    });
}
