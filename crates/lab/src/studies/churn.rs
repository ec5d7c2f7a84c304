//! Space while tuples are changed, deleted and inserted again, with values of changing size.
//!
//! The set of keys stays the same, so that the space should, too. It is measured in blocks that the
//! database has on its medium: the most of the warm-up, and then the most of each fifth of the
//! operations. In `process`, since flushes change nothing in what is stored.

use perdura::{
    ColumnType, Database, Domain, EngineKind, Options, Schema, Table, TableSchema, Value,
};
use serde_json::json;
use workloads::{Random, create_modelled};

use super::{Cell, Done, Stage};
use crate::bench::Bench;
use crate::error::LabError;
use crate::point::Point;
use crate::room::Takes;
use crate::scale::Sizes;

/// Columns of a tuple besides its key, and the most bytes of one.
const COLUMNS: usize = 10;
const LONGEST: usize = 200;
/// Operations of a hundred that change a column; the others delete a tuple and insert it anew.
const UPDATES_PERCENT: u64 = 70;
/// Parts of the operations, and how often space is looked at in each. The warm-up is one part more.
const PARTS: u64 = 5;
const LOOKS: u64 = 200;

struct ChurnStage {
    engine: EngineKind,
    tuples: u64,
    operations: u64,
    cells: [Cell; 1],
}

/// One stage: NVM-InP.
pub(super) fn stages(sizes: &Sizes) -> Vec<Box<dyn Stage>> {
    let (engine, (tuples, operations)) = (EngineKind::NvmInp, sizes.churn);
    let configuration = json!({
        "engine": engine.name(), "tuples": tuples, "operations": operations, "columns": COLUMNS,
        "longest": LONGEST, "updates_percent": UPDATES_PERCENT, "domain": "process",
    });
    let label = format!("churn of {engine}, {operations} operations on {tuples} tuples");
    let weight = tuples as f64 * 3e-6 + operations as f64 * 2.5e-6;
    let takes = Takes::ycsb(engine, tuples, 0);
    let cells = [Cell::new(label, &configuration, &sizes.scaled_churn(), weight, takes)];
    vec![Box::new(ChurnStage { engine, tuples, operations, cells })]
}

impl Stage for ChurnStage {
    fn cells(&self) -> &[Cell] {
        &self.cells
    }

    fn measure(&self, bench: &Bench<'_>, _: &[usize], done: &mut Done<'_>) -> Result<(), LabError> {
        bench.watch.phase(&self.cells[0].label);
        let failed = LabError::measuring(self.engine.name());
        let place = bench.place("churn")?;
        let options = Options::new().engine(self.engine).domain(Domain::Process);
        let database = create_modelled(&place.path().join("pool"), &schema(), &options);
        let database = database.map_err(|error| failed(&error))?;
        let stored = self.stored(&database, bench.seed).map_err(|error| failed(&error))?;
        let report = database.check().map_err(|error| failed(&error))?;
        if report.leaked + report.dangling > 0 {
            let why = format!("{} objects leaked, {} dangling", report.leaked, report.dangling);
            return Err(failed(&why));
        }
        let exact = bench.space_is_exact()?;
        let points: Vec<Point> = stored
            .into_iter()
            .map(|(operations, bytes)| {
                let place = Point::of("PEERS-CHURN", self.engine.name(), operations);
                place.once("stored", "B", bytes as f64, exact)
            })
            .collect();
        done(0, &points)
    }
}

impl ChurnStage {
    /// Returns the most that was stored since the last look, after each so many operations.
    fn stored(&self, database: &Database, seed: u64) -> Result<Vec<(u64, u64)>, perdura::Error> {
        let mut churn = Churn::new(database, self.tuples, seed)?;
        (0..self.tuples).try_for_each(|key| churn.insert(key))?;
        let part = (self.operations / PARTS).max(1);
        let mut stored = Vec::new();
        for number in 0..=PARTS {
            let mut most = 0;
            for operation in 0..part {
                churn.operate()?;
                if operation % (part / LOOKS).max(1) == 0 {
                    most = most.max(database.stored_bytes()?);
                }
            }
            stored.push((part * number, most));
        }
        Ok(stored)
    }
}

fn schema() -> Schema {
    let table = TableSchema::new("thing").column("key", ColumnType::U64);
    let table = (0..COLUMNS).fold(table, |table, column| {
        table.column(format!("field{column}"), ColumnType::Bytes { max: LONGEST as u32 })
    });
    Schema::new().table(table.key(&["key"]))
}

/// The operations, the same for the same seed.
struct Churn<'a> {
    database: &'a Database,
    table: Table,
    tuples: u64,
    random: Random,
}

/// The bytes of values.
const BYTES: [u8; LONGEST] = [7; LONGEST];

impl<'a> Churn<'a> {
    fn new(database: &'a Database, tuples: u64, seed: u64) -> Result<Self, perdura::Error> {
        let table = database.table("thing")?;
        Ok(Self { database, table, tuples, random: Random::new(seed, 0xc4a2) })
    }

    fn value(&mut self) -> Value<'static> {
        Value::Bytes(&BYTES[..1 + self.random.below(LONGEST as u64) as usize])
    }

    fn tuple(&mut self, key: u64) -> [Value<'static>; COLUMNS + 1] {
        std::array::from_fn(|at| if at == 0 { Value::U64(key) } else { self.value() })
    }

    fn insert(&mut self, key: u64) -> Result<(), perdura::Error> {
        let tuple = self.tuple(key);
        self.database.write(|tx| tx.insert(&self.table, &tuple))
    }

    fn operate(&mut self) -> Result<(), perdura::Error> {
        let key = self.random.below(self.tuples);
        if self.random.below(100) < UPDATES_PERCENT {
            let column = 1 + self.random.below(COLUMNS as u64) as u16;
            let value = self.value();
            let key = [Value::U64(key)];
            return self.database.write(|tx| tx.update(&self.table, &key, &[(column, value)]));
        }
        let tuple = self.tuple(key);
        self.database.write(|tx| {
            tx.delete(&self.table, &tuple[..1])?;
            tx.insert(&self.table, &tuple)
        })
    }
}
