//! The two children of TPC-B.

use std::time::Instant;

use peers::AcknowledgedFile;
use perdura::Database;
use workloads::contents;
use workloads::tpcb::{self, Spec, Verification, Workload};

use super::{Found, Opening, Task, elapsed_ms};
use crate::failure::Failure;
use crate::settings::run_options;
use crate::system::create;
use crate::system::pool_path;

/// Populates, runs and counts.
pub(super) fn victim(task: &Task, spec: &Spec) -> Result<(), Failure> {
    let workload = Workload::generate(spec)?;
    let path = pool_path(&task.directory);
    let (schema, options) = (tpcb::schema(), task.options());
    let partitions = spec.partitions;
    let database = create(task.system()?, &path, &schema, partitions, &options, task.domain()?)?;
    tpcb::load(&database, spec, task.workers, &())?;
    database.checkpoint()?;
    let acknowledged = AcknowledgedFile::open(&task.acknowledged, task.job.counters(task.workers))?;
    tpcb::run(&database, &workload, &run_options(task.workers, task.commit()), &acknowledged)?;
    super::wait_for_the_end()
}

/// Opens on the clock, then verifies. The first commit writes back what the first read found. The
/// transactions are worked out after it, as those of YCSB are.
pub(super) fn witness(task: &Task, spec: &Spec, counts: &[u64]) -> Result<Found, Failure> {
    let (path, options) = (pool_path(&task.directory), task.options());
    let started = Instant::now();
    let database = Database::open(&path, &options)?;
    let open_ms = elapsed_ms(started);
    let balance = tpcb::first_read(&database)?;
    let first_read_ms = elapsed_ms(started);
    tpcb::first_commit(&database, balance)?;
    let first_commit_ms = elapsed_ms(started);

    let workload = Workload::generate(spec)?;
    let checks = tpcb::check(&database, spec)?;
    let held = contents(&database)?;
    let Verification { lost, surplus, in_flight, wrong } =
        tpcb::verify(&database, &workload, task.workers, counts, task.commit())?;
    Ok(Found {
        built_percent: None,
        open_ms,
        first_read_ms,
        first_commit_ms,
        recovered: Some(database.recovery_report().into()),
        opening: database.opening_times().map(Opening::from),
        reads: None,
        lost,
        surplus,
        in_flight,
        tuples: Some(held.tuples()),
        user_bytes: Some(held.user_bytes()),
        consistency: Some(
            checks.iter().map(|check| (check.name.to_owned(), check.holds())).collect(),
        ),
        wrong,
    })
}
