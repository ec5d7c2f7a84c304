//! The sizes of all measurements.
//!
//! `full` is the paper's sizes as far as the memory of the machine allows; `quick` fits twenty
//! minutes on two cores. Each measurement records what is smaller than in the paper: see
//! [`Sizes::scaled_ycsb`] and its neighbours. The cache that is emulated shrinks with the data, so
//! that the share of it that fits stays the paper's. The same holds for what engines keep before
//! they freeze, merge, write a checkpoint or evict ([`EngineSizes`]): otherwise none of that would
//! happen in a short run.

use std::fmt;

use perdura::Options;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::room::Takes;
use crate::setting::Setting;

/// Tuples of P1's YCSB.
const PAPER_TUPLES: u64 = 2_000_000;
/// Transactions of P1's YCSB.
const PAPER_TXNS: u64 = 8_000_000;
/// Transactions of TPC-C; P1 does not say how many.
const TPCC_TXNS: u64 = 800_000;
/// Bytes of the last-level cache of P1's machine.
const PAPER_CACHE_BYTES: u64 = 20 << 20;
/// Tuples of the largest database in the comparison with peers, and of the largest that is
/// reopened.
const MOST_TUPLES: u64 = 10_000_000;
const MOST_REOPENED: u64 = 4_000_000;
/// Transactions of a run in the comparison with peers.
const PEERS_TXNS: u64 = 800_000;
/// Tuples and operations of the churn after which space is to be what it was.
const CHURNED_TUPLES: u64 = 200_000;
const CHURNED: u64 = 8_000_000;
/// Bytes that a tuple of YCSB takes at most at once while it is measured: in a pool, in the
/// emulated memory of a traditional engine with its log and checkpoint, and in caches.
const TUPLE_BYTES: u64 = 6_000;

/// Warehouses of P1's TPC-C.
const PAPER_WAREHOUSES: u32 = 8;
/// Bytes that a warehouse of TPC-C takes at most at once while it is measured, with its share of
/// the items and of the transactions.
const WAREHOUSE_BYTES: u64 = 1_400 << 20;

/// The amount of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Next to nothing: for tests.
    Tiny,
    /// Twenty minutes on two cores.
    Quick,
    /// The paper's sizes.
    Full,
}

impl Scale {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The sizes of all experiments.
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes {
    /// The scale that they are of.
    pub scale: Scale,
    /// One in so many transactions of the full size is run, for YCSB, TPC-C, nodes and peers: for
    /// machines or people without the time for all of them. Data, caches and what engines keep stay
    /// those of the scale.
    pub one_in: u64,
    /// Memory that what is sized for itself may take, such as each of the peers.
    pub spare_bytes: u64,
    /// YCSB: tuples.
    pub tuples: u64,
    /// YCSB: transactions of a run.
    pub txns: u64,
    /// YCSB: partitions.
    pub partitions: usize,
    /// The number of times that a time is taken.
    pub repeat: u32,
    /// TPC-C: warehouses, each in a partition of its own.
    pub warehouses: u32,
    /// The same in the paper's setting: its eight, as far as memory allows.
    pub paper_warehouses: u32,
    /// TPC-C: items.
    pub items: u32,
    /// TPC-C: customers of a district.
    pub customers: u32,
    /// TPC-C: transactions of a run.
    pub tpcc_txns: u64,
    /// Bytes of the emulated cache for YCSB.
    pub cache_bytes: u64,
    /// Bytes of the emulated cache for TPC-C.
    pub tpcc_cache_bytes: u64,
    /// Recovery: tuples.
    pub recovery_tuples: u64,
    /// Recovery: transactions before the kill.
    pub recovery_txns: Vec<u64>,
    /// Recovery of TPC-C: items and customers of a district, of one warehouse.
    pub recovery_tpcc: (u32, u32),
    /// Recovery: kills.
    pub kills: u32,
    /// Size of nodes: tuples and transactions.
    pub nodes: (u64, u64),
    /// Peers: tuples, and transactions of a run with each, as far as they fit in `spare_bytes`.
    pub peers: Vec<(u64, u64)>,
    /// Peers: transactions of each mixture that are counted in emulated memory.
    pub growth_txns: u64,
    /// Peers: tuples when they are killed, likewise.
    pub reopened: Vec<u64>,
    /// Churn: tuples, and operations after the warm-up.
    pub churn: (u64, u64),
    /// Two threads: tuples, and transactions of a run.
    pub threads: (u64, u64),
    /// Slotted pages: inserts of a run.
    pub inserts: u64,
    /// Bandwidth: bytes written with each size of chunk.
    pub bandwidth_bytes: u64,
    /// Bandwidth: writes of each size of chunk at most.
    pub bandwidth_writes: u64,
}

impl Sizes {
    /// The sizes of a scale, on a machine with so many bytes of memory to spare.
    #[must_use]
    pub fn new(scale: Scale, memory_bytes: u64) -> Self {
        match scale {
            Scale::Tiny => Self::tiny(),
            Scale::Quick => Self::quick(),
            Scale::Full => Self::full(memory_bytes),
        }
    }

