//! The initial population (clause 4.3.3.1).
//!
//! Each row is a function of the seed and of its key alone, so that it is the same in whatever
//! order, in however many partitions and by whichever engine it is loaded.

use perdura::Value::{I64, Text, U64};
use perdura::{Database, Environment, Error, Exclusive, Tx};

use super::draw::{Constants, LastName, Texts, between, percent, stream};
use super::schema::{LOADED, NULL, Tables};
use super::spec::{DISTRICTS, Spec};
use crate::crew::crew;
use crate::measure::{Observer, RunError};
use crate::random::Random;

/// Rows (while loading orders: orders) that one transaction inserts.
const BATCH: u64 = 64;
/// The amount that every district has taken from each of its customers, in cents.
const FIRST_PAYMENT: i64 = 10_00;

/// Streams of random numbers; those of inputs start with 1.
const ITEM: u64 = 2;
const WAREHOUSE: u64 = 3;
const STOCK: u64 = 4;
const DISTRICT: u64 = 5;
const CUSTOMER: u64 = 6;
const HISTORY: u64 = 7;
const ORDER: u64 = 8;
const PERMUTATION: u64 = 9;

/// Populates an empty database that was created with [`super::schema`]; durable when it returns.
/// The observer counts rows.
///
/// # Errors
/// The first error of any worker.
pub fn load<E: Environment, O: Observer>(
    database: &Database<E>,
    spec: &Spec,
    workers: usize,
    observer: &O,
) -> Result<(), RunError> {
    let partitions = super::check_partitions(database, spec, workers)?;
    let workers = workers.min(partitions);
    crew(workers, |worker, _| {
        (worker..partitions).step_by(workers).try_for_each(|partition| {
            let failed = |rows, error| super::failed(database, partition, rows, error);
            let mut loader = Loader::new(database, spec, partition, observer)
                .map_err(|error| failed(0, error))?;
            let loaded = loader.all();
            loaded.map_err(|error| failed(loader.rows, error))
        })
    })?;
    Ok(())
}

/// Loads one partition.
struct Loader<'a, E: Environment, O> {
    partition: Exclusive<'a, E>,
    number: usize,
    tables: Tables,
    spec: &'a Spec,
    constants: Constants,
    observer: &'a O,
    texts: Texts,
    rows: u64,
}

impl<'a, E: Environment, O: Observer> Loader<'a, E, O> {
    fn new(
        database: &'a Database<E>,
        spec: &'a Spec,
        number: usize,
        observer: &'a O,
    ) -> Result<Self, Error> {
        Ok(Self {
            partition: database.partition(number).exclusive()?,
            number,
            tables: Tables::of(database)?,
            spec,
            constants: Constants::new(spec.seed),
            observer,
            texts: Texts::default(),
            rows: 0,
        })
    }

    fn all(&mut self) -> Result<(), Error> {
        let items = u64::from(self.spec.items);
        self.batches(items, 1, |row, tx, item| row.item(tx, [item]))?;
        for warehouse in self.spec.warehouses_of(self.number) {
            self.batches(1, 1, |row, tx, _| row.warehouse(tx, warehouse))?;
            self.batches(items, 1, |row, tx, item| row.stock(tx, warehouse, item))?;
            for district in 1..=DISTRICTS {
                self.district(warehouse, district)?;
            }
        }
        self.partition.sync()
    }

    fn district(&mut self, warehouse: u64, district: u64) -> Result<(), Error> {
        let customers = u64::from(self.spec.customers);
        self.batches(1, 1, |row, tx, _| row.district(tx, warehouse, district))?;
        self.batches(customers, 2, |row, tx, customer| {
            row.customer(tx, [warehouse, district, customer])?;
            row.history(tx, [warehouse, district, customer])
        })?;
        let customer_of = permutation(self.spec.seed, warehouse, district, customers);
        // With ten lines on average.
        self.batches(customers, 11, |row, tx, order| {
            let customer = customer_of[order as usize - 1];
            row.order(tx, [warehouse, district, order], customer)
        })
    }

