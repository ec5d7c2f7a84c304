//! Data larger than memory: more of it, and two hundred kills.

use std::time::Duration;

use crate::larger::kill_over_and_over;

#[test]
#[ignore = "scripts/long runs it"]
fn two_hundred_kills_under_load_lose_nothing() {
    kill_over_and_over(400_000, 8 << 20, 200, Duration::from_millis(600));
}
