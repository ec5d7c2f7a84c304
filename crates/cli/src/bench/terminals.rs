//! `perdura bench tpcb` and `perdura bench tatp`.
//!
//! The engines run one after the other, each in a directory of its own that is gone before the next
//! one comes, so that only one database at a time takes memory.
//!
//! 1. The engine is created and populated, and takes a checkpoint if it has such a thing.
//! 2. Round `n` runs the `n`th piece of one sequence of inputs, the same for each engine.
//! 3. One more piece runs off the clock and is counted.
//! 4. What the engine then holds is read as a whole: the digests of all engines must agree, unless
//!    the workload's contents depend on the order in which workers met in a partition. With `--check`
//!    the workload's checks are made, too.

use std::collections::BTreeMap;
use std::path::Path;

use command::failure::{Failure, say};
use command::figures::{Counted, LatencyUs, PerTxn, Spread};
use command::footprint::FootprintBytes;
use command::host::Host;
use command::output::{Report, check_target, report, table};
use command::progress::Bar;
use command::scratch::Scratch;
use command::settings::{
    background_name, commit_group, commit_name, commit_text, database_options, placed,
};
use command::system::{Promise, System, create, pool_path};
use command::units::grouped;
use peers::PeerKind;
use perdura::{Database, EngineKind, Medium, Schema};
use workloads::{Check, Form, Lanes, Measured, Progress, RunError, RunOptions, contents};

use super::bank::Populated;
use super::terminals_run::{Run, Success, row, transaction_rows, violations};
use crate::args::CommonArgs;
use crate::plan::Plan;

/// Transactions of a counted pass at most.
const COUNTED_TXNS: u64 = 20_000;

/// A workload of this benchmark, with its specification.
pub(super) trait Workload: Sync {
    /// A piece of the sequence of inputs.
    type Piece: Sync;

    /// Its name in JSON.
    const NAME: &'static str;
    /// Its name for people.
    const TITLE: &'static str;
    /// The kinds of its transactions, as a run numbers them; one alone has no name.
    const KINDS: &'static [&'static str];
    /// The number of kinds, the first ones, that only read.
    const READ_ONLY: usize;
    /// True if a run leaves the same contents in whatever order workers meet.
    const COMMUTES: bool;
    /// The options that make it smaller.
    const SMALLER: &'static str;
    /// Bytes that a tuple takes at most in a freshly populated database, with its share of indexes,
    /// logs and space that a store keeps ahead.
    const TUPLE_BYTES: u64;
    /// Bytes that a transaction adds at most, with logs.
    const TRANSACTION_BYTES: u64;

    /// The tables.
    fn schema() -> Schema;
    /// Its sizes, by their names in JSON.
    fn sizes(&self) -> BTreeMap<&'static str, u64>;
    /// The form that is run.
    fn form(&self) -> Form;
    /// Tuples of a population.
    fn tuples(&self) -> u64;
    /// Transactions of a round.
    fn transactions(&self) -> u64;
    /// The first piece of so many transactions, or the one after another.
    ///
    /// # Errors
    /// It cannot be run.
    fn piece(&self, after: Option<&Self::Piece>, transactions: u64)
    -> Result<Self::Piece, Failure>;
    /// Populates a database.
    ///
    /// # Errors
    /// The engine's.
    fn load(
        &self,
        database: &Database,
        workers: usize,
        progress: &Progress,
    ) -> Result<(), RunError>;
    /// Runs a piece.
    ///
    /// # Errors
    /// The engine's.
    fn run(
        database: &Database,
        piece: &Self::Piece,
        options: &RunOptions,
        progress: &Progress,
    ) -> Result<Measured, RunError>;
    /// Creates and populates a peer in an empty directory.
    ///
    /// # Errors
    /// The peer's, or it does not run this workload.
    fn peer(
        &self,
        kind: PeerKind,
        _: &Path,
        _: &Plan,
        _: &Progress,
    ) -> Result<Box<dyn Populated<Self::Piece>>, Failure> {
        Err(Failure::about(kind, format!("peers do not run {}", Self::TITLE)))
    }
    /// Checks a database on which these runs have ended.
    ///
    /// # Errors
    /// The engine's.
    fn check(
        &self,
        database: &Database,
        runs: &[(&Self::Piece, &Measured)],
    ) -> Result<Vec<Check>, perdura::Error>;
    /// Checks the results that these runs received, independent of the store's contents.
    fn judge(_: &[(&Self::Piece, &Measured)]) -> Vec<Check> {
        Vec::new()
    }
    /// The successes of each kind of transaction in these runs; `None` if all of them succeed.
    fn success(_: &[(&Self::Piece, &Measured)]) -> Option<BTreeMap<&'static str, Success>> {
        None
    }
}

