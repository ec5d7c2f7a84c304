//! What a user would pick instead, in the same loop and the same run: throughput by mixture, latency
//! to durability, space, and how all of it grows with the data.
//!
//! One thread, one partition, durable commits, low skew; InP also with commits in groups. Engines run
//! in `adr`; NVM-InP runs in `process` as well, which is what peers promise on memory as a file
//! system; and in ways that P1 has not: with updates that are told to be transactions of one
//! statement, which it makes durable with one fence (P1's takes three), with columns within the tuple,
//! and with both.
//!
//! The mixtures run on one database, those that write more after those that write less. Then those
//! whose reads are compared read again: the data have been churned by all the updates.
//!
//! Everybody is alone on the medium, and gets the sizes that fit there.
//!
//! Growth: a transaction should cost no more than the levels of the index that it goes down and the
//! lines that it has to fetch. Of NVM-InP the lines are counted on emulated memory behind P1's cache,
//! which stays the same at every size; the levels are those of a tree of [`FANOUT`] children a node.

use std::path::Path;

use ::peers::{Access, PeerKind, Visitor, with_store};
use perdura::{Domain, EngineKind, Options};
use serde_json::json;
use workloads::ycsb::{self, Mix, Skew, Spec, Workload};
use workloads::{Commit, Measurement, PerduraStore, RunOptions, Store};

use super::native::{GROUP, loaded_with, one_worker};
use super::{Cell, Done, Stage};
use crate::bench::{Bench, Contestant};
use crate::error::LabError;
use crate::point::{Point, PointBuilder, X};
use crate::room::Takes;
use crate::scale::{Sizes, scaled_of};
use crate::timing::EmulatedStore;

/// Children of an inner node of NVM-InP's index, at most: of its 512 bytes 16 are a header and 8 the
/// first child, and each further child takes 16 with its key.
const FANOUT: f64 = 31.0;
/// The cache behind which growth is counted: that of P1's machine, at every size.
const GROWTH_CACHE_BYTES: u64 = 20 << 20;

/// Whose growth is held against what is counted of it.
const GROWING: Contestant = Contestant::Engine(EngineKind::NvmInp, Domain::Adr);

/// The same with what peers promise on memory as a file system.
const PROCESS: Contestant = Contestant::Engine(EngineKind::NvmInp, Domain::Process);

/// What an engine is told beyond P1.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Way {
    /// That an update is all that its transaction does.
    statements: bool,
    /// To keep columns within the tuple.
    inline: bool,
    /// To make [`GROUP`] transactions durable at once.
    grouped: bool,
}

/// One transaction after the other, as P1 has the NVM engines do it.
const PLAIN: Way = Way { statements: false, inline: false, grouped: false };

/// Ways beside it: NVM-InP's own, and its twin's as P1 has it.
const BESIDE: [(Contestant, Way); 5] = [
    (GROWING, Way { statements: true, ..PLAIN }),
    (GROWING, Way { inline: true, ..PLAIN }),
    (GROWING, Way { statements: true, inline: true, ..PLAIN }),
    (PROCESS, Way { statements: true, inline: true, ..PLAIN }),
    (Contestant::Engine(EngineKind::Inp, Domain::Adr), Way { grouped: true, ..PLAIN }),
];

struct PeerStage {
    contestant: Contestant,
    way: Way,
    specs: Vec<Spec>,
    cells: Vec<Cell>,
    repeat: u32,
    growth_txns: u64,
}

