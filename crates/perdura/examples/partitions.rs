//! Events of many devices: one partition a worker, so that workers never wait for each other, and
//! a scan backwards over the newest events of a device.
//!
//! ```text
//! cargo run --release --example partitions
//! ```

use std::ops::ControlFlow;

use perdura::{ColumnType, Database, Error, Options, Scan, Schema, TableSchema, Value};

const WORKERS: u64 = 2;
const EVENTS: u64 = 20_000;

fn main() -> Result<(), Error> {
    let name = format!("perdura-example-events-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir(&directory).map_err(Error::user)?;
    let path = directory.join("events");
    let schema = Schema::new().table(
        TableSchema::new("event")
            .column("device", ColumnType::U64)
            .column("time", ColumnType::U64)
            .column("reading", ColumnType::F64)
            .column("note", ColumnType::Text { max: 100 })
            .key(&["device", "time"]),
    );
    let options = Options::new().partitions(WORKERS as u32);
    let db = Database::create(&path, &schema, &options)?;
    let event = db.table("event")?;

    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let (db, event) = (&db, &event);
                scope.spawn(move || -> Result<(), Error> {
                    // A worker that owns its partition pays for no lock.
                    let mut partition = db.partition(worker as usize).exclusive()?;
                    for time in 0..EVENTS {
                        // Devices are spread over the partitions by their number.
                        let device = (time % 10) * WORKERS + worker;
                        partition.write(|tx| {
                            tx.insert(
                                event,
                                &[
                                    Value::U64(device),
                                    Value::U64(time),
                                    Value::F64(time as f64 / 7.0),
                                    Value::Text("nothing to report"),
                                ],
                            )
                        })?;
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker panicked"))
    })?;

    let device = 7u64;
    println!("the three newest events of device {device}:");
    let mut seen = 0;
    db.partition((device % WORKERS) as usize).read(|tx| {
        tx.scan(&event, &Scan::prefix([Value::U64(device)]).backward(), |row| {
            println!("  {:>6}  {:>9.3}  {}", row.u64(1), row.f64(2), row.text(3));
            seen += 1;
            if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    })?;
    let report = db.check()?;
    println!("{} tuples in {} bytes of pool", report.tuples, db.stored_bytes()?);
    db.close()?;
    std::fs::remove_dir_all(&directory).map_err(Error::user)
}
