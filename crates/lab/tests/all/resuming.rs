//! A run that is stopped in the middle goes on where it was, and does nothing twice.

use std::cell::Cell;
use std::path::Path;

use lab::bench::{Bench, Contestant, Killed, Launcher, Reopened};
use lab::calibrations::Calibrations;
use lab::claims::{Missing, Verdict};
use lab::experiments::named;
use lab::report::Report;
use lab::results::{Results, Wanted};
use lab::run::Plan;
use lab::setting::Setting;
use lab::studies::Study;
use lab::{LabError, Scale, Sizes};
use workloads::Room;

use crate::common::{identity, not_forked};

/// Counts kills without killing, and breaks down after some.
struct Pretended {
    kills: Cell<usize>,
    breaks_at: usize,
}

impl Launcher for Pretended {
    fn kill(
        &self,
        _: Contestant,
        _: &Killed,
        _: Setting,
        directory: &Path,
    ) -> Result<Reopened, String> {
        assert!(directory.is_dir(), "there is a place for it");
        self.kills.set(self.kills.get() + 1);
        if self.kills.get() == self.breaks_at {
            return Err("the power went off".into());
        }
        Ok(Reopened { open_ms: 1.0, first_commit_ms: 2.0, ..Reopened::default() })
    }
}

fn plan(results: &Results, commit: &str) -> Plan {
    let experiments = named(&["P1-F12".into()]).expect("known");
    Plan::new(results, &experiments, Sizes::new(Scale::Tiny, 0), identity(commit, 1))
        .expect("planned")
}

fn run(
    results: &mut Results,
    directory: &Path,
    commit: &str,
    breaks_at: usize,
) -> (usize, Result<(), LabError>) {
    let launcher = Pretended { kills: Cell::new(0), breaks_at };
    let bench = Bench {
        directory,
        seed: 1,
        launcher: &launcher,
        watch: &(),
        room: &|| None,
        calibrations: Calibrations::default(),
    };
    let outcome = plan(results, commit).run(results, &bench, &());
    (launcher.kills.get(), outcome)
}

#[test]
fn a_run_that_was_stopped_goes_on_where_it_was() {
    let _shared = not_forked();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("results.db");
    let mut results = Results::open_or_create(&path).expect("made");
    let all = plan(&results, "one").all();
    // Six engines, two workloads, two numbers of transactions, two settings.
    assert_eq!((all, plan(&results, "one").missing()), (48, 48));

    let (kills, outcome) = run(&mut results, directory.path(), "one", 8);
    let error = outcome.expect_err("it broke down").to_string();
    assert!(error.contains("1 of the measurements failed"), "{error}");
    assert!(error.contains("the power went off"), "{error}");
    assert_eq!(kills, all, "one that fails does not stop the others");
    assert_eq!(plan(&results, "one").missing(), 1, "what was done is kept");
    // A report of it says what is missing, and tests nothing that asks for all there is.
    let selection = results.select(Wanted::default()).expect("one run");
    let report = Report::new(&results, selection, None).expect("made");
    let missing: Vec<String> = report.missing.iter().map(Missing::text).collect();
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert!(
        missing[0].starts_with("P1-F12 (the paper's setting): 1 of 24 measurements"),
        "{missing:?}"
    );
    assert!(report.markdown().contains("**Incomplete.** P1-F12 (the paper's setting): 1 of 24"));
    assert!(report.html().expect("made").contains("P1-F12 (the paper's setting): 1 of 24"));
    let verdicts = |claim: &str| {
        [&report.claims, &report.papers]
            .map(|all| all.iter().find(|one| one.claim == claim).expect("known").verdict)
    };
    // The eighth cell is InP's in the paper's setting: what is said of the NVM engines can be
    // tested there, and what is said of InP in ours.
    assert!(missing[0].contains("`inp killed"), "{missing:?}");
    assert_eq!(verdicts("P1-F12-short"), [Verdict::Reproduced; 2]);
    let linear = report.papers.iter().find(|one| one.claim == "P1-F12-linear").expect("known");
    assert_eq!(linear.setting, Setting::Paper);
    drop(results);

    let mut results = Results::open(&path).expect("opens");
    let (kills, outcome) = run(&mut results, directory.path(), "one", usize::MAX);
    outcome.expect("it goes on");
    assert_eq!(kills, 1, "only what was missing");
    let selection = results.select(Wanted::default()).expect("one run");
    assert!(Report::new(&results, selection, None).expect("made").missing.is_empty());
    assert_eq!(run(&mut results, directory.path(), "one", usize::MAX).0, 0, "nothing is missing");
    // Another version of the source is another thing.
    assert_eq!(plan(&results, "two").missing(), all);
    let left = std::fs::read_dir(directory.path()).expect("read").count();
    assert_eq!(left, 2, "the results and their lock, and no pool");
}

#[test]
fn what_a_kill_lost_is_an_error_and_no_result() {
    let _shared = not_forked();
    struct Loses;
    impl Launcher for Loses {
        fn kill(
            &self,
            _: Contestant,
            _: &Killed,
            _: Setting,
            _: &Path,
        ) -> Result<Reopened, String> {
            Ok(Reopened { wrong: 3, ..Reopened::default() })
        }
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut results = Results::open_or_create(&directory.path().join("results.db")).expect("made");
    let bench = Bench {
        directory: directory.path(),
        seed: 1,
        launcher: &Loses,
        watch: &(),
        room: &|| None,
        calibrations: Calibrations::default(),
    };
    let error = plan(&results, "one").run(&mut results, &bench, &()).expect_err("lost");
    assert!(error.to_string().contains("3 transactions were lost"), "{error}");
    assert!(results.measurements().expect("read").is_empty());
}

#[test]
fn what_there_is_no_room_for_is_not_begun() {
    let _shared = not_forked();
    let sizes = Sizes::new(Scale::Tiny, 0);
    let stages = Study::Recovery.stages(&sizes);
    let cells: Vec<_> = stages.iter().flat_map(|stage| stage.cells()).collect();
    let most = cells.iter().map(|cell| cell.takes.medium_bytes).max().expect("some");
    let room =
        |medium_bytes| Room { medium_bytes, memory_bytes: u64::MAX, medium_is_memory: false };
    let directory = tempfile::tempdir().expect("a directory");
    let mut results = Results::open_or_create(&directory.path().join("results.db")).expect("made");
    let plan = plan(&results, "one");
    plan.check_room(&room(most)).expect("just enough");
    let refused = plan.check_room(&room(most - 1)).expect_err("a byte too little").to_string();
    for word in ["recovery", "P1-F12", "it takes about", "are free", "--path", "only experiments"] {
        assert!(refused.contains(word), "{word}: {refused}");
    }

    // It became less since: what fits is measured all the same.
    let (launcher, now) =
        (Pretended { kills: Cell::new(0), breaks_at: usize::MAX }, room(most - 1));
    let bench = Bench {
        directory: directory.path(),
        seed: 1,
        launcher: &launcher,
        watch: &(),
        room: &|| Some(now),
        calibrations: Calibrations::default(),
    };
    let error = plan.run(&mut results, &bench, &()).expect_err("some do not fit").to_string();
    assert!(error.contains("there is no room: it takes about"), "{error}");
    let fitting = cells.iter().filter(|cell| cell.takes.medium_bytes < most).count();
    assert!(fitting > 0 && fitting < cells.len(), "{fitting}");
    assert_eq!(launcher.kills.get(), fitting);
    assert_eq!(results.measurements().expect("read").len(), fitting);
}
