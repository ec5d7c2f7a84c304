//! The databases that a user would pick instead, in the same loop and the same run: throughput by
//! mixture, latency to durability, space, and how all of it grows with the data.
//!
//! One thread, one partition, durable commits, low skew; InP also with commits in groups. Engines
//! run in `adr`. NVM-InP runs in `process` as well, which is what peers promise on memory as a file
//! system, and in three ways that P1 has not: with updates declared as transactions of one
//! statement, which it makes durable with one fence (P1's takes three); with columns within the
//! tuple; and with both.
//!
//! Each run writes values that were never written, as the workload does: SQLite writes nothing
//! where an update changes nothing, and runs that repeated their values made it look twice as fast
//! as it is.
//!
//! The mixtures run on one database, those that write more after those that write less, after reads
//! that are not timed. Then those whose reads are compared read again: the data have been churned
//! by all the updates.
//!
//! Each contestant is alone on the medium, and gets the sizes that fit there. At each size the
//! contestants take turns: each runs once, on a database of its own, then all of them again. A
//! disturbance of the machine that lasts seconds or minutes then hits one run of several
//! contestants, not all runs of one, and shows as spread. Only what takes long to load
//! ([`IN_TURNS_UP_TO`]) has all its runs on one database.
//!
//! Growth: a transaction should cost no more than the levels of the index that it goes down and the
//! lines that it has to fetch. For NVM-InP the lines are counted on emulated memory with P1's
//! cache, which stays the same at every size; the levels are those of a tree of [`FANOUT`] children
//! a node.

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
use crate::results::ROUND;
use crate::room::Takes;
use crate::scale::{Sizes, scaled_of};
use crate::timing::EmulatedStore;

/// Children of an inner node of NVM-InP's index, at most: of its 512 bytes 16 are a header and 8
/// the first child, and each further child takes 16 with its key.
const FANOUT: f64 = 31.0;
/// The cache with which growth is counted: that of P1's machine, at every size.
const GROWTH_CACHE_BYTES: u64 = 20 << 20;

/// The contestant whose growth is held against what is counted of it.
const GROWING: Contestant = Contestant::Engine(EngineKind::NvmInp, Domain::Adr);

/// The same with what peers promise on memory as a file system.
const PROCESS: Contestant = Contestant::Engine(EngineKind::NvmInp, Domain::Process);

/// Tuples up to which contestants take turns: what is larger is loaded once.
const IN_TURNS_UP_TO: u64 = 1_000_000;

/// A way of running an engine beyond P1.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Way {
    /// Engines may take an update as all that its transaction does.
    statements: bool,
    /// Engines keep columns within the tuple.
    inline: bool,
    /// Engines make [`GROUP`] transactions durable at once.
    grouped: bool,
}

/// One transaction after the other, as P1 has the NVM engines do it.
const PLAIN: Way = Way { statements: false, inline: false, grouped: false };

/// Ways in addition to it: NVM-InP's own, and its twin's as P1 has it.
const EXTRA_WAYS: [(Contestant, Way); 5] = [
    (GROWING, Way { statements: true, ..PLAIN }),
    (GROWING, Way { inline: true, ..PLAIN }),
    (GROWING, Way { statements: true, inline: true, ..PLAIN }),
    (PROCESS, Way { statements: true, inline: true, ..PLAIN }),
    (Contestant::Engine(EngineKind::Inp, Domain::Adr), Way { grouped: true, ..PLAIN }),
];

/// One contestant at one size: all its runs, or one of them.
struct PeerStage {
    contestant: Contestant,
    way: Way,
    spec: Spec,
    cell: Cell,
    /// Timed runs of each mixture.
    runs: u32,
    /// Runs of each mixture before reads are compared that come after the updates.
    churning_runs: u32,
    growth_txns: u64,
}

