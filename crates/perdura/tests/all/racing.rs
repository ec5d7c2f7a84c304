//! Opening, closing, dropping, background work, snapshots, readers and writers that race, in
//! threads and in processes. What each thread does is seeded; who comes first is not, and makes no
//! difference to what has to hold.

use crate::support::{few, in_memory, small_logs};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use perdura::{
    Background, ColumnType, Database, Domain, EngineKind, Error, Options, PoolError, Row, Scan,
    Schema, Table, TableSchema, Value,
};

const ACCOUNTS: u64 = 20;

fn schema() -> Schema {
    let table = TableSchema::new("account")
        .column("id", ColumnType::U64)
        .column("balance", ColumnType::I64)
        .column("note", ColumnType::Bytes { max: 200 })
        .key(&["id"])
        .index("by_balance", &["balance"]);
    Schema::new().table(table)
}

fn options(engine: EngineKind, background: Background) -> Options {
    small_logs()
        .engine(engine)
        .domain(Domain::Process)
        .background(background)
        .pool_limit(1 << 28)
        .volatile_limit(1 << 28)
        .chunk_bytes(16 << 10)
        .tune("page_bytes", 512)
        .tune("cache_bytes", 16 << 10)
        .tune("memtable_bytes", 4 << 10)
        .tune("growth", 2)
        .tune("level0_runs", 2)
        .tune("block_bytes", 256)
        .tune("checkpoint_bytes", 16 << 10)
        .tune("wal_reserve_bytes", 4 << 10)
}

fn fill(db: &Database, partition: usize) {
    let table = db.table("account").unwrap();
    db.partition(partition)
        .write(|tx| {
            (0..ACCOUNTS).try_for_each(|id| {
                tx.insert(&table, &[Value::U64(id), Value::I64(100), Value::Bytes(&[])])
            })
        })
        .unwrap();
}

/// The balance of an account changes by `amount`.
fn pay(tx: &mut perdura::Tx<'_>, table: &Table, id: u64, amount: i64) -> Result<(), Error> {
    let (mut row, key) = (Row::new(), [Value::U64(id)]);
    assert!(tx.get_into(table, &key, &mut row)?);
    let balance = row.i64(1) + amount;
    let note = vec![balance as u8; balance.unsigned_abs() as usize % 200];
    tx.update(table, &key, &[(1, Value::I64(balance)), (2, Value::Bytes(&note))])
}

/// The sum of all balances, each of which its note agrees with.
fn sum(
    scan: impl FnOnce(&mut dyn FnMut(&Row) -> ControlFlow<()>) -> Result<(), Error>,
) -> Result<i64, Error> {
    let (mut sum, mut count) = (0, 0);
    scan(&mut |row| {
        let balance = row.i64(1);
        assert!(
            row.bytes(2).is_empty()
                || row.bytes(2) == vec![balance as u8; balance.unsigned_abs() as usize % 200]
        );
        (sum, count) = (sum + balance, count + 1);
        ControlFlow::Continue(())
    })?;
    assert_eq!(count, ACCOUNTS);
    Ok(sum)
}

fn total(db: &Database, partition: usize) -> i64 {
    let table = db.table("account").unwrap();
    let read = |tx: &perdura::ReadTx<'_>| sum(|visit| tx.scan(&table, &Scan::all(), visit));
    db.partition(partition).read(read).unwrap()
}

fn is_in_use(error: &Error) -> bool {
    matches!(error, Error::Pool(PoolError::InUse { .. }))
}

/// Counts down when it is dropped, whatever happens: no thread waits for one that has panicked.
struct Ends<'a>(&'a AtomicU64);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Opens the database, pays one into an account, and gives the handle up in one of three ways.
/// Returns whether opening succeeded.
fn visit(path: &Path, options: &Options, random: &mut SmallRng) -> bool {
    let db = match Database::open(path, options) {
        Ok(db) => db,
        Err(error) if is_in_use(&error) => return false,
        Err(error) => panic!("{error}"),
    };
    let table = db.table("account").unwrap();
    db.write(|tx| pay(tx, &table, random.random_range(0..ACCOUNTS), 1)).unwrap();
    match random.random_range(0..3) {
        0 => db.close().unwrap(),
        1 => drop(db),
        _ => db.abandon(),
    }
    true
}

