//! Contestants that take turns: what is measured in each of them becomes one figure, and nothing
//! before the last one is there. Emulated runs fork this process.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::bench::Bench;
use lab::calibrations::Calibrations;
use lab::experiments::named;
use lab::results::{Results, Selection};
use lab::run::Plan;
use lab::{LabError, Point, Scale, Sizes};
use workloads::Room;

use crate::common::{NoKills, alone, identity};

const SEED: u64 = 5;
const TURNS: u32 = 2;

fn plan(results: &Results) -> Plan {
    let sizes = Sizes { repeat: TURNS, ..Sizes::new(Scale::Tiny, 0) };
    let experiments = named(&["PEERS-MIX".into()]).expect("known");
    Plan::new(results, &experiments, sizes, identity("c", SEED)).expect("planned")
}

/// Returns the directory to measure in.
fn place() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

/// Returns true if a file system is one of those that have nothing but pages, as coreutils know it.
fn is_in_memory(path: &Path) -> bool {
    let named = Command::new("stat").args(["-f", "-c", "%T"]).arg(path).output().expect("stat");
    ["tmpfs", "ramfs", "hugetlbfs"].contains(&String::from_utf8_lossy(&named.stdout).trim())
}

/// A run in which there is room for so many measurements.
fn run(results: &mut Results, fitting: usize) -> Result<(), LabError> {
    let directory = tempfile::tempdir_in(place()).expect("a directory");
    let asked = Cell::new(0);
    let room = || {
        asked.set(asked.get() + 1);
        let free = if asked.get() > fitting { 0 } else { u64::MAX };
        Some(Room { medium_bytes: free, memory_bytes: free, medium_is_memory: false })
    };
    let bench = Bench {
        directory: directory.path(),
        seed: SEED,
        launcher: &NoKills,
        watch: &(),
        room: &room,
        calibrations: Calibrations::default(),
    };
    plan(results).run(results, &bench, &())
}

fn points(results: &Results) -> Vec<Point> {
    let host = identity("c", SEED).host.key();
    let selection = Selection { commit: "c".into(), host, scale: "tiny".into(), seed: SEED };
    results.points(&selection).expect("read")
}

#[test]
fn turns_become_one_figure_when_all_of_them_are_there() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let mut results = Results::open_or_create(&directory.path().join("results.db")).expect("made");

    // The first turn of all, then the second of the first one in it.
    let plan = plan(&results);
    let contestants = plan.all() / TURNS as usize;
    assert_eq!(plan.all(), contestants * TURNS as usize);
    let error = run(&mut results, contestants + 1).expect_err("no room for the others");
    assert!(error.to_string().contains("there is no room"), "{error}");
    let measured = results.measurements().expect("read");
    assert_eq!(measured.len(), contestants + 1);
    let first: Vec<String> = points(&results).into_iter().map(|point| point.series).collect();
    assert!(!first.is_empty() && first.iter().all(|series| *series == first[0]), "{first:?}");

    run(&mut results, usize::MAX).expect("the others");
    assert_eq!(results.measurements().expect("read").len(), plan.all());
    let points = points(&results);
    let mut series: BTreeMap<&str, usize> = BTreeMap::new();
    for point in &points {
        *series.entry(&point.series).or_default() += 1;
        assert!(point.low <= point.value && point.value <= point.high, "{point:?}");
        if point.metric == "throughput" || point.metric == "time of a transaction" {
            assert!(point.n == TURNS && !point.exact, "{point:?}");
        }
        // Counts are the same in each turn.
        if point.metric == "lines fetched" {
            assert!(point.exact && point.low == point.high, "{point:?}");
        }
    }
    assert_eq!(series.len(), contestants, "{series:?}");
    let spaces: Vec<&Point> = points.iter().filter(|one| one.experiment == "PEERS-SPACE").collect();
    let exact = spaces.iter().filter(|one| one.exact).count();
    assert_eq!(exact >= 6, is_in_memory(&place()), "engines, in memory: {spaces:?}");
    let throughput = points.iter().filter(|point| point.metric == "throughput").count();
    assert_eq!(throughput, contestants * 4, "four mixtures, each one figure");
}
