//! How closely the stories of a build are looked at.

use faults::explorer::{Again, Effort};
use faults::medium::Part;

/// The least that is expected of all crash points, or of one in three.
pub(crate) fn at_least(all: u64, some: u64) -> u64 {
    if at_all() { all } else { some }
}

/// An effort at one crash point in three, with as many crashes again; or at all with
/// `PERDURA_POINTS=all`.
pub(crate) fn at_points(effort: Effort) -> Effort {
    const ONE_IN: u64 = 3;
    if at_all() {
        return effort;
    }
    Effort {
        part: Part { stride: ONE_IN, ..Part::ALL },
        again: Again { every: effort.again.every.div_ceil(ONE_IN), ..effort.again },
        ..effort
    }
}

/// The first half of what there is to look at, rounded up; or all with `PERDURA_POINTS=all`.
pub(crate) fn some_of<T>(of: &[T]) -> &[T] {
    if at_all() { of } else { &of[..of.len().div_ceil(2)] }
}

/// Whether a long run looks at all crash points.
pub(crate) fn at_all() -> bool {
    match std::env::var("PERDURA_POINTS") {
        Ok(all) if all == "all" => true,
        Ok(other) => panic!("PERDURA_POINTS is {other}: `all`, or nothing"),
        Err(_) => false,
    }
}
