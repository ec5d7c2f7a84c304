//! The same seed gives the same counts, bit for bit. Emulated runs fork them.

use crate::common::alone;
use crate::counted::counts;

#[test]
fn the_same_seed_gives_the_same_counts() {
    let _alone = alone();
    let some = ["P1-T3", "PEERS-CHURN"];
    let one = counts(&some, 7);
    assert!(one.len() > 20, "{}", one.len());
    let shown = |points: &[lab::Point]| format!("{points:?}");
    assert_eq!(shown(&one), shown(&counts(&some, 7)));
}
