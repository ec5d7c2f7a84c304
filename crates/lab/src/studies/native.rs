//! Databases on the medium that is measured, and the sizes of TPC-C.

use std::path::Path;

use perdura::{Domain, EngineKind, Options, Schema};
use serde_json::{Value, json};
use workloads::ycsb::{self, Spec, Workload};
use workloads::{Commit, PerduraStore, RunOptions, create_modelled, tpcc};

use crate::bench::Bench;
use crate::error::LabError;
use crate::scale::Sizes;
use crate::setting::Setting;

/// One worker, pinned, that takes no latencies.
pub(super) fn one_worker(commit: Commit) -> RunOptions {
    RunOptions { workers: 1, commit, sample_every: 0, pin: Some(::peers::pin_to_core) }
}

/// A loaded YCSB database of P1's form.
///
/// # Errors
/// It cannot be made.
pub(super) fn loaded(
    path: &Path,
    engine: EngineKind,
    options: &Options,
    domain: Domain,
    workload: &Workload,
) -> Result<PerduraStore, LabError> {
    loaded_with(&PerduraStore::schema(), path, engine, options, domain, workload)
}

/// A loaded YCSB database with this schema.
///
/// # Errors
/// It cannot be made.
pub(super) fn loaded_with(
    schema: &Schema,
    path: &Path,
    engine: EngineKind,
    options: &Options,
    domain: Domain,
    workload: &Workload,
) -> Result<PerduraStore, LabError> {
    let failed = LabError::measuring(engine.name());
    let partitions = workload.spec().partitions;
    let options = options.clone().engine(engine).partitions(partitions as u32).domain(domain);
    let database = create_modelled(path, schema, &options);
    let database = database.map_err(|error| failed(&error))?;
    let store = PerduraStore::new(database, engine.name(), path, partitions);
    let store = store.map_err(|error| failed(&error))?;
    ycsb::load(&store, workload, 1, &()).map_err(|error| failed(&error))?;
    // The log of the loading must not bring a checkpoint into the run.
    store.database().checkpoint().map_err(|error| failed(&error))?;
    Ok(store)
}

/// Transactions of a group, where commits are grouped as in P1 3 (which does not say how many).
pub(super) const GROUP: u32 = 64;

/// Returns true if an engine makes several transactions durable at once if it is asked to.
pub(super) fn can_group(engine: EngineKind) -> bool {
    engine.groups_commits()
}

/// Seconds of `repeat` runs of a workload, one after the other on a freshly loaded database, each
/// after a checkpoint, in each of these domains, with these commits; then, if so asked, in groups
/// of [`GROUP`].
///
/// # Errors
/// A run failed.
pub(super) fn seconds(
    bench: &Bench<'_>,
    engine: EngineKind,
    options: &Options,
    workload: &Workload,
    repeat: u32,
    commit: Commit,
    grouped: bool,
) -> Result<Native, LabError> {
    let failed = LabError::measuring(engine.name());
    let Spec { mix, skew, .. } = *workload.spec();
    let run = |domain, commit| {
        bench.watch.phase(&format!("{engine}: {mix} {skew} {domain}"));
        let place = bench.place("native")?;
        let options = match commit {
            Commit::Durable => options.clone(),
            Commit::Grouped(group) => options.clone().commit(perdura::Commit::grouped(group)),
        };
        let store = loaded(&place.path().join("pool"), engine, &options, domain, workload)?;
        let how = one_worker(commit);
        let one = |round| {
            if round > 0 {
                // The counted run began without a log, too.
                store.database().checkpoint().map_err(|error| failed(&error))?;
            }
            let measured = ycsb::run(&store, workload, &how, &());
            Ok(measured.map_err(|error| failed(&error))?.seconds)
        };
        (0..repeat).map(one).collect::<Result<Vec<f64>, LabError>>()
    };
    Ok(Native {
        durable: run(Domain::Adr, commit)?,
        unflushed: run(Domain::Process, commit)?,
        grouped: grouped.then(|| run(Domain::Adr, Commit::Grouped(GROUP))).transpose()?,
    })
}

/// Seconds of native runs of the same work.
#[derive(Debug, Clone)]
pub(super) struct Native {
    /// Times in `adr`: with flushes and fences, and the commits that were asked for.
    pub(super) durable: Vec<f64>,
    /// Times in `process`: without.
    pub(super) unflushed: Vec<f64>,
    /// Times in `adr`, in groups of [`GROUP`]; if asked for.
    pub(super) grouped: Option<Vec<f64>>,
}

/// The throughput of each of several runs.
pub(super) fn throughput(transactions: u64, seconds: &[f64]) -> Vec<f64> {
    seconds.iter().map(|seconds| transactions as f64 / seconds.max(1e-9)).collect()
}

/// The TPC-C of these sizes in a setting; the seed is the bench's.
pub(super) fn shop_spec(sizes: &Sizes, setting: Setting) -> tpcc::Spec {
    let warehouses = sizes.warehouses_in(setting);
    tpcc::Spec {
        warehouses,
        items: sizes.items,
        customers: sizes.customers,
        transactions: sizes.tpcc_txns,
        partitions: warehouses as usize,
        remote: false,
        seed: 0,
    }
}

/// The configuration that the counts of a specification depend on.
pub(super) fn shop_configuration(spec: &tpcc::Spec) -> Value {
    json!({
        "warehouses": spec.warehouses,
        "items": spec.items,
        "customers": spec.customers,
        "txns": spec.transactions,
        "partitions": spec.partitions,
        "commit": "durable",
    })
}
