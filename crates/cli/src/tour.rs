//! `perdura tour`: what Perdura is for, in under a minute and without options.
//!
//! 1. On the best medium there is, every engine gets a pool in `adr` (modelled, unless the medium
//!    is persistent memory) and one in `process`, and SQLite and LMDB get a database each. All are
//!    loaded and run YCSB, balanced, low skew, with durable commits; three rounds that go around
//!    the stores, of which the median counts.
//! 2. Flushes and fences, on a disk syncs and bytes, are counted in a pass of their own: a timed run
//!    counts nothing.
//! 3. A child process on another pool, in `process`, or on another database of a peer, is killed
//!    with SIGKILL in the middle; a fresh process reopens it and verifies every acknowledged
//!    transaction.
//!
//! On a disk only the engines whose data or log are files take part, in `disk` alone, with fewer
//! transactions: each waits for the disk.

use std::sync::Arc;

use command::failure::{Failure, say};
use command::figures::{PerTxn, fine, whole};
use command::host::Host;
use command::job::Job;
use command::kill::{Kill, Outcome};
use command::output::{print, table};
use command::progress::Bar;
use command::scratch::Scratch;
use command::settings::run_options;
use command::system::{Promise, System};
use command::units::grouped;
use peers::PeerKind;
use perdura::{Domain, EngineKind, Medium};
use workloads::ycsb::{Mix, Skew, Spec, Workload};
use workloads::{Commit, Measurement};

use crate::args::TourArgs;
use crate::bench::ycsb::throughput;
use crate::bench_thread::{BenchThread, Setup};

/// Timed runs of each pool.
const ROUNDS: usize = 3;
/// A count of a transaction: its name, and where it stands.
type Count = (&'static str, fn(&PerTxn) -> Option<f64>);

/// The stores that take part in a tour, and how much they do.
struct Plan {
    engines: &'static [EngineKind],
    /// The domains in which engines are measured: the counted one first, and that of the kills last.
    domains: &'static [Domain],
    /// The engine that is compared with peers, the default of the medium.
    compared: EngineKind,
    /// Transactions of a run, if no number is given.
    transactions: u64,
    /// The two counts of a transaction that are shown, with their names.
    counts: [Count; 2],
}

/// In memory, persistent or not.
const IN_MEMORY: Plan = Plan {
    engines: &EngineKind::ALL,
    domains: &[Domain::Adr, Domain::Process],
    compared: EngineKind::NvmInp,
    transactions: 40_000,
    counts: [("flushes", |it| it.flushed_lines), ("fences", |it| it.fences)],
};
/// On a disk.
const ON_A_DISK: Plan = Plan {
    engines: &[EngineKind::Inp, EngineKind::Cow, EngineKind::Log, EngineKind::NvDisk],
    domains: &[Domain::Disk],
    compared: EngineKind::NvDisk,
    transactions: 1_000,
    counts: [("syncs", |it| it.syncs), ("file bytes", |it| it.file_bytes)],
};

impl Plan {
    /// The plan for a medium.
    const fn on(medium: &Medium) -> &'static Self {
        match medium.natural {
            Domain::Disk => &ON_A_DISK,
            Domain::Process | Domain::Adr | Domain::Eadr => &IN_MEMORY,
        }
    }

    /// The domain of the databases that are killed.
    fn killed(&self) -> Domain {
        *self.domains.last().expect("a plan has a domain")
    }

    /// Pools that are there at a time: those that are measured, and one that is killed.
    const fn pools(&self) -> u64 {
        (self.engines.len() * self.domains.len() + PEERS.len() + 1) as u64
    }
}

/// The databases to which the engines are compared.
const PEERS: [PeerKind; 2] = [PeerKind::Sqlite, PeerKind::Lmdb];
/// The commands to go on with, and their purposes.
const NEXT: [(&str, &str); 3] = [
    (
        "perdura bench ycsb --engine all --peer sqlite,lmdb --mix all",
        "four mixtures of reads and updates; with --path DIR on your own medium",
    ),
    (
        "perdura crash --engine nvm-inp",
        "the states that a power cut can leave, each one recovered and verified",
    ),
    (
        "perdura lab run P1 PEERS --quick && perdura lab report",
        "all figures of the paper and more peers, as a page with plots, in about twenty minutes",
    ),
];

/// Bytes that a pool takes for a tuple, with its index and files. Measured were 1,570 on average,
/// with what the transactions of a tour as it is had added.
const TUPLE_BYTES: u64 = 1_600;
/// Bytes of logs and old versions that all runs together add at most for a transaction of one.
const TRANSACTION_BYTES: u64 = 250;

