//! `perdura tour`: what Perdura is for, in under a minute and without options.
//!
//! 1. On the best medium there is, every engine gets a pool in `adr` (modelled, unless the medium
//!    is persistent memory) and one in `process`. Both are loaded and run YCSB, balanced, low skew,
//!    with durable commits; three rounds that go around the pools, of which the median counts.
//! 2. Flushes and fences are counted in a pass of their own: a timed run counts nothing.
//! 3. A child process on a third pool, in `process`, is killed with SIGKILL in the middle; a fresh
//!    process reopens the pool and verifies every acknowledged transaction.

use std::sync::Arc;

use perdura::{Domain, EngineKind};
use workloads::ycsb::{Mix, Skew, Spec, Workload};
use workloads::{Commit, Measurement};

use crate::args::TourArgs;
use crate::bench::figures::PerTxn;
use crate::bench::ycsb::throughput;
use crate::contestant::Contestant;
use crate::failure::{Failure, say};
use crate::host::Host;
use crate::job::Job;
use crate::kill::{Kill, Outcome};
use crate::output::{print, table};
use crate::plan::run_options;
use crate::progress::Bar;
use crate::racer::{Racer, Setup};
use crate::scratch::Scratch;
use crate::units::grouped;

/// Timed runs of each pool.
const ROUNDS: usize = 3;
/// The domains in which engines are measured: the counted one first.
const DOMAINS: [Domain; 2] = [Domain::Adr, Domain::Process];

/// Pools that are there at a time: those that are measured, and one that is killed.
const POOLS: u64 = (EngineKind::ALL.len() * DOMAINS.len() + 1) as u64;
/// Bytes that a pool takes for a tuple, with its index and files. Measured were 1,570 on average,
/// with what the transactions of a tour as it is had added.
const TUPLE_BYTES: u64 = 1_600;
/// Bytes of logs and old versions that all runs together add at most for a transaction of one.
const TRANSACTION_BYTES: u64 = 250;

/// What an engine came to.
struct Row {
    engine: EngineKind,
    /// Transactions a second in each of [`DOMAINS`].
    throughput: [f64; 2],
    per_txn: PerTxn,
    kill: Outcome,
}

impl Row {
    /// Whether it is not what it should be after the kill.
    fn is_broken(&self) -> bool {
        self.kill.found.lost > 0 || self.kill.found.surplus > 0
    }
}

/// Takes the tour.
///
/// # Errors
/// An engine failed, or [`Failure::Found`] if it lost anything.
pub(crate) fn run(args: &TourArgs) -> Result<(), Failure> {
    let spec = Spec {
        tuples: args.tuples,
        transactions: args.txns,
        mix: Mix::Balanced,
        skew: Skew::Low,
        ..Spec::default()
    };
    spec.validate()?;
    let grown = spec.transactions.saturating_mul(TRANSACTION_BYTES);
    let pool_bytes = spec.tuples.saturating_mul(TUPLE_BYTES).saturating_add(grown);
    let scratch = Scratch::with_room(args.path.as_deref(), pool_bytes.saturating_mul(POOLS))?;
    let host = Host::new(scratch.medium());
    let mut bar = Bar::new();
    let measured = measure(&spec, &scratch, &mut bar)?;
    let job = Job::Ycsb(spec.clone());
    let mut rows = Vec::new();
    for (engine, throughput, per_txn) in measured {
        let directory = scratch.directory(&format!("{engine}.killed"))?;
        let kill = Kill {
            contestant: Contestant::Engine(engine),
            domain: Some(Domain::Process),
            run: run_options(1, Commit::Durable),
            tree_node_bytes: None,
            background: perdura::Background::Inline,
            job: &job,
            directory: &directory,
        };
        rows.push(Row { engine, throughput, per_txn, kill: kill.run(&mut bar)? });
        scratch.discard(&directory);
    }
    drop(bar);
    let modelled = !Domain::Adr.is_given_by(scratch.medium().natural);
    Failure::or_verdict(print(&people(&host, &spec, &rows, modelled)), || {
        if rows.iter().any(Row::is_broken) {
            say("perdura: an engine did not hold what it had acknowledged; please report it");
            return Err(Failure::Found);
        }
        Ok(())
    })
}

