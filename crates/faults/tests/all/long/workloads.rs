//! TPC-C under the explorer.

use faults::plot::Workload;

use crate::workloads::{every_engine_survives, faults_are_noticed};

#[test]
#[ignore = "scripts/long runs it"]
fn every_engine_survives_tpcc() {
    every_engine_survives(Workload::Tpcc);
}

#[test]
#[ignore = "scripts/long runs it"]
fn faults_in_tpcc_are_noticed() {
    faults_are_noticed(Workload::Tpcc);
}