/// A stage for each size, turn and contestant, in this order.
pub(super) fn stages(sizes: &Sizes) -> Vec<Box<dyn Stage>> {
    let engines = EngineKind::P1.into_iter().map(|kind| Contestant::Engine(kind, Domain::Adr));
    let peers =
        PeerKind::ALL.into_iter().filter(|kind| kind.unavailable().is_none()).map(Contestant::Peer);
    let plainly = |contestant| (contestant, PLAIN);
    let contestants = engines.chain([PROCESS]).map(plainly).chain(EXTRA_WAYS);
    let mut stages: Vec<(u64, u32, PeerStage)> = Vec::new();
    for (contestant, way) in contestants.chain(peers.map(plainly)) {
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
                "repeat": sizes.repeat, "untimed": 1, "values": "new",
            });
            if counted {
                configuration["counted_txns"] = sizes.growth_txns.into();
                configuration["cache_bytes"] = GROWTH_CACHE_BYTES.into();
            }
            let in_turns = tuples <= IN_TURNS_UP_TO && sizes.repeat > 1;
            let (turns, runs) = if in_turns { (sizes.repeat, 1) } else { (1, sizes.repeat) };
            configuration["runs"] = runs.into();
            let slow = matches!(
                contestant,
                Contestant::Peer(
                    PeerKind::Sqlite | PeerKind::Redb | PeerKind::Fjall | PeerKind::RocksDb
                ) | Contestant::Engine(EngineKind::Cow, _)
            );
            let each = if slow { 1.2e-5 } else { 1.5e-6 };
            let again = match reads_again(contestant) {
                true => f64::from(sizes.repeat - runs) * 4.0 + f64::from(runs),
                false => 0.0,
            };
            let passes = 1.0 + f64::from(runs) * 4.0 + again;
            let weight = tuples as f64 * 3.0 * each + transactions as f64 * passes * each;
            for turn in 0..turns {
                let mut label = format!("{name}, {tuples} tuples");
                if in_turns {
                    configuration[ROUND] = turn.into();
                    label += &format!(", turn {} of {turns}", turn + 1);
                }
                let stage = PeerStage {
                    contestant,
                    way,
                    spec: Spec {
                        tuples,
                        transactions,
                        mix: Mix::ReadOnly,
                        skew: Skew::Low,
                        update_columns: 1,
                        partitions: 1,
                        seed: 0,
                    },
                    cell: Cell::new(label, &configuration, &scaled, weight, takes),
                    runs,
                    churning_runs: sizes.repeat,
                    growth_txns: sizes.growth_txns,
                };
                stages.push((tuples, turn, stage));
            }
        }
    }
    // In each turn the order begins elsewhere, so that no contestant always has the same one before
    // it.
    stages.sort_by_key(|(tuples, turn, _)| (*tuples, *turn));
    let turns = sizes.repeat.max(1) as usize;
    for same in stages.chunk_by_mut(|one, two| (one.0, one.1) == (two.0, two.1)) {
        same.rotate_left(same[0].1 as usize * same.len() / turns);
    }
    stages.into_iter().map(|(.., stage)| Box::new(stage) as Box<dyn Stage>).collect()
}

/// Returns the room that a contestant takes, or its count when the rest is gone.
fn takes(contestant: Contestant, counted: bool, tuples: u64, transactions: u64) -> Takes {
    match contestant {
        Contestant::Engine(kind, _) => {
            let takes = Takes::ycsb(kind, tuples, transactions);
            if counted { takes.max(Takes::emulated(kind, tuples)) } else { takes }
        }
        Contestant::Peer(kind) => Takes::peer(kind, tuples, transactions),
    }
}

