//! Engines that keep files: values and keys of other sizes, and the syncs of `log`.

use faults::explorer::{Again, Effort};
use faults::large::large_values_in_files;
use faults::plot::Plot;
use perdura::EngineKind;

use crate::files::{TWICE, crashes_after_crashes, engines, power_cuts, without_one_sync};

#[test]
#[ignore = "a build of .ci/run runs it"]
fn the_test_of_log_fails_without_one_sync() {
    let plots = [5, 12, 13, 14, 15, 16].map(|seed| {
        let plot = Plot::new(EngineKind::Log, seed, 120, 40).with_kills();
        Plot { large: 50, ..plot }
    });
    let twice = "comes after that of the manifest's name when a database is opened; it has its test \
                 where it stands alone (`storage/tests/wal_crash.rs`)";
    let explained = [("wal/recovery.rs", "make_durable", "sync_directory", twice)];
    without_one_sync(EngineKind::Log, &plots, 12, &explained);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn values_beyond_pages_and_blocks_survive_crashes() {
    for engine in engines() {
        let scenario = large_values_in_files(engine);
        let explored = scenario.explore(None, Effort::once(12).then(Again::every(60, 1)));
        println!("{engine}, large values: {explored:?}");
        assert_eq!(explored.violation, None, "{engine}");
        assert!(explored.points > 15 && explored.nested > 0, "{explored:?}");
        let kills = scenario.explore_kills(None, 1);
        assert_eq!(kills.violation, None, "{engine}, killed");
    }
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn columns_that_may_be_null_survive_power_cuts_and_kills() {
    for engine in engines() {
        power_cuts(engine, &Plot::new(engine, 1, 120, 40).with_nulls(), TWICE);
        power_cuts(engine, &Plot::new(engine, 2, 120, 40).with_nulls().with_kills(), TWICE);
    }
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn long_keys_survive_power_cuts_and_kills() {
    for engine in engines() {
        power_cuts(engine, &Plot::new(engine, 1, 80, 40).with_long_keys(), TWICE);
        power_cuts(engine, &Plot::new(engine, 2, 80, 40).with_long_keys().with_kills(), TWICE);
    }
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn commits_with_many_keys_survive_power_cuts_at_syncs() {
    for engine in engines() {
        power_cuts(engine, &Plot::new(engine, 6, 100, 400), TWICE);
        power_cuts(engine, &Plot::new(engine, 4, 120, 200).groups_of(30), TWICE);
    }
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn crashes_after_crashes_after_crashes_are_survived() {
    crashes_after_crashes(1, 50);
}
