//! The examiner itself: where the standard scenario goes, what kills alone notice, and that a
//! violation can be seen again.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

use faults::examine::{Settings, examine};
use faults::explorer::Effort;
use faults::medium::{Medium, Part};
use faults::plot::{Plot, STANDARD};
use faults::{catalogue::find, pool::PoolMedium};
use perdura::EngineKind;
use sim::Event;

/// Returns the files of the source of which there must be stores, flushes or fences in the standard
/// scenario.
fn places(engine: EngineKind) -> &'static [&'static str] {
    match engine {
        EngineKind::NvmInp => &[
            "heap/src/lane.rs",
            "index/src/split.rs",
            "index/src/merge.rs",
            "engines/src/nvm_inp.rs",
            "storage/src/logs/superseded.rs",
        ],
        EngineKind::NvmCow => {
            &["heap/src/lane.rs", "index/src/pages/pool.rs", "storage/src/shadow/pool_master.rs"]
        }
        _ => &[
            "heap/src/lane.rs",
            "index/src/split.rs",
            "engines/src/nvm_log.rs",
            "storage/src/runs/freeze.rs",
            "storage/src/runs/merge.rs",
            "storage/src/runs/filter.rs",
        ],
    }
}

#[test]
fn the_standard_scenario_goes_everywhere() {
    for engine in [EngineKind::NvmInp, EngineKind::NvmCow, EngineKind::NvmLog] {
        let scenario = Plot::of_seed(engine, STANDARD).run_in_pool();
        let events = &scenario.trace.events;
        let fences = events.iter().filter(|one| matches!(one.event, Event::Fence)).count();
        let growths = events.iter().filter(|one| matches!(one.event, Event::Grow { .. })).count();
        println!("{engine}: {fences} fences, {growths} growths, {} events", events.len());
        assert!(fences >= 2_000, "{engine}: {fences} fences");
        assert!(growths >= 2, "{engine}: {growths} growths");
        let files: BTreeSet<_> = events.iter().map(|one| one.site.file()).collect();
        for place in places(engine) {
            assert!(files.iter().any(|file| file.ends_with(place)), "{engine}: {place}, {files:?}");
        }
        // A commit for nearly every transaction, and creation before them.
        let notes = events.iter().filter(|one| matches!(one.event, Event::Note(_))).count();
        assert!(notes >= 180, "{engine}: {notes}");
    }
    for engine in [EngineKind::Inp, EngineKind::Cow, EngineKind::Log] {
        let (scenario, _) = Plot::of_seed(engine, STANDARD).run_in_files();
        let events = &scenario.trace.events;
        let of = |wanted: fn(&sim::DiskEvent) -> bool| {
            events.iter().filter(|one| wanted(&one.event)).count()
        };
        let syncs = of(|event| matches!(event, sim::DiskEvent::Sync { .. }));
        let renames = of(|event| matches!(event, sim::DiskEvent::Rename { .. }));
        let removals = of(|event| matches!(event, sim::DiskEvent::Remove { .. }));
        println!("{engine}: {syncs} syncs, {renames} renames, {removals} removals");
        assert!(syncs >= 300, "{engine}: {syncs} syncs");
        // Checkpoints and compactions: what is made anew gets its name, what it replaces goes.
        assert!(engine == EngineKind::Cow || (renames >= 1 && removals >= 3), "{engine}");
    }
}

/// The changes of pages that the log has, by the numbers that they have there
/// (`docs/format/paged-log.md`), and the greatest number of a partition.
fn logged(trace: &sim::DiskTrace) -> (BTreeSet<u8>, u64) {
    let (mut changes, mut newest) = (BTreeSet::new(), 0);
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let logs: BTreeSet<u64> = trace
        .events
        .iter()
        .filter_map(|one| match &one.event {
            sim::DiskEvent::Create { name, file } => name.contains("-log-").then_some(*file),
            _ => None,
        })
        .collect();
    for one in &trace.events {
        let sim::DiskEvent::Write { file, bytes, .. } = &one.event else { continue };
        if !logs.contains(file) || bytes.starts_with(b"PERDPLHD") {
            continue;
        }
        let mut at = 0;
        if bytes.starts_with(b"PERDPLOG") {
            newest = newest.max(word(bytes, 32));
            at = 512;
        }
        while at + 64 < bytes.len() {
            let size = (word(bytes, at) >> 32) as usize;
            if size > 64 && bytes[at + 56] == 1 {
                changes.insert(bytes[at + 64]);
            }
            at += size.max(64).next_multiple_of(8);
        }
    }
    (changes, newest)
}

