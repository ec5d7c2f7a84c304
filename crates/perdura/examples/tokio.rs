//! A database in an asynchronous program: a transaction stays in the thread that began it (a fence
//! covers what its own thread has flushed, and no more), so it runs in `spawn_blocking`, and only
//! what it returns crosses an `await`. The database, its tables, snapshots and tickets go where
//! they like.
//!
//! ```text
//! cargo run --release --example tokio
//! ```

use std::sync::Arc;

use perdura::{ColumnType, Database, Error, Options, Row, Schema, Table, TableSchema, Value};
use tokio::task::spawn_blocking;

const TASKS: u64 = 8;
const VISITS: u64 = 500;

/// A database that tasks share.
#[derive(Clone)]
struct Visits {
    db: Arc<Database>,
    page: Table,
}

impl Visits {
    /// Counts a visit; returns how many there have been.
    async fn count(&self, page: u64) -> Result<u64, Error> {
        let Self { db, page: table } = self.clone();
        let transaction = move || {
            db.write(|tx| {
                let (key, mut row) = ([Value::U64(page)], Row::new());
                if !tx.get_for_update_into(&table, &key, &mut row)? {
                    tx.insert(&table, &[Value::U64(page), Value::U64(1)])?;
                    return Ok(1);
                }
                let visits = row.u64(1) + 1;
                tx.update(&table, &key, &[(1, Value::U64(visits))])?;
                Ok(visits)
            })
        };
        spawn_blocking(transaction).await.map_err(Error::user)?
    }
}

async fn run(visits: Visits) -> Result<(), Error> {
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let visits = visits.clone();
            tokio::spawn(async move {
                for visit in 0..VISITS {
                    visits.count((task + visit) % 10).await?;
                }
                Ok::<(), Error>(())
            })
        })
        .collect();
    for task in tasks {
        task.await.map_err(Error::user)??;
    }
    let last = visits.count(0).await?;
    println!("{last} visits of page 0");
    assert_eq!(last, TASKS * VISITS / 10 + 1);
    Ok(())
}

fn main() -> Result<(), Error> {
    let directory = std::env::temp_dir().join(format!("perdura-tokio-{}", std::process::id()));
    std::fs::create_dir(&directory).map_err(Error::user)?;
    let table = TableSchema::new("page")
        .column("id", ColumnType::U64)
        .column("visits", ColumnType::U64)
        .key(&["id"]);
    let schema = Schema::new().table(table);
    let db = Arc::new(Database::create(directory.join("db"), &schema, &Options::new())?);
    let page = db.table("page")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().build().map_err(Error::user)?;
    runtime.block_on(run(Visits { db: db.clone(), page }))?;
    drop(runtime);
    Arc::into_inner(db).expect("no task has it any more").close()?;
    std::fs::remove_dir_all(&directory).map_err(Error::user)
}
