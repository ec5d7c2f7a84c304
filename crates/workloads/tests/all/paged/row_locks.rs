//! Eight workers in one partition of each engine with row locks, with more rows than its buffer pool
//! has room for: balances, rates and conditions hold.

use perdura::{Database, Domain, EngineKind, Options, Schema};
use workloads::tpcc::{self, Condition};
use workloads::{Check, Commit, Form, RunOptions, contents, tatp, tpcb};

const WORKERS: usize = 8;

fn by(workers: usize) -> RunOptions {
    RunOptions { workers, ..RunOptions::default() }
}

/// The engines with row locks.
fn engines() -> impl Iterator<Item = EngineKind> {
    EngineKind::P2.into_iter()
}

fn create(engine: EngineKind, schema: &Schema) -> (Database, tempfile::TempDir) {
    println!("{engine}");
    let in_memory = tempfile::tempdir_in("/dev/shm");
    let directory = in_memory.or_else(|_| tempfile::tempdir()).unwrap();
    let options = Options::new().engine(engine).domain(Domain::Process);
    let options = options.tune("page_bytes", 1024).tune("buffer_bytes", 64 << 10);
    (Database::create(directory.path().join("db"), schema, &options).unwrap(), directory)
}

/// Pages had to leave the buffer pool.
fn has_evicted(database: &Database) -> bool {
    let own = database.stats().unwrap().own;
    let buffer = own.buffer().unwrap();
    buffer.evictions > 0 && buffer.lock_requests > 0
}

fn all_hold(checks: &[Check]) {
    assert!(checks.iter().all(Check::holds), "{checks:#?}");
}

#[test]
fn balances_agree_with_eight_workers() {
    for engine in engines() {
        for (form, branches) in [(Form::Specification, 3), (Form::ShoreKits, 1)] {
            let spec = tpcb::Spec {
                branches,
                accounts: 500,
                transactions: 400,
                form,
                ..tpcb::Spec::default()
            };
            let workload = tpcb::Workload::generate(&spec).unwrap();
            let (database, _directory) = create(engine, &tpcb::schema());
            tpcb::load(&database, &spec, 1, &()).unwrap();
            let measured = tpcb::run(&database, &workload, &by(WORKERS), &()).unwrap();
            assert_eq!((measured.transactions(), measured.conflicts), (400, 0));
            assert!(has_evicted(&database));
            all_hold(&tpcb::check(&database, &spec).unwrap());
            let done = [50; WORKERS];
            let verified = tpcb::verify(&database, &workload, WORKERS, &done, Commit::Durable);
            assert_eq!(verified.unwrap(), tpcb::Verification::default());
            // Sums do not depend on the order of transactions.
            let (one, _directory) = create(engine, &tpcb::schema());
            tpcb::load(&one, &spec, 1, &()).unwrap();
            tpcb::run(&one, &workload, &by(1), &()).unwrap();
            assert_eq!(contents(&database).unwrap(), contents(&one).unwrap());
        }
    }
}

#[test]
fn rates_and_rows_are_right_with_eight_workers() {
    for engine in engines() {
        let spec = tatp::Spec { subscribers: 300, transactions: 2000, ..tatp::Spec::default() };
        let workload = tatp::Workload::generate(&spec).unwrap();
        let (database, _directory) = create(engine, &tatp::schema());
        tatp::load(&database, &spec, 1, &()).unwrap();
        let measured = tatp::run(&database, &workload, &by(WORKERS), &()).unwrap();
        assert_eq!(measured.transactions() + measured.failed.iter().sum::<u64>(), 2000);
        assert_eq!(measured.conflicts, 0);
        assert!(has_evicted(&database));
        all_hold(&tatp::check(&database, &spec, &[&measured]).unwrap());
        let rates = tatp::rates(&[(&workload, &measured)]);
        assert!(rates.iter().all(tatp::Rate::holds), "{rates:#?}");
    }
}

#[test]
fn the_conditions_of_tpcc_hold_with_eight_workers() {
    for engine in engines() {
        let spec = tpcc::Spec {
            warehouses: 2,
            items: 50,
            customers: 20,
            transactions: 300,
            remote: true,
            ..tpcc::Spec::default()
        };
        let (database, _directory) = create(engine, &tpcc::schema());
        tpcc::load(&database, &spec, 1, &()).unwrap();
        let workload = tpcc::Workload::generate(&spec).unwrap();
        let measured = tpcc::run(&database, &workload, &by(WORKERS), &()).unwrap();
        println!("{} retries", measured.retries);
        assert_eq!(measured.transactions() + measured.aborted, 300);
        assert_eq!(measured.conflicts, 0);
        assert!(has_evicted(&database));
        let conditions = tpcc::check(&database, &spec).unwrap();
        assert!(conditions.iter().all(Condition::holds), "{conditions:#?}");
    }
}
