//! TATP on SOFORT by the latency of persistent memory (P4 5): what slower memory costs when nothing
//! is being recovered.
//!
//! Emulation is *hybrid*, as P3's: columns, dictionaries and what else lies in persistent memory is
//! metered and has its latency, so are the indexes there; those in ordinary memory cost what they
//! cost here, and lines of persistent memory have the modelled cache for themselves. One user, as
//! users in turn on one thread.
//!
//! 1. The same transactions run natively in `adr` (modelled) and in `process`, each time on a new
//!    database.
//! 2. They run once in emulated memory, which counts lines.
//! 3. The time on other memory is computed from both (`emulation/time.rs`).

use perdura::{Domain, EngineKind, Options, Placement};
use serde_json::json;
use workloads::tatp::{self, Spec, Workload};
use workloads::{Commit, Form};

use super::native::one_worker;
use super::{Cell, Done, Stage};
use crate::bench::Bench;
use crate::emulation::{NvmParameters, emulate};
use crate::error::LabError;
use crate::point::Point;
use crate::room::Takes;
use crate::scale::{Scale, Sizes};
use crate::timing::{EmulatedDatabase, Times};

/// P4's latencies of memory, in nanoseconds: its DRAM, its persistent memory, the slowest of Figure
/// 6.
const LATENCIES: [f64; 3] = [90.0, 200.0, 700.0];
/// Per cent of the indexes that lie in persistent memory (P4 5, Figure 9).
const PLACEMENTS: [u32; 3] = [0, 40, 100];
/// Subscribers in the paper, and the last-level cache of its machine.
const PAPER_SUBSCRIBERS: u64 = 5_000_000;
const PAPER_CACHE_BYTES: u64 = 20 << 20;
/// Bytes of memory that no cache of a host holds.
const BEYOND_CACHES: u64 = 256 << 20;
/// Bytes of a subscriber with all rows: of its values, and of all that it takes.
const USER_BYTES: u64 = 600;
const SUBSCRIBER_BYTES: u64 = 6_000;
/// The engine.
const ENGINE: EngineKind = EngineKind::Sofort;

struct SteadyStage {
    spec: Spec,
    cache_bytes: u64,
    placement: u32,
    repeat: u32,
    cells: [Cell; 1],
}

/// One stage for each placement.
pub(super) fn stages(sizes: &Sizes) -> Vec<Box<dyn Stage>> {
    PLACEMENTS.into_iter().map(|placement| Box::new(stage(sizes, placement)) as _).collect()
}

fn stage(sizes: &Sizes, placement: u32) -> SteadyStage {
    let (subscribers, transactions) = match sizes.scale {
        Scale::Tiny => (300, 300),
        Scale::Quick => (20_000, 20_000),
        Scale::Full => (200_000, 200_000),
    };
    let cache = PAPER_CACHE_BYTES * u64::from(subscribers) / PAPER_SUBSCRIBERS;
    let cache_bytes = cache.max(1 << 16).next_power_of_two();
    let spec =
        Spec { subscribers, transactions, partitions: 1, form: Form::Specification, seed: 0 };
    let configuration = json!({
        "engine": ENGINE.name(),
        "workload": "tatp",
        "subscribers": subscribers,
        "txns": transactions,
        "nvm_percent": placement,
        "cache_bytes": cache_bytes,
        "repeat": sizes.repeat,
    });
    let scaled = format!(
        "subscribers: {subscribers} instead of {PAPER_SUBSCRIBERS}; cache, bytes: {cache_bytes} instead of {PAPER_CACHE_BYTES}; users: 1 instead of 4"
    );
    let bytes = u64::from(subscribers) * SUBSCRIBER_BYTES;
    let takes = Takes::on_medium(bytes).max(Takes::in_memory(2 * bytes));
    let weight = f64::from(subscribers) * (1e-4 * f64::from(2 * sizes.repeat) + 2e-3);
    let label = format!("TATP sofort, {placement}%, emulated, {subscribers} subscribers");
    let cells = [Cell::new(label, &configuration, &scaled, weight, takes)];
    SteadyStage { spec, cache_bytes, placement, repeat: sizes.repeat, cells }
}

impl Stage for SteadyStage {
    fn cells(&self) -> &[Cell] {
        &self.cells
    }

    fn measure(&self, bench: &Bench<'_>, _: &[usize], done: &mut Done<'_>) -> Result<(), LabError> {
        bench.watch.phase(&self.cells[0].label);
        let failed = LabError::measuring(ENGINE.name());
        let spec = Spec { seed: bench.seed, ..self.spec.clone() };
        let workload = Workload::generate(&spec).map_err(|error| failed(&error))?;
        let (mut durable, mut unflushed) = (Vec::new(), Vec::new());
        for _ in 0..self.repeat {
            durable.push(self.native(bench, Domain::Adr, &workload)?);
            unflushed.push(self.native(bench, Domain::Process, &workload)?);
        }
        let schema = tatp::schema();
        let memory = EmulatedDatabase::load(
            &Options::new().placement(Placement::Percent(self.placement)),
            ENGINE,
            self.cache_bytes,
            &schema,
            |database| tatp::load(database, &spec, 1, &()),
        )?;
        let counted = memory.count(
            |database, how| tatp::run(database, &workload, how, &()).map(|_| ()),
            Commit::Durable,
        )?;
        drop(memory);
        // Data of a smaller run lie in this host's caches; lines of persistent memory overlap as
        // lines from memory do.
        let beyond = bench.calibrations.host(BEYOND_CACHES)?;
        let user_bytes = u64::from(spec.subscribers) * USER_BYTES;
        let host = bench.calibrations.host(user_bytes)?.overlapping_as(&beyond);
        let times = Times::of(&durable, &unflushed);
        let (series, percent) = (format!("{}%", self.placement), u64::from(self.placement));
        let mut points =
            counted.points("P4-F9", "P4-F9", &series, percent, "counts", spec.transactions);
        for latency_ns in LATENCIES {
            let nvm = NvmParameters {
                latency_ns,
                gigabytes_per_second: None,
                workers: 1,
                fence_ns: 0.0,
                flush_ns: 0.0,
            };
            let of = |native| emulate(&counted.counts, native, &host, &nvm);
            let time = of(&times.median).between(&of(&times.fastest), &of(&times.slowest));
            let rate = time.rate(spec.transactions as f64);
            let place = Point::of("P4-F9", &series, percent).panel(&format!("{latency_ns} ns"));
            let interval = (rate.seconds, rate.low, rate.high);
            let model = format!("persistent memory of {latency_ns} ns, one user");
            points.push(place.modelled("throughput", "txn/s", interval, &model));
        }
        done(0, &points)
    }
}

impl SteadyStage {
    /// Seconds of a native run on a new database.
    fn native(
        &self,
        bench: &Bench<'_>,
        domain: Domain,
        workload: &Workload,
    ) -> Result<f64, LabError> {
        let failed = LabError::measuring(ENGINE.name());
        let place = bench.place("native")?;
        let placement = Placement::Percent(self.placement);
        let options = Options::new().engine(ENGINE).domain(domain).placement(placement);
        let path = place.path().join("pool");
        let database = workloads::create_modelled(&path, &tatp::schema(), &options);
        let database = database.map_err(|error| failed(&error))?;
        tatp::load(&database, workload.spec(), 1, &()).map_err(|error| failed(&error))?;
        database.checkpoint().map_err(|error| failed(&error))?;
        let measured = tatp::run(&database, workload, &one_worker(Commit::Durable), &());
        Ok(measured.map_err(|error| failed(&error))?.seconds)
    }
}
