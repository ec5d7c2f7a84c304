//! Values beyond what a chunk, a page, a block or a MemTable holds, up to the largest one: they
//! come back, change their size, are aborted and deleted, and leave nothing. Small chunks, so that
//! nearly all of them take several.

use crate::support::{few, small_pages};
use perdura::{
    Backup, ColumnType, Database, DurableIn, EngineKind, Error, LoadOptions, Schema, TableSchema,
    Value,
};

use super::{Own, Store, Tuple, holds, small, values};

/// The largest value that a column can hold.
pub(crate) const MOST: usize = 16 << 20;

/// The engines that a build puts the largest values into (`whole/conformance.rs`); `long/conformance.rs` has
/// all others. The log
/// of those with files and a pool takes half a gigabyte for such values.
pub(crate) const IN_A_BUILD: [EngineKind; 4] =
    [EngineKind::Inp, EngineKind::NvmInp, EngineKind::Fast, EngineKind::Sofort];

/// One of each kind of [`SIZES`].
const SOME_SIZES: [usize; 5] = [100, 9_000, 65_537, 256 << 10, 300_000];

/// Around the ends of slots, of chunks, and of the two forms of a word.
pub(crate) const SIZES: [usize; 14] = [
    0,
    100,
    7_600,
    9_000,
    15_000,
    16_384,
    40_000,
    65_537,
    (256 << 10) - 1,
    256 << 10,
    (256 << 10) + 1,
    300_000,
    (1 << 20) - 512,
    1 << 20,
];

fn blobs() -> Schema {
    Schema::new().table(
        TableSchema::new("blob")
            .column("id", ColumnType::U64)
            .column("one", ColumnType::Bytes { max: MOST as u32 })
            .column("number", ColumnType::U64)
            .column("two", ColumnType::Text { max: MOST as u32 })
            .key(&["id"])
            .index("by_number", &["number"]),
    )
}

fn bytes(id: u64, len: usize) -> Vec<u8> {
    // Numbers that differ, and look like those of the allocator now and then.
    let words = (0..len.div_ceil(8) as u64).map(|at| match (at + id) % 5 {
        0 => u64::from(u32::from_le_bytes(*b"PDCK")),
        _ => (at ^ id << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15),
    });
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    bytes.truncate(len);
    bytes
}

fn blob(id: u64, one: usize, two: usize) -> Tuple {
    let text = "abcdefgh".repeat(two.div_ceil(8))[..two].to_owned();
    vec![Own::U64(id), Own::Bytes(bytes(id, one)), Own::U64(id % 3), Own::Text(text)]
}

fn check(db: &Database, expected: &[Tuple]) {
    holds(db, &[(&db.table("blob").unwrap(), expected.to_vec())]);
    let report = db.check().unwrap();
    assert_eq!((report.tuples, report.leaked, report.dangling), (expected.len() as u64, 0, 0));
}

#[test]
fn values_of_several_chunks_come_back_change_and_go() {
    few().for_each(|engine| values_of_several_chunks(engine, &SOME_SIZES));
}

pub(crate) fn values_of_several_chunks(engine: EngineKind, sizes: &[usize]) {
    let mut store = Store::new(&blobs(), small(engine));
    let table = store.db().table("blob").unwrap();
    let mut expected: Vec<Tuple> = Vec::new();
    for (id, size) in sizes.iter().copied().enumerate() {
        let tuple = blob(id as u64, size, sizes[sizes.len() - 1 - id] / 2);
        store.db().write(|tx| tx.insert(&table, &values(&tuple))).unwrap();
        expected.push(tuple);
    }
    check(store.db(), &expected);
    store.thrice(|db| check(db, &expected));
    let table = store.db().table("blob").unwrap();
    for (id, tuple) in expected.iter_mut().enumerate() {
        let size = sizes[(id * 3 + 1) % sizes.len()];
        let new = blob(id as u64 + 50, size, 0);
        let change = [(1, new[1].value())];
        if id % 4 == 3 {
            let mut tx = store.db().begin().unwrap();
            tx.update(&table, &[Value::U64(id as u64)], &change).unwrap();
            tx.abort().unwrap();
            continue;
        }
        store.db().update(&table, &[Value::U64(id as u64)], &change).unwrap();
        tuple[1] = new[1].clone();
    }
    check(store.db(), &expected);
    store.thrice(|db| check(db, &expected));
    copies(engine, &store, &expected);
    let table = store.db().table("blob").unwrap();
    for tuple in expected.drain(3..) {
        store.db().write(|tx| tx.delete(&table, &[tuple[0].value()])).unwrap();
    }
    check(store.db(), &expected);
    store.thrice(|db| check(db, &expected));
}