    fn tiny() -> Self {
        Self {
            scale: Scale::Tiny,
            one_in: 1,
            spare_bytes: u64::MAX,
            tuples: 400,
            txns: 600,
            partitions: 2,
            repeat: 1,
            warehouses: 1,
            paper_warehouses: PAPER_WAREHOUSES,
            items: 100,
            customers: 10,
            tpcc_txns: 60,
            cache_bytes: 64 << 10,
            tpcc_cache_bytes: 64 << 10,
            recovery_tuples: 200,
            recovery_txns: vec![50, 100],
            recovery_tpcc: (100, 10),
            kills: 1,
            nodes: (300, 300),
            peers: vec![(300, 300)],
            growth_txns: 200,
            reopened: vec![200],
            churn: (100, 1000),
            threads: (300, 300),
            inserts: 200,
            bandwidth_bytes: 1 << 12,
            bandwidth_writes: 50,
        }
    }

    fn quick() -> Self {
        Self {
            scale: Scale::Quick,
            one_in: 1,
            spare_bytes: u64::MAX,
            tuples: 100_000,
            txns: 100_000,
            partitions: 8,
            repeat: 3,
            warehouses: 2,
            paper_warehouses: PAPER_WAREHOUSES,
            items: 20_000,
            customers: 1000,
            tpcc_txns: 20_000,
            cache_bytes: PAPER_CACHE_BYTES / 20,
            tpcc_cache_bytes: PAPER_CACHE_BYTES / 10,
            recovery_tuples: 50_000,
            recovery_txns: vec![1000, 10_000, 100_000],
            recovery_tpcc: (5000, 300),
            kills: 3,
            nodes: (50_000, 50_000),
            peers: vec![(10_000, 40_000), (200_000, 100_000), (1_000_000, 100_000)],
            growth_txns: 20_000,
            reopened: vec![10_000, 100_000],
            churn: (40_000, CHURNED),
            threads: (200_000, 100_000),
            inserts: 20_000,
            bandwidth_bytes: 64 << 20,
            bandwidth_writes: 100_000,
        }
    }

    fn full(memory_bytes: u64) -> Self {
        // Half of the memory: the rest is the kernel's, and what is written meanwhile.
        let fit = |wanted: u64| wanted.min((memory_bytes / 2 / TUPLE_BYTES).max(100_000));
        let tuples = fit(PAPER_TUPLES);
        let warehouses = (memory_bytes / 2 / WAREHOUSE_BYTES).clamp(1, PAPER_WAREHOUSES.into());
        let shops = warehouses as f64 / f64::from(PAPER_WAREHOUSES);
        Self {
            scale: Scale::Full,
            one_in: 1,
            // A store that is alone on the medium, and whose needs are known, may take more
            // of it.
            spare_bytes: memory_bytes / 4 * 3,
            tuples,
            txns: PAPER_TXNS * tuples / PAPER_TUPLES,
            partitions: 8,
            repeat: 3,
            warehouses: warehouses as u32,
            paper_warehouses: warehouses as u32,
            items: 100_000,
            customers: 3000,
            tpcc_txns: (TPCC_TXNS as f64 * shops) as u64,
            cache_bytes: cache_for(tuples),
            tpcc_cache_bytes: cache_of_share(shops),
            recovery_tuples: tuples,
            recovery_txns: vec![1000, 10_000, 100_000],
            recovery_tpcc: (100_000, 3000),
            kills: 3,
            nodes: (tuples, PAPER_TXNS * tuples / PAPER_TUPLES / 4),
            peers: [10_000, 200_000, 2_000_000, MOST_TUPLES]
                .map(|tuples| (tuples, PEERS_TXNS))
                .to_vec(),
            growth_txns: 100_000,
            reopened: vec![10_000, 100_000, 1_000_000, MOST_REOPENED],
            churn: (CHURNED_TUPLES, CHURNED),
            threads: (200_000, 800_000),
            inserts: 100_000,
            bandwidth_bytes: 1 << 30,
            bandwidth_writes: 1_000_000,
        }
    }

