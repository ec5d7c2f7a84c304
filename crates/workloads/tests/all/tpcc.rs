//! TPC-C on every engine: the population, the twelve conditions, and that the same seed leaves the
//! same database.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use faults::points::at_all;
use perdura::{Database, Domain, EngineKind, Options, Row, Scan, Table, Value};
use workloads::tpcc::{self, Condition, Kind, Measured, Spec, Verification, Workload};
use workloads::ycsb::{self, Mix};
use workloads::{Commit, Contents, PerduraStore, Progress, RunError, RunOptions, contents};

use Value::{I64, U64};

fn spec() -> Spec {
    Spec { warehouses: 2, items: 100, customers: 30, transactions: 1500, ..Spec::default() }
}

fn options(engine: EngineKind) -> Options {
    Options::new().engine(engine).domain(Domain::Process)
}

fn loaded(path: &Path, engine: EngineKind, spec: &Spec) -> Database {
    let options = options(engine).partitions(spec.partitions as u32);
    let database = Database::create(path, &tpcc::schema(), &options).unwrap();
    tpcc::load(&database, spec, 2, &()).unwrap();
    database
}

fn run(database: &Database, workload: &Workload) -> Measured {
    tpcc::run(database, workload, &RunOptions::default(), &()).unwrap()
}

fn violated(database: &Database, spec: &Spec) -> Vec<u8> {
    let conditions = tpcc::check(database, spec).unwrap();
    assert!(conditions.iter().map(|condition| condition.number).eq(1..=12));
    let violated = conditions.iter().filter(|condition| !condition.holds());
    violated.map(|Condition { number, .. }| *number).collect()
}

fn all_hold(database: &Database, spec: &Spec) {
    let conditions = tpcc::check(database, spec).unwrap();
    assert!(conditions.iter().all(Condition::holds), "{conditions:#?}");
}

fn each_row(database: &Database, table: &str, columns: &[&str], mut visit: impl FnMut(&Row)) {
    let table = database.table(table).unwrap();
    let columns: Vec<u16> = columns.iter().map(|name| table.column(name).unwrap()).collect();
    for partition in 0..database.partition_count() {
        let scan = Scan::all().columns(&columns);
        let mut visit = |row: &Row| {
            visit(row);
            ControlFlow::Continue(())
        };
        database.partition(partition).read(|tx| tx.scan(&table, &scan, &mut visit)).unwrap();
    }
}

/// Returns one of two ways, by turns; both with `PERDURA_POINTS=all`.
fn by_turns<T>(ways: &[T; 2], turn: usize) -> &[T] {
    if at_all() { ways } else { std::slice::from_ref(&ways[turn % 2]) }
}

#[test]
fn the_population_has_the_specified_rows() {
    let directory = crate::in_memory();
    let spec = Spec { warehouses: 3, partitions: 2, ..spec() };
    let database = loaded(&directory.path().join("db"), EngineKind::NvmInp, &spec);
    let found = contents(&database).unwrap();
    let tuples =
        |name: &str| found.tables.iter().find(|table| table.name == name).map(|table| table.tuples);
    assert_eq!(tuples("warehouse"), Some(3));
    assert_eq!(tuples("district"), Some(30));
    for name in ["customer", "history", "orders"] {
        assert_eq!(tuples(name), Some(900), "{name}");
    }
    assert_eq!(tuples("new_order"), Some(270));
    assert_eq!(tuples("stock"), Some(300));
    // In each partition.
    assert_eq!(tuples("item"), Some(200));
    let lines = tuples("order_line").unwrap();
    assert!((8500..9500).contains(&lines), "{lines}");
    assert!(spec.tuples().abs_diff(found.tuples()) < 500, "{}", found.tuples());
    assert!(found.user_bytes() > 100 * found.tuples());

    let mut names = BTreeMap::new();
    each_row(&database, "customer", &["c_w_id", "c_d_id", "c_last"], |row| {
        *names.entry(row.text(2).to_owned()).or_insert(0) += 1;
    });
    assert_eq!(names.len(), 30, "each district has the first thirty names: {names:?}");
    assert!(names.values().all(|&count| count == 30));
    let mut bad = 0;
    each_row(&database, "customer", &["c_credit"], |row| bad += u32::from(row.text(0) == "BC"));
    assert!((50..140).contains(&bad), "{bad}");
    each_row(&database, "order_line", &["ol_o_id", "ol_delivery_d", "ol_amount"], |row| {
        let delivered = row.u64(0) <= 21;
        assert_eq!((row.u64(1) == 0, row.i64(2) == 0), (!delivered, delivered));
    });
}

