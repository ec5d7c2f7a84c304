//! Damaged pool files (`docs/reliability.md`, "Bad inputs" 1 to 8): opening, reading and checking
//! give an error or what is there, and never panic, hang or die of a signal.
//!
//! The pool that is mutated is a real one with every structure in it: two trees of several levels,
//! a secondary index, log segments, an unfinished transaction. Offsets of header fields are from
//! `docs/format/pool.md`.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::support::{Driver, Model, Tables, compare, contents, schema, small_logs};
use perdura::{Database, Domain, EngineKind, Error, Options, PoolError, Scan};
use pm::read_header;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::Recording;

/// The two copies of the header and its length.
const COPIES: [usize; 2] = [0, 4096];
const HEADER_BYTES: usize = 128;
const DATA_START: usize = 8192;

fn options() -> Options {
    options_of(EngineKind::NvmInp)
}

fn options_of(engine: EngineKind) -> Options {
    small_logs()
        .engine(engine)
        .tune("memtable_bytes", 4 << 10)
        .tune("growth", 2)
        .domain(Domain::Process)
        .pool_limit(1 << 24)
        .chunk_bytes(8 << 10)
        .tune("node_bytes", 128)
}

/// The bytes of a pool that was killed in a transaction, and what is in it.
fn pool(seed: u64, transactions: usize) -> (Vec<u8>, Model) {
    pool_of(EngineKind::NvmInp, seed, transactions)
}

fn pool_of(engine: EngineKind, seed: u64, transactions: usize) -> (Vec<u8>, Model) {
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    let small = schema();
    let db = Database::create(&path, &small, &options_of(engine)).unwrap();
    let (tables, mut driver, mut model) =
        (Tables::of(&db), Driver::new(seed, 120), Model::default());
    for transaction in 0..transactions {
        driver.transaction(&db, &tables, &mut model, 1 + transaction % 9).unwrap();
    }
    let mut tx = db.begin().unwrap();
    for _ in 0..5 {
        driver.operation(&mut tx, &tables, &mut model.clone()).unwrap();
    }
    let bytes = std::fs::read(&path).unwrap();
    drop(tx);
    compare(&db, &model);
    (bytes, model)
}

fn open(path: &Path, bytes: &[u8]) -> Result<Database, Error> {
    // Inherits nothing from an earlier file of this name, such as its inode in the registry.
    let _ = std::fs::remove_file(path);
    std::fs::write(path, bytes).unwrap();
    Database::open(path, &small_logs())
}

