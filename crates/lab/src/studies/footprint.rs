//! Storage by component while a workload runs (P1 5.6, F14).
//!
//! The footprint is taken after every tenth of the run, the work that engines put off included; the
//! largest counts. As in P1's machine everything lies in NVM: the tables and indexes that InP and
//! Log keep in volatile memory are counted, too, and so are the caches of pages and blocks.

use perdura::{Database, Domain, EngineKind, Footprint, Options};
use serde_json::json;
use workloads::tpcc;
use workloads::ycsb::{self, Mix, Pieces, Skew, Spec};

use super::native::{loaded, one_worker, shop_configuration, shop_spec};
use super::settings::in_both;
use super::{Cell, Done, Stage};
use crate::bench::Bench;
use crate::error::LabError;
use crate::point::Point;
use crate::room::Takes;
use crate::scale::{EngineSizes, Sizes};
use crate::setting::Setting;

/// The number of times that the footprint is taken.
const LOOKS: u64 = 10;

struct FootprintStage {
    engine: EngineKind,
    setting: Setting,
    job: Job,
    cells: [Cell; 1],
    /// The caches and limits of the engine.
    sizes: EngineSizes,
}

/// A workload.
enum Job {
    Ycsb(Spec),
    Tpcc(tpcc::Spec),
}

/// One stage for each engine, workload and setting.
pub(super) fn stages(sizes: &Sizes) -> Vec<Box<dyn Stage>> {
    let mut stages = Vec::new();
    for engine in EngineKind::P1 {
        stages.extend(in_both(|setting| of_ycsb(engine, setting, sizes)));
        stages.extend(in_both(|setting| of_tpcc(engine, setting, sizes)));
    }
    stages
}

fn of_ycsb(engine: EngineKind, setting: Setting, sizes: &Sizes) -> FootprintStage {
    let spec = Spec {
        tuples: sizes.tuples,
        transactions: sizes.footprint_txns(),
        mix: Mix::Balanced,
        skew: Skew::Low,
        update_columns: 1,
        partitions: setting.partitions(sizes.partitions),
        seed: 0,
    };
    let mut configuration = json!({
        "engine": engine.name(), "workload": "ycsb", "tuples": spec.tuples,
        "txns": spec.transactions, "partitions": spec.partitions,
    });
    sizes.ycsb_engine().note(&mut configuration);
    setting.note(engine, &mut configuration);
    let cell = Cell::new(
        setting.label(format!("storage of {engine}, YCSB")),
        &configuration,
        &sizes.scaled_footprint(),
        spec.transactions as f64 * 1e-5,
        Takes::ycsb(engine, spec.tuples, spec.transactions),
    );
    let (job, sizes) = (Job::Ycsb(spec), sizes.ycsb_engine());
    FootprintStage { engine, setting, job, cells: [cell], sizes }
}

fn of_tpcc(engine: EngineKind, setting: Setting, sizes: &Sizes) -> FootprintStage {
    let spec = shop_spec(sizes, setting);
    let mut configuration = shop_configuration(&spec);
    sizes.tpcc_engine(setting).note(&mut configuration);
    configuration["engine"] = engine.name().into();
    configuration["workload"] = "tpcc".into();
    setting.note(engine, &mut configuration);
    let cell = Cell::new(
        setting.label(format!("storage of {engine}, TPC-C")),
        &configuration,
        &sizes.scaled_tpcc(setting),
        spec.tuples() as f64 * 4e-6 + spec.transactions as f64 * 5e-5,
        Takes::shop(&spec, spec.transactions),
    );
    let (job, sizes) = (Job::Tpcc(spec), sizes.tpcc_engine(setting));
    FootprintStage { engine, setting, job, cells: [cell], sizes }
}

impl Stage for FootprintStage {
    fn cells(&self) -> &[Cell] {
        &self.cells
    }

