//! Crash tests of InP: its log and checkpoints under power cuts; the fault model is in
//! `support/disk.rs`. The story has checkpoints, rotations, aborts and transactions larger than the
//! log's buffer is reserved ahead.

use crate::support::disk::{Plot, superfluous_syncs, survives};
use perdura::{EngineKind, Options};

fn plot(seed: u64, group: u32) -> Plot {
    let options = Options::new()
        .engine(EngineKind::Inp)
        .checkpoint_bytes(12 << 10)
        .wal_reserve_bytes(3 << 10);
    // The next segment is begun, then there is no room for the checkpoint.
    Plot { options, seed, transactions: 120, group, failing: 5, kill: false }
}

fn check(seed: u64, group: u32) {
    let names = survives(&plot(seed, group), 12);
    assert!(names.iter().any(|name| name.starts_with("checkpoint-0-")), "{names:?}");
    let newest = names.iter().rfind(|name| name.starts_with("wal-0-")).unwrap();
    assert!(!newest.ends_with("-0000000000000000"), "the log has been rotated: {newest}");
}

#[test]
fn inp_survives_a_power_cut_at_every_sync() {
    check(1, 1);
    check(2, 1);
}

#[test]
fn grouped_commits_are_safe_once_synced_and_whole_before() {
    check(3, 4);
    check(4, 30);
}

/// Without one of its syncs the engine must fail the test above.
#[test]
fn the_test_fails_without_one_sync() {
    let mut unseen = superfluous_syncs([plot(5, 1)], 16);
    // The sync of the directory orders the checkpoint's name before the removal of what it
    // replaces. The model keeps operations on a directory in order anyway; not all file systems do.
    unseen.retain(|site| !site.contains("checkpoint.rs"));
    assert_eq!(unseen, [""; 0]);
}
