//! Each transaction against a small population, worked out by hand.

use std::ops::ControlFlow;

use perdura::Value::{I64, Text, U64};
use perdura::{Database, Domain, EngineKind, Error, Options, Row, Scan, Table, Tx, Value};

use super::buffers::Buffers;
use super::inputs::{CustomerSelector, Line};
use super::new_order::{self, Entered, NewOrder, UnusedItem};
use super::order_status::{self, Status};
use super::payment::{self, Payment};
use super::schema::{self, Tables};
use super::spec::Spec;
use super::{customer, delivery, stock_level};

/// Customers of a district.
const CUSTOMERS: u64 = 30;
/// The first order of a district that is not delivered.
const FIRST_NEW: u64 = 22;
/// The date of the transactions below.
const DATE: u64 = 77;

struct Fixture {
    database: Database,
    tables: Tables,
    buffers: Buffers,
    _directory: tempfile::TempDir,
}

impl Fixture {
    fn new(engine: EngineKind) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = Options::new().engine(engine).domain(Domain::Process);
        let path = directory.path().join("fixture");
        let database = Database::create(path, &schema::schema(), &options).unwrap();
        let spec =
            Spec { warehouses: 2, items: 50, customers: CUSTOMERS as u32, ..Spec::default() };
        super::load(&database, &spec, 1, &()).unwrap();
        let tables = Tables::of(&database).unwrap();
        Self { database, tables, buffers: Buffers::default(), _directory: directory }
    }

    /// Runs a transaction and commits it.
    fn write<R>(
        &mut self,
        work: impl FnOnce(&mut Tx<'_>, &Tables, &mut Buffers) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut work = Some(work);
        self.database.write(|tx| {
            let work = work.take().expect("run once");
            work(tx, &self.tables, &mut self.buffers)
        })
    }

    fn update(&self, table: &Table, key: &[Value<'_>], changes: &[(u16, Value<'_>)]) {
        self.database.write(|tx| tx.update(table, key, changes)).unwrap();
    }

    fn row(&self, table: &Table, key: &[Value<'_>]) -> Option<Row> {
        let mut row = Row::new();
        self.database.read(|tx| tx.get_into(table, key, &mut row)).unwrap().then_some(row)
    }

    fn number(&self, table: &Table, key: &[Value<'_>], column: u16) -> i64 {
        match self.row(table, key).expect("a tuple").get(usize::from(column)) {
            U64(number) => number.cast_signed(),
            I64(number) => number,
            other => panic!("{other:?} is no number"),
        }
    }

    fn count(&self, table: &Table, prefix: &[Value<'_>]) -> u64 {
        let mut count = 0;
        let mut visit = |_: &Row| {
            count += 1;
            ControlFlow::Continue(())
        };
        self.database.read(|tx| tx.scan(table, &Scan::prefix(prefix), &mut visit)).unwrap();
        count
    }

    fn digest(&self) -> u64 {
        crate::contents(&self.database).unwrap().digest()
    }
}

fn each_engine(test: impl Fn(Fixture)) {
    for engine in EngineKind::ALL {
        println!("{engine}");
        test(Fixture::new(engine));
    }
}

fn line(item: u32, supply_warehouse: u16, quantity: u16) -> Line {
    Line { item, supply_warehouse, quantity }
}

#[test]
fn a_new_order_takes_from_stock_and_adds_up() {
    each_engine(|mut fixture| {
        let tables = fixture.tables.clone();
        let (w, d, c) = (U64(1), U64(2), U64(3));
        fixture.update(&tables.warehouse, &[w], &[(schema::W_TAX, I64(1000))]);
        fixture.update(&tables.district, &[w, d], &[(schema::D_TAX, I64(500))]);
        fixture.update(&tables.customer, &[w, d, c], &[(schema::C_DISCOUNT, I64(2000))]);
        let original = (schema::S_DATA, Text("an ORIGINAL one"));
        let info = (schema::S_DIST_01 + 1, Text("for district 2"));
        fixture.update(
            &tables.stock,
            &[w, U64(7)],
            &[(schema::S_QUANTITY, I64(50)), original, info],
        );
        fixture.update(
            &tables.stock,
            &[U64(2), U64(8)],
            &[(schema::S_QUANTITY, I64(19)), original],
        );
        let item = |price, data| [(schema::I_PRICE, I64(price)), (schema::I_DATA, Text(data))];
        fixture.update(&tables.item, &[U64(7)], &item(10_00, "ORIGINAL"));
        fixture.update(&tables.item, &[U64(8)], &item(3_33, "none"));

        let lines = [line(7, 1, 4), line(8, 2, 10)];
        let order = NewOrder { warehouse: 1, district: 2, customer: 3, lines: &lines, date: DATE };
        let entered = fixture
            .write(|tx, tables, buffers| new_order::enter(tx, tables, &order, buffers))
            .unwrap();
        // (4 * 10.00 + 10 * 3.33) * (1 - 0.2) * (1 + 0.1 + 0.05) = 67.436
        assert_eq!(entered, Entered { order: CUSTOMERS + 1, total: 67_43, brand: 1 });

        let o = U64(entered.order);
        let next = fixture.number(&tables.district, &[w, d], schema::D_NEXT_O_ID);
        assert_eq!(next, entered.order as i64 + 1);
        let row = fixture.row(&tables.orders, &[w, d, o]).unwrap();
        let expected = [o, d, w, c, U64(DATE), U64(0), U64(2), U64(0)];
        assert!(row.values().eq(expected), "{row:?}");
        assert!(fixture.row(&tables.new_order, &[w, d, o]).is_some());
        let row = fixture.row(&tables.order_line, &[w, d, o, U64(1)]).unwrap();
        let expected =
            [o, d, w, U64(1), U64(7), w, U64(0), I64(4), I64(40_00), Text("for district 2")];
        assert!(row.values().eq(expected), "{row:?}");
        let amount = fixture.number(&tables.order_line, &[w, d, o, U64(2)], schema::OL_AMOUNT);
        assert_eq!(amount, 33_30);
        assert_eq!(fixture.count(&tables.order_line, &[w, d, o]), 2);

        let stock = |key: [u64; 2]| {
            let columns =
                [schema::S_QUANTITY, schema::S_YTD, schema::S_ORDER_CNT, schema::S_REMOTE_CNT];
            columns.map(|column| fixture.number(&tables.stock, &key.map(U64), column))
        };
        assert_eq!(stock([1, 7]), [46, 4, 1, 0]);
        // 9 left would be below 10: 91 come in.
        assert_eq!(stock([2, 8]), [100, 10, 1, 1]);
        assert_eq!(stock([1, 8])[1..], [0, 0, 0]);
    });
}

#[test]
fn an_order_with_an_unused_item_leaves_nothing() {
    each_engine(|mut fixture| {
        let before = fixture.digest();
        let lines = [line(7, 1, 4), line(8, 1, 10), line(51, 1, 1)];
        let order = NewOrder { warehouse: 1, district: 2, customer: 3, lines: &lines, date: DATE };
        let entered =
            fixture.write(|tx, tables, buffers| new_order::enter(tx, tables, &order, buffers));
        let Err(Error::User(why)) = entered else { panic!("{entered:?}") };
        assert!(why.is::<UnusedItem>(), "{why}");
        assert_eq!(fixture.digest(), before);
    });
}

fn payment(who: CustomerSelector, customer_warehouse: u64) -> Payment {
    Payment {
        warehouse: 1,
        district: 2,
        customer_warehouse,
        customer_district: 4,
        who,
        amount: 12_34,
        date: DATE,
        customers: CUSTOMERS,
    }
}

#[test]
fn payment_updates_customer_district_warehouse_history() {
    each_engine(|mut fixture| {
        let tables = fixture.tables.clone();
        let (w, d, c_w, c_d, c) = (U64(1), U64(2), U64(2), U64(4), U64(5));
        let key = [c_w, c_d, c];
        fixture.update(&tables.customer, &key, &[(schema::C_CREDIT, Text("GC"))]);
        let data = fixture.row(&tables.customer, &key).unwrap();
        let ytd = |fixture: &Fixture| {
            let warehouse = fixture.number(&tables.warehouse, &[w], schema::W_YTD);
            (warehouse, fixture.number(&tables.district, &[w, d], schema::D_YTD))
        };
        let before = ytd(&fixture);
        let paid = payment(CustomerSelector::Number(5), 2);
        let number =
            fixture.write(|tx, tables, buffers| payment::pay(tx, tables, &paid, buffers)).unwrap();
        assert_eq!(number, 5);
        assert_eq!(ytd(&fixture), (before.0 + 12_34, before.1 + 12_34));
        let row = fixture.row(&tables.customer, &key).unwrap();
        let of = |column: u16| row.get(usize::from(column));
        assert_eq!(of(schema::C_BALANCE), I64(-22_34));
        assert_eq!(of(schema::C_YTD_PAYMENT), I64(22_34));
        assert_eq!(of(schema::C_PAYMENT_CNT), U64(2));
        assert_eq!(of(schema::C_DATA), data.get(usize::from(schema::C_DATA)));
        let id = U64(10 * CUSTOMERS + DATE);
        let row = fixture.row(&tables.history, &[w, id]).unwrap();
        let names = [
            fixture.row(&tables.warehouse, &[w]).unwrap().text(1).to_owned(),
            fixture.row(&tables.district, &[w, d]).unwrap().text(2).to_owned(),
        ];
        let note = names.join("    ");
        let expected = [id, c, c_d, c_w, d, w, U64(DATE), I64(12_34), Text(&note)];
        assert!(row.values().eq(expected), "{row:?}");
    });
}

#[test]
fn bad_credit_is_noted_with_the_customer() {
    each_engine(|mut fixture| {
        let tables = fixture.tables.clone();
        let key = [U64(1), U64(4), U64(5)];
        let changes = [(schema::C_CREDIT, Text("BC")), (schema::C_DATA, Text("before"))];
        fixture.update(&tables.customer, &key, &changes);
        let paid = payment(CustomerSelector::Number(5), 1);
        fixture.write(|tx, tables, buffers| payment::pay(tx, tables, &paid, buffers)).unwrap();
        let row = fixture.row(&tables.customer, &key).unwrap();
        assert_eq!(row.text(usize::from(schema::C_DATA)), "5 4 1 2 1 12.34 | before");
    });
}

#[test]
fn of_several_with_a_last_name_the_middle_one_is_meant() {
    each_engine(|mut fixture| {
        let tables = fixture.tables.clone();
        // No customer of the population has this name: it has only the first thirty.
        let who = CustomerSelector::LastName(999);
        let rename = |number, first| {
            let names = [(schema::C_LAST, Text("EINGEINGEING")), (schema::C_FIRST, Text(first))];
            fixture.update(&tables.customer, &[U64(1), U64(2), U64(number)], &names);
        };
        let names = [(9, "m"), (4, "a"), (20, "z"), (11, "b"), (2, "zz")];
        let mut found = Vec::new();
        for (index, (number, first)) in names.into_iter().enumerate() {
            rename(number, first);
            let mut sorted = names[..=index].to_vec();
            sorted.sort_by_key(|(_, first)| *first);
            let number = fixture
                .database
                .read(|tx| customer::number(tx, &tables, 1, 2, who, &mut found))
                .unwrap();
            assert_eq!(number, sorted[index / 2].0, "{sorted:?}");
        }
        let missing = fixture.write(|tx, tables, buffers| {
            let who = CustomerSelector::LastName(998);
            customer::number(tx, tables, 1, 2, who, &mut buffers.numbers)
        });
        assert!(missing.unwrap_err().to_string().contains("`customer` lacks"));
    });
}

#[test]
fn the_status_is_that_of_the_last_order() {
    each_engine(|mut fixture| {
        let tables = fixture.tables.clone();
        let lines = [line(1, 1, 5), line(2, 1, 6), line(3, 1, 7)];
        let order = NewOrder { warehouse: 1, district: 2, customer: 3, lines: &lines, date: DATE };
        for _ in 0..2 {
            fixture
                .write(|tx, tables, buffers| new_order::enter(tx, tables, &order, buffers))
                .unwrap();
        }
        let price = |item| fixture.number(&tables.item, &[U64(item)], schema::I_PRICE);
        let amount = 5 * price(1) + 6 * price(2) + 7 * price(3);
        let mut buffers = Buffers::default();
        let mut status = |who| {
            let read = fixture
                .database
                .read(|tx| order_status::look_up(tx, &tables, (1, 2), who, &mut buffers));
            read.unwrap()
        };
        let expected =
            Status { customer: 3, balance: -10_00, order: CUSTOMERS + 2, lines: 3, amount };
        assert_eq!(status(CustomerSelector::Number(3)), expected);
        // The population's third customer has the last name of number 2.
        assert_eq!(status(CustomerSelector::LastName(2)), expected);
        // Everybody has ordered once.
        assert!((1..=CUSTOMERS).contains(&status(CustomerSelector::Number(4)).order));
    });
}

#[test]
fn a_delivery_takes_the_oldest_new_order_of_each_district() {
    each_engine(|mut fixture| {
        let tables = fixture.tables.clone();
        let (w, d, o) = (U64(1), U64(3), U64(FIRST_NEW));
        let customer = fixture.row(&tables.orders, &[w, d, o]).unwrap().u64(3);
        let mut amount = 0;
        let lines = fixture.number(&tables.orders, &[w, d, o], schema::O_OL_CNT) as u64;
        for number in 1..=lines {
            let line = [w, d, o, U64(number)];
            amount += fixture.number(&tables.order_line, &line, schema::OL_AMOUNT);
        }
        let deliver = |fixture: &mut Fixture| {
            let work = |tx: &mut Tx<'_>, tables: &Tables, buffers: &mut Buffers| {
                delivery::deliver(tx, tables, 1, 6, DATE, buffers)
            };
            fixture.write(work).unwrap()
        };
        assert_eq!(deliver(&mut fixture), 10);
        for district in 1..=10 {
            assert!(fixture.row(&tables.new_order, &[w, U64(district), o]).is_none());
            assert!(
                fixture.row(&tables.new_order, &[w, U64(district), U64(FIRST_NEW + 1)]).is_some()
            );
        }
        assert!(fixture.row(&tables.new_order, &[U64(2), d, o]).is_some());
        assert_eq!(fixture.number(&tables.orders, &[w, d, o], schema::O_CARRIER_ID), 6);
        for number in 1..=lines {
            let line = [w, d, o, U64(number)];
            let date = fixture.number(&tables.order_line, &line, schema::OL_DELIVERY_D);
            assert_eq!(date, DATE as i64);
        }
        let key = [w, d, U64(customer)];
        assert_eq!(fixture.number(&tables.customer, &key, schema::C_BALANCE), amount - 10_00);
        assert_eq!(fixture.number(&tables.customer, &key, schema::C_DELIVERY_CNT), 1);
        // Nine were open in each district; then one district has nothing left, then none has.
        for _ in 0..7 {
            assert_eq!(deliver(&mut fixture), 10);
        }
        fixture.database.write(|tx| tx.delete(&tables.new_order, &[w, d, U64(CUSTOMERS)])).unwrap();
        assert_eq!(deliver(&mut fixture), 9);
        assert_eq!(deliver(&mut fixture), 0);
    });
}

#[test]
fn the_stock_level_counts_each_item_of_the_last_orders_once() {
    each_engine(|mut fixture| {
        let tables = fixture.tables.clone();
        for item in 1..=50 {
            fixture.update(&tables.stock, &[U64(1), U64(item)], &[(schema::S_QUANTITY, I64(90))]);
        }
        // Twenty orders push those of the population out; the first of them is the oldest looked at.
        for number in 0..20 {
            let first = if number == 0 { line(7, 1, 1) } else { line(8, 1, 1) };
            let lines = [first, line(9, 1, 1)];
            let order =
                NewOrder { warehouse: 1, district: 2, customer: 3, lines: &lines, date: DATE };
            fixture
                .write(|tx, tables, buffers| new_order::enter(tx, tables, &order, buffers))
                .unwrap();
        }
        let mut buffers = Buffers::default();
        let mut low = |fixture: &Fixture| {
            let read = fixture
                .database
                .read(|tx| stock_level::count_low(tx, &tables, (1, 2), 15, &mut buffers));
            read.unwrap()
        };
        assert_eq!(low(&fixture), 0);
        for (item, quantity) in [(7, 14), (8, 15), (9, 10), (10, 1)] {
            let quantity = [(schema::S_QUANTITY, I64(quantity))];
            fixture.update(&tables.stock, &[U64(1), U64(item)], &quantity);
        }
        // 8 is at the threshold, 10 was not ordered.
        assert_eq!(low(&fixture), 2);
        let order = NewOrder {
            warehouse: 1,
            district: 2,
            customer: 3,
            lines: &[line(8, 1, 1)],
            date: DATE,
        };
        fixture.write(|tx, tables, buffers| new_order::enter(tx, tables, &order, buffers)).unwrap();
        // Now 7 is out of sight, and 8 below.
        assert_eq!(low(&fixture), 2);
    });
}
