//! YCSB on six engines: throughput at three latencies (F5 to F7), loads and stores (F9, F10), the
//! breakdown of time (F13), and the latency of the sync primitive (F16).
//!
//! A cell is an engine, a mixture and a skew. What it does:
//!
//! 1. A fresh database in `adr` is loaded and runs the workload, on the clock, a few times; another
//!    one in `process` does the same. Engines that can make several transactions durable at once
//!    run again so in `adr`: P1's traditional engines did (3.1 to 3.3).
//! 2. A database on emulated memory, loaded once for all cells of the engine, runs the workload in
//!    a forked copy of this process, so that every cell starts from the same image and the same
//!    cache.
//! 3. From the times and the counts the model computes what the run would take on memory of each
//!    latency: one emulation serves all of them.
//!
//! In the paper's setting engines that commit in groups do so in all of these runs, and the model
//! takes calls for files for what they cost on the paper's file system.

use perdura::{EngineKind, Options};
use serde_json::json;
use workloads::ycsb::{Mix, Skew, Spec, Workload};

use super::native::{GROUP, Native, can_group, seconds, throughput};
use super::settings::in_both;
use super::{Cell, Done, Stage};
use crate::bench::Bench;
use crate::error::LabError;
use crate::point::Point;
use crate::room::Takes;
use crate::scale::{EngineSizes, Sizes};
use crate::setting::Setting;
use crate::timing::{self, Counted, EmulatedStore, LATENCIES, Times};

/// The sync primitive's latencies of P1's appendix C, in nanoseconds.
const SYNC_NS: [u64; 4] = [10, 100, 1000, 10_000];
/// The latency of memory at which P1 looks at breakdowns, nodes and the sync primitive.
pub(super) const LOW_LATENCY_NS: f64 = 320.0;

/// The figures that show throughput at each of [`LATENCIES`].
const FIGURES: [&str; 3] = ["P1-F5", "P1-F6", "P1-F7"];

struct YcsbStage {
    engine: EngineKind,
    setting: Setting,
    specs: Vec<Spec>,
    cells: Vec<Cell>,
    cache_bytes: u64,
    repeat: u32,
    sizes: EngineSizes,
}

/// One stage an engine and setting.
pub(super) fn stages(sizes: &Sizes) -> Vec<Box<dyn Stage>> {
    let stages = |engine| in_both(|setting| stage(engine, setting, sizes));
    EngineKind::P1.into_iter().flat_map(stages).collect()
}

fn stage(engine: EngineKind, setting: Setting, sizes: &Sizes) -> YcsbStage {
    let (mut specs, mut cells) = (Vec::new(), Vec::new());
    for mix in Mix::ALL {
        for skew in [Skew::Low, Skew::High] {
            let spec = Spec {
                tuples: sizes.tuples,
                transactions: sizes.txns,
                mix,
                skew,
                update_columns: 1,
                partitions: setting.partitions(sizes.partitions),
                seed: 0,
            };
            let mut configuration = json!({
                "engine": engine.name(),
                "mix": mix.name(),
                "skew": skew.name(),
                "tuples": spec.tuples,
                "txns": spec.transactions,
                "partitions": spec.partitions,
                "cache_bytes": sizes.cache_bytes,
                "repeat": sizes.repeat,
                "commit": "durable",
                "group": GROUP,
            });
            sizes.ycsb_engine().note(&mut configuration);
            setting.note(engine, &mut configuration);
            setting.note_files(engine, &mut configuration);
            let label = setting.label(format!("YCSB {engine}, {mix}, {skew} skew"));
            let slow = if engine == EngineKind::Cow { 4.0 } else { 1.0 };
            let updates = 1.0 + mix.update_percent() as f64 / 50.0 * slow;
            // InP writes a checkpoint before each native run.
            let loaded = if engine == EngineKind::Inp { 5e-5 } else { 6e-6 };
            let weight = sizes.tuples as f64 * loaded + sizes.txns as f64 * 1e-5 * updates;
            let takes = Takes::emulated(engine, spec.tuples)
                + Takes::ycsb(engine, spec.tuples, spec.transactions);
            cells.push(Cell::new(label, &configuration, &sizes.scaled_ycsb(), weight, takes));
            specs.push(spec);
        }
    }
    let (cache_bytes, repeat) = (sizes.cache_bytes, sizes.repeat);
    let sizes = sizes.ycsb_engine();
    YcsbStage { engine, setting, specs, cells, cache_bytes, repeat, sizes }
}

