//! The plot of a scenario: which workload on which engine, how large, and with which options.

use std::fmt;
use std::str::FromStr;

use perdura::{Commit, Concurrency, DurableIn, EngineKind, Options, Schema, Ticket};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::items::{long_schema, nullable_schema, schema};
use crate::mutation::{Defect, Mutation};

/// The workload of a scenario.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub enum Workload {
    /// Random operations of every kind, and every error: `crate::scenario`.
    #[default]
    Scenario,
    /// YCSB.
    Ycsb,
    /// TPC-C.
    Tpcc,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Scenario, Self::Ycsb, Self::Tpcc];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scenario => "story",
            Self::Ycsb => "ycsb",
            Self::Tpcc => "tpcc",
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|workload| workload.name() == given)
            .ok_or_else(|| format!("unknown workload '{given}': use one of {}", known()))
    }
}

/// The number of the standard scenario; any other seed gives a random one.
pub const STANDARD: u64 = 0;

/// The scenario.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The workload. All but the first is [`crate::script`]'s, and takes the engine, the seed, the
    /// number of transactions and the groups from here.
    pub workload: Workload,
    /// The engine.
    pub engine: EngineKind,
    /// The options with which the database is made and opened.
    pub options: Options,
    /// Chooses the transactions.
    pub seed: u64,
    /// The number of transactions, those that abort among them.
    pub transactions: usize,
    /// Transactions that are made durable together.
    pub group: u32,
    /// Keys of a table.
    pub keys: u64,
    /// Operations of a large transaction; there is one now and then.
    pub large: usize,
    /// The number of calls to the kernel after which a checkpoint that cannot succeed fails, now
    /// and then.
    pub failing: Option<u64>,
    /// True if the process is killed now and then in the middle of a commit, between any two calls
    /// to the kernel, its successor in the middle of recovery, and the next one recovers. What that
    /// one has seen counts as acknowledged.
    pub kills: bool,
    /// True if columns may be NULL: [`nullable_schema`].
    pub nullable: bool,
    /// True if keys are longer than 240 bytes: [`long_schema`].
    pub long: bool,
    /// The fault [`Defect::UnchangedAcknowledges`]: a transaction that has changed nothing counts as
    /// durable, and all before it with it, whatever its ticket says.
    pub acknowledges_unchanged: bool,
}

/// Returns sizes so small that a few transactions go everywhere.
pub fn options(engine: EngineKind) -> Options {
    let options = Options::new().engine(engine).tune("growth", 2);
    let traits = engine.traits();
    if traits.needs_files() {
        options
            .tune("checkpoint_bytes", 12 << 10)
            .tune("wal_reserve_bytes", 3 << 10)
            .tune("memtable_bytes", 2 << 10)
            .tune("level0_runs", 2)
            .tune("block_bytes", 512)
            .tune("page_bytes", 512)
            .tune("cache_bytes", 16 << 10)
            .tune("buffer_bytes", 8 << 10)
            // Every thread that appends to a log in a pool has a segment of it.
            .tune(
                "log_bytes",
                if traits.durable_in == DurableIn::Both { 512 << 10 } else { 128 << 10 },
            )
            .tune("checkpoint_entries", 64)
            .tune("log_buffer_bytes", 256 << 10)
    } else {
        options
            .chunk_bytes(16 << 10)
            .tune("memtable_bytes", 3 << 10)
            .tune("tree_node_bytes", 128)
            .tune("page_bytes", 512)
            .tune("checkpoint_frames", 100)
            .tune("most_rows", 128)
            .tune("reserve", 16)
            .tune("slots", 8)
            .tune("seed", 0x5eed)
    }
}

/// The same with room for nodes of long keys.
pub(crate) fn long_key_options(options: Options) -> Options {
    options.chunk_bytes(64 << 10).tune("memtable_bytes", 12 << 10).tune("cache_bytes", 64 << 10)
}

