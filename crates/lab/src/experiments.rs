//! All experiments, each with the study that measures it.

use crate::error::LabError;
use crate::studies::Study;

/// A figure or table of the paper, or a question of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Experiment {
    /// Its name on the command line and in results.
    pub id: &'static str,
    /// The title of its plot.
    pub title: &'static str,
    /// The content of its plot, and how it was set.
    pub about: &'static str,
    /// The figure or table of the paper.
    pub paper: &'static str,
    /// The study that measures it.
    pub study: Study,
}

macro_rules! experiments {
    ($($id:literal, $title:literal, $about:literal, $paper:literal, $study:ident;)*) => {
        /// All experiments, in the order of the paper.
        pub const EXPERIMENTS: &[Experiment] = &[$(Experiment {
            id: $id,
            title: $title,
            about: $about,
            paper: $paper,
            study: Study::$study,
        },)*];
    };
}

experiments! {
    "P1-F1", "Durable write bandwidth",
        "Chunks of 1 to 256 bytes, each durable before the next is written.",
        "2.3, Figure 1", Bandwidth;
    "P1-F5", "YCSB, memory as fast as DRAM",
        "Throughput of six engines, four mixtures, two skews, at 160 ns.",
        "5.2, Figure 5", Ycsb;
    "P1-F6", "YCSB, memory of twice the latency",
        "As Figure 5, at 320 ns.",
        "5.2, Figure 6", Ycsb;
    "P1-F7", "YCSB, memory of eight times the latency",
        "As Figure 5, at 1,280 ns.",
        "5.2, Figure 7", Ycsb;
    "P1-F8", "TPC-C",
        "Throughput of six engines at three latencies, one warehouse a partition.",
        "5.2, Figure 8", Tpcc;
    "P1-F9", "YCSB: loads from NVM",
        "Cache lines fetched for a transaction.",
        "5.3, Figure 9", Ycsb;
    "P1-F10", "YCSB: stores to NVM",
        "Cache lines written back for a transaction.",
        "5.3, Figure 10", Ycsb;
    "P1-F11", "TPC-C: loads and stores",
        "Cache lines fetched and written back for a transaction.",
        "5.3, Figure 11", Tpcc;
    "P1-F12", "Recovery after SIGKILL",
        "From the open call until the database is consistent, by transactions since the last checkpoint. Not in it, as in the paper: what engines collect, merge and rediscover afterwards.",
        "5.4, Figure 12", Recovery;
    "P1-F13", "Where the time goes",
        "Share of storage, recovery, index and other; low skew, 320 ns.",
        "5.5, Figure 13", Ycsb;
    "P1-F14", "Storage by component",
        "The largest footprint of a run; YCSB balanced at low skew, and TPC-C. Space that an engine has taken and does not use (free slots and chunks, reserves of logs) is in it.",
        "5.6, Figure 14", Footprint;
    "P1-T3", "Bytes written, beside the cost model",
        "An insert, an update and a delete of a tuple of 916 bytes.",
        "Appendix A, Table 3", Bytes;
    "P1-F15", "Size of index nodes",
        "NVM engines, nodes of 64 bytes to 16 KiB, low skew, 320 ns.",
        "Appendix B, Figure 15", Nodes;
    "P1-F16", "Latency of the sync primitive",
        "NVM engines, 10 to 10,000 ns for each sync, low skew, 320 ns.",
        "Appendix C, Figure 16", Ycsb;
    "P3-F6", "Slotted pages: an insert by the latency of memory",
        "A record of 64 bytes with a random key, a transaction of its own, on pages of 1 KB: microseconds of search, page update and commit. NVWAL's checkpoints, which come later, are not in it. `time` has a delay after each flushed line, as the paper; `overlapping time` one after each fence.",
        "5, Figure 6", Slotted;
    "P3-F7", "Slotted pages: the page update",
        "Its parts in Figure 6: the record into its page, with splits, its flush, the new header, copies of pages.",
        "5, Figure 7", Slotted;
    "P3-F8", "Slotted pages: the commit by the latency of writes",
        "Its parts, with reads of 300 ns. A header that FAST stores in place is part of the checkpoint.",
        "5, Figure 8", Slotted;
    "P3-F9", "Slotted pages: the size of a record",
        "Time and flushed lines of an insert at 300 ns.",
        "5, Figure 9", Slotted;
    "P3-F10", "Slotted pages: inserts of a transaction",
        "Time and flushed lines of a transaction at 300 ns, and which share of the lines copies of pages are.",
        "5, Figure 10", Slotted;
    "P3-F11", "Slotted pages under SQLite: Mobibench's inserts",
        "Throughput of the SQLite VFS's modes, SQLite's own work included, by the latency of persistent memory: 1,000 inserts of 136 bytes in ascending order, each a transaction. NVWAL's checkpoints are in it.",
        "5, Figure 11", Sqlite;
    "P3-F12", "Slotted pages: reads and inserts",
        "Throughput at 1.2 us by the share of transactions that read.",
        "5, Figure 12", Slotted;
    "P4-F8", "SOFORT: recovery of TATP",
        "A process of two users is killed in the middle, and another one goes on. Recovery delta: from the kill until 95% of the throughput before are reached again; recovery area: the transactions that were not committed meanwhile. `first` builds all indexes before the first transaction, the others beside transactions; in per cent the share of indexes in persistent memory.",
        "5, Figure 8", Outage;
    "P4-F9", "SOFORT: throughput and recovery area",
        "By the share of indexes in persistent memory. Throughput is computed for persistent memory of several latencies, and native beside.",
        "5, Figure 9", Outage;
    "P4-F10", "SOFORT: response time during recovery",
        "Its mean from the kill until the throughput is what it was, the largest mean of 100 ms, and the mean before the kill; by the share of indexes in persistent memory.",
        "5, Figure 10", Outage;
    "PEERS-MIX", "Engines and what a user would pick instead",
        "One thread, durable commits, low skew, contestants taking turns up to a million tuples: throughput, and the latency to durability that one transaction in a hundred exceeds.",
        "", Peers;
    "PEERS-GROWTH", "Growth",
        "Time of a transaction by the number of tuples; of NVM-InP also for each level of the index and each line fetched, counted under a cache of 20 MB.",
        "", Peers;
    "PEERS-SPACE", "Space",
        "Bytes on the medium for a byte of user data, after the runs.",
        "", Peers;
    "PEERS-CHURN", "Space while tuples come and go",
        "Bytes on the medium, by operations after a warm-up of a fifth as many: 70% change a value and its size, 30% delete a tuple and insert it anew. The most of each fifth.",
        "", Churn;
    "PEERS-THREADS", "Two partitions on two threads",
        "Throughput on two threads over that on one, of the same two partitions; durable commits, low skew.",
        "", Threads;
    "PEERS-REOPEN", "Reopening after SIGKILL",
        "From the open call to the first durable commit, by the number of tuples.",
        "", Reopening;
}