impl Stage for YcsbStage {
    fn cells(&self) -> &[Cell] {
        &self.cells
    }

    fn measure(
        &self,
        bench: &Bench<'_>,
        missing: &[usize],
        done: &mut Done<'_>,
    ) -> Result<(), LabError> {
        let (engine, setting) = (self.engine, self.setting);
        let (options, commit) =
            (setting.on(engine, self.sizes.on(Options::new())), setting.commit(engine));
        bench.watch.phase(&format!("{engine}: loading emulated memory"));
        let first = self.workload(missing[0], bench.seed)?;
        let store = EmulatedStore::load(engine, &options, commit, self.cache_bytes, &first)?;
        for &cell in missing {
            let workload = self.workload(cell, bench.seed)?;
            // The effect of groups is reported natively next to our setting.
            let grouped = setting == Setting::Ours
                && can_group(engine)
                && workload.spec().mix != Mix::ReadOnly;
            let native = seconds(bench, engine, &options, &workload, self.repeat, commit, grouped)?;
            bench.watch.phase(&self.cells[cell].label);
            let counted = store.count(&workload)?;
            done(cell, &self.points(bench, &workload, &native, &counted)?)?;
        }
        Ok(())
    }
}

impl YcsbStage {
    fn workload(&self, cell: usize, seed: u64) -> Result<Workload, LabError> {
        let spec = Spec { seed, ..self.specs[cell].clone() };
        let failed = LabError::measuring(self.engine.name());
        Workload::generate(&spec).map_err(|error| failed(&error))
    }

    fn points(
        &self,
        bench: &Bench<'_>,
        workload: &Workload,
        native: &Native,
        counted: &Counted,
    ) -> Result<Vec<Point>, LabError> {
        let spec = workload.spec();
        let (engine, mix, panel) = (self.engine.name(), spec.mix.name(), spec.skew.name());
        let txns = spec.transactions;
        let of = (self.engine, self.setting);
        let machine = timing::Machine::new(bench, spec.user_bytes(), spec.partitions, of)?;
        let times = Times::of(&native.durable, &native.unflushed);
        let mut points = Vec::new();
        for (figure, latency_ns) in FIGURES.into_iter().zip(LATENCIES) {
            let place = Point::of(figure, engine, mix).panel(panel);
            let (time, model) = machine.time(counted, &times, latency_ns, 0.0);
            points.push(timing::throughput(&place, txns, time, &model));
        }
        let place = Point::of(FIGURES[0], engine, mix).panel(panel);
        let durable = throughput(txns, &native.durable);
        let unflushed = throughput(txns, &native.unflushed);
        points.push(place.measured("native throughput", "txn/s", &durable));
        points.push(place.measured("native throughput, process", "txn/s", &unflushed));
        if let Some(grouped) = &native.grouped {
            let grouped = throughput(txns, grouped);
            points.push(place.measured("native throughput, grouped", "txn/s", &grouped));
        }
        points.extend(counted.points("P1-F9", "P1-F10", engine, mix, panel, txns));
        if spec.skew == Skew::Low {
            points.extend(machine.breakdown(counted, &times, engine, mix, LOW_LATENCY_NS));
            if !self.engine.traits().needs_files() {
                points.extend(SYNC_NS.into_iter().map(|sync_ns| {
                    let place = Point::of("P1-F16", engine, sync_ns).panel(mix);
                    let time = machine.time(counted, &times, LOW_LATENCY_NS, sync_ns as f64);
                    timing::throughput(&place, txns, time.0, &time.1)
                }));
            }
        }
        Ok(points)
    }
}
