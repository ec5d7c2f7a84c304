//! The surroundings of a measurement: a place, a seed, a launcher that can kill processes, and a
//! watch for progress.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use peers::PeerKind;
use perdura::{Domain, EngineKind, medium_of};
use serde::{Deserialize, Serialize};
use workloads::Room;
use workloads::{tatp, tpcc, ycsb};

use crate::error::LabError;
use crate::setting::Setting;

/// A workload whose process is to be killed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Killed {
    /// YCSB.
    Ycsb(ycsb::Spec),
    /// TPC-C.
    Tpcc(tpcc::Spec),
}

/// An engine or a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contestant {
    /// An engine in a durability domain.
    Engine(EngineKind, Domain),
    /// A database or bound that a user would pick instead.
    Peer(PeerKind),
}

impl Contestant {
    /// The name in tables and plots.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Engine(kind, Domain::Process) => format!("{kind} process"),
            Self::Engine(kind, _) => kind.name().to_owned(),
            Self::Peer(kind) => kind.name().to_owned(),
        }
    }
}

/// A database as it was found after a kill.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reopened {
    /// The time from the start of the open call to its end.
    pub open_ms: f64,
    /// The time to the first tuple read.
    pub first_read_ms: f64,
    /// The time to the first durable commit.
    pub first_commit_ms: f64,
    /// Operations undone and transactions redone; `None` for a peer, which does not say.
    pub recovered: Option<u64>,
    /// Acknowledged transactions that are gone, and changes that no transaction made.
    pub wrong: u64,
}

/// TATP on SOFORT across a kill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crossing {
    /// The population and the seed; transactions have no end.
    pub spec: tatp::Spec,
    /// Users.
    pub users: usize,
    /// Per cent of the indexes that lie in persistent memory.
    pub placement: u32,
    /// Indexes that a kill took are built before the first transaction, and not during
    /// transactions.
    pub first: bool,
    /// Samples of 100 ms before the kill.
    pub before: u32,
    /// Samples after it.
    pub after: u32,
}

/// The figures of a run across a kill, as P4 5 defines them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Crossed {
    /// The throughput of each sample.
    pub throughputs_txn_s: Vec<f64>,
    /// The throughput before the kill.
    pub throughput_txn_s: f64,
    /// From the kill until that is reached again, exact to a sample; `None` if the run ended before.
    pub delta_s: Option<f64>,
    /// The transactions that were not committed meanwhile; up to the end if that came before.
    pub area_txns: f64,
    /// The mean response time meanwhile.
    pub response_mean_us: Option<f64>,
    /// The largest mean of a sample meanwhile.
    pub response_peak_us: Option<f64>,
    /// The mean response time before the kill.
    pub before_mean_us: Option<f64>,
    /// From the kill until all indexes were built; `None` if the run ended before.
    pub built_s: Option<f64>,
    /// From the start of the open call to the first answer.
    pub first_answer_ms: Option<f64>,
    /// From the start of the open call to the first commit of a change.
    pub first_commit_ms: Option<f64>,
    /// Acknowledged changes that are lost, rows that were never inserted, and checks that do not
    /// hold.
    pub wrong: u64,
}

/// Starts processes, kills them with SIGKILL, and looks at what they leave.
pub trait Launcher {
    /// Runs a workload in a process, with the commits and the nodes of a setting, kills it after the
    /// workload's transactions, and opens what is left in another one. `directory` is empty.
    ///
    /// # Errors
    /// Why it did not work, in words.
    fn kill(
        &self,
        contestant: Contestant,
        job: &Killed,
        setting: Setting,
        directory: &Path,
    ) -> Result<Reopened, String>;

    /// Runs TATP in a process that is killed in the middle, and goes on in another one. `directory` is
    /// empty.
    ///
    /// # Errors
    /// Why it did not work, in words; of a launcher that has no such processes always.
    fn outage(&self, _: &Crossing, _: &Path) -> Result<Crossed, String> {
        Err("it has no process of users".into())
    }
}

/// Receives the progress of a measurement.
pub trait Watch {
    /// Reports that a phase begins.
    fn phase(&self, what: &str);
}

/// A watch that ignores everything.
impl Watch for () {
    fn phase(&self, _: &str) {}
}

/// The place and the manner of measuring.
pub struct Bench<'a> {
    /// A directory on the medium that is measured.
    pub directory: &'a Path,
    /// The seed of keys and values.
    pub seed: u64,
    /// Kills.
    pub launcher: &'a dyn Launcher,
    /// Watches.
    pub watch: &'a dyn Watch,
    /// Returns the room that there is now, if that can be known.
    pub room: &'a dyn Fn() -> Option<Room>,
    /// The emulator's measure of this machine.
    pub calibrations: crate::calibrations::Calibrations,
}

/// A directory that is gone when this is dropped.
pub struct Place(PathBuf);

impl Bench<'_> {
    /// Makes an empty directory.
    ///
    /// # Errors
    /// The system refuses.
    pub fn place(&self, name: &str) -> Result<Place, LabError> {
        let path = self.directory.join(name);
        // The leftovers of a measurement that failed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(|error| LabError::io(&path, error))?;
        Ok(Place(path))
    }

    /// Returns true if the same that is written always takes the same space: so it is on file
    /// systems in memory, which have nothing but a file's pages. On others it depends on when the
    /// kernel writes pages back, since with that their maps of a file grow and shrink.
    ///
    /// # Errors
    /// The system does not say what the directory lies on.
    pub fn space_is_exact(&self) -> Result<bool, LabError> {
        let medium = File::open(self.directory).and_then(|directory| medium_of(&directory));
        let medium = medium.map_err(|error| LabError::io(self.directory, error))?;
        Ok(medium.natural == Domain::Process)
    }
}

impl Place {
    /// Returns its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // It lies in a scratch directory, which goes as a whole in the end.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    struct NoKills;

    impl Launcher for NoKills {
        fn kill(
            &self,
            _: Contestant,
            _: &Killed,
            _: Setting,
            _: &Path,
        ) -> Result<Reopened, String> {
            Err("nothing is killed".into())
        }
    }

    #[test]
    fn space_is_exact_in_memory_alone() {
        for directory in [Path::new("/dev/shm"), Path::new(env!("CARGO_MANIFEST_DIR"))] {
            // The name that coreutils have for it.
            let named = Command::new("stat").args(["-f", "-c", "%T"]).arg(directory).output();
            let named = named.expect("stat").stdout;
            let named = String::from_utf8_lossy(&named);
            let bench = Bench {
                directory,
                seed: 1,
                launcher: &NoKills,
                watch: &(),
                room: &|| None,
                calibrations: crate::calibrations::Calibrations::default(),
            };
            let in_memory = ["tmpfs", "ramfs", "hugetlbfs"].contains(&named.trim());
            let exact = bench.space_is_exact().expect("known");
            assert_eq!(exact, in_memory, "{}: {named}", directory.display());
        }
    }
}