/// Returns true if reads are measured once more after the updates: those of NVM-InP and of what
/// they are compared with.
fn reads_again(contestant: Contestant) -> bool {
    matches!(
        contestant,
        Contestant::Engine(EngineKind::NvmInp, _)
            | Contestant::Peer(PeerKind::Lmdb | PeerKind::BTreeMap)
    )
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
        std::slice::from_ref(&self.cell)
    }

    fn measure(
        &self,
        bench: &Bench<'_>,
        missing: &[usize],
        done: &mut Done<'_>,
    ) -> Result<(), LabError> {
        for &cell in missing {
            bench.watch.phase(&self.cell.label);
            let spec = Spec { seed: bench.seed, ..self.spec.clone() };
            let mut found = self.race(&spec, bench)?;
            if self.contestant == GROWING && self.way == PLAIN {
                // After what is timed, which would find the machine in another state otherwise.
                let lines = self.count_growth(&spec, bench)?;
                let name = name(self.contestant, self.way);
                for ((mix, lines), each) in Mix::ALL.into_iter().zip(lines).zip(&found.each_us) {
                    let place = growing(&name, spec.tuples, mix);
                    found.points.extend(growth(&place, spec.tuples, lines, each));
                }
            }
            done(cell, &found.points)?;
        }
        Ok(())
    }
}

impl PeerStage {
    /// Runs everything that is timed, on a database that is gone in the end.
    fn race(&self, spec: &Spec, bench: &Bench<'_>) -> Result<Found, LabError> {
        let name = name(self.contestant, self.way);
        let place = bench.place("peers")?;
        let race = Race {
            name: &name,
            spec,
            runs: self.runs,
            churning_runs: reads_again(self.contestant).then_some(self.churning_runs),
            commit: self.way.commit(),
            exact: matches!(self.contestant, Contestant::Engine(..)) && bench.space_is_exact()?,
        };
        match self.contestant {
            Contestant::Engine(kind, domain) => race.engine(kind, domain, self.way, place.path()),
            Contestant::Peer(kind) => {
                let failed = LabError::measuring(&name);
                with_store(kind, place.path(), spec, Commit::Durable, Access::Create, race)
                    .map_err(|error| failed(&error))?
            }
        }
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
        let store = EmulatedStore::load(
            kind,
            &Options::new(),
            Commit::Durable,
            GROWTH_CACHE_BYTES,
            &first,
        )?;
        let lines = |mix| -> Result<f64, LabError> {
            let counts = store.count(&generate(mix)?)?.counts;
            Ok(counts.nvm_loads() as f64 / transactions.max(1) as f64)
        };
        Mix::ALL.into_iter().map(lines).collect()
    }
}

/// One contestant at one size, on one database.
struct Race<'a> {
    name: &'a str,
    spec: &'a Spec,
    /// Timed runs of each mixture.
    runs: u32,
    /// The number of times that each mixture has run before reads are measured once more, if they
    /// are.
    churning_runs: Option<u32>,
    commit: Commit,
    /// True if the same seed takes the same space again: what has threads in the background may
    /// not, nor what lies on a file system that does not ([`Bench::space_is_exact`]).
    exact: bool,
}

/// The outcome of a contestant.
struct Found {
    points: Vec<Point>,
    /// Microseconds of a transaction, by mixture and run.
    each_us: Vec<Vec<f64>>,
}

