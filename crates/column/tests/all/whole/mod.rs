//! Tests that each build of `.ci/run` adds to the ordinary ones: flushes and fences of indexes in persistent memory.

use crate::crash::fails_without_one;
use crate::work::durable;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn each_flush_and_fence_of_persistent_indexes_is_needed() {
    fails_without_one(durable(), 13, "collect statement unfenced");
}