#[test]
fn the_population_does_not_depend_on_partitions_or_workers() {
    let directory = crate::in_memory();
    let whole = spec();
    let parts = Spec { partitions: 2, ..spec() };
    let one = loaded(&directory.path().join("one"), EngineKind::NvmInp, &whole);
    let two = loaded(&directory.path().join("two"), EngineKind::NvmInp, &parts);
    let rows = |database: &Database| {
        let mut rows = Vec::new();
        each_row(database, "stock", &["s_w_id", "s_i_id", "s_quantity", "s_data"], |row| {
            rows.push((row.u64(0), row.u64(1), row.i64(2), row.text(3).to_owned()));
        });
        rows.sort();
        rows
    };
    assert_eq!(rows(&one), rows(&two));
}

#[test]
fn last_names_beyond_the_first_thousand_are_drawn() {
    let directory = crate::in_memory();
    let spec = Spec { warehouses: 1, items: 1, customers: 1500, transactions: 0, ..spec() };
    let database = loaded(&directory.path().join("db"), EngineKind::NvmInp, &spec);
    let mut names: BTreeMap<_, u32> = BTreeMap::new();
    each_row(&database, "customer", &["c_last"], |row| {
        *names.entry(row.text(0).to_owned()).or_default() += 1;
    });
    assert_eq!(names.len(), 1000);
    // Ten districts have each name once; half as many again are drawn, and not uniformly.
    assert!(names.values().all(|&count| count >= 10));
    assert!(names.values().any(|&count| count > 22), "{:?}", names.values().max());
}

#[test]
fn all_conditions_hold_after_loading_a_run_and_a_kill() {
    use EngineKind::{Fast, Log, NvDisk, NvmInp, Sofort};
    all_conditions_hold(&[NvmInp, Log, NvDisk, Fast, Sofort], 400);
}

pub(crate) fn all_conditions_hold(engines: &[EngineKind], transactions: u64) {
    for (number, &engine) in engines.iter().enumerate() {
        for &(partitions, remote) in by_turns(&[(1, true), (2, false)], number) {
            println!("{engine}, {partitions} partitions");
            let directory = crate::in_memory();
            let path = directory.path().join("db");
            let spec = Spec { partitions, remote, transactions, ..spec() };
            let database = loaded(&path, engine, &spec);
            all_hold(&database, &spec);
            let workload = Workload::generate(&spec).unwrap();
            let measured = run(&database, &workload);
            all_hold(&database, &spec);
            assert!(measured.aborted > 0);
            assert_eq!(measured.transactions() + measured.aborted, transactions);
            for kind in Kind::ALL {
                assert!(measured.committed(kind) > transactions / 50, "{kind:?}");
            }
            let before = contents(&database).unwrap();
            database.abandon();
            let database = Database::open(&path, &options(engine)).unwrap();
            all_hold(&database, &spec);
            assert_eq!(contents(&database).unwrap(), before);
            assert_eq!(database.check().unwrap().leaked, 0);
            // It goes on where it was.
            run(&database, &workload.after(transactions / 5).unwrap());
            all_hold(&database, &spec);
        }
    }
}

/// The contents after TPC-C, with orders rolled back.
fn after_tpcc(engine: EngineKind, spec: &Spec, commit: Commit) -> Contents {
    let directory = crate::in_memory();
    let options = match commit {
        Commit::Durable => options(engine),
        Commit::Grouped(group) => options(engine).commit(perdura::Commit::grouped(group)),
    };
    let options = options.partitions(spec.partitions as u32);
    let path = directory.path().join("db");
    let database = Database::create(path, &tpcc::schema(), &options).unwrap();
    tpcc::load(&database, spec, 1, &()).unwrap();
    let workload = Workload::generate(spec).unwrap();
    let options = RunOptions { commit, workers: spec.partitions, ..RunOptions::default() };
    let progress = Progress::new(spec.partitions);
    let measured = tpcc::run(&database, &workload, &options, &progress).unwrap();
    assert!(measured.aborted > 0);
    assert_eq!(progress.total(), spec.transactions);
    contents(&database).unwrap()
}

#[test]
fn the_same_seed_leaves_the_same_database_in_every_engine() {
    same_database_in_every_engine(2);
}