#[test]
fn threads_that_open_while_others_close_lose_nothing() {
    few().for_each(threads_that_open_while_others_close);
}

pub(crate) fn threads_that_open_while_others_close(engine: EngineKind) {
    for background in [Background::Inline, Background::Thread] {
        let (directory, options) = (in_memory(), options(engine, background));
        let path = directory.path().join("db");
        let db = Database::create(&path, &schema(), &options).unwrap();
        fill(&db, 0);
        drop(db);
        let visits = AtomicU64::new(0);
        thread::scope(|scope| {
            for seed in 0..4 {
                let (path, options, visits) = (&path, &options, &visits);
                scope.spawn(move || {
                    let mut random = SmallRng::seed_from_u64(seed);
                    let mut mine = 0;
                    while mine < 8 {
                        if visit(path, options, &mut random) {
                            mine += 1;
                            visits.fetch_add(1, SeqCst);
                        } else {
                            thread::yield_now();
                        }
                    }
                });
            }
        });
        let db = Database::open(&path, &options).unwrap();
        let expected = 100 * ACCOUNTS as i64 + visits.into_inner() as i64;
        assert_eq!(total(&db, 0), expected, "{engine}");
        let report = db.check().unwrap();
        assert_eq!((report.leaked, report.dangling), (0, 0), "{engine}");
    }
}

const CHILD: &str = "PERDURA_RACING_CHILD";

