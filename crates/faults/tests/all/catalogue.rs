//! The tester is tested: every fault of the catalogue is noticed.

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;

use faults::catalogue::faults;
use faults::examine::{Settings, examine};
use perdura::EngineKind;

pub(crate) fn caught(engine: EngineKind) {
    let mut missed = Vec::new();
    for fault in faults().filter(|fault| fault.engine == engine) {
        let settings = Settings { inject: Some(fault), ..Settings::of(engine) };
        let report = examine(&settings, &AtomicU64::new(0));
        println!(
            "{}: {} events, {} states, {:.1} s, {:?}",
            fault.name,
            report.injected,
            report.states + report.nested_states,
            report.seconds,
            report.first.as_ref().map(|found| (&found.scenario, &found.what))
        );
        if report.violations == 0 {
            missed.push((fault.name, report.injected));
        }
    }
    assert!(missed.is_empty(), "not noticed (with the events that were changed): {missed:?}");
}

#[test]
fn faults_of_fast_are_caught() {
    caught(EngineKind::Fast);
}

#[test]
fn faults_of_fash_are_caught() {
    caught(EngineKind::Fash);
}

#[test]
fn faults_of_nvwal_are_caught() {
    caught(EngineKind::Nvwal);
}

#[test]
fn there_are_faults_enough_with_names_of_their_own() {
    let names: HashSet<_> = faults().map(|fault| fault.name).collect();
    assert_eq!(names.len(), faults().count());
    assert!(names.len() >= 40);
    for engine in EngineKind::ALL {
        assert!(faults().filter(|fault| fault.engine == engine).count() >= 5, "{engine}");
    }
}
