//! The same work on every engine, natively, for `scripts/native-instructions`: nothing in it depends
//! on time, so that its instructions can be counted and compared between two versions.
//!
//! ```text
//! fixed_run WORKLOAD ENGINE DIRECTORY
//! ```
//!
//! Workloads: `ycsb` reads and updates; `tpcc` inserts, deletes, scans and rolls back, too.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;

use perdura::{Database, Domain, EngineKind, Native, Options};
use workloads::ycsb::{COLUMN_BYTES, COLUMNS};
use workloads::{PerduraStore, RowBuffer, Session, Store, StoreError, tpcc};

const TUPLES: u64 = 2_000;
const TRANSACTIONS: u64 = 10_000;
const SHOP_TRANSACTIONS: u64 = 2_000;

/// Runs the part of YCSB that is counted: half reads, half updates of one column.
#[inline(never)]
fn measured_ycsb(session: &mut impl Session) -> Result<(), StoreError> {
    let mut row = RowBuffer::new();
    let mut state = 1_u64;
    for transaction in 0..TRANSACTIONS {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let key = (state >> 33) % TUPLES;
        if transaction % 2 == 0 {
            session.read(key, &mut row)?;
            black_box(&row);
        } else {
            let column = [transaction as u8; COLUMN_BYTES];
            session.update(key, (state >> 20) as usize % COLUMNS, &[column])?;
        }
    }
    Ok(())
}

/// Runs the part of TPC-C that is counted: all five transactions.
#[inline(never)]
fn measured_tpcc(
    terminal: &mut tpcc::Terminal<'_, Native>,
    inputs: &tpcc::Inputs,
) -> Result<(), perdura::Error> {
    for index in 0..inputs.len() {
        black_box(terminal.run(inputs, index)?);
    }
    Ok(())
}

fn ycsb(path: &Path, options: &Options) -> Result<(), Box<dyn Error>> {
    let database = Database::create(path, &PerduraStore::schema(), options)?;
    let store = PerduraStore::new(database, "fixed", path, 1)?;
    let mut session = store.session(0)?;
    for key in 0..TUPLES {
        session.load(key, &[[key as u8; COLUMN_BYTES]; COLUMNS])?;
    }
    session.finish_load()?;
    measured_ycsb(&mut session)?;
    Ok(())
}

fn shop(path: &Path, options: &Options) -> Result<(), Box<dyn Error>> {
    let spec = tpcc::Spec {
        items: 1_000,
        customers: 30,
        transactions: SHOP_TRANSACTIONS,
        ..tpcc::Spec::default()
    };
    let database = Database::create(path, &tpcc::schema(), options)?;
    tpcc::load(&database, &spec, 1, &())?;
    let workload = tpcc::Workload::generate(&spec)?;
    let mut terminal = tpcc::Terminal::new(&database, &spec, 0)?;
    measured_tpcc(&mut terminal, workload.inputs(0))?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let usage = "fixed_run ycsb|tpcc ENGINE DIRECTORY";
    let [workload, engine, directory] = &words[..] else { return Err(usage.into()) };
    let engine: EngineKind = engine.parse()?;
    let path = Path::new(directory).join("pool");
    let options = Options::new()
        .engine(engine)
        .domain(Domain::Adr)
        .model(true)
        .pool_limit(1 << 30)
        .volatile_limit(1 << 30)
        .tune("memtable_bytes", 1 << 20)
        .tune("checkpoint_bytes", 2 << 20);
    match workload.as_str() {
        "ycsb" => ycsb(&path, &options),
        "tpcc" => shop(&path, &options),
        _ => Err(usage.into()),
    }
}
