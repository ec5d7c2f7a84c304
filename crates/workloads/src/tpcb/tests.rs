//! The transaction against a small population, worked out by hand.

use perdura::Value::{I64, U64};
use perdura::{Database, Domain, EngineKind, Options, Table, Value};

use super::*;
use crate::form::Form;

fn bank(engine: EngineKind, spec: &Spec) -> (Database, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let options = Options::new().engine(engine).domain(Domain::Process);
    let options = options.partitions(spec.partitions as u32);
    let database = Database::create(directory.path().join("bank"), &schema(), &options).unwrap();
    load(&database, spec, 1, &()).unwrap();
    (database, directory)
}

fn balance(database: &Database, table: &str, id: u64) -> i64 {
    let table = database.table(table).unwrap();
    database.get(&table, &[U64(id)]).unwrap().unwrap().try_get(balance_of(&table)).unwrap()
}

fn balance_of(table: &Table) -> &'static str {
    match table.name() {
        "branch" => "b_balance",
        "teller" => "t_balance",
        _ => "a_balance",
    }
}

#[test]
fn an_amount_is_booked_four_times() {
    for engine in EngineKind::ALL {
        let spec = Spec { branches: 3, accounts: 7, transactions: 2, ..Spec::default() };
        let (database, _directory) = bank(engine, &spec);
        let workload = Workload::generate(&spec).unwrap();
        let input = workload.inputs(0)[1];
        let delta = i64::from(input.delta);
        let mut terminal = Terminal::new(&database, &workload, 0).unwrap();
        assert_eq!(terminal.run(1).unwrap(), delta, "{engine}");
        drop(terminal);
        for (table, id) in [
            ("account", input.account),
            ("teller", input.teller.into()),
            ("branch", (u64::from(input.teller) - 1) / 10 + 1),
        ] {
            assert_eq!(balance(&database, table, id), delta, "{engine}: {table} {id}");
        }
        let history = database.table("history").unwrap();
        let row = database.get(&history, &[U64(1)]).unwrap().unwrap();
        let noted: Vec<Value<'_>> = row.values().take(6).collect();
        let (teller, branch) = (U64(input.teller.into()), U64(input.branch()));
        assert_eq!(noted, [U64(1), teller, branch, U64(input.account), I64(delta), U64(2)]);
        assert!(check(&database, &spec).unwrap().iter().all(crate::Check::holds));
    }
}

#[test]
fn a_missing_account_is_an_error_and_leaves_nothing() {
    let spec = Spec { accounts: 7, transactions: 1, ..Spec::default() };
    let (database, _directory) = bank(EngineKind::NvmInp, &spec);
    let workload = Workload::generate(&Spec { accounts: 7000, ..spec.clone() }).unwrap();
    let mut terminal = Terminal::new(&database, &workload, 0).unwrap();
    let error = terminal.run(0).unwrap_err().to_string();
    assert!(error.contains("`account`"), "{error}");
    drop(terminal);
    assert!(check(&database, &spec).unwrap().iter().all(crate::Check::holds));
}

#[test]
fn rows_have_the_specified_bytes() {
    let spec = Spec { accounts: 1, transactions: 1, form: Form::ShoreKits, ..Spec::default() };
    let (database, _directory) = bank(EngineKind::NvmInp, &spec);
    let workload = Workload::generate(&spec).unwrap();
    Terminal::new(&database, &workload, 0).unwrap().run(0).unwrap();
    for (table, key, bytes) in
        [("branch", 1, 100), ("teller", 1, 100), ("account", 1, 100), ("history", 0, 50)]
    {
        let table = database.table(table).unwrap();
        let row = database.get(&table, &[U64(key)]).unwrap().unwrap();
        let columns = table.schema().columns().iter().zip(row.values());
        let sizes = columns.map(|(column, value)| match (column.kind, value) {
            (perdura::ColumnType::U32, _) => 4,
            (_, Value::Bytes(bytes)) => bytes.len(),
            _ => 8,
        });
        assert_eq!(sizes.sum::<usize>(), bytes, "{}", table.name());
    }
}
