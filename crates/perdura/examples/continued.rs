//! A transaction of a thousand statements that is finished although its process is killed again and
//! again: `cargo run --release --example continued`.
//!
//! The program starts itself as a worker, kills it (SIGKILL) within a few milliseconds, and starts
//! the next one, until a worker has come to the commit. Every statement adds one to a row; at the
//! end each row has to have as many as if nothing had happened.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use perdura::{
    ColumnType, Database, EngineKind, Error, Options, Schema, Table, TableSchema, Value,
};

const STATEMENTS: u64 = 1000;
const ROWS: u64 = 40;
/// The row that the transaction inserts last: it says that the transaction has committed.
const DONE: u64 = 1_000_000;

fn options() -> Options {
    Options::new().engine(EngineKind::Sofort)
}

/// Opens the database, goes on with the transaction if there is one, and commits.
fn work(path: &Path) -> Result<(), Error> {
    let db = Database::open(path, &options())?;
    let table = db.table("counter")?;
    if db.get(&table, &[Value::from(DONE)])?.is_some() {
        return db.close();
    }
    if let Some(open) = db.in_flight()?.first() {
        println!("goes on behind statement {}", open.statements);
    }
    db.write_named(b"a thousand", |tx| {
        for statement in 0..STATEMENTS {
            let key = [Value::from(statement % ROWS)];
            tx.modify(&table, &key, |row| vec![(1, Value::from(row.u64(1) + 1))])?;
        }
        tx.insert(&table, &[Value::from(DONE), Value::from(1u64)])
    })?;
    db.close()
}

fn create(path: &Path) -> Result<(), Error> {
    let table = TableSchema::new("counter")
        .column("id", ColumnType::U64)
        .column("count", ColumnType::U64)
        .key(&["id"]);
    let db = Database::create(path, &Schema::new().table(table), &options())?;
    let table = db.table("counter")?;
    db.write(|tx| {
        (0..ROWS).try_for_each(|id| tx.insert(&table, &[Value::from(id), Value::from(0u64)]))
    })?;
    db.close()
}

fn count(db: &Database, table: &Table, id: u64) -> Result<u64, Error> {
    Ok(db.get(table, &[Value::from(id)])?.map_or(0, |row| row.u64(1)))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    if let Some(path) = arguments.next() {
        return Ok(work(Path::new(&path))?);
    }
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("counters");
    create(&path)?;
    let mut kills = 0;
    loop {
        let mut worker = Command::new(std::env::current_exe()?).arg(&path).spawn()?;
        // Each has a little longer than the last one.
        std::thread::sleep(Duration::from_millis(3 + kills));
        if worker.try_wait()?.is_some() {
            break;
        }
        worker.kill()?;
        worker.wait()?;
        kills += 1;
    }
    let db = Database::open(&path, &options())?;
    let table = db.table("counter")?;
    for id in 0..ROWS {
        assert_eq!(count(&db, &table, id)?, STATEMENTS / ROWS, "row {id}");
    }
    println!("{STATEMENTS} statements, each done once, over {kills} kills");
    Ok(())
}