fn pool_error(path: &Path, bytes: &[u8]) -> PoolError {
    match open(path, bytes) {
        Err(Error::Pool(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it opens"),
    }
}

fn word(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[test]
fn files_that_are_too_short_for_a_header() {
    let (whole, model) = pool(1, 20);
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    for len in [0, 1, 7, 8, HEADER_BYTES - 1] {
        let error = pool_error(&path, &whole[..len]);
        assert!(
            matches!(error, PoolError::TooShort { bytes, .. } if bytes == len as u64),
            "{error}"
        );
    }
    for (len, fill) in [(128, 0), (4096, 0), (100_000, 0), (100_000, 0xff), (100_000, b' ')] {
        let error = pool_error(&path, &vec![fill; len]);
        assert!(matches!(error, PoolError::NotAPool { .. }), "{error}");
    }
    compare(&open(&path, &whole).unwrap(), &model);
}

#[test]
fn with_one_copy_of_the_header_damaged_the_other_serves() {
    let (whole, model) = pool(2, 20);
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    for bit in (0..HEADER_BYTES * 8).step_by(5).chain(0..16) {
        let mut both = whole.clone();
        for copy in COPIES {
            let mut bytes = whole.clone();
            bytes[copy + bit / 8] ^= 1 << (bit % 8);
            both[copy + bit / 8] ^= 1 << (bit % 8);
            let db = open(&path, &bytes).unwrap();
            assert!(db.pool_info().header_damage.is_some(), "bit {bit} of copy {copy} is reported");
            db.close().unwrap();
            let healed = Database::open(&path, &small_logs()).unwrap();
            assert!(healed.pool_info().header_damage.is_none(), "and mended by the next change");
            if bit % 64 == 0 {
                compare(&healed, &model);
            }
        }
        let error = pool_error(&path, &both);
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn a_header_that_was_torn_while_it_changed() {
    let (old, model) = pool(3, 20);
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    open(&path, &old).unwrap().close().unwrap();
    let new = std::fs::read(&path).unwrap();
    for words in 0..=HEADER_BYTES / 8 {
        for copy in COPIES {
            // The first copy is changed before the second.
            let mut bytes = old.clone();
            bytes[..HEADER_BYTES].copy_from_slice(&new[..HEADER_BYTES]);
            bytes[copy..copy + HEADER_BYTES].copy_from_slice(&old[copy..copy + HEADER_BYTES]);
            let torn = copy..copy + words * 8;
            bytes[torn.clone()].copy_from_slice(&new[torn]);
            compare(&open(&path, &bytes).unwrap(), &model);
        }
    }
    // At creation nothing stands in the second copy yet, and of the first one some words.
    for words in 0..HEADER_BYTES / 8 {
        let mut bytes = vec![0; 64 << 10];
        bytes[..words * 8].copy_from_slice(&new[..words * 8]);
        assert!(open(&path, &bytes).is_err(), "{words} words");
    }
}

/// Writes a header field into both copies and mends the checksums.
fn forge(bytes: &mut [u8], at: usize, field: &[u8]) {
    for copy in COPIES {
        // A copy that is torn stays torn.
        let sum_at = copy + HEADER_BYTES - 8;
        if bytes[sum_at..sum_at + 8] == checksum(&bytes[copy..sum_at]).to_le_bytes() {
            bytes[copy + at..copy + at + field.len()].copy_from_slice(field);
            let sum = checksum(&bytes[copy..sum_at]);
            word(bytes, sum_at, sum);
        }
    }
}

fn checksum(body: &[u8]) -> u64 {
    u64::from(crc32c(0, body)) << 32 | u64::from(crc32c(!0, body))
}

/// CRC-32C, a bit at a time.
fn crc32c(start: u32, bytes: &[u8]) -> u32 {
    let mut sum = !start;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = sum >> 1 ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    !sum
}

#[test]
fn headers_of_other_versions_and_machines_are_named_as_such() {
    let (whole, model) = pool(4, 5);
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    let mut same = whole.clone();
    forge(&mut same, 12, &4u32.to_le_bytes());
    compare(&open(&path, &same).unwrap(), &model);
    let forged = |at: usize, field: &[u8]| {
        let mut bytes = whole.clone();
        forge(&mut bytes, at, field);
        pool_error(&path, &bytes)
    };
    for version in [0u32, 1, 2, 3, 5, u32::MAX] {
        let error = forged(12, &version.to_le_bytes());
        assert!(matches!(error, PoolError::Version { found, .. } if found == version), "{error}");
        assert_eq!(error.to_string().contains("newer build"), version > 4, "{error}");
    }
    let swapped = u64::from_le_bytes(*b"PERDURA\0").swap_bytes().to_le_bytes();
    for (at, field) in [
        (0, &swapped[..]),
        (8, &0x0403_0201u32.to_le_bytes()),
        (16, &4u32.to_le_bytes()),
        (20, &128u32.to_le_bytes()),
    ] {
        let error = forged(at, field);
        assert!(matches!(error, PoolError::OtherMachine { .. }), "{error}");
    }
    let error = forged(24, &(1u64 << 63).to_le_bytes());
    assert!(matches!(error, PoolError::Features { flags, .. } if flags == 1 << 63), "{error}");
    // Impossible sizes, and a domain that does not exist.
    for (at, field) in [(72, 0u64), (72, 8191), (72, u64::MAX), (80, 0), (88, 9)] {
        let field = field.to_le_bytes();
        let field = if at == 88 { &field[..1] } else { &field };
        assert!(matches!(
            forged(at, field),
            PoolError::HeaderDamaged { .. } | PoolError::Truncated { .. }
        ));
    }
}

#[test]
fn a_truncated_file_is_refused_and_a_garbage_tail_cut_off() {
    let (whole, model) = pool(5, 40);
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    for page in 0..whole.len() / 4096 {
        for len in [page * 4096, page * 4096 + 1000] {
            let error = pool_error(&path, &whole[..len]);
            let expected =
                matches!(error, PoolError::Truncated { .. } | PoolError::TooShort { .. });
            assert!(expected, "{len} bytes: {error}");
        }
    }
    for tail in [1, 4096, 100_000] {
        let mut bytes = whole.clone();
        bytes.resize(whole.len() + tail, 0xab);
        let db = open(&path, &bytes).unwrap();
        assert_eq!(db.pool_info().tail_bytes, tail as u64);
        compare(&db, &model);
        // Growing over the garbage finds zeros.
        let (tables, mut driver, mut model) =
            (Tables::of(&db), Driver::new(9, 2000), model.clone());
        for _ in 0..60 {
            driver.transaction(&db, &tables, &mut model, 20).unwrap();
        }
        compare(&db, &model);
    }
}

/// A shorter file with a header that agrees to it: what is missing is found missing.
#[test]
fn a_pool_that_lost_its_end_gives_errors() {
    let (whole, _) = pool(6, 60);
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    let (mut refused, mut opened) = (0, 0);
    for size in (DATA_START..whole.len()).step_by(4096) {
        let mut bytes = whole[..size].to_vec();
        forge(&mut bytes, 72, &(size as u64).to_le_bytes());
        match use_it(&path, &bytes) {
            Outcome::Error => refused += 1,
            Outcome::Works(_) => opened += 1,
        }
    }
    println!("{refused} sizes give an error, {opened} hold all that is needed");
    assert!(refused > 10);
}

/// Creation that was cut off after any step leaves a pool that says so.
#[test]
fn an_unfinished_creation_is_told_apart_from_damage() {
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    let memory = Recording::pool(64 << 10, 1 << 24).unwrap();
    memory.start();
    let media = faults::recorded(memory.clone(), Default::default());
    let db = Database::create_on(media, &schema(), &options()).unwrap();
    let trace = memory.stop();
    db.abandon();
    let mut unfinished = 0;
    let mut finished = 0;
    trace.process_states(|event, image| {
        if event % 7 != 0 && event + 20 < trace.events.len() {
            return;
        }
        let whole = Recording::from_image(image, 1 << 24).unwrap();
        let (header, _) = read_header(&whole).unwrap();
        let mut bytes = image[..header.size as usize].to_vec();
        // The recording's header speaks of a machine that models PM; this one is kept to `process`.
        forge(&mut bytes, 88, &[1, 0]);
        forge(&mut bytes, 48, &perdura::boot_id().unwrap());
        match open(&path, &bytes) {
            Ok(db) => {
                assert_eq!(contents(&db).unwrap(), Model::default());
                finished += 1;
            }
            Err(Error::Unfinished { .. }) => {
                assert_eq!(finished, 0, "finished once is finished for ever");
                unfinished += 1;
            }
            // Cut off before there is even an empty heap.
            Err(Error::Damaged(_)) => assert_eq!(unfinished + finished, 0),
            Err(other) => panic!("{other}"),
        }
    });
    assert!(unfinished > 10 && finished > 0, "{unfinished} {finished}");
}

/// A pool that a newer build has written, in the same format but with a type that this one does not
/// know, is whole.
#[test]
fn a_description_of_a_newer_build_is_told_apart_from_damage() {
    let directory = crate::support::in_memory();
    let (mut bytes, _) = pool(1, 0);
    let find = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|part| part == what);
    let at = find(&bytes, b"PDDESCR1").unwrap();
    let len = u64::from_le_bytes(bytes[at + 8..at + 16].try_into().unwrap()) as usize;
    let json = at + 24..at + 24 + len;
    let kind = json.start + find(&bytes[json.clone()], b"\"u64\"").unwrap();
    bytes[kind..kind + 5].copy_from_slice(b"\"u65\"");
    let path = directory.path().join("db");
    assert!(matches!(open(&path, &bytes), Err(Error::Damaged(_))), "its checksum is wrong");
    let sum = crc32c(0, &bytes[json]);
    word(&mut bytes, at + 16, sum.into());
    let error = open(&path, &bytes).unwrap_err().to_string();
    assert!(error.contains("unknown variant `u65`") && error.contains("newer one"), "{error}");
    let error = perdura::inspect(&path).unwrap_err().to_string();
    assert!(error.contains("unknown variant `u65`"), "{error}");
}

enum Outcome {
    /// An error somewhere, or fewer contents: clean either way.
    Error,
    Works(Vec<String>),
}

/// Everything that can be read, as text. Damaged tuples may come twice, or in the wrong order.
fn rows(db: &Database) -> Result<Vec<String>, Error> {
    let tables = Tables::of(db);
    let mut rows = Vec::new();
    let mut show = |row: &perdura::Row| {
        rows.push(row.values().map(|value| format!("{value:?} ")).collect());
        ControlFlow::Continue(())
    };
    db.read(|tx| {
        tx.scan(&tables.item, &Scan::all(), &mut show)?;
        tx.scan(&tables.pair, &Scan::all().backward(), &mut show)?;
        tx.scan(&tables.item, &Scan::all().by("by_name"), &mut show)
    })?;
    Ok(rows)
}

/// Opens a pool and reads, checks and changes it.
fn use_it(path: &Path, bytes: &[u8]) -> Outcome {
    let done = catch_unwind(AssertUnwindSafe(|| -> Result<Vec<String>, Error> {
        let db = open(path, bytes)?;
        let checked = db.check().map(|_| ());
        let found = rows(&db);
        let _ = db.footprint();
        let _ = perdura::inspect(path);
        // Also where the check has found damage: no transaction may panic.
        for key in [3, 5000] {
            let tables = Tables::of(&db);
            let item = crate::support::Item {
                name: "x".into(),
                payload: vec![1; 100],
                count: 0,
                flag: vec![],
                score: 0.0,
            };
            let _ = db.write(|tx| crate::support::insert_item(tx, &tables, key, &item));
            let _ = db.write(|tx| crate::support::update_item(tx, &tables, key, &item, 31));
            let _ = db.write(|tx| tx.delete(&tables.item, &[perdura::Value::U64(key)]));
        }
        drop(db);
        checked?;
        found
    }));
    match done {
        Ok(Ok(found)) => Outcome::Works(found),
        Ok(Err(_)) => Outcome::Error,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Numbers that stored offsets, counts and lengths are afraid of.
fn nasty(random: &mut SmallRng, size: u64) -> u64 {
    let any = random.random::<u64>();
    let within = any % size;
    [
        0,
        1,
        any,
        u64::MAX,
        u64::MAX - 63,
        size,
        size - 8,
        65_535,
        within,
        within & !7,
        within & !63,
        1 << 63,
    ][random.random_range(0..12)]
}

fn mutate(random: &mut SmallRng, bytes: &mut [u8]) {
    let size = bytes.len() as u64;
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(DATA_START..bytes.len() - 64);
        match random.random_range(0..5) {
            0 => bytes[at] ^= 1 << random.random_range(0..8),
            1 => bytes[at] = random.random(),
            2 => {
                let value = nasty(random, size);
                word(bytes, at & !7, value);
            }
            3 => {
                // A line, or a node, from elsewhere.
                let from = random.random_range(DATA_START..bytes.len() - 128) & !63;
                let many = [8, 64, 128][random.random_range(0..3)];
                let to = (at & !63).min(bytes.len() - many);
                bytes.copy_within(from..from + many, to);
            }
            _ => {
                let end = bytes.len().min(at + random.random_range(1..300));
                bytes[at..end].fill([0, 0xff][random.random_range(0..2)]);
            }
        }
    }
}

/// Places that something was ever stored to are better targets than free space.
fn in_use(bytes: &[u8]) -> Vec<usize> {
    (DATA_START..bytes.len() - 8).step_by(8).filter(|at| bytes[*at..*at + 8] != [0; 8]).collect()
}

fn fuzz(engine: EngineKind, seed: u64, rounds: u64) {
    let (whole, _) = pool_of(engine, seed, 60);
    let words = in_use(&whole);
    let directory =
        tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" });
    let directory = directory.unwrap();
    let path = directory.path().join("db");
    let Outcome::Works(sound) = use_it(&path, &whole) else { panic!("a sound pool works") };
    let (mut errors, mut intact, mut changed) = (0, 0, 0);
    for round in 0..rounds {
        let mut random = SmallRng::seed_from_u64(seed << 32 | round);
        let mut bytes = whole.clone();
        if round % 2 == 0 {
            mutate(&mut random, &mut bytes);
        } else {
            let at = words[random.random_range(0..words.len())];
            let value = nasty(&mut random, whole.len() as u64);
            word(&mut bytes, at, value);
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| use_it(&path, &bytes)));
        match outcome {
            Ok(Outcome::Error) => errors += 1,
            Ok(Outcome::Works(found)) if found == sound => intact += 1,
            Ok(Outcome::Works(_)) => changed += 1,
            Err(_) => panic!("{engine}, seed {seed}, round {round} panics"),
        }
    }
    println!(
        "{engine}, seed {seed}: {rounds} mutations: {errors} errors, {intact} intact, {changed} changed"
    );
    assert!(errors > rounds / 10, "the mutations hit something");
}

#[test]
fn random_damage_gives_errors_and_never_a_panic() {
    random_damage(9..10, 400);
}

/// Random damage of a pool of each seed, so many times.
pub(crate) fn random_damage(seeds: std::ops::Range<u64>, rounds: u64) {
    for seed in seeds {
        fuzz(EngineKind::NvmInp, seed, rounds);
        fuzz(EngineKind::NvmLog, seed, rounds);
        fuzz(EngineKind::NvmCow, seed, rounds);
    }
}

/// The master of a column store: `docs/format/column.md`.
const COLUMN_MASTER: &[u8] = b"PDCOLM";
const COLUMN_MASTER_BYTES: usize = 64;
const COLUMN_CHECKSUM_AT: usize = 28;

/// A column store of another version of its format says so, and how it is carried over; one whose
/// version is damaged is damaged.
#[test]
fn a_column_store_of_another_build_says_what_to_do() {
    let (whole, model) = pool_of(EngineKind::Sofort, 3, 20);
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    let found: Vec<usize> = (0..whole.len() - COLUMN_MASTER_BYTES)
        .step_by(8)
        .filter(|at| whole[*at..].starts_with(COLUMN_MASTER))
        .collect();
    let [at] = found[..] else { panic!("one partition: {found:?}") };
    let said = |version: &[u8; 2], sealed: bool| {
        let mut bytes = whole.clone();
        bytes[at + COLUMN_MASTER.len()..][..2].copy_from_slice(version);
        if sealed {
            bytes[at + COLUMN_CHECKSUM_AT..][..4].fill(0);
            let checksum = crc32c::crc32c(&bytes[at..at + COLUMN_MASTER_BYTES]);
            bytes[at + COLUMN_CHECKSUM_AT..][..4].copy_from_slice(&checksum.to_le_bytes());
        }
        open(&path, &bytes).map(drop).unwrap_err().to_string()
    };
    let older = said(b"01", true);
    assert!(older.contains("format version 1; this build reads version 2"), "{older}");
    assert!(older.contains("`perdura pool dump` with the build that wrote it"), "{older}");
    let newer = said(b"17", true);
    assert!(newer.contains("format version 17; this build reads version 2"), "{newer}");
    assert!(newer.contains("use a newer build"), "{newer}");
    for damaged in [said(b"01", false), said(b"0x", true), said(b"x1", true)] {
        assert!(damaged.contains("damaged master of a column store"), "{damaged}");
    }
    compare(&open(&path, &whole).unwrap(), &model);
}
