//! What the records of the standard stories show without any crash: everything that an acknowledged
//! transaction stored is flushed and fenced, nothing is flushed or synced that has not changed, and
//! no fence has nothing to order. Each exception is a place in the source, with its reason.

mod common;

use std::collections::BTreeMap;

use common::{Explained, unexplained};
use faults::lint::{disk_lints, lints};
use faults::story::{Plot, STANDARD};
use perdura::EngineKind;

fn report(engine: EngineKind, what: &str, found: &BTreeMap<String, u64>, explained: &[Explained]) {
    println!("{engine}, {what}: {found:#?}");
    let (open, stale) = unexplained(found.keys().cloned(), explained);
    assert!(open.is_empty(), "{engine}, {what}, not explained: {open:#?}");
    assert!(stale.is_empty(), "{engine}, {what}, explained and not found: {stale:?}");
}

fn pool(
    engine: EngineKind,
    unflushed: &[Explained],
    flushed_twice: &[Explained],
    idle_fences: &[Explained],
) {
    let found = lints(&Plot::of_seed(engine, STANDARD).run_in_pool().trace);
    report(engine, "not flushed at an acknowledgement", &found.unflushed, unflushed);
    report(engine, "flushed twice", &found.flushed_twice, flushed_twice);
    report(engine, "a fence with nothing to order", &found.idle_fences, idle_fences);
}

fn files(engine: EngineKind, unsynced: &[Explained], idle_syncs: &[Explained]) {
    let found = disk_lints(&Plot::of_seed(engine, STANDARD).run_in_files().0.trace);
    report(engine, "not synced at an acknowledgement", &found.unsynced, unsynced);
    report(engine, "a sync of what has not changed", &found.idle_syncs, idle_syncs);
}

#[test]
#[ignore = "its lists of explained places are not filled in yet"]
fn nvm_inp() {
    pool(EngineKind::NvmInp, &[], &[], &[]);
}

#[test]
#[ignore = "its lists of explained places are not filled in yet"]
fn nvm_cow() {
    pool(EngineKind::NvmCow, &[], &[], &[]);
}

#[test]
#[ignore = "its lists of explained places are not filled in yet"]
fn nvm_log() {
    pool(EngineKind::NvmLog, &[], &[], &[]);
}

#[test]
#[ignore = "its lists of explained places are not filled in yet"]
fn inp() {
    files(EngineKind::Inp, &[], &[]);
}

#[test]
#[ignore = "its lists of explained places are not filled in yet"]
fn cow() {
    files(EngineKind::Cow, &[], &[]);
}

#[test]
#[ignore = "its lists of explained places are not filled in yet"]
fn log() {
    files(EngineKind::Log, &[], &[]);
}
