//! The consistency conditions of clause 3.3.2, all twelve, over all rows.
//!
//! Each is a function that looks at the books of one partition in one read transaction and returns
//! the first thing that contradicts it, or `None`. Rows that belong to nothing (an order line
//! without its order, say) contradict a condition, too.

mod money;
mod orders;

use std::collections::BTreeMap;

use perdura::Value::U64;
use perdura::{Database, Environment, Error, Row, Scan, Table};

use super::schema::Tables;
use super::spec::{DISTRICTS, Spec};
use crate::reads::Reads;

/// A condition, and whether it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Its number in clause 3.3.2.
    pub number: u8,
    /// The demand, in words.
    pub what: &'static str,
    /// The contradiction that was found; `None` if it holds.
    pub violation: Option<String>,
}

impl Condition {
    /// Returns true if it holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.violation.is_none()
    }

    /// The contradiction with its condition, in words; `None` if the condition holds.
    #[must_use]
    pub fn contradiction(&self) -> Option<String> {
        let Self { number, what, violation } = self;
        let found = violation.as_ref()?;
        Some(format!("condition {number} ({what}) does not hold: {found}"))
    }
}

/// Checks the twelve conditions on a whole database; returns them in order.
///
/// # Errors
/// The database's own. A condition that does not hold is no error but the result.
pub fn check<E: Environment>(database: &Database<E>, spec: &Spec) -> Result<Vec<Condition>, Error> {
    let tables = Tables::of(database)?;
    let mut conditions = all::<perdura::ReadTx<'_, E>>().map(|(number, what, _)| Condition {
        number,
        what,
        violation: None,
    });
    for partition in 0..database.partition_count() {
        let warehouses: Vec<u64> = spec.warehouses_of(partition).collect();
        let delivered = spec.delivered_orders();
        database.partition(partition).read(|tx| {
            let books =
                Books { tx, tables: &tables, warehouses: &warehouses, first_delivered: delivered };
            for (condition, (_, _, holds)) in conditions.iter_mut().zip(all()) {
                if condition.violation.is_none() {
                    condition.violation = holds(&books)?;
                }
            }
            Ok(())
        })?;
    }
    Ok(conditions.into())
}

/// The contradiction to a condition, if there is one.
type Found = Result<Option<String>, Error>;
type Rule<T> = (u8, &'static str, fn(&Books<'_, T>) -> Found);

fn all<T: Reads>() -> [Rule<T>; 12] {
    [
        (1, "W_YTD is the sum of its districts' D_YTD", money::warehouse_and_districts),
        (2, "D_NEXT_O_ID - 1 is the highest O_ID and NO_O_ID", orders::next_order),
        (3, "NO_O_ID has no gaps in a district", orders::new_orders_without_gaps),
        (4, "the sum of O_OL_CNT is the number of a district's order lines", orders::line_sum),
        (5, "O_CARRIER_ID is null where the order is in NEW-ORDER", orders::carriers),
        (6, "O_OL_CNT is the number of the order's lines", orders::line_counts),
        (7, "OL_DELIVERY_D is null where O_CARRIER_ID is", orders::delivery_dates),
        (8, "W_YTD is the sum of H_AMOUNT", money::warehouse_and_history),
        (9, "D_YTD is the sum of H_AMOUNT", money::district_and_history),
        (10, "C_BALANCE is what was delivered less what was paid", money::balances),
        (11, "orders that are not new were delivered", orders::delivered),
        (12, "C_BALANCE + C_YTD_PAYMENT is what was delivered", money::balances_and_payments),
    ]
}

/// The rows of one partition.
struct Books<'a, T> {
    tx: &'a T,
    tables: &'a Tables,
    /// The warehouses that it must have.
    warehouses: &'a [u64],
    /// Orders of each district that were loaded as delivered.
    first_delivered: u64,
}

/// A district, within its warehouse.
type District = u64;
/// An order, within its warehouse.
type Order = (District, u64);
/// A customer, within its warehouse.
type Customer = (District, u64);

impl<T: Reads> Books<'_, T> {
    /// Visits all rows of a table that belong to a warehouse.
    fn each(
        &self,
        table: &Table,
        warehouse: u64,
        columns: &[u16],
        visit: impl FnMut(&Row),
    ) -> Result<(), Error> {
        self.tx.each(table, &Scan::prefix(&[U64(warehouse)][..]).columns(columns), visit)
    }

    /// The first thing that is wrong with any warehouse.
    fn any(&self, mut look: impl FnMut(u64) -> Found) -> Found {
        for &warehouse in self.warehouses {
            if let Some(wrong) = look(warehouse)? {
                return Ok(Some(format!("warehouse {warehouse}: {wrong}")));
            }
        }
        Ok(None)
    }

    /// Sums up or collects by district, all ten of them.
    fn by_district<V: Default>(
        &self,
        table: &Table,
        warehouse: u64,
        (district, column): (u16, u16),
        mut add: impl FnMut(&mut V, &Row),
    ) -> Result<BTreeMap<District, V>, Error> {
        let mut sums: BTreeMap<_, V> = (1..=DISTRICTS).map(|d| (d, V::default())).collect();
        self.each(table, warehouse, &[district, column], |row| {
            add(sums.entry(row.u64(0)).or_default(), row);
        })?;
        Ok(sums)
    }
}

/// The first key on which two maps differ, said with the names of the two sides. Both must have the
/// same keys.
fn difference<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    (one_name, one): (&str, &BTreeMap<K, V>),
    (other_name, other): (&str, &BTreeMap<K, V>),
    what: &str,
) -> Option<String> {
    let differs = |key: &&K| one.get(key) != other.get(key);
    let key = one.keys().chain(other.keys()).filter(differs).min()?;
    let side = |map: &BTreeMap<K, V>| map.get(key).map_or("nothing".into(), |v| format!("{v:?}"));
    Some(format!("{what} {key:?}: {one_name} is {}, {other_name} is {}", side(one), side(other)))
}
