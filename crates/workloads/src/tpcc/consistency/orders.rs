//! The conditions about orders: 2 to 7 and 11.

use std::collections::{BTreeMap, HashMap};

use perdura::Error;

use super::{Books, Customer, Found, Order, difference};
use crate::reads::Reads;
use crate::tpcc::schema::{
    C_D_ID, C_DELIVERY_CNT, D_ID, D_NEXT_O_ID, NO_D_ID, NO_O_ID, NULL, O_CARRIER_ID, O_D_ID, O_ID,
    O_OL_CNT, OL_D_ID, OL_DELIVERY_D, OL_NUMBER, OL_O_ID,
};

/// Order numbers of a district: how many, the lowest and the highest.
#[derive(Debug, Default, PartialEq, Eq)]
struct Numbers {
    count: u64,
    lowest: u64,
    highest: u64,
}

impl Numbers {
    fn add(&mut self, number: u64) {
        self.lowest = if self.count == 0 { number } else { self.lowest.min(number) };
        self.highest = self.highest.max(number);
        self.count += 1;
    }
}

/// 2: for each district, D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID); the latter unless there are
/// no new orders.
pub(super) fn next_order<T: Reads>(books: &Books<'_, T>) -> Found {
    let tables = books.tables;
    books.any(|w| {
        let next = books.by_district(&tables.district, w, (D_ID, D_NEXT_O_ID), |next, row| {
            *next = row.u64(1);
        })?;
        let orders = books.by_district(&tables.orders, w, (O_D_ID, O_ID), |numbers, row| {
            Numbers::add(numbers, row.u64(1));
        })?;
        let new = new_orders(books, w)?;
        for (district, next) in &next {
            let highest = orders.get(district).map_or(0, |numbers| numbers.highest);
            let new = new.get(district).filter(|new| new.count > 0);
            let highest_new = new.map_or(highest, |new| new.highest);
            if highest + 1 != *next || highest_new + 1 != *next {
                return Ok(Some(format!(
                    "district {district}: D_NEXT_O_ID is {next}, the highest O_ID {highest}, the highest NO_O_ID {highest_new}"
                )));
            }
        }
        let strange = orders.keys().chain(new.keys()).find(|district| !next.contains_key(district));
        Ok(strange.map(|district| format!("orders of district {district}, which does not exist")))
    })
}

fn new_orders<T: Reads>(
    books: &Books<'_, T>,
    warehouse: u64,
) -> Result<BTreeMap<u64, Numbers>, Error> {
    let columns = (NO_D_ID, NO_O_ID);
    books.by_district(&books.tables.new_order, warehouse, columns, |numbers: &mut Numbers, row| {
        numbers.add(row.u64(1));
    })
}

/// 3: for each district, max(NO_O_ID) - min(NO_O_ID) + 1 is the number of its new orders.
pub(super) fn new_orders_without_gaps<T: Reads>(books: &Books<'_, T>) -> Found {
    books.any(|w| {
        let new = new_orders(books, w)?;
        let gap =
            new.iter().find(|(_, new)| new.count > 0 && new.highest - new.lowest + 1 != new.count);
        Ok(gap.map(|(district, Numbers { count, lowest, highest })| {
            format!("district {district}: {count} new orders from {lowest} to {highest}")
        }))
    })
}

/// 4: for each district, sum(O_OL_CNT) is the number of its order lines.
pub(super) fn line_sum<T: Reads>(books: &Books<'_, T>) -> Found {
    let tables = books.tables;
    books.any(|w| {
        let sums =
            books.by_district(&tables.orders, w, (O_D_ID, O_OL_CNT), |sum: &mut u64, row| {
                *sum += row.u64(1);
            })?;
        let lines = books.by_district(
            &tables.order_line,
            w,
            (OL_D_ID, OL_NUMBER),
            |lines: &mut u64, _| {
                *lines += 1;
            },
        )?;
        Ok(difference(("the sum of O_OL_CNT", &sums), ("its lines", &lines), "district"))
    })
}

/// An order, with what has been found out about it.
#[derive(Debug, Default, Clone, Copy)]
struct OrderSummary {
    lines: u64,
    carrier: u64,
    found: u64,
}

fn summaries<T: Reads>(
    books: &Books<'_, T>,
    warehouse: u64,
) -> Result<HashMap<Order, OrderSummary>, Error> {
    let mut summaries = HashMap::new();
    let columns = [O_D_ID, O_ID, O_OL_CNT, O_CARRIER_ID];
    books.each(&books.tables.orders, warehouse, &columns, |row| {
        let summary = OrderSummary { lines: row.u64(2), carrier: row.u64(3), found: 0 };
        summaries.insert((row.u64(0), row.u64(1)), summary);
    })?;
    Ok(summaries)
}

/// The lowest of the orders for which something is wrong.
fn first(
    summaries: &HashMap<Order, OrderSummary>,
    wrong: impl Fn(&OrderSummary) -> bool,
) -> Option<(Order, OrderSummary)> {
    let wrong = summaries.iter().filter(|(_, summary)| wrong(summary));
    wrong.map(|(order, summary)| (*order, *summary)).min_by_key(|(order, _)| *order)
}

fn without_order((district, order): Order, what: &str) -> String {
    format!("district {district}: {what} order {order}, which does not exist")
}

