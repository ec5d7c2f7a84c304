//! A laboratory for tests: a machine, and runs of the smallest size on it.

use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use lab::bench::{Bench, Contestant, Killed, Launcher, Reopened};
use lab::calibrations::Calibrations;
use lab::experiments::named;
use lab::results::{Results, Selection};
use lab::run::{Identity, Plan};
use lab::setting::Setting;
use lab::{Host, Point, Scale, Sizes};

/// Read by each test that does not fork this process, written by each that does.
static FORKS: RwLock<()> = RwLock::new(());

/// Waits until no other test runs, and lets none begin before the result is dropped. Emulated runs fork this
/// process; in the child a lock that another thread holds is never released.
pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    FORKS.write().unwrap_or_else(PoisonError::into_inner)
}

/// Lets no test fork this process before the result is dropped.
pub(crate) fn not_forked() -> RwLockReadGuard<'static, ()> {
    FORKS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Never kills.
pub(crate) struct NoKills;

impl Launcher for NoKills {
    fn kill(&self, _: Contestant, _: &Killed, _: Setting, _: &Path) -> Result<Reopened, String> {
        Err("nothing is killed here".into())
    }
}

/// A commit on a machine.
pub(crate) fn identity(commit: &str, seed: u64) -> Identity {
    let host = Host {
        name: "here".into(),
        cpu: "c".into(),
        cores: 2,
        flush: "clwb".into(),
        medium: "tmpfs".into(),
        kernel: "6.1".into(),
        memory_bytes: 1 << 30,
    };
    Identity { commit: commit.into(), host, seed }
}

/// All that a run of these experiments measures, from nothing. It forks this process: see [`alone`].
pub(crate) fn measured(experiments: &[&str], seed: u64) -> Vec<Point> {
    // Not on a disk, if that can be: peers sync after each update.
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = directory.expect("a directory");
    let mut results = Results::open_or_create(&directory.path().join("results.db")).expect("made");
    let ids: Vec<String> = experiments.iter().map(|&id| id.to_owned()).collect();
    let identity = identity("c", seed);
    let host = identity.host.key();
    let sizes = Sizes::new(Scale::Tiny, 0);
    let plan = Plan::new(&results, &named(&ids).expect("known"), sizes, identity);
    let bench = Bench {
        directory: directory.path(),
        seed,
        launcher: &NoKills,
        watch: &(),
        room: &|| None,
        calibrations: Calibrations::default(),
    };
    plan.expect("planned").run(&mut results, &bench, &()).expect("measured");
    let selection = Selection { commit: "c".into(), host, scale: "tiny".into(), seed };
    results.points(&selection).expect("read")
}