/// The results of a store.
struct Row {
    system: System,
    /// Transactions a second, by what a commit survives.
    throughput: Vec<(Promise, f64)>,
    per_txn: PerTxn,
    kill: Outcome,
}

impl Row {
    /// Returns its transactions a second where commits survive this.
    fn with(&self, promise: Promise) -> Option<f64> {
        self.throughput.iter().find(|(its, _)| *its == promise).map(|(_, throughput)| *throughput)
    }

    /// Returns true if it is not what it should be after the kill.
    fn is_broken(&self) -> bool {
        self.kill.found.lost > 0 || self.kill.found.surplus > 0
    }
}

/// Takes the tour.
///
/// # Errors
/// An engine failed, or [`Failure::Found`] if it lost anything.
pub(crate) fn run(args: &TourArgs) -> Result<(), Failure> {
    let spec = |plan: &Plan| Spec {
        tuples: args.tuples,
        transactions: args.txns.unwrap_or(plan.transactions),
        mix: Mix::Balanced,
        skew: Skew::Low,
        ..Spec::default()
    };
    let scratch = Scratch::with_room(args.path.as_deref(), |medium| {
        let plan = Plan::on(medium);
        let spec = spec(plan);
        let grown = spec.transactions.saturating_mul(TRANSACTION_BYTES);
        let pool = spec.tuples.saturating_mul(TUPLE_BYTES).saturating_add(grown);
        pool.saturating_mul(plan.pools())
    })?;
    let plan = Plan::on(scratch.medium());
    let spec = spec(plan);
    spec.validate()?;
    let host = Host::new(scratch.medium());
    let mut bar = Bar::new();
    let measured = measure(plan, &spec, &scratch, &mut bar)?;
    let job = Job::Ycsb(spec.clone());
    let mut rows = Vec::new();
    for Measured { system, throughput, per_txn } in measured {
        let directory = scratch.directory(&format!("{system}.killed"))?;
        let kill = Kill {
            system,
            domain: system.engine().map(|_| plan.killed()),
            run: run_options(1, Commit::Durable),
            tree_node_bytes: None,
            placement: None,
            background: perdura::Background::Inline,
            job: &job,
            directory: &directory,
        };
        rows.push(Row { system, throughput, per_txn, kill: kill.run(&mut bar)? });
        scratch.discard(&directory);
    }
    drop(bar);
    Failure::or_verdict(print(&human_text(plan, &host, &spec, &rows)), || {
        for row in rows.iter().filter(|row| row.is_broken()) {
            say(format_args!(
                "perdura: {} did not hold what it had acknowledged; please report it",
                row.system
            ));
        }
        if rows.iter().any(Row::is_broken) { Err(Failure::Found) } else { Ok(()) }
    })
}

/// The figures of a store before the kill.
struct Measured {
    system: System,
    throughput: Vec<(Promise, f64)>,
    per_txn: PerTxn,
}

/// Measures engines in each domain, and peers; counts what a transaction costs.
fn measure(
    plan: &Plan,
    spec: &Spec,
    scratch: &Scratch,
    bar: &mut Bar,
) -> Result<Vec<Measured>, Failure> {
    let workload = Arc::new(Workload::generate(spec)?);
    let engines = plan.engines.iter().flat_map(|&kind| {
        plan.domains.iter().map(move |&domain| (System::Engine(kind), Some(domain)))
    });
    let peers = PEERS.map(|kind| (System::Peer(kind), None));
    let mut threads = Vec::new();
    for (number, (system, domain)) in engines.chain(peers).enumerate() {
        let setup = Setup {
            system,
            directory: scratch.directory(&format!("{system}.{number}"))?,
            medium: scratch.medium().clone(),
            domain,
            background: perdura::Background::Inline,
            statements: false,
            inline: false,
            run: run_options(1, Commit::Durable),
            workload: workload.clone(),
        };
        threads.push(BenchThread::start(setup, bar)?);
    }
    let mut rounds: Vec<Vec<Measurement>> = threads.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (thread, rounds) in threads.iter().zip(&mut rounds) {
            rounds.push(thread.run(&workload, bar)?);
        }
    }
    let mut measured: Vec<Measured> = Vec::new();
    for (thread, rounds) in threads.iter().zip(&rounds) {
        let (system, found) = (thread.system(), (thread.promise(), throughput(rounds).0));
        match measured.last_mut() {
            Some(last) if last.system == system => last.throughput.push(found),
            _ => {
                let counted = thread.count(&workload, bar)?;
                let per_txn = PerTxn::new(counted.as_ref(), spec.transactions);
                measured.push(Measured { system, throughput: vec![found], per_txn });
            }
        }
    }
    Ok(measured)
}