    /// The same, with one in so many transactions.
    #[must_use]
    pub fn one_in(mut self, one_in: u64) -> Self {
        let one_in = one_in.max(1);
        let less = |transactions: &mut u64| *transactions = (*transactions / one_in).max(1);
        [&mut self.txns, &mut self.tpcc_txns, &mut self.nodes.1].into_iter().for_each(less);
        self.peers.iter_mut().for_each(|(_, transactions)| less(transactions));
        self.one_in *= one_in;
        self
    }

    /// The sizes that [`Self::name`] calls so, on a machine with so many bytes of memory; `None` if
    /// it calls none so.
    #[must_use]
    pub fn named(name: &str, memory_bytes: u64) -> Option<Self> {
        let (scale, one_in) = name.split_once('/').unwrap_or((name, "1"));
        let scale =
            [Scale::Tiny, Scale::Quick, Scale::Full].into_iter().find(|one| one.name() == scale)?;
        Some(Self::new(scale, memory_bytes).one_in(one_in.parse().ok()?))
    }

    /// The name under which results are kept: `full`, or `full/8` with one in eight transactions.
    #[must_use]
    pub fn name(&self) -> String {
        match self.one_in {
            1 => self.scale.name().to_owned(),
            one_in => format!("{}/{one_in}", self.scale),
        }
    }

    /// Returns what engines keep in YCSB.
    pub(crate) fn ycsb_engine(&self) -> EngineSizes {
        EngineSizes::of_share(self.tuples as f64 / PAPER_TUPLES as f64)
    }

    /// Warehouses of TPC-C in a setting.
    pub(crate) fn warehouses_in(&self, setting: Setting) -> u32 {
        match setting {
            Setting::Ours => self.warehouses,
            Setting::Paper => self.paper_warehouses,
        }
    }

    /// Bytes of the emulated cache for TPC-C in a setting: as much for a warehouse in both.
    pub(crate) fn tpcc_cache_in(&self, setting: Setting) -> u64 {
        let more = f64::from(self.warehouses_in(setting)) / f64::from(self.warehouses);
        match setting {
            Setting::Ours => self.tpcc_cache_bytes,
            Setting::Paper => {
                cache_of_share(self.tpcc_cache_bytes as f64 * more / PAPER_CACHE_BYTES as f64)
            }
        }
    }

    /// Returns what engines keep in TPC-C: as large a share as its cache is.
    pub(crate) fn tpcc_engine(&self, setting: Setting) -> EngineSizes {
        EngineSizes::of_share(self.tpcc_cache_in(setting) as f64 / PAPER_CACHE_BYTES as f64)
    }

    /// Returns what engines keep in the runs with other sizes of nodes.
    pub(crate) fn nodes_engine(&self) -> EngineSizes {
        EngineSizes::of_share(self.nodes.0 as f64 / PAPER_TUPLES as f64)
    }

    /// Returns what is smaller than in the paper's YCSB; empty if nothing is.
    #[must_use]
    pub fn scaled_ycsb(&self) -> String {
        self.ycsb_engine().scaled(scaled(&[
            ("tuples", self.tuples, PAPER_TUPLES),
            ("transactions", self.txns, PAPER_TXNS),
            ("partitions", self.partitions as u64, 8),
            ("cache, bytes", self.cache_bytes, PAPER_CACHE_BYTES),
        ]))
    }

    /// Transactions of YCSB before its storage is looked at: as many for each tuple as in the
    /// paper, with `--one-in`, too.
    pub(crate) fn footprint_txns(&self) -> u64 {
        self.tuples * (PAPER_TXNS / PAPER_TUPLES)
    }

