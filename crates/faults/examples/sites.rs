//! Lists the places in the source that the standard scenario of each engine reaches, for adding a
//! fault to the catalogue. `cargo run -p perdura-faults --example sites`

use std::collections::BTreeMap;

use faults::mutation::{How, Mutation};
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
            for (what, how) in [
                ("sync", How::NoSync),
                ("write", How::NoWrite),
                ("cut", How::NoCut),
                ("rename", How::EarlyRename),
                ("remove", How::EarlyRemove),
            ] {
                show(engine, what, &Mutation::sites_in_files(how, &trace));
            }
        } else {
            let trace = plot.run_in_pool().trace;
            for (what, how) in [
                ("flush", How::NoFlush),
                ("fence", How::NoFence),
                ("store", How::NoStore),
                ("copy", How::NoCopy),
            ] {
                show(engine, what, &Mutation::sites_in_memory(how, &trace));
            }
        }
    }
}
