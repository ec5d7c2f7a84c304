//! Every engine, with as many states and crashes in recovery as `docs/reliability.md` asks of every build.

use faults::examine::Settings;
use faults::plot::STANDARD;
use perdura::EngineKind;

use crate::examined::{examined, first_transactions_of_engines_in_both, random_scenarios, sound};

/// Scenarios of both, in groups too: their standard scenario alone takes minutes.
#[test]
#[ignore = "a build of .ci/run runs it"]
fn random_scenarios_of_nv_logging() {
    random_scenarios(EngineKind::NvLoggingFoi, 1);
    random_scenarios(EngineKind::NvLoggingFoc, 2);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nvm_inp() {
    examined(EngineKind::NvmInp, 5_000, 1_000);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nvm_cow() {
    examined(EngineKind::NvmCow, 5_000, 1_000);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nvm_log() {
    examined(EngineKind::NvmLog, 5_000, 1_000);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn inp() {
    examined(EngineKind::Inp, 5_000, 1_000);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn cow() {
    examined(EngineKind::Cow, 5_000, 1_000);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn log() {
    examined(EngineKind::Log, 5_000, 1_000);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nv_disk() {
    examined(EngineKind::NvDisk, 4_000, 500);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn fast() {
    examined(EngineKind::Fast, 4_000, 500);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn fash() {
    examined(EngineKind::Fash, 4_000, 500);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn nvwal() {
    examined(EngineKind::Nvwal, 4_000, 500);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn journal() {
    examined(EngineKind::Journal, 4_000, 500);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn wal() {
    examined(EngineKind::Wal, 4_000, 500);
}

/// Transactions that are open go on after each crash, and after the next one.
#[test]
#[ignore = "a build of .ci/run runs it"]
fn sofort() {
    examined(EngineKind::Sofort, 4_000, 500);
}

/// A seed that leads to the same states as another one tests nothing.
#[test]
#[ignore = "a build of .ci/run runs it"]
fn each_seed_has_states_of_its_own() {
    for engine in EngineKind::ALL {
        let visited = [1, 2].map(|seed| {
            let of = Settings::of(engine);
            let settings = Settings { seed, states: 200, bound: 1, transactions: Some(4), ..of };
            let report = sound(&settings);
            let standard = report.states - report.random_states;
            assert!(report.random_states >= 100 && standard > 10, "{engine}: {report:?}");
            report.visited
        });
        assert_ne!(visited[0], visited[1], "{engine}");
    }
}

/// The same where some of its indexes lie in persistent memory, and all of them.
#[test]
#[ignore = "a build of .ci/run runs it"]
fn the_first_transactions_of_sofort_in_each_placement() {
    for percent in [40, 60, 100] {
        let settings = Settings {
            states: 300,
            nested: 100,
            bound: 2,
            replay: Some(STANDARD),
            transactions: Some(8),
            placement: Some(percent),
            ..Settings::of(EngineKind::Sofort)
        };
        let report = sound(&settings);
        assert!(report.states >= 100 && report.in_recovery >= 30, "{report:?}");
    }
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn the_first_transactions_of_engines_in_both() {
    first_transactions_of_engines_in_both(12);
}
