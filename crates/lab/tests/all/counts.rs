//! The same seed gives the same counts, bit for bit, in another process too. Emulated runs
//! fork them.

use std::fs;
use std::process::Command;

use lab::Point;

use crate::common::{alone, measured};

/// The experiments that count. Storage, too: with one thread it is the same after the same work.
const COUNTED: [&str; 6] = ["P1-F9", "P1-F11", "P1-F14", "P1-T3", "PEERS-SPACE", "PEERS-CHURN"];

/// The counts of the studies that count, of a run from nothing.
fn counts(experiments: &[&str], seed: u64) -> Vec<Point> {
    let points = measured(experiments, seed);
    points.into_iter().filter(|point| point.exact).collect()
}

/// The variable that names the file for the counts of the other process.
const INTO: &str = "PERDURA_COUNTS_INTO";

/// Writes each figure with all its digits.
#[test]
#[ignore = "a process of the other test"]
fn the_same_seed_in_another_process() {
    let Some(into) = std::env::var_os(INTO) else { return };
    let lines: Vec<String> =
        counts(&COUNTED, 7).iter().map(|point| format!("{point:?}\n")).collect();
    fs::write(into, lines.concat()).unwrap();
}

#[test]
fn the_same_seed_gives_the_same_counts_and_another_one_others() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let counted = place.path().join("counted");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "counts::the_same_seed_in_another_process"])
        .env(INTO, &counted)
        .spawn()
        .unwrap();
    let one = counts(&COUNTED, 7);
    assert!(child.wait().unwrap().success());
    assert!(one.len() > 400, "{}", one.len());
    let two = fs::read_to_string(&counted).unwrap();
    for (one, two) in one.iter().zip(two.lines()) {
        assert_eq!(format!("{one:?}"), two);
    }
    assert_eq!(one.len(), two.lines().count());
    let another = counts(&COUNTED[..1], 8);
    let differ = another.iter().filter(|point| !one.contains(point)).count();
    assert!(differ > 10, "{differ} of {}", another.len());
    let some = |metric: &str| one.iter().any(|point| point.metric == metric && point.value > 0.0);
    let lines = ["nvm loads", "nvm stores", "flushed lines", "fences"];
    let bytes = ["footprint", "measured", "space for a byte of user data", "stored"];
    for metric in lines.into_iter().chain(bytes) {
        assert!(some(metric), "{metric}");
    }
}