impl Visitor for Race<'_> {
    type Output = Result<Found, LabError>;

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
    ) -> Result<Found, LabError> {
        let failed = LabError::measuring(self.name);
        let workload = Workload::generate(self.spec).map_err(|error| failed(&error))?;
        let schema = match way.inline {
            true => PerduraStore::inlined_schema(),
            false => PerduraStore::schema(),
        };
        let pool = path.join("pool");
        let options = match self.commit {
            Commit::Durable => Options::new(),
            Commit::Grouped(group) => Options::new().commit(perdura::Commit::grouped(group)),
        };
        let store = loaded_with(&schema, &pool, kind, &options, domain, &workload)?;
        self.run(&store.with_statements(way.statements))
    }

    /// All mixtures, those that write more after those that write less; then the space.
    fn run<S: Store>(&self, store: &S) -> Result<Found, LabError> {
        let failed = LabError::measuring(self.name);
        let tuples = self.spec.tuples;
        let mixed = |mix| Point::of("PEERS-MIX", self.name, mix).panel(&tuples.to_string());
        let (mut points, mut each_us) = (Vec::new(), Vec::new());
        let mut ran = 0;
        // A store that has just been loaded is not yet as fast as later.
        self.rounds(store, Mix::ReadOnly, 1, &mut ran)?;
        for mix in Mix::ALL {
            let rounds = self.rounds(store, mix, self.runs, &mut ran)?;
            let per_second = per_second(&rounds);
            let place = mixed(mix.name());
            points.push(place.measured("throughput", "txn/s", &per_second));
            let p99 = |round: &Measurement| round.latency_ns.value_at_quantile(0.99) as f64 / 1e3;
            let p99: Vec<f64> = rounds.iter().map(p99).collect();
            points.push(place.measured("p99 to durability", "us", &p99));
            let each: Vec<f64> = per_second.iter().map(|per_second| 1e6 / per_second).collect();
            let place = growing(self.name, tuples, mix);
            points.push(place.measured("time of a transaction", "us", &each));
            each_us.push(each);
        }
        let bytes = store.footprint_bytes().map_err(|error| failed(&error))?;
        if bytes > 0 {
            let place = Point::of("PEERS-SPACE", self.name, X::from(tuples));
            let share = bytes as f64 / self.spec.user_bytes() as f64;
            let metric = "space for a byte of user data";
            points.push(place.once(metric, "B", share, self.exact));
        }
        if let Some(runs) = self.churning_runs {
            for mix in Mix::ALL {
                self.rounds(store, mix, runs.saturating_sub(self.runs), &mut ran)?;
            }
            let reads = self.rounds(store, Mix::ReadOnly, self.runs, &mut ran)?;
            let per_second = per_second(&reads);
            let place = mixed(Mix::ReadOnly.name());
            points.push(place.measured("throughput, after churn", "txn/s", &per_second));
        }
        Ok(Found { points, each_us })
    }

    /// Runs a mixture, so often, after so many transactions.
    fn rounds<S: Store>(
        &self,
        store: &S,
        mix: Mix,
        times: u32,
        ran: &mut u64,
    ) -> Result<Vec<Measurement>, LabError> {
        let failed = LabError::measuring(self.name);
        let options = RunOptions { sample_every: 16, ..one_worker(self.commit) };
        let spec = Spec { mix, ..self.spec.clone() };
        let workload = Workload::generate(&spec).map_err(|error| failed(&error))?;
        let round = |_| {
            let anew = workload.later(*ran);
            *ran += spec.transactions;
            ycsb::run(store, &anew, &options, &()).map_err(|error| failed(&error))
        };
        (0..times).map(round).collect()
    }
}

/// Returns the place of points of growth.
fn growing(name: &str, tuples: u64, mix: Mix) -> PointBuilder {
    Point::of("PEERS-GROWTH", name, X::from(tuples)).panel(mix.name())
}

/// Transactions a second of each round.
fn per_second(rounds: &[Measurement]) -> Vec<f64> {
    rounds.iter().map(Measurement::throughput_txn_s).collect()
}