    /// Returns what is smaller than in the paper where the storage of YCSB is looked at.
    #[must_use]
    pub fn scaled_footprint(&self) -> String {
        self.ycsb_engine().scaled(scaled(&[
            ("tuples", self.tuples, PAPER_TUPLES),
            ("transactions", self.footprint_txns(), PAPER_TXNS),
            ("partitions", self.partitions as u64, 8),
        ]))
    }

    /// Returns what is smaller than in the paper's TPC-C.
    #[must_use]
    pub fn scaled_tpcc(&self, setting: Setting) -> String {
        self.tpcc_engine(setting).scaled(scaled(&[
            ("warehouses", u64::from(self.warehouses_in(setting)), PAPER_WAREHOUSES.into()),
            ("items", u64::from(self.items), 100_000),
            ("customers of a district", u64::from(self.customers), 3000),
            ("transactions (P1 names no number)", self.tpcc_txns, TPCC_TXNS),
            ("cache, bytes", self.tpcc_cache_in(setting), PAPER_CACHE_BYTES),
        ]))
    }

    /// Returns what is smaller in the runs with other sizes of nodes.
    #[must_use]
    pub fn scaled_nodes(&self) -> String {
        let (tuples, txns) = self.nodes;
        self.nodes_engine().scaled(scaled(&[
            ("tuples", tuples, PAPER_TUPLES),
            ("transactions", txns, PAPER_TXNS),
            ("cache, bytes", cache_for(tuples), PAPER_CACHE_BYTES),
        ]))
    }

    /// Returns what is smaller in the recovery of YCSB.
    #[must_use]
    pub fn scaled_recovery(&self, setting: Setting) -> String {
        let partitions = setting.partitions(1) as u64;
        scaled(&[("tuples", self.recovery_tuples, PAPER_TUPLES), ("partitions", partitions, 8)])
    }

    /// The TPC-C that is killed: warehouses, each in a partition of its own, items, and customers
    /// of a district. Several warehouses have as much together as one alone.
    pub(crate) fn recovery_shop(&self, setting: Setting) -> (u32, u32, u32) {
        let warehouses = setting.partitions(1) as u32;
        let (items, customers) = self.recovery_tpcc;
        let least = |all: u32, least: u32| (all / warehouses).max(least.min(all));
        (warehouses, least(items, 100), least(customers, 10))
    }

    /// Returns true if a measurement that is sized for itself leaves the machine enough memory.
    pub(crate) fn fits(&self, takes: &Takes) -> bool {
        takes.at_once_bytes <= self.spare_bytes
    }

    /// Returns what is smaller than wanted in the comparison with peers, for one that has so many
    /// tuples at most.
    #[must_use]
    pub fn scaled_peers(&self, most: u64) -> String {
        let txns = self.peers.iter().map(|(_, txns)| *txns).min().unwrap_or(0);
        scaled(&[("tuples, at most", most, MOST_TUPLES), ("transactions", txns, PEERS_TXNS)])
    }

    /// Returns what is smaller where one that has so many tuples at most is reopened.
    #[must_use]
    pub fn scaled_reopened(most: u64) -> String {
        scaled(&[("tuples, at most", most, MOST_REOPENED)])
    }

    /// Returns what is smaller in the churn.
    #[must_use]
    pub fn scaled_churn(&self) -> String {
        let (tuples, operations) = self.churn;
        scaled(&[("tuples", tuples, CHURNED_TUPLES), ("operations", operations, CHURNED)])
    }

    /// Returns what is smaller in the recovery of TPC-C.
    #[must_use]
    pub fn scaled_recovery_tpcc(&self, setting: Setting) -> String {
        let (warehouses, items, customers) = self.recovery_shop(setting);
        scaled(&[
            ("warehouses", warehouses.into(), 8),
            ("items", u64::from(items), 100_000),
            ("customers of a district", u64::from(customers), 3000),
        ])
    }
}

/// Bounds of what a partition keeps before it freezes or writes out its MemTable, writes a
/// checkpoint or evicts pages. The paper says nothing of it: for the paper's data it is what
/// engines have by default, and for a share of them that share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EngineSizes {
    memtable: u64,
    checkpoint: u64,
    cache: u64,
    log_reserve: u64,
}

impl EngineSizes {
    /// The defaults of [`Options`].
    const DEFAULT: Self =
        Self { memtable: 32 << 20, checkpoint: 256 << 20, cache: 256 << 20, log_reserve: 4 << 20 };

