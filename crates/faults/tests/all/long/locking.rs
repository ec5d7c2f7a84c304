//! Transactions under row locks: more interleavings, and real threads for as long as is asked.

use std::time::{Duration, Instant};

use faults::sharing::Mix;

use crate::locking::interleaved::{all_have_an_order, scenarios, survives};
use crate::locking::real::{LOCKING, run};

#[test]
#[ignore = "scripts/long runs it"]
fn interleavings_of_many_seeds_are_strictly_serializable() {
    all_have_an_order(1_000..3_000);
}

#[test]
#[ignore = "scripts/long runs it"]
fn a_crash_leaves_a_prefix_of_what_interleaved_over_many_seeds() {
    let (mut points, mut states) = (0, 0);
    for scenario in scenarios(200..260, Mix::LOCKS) {
        let (more_points, more_states) = survives(&scenario, 16);
        points += more_points;
        states += more_states;
    }
    println!("{points} crash points, {states} states");
}

/// For as many seconds as `PERDURA_RACING_SECONDS` says; 60 if it says nothing.
#[test]
#[ignore = "scripts/long runs it"]
fn runs_of_four_threads_are_strictly_serializable() {
    let seconds = std::env::var("PERDURA_RACING_SECONDS").map_or(60, |seconds| {
        seconds.parse().expect("PERDURA_RACING_SECONDS is a number of seconds")
    });
    let share = Duration::from_secs(seconds) / 8;
    for (keys, seed) in [(8, 1_000_000), (100, 2_000_000)] {
        for (locking, seed) in LOCKING.into_iter().zip((seed..).step_by(100_000)) {
            let begun = Instant::now();
            run(locking, keys, seed, 1_000, |round| round == 0 || begun.elapsed() < share);
        }
    }
}
