//! Tests that each build of `.ci/run` adds to the ordinary ones: benchmarks, kills and backups of all engines.

use perdura::EngineKind;

use crate::still::busy_databases_are_backed_up;
use crate::tpcc::FAMILIES;
use crate::{bench, tpcb_tatp, tpcc};

#[test]
#[ignore = "a build of .ci/run runs it"]
fn a_killed_process_loses_nothing_that_it_acknowledged() {
    bench::killed_processes_lose_nothing(&EngineKind::ALL.map(EngineKind::name).join(","));
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn groups_and_partitions_survive_a_kill_too() {
    bench::groups_and_partitions_survive("all");
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn a_killed_process_loses_no_transaction_of_tpcc() {
    tpcc::killed_processes_lose_no_transaction("all", FAMILIES, FAMILIES);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn a_killed_process_loses_no_transaction_of_tpcb() {
    tpcb_tatp::killed_processes_lose_no_transaction("all", FAMILIES, FAMILIES);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn the_report_of_tpcc_has_the_documented_keys_and_engines_agree() {
    tpcc::report_has_the_documented_keys("all");
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn workers_that_share_a_partition_keep_the_conditions() {
    tpcc::workers_keep_the_conditions("all");
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn busy_database_is_backed_up_as_it_is_at_one_moment() {
    busy_databases_are_backed_up(&EngineKind::ALL);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn checks_of_tpcc_are_named_in_the_text() {
    tpcc::checks_are_named("all");
}
