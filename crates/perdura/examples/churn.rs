//! Does space stay flat? Updates and delete-inserts with values of changing size over a fixed set
//! of tuples; the file must not grow by more than 2% after a warm-up.
//!
//! ```text
//! cargo run --release --example churn -- [operations, default 10000000] [directory]
//! ```

use perdura::{ColumnType, Database, EngineKind, Error, Options, Schema, TableSchema, Value};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const TUPLES: u64 = 50_000;
const COLUMNS: usize = 5;
const LONGEST: usize = 200;

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let operations = arguments.next().map_or(Ok(10_000_000u64), |n| n.parse());
    let operations = operations.map_err(Error::user)?;
    let directory = arguments.next().map_or_else(std::env::temp_dir, Into::into);
    let path = directory.join(format!("perdura-churn-{}", std::process::id()));
    let result = churn(&path, operations);
    let _ = std::fs::remove_file(&path);
    result
}

fn churn(path: &std::path::Path, operations: u64) -> Result<(), Error> {
    let columns = (0..COLUMNS).fold(
        TableSchema::new("thing").column("id", ColumnType::U64),
        |table, column| {
            let kind = ColumnType::Bytes { max: LONGEST as u32 };
            table.column(format!("field{column}"), kind)
        },
    );
    let schema = Schema::new().table(columns.key(&["id"]));
    let db = Database::create(path, &schema, &Options::new().engine(EngineKind::NvmInp))?;
    let thing = db.table("thing")?;
    let bytes = [7u8; LONGEST];
    let mut random = SmallRng::seed_from_u64(1);
    let mut tuple = |id: u64| -> [Value<'_>; COLUMNS + 1] {
        std::array::from_fn(|at| match at {
            0 => Value::U64(id),
            _ => Value::Bytes(&bytes[..random.random_range(1..=LONGEST)]),
        })
    };
    for id in 0..TUPLES {
        let tuple = tuple(id);
        db.write(|tx| tx.insert(&thing, &tuple))?;
    }
    let mut choose = SmallRng::seed_from_u64(2);
    let mut warm = None;
    for done in 0..operations {
        let tuple = tuple(choose.random_range(0..TUPLES));
        let key = &tuple[..1];
        if choose.random_bool(0.7) {
            let column = choose.random_range(1..=COLUMNS);
            db.write(|tx| tx.update(&thing, key, &[(column as u16, tuple[column])]))?;
        } else {
            db.write(|tx| {
                tx.delete(&thing, key)?;
                tx.insert(&thing, &tuple)
            })?;
        }
        if done % (operations / 10).max(1) == 0 {
            let stored = db.stored_bytes()?;
            println!("{done:>10} operations: {stored} bytes");
            if done >= operations / 5 {
                warm.get_or_insert(stored);
            }
        }
    }
    let (stored, report) = (db.stored_bytes()?, db.check()?);
    let growth = warm.map_or(0.0, |warm| stored as f64 / warm as f64 - 1.0);
    println!(
        "{operations:>10} operations: {stored} bytes, {:+.2}% since the warm-up",
        growth * 100.0
    );
    println!("leaked {}, dangling {}", report.leaked, report.dangling);
    db.close()?;
    let flat = growth <= 0.02 && report.leaked == 0 && report.dangling == 0;
    if flat { Ok(()) } else { Err(Error::user("space is not flat")) }
}