/// As a backup and as lines, into the engine that has other limits.
fn copies(engine: EngineKind, store: &Store, expected: &[Tuple]) {
    let directory = crate::support::in_memory();
    let at = |name: &str| directory.path().join(name);
    store.db().backup(at("backup")).unwrap();
    let other = if engine == EngineKind::NvmCow { EngineKind::Log } else { EngineKind::NvmCow };
    for (name, engine) in [("same", engine), ("other", other)] {
        Backup::open(at("backup"))
            .unwrap()
            .restore(at(name), &small(engine).options, &mut |_| ())
            .unwrap();
        check(&Database::open(at(name), &small(engine).options).unwrap(), expected);
    }
    let mut lines = Vec::new();
    store.db().dump_to(&mut lines, "lines", &[], &mut |_| ()).unwrap();
    let (mut lines, options) = (&lines[..], LoadOptions::new("lines"));
    let to = at("lines");
    Database::create_from_lines(
        &to,
        None,
        &small(engine).options,
        &mut lines,
        &options,
        &mut |_| (),
    )
    .unwrap();
    check(&Database::open(at("lines"), &small(engine).options).unwrap(), expected);
}

/// More than a MemTable, a log buffer or a cache of pages holds; in chunks of the default size.
#[test]
fn values_beyond_all_buffers_in_one_transaction() {
    IN_A_BUILD.into_iter().for_each(|engine| values_beyond_all_buffers(engine, MOST / 8));
}

/// With values of so many bytes, twice in a transaction.
pub(crate) fn values_beyond_all_buffers(engine: EngineKind, most: usize) {
    let options = small_pages().engine(engine).domain(perdura::Domain::Process);
    let options = options
        .tune("memtable_bytes", 1 << 20)
        .tune("cache_bytes", 1 << 20)
        .tune("checkpoint_bytes", 4 << 20);
    // A transaction has half of a log in the pool at most, and an entry for each line. A log has
    // one for each 512 bytes at most.
    let options = match engine.traits().durable_in {
        DurableIn::Both => options.tune("log_bytes", 512 << 20).tune("log_entries", 2 << 20),
        _ => options,
    };
    let mut store = Store::new(&blobs(), options);
    let table = store.db().table("blob").unwrap();
    let expected = vec![blob(1, most, most / 16), blob(2, most - 1, 0), blob(3, 5, most / 5)];
    let put = || {
        let mut tx = store.db().begin().unwrap();
        expected.iter().try_for_each(|tuple| tx.insert(&table, &values(tuple))).unwrap();
        tx
    };
    put().abort().unwrap();
    check(store.db(), &[]);
    assert!(put().commit().unwrap().is_durable());
    check(store.db(), &expected);
    store.reopen();
    check(store.db(), &expected);
}

/// Wherever the room ends, the transaction can go on or abort, and nothing is left of what did not
/// fit.
#[test]
fn no_room_for_a_large_value_is_an_ordinary_error() {
    for engine in EngineKind::ALL.into_iter().filter(|engine| !engine.traits().needs_files()) {
        let mut store =
            Store::new(&blobs(), small(engine).map(|options| options.pool_limit(2 << 20)));
        let mut expected = Vec::new();
        for round in 0..3 {
            let table = store.db().table("blob").unwrap();
            let mut id = round * 1000;
            loop {
                let size = [30_000, 200_000, 9_000, 500_000][id as usize % 4];
                let (tuple, small) = (blob(id, size, 20_000), blob(id, 10, 10));
                let mut tx = store.db().begin().unwrap();
                match tx.insert(&table, &values(&tuple)) {
                    Ok(()) => expected.push(tuple),
                    Err(Error::Full(_)) => {
                        let refused = tx.insert(&table, &values(&small));
                        let change = [(1, Value::Bytes(&[1; 40_000]))];
                        assert!(matches!(refused, Ok(()) | Err(Error::Full(_))), "{refused:?}");
                        let _ = tx.update(&table, &[Value::U64(id)], &change);
                        tx.abort().unwrap();
                        break;
                    }
                    Err(other) => panic!("{engine}: {other}"),
                }
                let _ticket = tx.commit().unwrap();
                id += 1;
            }
            check(store.db(), &expected);
            // Some logs have all bytes of the largest transaction.
            let logs_all = [EngineKind::Nvwal, EngineKind::Journal, EngineKind::Wal];
            let least = match engine {
                _ if logs_all.contains(&engine) => 2,
                // Its dictionaries keep their values.
                EngineKind::Sofort => 2,
                _ => 8,
            };
            assert!(expected.len() > least, "{engine}: {}", expected.len());
            let gone = |tuple: &Tuple| matches!(tuple[0], Own::U64(id) if id % 3 != 0);
            for tuple in expected.iter().filter(|tuple| gone(tuple)) {
                store.db().write(|tx| tx.delete(&table, &[tuple[0].value()])).unwrap();
            }
            expected.retain(|tuple| !gone(tuple));
            store.reopen();
            check(store.db(), &expected);
        }
    }
}

#[test]
fn a_table_that_may_have_too_long_tuples_is_refused() {
    let columns = (0..9).fold(TableSchema::new("t").column("k", ColumnType::U64), |table, at| {
        table.column(format!("c{at}"), ColumnType::Bytes { max: MOST as u32 })
    });
    let directory = crate::support::in_memory();
    let schema = Schema::new().table(columns.key(&["k"]));
    let error = Database::create(directory.path().join("db"), &schema, &small_pages());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("150994952 bytes, at most 134217728"), "{error}");
}