/// Processes take turns at a database, some of them start programs meanwhile, and a few are killed
/// at whatever they are about: what those had paid in may be there or not, nothing else is missing.
#[test]
fn processes_that_open_while_others_close_lose_nothing() {
    const NAME: &str = "racing::processes_that_open_while_others_close_lose_nothing";
    if let Some(given) = std::env::var_os(CHILD) {
        let given = given.into_string().unwrap();
        let (seed, path) = given.split_once(':').unwrap();
        let mut random = SmallRng::seed_from_u64(seed.parse().unwrap());
        let mut visits = 0;
        while visits < 10 {
            if visit(Path::new(path), &small_logs(), &mut random) {
                visits += 1;
            } else {
                thread::yield_now();
            }
            if visits % 4 == 3 {
                // Descriptors that a child inherits until `exec` must not keep others out for
                // good.
                assert!(Command::new("true").status().unwrap().success());
            }
        }
        return;
    }
    for engine in few() {
        let directory = in_memory();
        let path = directory.path().join("db");
        let options = options(engine, Background::Thread);
        let db = Database::create(&path, &schema(), &options).unwrap();
        fill(&db, 0);
        drop(db);
        let child = |seed: u64| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", NAME, "--nocapture", "--test-threads=1"])
                .env(CHILD, format!("{seed}:{}", path.display()))
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let (mut killed, lasting) = (child(9), (1..4).map(child).collect::<Vec<_>>());
        let mut random = SmallRng::seed_from_u64(0);
        let mut mine = 0;
        while mine < 5 {
            mine += i64::from(visit(&path, &options, &mut random));
        }
        killed.kill().unwrap();
        killed.wait().unwrap();
        for child in lasting {
            let done = child.wait_with_output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
        let db = Database::open(&path, &options).unwrap();
        let least = 100 * ACCOUNTS as i64 + 3 * 10 + mine;
        assert!((least..=least + 10).contains(&total(&db, 0)), "{engine}: {}", total(&db, 0));
        let report = db.check().unwrap();
        assert_eq!((report.leaked, report.dangling), (0, 0), "{engine}");
    }
}

/// Starting a program copies the open files of the process until `exec`. After the database was
/// closed, this keeps no other thread out.
#[test]
fn who_starts_programs_meanwhile_can_open_again_at_once() {
    let directory = in_memory();
    let path = directory.path().join("db");
    let options = options(EngineKind::NvmInp, Background::Inline);
    let db = Database::create(&path, &schema(), &options).unwrap();
    fill(&db, 0);
    drop(db);
    let going_on = AtomicU64::new(1);
    thread::scope(|scope| {
        scope.spawn(|| {
            while going_on.load(SeqCst) > 0 {
                assert!(Command::new("true").status().unwrap().success());
            }
        });
        let _ends = Ends(&going_on);
        let mut random = SmallRng::seed_from_u64(1);
        let visits = (0..150).filter(|_| visit(&path, &options, &mut random)).count();
        assert_eq!(visits, 150, "nobody else has it");
    });
}

/// Two writers and a reader in each of two partitions, a handle each, all at once; one of them
/// takes a partition for itself now and then.
#[test]
fn writers_and_readers_of_the_same_partitions_see_whole_transactions() {
    for engine in EngineKind::ALL {
        for background in [Background::Inline, Background::Thread] {
            let (directory, options) = (in_memory(), options(engine, background));
            let path = directory.path().join("db");
            let db = Database::create(&path, &schema(), &options.clone().partitions(2)).unwrap();
            (0..2).for_each(|partition| fill(&db, partition));
            let table = db.table("account").unwrap();
            let whole = 100 * ACCOUNTS as i64;
            let move_some = |tx: &mut perdura::Tx<'_>, random: &mut SmallRng| {
                let amount = random.random_range(1..50);
                pay(tx, &table, random.random_range(0..ACCOUNTS), -amount)?;
                if random.random_bool(0.2) {
                    return Err(Error::user("changed its mind"));
                }
                pay(tx, &table, random.random_range(0..ACCOUNTS), amount)
            };
            let writing = AtomicU64::new(4);
            thread::scope(|scope| {
                for number in 0..4u64 {
                    let (db, writing, move_some) = (&db, &writing, &move_some);
                    scope.spawn(move || {
                        let _ends = Ends(writing);
                        let mut random = SmallRng::seed_from_u64(number);
                        for round in 0..60 {
                            // Not always the same.
                            let partition = db.partition((number as usize + round / 20) % 2);
                            if round % 10 == 0 {
                                let mut own = partition.exclusive().unwrap();
                                for _ in 0..3 {
                                    let mut tx = own.begin();
                                    match move_some(&mut tx, &mut random) {
                                        Ok(()) => assert!(tx.commit().unwrap().is_durable()),
                                        Err(_) => tx.abort().unwrap(),
                                    }
                                }
                            } else {
                                let done = partition.write(|tx| move_some(tx, &mut random));
                                assert!(done.is_ok() || matches!(done, Err(Error::User(_))));
                            }
                        }
                    });
                }
                for partition in 0..2 {
                    let (db, writing) = (&db, &writing);
                    scope.spawn(move || {
                        while writing.load(SeqCst) > 0 {
                            assert_eq!(total(db, partition), whole, "{engine}");
                        }
                    });
                }
            });
            drop(db);
            let db = Database::open(&path, &options).unwrap();
            assert_eq!((total(&db, 0), total(&db, 1)), (whole, whole), "{engine}");
            let report = db.check().unwrap();
            assert_eq!((report.leaked, report.dangling), (0, 0), "{engine}");
        }
    }
}

