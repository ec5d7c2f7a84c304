//! Mobibench's inserts through the real SQLite (P3 5, Figure 11): modes of the VFS in memory of several latencies.
//!
//! 1. Each mode runs natively through the VFS, with flushes and without.
//! 2. It runs once more through a VFS whose databases lie in emulated memory, which counts lines. Emulation is hybrid, as in
//!    Figures 6 to 12: what SQLite has in ordinary memory, and the pages that NVWAL keeps there, are not counted.
//! 3. The time on other memory is computed from both, end to end: SQLite's own work is in it, and so are NVWAL's checkpoints.

use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use peers::extension::{
    Keys, Operation, Spec, SqliteMode, Workload, register_with, run, run_through,
};
use perdura::Domain;
use perdura_sqlite::database::{Failure, MemoryFile, OpenOptions, Opened, Opener};
use perdura_sqlite::store::connection::{Media, Store};
use perdura_sqlite::store::region::Region;
use serde_json::json;
use sim::{Arena, Emulated as Metered, Meter, MeterOptions};
use workloads::Progress;

use super::slotted::{BEYOND_CACHES, PAPER_CACHE_BYTES, Writes};
use super::{Cell, Done, Stage};
use crate::bench::Bench;
use crate::emulation::{LineCounts, emulate};
use crate::error::LabError;
use crate::point::Point;
use crate::room::Takes;
use crate::scale::Sizes;
use crate::timing::Times;

/// P3's schemes, and the form of FASH that is the VFS's default.
const MODES: [SqliteMode; 4] =
    [SqliteMode::Fast, SqliteMode::Fash, SqliteMode::Nvwal, SqliteMode::Fash1];
/// The figure's latencies, in nanoseconds.
const LATENCIES: [u64; 7] = [200, 400, 600, 800, 1000, 1200, 1400];
/// The paper's inserts, and the bytes of a record.
const PAPER_INSERTS: u64 = 1000;
const RECORD_BYTES: u32 = 136;
/// SQLite's pages in P3.
const PAGE_BYTES: u32 = 4096;
/// Native runs are short: so many, at least.
const LEAST_REPEAT: u32 = 5;
/// Bytes of a slot of the log, as the VFS has them.
const SLOT_BYTES: u64 = 256 << 10;
/// Addresses of an emulated database and of its side file.
const LIMIT_BYTES: u64 = 1 << 30;

struct SqliteStage {
    mode: SqliteMode,
    spec: Spec,
    repeat: u32,
    cells: [Cell; 1],
}

/// One stage for each mode.
pub(super) fn stages(sizes: &Sizes) -> Vec<Box<dyn Stage>> {
    MODES.into_iter().map(|mode| Box::new(stage(mode, sizes)) as Box<dyn Stage>).collect()
}

fn stage(mode: SqliteMode, sizes: &Sizes) -> SqliteStage {
    let transactions = sizes.inserts.min(PAPER_INSERTS);
    let repeat = sizes.repeat.max(LEAST_REPEAT);
    let spec = Spec {
        operation: Operation::Insert,
        keys: Keys::Ascending,
        records: 0,
        transactions,
        per_txn: 1,
        record_bytes: RECORD_BYTES,
        page_bytes: PAGE_BYTES,
        prepared: false,
        exclusive: false,
        seed: 0,
    };
    let configuration = json!({
        "engine": mode.name(),
        "workload": "sqlite",
        "mix": spec.operation.name(),
        "keys": spec.keys.name(),
        "record_bytes": spec.record_bytes,
        "txns": transactions,
        "page_bytes": spec.page_bytes,
        "cache_bytes": PAPER_CACHE_BYTES.next_power_of_two(),
        "flush": "evicts",
        "repeat": repeat,
    });
    let scaled = match transactions < PAPER_INSERTS {
        true => format!("{transactions} inserts, in the paper {PAPER_INSERTS}"),
        false => String::new(),
    };
    let takes = Takes::on_medium(16 << 20) + Takes::in_memory(64 << 20);
    let weight = transactions as f64 * 40e-6 * f64::from(2 * repeat + 4);
    let label = format!("SQLite, {mode}: {RECORD_BYTES} bytes");
    let cells = [Cell::new(label, &configuration, &scaled, weight, takes)];
    SqliteStage { mode, spec, repeat, cells }
}

impl Stage for SqliteStage {
    fn cells(&self) -> &[Cell] {
        &self.cells
    }

