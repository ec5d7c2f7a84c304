//! Lists the places in the source that the standard scenario of each engine reaches, for adding a
//! fault to the catalogue. `cargo run -p perdura-faults --example sites`

use std::collections::BTreeMap;

use faults::mutation::{Defect, Mutation};
use faults::plot::{Plot, STANDARD};
use perdura::EngineKind;
use pm::Site;

fn show(engine: EngineKind, what: &str, sites: &[Site]) {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    for site in sites {
        let number = numbers.entry(site.file()).or_default();
        println!("{engine:8} {what:6} {} {number}: line {}", site.file(), site.line());
        *number += 1;
    }
}

fn main() {
    for engine in EngineKind::ALL {
        let plot = Plot { transactions: 200, ..Plot::of_seed(engine, STANDARD) };
        if engine.traits().needs_files() {
            let trace = plot.run_in_files().0.trace;
            for (what, defect) in [
                ("sync", Defect::NoSync),
                ("write", Defect::NoWrite),
                ("cut", Defect::NoCut),
                ("rename", Defect::EarlyRename),
                ("remove", Defect::EarlyRemove),
            ] {
                show(engine, what, &Mutation::sites_in_files(defect, &trace));
            }
        } else {
            let trace = plot.run_in_pool().trace;
            for (what, defect) in [
                ("flush", Defect::NoFlush),
                ("fence", Defect::NoFence),
                ("store", Defect::NoStore),
                ("copy", Defect::NoCopy),
            ] {
                show(engine, what, &Mutation::sites_in_memory(defect, &trace));
            }
        }
    }
}
