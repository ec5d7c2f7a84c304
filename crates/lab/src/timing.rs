//! The way from counts and native times to points: the results of the emulation of a run.

use perdura::{Database, EngineKind, Options, Schema};
use serde::{Deserialize, Serialize};
use workloads::ycsb::{self, Workload};
use workloads::{Commit, PerduraStore, RunError, RunOptions};

use crate::bench::Bench;
use crate::emulation::{
    Breakdown, Emulated, Emulation, FileCosts, Host, LineCounts, Meter, MeterOptions, NativeTimes,
    Nvm, NvmParameters, emulate, in_child,
};
use crate::error::LabError;
use crate::point::{Point, PointBuilder, X, median};
use crate::setting::Setting;

/// P1's latencies of memory, in nanoseconds: DRAM, twice as slow, eight times as slow.
pub const LATENCIES: [f64; 3] = [160.0, 320.0, 1280.0];
/// Bytes up to which pool and files of an emulated database may grow: addresses only.
const LIMIT_BYTES: u64 = 64 << 30;
/// A call of the kernel takes about as long as so many accesses to cached lines. It only shares out
/// the time of one run among its parts.
const ACCESSES_OF_A_CALL: f64 = 100.0;

/// The costs of files where `bench` has its databases.
fn measure_files(bench: &Bench<'_>) -> Result<FileCosts, LabError> {
    let place = bench.place("calibration")?;
    let measured = FileCosts::measure(place.path());
    measured.map_err(|error| LabError::io(place.path(), error))
}

/// The counts of an emulated run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// All of it.
    pub counts: LineCounts,
    /// The breakdown by purpose.
    pub parts: Breakdown,
    /// Writes of the line that was written most, over the mean of all lines that were written.
    pub unevenness: f64,
}

impl Counted {
    fn of(meter: &Meter) -> Self {
        let wear = meter.wear();
        let unevenness = if wear.writes == 0 { 0.0 } else { wear.most as f64 / wear.mean() };
        Self { counts: meter.counts(), parts: Breakdown::of(meter), unevenness }
    }

    /// Loads and stores of a transaction, and what was flushed, fenced and synced.
    pub(crate) fn points(
        &self,
        loads: &str,
        stores: &str,
        engine: &str,
        x: impl Into<X>,
        panel: &str,
        txns: u64,
    ) -> Vec<Point> {
        let (counts, x) = (&self.counts, x.into());
        let each = |total: u64| total as f64 / txns.max(1) as f64;
        let loading = Point::of(loads, engine, x.clone()).panel(panel);
        let storing = Point::of(stores, engine, x).panel(panel);
        let stored = |metric, total| storing.counted(metric, "per txn", each(total));
        vec![
            loading.counted("nvm loads", "per txn", each(counts.nvm_loads())),
            loading.counted("dependent lines", "per txn", each(counts.dependent)),
            loading.counted("near lines", "per txn", each(counts.near)),
            loading.counted("sequential lines", "per txn", each(counts.sequential)),
            loading.counted("independent lines", "per txn", each(counts.independent)),
            loading.counted("lines stored to", "per txn", each(counts.store_misses)),
            stored("nvm stores", counts.nvm_stores()),
            stored("flushed lines", counts.flush_requests),
            stored("fences", counts.fences),
            stored("syncs", counts.syncs),
            stored("file bytes", counts.file_bytes),
            stored("bytes stored", counts.stored_bytes),
            storing.counted("unevenness of wear", "max / mean", self.unevenness),
        ]
    }
}

/// Counts, in a forked copy of this process, what `work` does.
fn count_in_child(
    name: &str,
    meter: &Meter,
    work: impl FnOnce() -> Result<(), String>,
) -> Result<Counted, LabError> {
    let failed = LabError::measuring(name);
    let bytes = in_child(|| {
        meter.reset();
        let counted = work().map(|()| Counted::of(meter));
        serde_json::to_vec(&counted).unwrap_or_default()
    });
    let bytes = bytes.map_err(|error| failed(&error))?;
    let counted: Result<Counted, String> =
        serde_json::from_slice(&bytes).map_err(|error| failed(&error))?;
    counted.map_err(|why| failed(&why))
}

