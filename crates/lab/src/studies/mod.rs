//! Studies, each made of cells: the measurements themselves.
//!
//! A study may serve several figures: the runs of YCSB give throughput (F5 to F7), loads and stores
//! (F9, F10) and the effect of the sync primitive (F16). Which study an experiment needs is in
//! [`crate::experiments`].
//!
//! Invariants:
//! - A cell is what is measured and saved at once. Its configuration says all that its counts
//!   depend on; the same configuration and seed give the same counts, bit for bit, whatever ran
//!   before.
//! - What is for P1 is measured in both settings, but the bandwidth, which the paper's is made of.
//!   What is for P3 and P4 has one setting.
//! - Cells of a stage share what is expensive to set up; a stage with no missing cell sets up
//!   nothing.

mod bandwidth;
mod bytes;
mod churn;
mod footprint;
mod native;
mod nodes;
mod outage;
mod peers;
mod recovery;
mod settings;
mod slotted;
mod sqlite;
mod steady;
mod threads;
mod tpcc;
mod ycsb;

use serde_json::Value;

use crate::bench::Bench;
use crate::error::LabError;
use crate::point::Point;
use crate::room::Takes;
use crate::scale::Sizes;

/// One thing that is measured and saved.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The configuration that its counts depend on, as canonical JSON.
    pub configuration: String,
    /// A label for people.
    pub label: String,
    /// The sizes that are smaller than in the paper.
    pub scaled: String,
    /// About how long it takes, in seconds on the machine on which this was written: for the
    /// estimate of the time left.
    pub weight: f64,
    /// About what it takes at most, with what its stage sets up for it.
    pub takes: Takes,
}

impl Cell {
    fn new(
        label: impl Into<String>,
        configuration: &Value,
        scaled: &str,
        weight: f64,
        takes: Takes,
    ) -> Self {
        // `serde_json` sorts the keys of an object.
        let (configuration, label) = (configuration.to_string(), label.into());
        Self { configuration, label, scaled: scaled.to_owned(), weight, takes }
    }

    /// The engine, interface or store that it is about, if it is about one.
    pub(crate) fn of(&self) -> Option<String> {
        let configuration: Value = serde_json::from_str(&self.configuration).ok()?;
        let names = ["engine", "contestant", "interface"].into_iter();
        let mut found = names.filter_map(|name| configuration.get(name)?.as_str());
        found.next().map(str::to_owned)
    }
}

/// Takes the points of a cell, by its index in the stage, as soon as they are there.
pub type Done<'a> = dyn FnMut(usize, &[Point]) -> Result<(), LabError> + 'a;

/// Cells that share what is set up for them.
pub trait Stage {
    /// Its cells.
    fn cells(&self) -> &[Cell];

    /// Measures the cells with these indexes, in this order.
    ///
    /// # Errors
    /// The error of the cell that failed; cells that were done before are saved.
    fn measure(
        &self,
        bench: &Bench<'_>,
        missing: &[usize],
        done: &mut Done<'_>,
    ) -> Result<(), LabError>;
}

/// A study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Study {
    /// Durable writes through the allocator and through files.
    Bandwidth,
    /// Bytes written for an operation.
    Bytes,
    /// YCSB.
    Ycsb,
    /// TPC-C.
    Tpcc,
    /// YCSB with nodes of other sizes.
    Nodes,
    /// Reopening after SIGKILL.
    Recovery,
    /// Storage by component.
    Footprint,
    /// YCSB on peers and engines, by size.
    Peers,
    /// Reopening of peers and engines, by size.
    Reopening,
    /// Two partitions on two threads.
    Threads,
    /// Space while tuples come, go and change their size.
    Churn,
    /// P3's inserts on slotted pages.
    Slotted,
    /// P3's inserts through SQLite.
    Sqlite,
    /// TATP across a kill.
    Outage,
}

impl Study {
    /// All of them, in the order in which they are done.
    pub const ALL: [Self; 14] = [
        Self::Bandwidth,
        Self::Bytes,
        Self::Recovery,
        Self::Footprint,
        Self::Tpcc,
        Self::Ycsb,
        Self::Nodes,
        Self::Slotted,
        Self::Sqlite,
        Self::Outage,
        Self::Reopening,
        Self::Churn,
        Self::Threads,
        Self::Peers,
    ];

    /// The name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bandwidth => "bandwidth",
            Self::Bytes => "bytes",
            Self::Ycsb => "ycsb",
            Self::Tpcc => "tpcc",
            Self::Nodes => "nodes",
            Self::Recovery => "recovery",
            Self::Footprint => "footprint",
            Self::Peers => "peers",
            Self::Reopening => "reopening",
            Self::Threads => "threads",
            Self::Churn => "churn",
            Self::Slotted => "slotted",
            Self::Sqlite => "sqlite",
            Self::Outage => "outage",
        }
    }

    /// All that it consists of, at these sizes.
    #[must_use]
    pub fn stages(self, sizes: &Sizes) -> Vec<Box<dyn Stage>> {
        match self {
            Self::Bandwidth => bandwidth::stages(sizes),
            Self::Bytes => bytes::stages(),
            Self::Ycsb => ycsb::stages(sizes),
            Self::Tpcc => tpcc::stages(sizes),
            Self::Nodes => nodes::stages(sizes),
            Self::Recovery => recovery::p1(sizes),
            Self::Footprint => footprint::stages(sizes),
            Self::Peers => peers::stages(sizes),
            Self::Reopening => recovery::peers(sizes),
            Self::Threads => threads::stages(sizes),
            Self::Churn => churn::stages(sizes),
            Self::Slotted => slotted::stages(sizes),
            Self::Sqlite => sqlite::stages(sizes),
            Self::Outage => {
                outage::stages(sizes).into_iter().chain(steady::stages(sizes)).collect()
            }
        }
    }
}
