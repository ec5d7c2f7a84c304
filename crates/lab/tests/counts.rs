//! The same seed gives the same counts, bit for bit. One test in a process of its own: emulated runs
//! fork it.

mod common;

use common::measured;
use lab::Point;

/// The experiments that count. Storage, too: with one thread it is the same after the same work.
const COUNTED: [&str; 6] = ["P1-F9", "P1-F11", "P1-F14", "P1-T3", "PEERS-SPACE", "PEERS-CHURN"];

/// The counts of the studies that count, of a run from nothing.
fn counts(experiments: &[&str], seed: u64) -> Vec<Point> {
    let points = measured(experiments, seed);
    points.into_iter().filter(|point| point.exact).collect()
}

#[test]
fn the_same_seed_gives_the_same_counts_and_another_one_others() {
    let (one, two) = (counts(&COUNTED, 7), counts(&COUNTED, 7));
    assert!(one.len() > 400, "{}", one.len());
    for (one, two) in one.iter().zip(&two) {
        assert_eq!(one.value.to_bits(), two.value.to_bits(), "{one:?} {two:?}");
    }
    assert_eq!(one, two);
    let first = |seed| counts(&COUNTED[..1], seed);
    assert_ne!(first(7), first(8));
    let some = |metric: &str| one.iter().any(|point| point.metric == metric && point.value > 0.0);
    let lines = ["nvm loads", "nvm stores", "flushed lines", "fences"];
    let bytes = ["footprint", "measured", "space for a byte of user data", "stored"];
    for metric in lines.into_iter().chain(bytes) {
        assert!(some(metric), "{metric}");
    }
}