fn one_worker(commit: Commit) -> RunOptions {
    RunOptions { workers: 1, commit, sample_every: 0, pin: None }
}

fn meter(cache_bytes: u64) -> Meter {
    Meter::new(MeterOptions { cache_bytes, ..MeterOptions::default() })
}

/// A YCSB database in emulated memory.
pub(crate) struct EmulatedStore {
    meter: Meter,
    /// `None` only while it is dropped.
    store: Option<PerduraStore<Emulation>>,
    name: &'static str,
    commit: Commit,
}

impl EmulatedStore {
    /// Creates and loads it. `options` say how commits are grouped, if `commit` says that they are.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn load(
        engine: EngineKind,
        options: &Options,
        commit: Commit,
        cache_bytes: u64,
        workload: &Workload,
    ) -> Result<Self, LabError> {
        let name = engine.name();
        let failed = LabError::measuring(name);
        let meter = meter(cache_bytes);
        let nvm = Nvm::new(&meter, LIMIT_BYTES).map_err(|error| failed(&error))?;
        let partitions = workload.spec().partitions;
        let options = options.clone().engine(engine).partitions(partitions as u32);
        let database = nvm.create(&PerduraStore::schema(), &options);
        let database = database.map_err(|error| failed(&error))?;
        let store = PerduraStore::in_memory(database, name, partitions);
        let store = store.map_err(|error| failed(&error))?;
        let store = Self { meter, store: Some(store), name, commit };
        ycsb::load(store.store(), workload, 1, &()).map_err(|error| failed(&error))?;
        store.store().database().checkpoint().map_err(|error| failed(&error))?;
        Ok(store)
    }

    fn store(&self) -> &PerduraStore<Emulation> {
        self.store.as_ref().expect("it is there until it is dropped")
    }

    /// Counts a run of a workload, which leaves no trace in the database.
    ///
    /// # Errors
    /// The run failed.
    pub(crate) fn count(&self, workload: &Workload) -> Result<Counted, LabError> {
        count_in_child(self.name, &self.meter, || {
            let run = ycsb::run(self.store(), workload, &one_worker(self.commit), &());
            run.map(|_| ()).map_err(|error| error.to_string())
        })
    }
}

impl Drop for EmulatedStore {
    fn drop(&mut self) {
        // Nothing of it outlives the process: there is nothing to close.
        if let Some(store) = self.store.take() {
            store.into_database().abandon();
        }
    }
}

/// A database in emulated memory whose transactions are entered at terminals.
pub(crate) struct EmulatedDatabase {
    meter: Meter,
    /// `None` only while it is dropped.
    database: Option<Database<Emulation>>,
    name: &'static str,
}

impl EmulatedDatabase {
    /// Creates it, and has it populated.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn load(
        options: &Options,
        engine: EngineKind,
        cache_bytes: u64,
        schema: &Schema,
        populate: impl FnOnce(&Database<Emulation>) -> Result<(), RunError>,
    ) -> Result<Self, LabError> {
        let name = engine.name();
        let failed = LabError::measuring(name);
        let meter = meter(cache_bytes);
        let nvm = Nvm::new(&meter, LIMIT_BYTES).map_err(|error| failed(&error))?;
        let options = options.clone().engine(engine);
        let database = nvm.create(schema, &options).map_err(|error| failed(&error))?;
        let made = Self { meter, database: Some(database), name };
        populate(made.database()).map_err(|error| failed(&error))?;
        made.database().checkpoint().map_err(|error| failed(&error))?;
        Ok(made)
    }

    fn database(&self) -> &Database<Emulation> {
        self.database.as_ref().expect("it is there until it is dropped")
    }

    /// Counts what `run` does, which leaves no trace in the database.
    ///
    /// # Errors
    /// It failed.
    pub(crate) fn count(
        &self,
        run: impl FnOnce(&Database<Emulation>, &RunOptions) -> Result<(), RunError>,
        commit: Commit,
    ) -> Result<Counted, LabError> {
        count_in_child(self.name, &self.meter, || {
            run(self.database(), &one_worker(commit)).map_err(|error| error.to_string())
        })
    }
}

