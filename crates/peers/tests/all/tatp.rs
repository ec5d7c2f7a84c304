//! TATP on SQLite: its rows and rates are those of the benchmark, and faults in them are reported.

use peers::SqliteRegister;
use workloads::tatp::{Inspection, Kind, Register, Spec, Workload, rates};
use workloads::{Check, Measured, RunOptions};

fn spec() -> Spec {
    Spec { subscribers: 300, transactions: 2000, ..Spec::default() }
}

fn register() -> (tempfile::TempDir, SqliteRegister) {
    let directory = tempfile::tempdir().expect("a directory");
    let register = SqliteRegister::create(directory.path()).expect("creates");
    register.load(&spec(), &()).expect("loads");
    (directory, register)
}

/// Returns the rows, and the names of the checks that do not hold after these runs.
fn look(register: &SqliteRegister, runs: &[&Measured]) -> (u64, Vec<&'static str>) {
    let spec = spec();
    let mut inspection = Inspection::new(&spec);
    let rows = register.show(&mut inspection).expect("reads");
    let wrong = inspection.end(runs).into_iter().filter(|check| !check.holds());
    (rows, wrong.map(|check: Check| check.name).collect())
}

#[test]
fn rows_and_rates_are_those_of_the_benchmark() {
    let (_directory, register) = register();
    let (loaded, wrong) = look(&register, &[]);
    assert!(loaded > 300 * 5 && wrong.is_empty(), "{loaded}, {wrong:?}");
    let first = Workload::generate(&spec()).expect("generates");
    let second = first.after(500).expect("generates");
    let run = |workload: &Workload, workers: usize| {
        let options = RunOptions { workers, ..RunOptions::default() };
        register.run(workload, &options, &()).expect("runs")
    };
    let measured = [run(&first, 1), run(&second, 4)];
    let runs = [&measured[0], &measured[1]];
    let (rows, wrong) = look(&register, &runs);
    assert_eq!(wrong, Vec::<&str>::new());
    let changes = |kind: Kind| runs.iter().map(|run| run.committed(kind as usize)).sum::<u64>();
    let (inserted, deleted) =
        (changes(Kind::InsertCallForwarding), changes(Kind::DeleteCallForwarding));
    assert!(inserted > 10 && deleted > 10, "{inserted}, {deleted}");
    assert_eq!(rows + deleted, loaded + inserted);
    for rate in rates(&[(&first, runs[0]), (&second, runs[1])]) {
        assert!(rate.holds(), "{rate:?}");
        assert!(rate.tries > rate.succeeded || rate.expected_percent.0 == 100.0, "{rate:?}");
    }
    // They do not hold by chance.
    assert_eq!(look(&register, &runs[..1]).1, ["forwarded"]);
}