    /// Calls `insert` with each number from 1 to `count`, [`BATCH`] numbers in a transaction. A number
    /// makes `rows_each` rows.
    fn batches(
        &mut self,
        count: u64,
        rows_each: u64,
        mut insert: impl FnMut(&mut RowLoader<'_>, &mut Tx<'_, E>, u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Self { partition, tables, spec, constants, texts, .. } = self;
        let mut row = RowLoader { tables, spec, constants, texts };
        let mut next = 1;
        while next <= count {
            let end = (next + BATCH).min(count + 1);
            partition
                .write(|tx| (next..end).try_for_each(|number| insert(&mut row, tx, number)))?;
            self.rows += (end - next) * rows_each;
            self.observer.completed(self.number, self.rows);
            next = end;
        }
        Ok(())
    }
}

/// Returns which customer made each of a district's orders: a random permutation.
fn permutation(seed: u64, warehouse: u64, district: u64, customers: u64) -> Vec<u64> {
    let random = &mut stream(seed, [PERMUTATION, warehouse, district, 0]);
    let mut order: Vec<u64> = (1..=customers).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, between(random, 0, last as u64) as usize);
    }
    order
}

/// Makes and inserts single rows.
struct RowLoader<'a> {
    tables: &'a Tables,
    spec: &'a Spec,
    constants: &'a Constants,
    texts: &'a mut Texts,
}

