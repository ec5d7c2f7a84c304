//! YCSB in every engine, in groups of commits, and its statements.

use faults::explorer::{Again, Effort};
use faults::mutation::{Code, Defect, Mutation, Where};
use faults::plot::{Plot, STANDARD, Workload};
use faults::script::{Script, run_in_files, run_in_pool};
use perdura::EngineKind;

use crate::workloads::{every_engine_survives, notices, survives};

/// Seeds whose updates, most of them statements, change two columns: not inlined, and inlined.
#[test]
#[ignore = "a build of .ci/run runs it"]
fn two_columns_of_a_statement_change_together() {
    const INP: &str = "engines/src/nvm_inp.rs";
    for seed in [4, 1] {
        let plot = Plot { transactions: 60, ..Plot::of(Workload::Ycsb, EngineKind::NvmInp, seed) };
        let script = Script::of(&plot);
        assert_eq!(script.update_columns(), Some(2), "seed {seed}");
        assert_eq!(script.schema().tables()[0].has_inline_columns(), seed == 1);
        let scenario = run_in_pool(&plot);
        let explored = scenario.explore(None, Effort::once(20).then(Again::every(20, 2)));
        println!("seed {seed}: {} states, {} nested", explored.states, explored.nested);
        assert_eq!(explored.violation, None, "seed {seed}");
        assert!(explored.states > 200 && explored.nested > 50, "seed {seed}: {explored:?}");
        let kills = scenario.explore_kills(None, 1);
        assert_eq!(kills.violation, None, "seed {seed}, killed");
        notices(&format!("seed {seed}"), &scenario, &[Defect::NoFence, Defect::NoFlush]);
        for call in ["Flushed::lines", "superseded.lines.flush"] {
            let code = Code { file: INP, function: "statement", text: call };
            let at = Where::Code(code);
            let fault = Mutation { defect: Defect::NoFlush, at };
            let explored = scenario.explore(Some(&fault), Effort::once(20));
            assert!(explored.injected > 0 && explored.violation.is_some(), "seed {seed}, {call}");
        }
    }
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn every_engine_survives_ycsb() {
    every_engine_survives(Workload::Ycsb);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn groups_survive_too() {
    for engine in [EngineKind::Inp, EngineKind::Cow, EngineKind::Log, EngineKind::NvmCow] {
        let plot = Plot::of(Workload::Ycsb, engine, STANDARD).groups_of(4);
        let name = format!("{engine}, groups");
        if engine.traits().needs_files() {
            survives(&name, &run_in_files(&plot), Workload::Ycsb);
        } else {
            survives(&name, &run_in_pool(&plot), Workload::Ycsb);
        }
    }
}