    fn of_share(share: f64) -> Self {
        let part = |whole: u64, least: u64| ((whole as f64 * share) as u64).clamp(least, whole);
        Self {
            memtable: part(Self::DEFAULT.memtable, 16 << 10),
            checkpoint: part(Self::DEFAULT.checkpoint, 128 << 10),
            cache: part(Self::DEFAULT.cache, 256 << 10),
            log_reserve: part(Self::DEFAULT.log_reserve, 64 << 10),
        }
    }

    /// Returns these sizes, on top of other options.
    pub(crate) fn on(&self, options: Options) -> Options {
        options
            .tune("memtable_bytes", self.memtable)
            .tune("checkpoint_bytes", self.checkpoint)
            .tune("cache_bytes", self.cache)
            .tune("wal_reserve_bytes", self.log_reserve)
    }

    /// Adds them to a configuration.
    pub(crate) fn note(&self, configuration: &mut Value) {
        configuration["memtable_bytes"] = self.memtable.into();
        configuration["checkpoint_bytes"] = self.checkpoint.into();
        configuration["page_cache_bytes"] = self.cache.into();
        configuration["log_reserve_bytes"] = self.log_reserve.into();
    }

    /// Returns what else is smaller, and by how much these are.
    fn scaled(&self, others: String) -> String {
        let (here, whole) = (self.memtable, Self::DEFAULT.memtable);
        let own = scaled(&[("MemTable (and, alike, checkpoint, caches, log), bytes", here, whole)]);
        [others, own].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ")
    }
}

/// The cache that so many tuples deserve: the paper's for the paper's, and no less than 64 KiB.
pub(crate) fn cache_for(tuples: u64) -> u64 {
    cache_of_share(tuples as f64 / PAPER_TUPLES as f64)
}

/// The cache that such a share of the paper's data deserves.
fn cache_of_share(share: f64) -> u64 {
    let bytes = (PAPER_CACHE_BYTES as f64 * share).max(65_536.0);
    // A power of two of sets of sixteen lines.
    (bytes as u64).next_power_of_two().min(PAPER_CACHE_BYTES)
}

/// Returns what is smaller for one contestant alone, which did not fit at all sizes.
pub(crate) fn scaled_of(name: &str, alone: bool, scaled: String) -> String {
    if alone { format!("{name}: {scaled}") } else { scaled }
}

