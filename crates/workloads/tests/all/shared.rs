//! Many workers in one partition: the engines of P1, where they queue, and an engine that runs their
//! transactions at the same time.

use perdura::{Database, Domain, EngineKind, Environment, Options, Schema};
use sim::{Recorded, Recording, RecordingFiles};
use workloads::tpcc::{self, Condition};
use workloads::{Check, Form, RunOptions, contents, tatp, tpcb};

use optimistic::Optimistic;

const WORKERS: usize = 4;

fn how() -> RunOptions {
    RunOptions { workers: WORKERS, ..RunOptions::default() }
}

/// A database under an engine that runs many transactions at the same time.
fn concurrent(schema: &Schema) -> Database<Recorded> {
    let memory = Recording::pool(64 << 10, 256 << 20).unwrap();
    let media = faults::recorded(memory, RecordingFiles::new());
    Database::create_with(media, schema, &Options::new(), &Optimistic::new()).unwrap()
}

fn serial(engine: EngineKind, schema: &Schema) -> (Database, tempfile::TempDir) {
    let directory = crate::in_memory();
    let options = Options::new().engine(engine).domain(Domain::Process);
    let database = Database::create(directory.path().join("db"), schema, &options).unwrap();
    (database, directory)
}

fn all_hold(checks: &[Check]) {
    assert!(checks.iter().all(Check::holds), "{checks:#?}");
}

#[test]
fn concurrent_transactions_leave_the_same_balances() {
    for (form, branches) in [(Form::Specification, 3), (Form::ShoreKits, 1)] {
        let spec =
            tpcb::Spec { branches, accounts: 20, transactions: 500, form, ..tpcb::Spec::default() };
        let workload = tpcb::Workload::generate(&spec).unwrap();
        let database = concurrent(&tpcb::schema());
        tpcb::load(&database, &spec, 1, &()).unwrap();
        let measured = tpcb::run(&database, &workload, &how(), &()).unwrap();
        assert_eq!((measured.transactions(), measured.conflicts), (500, 0));
        all_hold(&tpcb::check(&database, &spec).unwrap());
        let verified =
            tpcb::verify(&database, &workload, WORKERS, &[125; 4], workloads::Commit::Durable);
        assert_eq!(verified.unwrap(), tpcb::Verification::default());

        let (one, _directory) = serial(EngineKind::NvmInp, &tpcb::schema());
        tpcb::load(&one, &spec, 1, &()).unwrap();
        tpcb::run(&one, &workload, &RunOptions::default(), &()).unwrap();
        assert_eq!(contents(&database).unwrap(), contents(&one).unwrap());
    }
}

#[test]
fn the_register_agrees_where_transactions_run_at_the_same_time() {
    let spec = tatp::Spec { subscribers: 200, transactions: 1500, ..tatp::Spec::default() };
    let workload = tatp::Workload::generate(&spec).unwrap();
    let database = concurrent(&tatp::schema());
    tatp::load(&database, &spec, 1, &()).unwrap();
    let measured = tatp::run(&database, &workload, &how(), &()).unwrap();
    assert_eq!(measured.transactions() + measured.failed.iter().sum::<u64>(), 1500);
    all_hold(&tatp::check(&database, &spec, &[&measured]).unwrap());
    let rates = tatp::rates(&[(&workload, &measured)]);
    assert!(rates.iter().all(tatp::Rate::holds), "{rates:#?}");
}

fn shop<E: Environment>(database: &Database<E>) {
    let spec = tpcc::Spec {
        warehouses: 2,
        items: 50,
        customers: 20,
        transactions: 400,
        remote: true,
        ..tpcc::Spec::default()
    };
    tpcc::load(database, &spec, 1, &()).unwrap();
    let workload = tpcc::Workload::generate(&spec).unwrap();
    let measured = tpcc::run(database, &workload, &how(), &()).unwrap();
    assert_eq!(measured.transactions() + measured.aborted, 400);
    let conditions = tpcc::check(database, &spec).unwrap();
    assert!(conditions.iter().all(Condition::holds), "{conditions:#?}");
}

#[test]
fn tpcc_conditions_hold_with_many_workers_in_a_partition() {
    for engine in EngineKind::ALL {
        println!("{engine}");
        shop(&serial(engine, &tpcc::schema()).0);
    }
    shop(&concurrent(&tpcc::schema()));
}
