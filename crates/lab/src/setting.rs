//! The settings in which P1's claims are measured: our own, and the paper's.
//!
//! Invariants:
//! - The paper's setting is data, `claims/p1-setting.toml`, committed before the first run in it.
//! - A measurement of the paper's setting says so in its configuration; one that says nothing is of
//!   ours. So results of ours stay valid from before the paper's setting was added.
//! - A configuration has all that the setting changes of its measurement. A measurement that the
//!   setting does not change is made once, and saved for both.

use std::sync::OnceLock;

use perdura::{EngineKind, Options};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use workloads::Commit;

use crate::emulation::FileCosts;
use crate::error::LabError;

/// The paper's setting.
const P1: &str = include_str!("../claims/p1-setting.toml");

/// The key of the setting in a configuration; ours has none.
const SETTING: &str = "setting";

/// A setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Setting {
    /// Ours: each commit is durable, files cost what they cost here.
    Ours,
    /// The paper's, as far as the paper describes it.
    Paper,
}

impl Setting {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Ours, Self::Paper];

    /// The name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Paper => "paper",
        }
    }

    /// The setting of a measurement, by its configuration.
    #[must_use]
    pub fn of(configuration: &str) -> Self {
        let is_papers = || {
            let all: Value = serde_json::from_str(configuration).ok()?;
            Some(all.get(SETTING)?.as_str()? == Self::Paper.name())
        };
        // Most configurations need not be read.
        match configuration.contains(SETTING) && is_papers() == Some(true) {
            true => Self::Paper,
            false => Self::Ours,
        }
    }

    /// A label for people of something in this setting.
    pub(crate) fn label(self, label: String) -> String {
        match self {
            Self::Ours => label,
            Self::Paper => label + ", the paper's setting",
        }
    }

    /// Marks a configuration as one of this setting.
    pub(crate) fn mark(self, configuration: &mut Value) {
        if self == Self::Paper {
            configuration[SETTING] = self.name().into();
        }
    }

    /// A configuration without its mark.
    pub(crate) fn unmarked(configuration: &str) -> Option<String> {
        let mut all: Value = serde_json::from_str(configuration).ok()?;
        all.as_object_mut()?.remove(SETTING)?;
        Some(all.to_string())
    }

    /// The partitions of a database that has so many in our setting.
    pub(crate) fn partitions(self, ours: usize) -> usize {
        match self {
            Self::Ours => ours,
            Self::Paper => PaperSetting::p1().machine.partitions,
        }
    }

    /// Returns when a commit of an engine is durable.
    #[must_use]
    pub fn commit(self, engine: EngineKind) -> Commit {
        let commits = &PaperSetting::p1().commits;
        match self {
            Self::Paper if commits.engines.iter().any(|name| name == engine.name()) => {
                Commit::Grouped(commits.group)
            }
            _ => Commit::Durable,
        }
    }

    /// The size of the nodes of an engine's copy-on-write trees, where it is not the engine's default.
    #[must_use]
    pub fn tree_node_bytes(self, engine: EngineKind) -> Option<u64> {
        let is_papers = self == Self::Paper && engine == EngineKind::NvmCow;
        is_papers.then(|| PaperSetting::p1().machine.cow_node_bytes)
    }

    /// The costs of files by which those of this host are replaced; `None` of an engine without
    /// files.
    pub(crate) fn files(self, engine: EngineKind) -> Option<FileCosts> {
        let is_papers = self == Self::Paper && engine.traits().needs_files();
        is_papers.then(|| PaperSetting::p1().files)
    }

    /// Returns how an engine commits, on top of other options.
    pub(crate) fn commits_on(self, engine: EngineKind, options: Options) -> Options {
        match self.commit(engine) {
            Commit::Durable => options,
            Commit::Grouped(group) => options.commit(perdura::Commit::grouped(group)),
        }
    }

    /// Returns how an engine commits and how large its nodes are, on top of other options.
    pub(crate) fn on(self, engine: EngineKind, options: Options) -> Options {
        let options = self.commits_on(engine, options);
        match self.tree_node_bytes(engine) {
            None => options,
            Some(bytes) => options.tune("tree_node_bytes", bytes),
        }
    }

    /// Adds what [`Self::commits_on`] changes to a configuration, and marks it.
    pub(crate) fn note_commits(self, engine: EngineKind, configuration: &mut Value) {
        self.mark(configuration);
        if let Commit::Grouped(group) = self.commit(engine) {
            configuration["commit"] = "grouped".into();
            configuration["group"] = group.into();
        }
    }

    /// Adds what [`Self::on`] changes to a configuration, and marks it.
    pub(crate) fn note(self, engine: EngineKind, configuration: &mut Value) {
        self.note_commits(engine, configuration);
        if let Some(bytes) = self.tree_node_bytes(engine) {
            configuration["tree_node_bytes"] = bytes.into();
        }
    }

    /// Adds the costs of files to the configuration of what is computed with them.
    pub(crate) fn note_files(self, engine: EngineKind, configuration: &mut Value) {
        if let Some(FileCosts { call_ns, sync_ns }) = self.files(engine) {
            configuration["file_call_ns"] = call_ns.into();
            configuration["file_sync_ns"] = sync_ns.into();
        }
    }

    /// Returns the reason why claims of an experiment cannot be tested in this setting, if they
    /// cannot.
    pub(crate) fn untested(self, experiment: &str) -> Option<String> {
        let calibrated = &PaperSetting::p1().calibrated_on;
        let is_calibrated = calibrated.iter().any(|one| one == experiment);
        (self == Self::Paper && is_calibrated).then(|| {
            "the setting has its cost of files from this figure, and would find what was put in"
                .to_owned()
        })
    }
}

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