type Measured = (EngineKind, [f64; 2], PerTxn);

/// Throughput in each domain, and what a transaction costs.
fn measure(spec: &Spec, scratch: &Scratch, bar: &mut Bar) -> Result<Vec<Measured>, Failure> {
    let workload = Arc::new(Workload::generate(spec)?);
    let mut racers = Vec::new();
    for engine in EngineKind::ALL {
        for domain in DOMAINS {
            let setup = Setup {
                contestant: Contestant::Engine(engine),
                directory: scratch.directory(&format!("{engine}.{domain}"))?,
                medium: scratch.medium().clone(),
                domain: Some(domain),
                background: perdura::Background::Inline,
                statements: false,
                inline: false,
                run: run_options(1, Commit::Durable),
                workload: workload.clone(),
            };
            racers.push(Racer::start(setup, bar)?);
        }
    }
    let mut rounds: Vec<Vec<Measurement>> = racers.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (racer, rounds) in racers.iter().zip(&mut rounds) {
            rounds.push(racer.run(&workload, bar)?);
        }
    }
    let mut measured = Vec::new();
    let both = racers.chunks(DOMAINS.len()).zip(rounds.chunks(DOMAINS.len()));
    for (engine, (racers, rounds)) in EngineKind::ALL.into_iter().zip(both) {
        let counted = racers[0].count(&workload, bar)?;
        let per_txn = PerTxn::new(counted.as_ref(), spec.transactions);
        let throughput = [throughput(&rounds[0]).0, throughput(&rounds[1]).0];
        measured.push((engine, throughput, per_txn));
    }
    Ok(measured)
}

fn people(host: &Host, spec: &Spec, rows: &[Row], modelled: bool) -> String {
    let adr = if modelled { "adr (modelled)" } else { "adr" };
    let head = [
        "engine".to_owned(),
        format!("txn/s {adr}"),
        "flushes/txn".to_owned(),
        "fences/txn".to_owned(),
        "txn/s process".to_owned(),
        "reopen ms".to_owned(),
        "acknowledged".to_owned(),
        "lost".to_owned(),
    ];
    let whole = |value: f64| grouped(value.round() as u64);
    let fine = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row.engine.to_string(),
                whole(row.throughput[0]),
                fine(row.per_txn.flushed_lines),
                fine(row.per_txn.fences),
                whole(row.throughput[1]),
                format!("{:.3}", row.kill.found.first_commit_ms),
                grouped(row.kill.acknowledged),
                grouped(row.kill.found.lost),
            ]
        })
        .collect();
    let mut text = host.line();
    text += &format!(
        "YCSB balanced, low skew: {} tuples of 1 KB, {} transactions, one thread, durable commits, median of {ROUNDS}\n\n",
        grouped(spec.tuples),
        grouped(spec.transactions),
    );
    text += &table(&head, &cells, 1);
    text.push('\n');
    text += &legend(adr, modelled);
    text
}

/// What the columns mean, and what was not shown.
fn legend(adr: &str, modelled: bool) -> String {
    let mut text = format!("{adr}: survives power loss on persistent memory");
    if modelled {
        text += "; here its flushes and fences are executed and counted, but this medium does not keep what they promise";
    }
    text += ".\nprocess: survives kill -9, out-of-memory kills and upgrades, not a reboot.\n";
    text += "reopen: from the open call of a fresh process to its first durable commit, after SIGKILL in the middle of a run in `process`.\n";
    text += "lost: acknowledged transactions that were not there after that kill. This is process evidence: the kernel keeps the pages of a killed process, so a kill shows nothing about flushes, and power loss was not tried.\n";
    text
}
