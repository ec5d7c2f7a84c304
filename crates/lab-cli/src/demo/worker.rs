//! The process of an engine: opens its database, says what it found, and works until it is killed.
//!
//! Invariants:
//! - What it found is said before anything is changed.
//! - A count is stored when the transaction, or the statement of a continued one, has returned.
//! - It never closes its database: it ends by SIGKILL, or when its standard input does.

use std::ffi::OsString;
use std::io::BufRead;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::thread;
use std::time::Instant;

use command::args::demo::MOST_USERS;
use command::failure::{Failure, or_end};
use command::process::run_task;
use command::settings::database_options;
use command::system::{create_database, pool_path};
use peers::AcknowledgedFile;
use perdura::{
    Background, ColumnType, Concurrency, Database, Domain, EngineKind, Error, Row, Schema,
    TableSchema, Value,
};
use workloads::{Commit, tatp};

use super::state::{DemoState, ROWS, Tables, name_of, partition, row_of, say, spec};
use super::task::{COUNTERS, Counter, Event, Held, HeldLong, LONG, Position, Settings, Task};
use super::{long, users};

/// First argument of this process.
pub(crate) const WORKER: &str = "__demo";

/// The process: runs until it is killed, or fails.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    run_task(arguments, work)
}

fn work(task: Task) -> Result<(), Failure> {
    let counters = AcknowledgedFile::open(&task.counters, COUNTERS)?;
    let kind: EngineKind = task.engine.parse().map_err(|error| Failure::about("engine", error))?;
    let path = pool_path(&task.directory);
    let (database, said) = if path.exists() { open(&path)? } else { create(kind, &path, &task)? };
    let Settings { users, latency_ns } = task.settings;
    let state = DemoState {
        tables: Tables::of(&database)?,
        database,
        users: AtomicU32::new(users),
        latency_ns: AtomicU64::new(latency_ns),
        paid: Mutex::new(0),
        counters,
        task,
    };
    state.hear(state.task.settings);
    if let Event::Opened { held, .. } = &said {
        // What was undone has not been done.
        for (number, long) in held.long.iter().enumerate() {
            state.acknowledge(Counter::Long(number), long.position.packed());
        }
    }
    say(&said)?;
    thread::scope(|threads| {
        threads.spawn(|| listen(&state));
        for user in 0..MOST_USERS as usize {
            let state = &state;
            threads.spawn(move || or_end(users::work(state, user)));
        }
        for number in 0..LONG {
            let state = &state;
            threads.spawn(move || or_end(long::work(state, number)));
        }
    });
    Ok(())
}

/// Reads new settings. Ends the process if the process that sends them is gone.
fn listen(state: &DemoState) {
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        match serde_json::from_str(&line) {
            Ok(settings) => state.hear(settings),
            Err(error) => or_end(Err(Failure::about("a setting", error))),
        }
    }
    std::process::exit(1);
}

fn schema() -> Schema {
    let counted = |name: &str| {
        let table = TableSchema::new(name).column("id", ColumnType::U64);
        table.column("count", ColumnType::U64).key(&["id"])
    };
    let schema = ["receipt", "work", "run"].map(counted);
    schema.into_iter().fold(tatp::schema(), Schema::table)
}

fn create(kind: EngineKind, path: &Path, task: &Task) -> Result<(Database, Event), Failure> {
    let shared = kind.traits().concurrency == Concurrency::Shared;
    let partitions = if shared { 1 } else { 1 + LONG };
    let options = database_options(Commit::Durable, Background::Thread)
        .engine(kind)
        .partitions(partitions as u32);
    let database = create_database(path, &schema(), &options, Some(Domain::Adr))?;
    tatp::load(&database, &spec(task, partitions, 1, 1), 1, &())?;
    let tables = Tables::of(&database)?;
    let zero = |id: u64| [Value::from(id), Value::from(0_u64)];
    database.partition(0).write(|tx| {
        (0..u64::from(MOST_USERS)).try_for_each(|user| tx.insert(&tables.receipt, &zero(user)))
    })?;
    for number in 0..LONG {
        database.partition(partition(&database, number)).write(|tx| {
            tx.insert(&tables.run, &zero(number as u64))?;
            (0..ROWS).try_for_each(|row| tx.insert(&tables.work, &zero(row_of(number, row))))
        })?;
    }
    Ok((database, Event::Loaded))
}

fn open(path: &Path) -> Result<(Database, Event), Failure> {
    let options = database_options(Commit::Durable, Background::Thread);
    let started = Instant::now();
    let database = Database::open(path, &options)?;
    let open_ms = started.elapsed().as_secs_f64() * 1000.0;
    let held = held(&database, &Tables::of(&database)?)?;
    Ok((database, Event::Opened { open_ms, held }))
}

/// Reads all that was acknowledged or could have been.
fn held(database: &Database, tables: &Tables) -> Result<Held, Error> {
    let count = |row: Option<Row>| row.map_or(0, |row| row.u64(1));
    let receipts = database.partition(0).read(|tx| {
        let receipt = |user: u64| Ok(count(tx.get(&tables.receipt, &[Value::from(user)])?));
        (0..u64::from(MOST_USERS)).map(receipt).collect::<Result<_, Error>>()
    })?;
    let long = |number: usize| {
        let partition = database.partition(partition(database, number));
        let (runs, shown) = partition.read(|tx| {
            let mut shown = 0;
            for row in 0..ROWS {
                shown += count(tx.get(&tables.work, &[Value::from(row_of(number, row))])?);
            }
            Ok((count(tx.get(&tables.run, &[Value::from(number as u64)])?), shown))
        })?;
        let name = name_of(number);
        let waits = partition.in_flight().into_iter().find(|one| one.name == name.as_bytes());
        let statements = waits.map_or(0, |one| one.statements);
        Ok(HeldLong { position: Position { runs, statements }, shown })
    };
    Ok(Held { receipts, long: (0..LONG).map(long).collect::<Result<_, Error>>()? })
}
