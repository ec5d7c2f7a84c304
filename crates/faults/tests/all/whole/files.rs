//! The syncs of `log`.

use faults::plot::Plot;
use perdura::EngineKind;

use crate::files::without_one_sync;

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