/// The functions of [`Workload`] that pass on to those of the same names in a module of `workloads`.
macro_rules! pass_on_to {
    ($module:ident) => {
        fn schema() -> Schema {
            $module::schema()
        }

        fn form(&self) -> Form {
            self.form
        }

        fn tuples(&self) -> u64 {
            Self::tuples(self)
        }

        fn transactions(&self) -> u64 {
            self.transactions
        }

        fn piece(
            &self,
            after: Option<&$module::Workload>,
            transactions: u64,
        ) -> Result<$module::Workload, Failure> {
            Ok(match after {
                Some(piece) => piece.after(transactions)?,
                None => $module::Workload::generate(&Self { transactions, ..self.clone() })?,
            })
        }

        fn load(
            &self,
            database: &Database,
            workers: usize,
            progress: &Progress,
        ) -> Result<(), RunError> {
            $module::load(database, self, workers, progress)
        }

        fn run(
            database: &Database,
            piece: &$module::Workload,
            options: &RunOptions,
            progress: &Progress,
        ) -> Result<Measured, RunError> {
            $module::run(database, piece, options, progress)
        }
    };
}
pub(super) use pass_on_to;

/// A store in which the workload runs.
enum Subject<W: Workload> {
    Engine(Box<Database>),
    Peer(PeerKind, Box<dyn Populated<W::Piece>>),
}

/// The contents of a store after its runs.
struct Found {
    footprint_bytes: FootprintBytes,
    user_bytes: Option<u64>,
    tuples: u64,
    digest: Option<String>,
    /// `None` without `--check`.
    checks: Option<Vec<Check>>,
    promise: Promise,
}

/// An open, populated store and what was measured on it.
struct Loaded<'a, W: Workload> {
    system: System,
    subject: Subject<W>,
    rounds: Vec<(&'a W::Piece, Measured)>,
    /// `None` of a peer: nothing of it can be counted.
    counted: Option<Counted>,
}

/// The benchmark of one workload.
struct Bench<'a, W: Workload> {
    workload: &'a W,
    plan: &'a Plan,
    lanes: Lanes,
    check: bool,
    medium: &'a Medium,
}

/// Runs the benchmark.
///
/// # Errors
/// Options that contradict each other, an engine that failed, or [`Failure::Found`] if a check does
/// not hold or the engines do not agree.
pub(super) fn run<W: Workload>(
    workload: &W,
    plan: &Plan,
    common: &CommonArgs,
    check: bool,
) -> Result<(), Failure> {
    check_target(common.json.as_ref(), &[])?;
    let scratch = Scratch::new(common.path.as_deref(), common.keep)?;
    let host = Host::new(scratch.medium());
    let kept = if common.keep { plan.systems.len() as u64 } else { 1 };
    let needed = kept.saturating_mul(needed_bytes(plan, workload));
    scratch.require(needed, Some(W::SMALLER))?;
    let lanes = Lanes::new(plan.run.workers, plan.partitions());
    let bench = Bench { workload, plan, lanes, check, medium: scratch.medium() };
    let mut bar = Bar::new();
    let pieces = bench.pieces()?;
    let mut runs = Vec::new();
    for &system in &plan.systems {
        let directory = scratch.directory(system.name())?;
        let mut loaded = bench.open(system, &directory, &mut bar)?;
        bench.measure(&mut loaded, &pieces, &mut bar)?;
        runs.push(bench.summary(&loaded, &mut bar)?);
        drop(loaded);
        scratch.discard(&directory);
    }
    drop(bar);
    let text = host.line() + &bench.human_text(&runs);
    let printed = report(&text, &Report::new(&host, &runs), common.json.as_ref());
    Failure::or_verdict(printed, || bench.judge(&runs))
}

