//! The settings in which P1's claims are measured: our own, and the paper's.
//!
//! Invariants:
//! - The paper's setting is data, `claims/p1-setting.toml`, committed before the first run in it.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::error::LabError;

/// The paper's setting.
const P1: &str = include_str!("../claims/p1-setting.toml");

/// The paper's setting, as the file has it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperSetting {
    /// Experiments from whose published figures a value was taken.
    pub calibrated_on: Vec<String>,
    /// Commits.
    pub commits: Commits,
    /// The file system.
    pub files: FileCosts,
    /// The machine.
    pub machine: Machine,
}

/// Who commits in groups, and in which.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commits {
    /// Names of the engines that do.
    pub engines: Vec<String>,
    /// Transactions of a group.
    pub group: u32,
}

/// The cost of files, in nanoseconds of a call of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileCosts {
    /// A read or a write.
    pub call_ns: f64,
    /// A sync.
    pub sync_ns: f64,
}

/// The paper's machine and how its data are laid out.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Partitions, each on a core of its own.
    pub partitions: usize,
    /// The last-level cache.
    pub cache_bytes: u64,
    /// Latencies of memory.
    pub latencies_ns: Vec<f64>,
    /// Bandwidth of memory, in 10^9 bytes a second.
    pub gigabytes_per_second: f64,
    /// Nodes of the B+trees.
    pub node_bytes: u64,
    /// Nodes of the copy-on-write trees.
    pub cow_node_bytes: u64,
}

impl PaperSetting {
    /// Reads a setting.
    ///
    /// # Errors
    /// It is not one.
    pub fn read(text: &str) -> Result<Self, LabError> {
        toml::from_str(text).map_err(|error| LabError::Claims(error.to_string()))
    }

    /// P1's.
    ///
    /// # Panics
    /// If the file that is built in cannot be read; a test reads it.
    #[must_use]
    pub fn p1() -> &'static Self {
        static SETTING: OnceLock<PaperSetting> = OnceLock::new();
        SETTING.get_or_init(|| Self::read(P1).expect("the file of the paper's setting is built in"))
    }
}

#[cfg(test)]
mod tests {
    use perdura::EngineKind;

    use super::*;
    use crate::emulation::NvmParameters;
    use crate::timing::LATENCIES;

    #[test]
    fn the_file_has_the_papers_numbers_and_the_model_has_the_same() {
        let PaperSetting { calibrated_on, commits, files, machine } = PaperSetting::p1();
        assert_eq!(calibrated_on, &["P1-F1"]);
        assert_eq!((commits.group, machine.partitions), (64, 8));
        let model = NvmParameters::of_cores(machine.partitions as u32);
        assert_eq!(model.gigabytes_per_second, Some(machine.gigabytes_per_second));
        assert_eq!(machine.latencies_ns, LATENCIES);
        assert_eq!(
            (machine.cache_bytes, machine.node_bytes, machine.cow_node_bytes),
            (20 << 20, 512, 4096)
        );
        // Figure 1: a byte at 1.07 to 1.16 MB/s, through a write and a sync.
        let write_and_sync_ns = files.call_ns + files.sync_ns;
        let bytes_per_second = 1e9 / write_and_sync_ns;
        assert!((1.07e6..1.16e6).contains(&bytes_per_second), "{bytes_per_second}");
    }

    #[test]
    fn who_commits_in_groups_in_the_paper_can_do_so_here() {
        let commits = &PaperSetting::p1().commits;
        for name in &commits.engines {
            let engine: EngineKind = name.parse().expect("an engine");
            assert!(engine.groups_commits(), "{engine}");
        }
        let alone = EngineKind::P1
            .into_iter()
            .filter(|engine| !commits.engines.iter().any(|name| name == engine.name()));
        let alone: Vec<&str> = alone.map(EngineKind::name).collect();
        assert_eq!(alone, ["nvm-inp", "nvm-log"]);
    }

    #[test]
    fn nodes_are_the_papers_by_default_but_for_those_of_nvm_cow() {
        let machine = &PaperSetting::p1().machine;
        for engine in EngineKind::P1 {
            let default = |name: &str| {
                engine.options().iter().find(|one| one.name == name).map(|one| one.default)
            };
            let nodes = [
                (default("node_bytes"), machine.node_bytes),
                (default("page_bytes"), machine.cow_node_bytes),
                (default("tree_node_bytes"), machine.cow_node_bytes),
            ];
            let others: Vec<u64> = nodes
                .into_iter()
                .filter_map(|(default, papers)| default.filter(|default| *default != papers))
                .collect();
            let own: &[u64] = if engine == EngineKind::NvmCow { &[256] } else { &[] };
            assert_eq!(others, own, "{engine}");
        }
    }

    #[test]
    fn what_the_file_does_not_know_is_refused() {
        let more = P1.replace("group = 64", "group = 64\ntuned = true");
        assert_ne!(more, P1);
        let error = PaperSetting::read(&more).expect_err("refused").to_string();
        assert!(error.contains("tuned"), "{error}");
    }
}
