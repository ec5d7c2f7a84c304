//! Tests that a build of .ci/run runs, and `cargo test` a small part of.

use std::fs;
use std::process::Command;

use crate::common::alone;
use crate::counted::{COUNTED, counts};

#[test]
#[ignore = "a build of .ci/run runs it"]
fn the_same_seed_gives_the_same_counts_and_another_one_others() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let counted = place.path().join("counted");
    let mut child = Command::new(env!("CARGO_BIN_EXE_perdura-laboratory-children"))
        .arg(&counted)
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