/// Each thread has its clone of the handle. The last one closes it, with the thread in the
/// background at work and snapshots being read. As long as one of those lives, no other opening
/// succeeds.
#[test]
fn the_last_of_many_handles_and_snapshots_lets_others_in() {
    for engine in EngineKind::ALL {
        let directory = in_memory();
        let path = directory.path().join("db");
        let options = options(engine, Background::Thread);
        let db = Database::create(&path, &schema(), &options).unwrap();
        fill(&db, 0);
        drop(db);
        let mut expected = 100 * ACCOUNTS as i64;
        for round in 0..4 {
            let db = Arc::new(Database::open(&path, &options).unwrap());
            assert_eq!(total(&db, 0), expected, "{engine}");
            let table = db.table("account").unwrap();
            let snapshots: Vec<_> = (0..2).filter_map(|_| db.snapshot().ok()).collect();
            let (reading, before) = (AtomicU64::new(snapshots.len() as u64), expected);
            thread::scope(|scope| {
                for number in 0..3u64 {
                    let (db, table) = (db.clone(), table.clone());
                    scope.spawn(move || {
                        for turn in 0..20 + number * 10 {
                            db.write(|tx| pay(tx, &table, (turn * 7 + round) % ACCOUNTS, 1))
                                .unwrap();
                        }
                    });
                }
                expected += 20 + 30 + 40;
                drop(db);
                for snapshot in snapshots {
                    let (table, reading) = (&table, &reading);
                    scope.spawn(move || {
                        // Declared after the snapshot, so that it goes before: then another opening
                        // may succeed or not.
                        let snapshot = snapshot;
                        let _ends = Ends(reading);
                        for _ in 0..30 {
                            let seen = sum(|visit| snapshot.scan(table, &Scan::all(), visit));
                            assert_eq!(seen.unwrap(), before, "{engine}");
                        }
                    });
                }
                // Others try all the time.
                while reading.load(SeqCst) > 0 {
                    if let Err(error) = Database::open(&path, &options) {
                        assert!(is_in_use(&error), "{engine}: {error}");
                    } else {
                        assert_eq!(reading.load(SeqCst), 0, "{engine}: a snapshot was alive");
                    }
                }
            });
        }
        let db = Database::open(&path, &options).unwrap();
        assert_eq!(total(&db, 0), expected, "{engine}");
        let report = db.check().unwrap();
        assert_eq!((report.leaked, report.dangling), (0, 0), "{engine}");
    }
}

/// Some create, some open, some do whatever is needed. All get in at last, one after the other, and
/// the only errors are that it is there, in use, or not finished.
#[test]
fn threads_that_create_and_open_at_once_all_get_in() {
    for engine in EngineKind::ALL {
        for seed in 0..4 {
            let directory = in_memory();
            let path = directory.path().join("db");
            let options = options(engine, Background::Inline);
            let visits = AtomicU64::new(0);
            thread::scope(|scope| {
                for number in 0..3 {
                    let (path, options, visits) = (&path, &options, &visits);
                    scope.spawn(move || {
                        let mut random = SmallRng::seed_from_u64(seed * 10 + number);
                        loop {
                            let got = match random.random_range(0..3) {
                                0 => Database::open(path, options),
                                1 => Database::create(path, &schema(), options),
                                _ => Database::open_or_create(path, &schema(), options),
                            };
                            match got {
                                Ok(db) => {
                                    if visits.fetch_add(1, SeqCst) == 0 {
                                        fill(&db, 0);
                                    }
                                    assert_eq!(total(&db, 0), 100 * ACCOUNTS as i64);
                                    return;
                                }
                                Err(
                                    Error::Pool(
                                        PoolError::InUse { .. }
                                        | PoolError::Exists { .. }
                                        | PoolError::NotAPool { .. }
                                        | PoolError::TooShort { .. }
                                        | PoolError::Io { .. },
                                    )
                                    | Error::Unfinished { .. },
                                ) => thread::yield_now(),
                                Err(error) => panic!("{engine}: {error}"),
                            }
                        }
                    });
                }
            });
            assert_eq!(visits.into_inner(), 3, "{engine}");
            assert_eq!(total(&Database::open(&path, &options).unwrap(), 0), 100 * ACCOUNTS as i64);
        }
    }
}