/// Each engine has one in so many of the numbers of partitions.
pub(crate) fn same_database_in_every_engine(one_in: usize) {
    for partitions in [1, 2] {
        let spec = Spec { partitions, ..spec() };
        let expected = after_tpcc(EngineKind::NvmInp, &spec, Commit::Durable);
        for (number, engine) in
            EngineKind::ALL.into_iter().enumerate().skip(partitions % one_in).step_by(one_in)
        {
            let commits = [Commit::Durable, Commit::Grouped(7)];
            for &commit in by_turns(&commits, number / one_in + partitions) {
                let found = after_tpcc(engine, &spec, commit);
                assert_eq!(found, expected, "{engine}, {commit:?}");
                assert_eq!(found.digest(), expected.digest());
            }
        }
        // Published figures name a seed: what it stands for may never change.
        assert_eq!(
            expected.digest(),
            [0x0af4_cd31_d391_7a72, 0xfe9f_32de_f665_4462][partitions - 1],
            "{:016x}",
            expected.digest()
        );
        let other = after_tpcc(EngineKind::NvmInp, &Spec { seed: 2, ..spec }, Commit::Durable);
        assert_ne!(other.digest(), expected.digest());
    }
}

#[test]
fn ycsb_leaves_the_same_database_in_every_engine() {
    let spec = ycsb::Spec {
        tuples: 500,
        transactions: 3000,
        mix: Mix::WriteHeavy,
        update_columns: 3,
        partitions: 2,
        ..ycsb::Spec::default()
    };
    let workload = ycsb::Workload::generate(&spec).unwrap();
    let digest = |engine| {
        let directory = crate::in_memory();
        let path = directory.path().join("db");
        let options = options(engine).partitions(2);
        let database = Database::create(&path, &PerduraStore::schema(), &options).unwrap();
        let store = PerduraStore::new(database, engine.name(), &path, 2).unwrap();
        ycsb::load(&store, &workload, 1, &()).unwrap();
        ycsb::run(&store, &workload, &RunOptions::default(), &()).unwrap();
        // A transaction that is aborted leaves nothing.
        let database = store.into_database();
        let table = database.table("usertable").unwrap();
        let mut tx = database.partition(0).begin().unwrap();
        tx.delete(&table, &[U64(0)]).unwrap();
        tx.update(&table, &[U64(2)], &[(1, Value::Bytes(b"gone"))]).unwrap();
        tx.abort().unwrap();
        contents(&database).unwrap().digest()
    };
    let digests = EngineKind::ALL.map(digest);
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:x?}");
}

#[test]
fn a_digest_notices_every_change() {
    let directory = crate::in_memory();
    let database = loaded(&directory.path().join("db"), EngineKind::NvmInp, &spec());
    let digest = || contents(&database).unwrap().digest();
    let before = digest();
    let warehouse = database.table("warehouse").unwrap();
    let mut row = Row::new();
    assert!(database.read(|tx| tx.get_into(&warehouse, &[U64(1)], &mut row)).unwrap());
    for column in 1..row.len() {
        let changed = match row.get(column) {
            I64(number) => I64(number + 1),
            Value::Text(_) => Value::Text("?"),
            other => panic!("{other:?}"),
        };
        let update = |value| {
            database
                .write(|tx| tx.update(&warehouse, &[U64(1)], &[(column as u16, value)]))
                .unwrap();
        };
        update(changed);
        assert_ne!(digest(), before, "column {column}");
        update(row.get(column));
        assert_eq!(digest(), before);
    }
}

/// A population that has been run, to be damaged.
struct Victim {
    database: Database,
    spec: Spec,
    _directory: tempfile::TempDir,
}

impl Victim {
    fn new() -> Self {
        let directory = crate::in_memory();
        let spec = spec();
        let database = loaded(&directory.path().join("db"), EngineKind::NvmInp, &spec);
        run(&database, &Workload::generate(&spec).unwrap());
        all_hold(&database, &spec);
        Self { database, spec, _directory: directory }
    }

    fn table(&self, name: &str) -> Table {
        self.database.table(name).unwrap()
    }

    fn get(&self, table: &str, key: &[u64], column: &str) -> i64 {
        let table = self.table(table);
        let columns = [table.column(column).unwrap()];
        let key: Vec<_> = key.iter().copied().map(U64).collect();
        let mut row = Row::new();
        let found = self.database.read(|tx| tx.get_columns_into(&table, &key, &columns, &mut row));
        assert!(found.unwrap(), "{} {key:?}", table.name());
        match row.get(0) {
            U64(number) => number.cast_signed(),
            I64(number) => number,
            other => panic!("{other:?}"),
        }
    }