/// Pages split and merge, leave room for others and are found again by their neighbours, rows lie
/// in chains, and the log goes round its partitions many times.
#[test]
fn the_standard_scenario_of_nv_disk_goes_everywhere() {
    let (scenario, _) = Plot::of_seed(EngineKind::NvDisk, STANDARD).run_in_files();
    let (changes, partitions) = logged(&scenario.trace);
    println!("{changes:?}, {partitions} partitions");
    // All but rows that come many at once, and a second map.
    let expected = [1, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19];
    let missing: Vec<_> = expected.iter().filter(|change| !changes.contains(change)).collect();
    assert!(missing.is_empty(), "{missing:?} of {changes:?}");
    assert!(partitions > 16, "{partitions}");
    let files: BTreeSet<_> = scenario.trace.events.iter().map(|one| one.site.file()).collect();
    for place in ["pool/staging.rs", "pool/cleaner.rs", "central/open.rs", "paged/src/space.rs"] {
        assert!(files.iter().any(|file| file.ends_with(place)), "{place}, {files:?}");
    }
}

/// Stores that are left out: no power need fail.
#[test]
fn kills_alone_notice_what_is_not_stored() {
    kills_notice_what_is_not_stored(&["nvm-inp/insert-not-logged"]);
}

pub(crate) fn kills_notice_what_is_not_stored(faults: &[&str]) {
    for &name in faults {
        let Some(fault) = find(name).into_iter().next() else { panic!("no fault {name}") };
        let scenario = Plot::new(fault.engine, 14, 60, 3).run_in_pool();
        assert_eq!(scenario.explore_kills(None, 7).violation, None, "{name}: without it");
        let explored = scenario.explore_kills(Some(&fault.mutation), 1);
        println!("{name}: {} events, {} states", explored.injected, explored.states);
        assert!(explored.injected > 0 && explored.violation.is_some(), "{name}: {explored:?}");
    }
}

/// An acknowledgement comes from another thread than the fences: it must be found early all the
/// same.
#[test]
fn early_acknowledgements_show_in_the_standard_scenario() {
    for name in [
        "nvm-inp/commit-acknowledged-early",
        "nvm-cow/acknowledged-early",
        "nvm-log/commit-acknowledged-early",
    ] {
        let Some(fault) = find(name).into_iter().next() else { panic!("no fault {name}") };
        let scenario = Plot::of_seed(fault.engine, STANDARD).run_in_pool();
        let (_, injected) = <PoolMedium as Medium>::mutate(&scenario.trace, &fault.mutation);
        assert!(injected > 180, "{name}: {injected}");
    }
}

/// With the arguments that are printed: the same place, the same finding.
#[test]
fn a_replay_shows_the_same_violation() {
    let Some(fault) = find("nvm-inp/commit-not-flushed").into_iter().next() else {
        panic!("no such fault")
    };
    let settings = Settings {
        inject: Some(fault),
        replay: Some(17),
        states: 1000,
        nested: 100,
        ..Settings::of(fault.engine)
    };
    let first = examine(&settings, &AtomicU64::new(0)).first.expect("it is noticed");
    assert_eq!(first.seed, Some(17));
    let again = Settings { transactions: Some(first.transactions), ..settings };
    let second = examine(&again, &AtomicU64::new(0)).first.expect("it is noticed again");
    println!("{first:?}");
    assert_eq!((second.position, &second.what), (first.position, &first.what));
    assert_eq!(second.lost, first.lost);
    assert!(first.transactions < Plot::of_seed(fault.engine, 17).transactions);
}

/// The pieces that are looked at together are all there is, however it is cut.
#[test]
fn the_pieces_of_a_scenario_are_the_scenario() {
    let scenario = Plot::new(EngineKind::NvmInp, 14, 20, 3).run_in_pool();
    let points = PoolMedium::points(&scenario.trace);
    let whole = scenario.explore(None, Effort::once(4));
    assert_eq!((whole.points, whole.violation), (points, None));
    let pieces = (0..3).map(|index| {
        let part = Part::piece(index, 3, points);
        scenario.explore(None, Effort { part, ..Effort::once(4) }).points
    });
    assert_eq!(pieces.sum::<u64>(), points);
}
