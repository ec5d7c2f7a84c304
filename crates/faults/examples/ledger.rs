//! A ledger that says what is durable, for power cuts from outside: of a virtual machine
//! (`scripts/dax`), or of a real one.
//!
//! ```text
//! ledger write POOL ENGINE DOMAIN ACKNOWLEDGED [UNTIL]
//! ledger verify POOL ACKNOWLEDGED
//! ```
//!
//! `write` creates POOL if there is none, verifies it, and runs transactions, up to number UNTIL or
//! until it is killed; when one is durable it prints the pool's name and how many there are so far.
//! DOMAIN is `auto`, or a domain that is modelled where the medium is weaker. The reader of that
//! output keeps the number in a place that survives, and passes it as ACKNOWLEDGED next time.
//! `verify` fails unless all of these are there, whole, and in order.
//!
//! Transaction n inserts entry n, deletes the one that is [`KEPT`] older, and counts in the table
//! `total`: the last entries are there without a gap, or a transaction was lost or torn.

#![forbid(unsafe_code)]

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use perdura::{
    ColumnType, Database, EngineKind, Error, Options, Row, Scan, Schema, TableSchema, Value,
};
use xxhash_rust::xxh3::xxh3_64;

/// Entries that are kept.
const KEPT: u64 = 500;
/// Bytes of the longest payload.
const LONGEST: u64 = 300;

fn schema() -> Schema {
    Schema::new()
        .table(
            TableSchema::new("entry")
                .column("number", ColumnType::U64)
                .column("payload", ColumnType::Bytes { max: LONGEST as u32 })
                .key(&["number"]),
        )
        .table(
            TableSchema::new("total")
                .column("id", ColumnType::U64)
                .column("transactions", ColumnType::U64)
                .key(&["id"]),
        )
}

fn payload(number: u64) -> Vec<u8> {
    let seed = xxh3_64(&number.to_le_bytes());
    (0..seed % (LONGEST + 1)).map(|at| (seed >> (at % 57)) as u8).collect()
}

/// Returns the number of transactions that a sound ledger has had, 0 if not even its total is
/// there.
fn transactions(db: &Database) -> Result<u64, Error> {
    let (entry, total) = (db.table("entry")?, db.table("total")?);
    db.check()?;
    let mut row = Row::new();
    let (mut count, mut numbers, mut wrong) = (0, Vec::new(), None);
    db.read(|tx| {
        if tx.get_into(&total, &[Value::U64(0)], &mut row)? {
            count = row.u64(1);
        }
        tx.scan(&entry, &Scan::all(), |row| {
            numbers.push(row.u64(0));
            if row.bytes(1) != payload(row.u64(0)) {
                wrong = Some(row.u64(0));
            }
            ControlFlow::Continue(())
        })
    })?;
    if let Some(number) = wrong {
        return Err(Error::user(format!("the payload of entry {number} is not what was written")));
    }
    if !numbers.iter().copied().eq(count.saturating_sub(KEPT)..count) {
        return Err(Error::user(format!(
            "after {count} transactions there are {} entries, from {:?} to {:?}",
            numbers.len(),
            numbers.first(),
            numbers.last()
        )));
    }
    Ok(count)
}

fn verified(db: &Database, acknowledged: u64) -> Result<u64, Error> {
    let count = transactions(db)?;
    if count < acknowledged {
        let lost = acknowledged - count;
        return Err(Error::user(format!("{lost} of {acknowledged} transactions are lost")));
    }
    Ok(count)
}

fn write(
    path: &Path,
    options: &Options,
    acknowledged: u64,
    until: u64,
    out: &mut impl Write,
) -> Result<(), Error> {
    let db = Database::open_or_create(path, &schema(), options)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (entry, total) = (db.table("entry")?, db.table("total")?);
    let start = verified(&db, acknowledged)?;
    for number in start..until {
        db.write(|tx| {
            tx.insert(&entry, &[Value::U64(number), Value::Bytes(&payload(number))])?;
            if number >= KEPT {
                tx.delete(&entry, &[Value::U64(number - KEPT)])?;
            }
            let key = [Value::U64(0)];
            match number {
                0 => tx.insert(&total, &[Value::U64(0), Value::U64(1)]),
                _ => tx.update(&total, &key, &[(1, Value::U64(number + 1))]),
            }
        })?;
        // In one piece: others may write there too.
        let line = format!("{name} {}\n", number + 1);
        if out.write_all(line.as_bytes()).is_err() {
            // The reader has closed the pipe.
            break;
        }
    }
    db.close()
}

fn run(arguments: &[&str]) -> Option<Result<(), Error>> {
    match arguments {
        ["write", path, engine, domain, acknowledged, until @ ..] => {
            let mut options = Options::new()
                .engine(engine.parse::<EngineKind>().ok()?)
                .pool_limit(64 << 20)
                .volatile_limit(256 << 20);
            if *domain != "auto" {
                options = options.domain(domain.parse().ok()?).model(true);
            }
            let until = until.first().map_or(Some(u64::MAX), |until| until.parse().ok())?;
            let out = &mut std::io::stdout();
            Some(write(Path::new(path), &options, acknowledged.parse().ok()?, until, out))
        }
        ["verify", path, acknowledged] => {
            let acknowledged = acknowledged.parse().ok()?;
            Some(Database::open(path, &Options::new()).and_then(|db| {
                let count = verified(&db, acknowledged)?;
                println!("{count} transactions, {acknowledged} acknowledged, none lost");
                db.close()
            }))
        }
        _ => None,
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            eprintln!("ledger: {error}");
            ExitCode::FAILURE
        }
        None => {
            eprintln!(
                "ledger write POOL ENGINE DOMAIN ACKNOWLEDGED [UNTIL]\nledger verify POOL ACKNOWLEDGED"
            );
            ExitCode::from(2)
        }
    }
}
