//! What a user would pick instead, in the same loop and the same run: throughput by mixture, latency
//! to durability, space, and how all of it grows with the data.
//!
//! One thread, one partition, durable commits, low skew. Engines run in `adr`; NVM-InP runs in
//! `process` as well, which is what peers promise on memory as a file system.

use std::path::Path;

use ::peers::{Access, PeerKind, Visitor, with_store};
use perdura::{Domain, EngineKind, Options};
use serde_json::json;
use workloads::ycsb::{self, Mix, Skew, Spec, Workload};
use workloads::{Commit, Measurement, RunOptions, Store};

use super::native::{loaded, throughput};
use super::{Cell, Done, Stage};
use crate::bench::{Bench, Contestant};
use crate::error::LabError;
use crate::point::{Point, X};
use crate::scale::Sizes;

struct PeerStage {
    contestant: Contestant,
    specs: Vec<Spec>,
    cells: Vec<Cell>,
    repeat: u32,
}

/// One stage a contestant, a cell for each size.
pub(super) fn stages(sizes: &Sizes) -> Vec<Box<dyn Stage>> {
    let engines = EngineKind::ALL.into_iter().map(|kind| Contestant::Engine(kind, Domain::Adr));
    let process = Contestant::Engine(EngineKind::NvmInp, Domain::Process);
    let peers =
        PeerKind::ALL.into_iter().filter(|kind| kind.unavailable().is_none()).map(Contestant::Peer);
    let mut stages: Vec<Box<dyn Stage>> = Vec::new();
    for contestant in engines.chain([process]).chain(peers) {
        let (mut specs, mut cells) = (Vec::new(), Vec::new());
        let name = contestant.name();
        for &(tuples, transactions) in &sizes.peers {
            let configuration = json!({
                "contestant": name, "tuples": tuples, "txns": transactions,
                "repeat": sizes.repeat,
            });
            let label = format!("{name}, {tuples} tuples");
            let runs = f64::from(sizes.repeat) * 4.0;
            let slow = matches!(
                contestant,
                Contestant::Peer(
                    PeerKind::Sqlite | PeerKind::Redb | PeerKind::Fjall | PeerKind::RocksDb
                ) | Contestant::Engine(EngineKind::Cow, _)
            );
            let each = if slow { 1.2e-5 } else { 1.5e-6 };
            let weight = tuples as f64 * 3.0 * each + transactions as f64 * runs * each;
            cells.push(Cell::new(label, &configuration, "", weight));
            specs.push(Spec {
                tuples,
                transactions,
                mix: Mix::ReadOnly,
                skew: Skew::Low,
                update_columns: 1,
                partitions: 1,
                seed: 0,
            });
        }
        stages.push(Box::new(PeerStage { contestant, specs, cells, repeat: sizes.repeat }));
    }
    stages
}

impl Stage for PeerStage {
    fn cells(&self) -> &[Cell] {
        &self.cells
    }

    fn measure(
        &self,
        bench: &Bench<'_>,
        missing: &[usize],
        done: &mut Done<'_>,
    ) -> Result<(), LabError> {
        let name = self.contestant.name();
        let failed = LabError::measuring(&name);
        for &cell in missing {
            bench.watch.phase(&self.cells[cell].label);
            let spec = Spec { seed: bench.seed, ..self.specs[cell].clone() };
            let place = bench.place("peers")?;
            let path = place.path();
            let race = Race { name: &name, spec: &spec, repeat: self.repeat };
            let points = match self.contestant {
                Contestant::Engine(kind, domain) => race.engine(kind, domain, path)?,
                Contestant::Peer(kind) => {
                    with_store(kind, path, &spec, Commit::Durable, Access::Create, race)
                        .map_err(|error| failed(&error))??
                }
            };
            done(cell, &points)?;
        }
        Ok(())
    }
}

/// One contestant at one size.
struct Race<'a> {
    name: &'a str,
    spec: &'a Spec,
    repeat: u32,
}

impl Visitor for Race<'_> {
    type Output = Result<Vec<Point>, LabError>;

    fn visit<S: Store>(self, store: &S) -> Self::Output {
        let failed = LabError::measuring(self.name);
        let workload = Workload::generate(self.spec).map_err(|error| failed(&error))?;
        ycsb::load(store, &workload, 1, &()).map_err(|error| failed(&error))?;
        self.run(store)
    }
}

impl Race<'_> {
    fn engine(
        &self,
        kind: EngineKind,
        domain: Domain,
        path: &Path,
    ) -> Result<Vec<Point>, LabError> {
        let failed = LabError::measuring(self.name);
        let workload = Workload::generate(self.spec).map_err(|error| failed(&error))?;
        self.run(&loaded(&path.join("pool"), kind, &Options::new(), domain, &workload)?)
    }

    /// All mixtures, those that write more after those that write less; then the space.
    fn run<S: Store>(&self, store: &S) -> Result<Vec<Point>, LabError> {
        let failed = LabError::measuring(self.name);
        let options = RunOptions {
            workers: 1,
            commit: Commit::Durable,
            sample_every: 16,
            pin: Some(::peers::pin_to_core),
        };
        let tuples = self.spec.tuples;
        let mut points = Vec::new();
        for mix in Mix::ALL {
            let spec = Spec { mix, ..self.spec.clone() };
            let workload = Workload::generate(&spec).map_err(|error| failed(&error))?;
            let mut rounds: Vec<Measurement> = Vec::new();
            for _ in 0..self.repeat {
                let round = ycsb::run(store, &workload, &options, &());
                rounds.push(round.map_err(|error| failed(&error))?);
            }
            let seconds: Vec<f64> = rounds.iter().map(|round| round.seconds).collect();
            let per_second = throughput(spec.transactions, &seconds);
            let place = Point::of("PEERS-MIX", self.name, mix.name()).panel(&tuples.to_string());
            points.push(place.measured("throughput", "txn/s", &per_second));
            let p99 = |round: &Measurement| round.latency_ns.value_at_quantile(0.99) as f64 / 1e3;
            let p99: Vec<f64> = rounds.iter().map(p99).collect();
            points.push(place.measured("p99 to durability", "us", &p99));
            let place = Point::of("PEERS-GROWTH", self.name, X::from(tuples)).panel(mix.name());
            let each: Vec<f64> = per_second.iter().map(|per_second| 1e6 / per_second).collect();
            points.push(place.measured("time of a transaction", "us", &each));
        }
        let bytes = store.footprint_bytes().map_err(|error| failed(&error))?;
        if bytes > 0 {
            let place = Point::of("PEERS-SPACE", self.name, X::from(tuples));
            let share = bytes as f64 / self.spec.user_bytes() as f64;
            points.push(place.measured("space for a byte of user data", "B", &[share]));
        }
        Ok(points)
    }
}