/// The experiments that these names mean: one each, or a group by how its names begin (`P1`,
/// `PEERS`), or `all`; each once, in the order of [`EXPERIMENTS`].
///
/// # Errors
/// A name that means nothing.
pub fn named(names: &[String]) -> Result<Vec<&'static Experiment>, LabError> {
    let mut wanted = vec![false; EXPERIMENTS.len()];
    for name in names {
        let name = name.to_uppercase();
        let group = format!("{name}-");
        let mut found = false;
        for (experiment, wanted) in EXPERIMENTS.iter().zip(&mut wanted) {
            if name == "ALL" || experiment.id == name || experiment.id.starts_with(&group) {
                (*wanted, found) = (true, true);
            }
        }
        if !found {
            let ids: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.id).collect();
            let known = format!("P1, P3, P4, PEERS, all, {}", ids.join(", "));
            return Err(LabError::UnknownExperiment { given: name, known });
        }
    }
    Ok(EXPERIMENTS.iter().zip(wanted).filter(|(_, wanted)| *wanted).map(|(one, _)| one).collect())
}

/// The studies that experiments need, in the order in which they are done.
#[must_use]
pub fn studies(experiments: &[&Experiment]) -> Vec<Study> {
    let needed = |study: &Study| experiments.iter().any(|experiment| experiment.study == *study);
    Study::ALL.into_iter().filter(needed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(given: &[&str]) -> Result<Vec<&'static str>, LabError> {
        let given: Vec<String> = given.iter().map(|&name| name.to_owned()).collect();
        Ok(named(&given)?.into_iter().map(|experiment| experiment.id).collect())
    }

    #[test]
    fn a_name_means_one_experiment_or_a_group() {
        assert_eq!(names(&["P1-F6", "p1-f5", "P1-F6"]).expect("known"), ["P1-F5", "P1-F6"]);
        assert_eq!(names(&["P1-F1"]).expect("known"), ["P1-F1"]);
        assert_eq!(names(&["P1"]).expect("known").len(), 14);
        assert_eq!(names(&["p3"]).expect("known").len(), 7);
        assert_eq!(names(&["P4"]).expect("known"), ["P4-F8", "P4-F9", "P4-F10"]);
        assert_eq!(names(&["all"]).expect("known").len(), EXPERIMENTS.len());
        let error = names(&["P1-F99"]).expect_err("unknown").to_string();
        assert!(error.contains("P1-F99") && error.contains("P1-F16"), "{error}");
    }

    #[test]
    fn figures_that_share_a_study_need_it_once() {
        let all = named(&["P1-F5".into(), "P1-F9".into(), "P1-F8".into()]).expect("known");
        assert_eq!(studies(&all), [Study::Tpcc, Study::Ycsb]);
    }

    #[test]
    fn every_claim_is_about_an_experiment() {
        use crate::claims::{claims, targets};
        for claim in claims().expect("read").into_iter().chain(targets().expect("read")) {
            let known = EXPERIMENTS.iter().any(|experiment| experiment.id == claim.experiment);
            assert!(known, "{}", claim.id);
        }
    }
}