fn scaled(all: &[(&str, u64, u64)]) -> String {
    let smaller = all.iter().filter(|(_, here, paper)| here < paper);
    let smaller = smaller.map(|(what, here, paper)| format!("{what}: {here} instead of {paper}"));
    smaller.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_enough_memory_full_is_the_paper() {
        let sizes = Sizes::new(Scale::Full, 64 << 30);
        assert_eq!((sizes.tuples, sizes.txns, sizes.cache_bytes), (2_000_000, 8_000_000, 20 << 20));
        assert_eq!(sizes.scaled_ycsb(), "");
        Setting::ALL.iter().for_each(|&one| assert_eq!(sizes.scaled_tpcc(one), ""));
        assert_eq!(
            (sizes.ycsb_engine(), sizes.tpcc_engine(Setting::Ours)),
            (EngineSizes::DEFAULT, EngineSizes::DEFAULT)
        );
        let small = Sizes::new(Scale::Full, 4 << 30);
        assert!(small.tuples < 400_000, "{}", small.tuples);
        assert!(small.scaled_ycsb().contains("instead of 2000000"), "{}", small.scaled_ycsb());
    }

    #[test]
    fn less_transactions_change_nothing_else() {
        let full = Sizes::new(Scale::Full, 128 << 30);
        let less = full.clone().one_in(8);
        assert_eq!((full.name(), less.name()), ("full".into(), "full/8".into()));
        assert_eq!(
            (less.txns, less.tpcc_txns, less.nodes),
            (1_000_000, 100_000, (2_000_000, 250_000))
        );
        assert_eq!(less.peers[0], (10_000, 100_000));
        assert_eq!(less.scaled_ycsb(), "transactions: 1000000 instead of 8000000");
        assert_eq!(less.scaled_footprint(), "", "what is stored is of all of them");
        assert_eq!(less.scaled_recovery(Setting::Ours), "partitions: 1 instead of 8");
        assert_eq!(less.scaled_recovery(Setting::Paper), "");
        assert!(
            less.scaled_tpcc(Setting::Ours).ends_with(": 100000 instead of 800000"),
            "{}",
            less.scaled_tpcc(Setting::Ours)
        );
        assert_eq!(less.scaled_peers(10_000_000), "transactions: 100000 instead of 800000");
        assert_eq!(less.ycsb_engine(), full.ycsb_engine());
        let same = Sizes { one_in: 1, txns: full.txns, tpcc_txns: full.tpcc_txns, ..less };
        assert_eq!(Sizes { nodes: full.nodes, peers: full.peers.clone(), ..same }, full);
    }

    #[test]
    fn what_is_killed_is_as_much_in_eight_partitions_as_in_one() {
        for (scale, papers) in [
            (Scale::Tiny, (8, 100, 10)),
            (Scale::Quick, (8, 625, 37)),
            (Scale::Full, (8, 12_500, 375)),
        ] {
            let sizes = Sizes::new(scale, 64 << 30);
            let (items, customers) = sizes.recovery_tpcc;
            assert_eq!(sizes.recovery_shop(Setting::Ours), (1, items, customers));
            assert_eq!(sizes.recovery_shop(Setting::Paper), papers);
        }
        let scaled = Sizes::new(Scale::Full, 64 << 30).scaled_recovery_tpcc(Setting::Paper);
        assert_eq!(
            scaled,
            "items: 12500 instead of 100000; customers of a district: 375 instead of 3000"
        );
    }

    #[test]
    fn quick_says_what_it_scaled() {
        let sizes = Sizes::new(Scale::Quick, 0);
        assert!(sizes.scaled_ycsb().contains("tuples: 100000 instead of 2000000"));
        assert!(sizes.scaled_tpcc(Setting::Ours).contains("warehouses: 2 instead of 8"));
        // The paper's setting has its eight, and as much of the cache for each.
        let papers = sizes.scaled_tpcc(Setting::Paper);
        assert!(papers.starts_with("items: 20000 instead of 100000"), "{papers}");
        assert!(papers.contains("cache, bytes: 8388608 instead of 20971520"), "{papers}");
        assert!(sizes.scaled_ycsb().contains("transactions: 100000 instead of"));
        let footprint = sizes.scaled_footprint();
        assert!(footprint.contains("transactions: 400000 instead of"), "{footprint}");
        assert!(!footprint.contains("cache, bytes"), "{footprint}");
        assert_eq!(sizes.ycsb_engine().memtable, (32 << 20) / 20);
        assert!(sizes.scaled_ycsb().contains("MemTable"), "{}", sizes.scaled_ycsb());
        let peers = sizes.scaled_peers(1_000_000);
        assert!(peers.starts_with("tuples, at most: 1000000 instead of 10000000; "), "{peers}");
        assert!(peers.ends_with("transactions: 40000 instead of 800000"), "{peers}");
        assert_eq!(Sizes::scaled_reopened(100_000), "tuples, at most: 100000 instead of 4000000");
        assert_eq!(sizes.scaled_churn(), "tuples: 40000 instead of 200000");
    }

    #[test]
    fn what_memory_does_not_allow_is_said() {
        let enough = Sizes::new(Scale::Full, 128 << 30);
        let (peers, reopened) =
            (enough.scaled_peers(10_000_000), Sizes::scaled_reopened(4_000_000));
        assert_eq!((peers, reopened), Default::default());
        let small = Sizes::new(Scale::Full, 16 << 30);
        let peers = small.scaled_peers(2_000_000);
        assert_eq!(peers, "tuples, at most: 2000000 instead of 10000000");
        let shops = (small.warehouses, small.tpcc_txns, small.tpcc_cache_bytes);
        assert_eq!(shops, (5, 500_000, 16 << 20));
        for setting in Setting::ALL {
            let scaled = small.scaled_tpcc(setting);
            assert!(scaled.contains("warehouses: 5 instead of 8"), "{scaled}");
        }
        assert_eq!(Sizes::new(Scale::Full, 23 << 30).warehouses, 8);
        assert_eq!(Sizes::new(Scale::Full, 1 << 30).warehouses, 1);
    }
}