/// One stage a contestant, a cell for each size.
pub(super) fn stages(sizes: &Sizes) -> Vec<Box<dyn Stage>> {
    let engines = EngineKind::ALL.into_iter().map(|kind| Contestant::Engine(kind, Domain::Adr));
    let peers =
        PeerKind::ALL.into_iter().filter(|kind| kind.unavailable().is_none()).map(Contestant::Peer);
    let mut stages: Vec<Box<dyn Stage>> = Vec::new();
    let plainly = |contestant| (contestant, PLAIN);
    let contestants = engines.chain([PROCESS]).map(plainly).chain(BESIDE);
    for (contestant, way) in contestants.chain(peers.map(plainly)) {
        let (mut specs, mut cells) = (Vec::new(), Vec::new());
        let name = name(contestant, way);
        let counted = contestant == GROWING && way == PLAIN;
        let with_takes = |&(tuples, transactions): &(u64, u64)| {
            let takes = takes(contestant, counted, tuples, transactions);
            sizes.fits(&takes).then_some((tuples, transactions, takes))
        };
        let fitting: Vec<_> = sizes.peers.iter().filter_map(with_takes).collect();
        let most = fitting.iter().map(|(tuples, ..)| *tuples).max().unwrap_or(0);
        let left_out = fitting.len() < sizes.peers.len();
        let scaled = scaled_of(&name, left_out, sizes.scaled_peers(most));
        for (tuples, transactions, takes) in fitting {
            let mut configuration = json!({
                "contestant": name, "tuples": tuples, "txns": transactions,
                "repeat": sizes.repeat,
            });
            if counted {
                configuration["counted_txns"] = sizes.growth_txns.into();
                configuration["cache_bytes"] = GROWTH_CACHE_BYTES.into();
            }
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
            cells.push(Cell::new(label, &configuration, &scaled, weight, takes));
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
        let (repeat, growth_txns) = (sizes.repeat, sizes.growth_txns);
        let stage = PeerStage { contestant, way, specs, cells, repeat, growth_txns };
        stages.push(Box::new(stage));
    }
    stages
}

/// What a contestant takes, with what is counted of it before the rest begins.
fn takes(contestant: Contestant, counted: bool, tuples: u64, transactions: u64) -> Takes {
    match contestant {
        Contestant::Engine(kind, _) => {
            let takes = Takes::ycsb(kind, tuples, transactions);
            if counted { takes.max(Takes::emulated(kind, tuples)) } else { takes }
        }
        Contestant::Peer(kind) => Takes::peer(kind, tuples, transactions),
    }
}

/// The name in tables and plots.
fn name(contestant: Contestant, way: Way) -> String {
    let mut name = contestant.name();
    if way.inline {
        name += " inline";
    }
    if way.statements {
        name += " statements";
    }
    if way.grouped {
        name += " grouped";
    }
    name
}

impl Way {
    fn commit(self) -> Commit {
        if self.grouped { Commit::Grouped(GROUP) } else { Commit::Durable }
    }
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
        let name = name(self.contestant, self.way);
        let failed = LabError::measuring(&name);
        for &cell in missing {
            bench.watch.phase(&self.cells[cell].label);
            let spec = Spec { seed: bench.seed, ..self.specs[cell].clone() };
            let place = bench.place("peers")?;
            let path = place.path();
            let growth = match self.contestant == GROWING && self.way == PLAIN {
                true => self.count_growth(&spec, bench)?,
                false => Vec::new(),
            };
            let race = Race {
                name: &name,
                spec: &spec,
                repeat: self.repeat,
                commit: self.way.commit(),
                growth,
                churned: self.reads_again(),
                exact: matches!(self.contestant, Contestant::Engine(..)),
            };
            let points = match self.contestant {
                Contestant::Engine(kind, domain) => race.engine(kind, domain, self.way, path)?,
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

impl PeerStage {
    /// Whether reads are measured once more after the updates: those of NVM-InP and of what they are
    /// compared with.
    fn reads_again(&self) -> bool {
        matches!(
            self.contestant,
            Contestant::Engine(EngineKind::NvmInp, _)
                | Contestant::Peer(PeerKind::Lmdb | PeerKind::BTreeMap)
        )
    }

    /// Lines that a transaction of each mixture fetches, counted on emulated memory.
    fn count_growth(&self, spec: &Spec, bench: &Bench<'_>) -> Result<Vec<f64>, LabError> {
        let kind = EngineKind::NvmInp;
        let failed = LabError::measuring(kind.name());
        let transactions = self.growth_txns;
        let generate = |mix| {
            let spec = Spec { mix, transactions, ..spec.clone() };
            Workload::generate(&spec).map_err(|error| failed(&error))
        };
        bench.watch.phase(&format!("{kind}, {} tuples: emulated", spec.tuples));
        let first = generate(Mix::ReadOnly)?;
        let store = EmulatedStore::load(kind, &Options::new(), GROWTH_CACHE_BYTES, &first)?;
        let lines = |mix| -> Result<f64, LabError> {
            let counts = store.count(&generate(mix)?)?.counts;
            Ok(counts.nvm_loads() as f64 / transactions.max(1) as f64)
        };
        Mix::ALL.into_iter().map(lines).collect()
    }
}

/// One contestant at one size.
struct Race<'a> {
    name: &'a str,
    spec: &'a Spec,
    repeat: u32,
    commit: Commit,
    /// By mixture, lines that a transaction fetches; empty if they were not counted.
    growth: Vec<f64>,
    /// Whether reads are measured once more in the end.
    churned: bool,
    /// Whether the same seed takes the same space again: threads in the background may not.
    exact: bool,
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
        way: Way,
        path: &Path,
    ) -> Result<Vec<Point>, LabError> {
        let failed = LabError::measuring(self.name);
        let workload = Workload::generate(self.spec).map_err(|error| failed(&error))?;
        let schema = match way.inline {
            true => PerduraStore::inlined_schema(),
            false => PerduraStore::schema(),
        };
        let pool = path.join("pool");
        let options = match self.commit {
            Commit::Durable => Options::new(),
            Commit::Grouped(group) => Options::new().commit(perdura::Commit::Grouped(group)),
        };
        let store = loaded_with(&schema, &pool, kind, &options, domain, &workload)?;
        self.run(&store.with_statements(way.statements))
    }

    /// All mixtures, those that write more after those that write less; then the space.
    fn run<S: Store>(&self, store: &S) -> Result<Vec<Point>, LabError> {
        let failed = LabError::measuring(self.name);
        let tuples = self.spec.tuples;
        let mut points = Vec::new();
        for (number, mix) in Mix::ALL.into_iter().enumerate() {
            let rounds = self.rounds(store, mix)?;
            let per_second = per_second(&rounds);
            let place = Point::of("PEERS-MIX", self.name, mix.name()).panel(&tuples.to_string());
            points.push(place.measured("throughput", "txn/s", &per_second));
            let p99 = |round: &Measurement| round.latency_ns.value_at_quantile(0.99) as f64 / 1e3;
            let p99: Vec<f64> = rounds.iter().map(p99).collect();
            points.push(place.measured("p99 to durability", "us", &p99));
            let place = Point::of("PEERS-GROWTH", self.name, X::from(tuples)).panel(mix.name());
            let each: Vec<f64> = per_second.iter().map(|per_second| 1e6 / per_second).collect();
            points.push(place.measured("time of a transaction", "us", &each));
            if let Some(lines) = self.growth.get(number) {
                points.extend(growth(&place, tuples, *lines, &each));
            }
        }
        let bytes = store.footprint_bytes().map_err(|error| failed(&error))?;
        if bytes > 0 {
            let place = Point::of("PEERS-SPACE", self.name, X::from(tuples));
            let share = bytes as f64 / self.spec.user_bytes() as f64;
            let metric = "space for a byte of user data";
            points.push(match self.exact {
                true => place.counted(metric, "B", share),
                false => place.measured(metric, "B", &[share]),
            });
        }
        if self.churned {
            let mix = Mix::ReadOnly;
            let per_second = per_second(&self.rounds(store, mix)?);
            let place = Point::of("PEERS-MIX", self.name, mix.name()).panel(&tuples.to_string());
            points.push(place.measured("throughput, after churn", "txn/s", &per_second));
        }
        Ok(points)
    }

    /// A mixture, as often as it is to be measured.
    fn rounds<S: Store>(&self, store: &S, mix: Mix) -> Result<Vec<Measurement>, LabError> {
        let failed = LabError::measuring(self.name);
        let options = RunOptions { sample_every: 16, commit: self.commit, ..one_worker() };
        let spec = Spec { mix, ..self.spec.clone() };
        let workload = Workload::generate(&spec).map_err(|error| failed(&error))?;
        let round = |_| ycsb::run(store, &workload, &options, &()).map_err(|error| failed(&error));
        (0..self.repeat).map(round).collect()
    }
}

/// Transactions a second of each round.
fn per_second(rounds: &[Measurement]) -> Vec<f64> {
    rounds.iter().map(Measurement::throughput_txn_s).collect()
}

/// What a transaction is expected to cost, and what it costs for each part of that: `each` is its
/// time in microseconds, `lines` are those that it fetches.
fn growth(place: &PointBuilder, tuples: u64, lines: f64, each: &[f64]) -> [Point; 3] {
    let levels = (tuples as f64).ln() / FANOUT.ln();
    let part: Vec<f64> = each.iter().map(|us| us * 1e3 / (levels + lines)).collect();
    [
        place.counted("levels of the index", "count", levels),
        place.counted("lines fetched", "per txn", lines),
        place.measured("time for a level or a line", "ns", &part),
    ]
}
