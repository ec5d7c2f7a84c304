//! Does space stay flat? Updates and delete-inserts with values of changing size run over a fixed
//! set of tuples, on each engine. The most that pool and files take during the second fifth of the
//! operations, after the warm-up, is compared with the most during the last fifth: a log-structured
//! engine takes more while it merges, one with checkpoints while it writes one. It must not grow by
//! more than 2%.
//!
//! ```text
//! cargo run --release --example churn -- [engine or all, default all] \
//!     [operations, default 1000000] [directory]
//! ```

use perdura::{ColumnType, Database, EngineKind, Error, Options, Schema, TableSchema, Value};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const TUPLES: u64 = 50_000;
const COLUMNS: usize = 5;
const LONGEST: usize = 200;
/// The number of times that space is looked at in a fifth.
const LOOKS: u64 = 200;
/// Growth that is still flat.
const FLAT: f64 = 0.02;

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let engines = match arguments.next().as_deref() {
        None | Some("all") => EngineKind::ALL.to_vec(),
        Some(name) => vec![name.parse().map_err(Error::user)?],
    };
    let operations = arguments.next().map_or(Ok(1_000_000u64), |n| n.parse());
    let operations = operations.map_err(Error::user)?;
    let directory = arguments.next().map_or_else(std::env::temp_dir, Into::into);
    println!(
        "{operations} operations on {TUPLES} tuples; MiB of pool and files, the most of each fifth"
    );
    println!(
        "{:<8} {:>8} {:>8} {:>8} {:>8} {:>8}  {:>10}  leaked  dangling",
        "engine", "1", "2", "3", "4", "5", "5th / 2nd"
    );
    let mut grows = Vec::new();
    for engine in engines {
        let directory = directory.join(format!("perdura-churn-{}-{engine}", std::process::id()));
        std::fs::create_dir(&directory).map_err(Error::user)?;
        let result = churn(&directory.join("db"), engine, operations);
        let _ = std::fs::remove_dir_all(&directory);
        if !result? {
            grows.push(engine.to_string());
        }
    }
    if grows.is_empty() {
        return Ok(());
    }
    Err(Error::user(format!("space is not flat: {}", grows.join(", "))))
}

/// Returns true if the space of an engine stays flat.
fn churn(path: &std::path::Path, engine: EngineKind, operations: u64) -> Result<bool, Error> {
    let columns = (0..COLUMNS).fold(
        TableSchema::new("thing").column("id", ColumnType::U64),
        |table, column| {
            let kind = ColumnType::Bytes { max: LONGEST as u32 };
            table.column(format!("field{column}"), kind)
        },
    );
    let schema = Schema::new().table(columns.key(&["id"]));
    // Small limits: what comes and goes with merges and checkpoints does so many times.
    let options = Options::new()
        .engine(engine)
        .tune("memtable_bytes", 1 << 20)
        .tune("checkpoint_bytes", 8 << 20);
    let db = Database::create(path, &schema, &options)?;
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
    let mut most = [0; 5];
    let fifth = (operations / 5).max(1);
    for done in 0..5 * fifth {
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
        if done % (fifth / LOOKS).max(1) == 0 {
            let most = &mut most[(done / fifth) as usize];
            *most = db.stored_bytes()?.max(*most);
        }
    }
    let report = db.check()?;
    let growth = most[4] as f64 / most[1] as f64 - 1.0;
    let mib = most.map(|bytes| format!("{:>8.1}", bytes as f64 / f64::from(1 << 20)));
    println!(
        "{:<8} {}  {:>+9.2}%  {:>6}  {:>8}",
        engine.name(),
        mib.join(" "),
        growth * 100.0,
        report.leaked,
        report.dangling
    );
    db.close()?;
    Ok(growth <= FLAT && report.leaked == 0 && report.dangling == 0)
}
