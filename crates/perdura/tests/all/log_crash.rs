//! Crash tests of Log: its write-ahead log, SSTables and manifest under power cuts; the fault model
//! is in `support/disk.rs`. The story has flushes, merges through three levels, a kill with its
//! recovery, flushes that find no room, aborts, and a manifest that is written anew.

use crate::support::disk::{Plot, superfluous_syncs, survives};
use perdura::{EngineKind, Options};

fn plot(seed: u64, group: u32, kill: bool) -> Plot {
    let options = Options::new()
        .engine(EngineKind::Log)
        .memtable_bytes(2 << 10)
        .growth(2)
        .level0_runs(2)
        .block_bytes(512)
        .cache_bytes(16 << 10)
        .wal_reserve_bytes(3 << 10);
    Plot { options, seed, transactions: 120, group, failing: 1, kill }
}

fn check(plot: &Plot) {
    let names = survives(plot, 12);
    let files = |prefix: &str| names.iter().filter(|name| name.starts_with(prefix)).count();
    assert!(files("sstable-0-") >= 2 && files("manifest-0") == 1, "{names:?}");
    let oldest = names.iter().find(|name| name.starts_with("wal-0-")).unwrap();
    assert!(!oldest.ends_with("-0000000000000000"), "the log has been trimmed: {oldest}");
}

#[test]
fn log_survives_a_power_cut_at_every_sync() {
    check(&plot(1, 1, false));
    check(&plot(2, 1, true));
}

#[test]
fn grouped_commits_are_safe_once_synced_and_whole_before() {
    check(&plot(3, 4, false));
    check(&plot(4, 30, false));
}

/// Without one of its syncs the engine must fail the test above.
#[test]
fn the_test_fails_without_one_sync() {
    let unseen = superfluous_syncs((5..9).map(|seed| plot(seed, 1, true)), 12);
    // Two syncs of the directory come one behind the other when a database is opened: that of a
    // manifest which was torn, and that of the log's recovery. Each has its test where it stands
    // alone (`storage/tests/manifest.rs`, `wal_crash.rs`).
    let directory = ["manifest.rs", "recovery.rs"];
    assert!(unseen.len() <= 2, "{unseen:?}");
    assert!(
        unseen.iter().all(|site| directory.iter().any(|file| site.contains(file))),
        "{unseen:?}"
    );
}
