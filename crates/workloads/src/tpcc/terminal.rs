//! The terminal at which transactions are entered: one partition as one thread uses it.

use std::hint::black_box;

use perdura::{Database, Environment, Error};

use super::buffers::Buffers;
use super::inputs::{Input, Inputs, Request};
use super::new_order::{self, NewOrder, UnusedItem};
use super::payment::{self, Payment};
use super::schema::Tables;
use super::spec::Spec;
use super::{delivery, order_status, stock_level};
use crate::connection::{Connection, Tries};

/// The end of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Committed; with grouped commits it is durable with its group.
    Committed,
    /// Rolled back, as its input demanded (clause 2.4.1.4).
    RolledBack,
}

/// Runs the transactions of a partition.
pub struct Terminal<'a, E: Environment> {
    partition: Connection<'a, E>,
    tables: Tables,
    customers: u64,
    buffers: Buffers,
}

impl<'a, E: Environment> Terminal<'a, E> {
    /// Takes a partition, and owns it while it lives, as a worker of P1's testbed does (P1 3). Waits
    /// until it is free.
    ///
    /// # Errors
    /// The database has no TPC-C tables.
    ///
    /// # Panics
    /// There is no such partition.
    pub fn new(database: &'a Database<E>, spec: &Spec, partition: usize) -> Result<Self, Error> {
        Self::at(database, Connection::open(database, partition, true)?, spec)
    }

    /// A terminal with this connection.
    pub(crate) fn at(
        database: &Database<E>,
        connection: Connection<'a, E>,
        spec: &Spec,
    ) -> Result<Self, Error> {
        Ok(Self {
            tables: Tables::of(database)?,
            partition: connection,
            customers: u64::from(spec.customers),
            buffers: Buffers::default(),
        })
    }

    /// Runs transaction `index` of the partition's inputs.
    ///
    /// # Errors
    /// The database's; nothing of the transaction is left then.
    ///
    /// # Panics
    /// There is no such input.
    pub fn run(&mut self, inputs: &Inputs, index: usize) -> Result<Outcome, Error> {
        let input = inputs.all()[index];
        let Self { partition, tables, customers, buffers } = self;
        let Input { warehouse, district, .. } = input;
        let (warehouse, district) = (u64::from(warehouse), u64::from(district));
        let (at, date) = ((warehouse, district), inputs.date(index));
        match input.request {
            Request::NewOrder { customer, .. } => {
                let customer = u64::from(customer);
                let lines = inputs.lines_of(&input);
                let order = NewOrder { warehouse, district, customer, lines, date };
                let entered = partition.write(|tx| new_order::enter(tx, tables, &order, buffers));
                return rolled_back(&input, entered.map(black_box));
            }
            Request::Payment { who, customer_warehouse, customer_district, amount_cents } => {
                let payment = Payment {
                    warehouse,
                    district,
                    customer_warehouse: u64::from(customer_warehouse),
                    customer_district: u64::from(customer_district),
                    who,
                    amount: i64::from(amount_cents),
                    date,
                    customers: *customers,
                };
                let number = partition.write(|tx| payment::pay(tx, tables, &payment, buffers))?;
                black_box(number);
            }
            Request::OrderStatus { who } => {
                let status =
                    partition.read(|tx| order_status::look_up(tx, tables, at, who, buffers))?;
                black_box(status);
            }
            Request::Delivery { carrier } => {
                let carrier = u64::from(carrier);
                let delivered = partition
                    .write(|tx| delivery::deliver(tx, tables, warehouse, carrier, date, buffers))?;
                black_box(delivered);
            }
            Request::StockLevel { threshold } => {
                let threshold = i64::from(threshold);
                let low = partition
                    .read(|tx| stock_level::count_low(tx, tables, at, threshold, buffers))?;
                black_box(low);
            }
        }
        Ok(Outcome::Committed)
    }

    /// Makes everything committed so far in the partition durable.
    ///
    /// # Errors
    /// The medium failed.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.partition.sync()
    }

    /// The conflicts of its transactions so far.
    pub(crate) fn tries(&self) -> Tries {
        self.partition.tries()
    }
}

/// Only an order that was to be rolled back may be: any other item has to be there.
fn rolled_back<T>(input: &Input, entered: Result<T, Error>) -> Result<Outcome, Error> {
    match entered {
        Ok(_) => Ok(Outcome::Committed),
        Err(Error::User(why)) if input.is_rolled_back() && why.is::<UnusedItem>() => {
            Ok(Outcome::RolledBack)
        }
        Err(error) => Err(error),
    }
}