impl Drop for EmulatedDatabase {
    fn drop(&mut self) {
        // Nothing of it outlives the process: there is nothing to close.
        if let Some(database) = self.database.take() {
            database.abandon();
        }
    }
}

/// Native times of the same work: of several runs the middle, the shortest and the longest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) median: NativeTimes,
    pub(crate) fastest: NativeTimes,
    pub(crate) slowest: NativeTimes,
}

impl Times {
    /// The times of runs with and without flushes, from their seconds.
    pub(crate) fn of(durable: &[f64], unflushed: &[f64]) -> Self {
        let times =
            |of: fn(&[f64]) -> f64| NativeTimes { durable: of(durable), unflushed: of(unflushed) };
        Self {
            median: times(median),
            fastest: times(|all| all.iter().copied().fold(f64::INFINITY, f64::min)),
            slowest: times(|all| all.iter().copied().fold(0.0, f64::max)),
        }
    }
}

/// The machine whose times are computed: P1's cores, with memory of a given latency.
pub(crate) struct Machine {
    host: Host,
    workers: u32,
    /// The costs of files here, and those that stand in their place.
    files: Option<(FileCosts, FileCosts)>,
}

impl Machine {
    /// Takes data of so many bytes in so many partitions, each on a core of its own as in P1, with
    /// the files that an engine has in a setting.
    ///
    /// # Errors
    /// This machine's memory or its files cannot be measured.
    pub(crate) fn new(
        bench: &Bench<'_>,
        user_bytes: u64,
        partitions: usize,
        (engine, setting): (EngineKind, Setting),
    ) -> Result<Self, LabError> {
        let host = bench.calibrations.host(user_bytes)?;
        let files = match setting.files(engine) {
            None => None,
            Some(other) => Some((bench.calibrations.files_or(|| measure_files(bench))?, other)),
        };
        Ok(Self { host, workers: partitions as u32, files })
    }

    /// Native times with the machine's files.
    fn native(&self, counts: &LineCounts, native: &NativeTimes) -> NativeTimes {
        match &self.files {
            None => *native,
            Some((here, other)) => native.with_files(counts, here, other),
        }
    }

    /// Seconds of a run on memory of a latency, with a sync primitive that takes so much longer;
    /// and the model in words.
    pub(crate) fn time(
        &self,
        counted: &Counted,
        native: &Times,
        latency_ns: f64,
        sync_ns: f64,
    ) -> (Emulated, String) {
        let nvm = NvmParameters {
            latency_ns,
            fence_ns: sync_ns,
            ..NvmParameters::of_cores(self.workers)
        };
        let counts = &counted.counts;
        let of =
            |native: &NativeTimes| emulate(counts, &self.native(counts, native), &self.host, &nvm);
        let time = of(&native.median).between(&of(&native.fastest), &of(&native.slowest));
        let mut model = format!("{latency_ns} ns, {} cores", self.workers);
        if let Some(rate) = nvm.gigabytes_per_second {
            model += &format!(", {rate:.2} GB/s");
        }
        if self.files.is_some() {
            model += ", the paper's files";
        }
        if sync_ns > 0.0 {
            model += &format!(", {sync_ns} ns more a fence");
        }
        let cores = emulate(
            counts,
            &self.native(counts, &native.median),
            &self.host,
            &NvmParameters { gigabytes_per_second: None, ..nvm },
        );
        if cores.seconds < time.seconds {
            model += ", bound by bandwidth";
        }
        (time, model)
    }

