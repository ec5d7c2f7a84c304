//! TPC-B on the peers: the balances agree after runs with many workers, and faults in them are
//! reported.

use std::path::Path;

use peers::{LmdbBank, PostgresBank, SqliteBank};
use workloads::tpcb::{Bank, BankConnection, Books, Spec, Workload};
use workloads::{Check, RunOptions};

fn spec() -> Spec {
    Spec { branches: 3, accounts: 50, transactions: 200, ..Spec::default() }
}

fn options(workers: usize) -> RunOptions {
    RunOptions { workers, ..RunOptions::default() }
}

fn violations(checks: &[Check]) -> Vec<&str> {
    checks.iter().filter_map(|check| check.violation.as_deref()).collect()
}

fn balances(bank: &impl Bank) -> Books {
    let spec = spec();
    bank.load(&spec, &()).expect("loads");
    let loaded = bank.books().expect("reads");
    assert!(violations(&loaded.check(&spec, 0)).is_empty(), "{loaded:?}");
    let first = Workload::generate(&spec).expect("generates");
    let second = first.after(100).expect("generates");
    let measured = bank.run(&first, &options(4), &()).expect("runs");
    assert_eq!(measured.transactions(), 200);
    assert_eq!(bank.run(&second, &options(1), &()).expect("runs").transactions(), 100);
    let books = bank.books().expect("reads");
    assert!(violations(&books.check(&spec, 300)).is_empty(), "{books:?}");
    // They do not hold by chance.
    let mut wrong = books.clone();
    *wrong.tellers.get_mut(&11).expect("a teller") += 1;
    let wrong = wrong.check(&spec, 301);
    let names: Vec<_> = wrong.iter().filter(|check| !check.holds()).map(|one| one.name).collect();
    assert_eq!(names, ["branches_tellers", "tellers_history", "population"]);
    books
}

fn with_directory<R>(work: impl FnOnce(&Path) -> R) -> R {
    let directory = tempfile::tempdir().expect("a directory");
    work(directory.path())
}

#[test]
fn all_hold_the_same_balances() {
    let of_sqlite = with_directory(|path| balances(&SqliteBank::create(path).expect("creates")));
    let of_lmdb =
        with_directory(|path| balances(&LmdbBank::create(path, &spec(), 300).expect("creates")));
    assert_eq!(of_sqlite, of_lmdb);
}

#[test]
fn a_transaction_that_fails_leaves_nothing() {
    fn fails(bank: &impl Bank) {
        let spec = spec();
        bank.load(&spec, &()).expect("loads");
        let before = bank.books().expect("reads");
        let mut connection = bank.connect().expect("a place");
        let entry = workloads::tpcb::Entry { id: 0, account: 1, teller: 31, branch: 1, delta: 5 };
        let error = connection.book(&entry).expect_err("there is no such teller");
        assert!(error.to_string().contains("key 31"), "{error}");
        assert_eq!(bank.books().expect("reads"), before);
    }
    with_directory(|path| fails(&SqliteBank::create(path).expect("creates")));
    with_directory(|path| fails(&LmdbBank::create(path, &spec(), 1).expect("creates")));
}

#[test]
#[ignore = "needs PostgreSQL's package"]
fn postgres_holds_its_balances_and_ends_with_its_bank() {
    with_directory(|path| {
        let spec = spec();
        let bank = PostgresBank::create(path, &spec, 4, &()).expect("starts");
        for (name, is) in
            [("synchronous_commit", "on"), ("fsync", "on"), ("full_page_writes", "on")]
        {
            assert_eq!(bank.setting(name).expect("asked"), is, "{name}");
        }
        let first = Workload::generate(&spec).expect("generates");
        assert_eq!(bank.run(&first, &options(4), &()).expect("runs").transactions(), 200);
        let books = bank.books().expect("reads");
        assert!(violations(&books.check(&spec, 200)).is_empty(), "{books:?}");
        assert!(bank.footprint_bytes().expect("looks") > 1 << 20);
        let pid =
            std::fs::read_to_string(path.join("postgres.0/data/postmaster.pid")).expect("runs");
        let pid = pid.lines().next().expect("a number").to_owned();
        drop(bank);
        assert!(!Path::new("/proc").join(pid).exists(), "the server has ended");
    });
}
