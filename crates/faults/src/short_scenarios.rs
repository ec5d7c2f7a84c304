//! Scenarios of statements and of savepoints.

use perdura::{Database, EngineKind, Options, Schema};
use rand::Rng;
use sim::{Recorded, Recording};

use crate::driver::Driver;
use crate::explorer::Scenario;
use crate::items::{Model, Tables, inlined_schema, long_schema, nullable_schema, schema};
use crate::plot::{long_key_options, options};
use crate::pool::PoolMedium;
use crate::scenario::{record, record_with};
use crate::work::Items;

/// Transactions that go back to savepoints, in engines that have them.
///
/// # Panics
/// The engine fails without any crash.
pub fn savepoints(engine: EngineKind, seed: u64, transactions: usize) -> Scenario<PoolMedium> {
    const KEYS: u64 = 12;
    let mut driver = Driver::new(seed, KEYS);
    let mut models = vec![Model::default()];
    let act = |db: &Database<Recorded>, tables: &Tables, memory: &Recording| {
        for transaction in 0..transactions {
            let mut model = models[models.len() - 1].clone();
            let steps = 4 + transaction % 9;
            if driver.with_savepoints(db, tables, &mut model, steps)? {
                models.push(model);
            }
            memory.note(models.len() as u64 - 1);
        }
        Ok(())
    };
    let (medium, trace) = record(engine, |_, _| Ok(()), act).expect("it runs");
    Scenario { work: Items, medium, trace, models, in_flight: 1, created: false }
}

/// Updates of few tuples, each a transaction of its own in a thread of its own; between them
/// others, of which some abort. An odd seed has all columns inlined.
///
/// # Panics
/// The engine fails without any crash.
pub fn statements(engine: EngineKind, seed: u64, transactions: usize) -> Scenario<PoolMedium> {
    // A table's columns are inlined or they are not.
    let schema = if seed.is_multiple_of(2) { schema() } else { inlined_schema() };
    statements_of(&schema, options(engine), seed, transactions)
}

/// Works as [`statements`], in tables whose columns may be NULL.
///
/// # Panics
/// The engine fails without any crash.
pub fn statements_with_nulls(
    engine: EngineKind,
    seed: u64,
    transactions: usize,
) -> Scenario<PoolMedium> {
    statements_of(&nullable_schema(), options(engine), seed, transactions)
}

/// Works as [`statements`], with long keys.
///
/// # Panics
/// The engine fails without any crash.
pub fn statements_with_long_keys(
    engine: EngineKind,
    seed: u64,
    transactions: usize,
) -> Scenario<PoolMedium> {
    statements_of(&long_schema(), long_key_options(options(engine)), seed, transactions)
}

fn statements_of(
    schema: &Schema,
    options: Options,
    seed: u64,
    transactions: usize,
) -> Scenario<PoolMedium> {
    const KEYS: u64 = 4;
    let mut driver = Driver::new(seed, KEYS);
    let mut models = vec![Model::default()];
    let act = |db: &Database<Recorded>, tables: &Tables, memory: &Recording| {
        for transaction in 0..transactions {
            let before = &models[models.len() - 1];
            let mut model = before.clone();
            let mut work = || match driver.random.random_bool(0.7) {
                true => driver.statement(db, tables, &mut model).map(|()| true),
                false => driver.transaction(db, tables, &mut model, 1 + transaction % 3),
            };
            std::thread::scope(|scope| scope.spawn(&mut work).join().expect("it runs"))?;
            if model != *before {
                models.push(model);
            }
            memory.note(models.len() as u64 - 1);
        }
        Ok(())
    };
    let (medium, trace) = record_with(schema, options, |_, _| Ok(()), act).expect("it runs");
    Scenario { work: Items, medium, trace, models, in_flight: 1, created: false }
}
