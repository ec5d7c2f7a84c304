//! YCSB and TPC-C under the explorer, for every engine: no state of a sample of their crash points
//! is wrong, the same seed gives the same states, and a fault is caught. The tests of `scenario`
//! look at far more; these are what applications do. TPC-C takes minutes:
//! `long/workloads.rs`.

use std::sync::atomic::AtomicU64;

use crate::points::one_in;
use faults::combined::CombinedMedium;
use faults::examine::{Settings, examine};
use faults::explorer::{Again, Effort, Explored, Scenario};
use faults::medium::{Medium, Part};
use faults::mutation::{Defect, Mutation, Where};
use faults::plot::Workload;
use faults::plot::{Plot, STANDARD};
use faults::script::{Script, run_in_files, run_in_pool, run_on};
use perdura::{DurableIn, EngineKind};

/// Returns an effort of one in so many of a scenario's crash points, and from one in so many of the
/// states.
fn sample(workload: Workload, points: u64) -> Effort {
    let (most, every) = if workload == Workload::Tpcc { (60, 60) } else { (150, 40) };
    let part = Part { stride: points.div_ceil(most).max(1), ..Part::ALL };
    Effort { part, ..Effort::once(3) }.then(Again::every(every, 2))
}

pub(crate) fn survives<M: Medium>(name: &str, scenario: &Scenario<M, Script>, workload: Workload) {
    survives_in_part(name, scenario, workload, 1);
}

/// The same at one in so many of the usual points.
fn survives_in_part<M: Medium>(
    name: &str,
    scenario: &Scenario<M, Script>,
    workload: Workload,
    one_in: u64,
) {
    // Where fewer places are looked at, no more of their states are crashed again: recoveries from
    // a log have many places.
    let all = sample(workload, M::points(&scenario.trace));
    let part = Part { stride: all.part.stride * one_in, ..all.part };
    let effort = Effort { part, ..all };
    let explored: Explored = scenario.explore(None, effort);
    println!(
        "{name}: {} points, {} states, {} nested",
        explored.points, explored.states, explored.nested
    );
    assert_eq!(explored.violation, None, "{name}");
    let enough = explored.states * one_in > 50 && explored.nested * one_in > 10;
    assert!(enough, "{name}: {explored:?}");
    let stride = M::events(&scenario.trace).div_ceil(50).max(1) as u64;
    let kills = scenario.explore_kills(None, stride * one_in);
    assert_eq!(kills.violation, None, "{name}, killed");
}

pub(crate) fn every_engine_survives(workload: Workload) {
    for engine in EngineKind::ALL {
        let plot = Plot::of(workload, engine, STANDARD);
        let name = format!("{engine}, {workload}");
        match engine.traits().durable_in {
            DurableIn::Files => survives(&name, &run_in_files(&plot), workload),
            DurableIn::Pool => {
                survives_in_part(&name, &run_in_pool(&plot), workload, one_in(engine));
            }
            DurableIn::Both => {
                survives_in_part(&name, &run_on::<CombinedMedium>(&plot), workload, one_in(engine));
            }
        }
    }
}

pub(crate) fn notices<M: Medium>(name: &str, scenario: &Scenario<M, Script>, defects: &[Defect]) {
    for defect in defects {
        let fault = Mutation { defect: *defect, at: Where::Anywhere };
        let explored = scenario.explore(Some(&fault), Effort::once(4));
        println!("{name}, {defect:?}: {} states, {:?}", explored.states, explored.violation);
        assert!(explored.injected > 0 && explored.violation.is_some(), "{name}, {defect:?}");
    }
}

#[test]
fn faults_in_ycsb_are_noticed() {
    faults_are_noticed(Workload::Ycsb);
}

pub(crate) fn faults_are_noticed(workload: Workload) {
    for engine in EngineKind::ALL {
        let plot = Plot::of(workload, engine, STANDARD);
        let name = format!("{engine}, {workload}");
        let in_pool = [Defect::EarlyAcknowledgement, Defect::NoFence, Defect::NoFlush];
        match engine.traits().durable_in {
            DurableIn::Files => {
                let defects = [Defect::EarlyAcknowledgement, Defect::NoSync];
                notices(&name, &run_in_files(&plot), &defects);
            }
            // The last fence of a commit by slot-header logging is that of its checkpoint.
            DurableIn::Pool if matches!(engine, EngineKind::Fast | EngineKind::Fash) => {
                notices(&name, &run_in_pool(&plot), &in_pool[1..]);
            }
            DurableIn::Pool => notices(&name, &run_in_pool(&plot), &in_pool),
            DurableIn::Both => notices(&name, &run_on::<CombinedMedium>(&plot), &in_pool),
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_states() {
    let workload = Workload::Ycsb;
    for engine in [EngineKind::Log, EngineKind::NvmInp] {
        let settings = Settings {
            workload,
            nested: 100,
            states: 1000,
            replay: Some(3),
            transactions: Some(6),
            bound: 2,
            ..Settings::of(engine)
        };
        let looked = || {
            let report = examine(&settings, &AtomicU64::new(0));
            assert_eq!(report.violations, 0, "{report:?}");
            (report.crash_points, report.states, report.kill_states, report.nested_states)
        };
        let first = looked();
        assert!(first.1 > 0);
        assert_eq!(looked(), first, "{engine}, {workload}");
    }
}
