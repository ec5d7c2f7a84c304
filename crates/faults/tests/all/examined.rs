//! The figures that `docs/reliability.md` asks of every build: every crash point of the standard
//! scenario, so many distinct states, half of them of random scenarios, so many crashes in
//! recovery. They take minutes; `whole/examined.rs` has them. Here the first transactions of
//! scenarios are looked at. The kills are in the tests of the command.

use std::sync::atomic::AtomicU64;
use std::thread;

use crate::seeds::{again, first_seed};
use faults::examine::{Report, Settings, examine};
use faults::plot::STANDARD;
use perdura::{DurableIn, EngineKind};

/// Examines an engine; a violation comes with the commands that show it again.
pub(crate) fn sound(settings: &Settings) -> Report {
    let report = examine(settings, &AtomicU64::new(0));
    println!("{report:?}");
    if let Some(violation) = report.violation(settings) {
        let test = thread::current().name().map(again).unwrap_or_default();
        panic!("{violation}the whole test again: {test}");
    }
    report
}

/// Examines an engine, with at least so many states, and so many of crashes in recovery.
pub(crate) fn examined(engine: EngineKind, states: u64, nested: u64) {
    // So many states the standard scenario has, where it has more than are wanted: crashes in
    // recovery come for a share of them.
    let seed = first_seed();
    let settings = Settings { seed, states, nested, bound: 4, ..Settings::of(engine) };
    let report = sound(&settings);
    assert!(report.states >= states && report.in_recovery >= nested, "{report:?}");
}

/// A few random scenarios of an engine, each whole.
pub(crate) fn random_scenarios(engine: EngineKind, scenarios: u64) {
    for number in 0..scenarios {
        let replay = Some(first_seed() + number);
        let of = Settings::of(engine);
        let settings = Settings { states: 20_000, nested: 1_000, bound: 4, replay, ..of };
        let report = sound(&settings);
        assert!(report.states > 300 && report.in_recovery > 20, "{report:?}");
    }
}

/// Half of the states are those of random scenarios, whatever the standard scenario has.
#[test]
fn random_scenarios_have_half_of_the_states() {
    let engine = EngineKind::Fast;
    for states in [0, 40, 1_000] {
        let of = Settings::of(engine);
        let settings = Settings { states, bound: 1, transactions: Some(12), ..of };
        let report = sound(&settings);
        let standard = report.states - report.random_states;
        assert!(standard > 40, "{states}: {report:?}");
        assert!(report.random_states * 2 >= states && report.states >= states, "{report:?}");
        assert_eq!(report.random_states == 0, states == 0, "{report:?}");
    }
}

#[test]
fn the_first_transactions() {
    let engines = EngineKind::P1.into_iter().chain(EngineKind::P3).chain([EngineKind::Sofort]);
    for engine in engines {
        let settings = Settings {
            states: 300,
            nested: 100,
            bound: 2,
            replay: Some(STANDARD),
            transactions: Some(if engine.traits().needs_files() { 40 } else { 10 }),
            ..Settings::of(engine)
        };
        let report = sound(&settings);
        assert!(report.states >= 50 && report.in_recovery >= 10, "{report:?}");
    }
}

/// The log lies in the pool, pages lie in files: both are cut off at the same moment.
#[test]
fn the_first_transactions_of_engines_in_both() {
    first_transactions_of_engines_in_both(4);
}

pub(crate) fn first_transactions_of_engines_in_both(transactions: usize) {
    let both = |engine: &EngineKind| engine.traits().durable_in == DurableIn::Both;
    for engine in EngineKind::ALL.into_iter().filter(both) {
        let settings = Settings {
            states: 300,
            nested: 100,
            bound: 2,
            replay: Some(STANDARD),
            transactions: Some(transactions),
            ..Settings::of(engine)
        };
        let report = sound(&settings);
        assert!(report.states >= 50 && report.in_recovery >= 10, "{report:?}");
    }
}