/// The engines that commit in groups, and how large these are.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commits {
    /// Names of the engines that do.
    pub engines: Vec<String>,
    /// Transactions of a group.
    pub group: u32,
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
        static READ: OnceLock<PaperSetting> = OnceLock::new();
        READ.get_or_init(|| Self::read(P1).expect("the file of the paper's setting is built in"))
    }

    /// Returns a sentence that describes the setting.
    #[must_use]
    pub fn description(&self) -> String {
        let Self { commits, files, machine, .. } = self;
        format!(
            "{} commit in groups of {}, a call for a file takes {:.0} ns and a sync {:.0} ns more, \
             there are {} partitions, and the nodes of copy-on-write trees have {} bytes",
            commits.engines.join(", "),
            commits.group,
            files.call_ns,
            files.sync_ns,
            machine.partitions,
            machine.cow_node_bytes,
        )
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
    fn engines_grouped_in_the_paper_can_group_here() {
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
    fn configuration_names_what_the_papers_setting_changes() {
        let of = |setting: Setting, engine| {
            let mut all = serde_json::json!({"engine": "e", "commit": "durable"});
            setting.note(engine, &mut all);
            setting.note_files(engine, &mut all);
            all.to_string()
        };
        for engine in EngineKind::P1 {
            let (ours, papers) = (of(Setting::Ours, engine), of(Setting::Paper, engine));
            assert_eq!(ours, r#"{"commit":"durable","engine":"e"}"#);
            assert_eq!(Setting::of(&ours), Setting::Ours);
            assert_eq!(Setting::of(&papers), Setting::Paper, "{papers}");
            assert_eq!(Setting::unmarked(&ours), None);
            let same = Setting::unmarked(&papers) == Some(ours);
            assert_eq!(same, matches!(engine, EngineKind::NvmInp | EngineKind::NvmLog), "{papers}");
            let says = |what: &str| papers.contains(what);
            assert_eq!(says(r#""commit":"grouped""#) && says(r#""group":64"#), !same, "{papers}");
            assert_eq!(says("file_sync_ns"), engine.traits().needs_files(), "{papers}");
            assert_eq!(says("tree_node_bytes"), engine == EngineKind::NvmCow, "{papers}");
        }
        // A word in a value is no setting.
        assert_eq!(Setting::of(r#"{"engine":"setting"}"#), Setting::Ours);
        assert_eq!(Setting::of("no JSON, with a setting"), Setting::Ours);
    }

    #[test]
    fn the_documentation_has_the_files_numbers() {
        let text = include_str!("../../../docs/lab.md");
        let PaperSetting { commits, files, machine, .. } = PaperSetting::p1();
        assert_eq!(files.call_ns, files.sync_ns, "it says that they are the same");
        for part in [
            format!("groups of {} transactions", commits.group),
            format!("{} ns, a sync as much", files.call_ns),
            format!("| 1 | {}, with the same data |", machine.partitions),
            format!("| {} bytes |", machine.cow_node_bytes),
        ] {
            assert!(text.contains(&part), "{part}");
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
