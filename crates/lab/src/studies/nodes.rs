//! YCSB on the NVM engines with nodes of other sizes (P1 appendix B, F15): low skew, memory of
//! twice the latency.
//!
//! The size is that of the nodes of the B+trees of NVM-InP and NVM-Log, and of the pages of the
//! copy-on-write tree of NVM-CoW, which has none of 64 bytes.

use perdura::{EngineKind, Options};
use serde_json::json;
use workloads::ycsb::{Mix, Skew, Spec, Workload};

use super::native::seconds;
use super::settings::in_both;
use super::ycsb::LOW_LATENCY_NS;
use super::{Cell, Done, Stage};
use crate::bench::Bench;
use crate::error::LabError;
use crate::point::Point;
use crate::room::Takes;
use crate::scale::{EngineSizes, Sizes, cache_for};
use crate::setting::Setting;
use crate::timing::{self, EmulatedStore, Times};

/// The paper's sizes of nodes.
const NODE_BYTES: [u32; 9] = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];
/// The smallest node of the copy-on-write tree.
const SMALLEST_SHADOWED: u32 = 128;
/// Bytes of the allocator's chunks: an extent of the copy-on-write tree, an eighth of a chunk, has
/// to hold at least four of the largest nodes.
const CHUNK_BYTES: u64 = 1 << 20;

fn options(node_bytes: u32) -> Options {
    let options = Options::new().tune("node_bytes", node_bytes.into()).chunk_bytes(CHUNK_BYTES);
    match node_bytes {
        SMALLEST_SHADOWED.. => options.tune("tree_node_bytes", node_bytes.into()),
        _ => options,
    }
}

struct NodeStage {
    engine: EngineKind,
    setting: Setting,
    node_bytes: u32,
    specs: Vec<Spec>,
    cells: Vec<Cell>,
    repeat: u32,
    sizes: EngineSizes,
}

/// One stage for each NVM engine and size.
pub(super) fn stages(sizes: &Sizes) -> Vec<Box<dyn Stage>> {
    let mut stages: Vec<Box<dyn Stage>> = Vec::new();
    for engine in EngineKind::P1.into_iter().filter(|engine| !engine.traits().needs_files()) {
        for node_bytes in NODE_BYTES {
            if engine != EngineKind::NvmCow || node_bytes >= SMALLEST_SHADOWED {
                stages.extend(in_both(|setting| stage(engine, node_bytes, setting, sizes)));
            }
        }
    }
    stages
}

fn stage(engine: EngineKind, node_bytes: u32, setting: Setting, sizes: &Sizes) -> NodeStage {
    let (tuples, transactions) = sizes.nodes;
    let (mut specs, mut cells) = (Vec::new(), Vec::new());
    for mix in Mix::ALL {
        let partitions = setting.partitions(sizes.partitions);
        let spec = Spec {
            tuples,
            transactions,
            mix,
            skew: Skew::Low,
            update_columns: 1,
            partitions,
            seed: 0,
        };
        let mut configuration = json!({
            "engine": engine.name(),
            "node_bytes": node_bytes,
            "chunk_bytes": CHUNK_BYTES,
            "mix": mix.name(),
            "tuples": tuples,
            "txns": transactions,
            "partitions": partitions,
            "cache_bytes": cache_for(tuples),
            "repeat": sizes.repeat,
        });
        sizes.nodes_engine().note(&mut configuration);
        setting.note_commits(engine, &mut configuration);
        let label = setting.label(format!("{engine}, {mix}, nodes of {node_bytes} bytes"));
        let weight = tuples as f64 * 3e-6 + transactions as f64 * 1e-5;
        let takes = Takes::emulated(engine, tuples) + Takes::ycsb(engine, tuples, transactions);
        cells.push(Cell::new(label, &configuration, &sizes.scaled_nodes(), weight, takes));
        specs.push(spec);
    }
    let (repeat, sizes) = (sizes.repeat, sizes.nodes_engine());
    NodeStage { engine, setting, node_bytes, specs, cells, repeat, sizes }
}

impl Stage for NodeStage {
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
        let options = setting.commits_on(engine, self.sizes.on(options(self.node_bytes)));
        let commit = setting.commit(engine);
        let failed = LabError::measuring(self.engine.name());
        let generate = |cell: usize| {
            let spec = Spec { seed: bench.seed, ..self.specs[cell].clone() };
            Workload::generate(&spec).map_err(|error| failed(&error))
        };
        let first = generate(missing[0])?;
        bench.watch.phase(&format!("{}: nodes of {} bytes", self.engine, self.node_bytes));
        let cache_bytes = cache_for(first.spec().tuples);
        let store = EmulatedStore::load(engine, &options, commit, cache_bytes, &first)?;
        for &cell in missing {
            let workload = generate(cell)?;
            let native = seconds(bench, engine, &options, &workload, self.repeat, commit, false)?;
            let counted = store.count(&workload)?;
            let spec = workload.spec();
            let of = (engine, setting);
            let machine = timing::Machine::new(bench, spec.user_bytes(), spec.partitions, of)?;
            let times = Times::of(&native.durable, &native.unflushed);
            let (time, model) = machine.time(&counted, &times, LOW_LATENCY_NS, 0.0);
            let place = Point::of("P1-F15", self.engine.name(), u64::from(self.node_bytes));
            let place = place.panel(spec.mix.name());
            let txns = spec.transactions;
            let (name, x) = (self.engine.name(), u64::from(self.node_bytes));
            let mut points = vec![timing::throughput(&place, txns, time, &model)];
            points.extend(counted.points("P1-F15", "P1-F15", name, x, spec.mix.name(), txns));
            done(cell, &points)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use perdura::Database;
    use workloads::PerduraStore;

    use super::*;

    #[test]
    fn every_engine_takes_the_sizes_it_is_measured_with() {
        let directory = tempfile::tempdir().expect("a directory");
        for engine in EngineKind::P1.into_iter().filter(|engine| !engine.traits().needs_files()) {
            for node_bytes in NODE_BYTES {
                let path = directory.path().join(format!("{engine}-{node_bytes}"));
                let options = options(node_bytes).engine(engine);
                let made = Database::create(&path, &PerduraStore::schema(), &options);
                assert!(made.is_ok(), "{engine}, {node_bytes}: {:?}", made.err());
            }
        }
    }
}
