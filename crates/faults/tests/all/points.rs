//! How closely the stories of a build are looked at.

use faults::explorer::{Again, Effort};
use faults::medium::Part;

/// An effort at one crash point in three, with as many crashes again; or at all with
/// `PERDURA_POINTS=all`.
pub(crate) fn at_points(effort: Effort) -> Effort {
    const ONE_IN: u64 = 3;
    match std::env::var("PERDURA_POINTS") {
        Ok(all) if all == "all" => effort,
        Ok(other) => panic!("PERDURA_POINTS is {other}: `all`, or nothing"),
        Err(_) => Effort {
            part: Part { stride: ONE_IN, ..Part::ALL },
            again: Again { every: effort.again.every.div_ceil(ONE_IN), ..effort.again },
            ..effort
        },
    }
}