impl Plot {
    /// A scenario of so many durable transactions over so many keys.
    pub fn new(engine: EngineKind, seed: u64, transactions: usize, keys: u64) -> Self {
        let failing = match engine {
            // The next segment is begun, then there is no room for the checkpoint.
            EngineKind::Inp => Some(6),
            EngineKind::Log => Some(0),
            _ => None,
        };
        let traits = engine.traits();
        let large = match (traits.concurrency, traits.needs_files()) {
            // Half of the log is not enough for more.
            (Concurrency::Shared, true) => 10,
            (Concurrency::Shared, false) => 40,
            (Concurrency::Serial, true) => 40,
            (Concurrency::Serial, false) => 150,
        };
        Self {
            workload: Workload::Scenario,
            engine,
            options: options(engine),
            seed,
            transactions,
            group: 1,
            keys,
            large,
            failing,
            kills: false,
            nullable: false,
            long: false,
            acknowledges_unchanged: false,
        }
    }

    /// The same in a program with a fault, if that is one of those that show in no single event.
    #[must_use]
    pub fn with_fault(self, fault: Option<&Mutation>) -> Self {
        let acknowledges_unchanged =
            fault.is_some_and(|fault| fault.defect == Defect::UnchangedAcknowledges);
        Self { acknowledges_unchanged, ..self }
    }

    /// Returns whether a commit with this ticket acknowledges all that were committed by then.
    pub(crate) fn acknowledges(&self, ticket: Ticket, changed: bool) -> bool {
        ticket.is_durable() || self.acknowledges_unchanged && !changed
    }

    /// The same with groups of so many transactions.
    #[must_use]
    pub fn groups_of(self, group: u32) -> Self {
        Self { group, ..self }
    }

    /// The same with kills.
    #[must_use]
    pub fn with_kills(self) -> Self {
        Self { kills: true, ..self }
    }

    /// The same in tables whose columns may be NULL.
    #[must_use]
    pub fn with_nulls(self) -> Self {
        Self { nullable: true, ..self }
    }

    /// The same with long keys, of which a few go everywhere.
    #[must_use]
    pub fn with_long_keys(self) -> Self {
        let options = long_key_options(self.options);
        Self { long: true, options, ..self }
    }

    pub(crate) fn schema(&self) -> Schema {
        match (self.nullable, self.long) {
            (true, _) => nullable_schema(),
            (_, true) => long_schema(),
            _ => schema(),
        }
    }

    /// The scenario that `seed` stands for: [`STANDARD`] is long enough to go everywhere.
    pub fn of_seed(engine: EngineKind, seed: u64) -> Self {
        if seed == STANDARD {
            let traits = engine.traits();
            let transactions = match (traits.concurrency, traits.needs_files()) {
                (Concurrency::Serial, _) if engine == EngineKind::NvmCow => 1300,
                (Concurrency::Serial, true) => 400,
                (Concurrency::Serial, false) | (Concurrency::Shared, _) => 240,
            };
            return Self::new(engine, 0x5eed, transactions, 60);
        }
        let mut random = SmallRng::seed_from_u64(seed);
        let keys = [3, 20, 60, 300][random.random_range(0..4)];
        let plot = Self::new(engine, seed, random.random_range(30..120), keys);
        let group = [1, 1, 4, 30][random.random_range(0..4)];
        let plot = if engine.groups_commits() { plot.groups_of(group) } else { plot };
        let in_files = engine.traits().durable_in == DurableIn::Files;
        let kills = in_files && group == 1 && random.random_bool(0.5);
        if kills { plot.with_kills() } else { plot }
    }

    /// The scenario of a workload that `seed` stands for.
    pub fn of(workload: Workload, engine: EngineKind, seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut some = |standard, from, to| {
            if seed == STANDARD { standard } else { random.random_range(from..to) }
        };
        let transactions = match workload {
            Workload::Scenario => return Self::of_seed(engine, seed),
            Workload::Ycsb => some(150, 30, 120),
            Workload::Tpcc => some(25, 10, 30),
        };
        let groups = [1, 1, 4, 20];
        let group = groups[if seed == STANDARD { 0 } else { random.random_range(0..4) }];
        let plot = Self { workload, ..Self::new(engine, seed, transactions, 0) };
        if engine.groups_commits() { plot.groups_of(group) } else { plot }
    }

    pub(crate) fn commit(&self) -> Commit {
        if self.group == 1 { Commit::Durable } else { Commit::grouped(self.group) }
    }
}
