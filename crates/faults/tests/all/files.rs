//! Engines that keep files: power cuts at every sync, kills between any two calls to the kernel.
//! See the crate for the fault model.

use crate::common::{Explained, unexplained};
use crate::points::at_points;
use faults::explorer::{Again, Effort};
use faults::mutation::{Defect, Mutation};
use faults::{plot::Plot, sweep::sweep};
use perdura::EngineKind;
use pm::Site;
use sim::{DiskEvent, DiskTrace};

pub(crate) fn engines() -> impl Iterator<Item = EngineKind> {
    EngineKind::P1.into_iter().filter(|engine| engine.traits().needs_files())
}

/// The scenario has been where it was to go.
fn went_everywhere(engine: EngineKind, names: &[String]) {
    let files = |prefix: &str| names.iter().filter(|name| name.starts_with(prefix)).count();
    match engine {
        EngineKind::Inp => {
            assert!(files("checkpoint-0-") > 0, "{names:?}");
            let newest = names.iter().rfind(|name| name.starts_with("wal-0-")).unwrap();
            assert!(!newest.ends_with("-0000000000000000"), "the log has been rotated: {newest}");
        }
        EngineKind::Log => {
            assert!(files("sstable-0-") >= 2 && files("manifest-0") == 1, "{names:?}");
            let oldest = names.iter().find(|name| name.starts_with("wal-0-")).unwrap();
            assert!(!oldest.ends_with("-0000000000000000"), "the log has been trimmed: {oldest}");
        }
        _ => assert!(!names.is_empty()),
    }
}

pub(crate) fn power_cuts(engine: EngineKind, plot: &Plot, again: Again) {
    let (scenario, names) = plot.run_in_files();
    let effort = Effort { seed: 9, ..Effort::once(12).then(again) };
    let explored = scenario.explore(None, at_points(effort));
    println!(
        "{engine}, seed {}: {} transactions, {explored:?}",
        plot.seed,
        scenario.models.len() - 1
    );
    assert_eq!(explored.violation, None, "{engine}, seed {}", plot.seed);
    assert!(explored.nested > 0, "{explored:?}");
    went_everywhere(engine, &names);
}

pub(crate) const TWICE: Again = Again::every(150, 2);

#[test]
fn durable_commits_survive_power_cuts_at_syncs() {
    for engine in engines() {
        power_cuts(engine, &Plot::new(engine, 1, 120, 40), TWICE);
    }
}

#[test]
fn power_cuts_after_kills_in_commit_or_recovery_lose_nothing() {
    for engine in engines() {
        power_cuts(engine, &Plot::new(engine, 2, 120, 40).with_kills(), TWICE);
    }
}

#[test]
fn grouped_commits_are_safe_once_synced_and_whole_before() {
    for engine in engines() {
        power_cuts(engine, &Plot::new(engine, 3, 120, 40).groups_of(4), TWICE);
    }
}

/// In a short scenario from every few states.
#[test]
fn crashes_after_crashes_after_crashes_are_survived() {
    crashes_after_crashes(5, 6);
}

/// Crashes again in one in six of the states, or in one in so many of these; more than `least` times.
pub(crate) fn crashes_after_crashes(one_in: u64, least: u64) {
    for engine in engines() {
        let (scenario, _) = Plot::new(engine, 8, 30, 40).run_in_files();
        let again = Again::every(6 * one_in, 3);
        let explored = scenario.explore(None, Effort::once(12).then(again));
        assert_eq!(explored.violation, None, "{engine}, seed 8");
        assert!(explored.nested > least, "{explored:?}");
    }
}

/// Kills between any two calls, in commits and checkpoints.
#[test]
fn kills_between_any_two_calls_are_survived() {
    for engine in engines() {
        let (scenario, _) = Plot::new(engine, 21, 60, 40).run_in_files();
        let explored = scenario.explore_kills(None, 1);
        assert_eq!(explored.violation, None, "{engine}");
        assert!(explored.states > 100, "{explored:?}");
    }
}

/// The places after the creation of the database and before its closing, which follows the last
/// note. Only the mark that the database was closed relies on what closing syncs, and the mark lies
/// in the pool, not in these images. Until creation has ended the files are not opened.
fn sites_of_work(defect: Defect, trace: &DiskTrace) -> Vec<Site> {
    let events = &trace.events;
    let created = events.iter().position(|one| matches!(one.event, DiskEvent::Note(0)));
    let closing = events.iter().rposition(|one| matches!(one.event, DiskEvent::Note(_)));
    let work = created.expect("it is created")..closing.expect("it works");
    let work = DiskTrace { events: events[work].to_vec(), ..trace.clone() };
    Mutation::sites_in_files(defect, &work)
}

/// Without one of its syncs an engine must fail the tests above, unless it is explained.
pub(crate) fn without_one_sync(
    engine: EngineKind,
    plots: &[Plot],
    bound: u64,
    explained: &[Explained],
) {
    let scenarios: Vec<_> = plots.iter().map(|plot| plot.run_in_files().0).collect();
    let scenarios: Vec<_> =
        scenarios.iter().map(|scenario| (scenario, Effort::once(bound))).collect();
    let swept = sweep(&scenarios, Defect::NoSync, sites_of_work);
    println!("{engine}: {} places sync", swept.places);
    assert!(swept.places >= 2);
    println!("unnoticed: {:?}", swept.unnoticed);
    let (open, stale) = unexplained(swept.unnoticed, explained);
    assert_eq!((open, stale), (vec![], vec![]), "{engine}");
}

#[test]
fn the_test_of_inp_fails_without_one_sync() {
    let names = "orders the checkpoint's name before the removal of what it replaces; the model keeps \
                 operations on a directory in order anyway, not all file systems do";
    let explained = [("checkpoint.rs", "finish", "sync_directory", names)];
    let plot = Plot::new(EngineKind::Inp, 5, 120, 40);
    without_one_sync(EngineKind::Inp, &[plot], 16, &explained);
}

#[test]
fn the_test_of_cow_fails_without_one_sync() {
    let plot = Plot::new(EngineKind::Cow, 5, 80, 60);
    without_one_sync(EngineKind::Cow, &[plot], 16, &[]);
}

#[test]
fn nv_disk_survives_power_cuts() {
    let engine = EngineKind::NvDisk;
    power_cuts(engine, &Plot::new(engine, 6, 60, 400), TWICE);
}
