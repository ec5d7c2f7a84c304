//! Random operations against a model, for as long as is asked.

use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::conformance::random::Run;

/// One seed after the other, with keys and groups of their own, for `PERDURA_MODEL_SECONDS` seconds
/// (60), from the seed `PERDURA_MODEL_SEED` (100) on.
#[test]
#[ignore = "scripts/long runs it"]
fn seed_after_seed() {
    let asked = |name: &str, otherwise: u64| {
        std::env::var(name).map_or(otherwise, |value| value.parse().expect("a number"))
    };
    let seconds = Duration::from_secs(asked("PERDURA_MODEL_SECONDS", 60));
    let (first, begin) = (asked("PERDURA_MODEL_SEED", 100), Instant::now());
    let mut seed = first;
    while begin.elapsed() < seconds {
        let mut random = SmallRng::seed_from_u64(seed);
        let keys = random.random_range(2..3_000) >> random.random_range(0..8);
        let group = [1, 1, 2, 7, 60, 100_000][random.random_range(0..6)];
        let rounds = random.random_range(4..20);
        Run { seed, rounds, keys: keys + 2, group }.same_in_every_engine();
        seed += 1;
    }
    println!("{} seeds, from {first} to {}", seed - first, seed - 1);
}