    fn measure(&self, bench: &Bench<'_>, _: &[usize], done: &mut Done<'_>) -> Result<(), LabError> {
        bench.watch.phase(&self.cells[0].label);
        let (panel, (peak, user_bytes)) = match &self.job {
            Job::Ycsb(spec) => ("ycsb", self.of_ycsb(bench, spec)?),
            Job::Tpcc(spec) => ("tpcc", self.of_tpcc(bench, spec)?),
        };
        let parts = [
            ("table", peak.table),
            ("index", peak.index),
            ("log", peak.log),
            ("checkpoint", peak.checkpoint),
            ("other", peak.other),
            ("total", peak.total()),
        ];
        let name = self.engine.name();
        let mut points: Vec<Point> = parts
            .into_iter()
            .map(|(part, bytes)| {
                let place = Point::of("P1-F14", name, part).panel(panel);
                place.counted("footprint", "B", bytes as f64)
            })
            .collect();
        let place = Point::of("P1-F14", name, "user data").panel(panel);
        points.push(place.counted("user data", "B", user_bytes as f64));
        done(0, &points)
    }
}

impl FootprintStage {
    fn of_ycsb(&self, bench: &Bench<'_>, spec: &Spec) -> Result<(Footprint, u64), LabError> {
        let failed = LabError::measuring(self.engine.name());
        let spec = Spec { seed: bench.seed, ..spec.clone() };
        let mut pieces = Pieces::new(&spec).map_err(|error| failed(&error))?;
        let nothing = pieces.take(0);
        let place = bench.place("footprint")?;
        let path = place.path().join("pool");
        let options = self.setting.on(self.engine, self.sizes.on(Options::new()));
        let how = one_worker(self.setting.commit(self.engine));
        let store = loaded(&path, self.engine, &options, Domain::Process, &nothing)?;
        let mut peak = Footprint::default();
        while pieces.left() > 0 {
            let piece = pieces.take(spec.transactions.div_ceil(LOOKS));
            ycsb::run(&store, &piece, &how, &()).map_err(|error| failed(&error))?;
            self.look(store.database(), &mut peak)?;
        }
        Ok((peak, spec.user_bytes()))
    }

    fn of_tpcc(&self, bench: &Bench<'_>, spec: &tpcc::Spec) -> Result<(Footprint, u64), LabError> {
        let failed = LabError::measuring(self.engine.name());
        let transactions = (spec.transactions / LOOKS).max(1);
        let spec = tpcc::Spec { seed: bench.seed, transactions, ..spec.clone() };
        let place = bench.place("footprint")?;
        let path = place.path().join("pool");
        let options = self.sizes.on(Options::new().engine(self.engine));
        let options = self.setting.on(self.engine, options);
        let how = one_worker(self.setting.commit(self.engine));
        let options = options.partitions(spec.partitions as u32).domain(Domain::Process);
        let database = workloads::create_modelled(&path, &tpcc::schema(), &options);
        let database = database.map_err(|error| failed(&error))?;
        tpcc::load(&database, &spec, 1, &()).map_err(|error| failed(&error))?;
        // The log of the loading is not the run's.
        database.checkpoint().map_err(|error| failed(&error))?;
        let mut workload = tpcc::Workload::generate(&spec).map_err(|error| failed(&error))?;
        let mut peak = Footprint::default();
        for _ in 0..LOOKS {
            tpcc::run(&database, &workload, &how, &()).map_err(|error| failed(&error))?;
            self.look(&database, &mut peak)?;
            workload = workload.after(transactions).map_err(|error| failed(&error))?;
        }
        let held = workloads::contents(&database).map_err(|error| failed(&error))?;
        Ok((peak, held.user_bytes()))
    }