impl RowLoader<'_> {
    /// The generator of a row; its texts start anew.
    fn start(&mut self, table: u64, key: [u64; 3]) -> Random {
        self.texts.clear();
        stream(self.spec.seed, [table, key[0], key[1], key[2]])
    }

    fn item<E: Environment>(&mut self, tx: &mut Tx<'_, E>, [item]: [u64; 1]) -> Result<(), Error> {
        let random = &mut self.start(ITEM, [item, 0, 0]);
        let image = between(random, 1, 10_000);
        let price = between(random, 1_00, 100_00) as i64;
        self.texts.letters(random, 14, 24);
        self.texts.data(random);
        let [name, data] = [0, 1].map(|text| Text(self.texts.at(text)));
        tx.insert(&self.tables.item, &[U64(item), U64(image), name, I64(price), data])
    }

    fn warehouse<E: Environment>(&mut self, tx: &mut Tx<'_, E>, w: u64) -> Result<(), Error> {
        let random = &mut self.start(WAREHOUSE, [w, 0, 0]);
        let tax = between(random, 0, 2000) as i64;
        self.texts.letters(random, 6, 10);
        self.texts.address(random);
        let [name, street_1, street_2, city, state, zip] =
            std::array::from_fn(|text| Text(self.texts.at(text)));
        let paid = FIRST_PAYMENT * i64::from(self.spec.customers) * DISTRICTS as i64;
        tx.insert(
            &self.tables.warehouse,
            &[U64(w), name, street_1, street_2, city, state, zip, I64(tax), I64(paid)],
        )
    }

    fn stock<E: Environment>(
        &mut self,
        tx: &mut Tx<'_, E>,
        w: u64,
        item: u64,
    ) -> Result<(), Error> {
        let random = &mut self.start(STOCK, [w, item, 0]);
        let quantity = between(random, 10, 100) as i64;
        for _ in 0..DISTRICTS {
            self.texts.letters(random, 24, 24);
        }
        self.texts.data(random);
        let text = |index| Text(self.texts.at(index));
        let row: [_; 17] = std::array::from_fn(|column| match column {
            0 => U64(item),
            1 => U64(w),
            2 => I64(quantity),
            3..13 => text(column - 3),
            13 => I64(0),
            14 | 15 => U64(0),
            _ => text(10),
        });
        tx.insert(&self.tables.stock, &row)
    }

    fn district<E: Environment>(
        &mut self,
        tx: &mut Tx<'_, E>,
        w: u64,
        d: u64,
    ) -> Result<(), Error> {
        let random = &mut self.start(DISTRICT, [w, d, 0]);
        let tax = between(random, 0, 2000) as i64;
        self.texts.letters(random, 6, 10);
        self.texts.address(random);
        let [name, street_1, street_2, city, state, zip] =
            std::array::from_fn(|text| Text(self.texts.at(text)));
        let customers = u64::from(self.spec.customers);
        let paid = I64(FIRST_PAYMENT * customers as i64);
        let next_order = U64(customers + 1);
        let row = [
            U64(d),
            U64(w),
            name,
            street_1,
            street_2,
            city,
            state,
            zip,
            I64(tax),
            paid,
            next_order,
        ];
        tx.insert(&self.tables.district, &row)
    }

    fn customer<E: Environment>(
        &mut self,
        tx: &mut Tx<'_, E>,
        [w, d, c]: [u64; 3],
    ) -> Result<(), Error> {
        let random = &mut self.start(CUSTOMER, [w, d, c]);
        let last = LastName::new(self.constants.loaded_last_name(random, c));
        let credit = if percent(random, 10) { "BC" } else { "GC" };
        let discount = between(random, 0, 5000) as i64;
        self.texts.letters(random, 8, 16);
        self.texts.address(random);
        self.texts.digits(random, 16, "");
        self.texts.letters(random, 300, 500);
        let text = |index| Text(self.texts.at(index));
        let row = [
            U64(c),
            U64(d),
            U64(w),
            text(0),
            Text("OE"),
            Text(last.as_str()),
            text(1),
            text(2),
            text(3),
            text(4),
            text(5),
            text(6),
            U64(LOADED),
            Text(credit),
            I64(50_000_00),
            I64(discount),
            I64(-FIRST_PAYMENT),
            I64(FIRST_PAYMENT),
            U64(1),
            U64(0),
            text(7),
        ];
        tx.insert(&self.tables.customer, &row)
    }

    fn history<E: Environment>(
        &mut self,
        tx: &mut Tx<'_, E>,
        [w, d, c]: [u64; 3],
    ) -> Result<(), Error> {
        let random = &mut self.start(HISTORY, [w, d, c]);
        self.texts.letters(random, 12, 24);
        let id = (d - 1) * u64::from(self.spec.customers) + c;
        let (c, d, w) = (U64(c), U64(d), U64(w));
        let data = Text(self.texts.at(0));
        let row = [U64(id), c, d, w, d, w, U64(LOADED), I64(FIRST_PAYMENT), data];
        tx.insert(&self.tables.history, &row)
    }

    /// An order with its lines; one that is not delivered has an entry among the new orders, too.
    fn order<E: Environment>(
        &mut self,
        tx: &mut Tx<'_, E>,
        [w, d, o]: [u64; 3],
        customer: u64,
    ) -> Result<(), Error> {
        let random = &mut self.start(ORDER, [w, d, o]);
        let delivered = o <= self.spec.delivered_orders();
        let carrier = if delivered { between(random, 1, 10) } else { NULL };
        let lines = between(random, 5, 15);
        let [w, d, o] = [w, d, o].map(U64);
        let row = [o, d, w, U64(customer), U64(LOADED), U64(carrier), U64(lines), U64(1)];
        tx.insert(&self.tables.orders, &row)?;
        for line in 1..=lines {
            self.texts.clear();
            let item = between(random, 1, u64::from(self.spec.items));
            let amount = if delivered { 0 } else { between(random, 1, 9999_99) as i64 };
            self.texts.letters(random, 24, 24);
            let date = U64(if delivered { LOADED } else { NULL });
            let info = Text(self.texts.at(0));
            let row = [o, d, w, U64(line), U64(item), w, date, I64(5), I64(amount), info];
            tx.insert(&self.tables.order_line, &row)?;
        }
        if delivered { Ok(()) } else { tx.insert(&self.tables.new_order, &[o, d, w]) }
    }
}

#[cfg(test)]
mod tests {
    use super::permutation;

    #[test]
    fn every_customer_has_one_order_in_no_particular_sequence() {
        let order = permutation(1, 1, 1, 3000);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(1..=3000));
        let fixed = order.iter().zip(1..).filter(|&(&customer, place)| customer == place).count();
        assert!(fixed < 10, "{fixed}");
        assert_ne!(order, permutation(1, 1, 2, 3000));
    }
}
