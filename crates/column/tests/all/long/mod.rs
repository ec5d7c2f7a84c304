//! Tests that `scripts/long` runs in a night, and no build: more power cuts, and kills before them.

use sim::Trace;

use crate::crash::{survives_kills, survives_power_cuts};
use crate::crowd;
use crate::work::{durable, mixed, small};

#[test]
#[ignore = "scripts/long runs it"]
fn statements_and_commits_survive_many_power_cuts() {
    for seed in 10..20 {
        for options in [small(), mixed(), durable()] {
            assert!(survives_power_cuts(options, seed, 60, 120) > 20_000);
        }
    }
}

#[test]
#[ignore = "scripts/long runs it"]
fn a_power_cut_after_many_kills_loses_nothing() {
    for seed in 30..32 {
        for options in [small(), mixed(), durable()] {
            assert_eq!(survives_kills(options, seed, 12, 11, Trace::clone), None, "seed {seed}");
        }
    }
}

#[test]
#[ignore = "scripts/long runs it"]
fn interleaved_sessions_survive_many_power_cuts() {
    let options = [small(), durable(), mixed()];
    let cut = |seed| crowd::survives_power_cuts(options[seed as usize % 3], seed, 3, 100);
    let states: u64 = (100..140).map(cut).sum();
    assert!(states > 100_000, "{states}");
}