    /// Shares of the time by what it was for. The native time without flushes is shared out by
    /// accesses and calls of the kernel, what flushes add by lines flushed, and what the memory's
    /// latency adds by the model's charges. Where calls of the kernel cost what another file system
    /// takes, each part has those that it made.
    pub(crate) fn breakdown(
        &self,
        counted: &Counted,
        native: &Times,
        engine: &str,
        panel: &str,
        latency_ns: f64,
    ) -> Vec<Point> {
        let native = match &self.files {
            None => native.median,
            Some((here, _)) => native.median.without_files(&counted.counts, here),
        };
        let NativeTimes { durable, unflushed } = native;
        let Breakdown { storage, recovery, index, other } = counted.parts;
        let parts =
            [("storage", storage), ("recovery", recovery), ("index", index), ("other", other)];
        // Calls of the other file system are charged as such.
        let (a_call, a_sync) =
            if self.files.is_some() { (0.0, 0.0) } else { (ACCESSES_OF_A_CALL, 1.0) };
        let work = |counts: &LineCounts| counts.accesses as f64 + counts.file_calls as f64 * a_call;
        let flushes =
            |counts: &LineCounts| counts.flush_requests as f64 + counts.syncs as f64 * a_sync;
        let files =
            |counts: &LineCounts| self.files.map_or(0.0, |(_, other)| other.seconds(counts));
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let nvm = NvmParameters {
            latency_ns,
            gigabytes_per_second: None,
            workers: 1,
            ..NvmParameters::p1()
        };
        // Without flushes, so that what is over the native time is what latency adds.
        let without = NativeTimes { durable: unflushed, unflushed };
        let seconds = parts.map(|(_, counts)| {
            let native = unflushed * share(work(&counts), work(&counted.counts))
                + (durable - unflushed).max(0.0)
                    * share(flushes(&counts), flushes(&counted.counts))
                + files(&counts);
            let time = emulate(&counts, &without, &self.host, &nvm);
            let of = |emulated: f64| (native + emulated - unflushed).max(0.0);
            Emulated { seconds: of(time.seconds), low: of(time.low), high: of(time.high) }
        });
        let model = format!("{latency_ns} ns, shared out by counts");
        let point = |(at, (name, _)): (usize, (&str, LineCounts))| {
            let percent = percent_of(&seconds, at);
            let place = Point::of("P1-F13", engine, name).panel(panel);
            let interval = (percent.seconds, percent.low, percent.high);
            place.modelled("time share", "%", interval, &model)
        };
        parts.into_iter().enumerate().map(point).collect()
    }
}

/// The share of one part in the time of all, as small and as large as the intervals of all parts
/// allow: each may overlap in its own way.
fn percent_of(parts: &[Emulated], at: usize) -> Emulated {
    let share = |part: fn(&Emulated) -> f64, others: fn(&Emulated) -> f64| {
        let rest = parts.iter().enumerate().filter(|(other, _)| *other != at);
        let (part, rest) = (part(&parts[at]), rest.map(|(_, one)| others(one)).sum::<f64>());
        if part + rest > 0.0 { 100.0 * part / (part + rest) } else { 0.0 }
    };
    Emulated {
        seconds: share(|one| one.seconds, |one| one.seconds),
        low: share(|one| one.low, |one| one.high),
        high: share(|one| one.high, |one| one.low),
    }
}

/// The throughput that a time comes to, with its interval.
pub(crate) fn throughput(place: &PointBuilder, txns: u64, time: Emulated, model: &str) -> Point {
    let rate = time.rate(txns as f64);
    place.modelled("throughput", "txn/s", (rate.seconds, rate.low, rate.high), model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_the_interval_that_its_parts_allow() {
        let part = |seconds, low, high| Emulated { seconds, low, high };
        let share = percent_of(&[part(2.0, 1.0, 3.0), part(2.0, 2.0, 2.0)], 0);
        assert_eq!((share.seconds, share.high), (50.0, 60.0));
        assert!((share.low - 100.0 / 3.0).abs() < 1e-9, "{}", share.low);
        let none = percent_of(&[part(0.0, 0.0, 0.0)], 0);
        assert_eq!((none.seconds, none.low, none.high), (0.0, 0.0, 0.0));
    }
}
