//! How closely the scenarios of a build are looked at.

use faults::explorer::{Again, Effort};
use faults::medium::Part;
use faults::points::at_all;
use perdura::EngineKind;

/// A build looks at one crash point in so many, and crashes again as often in all.
const ONE_IN: u64 = 10;
/// It kills at one store or call in so many.
const KILLS: u64 = 5;

/// The least that is expected of all crash points, or of those that a build looks at.
pub(crate) fn at_least(all: u64, some: u64) -> u64 {
    if at_all() { all } else { some }
}

/// The distance between two calls that fail: so many, or one with `PERDURA_POINTS=all`.
pub(crate) fn at_calls(many: usize) -> usize {
    if at_all() { 1 } else { many }
}

/// The distance between two kills, which is wider in a build.
pub(crate) fn at_kills(stride: u64) -> u64 {
    if at_all() { stride } else { KILLS * stride }
}

/// An effort at the crash points that a build looks at; or at all with `PERDURA_POINTS=all`.
pub(crate) fn at_points(effort: Effort) -> Effort {
    if at_all() {
        return effort;
    }
    thinned(Effort { part: Part::ALL, ..effort }, ONE_IN)
}

/// One of how many of the usual points an engine is looked at, or 1 with `PERDURA_POINTS=all`.
/// Engines on slotted pages are the same but for their commits, so that `fast` stands for the
/// others, as `nv-logging-foi` does for `nv-logging-foc`.
pub(crate) fn one_in(engine: EngineKind) -> u64 {
    let like_another = EngineKind::P3.contains(&engine) && engine != EngineKind::Fast
        || engine == EngineKind::NvLoggingFoc;
    if like_another && !at_all() { 5 } else { 1 }
}

/// An effort at one crash point in so many.
pub(crate) fn thinned(effort: Effort, one_in: u64) -> Effort {
    let part = Part { stride: effort.part.stride * one_in, ..effort.part };
    let again = Again { every: effort.again.every.div_ceil(one_in), ..effort.again };
    Effort { part, again, ..effort }
}

/// The first quarter of what there is to look at, rounded up; or all with `PERDURA_POINTS=all`.
pub(crate) fn some_of<T>(of: &[T]) -> &[T] {
    if at_all() { of } else { &of[..of.len().div_ceil(4)] }
}
