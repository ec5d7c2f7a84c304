//! The two children of TPC-C.

use std::path::Path;
use std::time::Instant;

use peers::AcknowledgedFile;
use perdura::{Commit, Database, Domain, EngineKind, Options};
use workloads::contents;
use workloads::tpcc::{self, Condition, Spec, Verification, Workload};

use super::{Found, Opening, Task, elapsed_ms};
use crate::failure::Failure;
use crate::settings::run_options;
use crate::system::{System, create, pool_path};

/// Populates, runs and counts.
pub(super) fn victim(task: &Task, spec: &Spec) -> Result<(), Failure> {
    let workload = Workload::generate(spec)?;
    let path = pool_path(&task.directory);
    let database = create_for(spec, task.system()?, &path, &task.options(), task.domain()?)?;
    tpcc::load(&database, spec, task.workers, &())?;
    database.checkpoint()?;
    let acknowledged = AcknowledgedFile::open(&task.acknowledged, spec.partitions)?;
    // Where they share a partition the order in which they meet is open, and no second database can
    // tell what had to be there.
    let workers = task.workers.min(spec.partitions);
    tpcc::run(&database, &workload, &run_options(workers, task.commit()), &acknowledged)?;
    super::wait_for_the_end()
}

/// Opens on the clock, then verifies. The first commit writes back what the first read found. The
/// transactions are worked out after it, as those of YCSB are.
pub(super) fn witness(task: &Task, spec: &Spec, counts: &[u64]) -> Result<Found, Failure> {
    let (path, options) = (pool_path(&task.directory), task.options());
    let started = Instant::now();
    let database = Database::open(&path, &options)?;
    let open_ms = elapsed_ms(started);
    let name = tpcc::first_read(&database)?;
    let first_read_ms = elapsed_ms(started);
    tpcc::first_commit(&database, &name)?;
    let first_commit_ms = elapsed_ms(started);

    let workload = Workload::generate(spec)?;
    let conditions = tpcc::check(&database, spec)?;
    let held = contents(&database)?;
    let reference = reference(task, spec)?;
    let Verification { lost, surplus, in_flight, differing_tuples, differing_tables } =
        tpcc::verify(&database, &reference, &workload, counts, task.commit())?;
    let mut wrong: Vec<_> = conditions.iter().filter_map(Condition::contradiction).collect();
    if differing_tuples > 0 {
        let tables = differing_tables.join(", ");
        wrong.push(format!("{differing_tuples} tuples are not as they should be, in {tables}"));
    }
    Ok(Found {
        built_percent: None,
        open_ms,
        first_read_ms,
        first_commit_ms,
        recovered: Some(database.recovery_report().into()),
        opening: database.opening_times().map(Opening::from),
        reads: None,
        lost,
        surplus: surplus + differing_tuples,
        in_flight,
        tuples: Some(held.tuples()),
        user_bytes: Some(held.user_bytes()),
        consistency: Some(
            conditions.iter().map(|one| (one.number.to_string(), one.holds())).collect(),
        ),
        wrong,
    })
}

/// An empty database of another engine, that survives nothing but is fast.
fn reference(task: &Task, spec: &Spec) -> Result<Database, Failure> {
    let is_nvm_inp = task.system()? == System::Engine(EngineKind::NvmInp);
    let engine = if is_nvm_inp { EngineKind::Inp } else { EngineKind::NvmInp };
    let path = task.directory.join("reference");
    let options = Options::new().commit(Commit::grouped(1000));
    create_for(spec, System::Engine(engine), &path, &options, Some(Domain::Process))
}

/// Creates a database with the tables of TPC-C.
fn create_for(
    spec: &Spec,
    system: System,
    path: &Path,
    options: &Options,
    domain: Option<Domain>,
) -> Result<Database, Failure> {
    create(system, path, &tpcc::schema(), spec.partitions, options, domain)
}
