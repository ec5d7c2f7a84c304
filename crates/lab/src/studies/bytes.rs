//! Bytes that an insert, an update and a delete write, compared with P1's cost model (appendix A,
//! Table 3).
//!
//! Counted in emulated memory, where the volatile memory and the files of the traditional engines
//! are NVM too, as the model has it. The table is the one for which the model was made: a key, a
//! fixed field, and nine fields of variable length of which an update changes one. Each operation
//! is a durable transaction of its own; in the paper's setting some engines make a group of them
//! durable together. MemTables are small, so that merges are in it; θ is what the engine's own
//! statistics give for the same operations. InP's checkpoint is not in it: it writes the whole
//! database, however many operations there were.

use perdura::{
    ColumnType, Database, EngineKind, Options, OwnStats, Schema, Table, TableSchema, Value,
};
use serde_json::json;
use workloads::Random;

use super::settings::in_both;
use super::{Cell, Done, Stage};
use crate::bench::Bench;
use crate::cost::{CostModel, Operation};
use crate::emulation::{Breakdown, Emulation, LineCounts, Meter, MeterOptions, Nvm};
use crate::error::LabError;
use crate::point::Point;
use crate::room::Takes;
use crate::setting::Setting;

/// Fields of variable length, and the bytes of one.
const FIELDS: u16 = 9;
const FIELD_BYTES: usize = 100;
/// Bytes of a number and of a pointer.
const WORD: f64 = 8.0;
/// Tuples before it begins, and operations of each kind.
const TUPLES: u64 = 4000;
const OPERATIONS: u64 = 1000;
/// MemTables that are merged in so short a run.
const MEMTABLE_BYTES: u64 = 64 << 10;
const GROWTH: u32 = 4;
/// Pages of `cow` and nodes of `nvm-cow`, as by default.
const PAGE_BYTES: f64 = 4096.0;
const NODE_BYTES: f64 = 256.0;

struct BytesStage {
    engine: EngineKind,
    setting: Setting,
    cells: [Cell; 1],
}

/// One stage an engine and setting.
pub(super) fn stages() -> Vec<Box<dyn Stage>> {
    let stage = |engine: EngineKind, setting: Setting| {
        let mut configuration = json!({
            "engine": engine.name(), "tuples": TUPLES, "operations": OPERATIONS,
            "memtable_bytes": MEMTABLE_BYTES, "growth": GROWTH,
        });
        setting.note(engine, &mut configuration);
        let label = setting.label(format!("bytes written, {engine}"));
        let takes = Takes::emulated(engine, TUPLES + OPERATIONS);
        let cells = [Cell::new(label, &configuration, "", 1.0, takes)];
        BytesStage { engine, setting, cells }
    };
    let stages = |engine| in_both(|setting| stage(engine, setting));
    EngineKind::P1.into_iter().flat_map(stages).collect()
}

impl Stage for BytesStage {
    fn cells(&self) -> &[Cell] {
        &self.cells
    }

    fn measure(&self, bench: &Bench<'_>, _: &[usize], done: &mut Done<'_>) -> Result<(), LabError> {
        bench.watch.phase(&self.cells[0].label);
        let failed = LabError::measuring(self.engine.name());
        let meter = Meter::new(MeterOptions::default());
        let nvm = Nvm::new(&meter, 8 << 30).map_err(|error| failed(&error))?;
        let options = Options::new().engine(self.engine).tune("memtable_bytes", MEMTABLE_BYTES);
        let options = options.tune("growth", GROWTH.into()).tune("checkpoint_bytes", 1 << 50);
        let options = self.setting.on(self.engine, options);
        let database = nvm.create(&schema(), &options).map_err(|error| failed(&error))?;
        let points = self.points(bench.seed, &meter, &database);
        database.abandon();
        done(0, &points.map_err(|error| failed(&error))?)
    }
}

impl BytesStage {
    fn points(
        &self,
        seed: u64,
        meter: &Meter,
        database: &Database<Emulation>,
    ) -> Result<Vec<Point>, perdura::Error> {
        let mut driver = Driver::new(database, seed)?;
        for _ in 0..TUPLES {
            driver.insert()?;
        }
        let mut points = Vec::new();
        for operation in Operation::ALL {
            database.sync()?;
            let before = database.stats().expect("this thread has no transaction open");
            meter.reset();
            for _ in 0..OPERATIONS {
                match operation {
                    Operation::Insert => driver.insert()?,
                    Operation::Update => driver.update()?,
                    Operation::Delete => driver.delete()?,
                }
            }
            database.sync()?;
            let after = database.stats().expect("this thread has no transaction open");
            let user_bytes = (after.user_bytes - before.user_bytes) as f64;
            let theta = match user_bytes {
                0.0 => 0.0,
                user_bytes => (merged(&after.own) - merged(&before.own)) as f64 / user_bytes,
            };
            points.extend(self.row(operation, theta, meter));
        }
        Ok(points)
    }