/// Points for the cost that a transaction is expected to have, and for what it costs for each part
/// of that: `each` is its time in microseconds, `lines` are those that it fetches.
fn growth(place: &PointBuilder, tuples: u64, lines: f64, each: &[f64]) -> [Point; 3] {
    let levels = (tuples as f64).ln() / FANOUT.ln();
    let part: Vec<f64> = each.iter().map(|us| us * 1e3 / (levels + lines)).collect();
    [
        place.counted("levels of the index", "count", levels),
        place.counted("lines fetched", "per txn", lines),
        place.measured("time for a level or a line", "ns", &part),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Mutex;

    use workloads::ycsb::{COLUMNS, Column};
    use workloads::{RowBuffer, Session, StoreError};

    use super::*;

    /// A store that remembers whatever was written to it, and how often it was read.
    #[derive(Default)]
    struct Remembers {
        written: Mutex<HashSet<(u64, usize, Column)>>,
        updates: Mutex<u64>,
        reads: Mutex<u64>,
    }

    impl Store for Remembers {
        type Session<'a> = &'a Remembers;

        fn name(&self) -> &str {
            "remembers"
        }

        fn partitions(&self) -> usize {
            1
        }

        fn session(&self, _: usize) -> Result<&Self, StoreError> {
            Ok(self)
        }

        fn footprint_bytes(&self) -> Result<u64, StoreError> {
            Ok(0)
        }
    }

    impl Session for &Remembers {
        fn load(&mut self, key: u64, columns: &[Column; COLUMNS]) -> Result<(), StoreError> {
            let mut written = self.written.lock().expect("no panic");
            written.extend(columns.iter().enumerate().map(|(number, value)| (key, number, *value)));
            Ok(())
        }

        fn finish_load(&mut self) -> Result<(), StoreError> {
            Ok(())
        }

        fn read(&mut self, _: u64, _: &mut RowBuffer) -> Result<bool, StoreError> {
            *self.reads.lock().expect("no panic") += 1;
            Ok(true)
        }

        fn update(&mut self, key: u64, first: usize, values: &[Column]) -> Result<(), StoreError> {
            *self.updates.lock().expect("no panic") += 1;
            let mut written = self.written.lock().expect("no panic");
            for (number, value) in values.iter().enumerate() {
                let new = written.insert((key, first + number, *value));
                assert!(new, "tuple {key} gets a value that it had");
            }
            Ok(())
        }

        fn sync(&mut self) -> Result<(), StoreError> {
            Ok(())
        }
    }

    #[test]
    fn no_run_writes_what_was_there() {
        let spec = Spec { tuples: 20, transactions: 500, mix: Mix::ReadOnly, ..Spec::default() };
        let store = Remembers::default();
        let race = Race {
            name: "remembers",
            spec: &spec,
            runs: 2,
            churning_runs: Some(3),
            commit: Commit::Durable,
            exact: true,
        };
        let found = race.visit(&store).expect("measured");
        assert_eq!(found.each_us.iter().map(Vec::len).collect::<Vec<_>>(), [2; 4]);
        // The first reads, four mixtures three times, and the last reads twice.
        let (updates, reads) = (store.updates.into_inner(), store.reads.into_inner());
        let (updates, reads) = (updates.expect("no panic"), reads.expect("no panic"));
        assert_eq!(updates + reads, 500 * (1 + 4 * 3 + 2));
        assert!(updates > 500 * 3, "{updates}");
    }

    #[test]
    fn contestants_take_turns_at_each_size() {
        let sizes = Sizes::named("quick", 64 << 30).expect("known");
        let labels: Vec<String> =
            stages(&sizes).iter().map(|stage| stage.cells()[0].label.clone()).collect();
        let contestants = labels.iter().take_while(|label| label.contains("turn 1 of 3")).count();
        assert!(contestants > 15, "{labels:?}");
        assert_eq!(labels.len(), contestants * sizes.peers.len() * 3);
        for (turns, same) in labels.chunks(contestants).enumerate() {
            let (tuples, turn) = (sizes.peers[turns / 3].0, turns % 3 + 1);
            let end = format!(", {tuples} tuples, turn {turn} of 3");
            assert!(same.iter().all(|label| label.ends_with(&end)), "{end}: {same:?}");
            let firsts: HashSet<&str> = labels
                .chunks(contestants)
                .map(|all| all[0].split(',').next().expect("a name"))
                .collect();
            assert_eq!(firsts.len(), 3, "each turn begins with another: {firsts:?}");
            assert_eq!(same.iter().filter(|label| label.starts_with("lmdb,")).count(), 1);
        }
    }

    #[test]
    fn what_is_large_is_loaded_once() {
        let sizes = Sizes::named("full", 64 << 30).expect("known");
        for stage in stages(&sizes) {
            let Cell { label, configuration, .. } = &stage.cells()[0];
            let small = [10_000, 200_000].iter().any(|n| label.contains(&format!(" {n} tuples")));
            assert_eq!(small, label.contains(", turn "), "{label}");
            assert_eq!(small, configuration.contains(ROUND), "{configuration}");
        }
    }
}