    fn measure(&self, bench: &Bench<'_>, _: &[usize], done: &mut Done<'_>) -> Result<(), LabError> {
        bench.watch.phase(&self.cells[0].label);
        let failed = LabError::measuring(self.mode.name());
        let spec = Spec { seed: bench.seed, ..self.spec.clone() };
        let workload = Workload::generate(&spec).map_err(|error| failed(&error))?;
        let counts = self.count(&workload)?;
        let [mut durable, mut unflushed] = [Vec::new(), Vec::new()];
        for _ in 0..self.repeat {
            durable.push(self.time(bench, Domain::Adr, &workload)?);
            unflushed.push(self.time(bench, Domain::Process, &workload)?);
        }
        let memory = bench.calibrations.host(BEYOND_CACHES)?;
        let bytes = spec.transactions * u64::from(spec.record_bytes);
        let host = bench.calibrations.host(bytes)?.overlapping_as(&memory);
        let (times, each) = (Times::of(&durable, &unflushed), 1.0 / spec.transactions as f64);
        let at = |x: u64| Point::of("P3-F11", self.mode.name(), x);
        let mut points = Vec::new();
        for latency in LATENCIES {
            for writes in Writes::ALL {
                let memory = writes.memory(latency as f64, latency as f64);
                let of = |native| emulate(&counts, native, &host, &memory);
                let time = of(&times.median).between(&of(&times.fastest), &of(&times.slowest));
                let rate = time.rate(spec.transactions as f64);
                let interval = (rate.seconds, rate.low, rate.high);
                let model = writes.model(latency as f64, latency as f64);
                points.push(at(latency).modelled(writes.throughput(), "txn/s", interval, &model));
            }
        }
        let native: Vec<f64> =
            durable.iter().map(|seconds| spec.transactions as f64 / seconds).collect();
        let native_plot = at(LATENCIES[0]).panel("native");
        points.push(native_plot.measured("throughput of this machine", "txn/s", &native));
        for (metric, count) in [("flushes", counts.flush_requests), ("fences", counts.fences)] {
            points.push(native_plot.counted(metric, "per txn", count as f64 * each));
        }
        done(0, &points)
    }
}

impl SqliteStage {
    /// Counts a run in emulated memory.
    fn count(&self, workload: &Workload) -> Result<LineCounts, LabError> {
        let failed = LabError::measuring(self.mode.name());
        let meter = Meter::new(MeterOptions {
            cache_bytes: PAPER_CACHE_BYTES.next_power_of_two(),
            flush_evicts: true,
            ..MeterOptions::default()
        });
        let memory = || Arena::new(1 << 20, LIMIT_BYTES).map(|arena| Metered::new(arena, &meter));
        let [data, side] = [memory(), memory()];
        let media = Media {
            data: Region::whole(data.map_err(|error| failed(&error))?),
            side: Region::whole(side.map_err(|error| failed(&error))?),
            separate_fences: false,
            needs_flush: true,
        };
        register()?;
        let name = waiting(media);
        let ran = run_through(VFS_NAME, &name, self.mode, workload, || meter.reset());
        ran.map_err(|error| failed(&error))?;
        Ok(meter.counts())
    }

    /// The seconds of a native run.
    fn time(
        &self,
        bench: &Bench<'_>,
        domain: Domain,
        workload: &Workload,
    ) -> Result<f64, LabError> {
        let failed = LabError::measuring(self.mode.name());
        let place = bench.place("native")?;
        peers::pin_to_core(0);
        let progress = Progress::new(1);
        let ran = run(self.mode, place.path(), Some(domain.name()), workload, &progress);
        Ok(ran.map_err(|error| failed(&error))?.measured.seconds)
    }
}

/// The VFS whose databases lie in emulated memory.
const VFS_NAME: &str = "perdura-metered";

fn register() -> Result<(), LabError> {
    static REGISTERED: OnceLock<Result<(), String>> = OnceLock::new();
    let registered = REGISTERED.get_or_init(|| {
        register_with(c"perdura-metered", Box::new(MeteredOpener))
            .map_err(|error| error.to_string())
    });
    registered.clone().map_err(|why| LabError::measuring(VFS_NAME)(&why))
}

type Memories = Media<Metered<Arena>>;

/// Memories of databases that are to be opened, by their names.
static WAITING: Mutex<Vec<(String, Memories)>> = Mutex::new(Vec::new());

/// The name of the database that lies in these.
fn waiting(media: Memories) -> String {
    static DATABASES: Mutex<u64> = Mutex::new(0);
    let mut number = DATABASES.lock().unwrap_or_else(PoisonError::into_inner);
    *number += 1;
    let name = format!("metered-{number}");
    WAITING.lock().unwrap_or_else(PoisonError::into_inner).push((name.clone(), media));
    name
}

/// Opens databases in emulated memory.
#[derive(Debug)]
struct MeteredOpener;

impl Opener for MeteredOpener {
    fn open(&self, path: &Path, _: &OpenOptions) -> Opened {
        let name = path.file_name().and_then(|name| name.to_str());
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = waiting.iter().position(|(known, _)| Some(&**known) == name) else {
            return Opened::Failed(Failure::CannotOpen("no memory waits for it".into()));
        };
        let (_, media) = waiting.swap_remove(at);
        match Store::open(media, 0, 1, SLOT_BYTES) {
            Ok(store) => Opened::File(Box::new(MemoryFile::new(store))),
            Err(error) => Opened::Failed(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::Scale;

    #[test]
    fn the_same_seed_gives_the_same_counts_and_fast_flushes_least() {
        let sizes = Sizes::new(Scale::Tiny, 16 << 30);
        let lines = MODES.map(|mode| {
            let stage = stage(mode, &sizes);
            let workload = Workload::generate(&stage.spec).expect("possible");
            let [one, two] = [(); 2].map(|()| stage.count(&workload).expect("it runs"));
            assert_eq!(one, two, "{mode}");
            assert!(one.accesses > 0 && one.fences >= stage.spec.transactions, "{mode}: {one:?}");
            one.flush_requests
        });
        let [fast, fash, ..] = lines;
        assert!(fast < fash, "{lines:?}");
    }
}
