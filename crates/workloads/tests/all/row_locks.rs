//! Eight workers in one partition of the engine with row locks, whose rows do not fit its buffer pool:
//! balances, rates and conditions hold, and by one worker it holds what every engine holds.

use std::path::Path;

use perdura::{Database, Domain, EngineKind, Options, Schema};
use workloads::tpcc::{self, Condition};
use workloads::{Check, Commit, Form, RunOptions, contents, tatp, tpcb};

const WORKERS: usize = 8;

fn by(workers: usize) -> RunOptions {
    RunOptions { workers, ..RunOptions::default() }
}

fn create(path: &Path, engine: EngineKind, schema: &Schema) -> Database {
    let options = Options::new().engine(engine).domain(Domain::Process);
    let options = match engine {
        EngineKind::NvDisk => options.tune("buffer_bytes", 256 << 10),
        _ => options,
    };
    Database::create(path, schema, &options).unwrap()
}

fn nv_disk(schema: &Schema) -> (Database, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    (create(&directory.path().join("db"), EngineKind::NvDisk, schema), directory)
}

fn all_hold(checks: &[Check]) {
    assert!(checks.iter().all(Check::holds), "{checks:#?}");
}

#[test]
fn balances_agree_with_eight_workers() {
    for (form, branches) in [(Form::Specification, 3), (Form::ShoreKits, 1)] {
        let spec = tpcb::Spec {
            branches,
            accounts: 1000,
            transactions: 1600,
            form,
            ..tpcb::Spec::default()
        };
        let workload = tpcb::Workload::generate(&spec).unwrap();
        let (database, _directory) = nv_disk(&tpcb::schema());
        tpcb::load(&database, &spec, 1, &()).unwrap();
        let measured = tpcb::run(&database, &workload, &by(WORKERS), &()).unwrap();
        assert_eq!((measured.transactions(), measured.conflicts), (1600, 0));
        all_hold(&tpcb::check(&database, &spec).unwrap());
        let done = [200; WORKERS];
        let verified = tpcb::verify(&database, &workload, WORKERS, &done, Commit::Durable);
        assert_eq!(verified.unwrap(), tpcb::Verification::default());
        // Sums do not depend on who came first.
        let (one, _directory) = nv_disk(&tpcb::schema());
        tpcb::load(&one, &spec, 1, &()).unwrap();
        tpcb::run(&one, &workload, &by(1), &()).unwrap();
        assert_eq!(contents(&database).unwrap(), contents(&one).unwrap());
    }
}

#[test]
fn rates_and_rows_are_right_with_eight_workers() {
    let spec = tatp::Spec { subscribers: 2000, transactions: 8000, ..tatp::Spec::default() };
    let workload = tatp::Workload::generate(&spec).unwrap();
    let (database, _directory) = nv_disk(&tatp::schema());
    tatp::load(&database, &spec, 1, &()).unwrap();
    let measured = tatp::run(&database, &workload, &by(WORKERS), &()).unwrap();
    assert_eq!(measured.transactions() + measured.failed.iter().sum::<u64>(), 8000);
    assert_eq!(measured.conflicts, 0);
    all_hold(&tatp::check(&database, &spec, &[&measured]).unwrap());
    let rates = tatp::rates(&[(&workload, &measured)]);
    assert!(rates.iter().all(tatp::Rate::holds), "{rates:#?}");
}

#[test]
fn the_conditions_of_tpcc_hold_with_eight_workers() {
    let spec = tpcc::Spec {
        warehouses: 2,
        items: 100,
        customers: 30,
        transactions: 1200,
        remote: true,
        ..tpcc::Spec::default()
    };
    let (database, _directory) = nv_disk(&tpcc::schema());
    tpcc::load(&database, &spec, 1, &()).unwrap();
    let workload = tpcc::Workload::generate(&spec).unwrap();
    let measured = tpcc::run(&database, &workload, &by(WORKERS), &()).unwrap();
    println!("{} retries, {} conflicts", measured.retries, measured.conflicts);
    assert_eq!(measured.transactions() + measured.aborted, 1200);
    assert_eq!(measured.conflicts, 0);
    let conditions = tpcc::check(&database, &spec).unwrap();
    assert!(conditions.iter().all(Condition::holds), "{conditions:#?}");
}

#[test]
fn by_one_worker_every_engine_ends_with_the_same() {
    let digests = |engine| {
        let directory = tempfile::tempdir().unwrap();
        let database = |name: &str, schema| create(&directory.path().join(name), engine, schema);
        let banks =
            tpcb::Spec { branches: 2, accounts: 100, transactions: 300, ..Default::default() };
        let bank = database("bank", &tpcb::schema());
        tpcb::load(&bank, &banks, 1, &()).unwrap();
        let workload = tpcb::Workload::generate(&banks).unwrap();
        tpcb::run(&bank, &workload, &by(1), &()).unwrap();
        let registers = tatp::Spec { subscribers: 200, transactions: 1000, ..Default::default() };
        let register = database("register", &tatp::schema());
        tatp::load(&register, &registers, 1, &()).unwrap();
        let workload = tatp::Workload::generate(&registers).unwrap();
        tatp::run(&register, &workload, &by(1), &()).unwrap();
        let shops = tpcc::Spec {
            warehouses: 2,
            items: 50,
            customers: 20,
            transactions: 300,
            remote: true,
            ..Default::default()
        };
        let shop = database("shop", &tpcc::schema());
        tpcc::load(&shop, &shops, 1, &()).unwrap();
        let workload = tpcc::Workload::generate(&shops).unwrap();
        tpcc::run(&shop, &workload, &by(1), &()).unwrap();
        [&bank, &register, &shop].map(|database| contents(database).unwrap().digest())
    };
    let expected = digests(EngineKind::NvmInp);
    for engine in EngineKind::EVERY {
        assert_eq!(digests(engine), expected, "{engine}");
    }
}
