//! Two partitions on two threads compared with the same two partitions on one thread: NVM-InP and,
//! as a bound that shares nothing but the machine, a hash map in place.
//!
//! Both are loaded first and take turns in every round, so that a drift of the machine hits both,
//! and a ratio is made of two consecutive runs. On a machine with one core there is nothing to
//! measure, and no points.

use ::peers::{Access, PeerKind, Visitor, with_store};
use perdura::{Domain, EngineKind, Options};
use serde_json::json;
use workloads::ycsb::{self, Mix, Skew, Spec, Workload};
use workloads::{Commit, PerduraStore, RunOptions, Store};

use super::native::{loaded, one_worker};
use super::{Cell, Done, Stage};
use crate::bench::{Bench, Contestant};
use crate::error::LabError;
use crate::point::Point;
use crate::room::Takes;
use crate::scale::Sizes;

/// Partitions, and threads at most.
const PARTITIONS: usize = 2;
const ENGINE: EngineKind = EngineKind::NvmInp;
const BOUND: PeerKind = PeerKind::HashMap;

struct ThreadStage {
    spec: Spec,
    repeat: u32,
    cells: [Cell; 1],
}

/// One stage with one cell.
pub(super) fn stages(sizes: &Sizes) -> Vec<Box<dyn Stage>> {
    let (tuples, transactions) = sizes.threads;
    let spec = Spec {
        tuples,
        transactions,
        mix: Mix::ReadOnly,
        skew: Skew::Low,
        update_columns: 1,
        partitions: PARTITIONS,
        seed: 0,
    };
    let configuration = json!({
        "engine": ENGINE.name(), "bound": BOUND.name(), "tuples": tuples, "txns": transactions,
        "partitions": PARTITIONS, "repeat": sizes.repeat,
    });
    let label = format!("{ENGINE} and {BOUND} on two threads");
    let runs = f64::from(sizes.repeat) * 4.0 * 2.0 * 2.0;
    let weight = tuples as f64 * 5e-6 + transactions as f64 * runs * 1.5e-6;
    let takes =
        Takes::ycsb(ENGINE, tuples, transactions) + Takes::peer(BOUND, tuples, transactions);
    let cells = [Cell::new(label, &configuration, "", weight, takes)];
    vec![Box::new(ThreadStage { spec, repeat: sizes.repeat, cells })]
}

impl Stage for ThreadStage {
    fn cells(&self) -> &[Cell] {
        &self.cells
    }

    fn measure(&self, bench: &Bench<'_>, _: &[usize], done: &mut Done<'_>) -> Result<(), LabError> {
        bench.watch.phase(&self.cells[0].label);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        if cores < PARTITIONS {
            return done(0, &[]);
        }
        let failed = LabError::measuring(BOUND.name());
        let spec = Spec { seed: bench.seed, ..self.spec.clone() };
        let place = bench.place("threads")?;
        let pool = place.path().join("pool");
        let first = Workload::generate(&spec).map_err(|error| failed(&error))?;
        let engine = loaded(&pool, ENGINE, &Options::new(), Domain::Adr, &first)?;
        let pair = Pair { engine: &engine, first: &first, repeat: self.repeat };
        let points = with_store(BOUND, place.path(), &spec, Commit::Durable, Access::Create, pair);
        done(0, &points.map_err(|error| failed(&error))??)
    }
}

/// The engine, for what is measured together with it.
struct Pair<'a> {
    engine: &'a PerduraStore,
    first: &'a Workload,
    repeat: u32,
}

/// Transactions a second on one thread and on two, and how much more the second is, by round.
#[derive(Default)]
struct Rounds {
    one: Vec<f64>,
    two: Vec<f64>,
    scaling: Vec<f64>,
}

impl Rounds {
    fn add<S: Store>(&mut self, store: &S, workload: &Workload) -> Result<(), LabError> {
        let failed = LabError::measuring(store.name());
        let run = |workers| {
            let options = RunOptions { workers, ..one_worker(Commit::Durable) };
            let measured = ycsb::run(store, workload, &options, &());
            measured.map(|measured| measured.throughput_txn_s()).map_err(|error| failed(&error))
        };
        let (one, two) = (run(1)?, run(PARTITIONS)?);
        self.one.push(one);
        self.two.push(two);
        self.scaling.push(two / one);
        Ok(())
    }

    fn points(&self, name: &str, mix: Mix) -> [Point; 3] {
        let place = Point::of("PEERS-THREADS", name, mix.name());
        [
            place.measured("throughput, one thread", "txn/s", &self.one),
            place.measured("throughput, two threads", "txn/s", &self.two),
            place.measured("scaling", "x", &self.scaling),
        ]
    }
}

impl Visitor for Pair<'_> {
    type Output = Result<Vec<Point>, LabError>;

    fn visit<S: Store>(self, bound: &S) -> Self::Output {
        let failed = LabError::measuring(bound.name());
        ycsb::load(bound, self.first, 1, &()).map_err(|error| failed(&error))?;
        let mut points = Vec::new();
        for mix in Mix::ALL {
            let spec = Spec { mix, ..self.first.spec().clone() };
            let workload = Workload::generate(&spec).map_err(|error| failed(&error))?;
            let (mut engine, mut other) = (Rounds::default(), Rounds::default());
            for _ in 0..self.repeat {
                engine.add(self.engine, &workload)?;
                other.add(bound, &workload)?;
            }
            points.extend(engine.points(&Contestant::Engine(ENGINE, Domain::Adr).name(), mix));
            points.extend(other.points(&Contestant::Peer(BOUND).name(), mix));
        }
        Ok(points)
    }
}