    /// Returns what an operation wrote, and what the model says.
    fn row(&self, operation: Operation, theta: f64, meter: &Meter) -> Vec<Point> {
        let model = CostModel {
            tuple: WORD + WORD + f64::from(FIELDS) * FIELD_BYTES as f64,
            fixed: WORD,
            variable: FIELD_BYTES as f64,
            pointer: WORD,
            theta,
            node: match self.engine {
                EngineKind::Cow => PAGE_BYTES,
                EngineKind::Inp
                | EngineKind::Log
                | EngineKind::NvmInp
                | EngineKind::NvmCow
                | EngineKind::NvmLog
                | EngineKind::NvDisk
                | EngineKind::NvLoggingFoi
                | EngineKind::NvLoggingFoc
                | EngineKind::Fast
                | EngineKind::Fash
                | EngineKind::Nvwal
                | EngineKind::Journal
                | EngineKind::Wal
                | EngineKind::Sofort => self
                    .setting
                    .tree_node_bytes(self.engine)
                    .map_or(NODE_BYTES, |bytes| bytes as f64),
            },
            small: WORD,
            node_is_absent: true,
        };
        let Some(cost) = model.cost(self.engine, operation) else { return Vec::new() };
        let counts: LineCounts = meter.counts();
        let each = |counts: &LineCounts| counts.stored_bytes as f64 / OPERATIONS as f64;
        let Breakdown { storage, recovery, index, other } = Breakdown::of(meter);
        let place = Point::of("P1-T3", self.engine.name(), operation.name());
        let bytes = |metric, value| place.counted(metric, "B", value);
        vec![
            bytes("measured", each(&counts)),
            bytes("model", cost.total()),
            place.counted("measured over model", "x", each(&counts) / cost.total()),
            bytes("model, memory", cost.memory),
            bytes("model, log", cost.log),
            bytes("model, table", cost.table),
            bytes("measured, storage", each(&storage)),
            bytes("measured, recovery", each(&recovery)),
            bytes("measured, index", each(&index)),
            bytes("measured, other", each(&other)),
            place.counted("write amplification by merges", "x", theta),
            place.counted(
                "measured in lines",
                "B",
                counts.nvm_stores() as f64 * 64.0 / OPERATIONS as f64,
            ),
        ]
    }
}

/// Bytes that a log-structured engine has flushed and merged.
fn merged(own: &OwnStats) -> u64 {
    match own {
        OwnStats::Log(own) => own.flushed_bytes + own.levels.all_merged_bytes(),
        OwnStats::NvmLog(own) => own.levels.all_merged_bytes(),
        OwnStats::Inp(_)
        | OwnStats::Cow(_)
        | OwnStats::NvmInp(_)
        | OwnStats::NvmCow(_)
        | OwnStats::NvDisk(_)
        | OwnStats::NvLoggingFoi(_)
        | OwnStats::NvLoggingFoc(_)
        | OwnStats::Fast(_)
        | OwnStats::Fash(_)
        | OwnStats::Nvwal(_)
        | OwnStats::Journal(_)
        | OwnStats::Wal(_)
        | OwnStats::Sofort(_) => 0,
    }
}

fn schema() -> Schema {
    let table = TableSchema::new("t").column("key", ColumnType::U64);
    let table = table.column("fixed", ColumnType::I64).key(&["key"]);
    let table = (0..FIELDS).fold(table, |table, field| {
        table.column(format!("field{field}"), ColumnType::Bytes { max: FIELD_BYTES as u32 })
    });
    Schema::new().table(table)
}

/// Transactions of one operation, the same for every engine.
struct Driver<'a> {
    database: &'a Database<Emulation>,
    table: Table,
    random: Random,
    keys: Vec<u64>,
}

impl<'a> Driver<'a> {
    fn new(database: &'a Database<Emulation>, seed: u64) -> Result<Self, perdura::Error> {
        let (table, random) = (database.table("t")?, Random::new(seed, 0x7ab1e3));
        Ok(Self { database, table, random, keys: Vec::new() })
    }

    fn value(&mut self) -> [u8; FIELD_BYTES] {
        std::array::from_fn(|_| self.random.next_u64() as u8)
    }

    fn insert(&mut self) -> Result<(), perdura::Error> {
        let (key, value) = (self.random.next_u64(), self.value());
        self.keys.push(key);
        let mut values = vec![Value::U64(key), Value::I64(1)];
        values.resize(2 + usize::from(FIELDS), Value::Bytes(&value));
        self.database.write(|tx| tx.insert(&self.table, &values))
    }

    fn update(&mut self) -> Result<(), perdura::Error> {
        let key = self.keys[self.random.below(self.keys.len() as u64) as usize];
        let column = 2 + self.random.below(u64::from(FIELDS)) as u16;
        let (number, value) = (self.random.next_u64(), self.value());
        let changes = [(1, Value::I64(number.cast_signed())), (column, Value::Bytes(&value))];
        self.database.write(|tx| tx.update(&self.table, &[Value::U64(key)], &changes))
    }

    fn delete(&mut self) -> Result<(), perdura::Error> {
        let at = self.random.below(self.keys.len() as u64) as usize;
        let key = self.keys.swap_remove(at);
        self.database.write(|tx| tx.delete(&self.table, &[Value::U64(key)]))
    }
}
