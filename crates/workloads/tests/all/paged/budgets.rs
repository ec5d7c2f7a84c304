//! The cost of a transaction of TPC-B under the paged engines: three updates and an insert.
//!
//! Flushes, fences, writes and syncs are what a commit waits for. Counted is a transaction that finds
//! its pages in the buffer pool and splits none: it has five records in the log, one for each change
//! and one for its commit. What one in many needs besides (a split, a checkpoint) shows in that there
//! are more records, or other files written.

use perdura::{Commit, Database, EngineKind, Options, OwnStats};
use sim::{DiskEvent, Recorded, Recording, RecordingFiles};
use workloads::tpcb::{self, Spec, Terminal, Workload};

const WARM: usize = 300;
const COUNTED: usize = 500;
const CHANGES: u64 = 4;

/// The cost of one transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cost {
    /// Records in the log, if the engine counts them.
    records: Option<u64>,
    lines: u64,
    fences: u64,
    writes: usize,
    syncs: usize,
    reserved: bool,
}

struct Bank {
    memory: Recording,
    files: RecordingFiles,
    database: Database<Recorded>,
    workload: Workload,
}

fn bank(engine: EngineKind, options: &Options) -> Bank {
    let spec = Spec { accounts: 2000, transactions: (WARM + COUNTED) as u64, ..Spec::default() };
    let memory = Recording::pool(1 << 20, 64 << 20).unwrap();
    let files = RecordingFiles::new();
    let media = faults::recorded(memory.clone(), files.clone());
    let options = options.clone().engine(engine);
    let database = Database::create_on(media, &tpcb::schema(), &options).unwrap();
    tpcb::load(&database, &spec, 1, &()).unwrap();
    let workload = Workload::generate(&spec).unwrap();
    Bank { memory, files, database, workload }
}

fn records(own: &OwnStats) -> Option<u64> {
    match own {
        OwnStats::NvLoggingFoi(own) => Some(own.objects),
        OwnStats::NvLoggingFoc(own) => Some(own.objects),
        _ => None,
    }
}

impl Bank {
    /// Returns the costs of `work`.
    fn cost(&self, work: impl FnOnce()) -> Cost {
        let records = || records(&self.database.stats().unwrap().own);
        let before = records();
        self.memory.start();
        self.files.start();
        work();
        let (memory, files) = (self.memory.stop(), self.files.stop());
        let of = |wanted: fn(&DiskEvent) -> bool| {
            files.events.iter().filter(|record| wanted(&record.event)).count()
        };
        Cost {
            records: records().zip(before).map(|(after, before)| after - before),
            lines: memory.counters().flushed_lines,
            fences: memory.counters().fences,
            writes: of(|event| matches!(event, DiskEvent::Write { .. })),
            syncs: of(|event| matches!(event, DiskEvent::Sync { .. } | DiskEvent::SyncDirectory)),
            reserved: of(|event| matches!(event, DiskEvent::Reserve { .. })) > 0,
        }
    }

    /// Returns the costs of the transactions after the first ones, each by itself.
    fn costs(&self) -> Vec<Cost> {
        // The terminal has the partition, of whose statistics another thread may ask.
        let run = |number| {
            let mut terminal = Terminal::new(&self.database, &self.workload, 0).unwrap();
            terminal.run(number).unwrap();
        };
        (0..WARM).for_each(run);
        (WARM..WARM + COUNTED).map(|number| self.cost(|| run(number))).collect()
    }
}

/// The costs of transactions of an engine with its log in persistent memory that split no page.
fn plain_costs(engine: EngineKind) -> Vec<Cost> {
    let costs = bank(engine, &Options::new()).costs();
    let (plain, others): (Vec<Cost>, Vec<Cost>) =
        costs.into_iter().partition(|cost| cost.records == Some(CHANGES + 1));
    let lines = plain.iter().map(|cost| cost.lines);
    println!(
        "{engine}: {} transactions, {} to {} lines, {} others, such as {:?}",
        plain.len(),
        lines.clone().min().unwrap_or(0),
        lines.max().unwrap_or(0),
        others.len(),
        others.first()
    );
    assert!(plain.len() > COUNTED * 9 / 10, "{} of {COUNTED}", plain.len());
    assert!(plain.iter().all(|cost| (cost.writes, cost.syncs) == (0, 0)), "nothing goes to files");
    plain
}

#[test]
fn flush_on_insert_costs_five_fences_and_at_most_twenty_lines() {
    let costs = plain_costs(EngineKind::NvLoggingFoi);
    assert!(costs.iter().all(|cost| cost.fences == CHANGES + 1));
    assert!(costs.iter().all(|cost| cost.lines <= 20));
}

#[test]
fn foc_without_persister_costs_one_fence_and_max_twenty_lines() {
    let costs = plain_costs(EngineKind::NvLoggingFoc);
    assert!(costs.iter().all(|cost| cost.fences == 1));
    assert!(costs.iter().all(|cost| cost.lines <= 20));
}

#[test]
fn the_central_log_costs_one_write_and_one_sync_a_group() {
    let bank_of_one = bank(EngineKind::NvDisk, &Options::new());
    let costs = bank_of_one.costs();
    let plain = |cost: &&Cost| (cost.writes, cost.syncs) == (1, 1);
    let many = costs.iter().filter(plain).count();
    let other = costs.iter().find(|cost| !plain(cost));
    println!("{many} of {COUNTED} with one write and one sync, others such as {other:?}");
    assert!(costs.iter().all(|cost| (cost.lines, cost.fences) == (0, 0)));
    assert!(many > COUNTED * 9 / 10);
    for cost in &costs {
        assert!(plain(&cost) || cost.reserved, "{cost:?}");
    }

    // Ten transactions that are made durable together.
    let grouped = Options::new().commit(Commit::grouped(10));
    let bank = bank(EngineKind::NvDisk, &grouped);
    bank.database.sync().unwrap();
    let mut plain = 0;
    for group in 0..20 {
        let cost = bank.cost(|| {
            let mut terminal = Terminal::new(&bank.database, &bank.workload, 0).unwrap();
            for number in 0..10 {
                terminal.run(group * 10 + number).unwrap();
            }
            drop(terminal);
            bank.database.sync().unwrap();
        });
        plain += u32::from((cost.writes, cost.syncs) == (1, 1));
        assert!((cost.writes, cost.syncs) == (1, 1) || cost.reserved, "{cost:?}");
    }
    assert!(plain > 15, "{plain} of 20 groups");
}