    fn look(&self, database: &Database, peak: &mut Footprint) -> Result<(), LabError> {
        let failed = LabError::measuring(self.engine.name());
        let now = database.footprint().map_err(|error| failed(&error))?;
        if now.total() > peak.total() {
            *peak = now;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use perdura::{ColumnType, Schema, TableSchema, Value};

    use super::*;

    const LOG_RESERVE: u64 = 1 << 20;

    fn database(path: &std::path::Path, engine: EngineKind) -> Database {
        let table = TableSchema::new("t").column("key", ColumnType::U64);
        let table = table.column("value", ColumnType::Bytes { max: 500 }).key(&["key"]);
        let options = Options::new().engine(engine).tune("wal_reserve_bytes", LOG_RESERVE);
        let options = options
            .tune("checkpoint_bytes", 2 * LOG_RESERVE)
            .tune("memtable_bytes", 64 << 10)
            .domain(Domain::Process);
        workloads::create_modelled(path, &Schema::new().table(table), &options).expect("made")
    }

    /// Lengths of all files.
    fn stored(path: &std::path::Path) -> u64 {
        let meta = std::fs::symlink_metadata(path).expect("there");
        if !meta.is_dir() {
            return meta.len();
        }
        let entries = std::fs::read_dir(path).expect("read");
        entries.map(|entry| stored(&entry.expect("read").path())).sum()
    }

    #[test]
    fn a_checkpoint_that_is_being_written_is_in_the_footprint() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = database(&directory.path().join("pool"), EngineKind::Inp);
        let table = database.table("t").expect("there");
        let mut random = 1_u64;
        let mut value = [0; 500];
        for key in 0..4000 {
            // Bytes that cannot be compressed.
            for byte in &mut value {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                *byte = (random >> 56) as u8;
            }
            let tuple = [Value::U64(key), Value::Bytes(&value)];
            database.write(|tx| tx.insert(&table, &tuple)).expect("inserted");
        }
        let mut stages = 0;
        let mut seen = 0;
        while database.background(64 << 10).expect("done") > 0 {
            let footprint = database.footprint().expect("a footprint");
            let files = stored(&directory.path().join("pool.files"));
            let counted = footprint.log + footprint.checkpoint;
            assert!(counted >= files, "{footprint:?}, {files} in files");
            stages += 1;
            seen += u64::from(footprint.checkpoint > 0);
        }
        assert!(seen > 5, "{seen} of {stages}");
    }

    #[test]
    fn unused_space_of_an_engine_is_in_its_footprint() {
        for engine in EngineKind::P1 {
            let directory = tempfile::tempdir().expect("a directory");
            let database = database(&directory.path().join("pool"), engine);
            let footprint = || database.footprint().expect("a footprint");
            let empty = footprint();
            if matches!(engine, EngineKind::Inp | EngineKind::Log) {
                assert!(empty.log >= LOG_RESERVE, "{engine}: nothing is logged yet: {empty:?}");
            }
            let table = database.table("t").expect("there");
            let tuple = |key| [Value::U64(key), Value::Bytes(&[7; 500])];
            for key in 0..2000 {
                database.write(|tx| tx.insert(&table, &tuple(key))).expect("inserted");
            }
            let full = footprint();
            let files = stored(directory.path());
            // Every byte of pool and files counts, those that are only reserved too.
            assert!(full.total() >= files, "{engine}: {full:?}, {files} on the medium");
            if !engine.traits().needs_files() {
                assert_eq!(full.total(), files, "{engine}: {full:?}");
            }
            for key in 0..2000 {
                let deleted = database.write(|tx| tx.delete(&table, &tuple(key)[..1]));
                deleted.expect("deleted");
            }
            while database.background(1 << 20).expect("done") > 0 {}
            let freed = footprint();
            // A pool keeps its chunks: unused ones count until they are used again.
            if !engine.traits().needs_files() {
                assert!(freed.total() >= full.total(), "{engine}: {freed:?} after {full:?}");
                assert_eq!(freed.total(), stored(directory.path()), "{engine}: {freed:?}");
            }
        }
    }
}