/// 5: O_CARRIER_ID is null if and only if the order has a row in NEW-ORDER.
pub(super) fn carriers<T: Reads>(books: &Books<'_, T>) -> Found {
    books.any(|w| {
        let mut summaries = summaries(books, w)?;
        let mut strange = None;
        books.each(&books.tables.new_order, w, &[NO_D_ID, NO_O_ID], |row| {
            let order = (row.u64(0), row.u64(1));
            match summaries.get_mut(&order) {
                Some(summary) => summary.found += 1,
                None => strange = strange.or(Some(order)),
            }
        })?;
        if let Some(order) = strange {
            return Ok(Some(without_order(order, "NEW-ORDER has")));
        }
        let wrong = first(&summaries, |summary| (summary.carrier == NULL) != (summary.found == 1));
        Ok(wrong.map(|((district, order), summary)| {
            let has = if summary.found == 1 { "has" } else { "has not" };
            let carrier = summary.carrier;
            format!("district {district}: NEW-ORDER {has} order {order}, whose carrier is {carrier} (0 is null)")
        }))
    })
}

/// 6: O_OL_CNT is the number of the order's lines.
pub(super) fn line_counts<T: Reads>(books: &Books<'_, T>) -> Found {
    books.any(|w| {
        let mut summaries = summaries(books, w)?;
        let mut strange = None;
        books.each(&books.tables.order_line, w, &[OL_D_ID, OL_O_ID], |row| {
            let order = (row.u64(0), row.u64(1));
            match summaries.get_mut(&order) {
                Some(summary) => summary.found += 1,
                None => strange = strange.or(Some(order)),
            }
        })?;
        if let Some(order) = strange {
            return Ok(Some(without_order(order, "ORDER-LINE has")));
        }
        let wrong = first(&summaries, |summary| summary.lines != summary.found);
        Ok(wrong.map(|((district, order), OrderSummary { lines, found, .. })| {
            format!("district {district}: order {order} has {found} lines, its O_OL_CNT is {lines}")
        }))
    })
}

/// 7: OL_DELIVERY_D is null if and only if the order's O_CARRIER_ID is.
pub(super) fn delivery_dates<T: Reads>(books: &Books<'_, T>) -> Found {
    books.any(|w| {
        let summaries = summaries(books, w)?;
        let mut wrong = None;
        let columns = [OL_D_ID, OL_O_ID, OL_NUMBER, OL_DELIVERY_D];
        books.each(&books.tables.order_line, w, &columns, |row| {
            let (district, order, number, date) = (row.u64(0), row.u64(1), row.u64(2), row.u64(3));
            let carrier = summaries.get(&(district, order)).map(|summary| summary.carrier);
            if carrier.is_none_or(|carrier| (carrier == NULL) != (date == NULL)) {
                wrong = wrong.or(Some((district, order, number, date, carrier)));
            }
        })?;
        Ok(wrong.map(|(district, order, number, date, carrier)| match carrier {
            None => without_order((district, order), "ORDER-LINE has"),
            Some(carrier) => format!(
                "district {district}: line {number} of order {order} was delivered at {date}, the order by carrier {carrier} (0 is null)"
            ),
        }))
    })
}

/// 11: in each district, orders that are not new are those that were delivered: 2,100 while loading
/// (3.3.2.11), and since then as many as C_DELIVERY_CNT of its customers counts.
pub(super) fn delivered<T: Reads>(books: &Books<'_, T>) -> Found {
    let tables = books.tables;
    books.any(|w| {
        let orders =
            books.by_district(&tables.orders, w, (O_D_ID, O_ID), |count: &mut u64, _| {
                *count += 1;
            })?;
        let new = new_orders(books, w)?;
        let columns = (C_D_ID, C_DELIVERY_CNT);
        let mut counts =
            books.by_district(&tables.customer, w, columns, |count: &mut u64, row| {
                *count += row.u64(1);
            })?;
        counts.values_mut().for_each(|count| *count += books.first_delivered);
        let new_count = |district| new.get(district).map_or(0, |new| new.count);
        let not_new = orders
            .iter()
            .map(|(district, orders)| (*district, orders.saturating_sub(new_count(district))));
        let not_new: BTreeMap<_, u64> = not_new.collect();
        let (one, other) = (("orders without new ones", &not_new), ("delivered ones", &counts));
        Ok(difference(one, other, "district"))
    })
}

/// Returns the amount that was delivered to each customer of a warehouse, in cents. Used by
/// conditions 10 and 12.
pub(super) fn delivered_amounts<T: Reads>(
    books: &Books<'_, T>,
    warehouse: u64,
) -> Result<HashMap<Customer, i64>, Error> {
    use crate::tpcc::schema::{O_C_ID, OL_AMOUNT};
    let tables = books.tables;
    let mut customer_of: HashMap<Order, u64> = HashMap::new();
    books.each(&tables.orders, warehouse, &[O_D_ID, O_ID, O_C_ID], |row| {
        customer_of.insert((row.u64(0), row.u64(1)), row.u64(2));
    })?;
    let mut amounts = HashMap::new();
    let columns = [OL_D_ID, OL_O_ID, OL_DELIVERY_D, OL_AMOUNT];
    books.each(&tables.order_line, warehouse, &columns, |row| {
        let (district, delivered) = (row.u64(0), row.u64(2) != NULL);
        // Lines without an order contradict condition 6.
        if let Some(customer) = customer_of.get(&(district, row.u64(1))).filter(|_| delivered) {
            *amounts.entry((district, *customer)).or_default() += row.i64(3);
        }
    })?;
    Ok(amounts)
}
