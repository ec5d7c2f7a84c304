//! TPC-C on six engines: throughput at three latencies (F8), loads and stores (F11).
//!
//! As YCSB: a native run in `adr`, one in `process`, one on emulated memory, each on a freshly
//! populated database; one warehouse a partition, as in P1 5.1.

use perdura::{Domain, EngineKind, Options};
use workloads::tpcc::{self, Spec, Workload};

use super::native::{one_worker, shop_configuration, shop_spec, throughput};
use super::settings::in_both;
use super::{Cell, Done, Stage};
use crate::bench::Bench;
use crate::error::LabError;
use crate::point::Point;
use crate::room::Takes;
use crate::scale::{EngineSizes, Sizes};
use crate::setting::Setting;
use crate::timing::{self, EmulatedDatabase, LATENCIES, Times};

struct TpccStage {
    engine: EngineKind,
    setting: Setting,
    spec: Spec,
    cells: [Cell; 1],
    cache_bytes: u64,
    repeat: u32,
    sizes: EngineSizes,
}

/// One stage an engine and setting.
pub(super) fn stages(sizes: &Sizes) -> Vec<Box<dyn Stage>> {
    let stages = |engine| in_both(|setting| stage(engine, setting, sizes));
    EngineKind::P1.into_iter().flat_map(stages).collect()
}

fn stage(engine: EngineKind, setting: Setting, sizes: &Sizes) -> TpccStage {
    let spec = shop_spec(sizes, setting);
    let cache_bytes = sizes.tpcc_cache_in(setting);
    let mut configuration = shop_configuration(&spec);
    configuration["engine"] = engine.name().into();
    configuration["cache_bytes"] = cache_bytes.into();
    configuration["repeat"] = sizes.repeat.into();
    let engine_sizes = sizes.tpcc_engine(setting);
    engine_sizes.note(&mut configuration);
    setting.note(engine, &mut configuration);
    setting.note_files(engine, &mut configuration);
    let weight = spec.tuples() as f64 * 1e-5 + sizes.tpcc_txns as f64 * 2e-4;
    let label = setting.label(format!("TPC-C {engine}"));
    let txns = spec.transactions * u64::from(sizes.repeat);
    let native = Takes::shop(&spec, txns);
    // One after the other: the native databases are gone when memory is emulated.
    let takes = native.max(Takes::emulated_shop(&spec, spec.transactions));
    let cells = [Cell::new(label, &configuration, &sizes.scaled_tpcc(setting), weight, takes)];
    let (repeat, sizes) = (sizes.repeat, engine_sizes);
    TpccStage { engine, setting, spec, cells, cache_bytes, repeat, sizes }
}

impl Stage for TpccStage {
    fn cells(&self) -> &[Cell] {
        &self.cells
    }

    fn measure(&self, bench: &Bench<'_>, _: &[usize], done: &mut Done<'_>) -> Result<(), LabError> {
        let engine = self.engine;
        let failed = LabError::measuring(engine.name());
        let spec = Spec { seed: bench.seed, ..self.spec.clone() };
        let mut pieces = vec![Workload::generate(&spec).map_err(|error| failed(&error))?];
        for piece in 1..self.repeat as usize {
            let next = pieces[piece - 1].after(spec.transactions);
            pieces.push(next.map_err(|error| failed(&error))?);
        }
        let durable = self.native(bench, Domain::Adr, &pieces)?;
        let unflushed = self.native(bench, Domain::Process, &pieces)?;
        bench.watch.phase(&format!("TPC-C {engine}: emulated"));
        let options = self.setting.on(engine, self.sizes.on(Options::new()));
        let commit = self.setting.commit(engine);
        let options = options.partitions(spec.partitions as u32);
        let schema = tpcc::schema();
        let shop =
            EmulatedDatabase::load(&options, engine, self.cache_bytes, &schema, |database| {
                tpcc::load(database, &spec, 1, &())
            })?;
        let counted = shop
            .count(|database, how| tpcc::run(database, &pieces[0], how, &()).map(|_| ()), commit)?;
        drop(shop);

        let txns = spec.transactions;
        let user_bytes = spec.tuples() * 100;
        let of = (engine, self.setting);
        let machine = timing::Machine::new(bench, user_bytes, spec.partitions, of)?;
        // The first piece is the one that was emulated.
        let times = Times::of(&durable[..1], &unflushed[..1]);
        let mut points = Vec::new();
        for latency_ns in LATENCIES {
            let place = Point::of("P1-F8", engine.name(), latency_ns as u64);
            let (time, model) = machine.time(&counted, &times, latency_ns, 0.0);
            points.push(timing::throughput(&place, txns, time, &model));
        }
        let place = Point::of("P1-F8", engine.name(), LATENCIES[0] as u64);
        let native = throughput(txns, &durable);
        points.push(place.measured("native throughput", "txn/s", &native));
        let native = throughput(txns, &unflushed);
        points.push(place.measured("native throughput, process", "txn/s", &native));
        points.extend(counted.points("P1-F11", "P1-F11", engine.name(), "tpcc", "", txns));
        done(0, &points)
    }
}

impl TpccStage {
    /// Seconds of each piece.
    fn native(
        &self,
        bench: &Bench<'_>,
        domain: Domain,
        pieces: &[Workload],
    ) -> Result<Vec<f64>, LabError> {
        let engine = self.engine;
        let failed = LabError::measuring(engine.name());
        bench.watch.phase(&format!("TPC-C {engine}: {domain}"));
        let spec = pieces[0].spec();
        let place = bench.place("native")?;
        let options = self.setting.on(engine, self.sizes.on(Options::new().engine(engine)));
        let options = options.partitions(spec.partitions as u32).domain(domain);
        let path = place.path().join("pool");
        let database = workloads::create_modelled(&path, &tpcc::schema(), &options);
        let database = database.map_err(|error| failed(&error))?;
        tpcc::load(&database, spec, 1, &()).map_err(|error| failed(&error))?;
        database.checkpoint().map_err(|error| failed(&error))?;
        let mut seconds = Vec::new();
        for piece in pieces {
            let how = one_worker(self.setting.commit(engine));
            let measured = tpcc::run(&database, piece, &how, &());
            seconds.push(measured.map_err(|error| failed(&error))?.seconds);
        }
        Ok(seconds)
    }
}