/// About how many bytes one engine takes on its medium by the end of its run.
pub(super) fn needed_bytes<W: Workload>(plan: &Plan, workload: &W) -> u64 {
    let transactions = workload.transactions().saturating_mul(u64::from(plan.repeat) + 1);
    let grown = transactions.saturating_mul(W::TRANSACTION_BYTES);
    workload.tuples().saturating_mul(W::TUPLE_BYTES).saturating_add(grown)
}

impl<'a, W: Workload> Bench<'a, W> {
    /// One piece for each round, and one that is counted.
    fn pieces(&self) -> Result<Vec<W::Piece>, Failure> {
        let transactions = self.workload.transactions();
        let mut pieces = vec![self.workload.piece(None, transactions)?];
        for _ in 1..self.plan.repeat {
            pieces.push(self.workload.piece(pieces.last(), transactions)?);
        }
        let counted = transactions.min(COUNTED_TXNS);
        pieces.push(self.workload.piece(pieces.last(), counted)?);
        Ok(pieces)
    }

    /// Creates and populates a database.
    fn open(
        &self,
        system: System,
        directory: &Path,
        bar: &mut Bar,
    ) -> Result<Loaded<'a, W>, Failure> {
        let plan = self.plan;
        let partitions = plan.partitions();
        if let System::Peer(kind) = system {
            bar.phase(format!("{system}: loading"), self.workload.tuples());
            let progress = Progress::new(partitions);
            let peer = || self.workload.peer(kind, directory, plan, &progress);
            let subject = Subject::Peer(kind, bar.watch(|| progress.total(), peer)?);
            return Ok(Loaded { system, subject, rounds: Vec::new(), counted: None });
        }
        let options = database_options(plan.run.commit, plan.background);
        let options = placed(options, plan.placement);
        let path = pool_path(directory);
        let schema = W::schema();
        let database = create(system, &path, &schema, partitions, &options, plan.domain)?;
        bar.phase(format!("{system}: loading"), self.workload.tuples());
        let progress = Progress::new(partitions);
        let load = || self.workload.load(&database, plan.run.workers, &progress);
        bar.watch(|| progress.total(), load)?;
        // What an engine logged meanwhile must not bring a checkpoint into the first run on the
        // clock.
        database.checkpoint()?;
        let subject = Subject::Engine(Box::new(database));
        Ok(Loaded { system, subject, rounds: Vec::new(), counted: None })
    }

    /// Runs all rounds, and counts in the last one.
    fn measure<'p>(
        &self,
        loaded: &mut Loaded<'p, W>,
        pieces: &'p [W::Piece],
        bar: &mut Bar,
    ) -> Result<(), Failure> {
        for (number, piece) in pieces.iter().enumerate() {
            let counts = number + 1 == pieces.len();
            let (what, transactions) = match counts {
                true => ("counting", self.workload.transactions().min(COUNTED_TXNS)),
                false => ("running", self.workload.transactions()),
            };
            bar.phase(format!("{}: {what}", loaded.system), transactions);
            let progress = Progress::new(self.lanes.count());
            let options = &self.plan.run;
            let measured = match &loaded.subject {
                Subject::Engine(database) => {
                    database.count(counts);
                    let before = Counted::of(database);
                    let work = || W::run(database, piece, options, &progress);
                    let measured = bar.watch(|| progress.total(), work)?;
                    loaded.counted = Some(Counted::of(database).since(&before));
                    database.count(false);
                    measured
                }
                Subject::Peer(_, peer) => {
                    bar.watch(|| progress.total(), || peer.run(piece, options, &progress))?
                }
            };
            loaded.rounds.push((piece, measured));
        }
        Ok(())
    }

    /// Looks at all that a store holds.
    fn find(&self, loaded: &Loaded<'_, W>, bar: &mut Bar) -> Result<Found, Failure> {
        let Loaded { system, subject, rounds, .. } = loaded;
        bar.phase(format!("{system}: reading it all"), 1);
        let runs: Vec<_> = rounds.iter().map(|(piece, measured)| (*piece, measured)).collect();
        let database = match subject {
            Subject::Engine(database) => database,
            Subject::Peer(kind, peer) => {
                let fail = |error| Failure::about(*kind, error);
                let measured: Vec<_> = rounds.iter().map(|(_, measured)| measured).collect();
                let (tuples, mut checks) =
                    bar.watch(|| 0, || peer.check(&measured).map_err(fail))?;
                checks.extend(W::judge(&runs));
                let medium = self.medium;
                return Ok(Found {
                    footprint_bytes: FootprintBytes::of_peer(peer.footprint_bytes().map_err(fail)?),
                    user_bytes: None,
                    tuples,
                    digest: None,
                    checks: self.check.then_some(checks),
                    promise: Promise::of_peer(*kind, medium),
                });
            }
        };
        let footprint_bytes = FootprintBytes::of_database(database)?;
        let held = bar.watch(|| 0, || contents(database))?;
        let checks = match self.check {
            true => {
                bar.phase(format!("{system}: checking"), 1);
                let mut checks = bar.watch(|| 0, || self.workload.check(database, &runs))?;
                checks.extend(W::judge(&runs));
                Some(checks)
            }
            false => None,
        };
        Ok(Found {
            footprint_bytes,
            user_bytes: Some(held.user_bytes()),
            tuples: held.tuples(),
            digest: Some(format!("{:016x}", held.digest())),
            checks,
            promise: Promise::of_database(database),
        })
    }

    fn summary(&self, loaded: &Loaded<'_, W>, bar: &mut Bar) -> Result<Run, Failure> {
        let found = self.find(loaded, bar)?;
        let Loaded { system, rounds, counted, .. } = loaded;
        let plan = self.plan;
        let runs: Vec<_> = rounds.iter().map(|(piece, measured)| (*piece, measured)).collect();
        // All but the counted one.
        let timed: Vec<&Measured> =
            rounds[..rounds.len() - 1].iter().map(|(_, measured)| measured).collect();
        let throughputs: Vec<f64> = timed.iter().map(|round| round.throughput_txn_s()).collect();
        let (throughput_txn_s, throughput_spread, median) = Spread::of(&throughputs);
        let of = |kind: usize| timed.iter().map(move |round| &round.latency_ns[kind]);
        let Found { checks, promise, .. } = found;
        let kinds = W::KINDS.iter().enumerate().filter(|_| W::KINDS.len() > 1);
        Ok(Run {
            engine: system.engine(),
            peer: system.peer(),
            name: system.name(),
            workload: W::NAME,
            mix: None,
            skew: None,
            sizes: self.workload.sizes(),
            form: self.workload.form().name(),
            txns: self.workload.transactions(),
            partitions: plan.partitions(),
            workers: plan.run.workers.min(self.lanes.count()),
            domain: promise.domain.map(perdura::Domain::name),
            modelled: promise.modelled,
            commit: commit_name(plan.run.commit),
            background: background_name(plan.background),
            placement: plan.placement.filter(|_| system.kind() == Some(EngineKind::Sofort)),
            group: commit_group(plan.run.commit),
            seed: plan.seed(),
            emulated: None,
            seconds: timed[median].seconds,
            throughput_txn_s,
            throughput_spread,
            latency_us: LatencyUs::of((0..W::KINDS.len()).flat_map(of)),
            latency_us_by_transaction: kinds
                .map(|(kind, name)| (*name, LatencyUs::of(of(kind))))
                .collect(),
            success: W::success(&runs),
            per_txn: PerTxn::new(counted.as_ref(), self.workload.transactions().min(COUNTED_TXNS)),
            footprint_bytes: found.footprint_bytes,
            user_bytes: found.user_bytes,
            tuples: found.tuples,
            aborted: timed[median].failed[W::READ_ONLY..].iter().sum(),
            conflicts: timed[median].conflicts,
            retries: timed[median].retries,
            violations: violations(checks.as_deref().unwrap_or_default()),
            consistency: checks
                .map(|checks| checks.iter().map(|check| (check.name, check.holds())).collect()),
            digest: found.digest,
            promise,
        })
    }

    /// Returns true if all engines must hold the same.
    fn is_decided(&self) -> bool {
        W::COMMUTES || !self.lanes.are_shared()
    }

    /// Fails if anything was found that should not be.
    fn judge(&self, runs: &[Run]) -> Result<(), Failure> {
        let mut found = false;
        for run in runs {
            for violation in &run.violations {
                say(format_args!("perdura: {}: {violation}", run.name));
                found = true;
            }
            let first = runs.iter().find(|run| run.digest.is_some());
            let Some(first) = first.filter(|_| run.digest.is_some()) else { continue };
            if self.is_decided() && run.digest != first.digest {
                let (one, other) = (first.name, run.name);
                let what = "did the same and hold different contents";
                say(format_args!("perdura: {one} and {other} {what}"));
                found = true;
            }
        }
        if found { Err(Failure::Found) } else { Ok(()) }
    }

    /// The tables, and what has to be known to read them.
    fn human_text(&self, runs: &[Run]) -> String {
        let first = &runs[0];
        let sizes = first.sizes.iter().map(|(name, size)| format!("{name}: {}", grouped(*size)));
        let mut text = format!(
            "{}: {}, {} transactions{}, partitions: {}, workers: {}, commits {}, median of {}\n\n",
            W::TITLE,
            sizes.collect::<Vec<_>>().join(", "),
            grouped(first.txns),
            match self.workload.form() {
                Form::Specification => "",
                Form::ShoreKits => " (as shore-kits)",
            },
            first.partitions,
            first.workers,
            commit_text(self.plan.run.commit),
            self.plan.repeat,
        );
        let head = [
            "store",
            "domain",
            "txn/s",
            "min - max",
            "p50 us",
            "p99 us",
            "lines/txn",
            "fences/txn",
            "conflicts",
            "retries",
        ];
        let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
        text += &table(&head.map(str::to_owned), &rows, 2);
        let rows: Vec<Vec<String>> = runs.iter().flat_map(transaction_rows).collect();
        if !rows.is_empty() {
            let head = [
                "store",
                "transaction",
                "p50 us",
                "p95 us",
                "p99 us",
                "max us",
                "success",
                "expected",
            ];
            text += "\n";
            text += &table(&head.map(str::to_owned), &rows, 2);
        }
        text += "\nLatencies are to durability, and those of transactions that succeeded, as txn/s counts them.\n";
        if self.lanes.are_shared() {
            text += "Workers share partitions; with an engine that runs one transaction of a partition at a time they queue for it.\n";
        }
        if runs.iter().any(|run| run.promise.modelled) {
            text += "(modelled): flushes and fences are really executed, but this medium does not keep what they promise.\n";
        }
        for run in runs {
            let Some(checks) = &run.consistency else { continue };
            let names: Vec<&str> = checks.keys().copied().collect();
            let holds = match checks.values().filter(|holds| !**holds).count() {
                0 => "hold".to_owned(),
                many => format!("{many} of {} do not hold", checks.len()),
            };
            text += &format!("Checks of {} ({}): {holds}.\n", run.name, names.join(", "));
        }
        let ours: Vec<&Run> = runs.iter().filter(|run| run.digest.is_some()).collect();
        if ours.is_empty() {
            return text;
        }
        let first = ours[0];
        if !self.is_decided() {
            text += "Contents depend on the order in which workers met, and are not compared.\n";
        } else if let Some(digest) = &first.digest
            && ours.iter().all(|run| run.digest == first.digest)
        {
            let what = if ours.len() > 1 { "Contents are alike" } else { "Contents" };
            let tuples = grouped(first.tuples);
            text += &format!("{what}: {tuples} tuples, digest {digest}.\n");
        }
        text
    }
}