    /// Adds to a number.
    fn add(&self, table: &str, key: &[u64], column: &str, more: i64) {
        let number = self.get(table, key, column) + more;
        let table = self.table(table);
        let column = table.column(column).unwrap();
        let key: Vec<_> = key.iter().copied().map(U64).collect();
        let signed = table.schema().columns()[usize::from(column)].kind == perdura::ColumnType::I64;
        let value = if signed { I64(number) } else { U64(number.cast_unsigned()) };
        self.database.write(|tx| tx.update(&table, &key, &[(column, value)])).unwrap();
    }

    fn delete(&self, table: &str, key: &[u64]) {
        let table = self.table(table);
        let key: Vec<_> = key.iter().copied().map(U64).collect();
        self.database.write(|tx| tx.delete(&table, &key)).unwrap();
    }

    fn insert(&self, table: &str, values: &[Value<'_>]) {
        let table = self.table(table);
        self.database.write(|tx| tx.insert(&table, values)).unwrap();
    }

    /// Exactly these conditions do not hold, and hold again when the damage is undone.
    fn violates(&self, expected: &[u8], damage: impl FnOnce(), repair: impl FnOnce()) {
        damage();
        assert_eq!(violated(&self.database, &self.spec), expected);
        repair();
        all_hold(&self.database, &self.spec);
    }

    /// The same for a number that is one too high.
    fn violates_by_one(&self, expected: &[u8], table: &str, key: &[u64], column: &str) {
        let add = |more| self.add(table, key, column, more);
        self.violates(expected, || add(1), || add(-1));
    }
}

#[test]
fn each_condition_notices_its_damage() {
    let victim = Victim::new();
    let next = victim.get("district", &[2, 3], "d_next_o_id").cast_unsigned();
    let (newest, older) = ([2, 3, next - 1], [2, 3, next - 2]);
    // Only the oldest orders of the population are sure to have been delivered.
    let (delivered, line) = ([2, 3, 1], [2, 3, 1, 1]);
    victim.violates_by_one(&[1, 8], "warehouse", &[2], "w_ytd");
    victim.violates_by_one(&[1, 9], "district", &[2, 3], "d_ytd");
    victim.violates_by_one(&[2], "district", &[2, 3], "d_next_o_id");
    let row = older.map(U64);
    victim.violates(
        &[3, 5, 11],
        || victim.delete("new_order", &older),
        || victim.insert("new_order", &[row[2], row[1], row[0]]),
    );
    victim.violates_by_one(&[4, 6], "orders", &delivered, "o_ol_cnt");
    victim.violates_by_one(&[5, 7], "orders", &newest, "o_carrier_id");
    let stray = [2, 3, 1, 99].map(U64);
    let loose = [stray[2], stray[1], stray[0], stray[3]];
    let rest = [U64(1), U64(2), U64(1), I64(5), I64(0), Value::Text("")];
    let count = |more| victim.add("orders", &[2, 3, 2], "o_ol_cnt", more);
    victim.violates(
        &[6],
        || {
            victim.insert("order_line", &[&loose[..], &rest].concat());
            count(1);
        },
        || {
            victim.delete("order_line", &[2, 3, 1, 99]);
            count(-1);
        },
    );
    // Loaded with the date 1 and the amount 0: only the date matters here.
    let date = |more| victim.add("order_line", &line, "ol_delivery_d", more);
    victim.violates(&[7], || date(-1), || date(1));
    victim.violates_by_one(&[8, 9, 10], "history", &[2, 5], "h_amount");
    victim.violates_by_one(&[9], "history", &[2, 5], "h_d_id");
    victim.violates_by_one(&[10], "history", &[2, 5], "h_c_id");
    let move_money = |more: i64| {
        victim.add("customer", &[2, 3, 4], "c_balance", more);
        victim.add("customer", &[2, 3, 4], "c_ytd_payment", -more);
    };
    victim.violates(&[10], || move_money(1), || move_money(-1));
    victim.violates_by_one(&[11], "customer", &[2, 3, 4], "c_delivery_cnt");
    victim.violates_by_one(&[12], "customer", &[2, 3, 4], "c_ytd_payment");
    victim.violates_by_one(&[10, 12], "order_line", &line, "ol_amount");
}

#[test]
fn what_was_found_is_said() {
    let victim = Victim::new();
    victim.add("warehouse", &[2], "w_ytd", 1);
    let conditions = tpcc::check(&victim.database, &victim.spec).unwrap();
    let said = conditions[0].violation.as_ref().unwrap();
    assert!(said.starts_with("warehouse 2: W_YTD is ") && said.contains("D_YTD"), "{said}");
}

#[test]
fn a_database_that_is_cut_otherwise_is_refused() {
    let directory = crate::in_memory();
    let database = loaded(&directory.path().join("db"), EngineKind::NvmInp, &spec());
    let workload = Workload::generate(&Spec { partitions: 2, ..spec() }).unwrap();
    let refused = tpcc::run(&database, &workload, &RunOptions::default(), &()).unwrap_err();
    assert!(matches!(refused, RunError::Partitions { store: 1, workload: 2 }), "{refused}");
    let options = RunOptions { workers: 0, ..RunOptions::default() };
    let workload = Workload::generate(&spec()).unwrap();
    let refused = tpcc::run(&database, &workload, &options, &()).unwrap_err();
    assert!(matches!(refused, RunError::NoWorkers), "{refused}");
    // Without the population the first transaction says what it misses.
    let path = directory.path().join("empty");
    let empty = Database::create(path, &tpcc::schema(), &options_of_default()).unwrap();
    let error = tpcc::run(&empty, &workload, &RunOptions::default(), &()).unwrap_err();
    assert!(error.to_string().contains("was it loaded?"), "{error}");
}

fn options_of_default() -> Options {
    options(EngineKind::NvmInp)
}

/// Returns what verifying finds in a database that has acknowledged so many of its transactions.
fn verified(database: &Database, workload: &Workload, completed: &[u64]) -> Verification {
    let directory = crate::in_memory();
    let options = options(EngineKind::Inp).partitions(workload.spec().partitions as u32);
    let reference =
        Database::create(directory.path().join("db"), &tpcc::schema(), &options).unwrap();
    let commit = Commit::Durable;
    tpcc::verify(database, &reference, workload, completed, commit).unwrap()
}

#[test]
fn the_verifier_notices_what_is_lost_surplus_or_damaged() {
    let directory = crate::in_memory();
    let spec = Spec { partitions: 2, transactions: 400, ..spec() };
    let database = loaded(&directory.path().join("db"), EngineKind::NvmInp, &spec);
    let workload = Workload::generate(&spec).unwrap();
    run(&database, &workload);
    assert_eq!(verified(&database, &workload, &[200, 200]), Verification::default());

    // Acknowledged one less than there are: the last change of a partition may be there.
    let last_change = |partition: usize| {
        let changes = |input: &tpcc::Input| !input.kind().is_read_only() && !input.is_rolled_back();
        workload.inputs(partition).all().iter().rposition(changes).unwrap() as u64
    };
    let before_last = [last_change(0), last_change(1)];
    let found = verified(&database, &workload, &before_last);
    assert_eq!(found, Verification { in_flight: 2, ..Verification::default() });
    // Two less: they cannot all have been under way.
    let found = verified(&database, &workload, &[before_last[0] - 1, 200]);
    assert!(found.surplus > 0 && !found.is_clean(), "{found:?}");

    // Of a longer run, later transactions are lost.
    let more = Workload::generate(&Spec { transactions: 440, ..spec.clone() }).unwrap();
    let changes = |partition: usize| {
        let inputs = &more.inputs(partition).all()[200..];
        let changes =
            |input: &&tpcc::Input| !input.kind().is_read_only() && !input.is_rolled_back();
        inputs.iter().filter(changes).count() as u64
    };
    let found = verified(&database, &more, &[220, 220]);
    assert_eq!(found, Verification { lost: changes(0) + changes(1), ..Verification::default() });

    // A tuple of which one column is wrong.
    let stock = database.table("stock").unwrap();
    let change = [(stock.column("s_quantity").unwrap(), I64(-1))];
    database.partition(1).write(|tx| tx.update(&stock, &[U64(2), U64(7)], &change)).unwrap();
    let found = verified(&database, &workload, &[200, 200]);
    let tables = vec!["stock".to_owned()];
    let expected =
        Verification { differing_tuples: 1, differing_tables: tables, ..Verification::default() };
    assert_eq!(found, expected);
    assert!(!found.is_clean());
}

#[test]
fn the_first_commit_changes_nothing() {
    let directory = crate::in_memory();
    let database = loaded(&directory.path().join("db"), EngineKind::NvmInp, &spec());
    let before = contents(&database).unwrap();
    let name = tpcc::first_read(&database).unwrap();
    tpcc::first_commit(&database, &name).unwrap();
    assert_eq!(contents(&database).unwrap(), before);
}
