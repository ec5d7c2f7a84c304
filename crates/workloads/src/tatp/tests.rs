//! Each transaction against a small population, worked out by hand.

use perdura::Value::{Text, U64};
use perdura::{Database, Domain, EngineKind, Options, Row, Value};

use super::population::Shape;
use super::*;
use crate::connection::Connection;
use crate::terminals::Outcome::{self, Committed, Failed};

const SUBSCRIBERS: u32 = 40;

struct Register {
    database: Database,
    _directory: tempfile::TempDir,
}

impl Register {
    fn new(engine: EngineKind) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = Options::new().engine(engine).domain(Domain::Process);
        let path = directory.path().join("register");
        let database = Database::create(path, &schema(), &options).unwrap();
        let spec = Spec { subscribers: SUBSCRIBERS, ..Spec::default() };
        load(&database, &spec, 1, &()).unwrap();
        Self { database, _directory: directory }
    }

    fn does(&self, input: Input) -> Outcome {
        let spec = Spec { subscribers: SUBSCRIBERS, transactions: 1, ..Spec::default() };
        let workload = Workload::of_one(&spec, input);
        let connection = Connection::open(&self.database, 0, true).unwrap();
        Terminal::at(&self.database, connection, &workload, 0).unwrap().run(0).unwrap()
    }

    fn row(&self, table: &str, key: &[u64]) -> Option<Row> {
        let table = self.database.table(table).unwrap();
        let key: Vec<Value<'_>> = key.iter().copied().map(U64).collect();
        self.database.get(&table, &key).unwrap()
    }

    fn column(&self, table: &str, key: &[u64], column: &str) -> u64 {
        self.row(table, key).unwrap().try_get(column).unwrap()
    }

    fn digest(&self) -> u64 {
        crate::contents(&self.database).unwrap().digest()
    }

    /// A subscriber with facility 2 that is as asked for.
    fn with_facility(&self, active: bool) -> u64 {
        let fits = |facility: &population::Facility| {
            facility.kind == 2 && facility.active == active && facility.forwarded == 0
        };
        (1..=1_000_000)
            .find(|id| Shape::of(1, *id).facilities.iter().any(fits))
            .filter(|id| *id <= SUBSCRIBERS.into())
            .expect("one of forty has")
    }

    fn without_facility(&self) -> u64 {
        let lacks = |id: &u64| Shape::of(1, *id).facilities.iter().all(|one| one.kind != 2);
        (1..=SUBSCRIBERS.into()).find(lacks).expect("one of forty has none")
    }
}

fn input(kind: Kind, subscriber: u64, start: u8, end: u8, value: u32) -> Input {
    Input { kind, of: 2, start, end, subscriber: subscriber as u32, value }
}

fn each_engine(test: impl Fn(Register)) {
    for engine in EngineKind::ALL {
        println!("{engine}");
        test(Register::new(engine));
    }
}

#[test]
fn a_location_is_updated_by_number_and_always() {
    each_engine(|register| {
        let moved = input(Kind::UpdateLocation, 7, 0, 1, 4_000_000_000);
        assert_eq!(register.does(moved), Committed);
        assert_eq!(register.column("subscriber", &[7], "vlr_location"), 4_000_000_000);
        let seen = input(Kind::GetSubscriberData, 7, 0, 1, 0);
        assert_eq!(register.does(seen), Committed);
    });
}

#[test]
fn updating_a_missing_facility_leaves_the_flag() {
    each_engine(|register| {
        let (there, none) = (register.with_facility(true), register.without_facility());
        let before = register.column("subscriber", &[none], "bit_1") as u32;
        let digest = register.digest();
        let update = |id, flag: u32| input(Kind::UpdateSubscriberData, id, 0, 1, flag | 171 << 1);
        assert_eq!(register.does(update(none, 1 - before)), Failed);
        assert_eq!(register.digest(), digest, "nothing of it is left");
        let flag = 1 - register.column("subscriber", &[there], "bit_1") as u32;
        assert_eq!(register.does(update(there, flag)), Committed);
        assert_eq!(register.column("subscriber", &[there], "bit_1"), u64::from(flag));
        assert_eq!(register.column("special_facility", &[there, 2], "data_a"), 171);
    });
}

#[test]
fn calls_are_forwarded_once_and_no_longer_once() {
    each_engine(|register| {
        let id = register.with_facility(true);
        let digest = register.digest();
        let insert = |id| input(Kind::InsertCallForwarding, id, 8, 13, 77);
        let delete = |id| input(Kind::DeleteCallForwarding, id, 8, 1, 0);
        assert_eq!(register.does(insert(register.without_facility())), Failed);
        assert_eq!(register.does(delete(id)), Failed);
        assert_eq!(register.digest(), digest, "nothing of them is left");
        assert_eq!(register.does(insert(id)), Committed);
        let row = register.row("call_forwarding", &[id, 2, 8]).unwrap();
        let expected = [U64(id), U64(2), U64(8), U64(13), Text("000000000000077")];
        assert!(row.values().eq(expected), "{row:?}");
        assert_eq!(register.does(insert(id)), Failed);
        assert_eq!(register.does(delete(id)), Committed);
        assert_eq!(register.does(delete(id)), Failed);
        assert_eq!(register.digest(), digest);
    });
}

#[test]
fn a_destination_is_that_of_an_active_facility_at_that_time() {
    each_engine(|register| {
        let (active, dead) = (register.with_facility(true), register.with_facility(false));
        for id in [active, dead] {
            let insert = input(Kind::InsertCallForwarding, id, 8, 13, 77);
            assert_eq!(register.does(insert), Committed);
        }
        let ask = |id, start, end| register.does(input(Kind::GetNewDestination, id, start, end, 0));
        assert_eq!([ask(active, 8, 12), ask(active, 16, 1)], [Committed, Committed]);
        // It begins later, or it has ended.
        assert_eq!([ask(active, 0, 12), ask(active, 8, 13)], [Failed, Failed]);
        assert_eq!(ask(dead, 8, 12), Failed);
        assert_eq!(ask(register.without_facility(), 8, 12), Failed);
    });
}

#[test]
fn access_data_are_there_or_not() {
    each_engine(|register| {
        for id in 1..=u64::from(SUBSCRIBERS) {
            let has = Shape::of(1, id).access & 1 << 1 != 0;
            let expected = if has { Committed } else { Failed };
            assert_eq!(register.does(input(Kind::GetAccessData, id, 0, 1, 0)), expected);
        }
    });
}

#[test]
fn a_missing_subscriber_is_an_error_not_an_expected_failure() {
    let register = Register::new(EngineKind::NvmInp);
    let spec = Spec { subscribers: 1000, transactions: 1, ..Spec::default() };
    for kind in [Kind::UpdateLocation, Kind::UpdateSubscriberData, Kind::DeleteCallForwarding] {
        let workload = Workload::of_one(&spec, input(kind, 999, 0, 1, 0));
        let mut terminal = Terminal::new(&register.database, &workload, 0).unwrap();
        let error = terminal.run(0).unwrap_err().to_string();
        assert!(error.contains("`subscriber`"), "{error}");
    }
}