/// Returns the different promises of these stores, in the order in which they come.
fn promises(rows: &[Row]) -> Vec<Promise> {
    let mut promises = Vec::new();
    for (promise, _) in rows.iter().flat_map(|row| &row.throughput) {
        if !promises.contains(promise) {
            promises.push(*promise);
        }
    }
    promises
}

fn human_text(plan: &Plan, host: &Host, spec: &Spec, rows: &[Row]) -> String {
    let promises = promises(rows);
    let (counted, others) = promises.split_first().expect("every engine has a promise");
    let rate = |promise: &Promise| format!("txn/s {}", promise.text());
    let head: Vec<String> = ["store".into(), rate(counted)]
        .into_iter()
        .chain(plan.counts.map(|(name, _)| name.to_owned()))
        .chain(others.iter().map(rate))
        .chain(["reopen ms", "lost"].map(String::from))
        .collect();
    let rate = |row: &Row, promise: &Promise| row.with(*promise).map_or("-".into(), whole);
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let mut cells = vec![row.system.to_string(), rate(row, counted)];
            cells.extend(plan.counts.map(|(_, count)| fine(count(&row.per_txn))));
            cells.extend(others.iter().map(|promise| rate(row, promise)));
            cells.push(format!("{:.3}", row.kill.found.first_commit_ms));
            let (lost, all) = (row.kill.found.lost, row.kill.acknowledged);
            cells.push(format!("{} of {}", grouped(lost), grouped(all)));
            cells
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
    text += &comparison(plan, rows);
    text += &legend(plan, &promises);
    text += "\nNext:\n";
    for (command, purpose) in NEXT {
        text += &format!("  {command}\n      {purpose}\n");
    }
    text
}

/// Returns how much the default engine does of what each peer does that promises as much; nothing if
/// none does.
fn comparison(plan: &Plan, rows: &[Row]) -> String {
    let ours = rows.iter().find(|row| row.system == System::Engine(plan.compared));
    let times = |row: &Row| {
        let name = row.system.peer()?;
        let (promise, theirs) = row.throughput.first()?;
        let ours = ours?.with(*promise)?;
        Some(format!("{:.1} times as many as {name}", ours / theirs.max(1e-9)))
    };
    let all: Vec<String> = rows.iter().filter_map(times).collect();
    match all.is_empty() {
        true => String::new(),
        false => {
            format!("Transactions of {}, equally durable: {}.\n", plan.compared, all.join(", "))
        }
    }
}

/// Returns what the columns mean, and what was not shown.
fn legend(plan: &Plan, promises: &[Promise]) -> String {
    let mut text = String::new();
    for promise in promises {
        text += &match (promise.domain, promise.modelled) {
            (Some(Domain::Process), _) => {
                "process: survives kill -9, out-of-memory kills and upgrades, not a reboot.".into()
            }
            (Some(Domain::Disk), _) => "disk: survives power loss on this disk.".into(),
            (_, false) => format!("{}: survives power loss on persistent memory.", promise.text()),
            (_, true) => format!(
                "{}: survives power loss on persistent memory; here its flushes and fences are executed and counted, but this medium does not keep what they promise.",
                promise.text()
            ),
        };
        text.push('\n');
    }
    if let Some(counted) = promises.first() {
        let [(one, _), (other, _)] = plan.counts;
        text += &format!("{one}, {other}: of a transaction in {}.\n", counted.text());
    }
    text += "sqlite, lmdb: at their durable settings (docs/peers.md). They ask the kernel to sync, which costs nothing where the medium is memory.\n";
    text += &format!(
        "reopen: from the open call of a fresh process to its first durable commit, after SIGKILL in the middle of a run (engines: in `{}`).\n",
        plan.killed()
    );
    text += "lost: of the acknowledged transactions those that were not there after that kill. This is process evidence: the kernel keeps the pages of a killed process, so a kill shows nothing about flushes, and power loss was not tried.\n";
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn the_commands_to_go_on_with_are_commands() {
        for (commands, _) in NEXT {
            for command in commands.split(" && ") {
                let parsed = Cli::try_parse_from(command.split(' '));
                assert!(parsed.is_ok(), "{command}: {:?}", parsed.err());
            }
        }
    }
}
