//! Payment (clause 2.5): a customer pays, which the district, the warehouse and the history note.

use std::fmt::Write;

use perdura::Value::{I64, Text, U64};
use perdura::{Environment, Error, Tx};

use super::buffers::Buffers;
use super::customer;
use super::inputs::CustomerSelector;
use super::schema::{
    C_BALANCE, C_CITY, C_CREDIT, C_CREDIT_LIM, C_DATA, C_DISCOUNT, C_FIRST, C_LAST, C_MIDDLE,
    C_PAYMENT_CNT, C_PHONE, C_SINCE, C_STATE, C_STREET_1, C_STREET_2, C_YTD_PAYMENT, C_ZIP, D_CITY,
    D_NAME, D_STATE, D_STREET_1, D_STREET_2, D_YTD, D_ZIP, Tables, W_CITY, W_NAME, W_STATE,
    W_STREET_1, W_STREET_2, W_YTD, W_ZIP,
};
use super::spec::DISTRICTS;
use crate::reads::Reads;

/// The longest C_DATA.
const DATA_BYTES: usize = 500;

const WAREHOUSE: [u16; 7] = [W_YTD, W_NAME, W_STREET_1, W_STREET_2, W_CITY, W_STATE, W_ZIP];
const DISTRICT: [u16; 7] = [D_YTD, D_NAME, D_STREET_1, D_STREET_2, D_CITY, D_STATE, D_ZIP];
const CUSTOMER: [u16; 16] = [
    C_BALANCE,
    C_YTD_PAYMENT,
    C_PAYMENT_CNT,
    C_CREDIT,
    C_FIRST,
    C_MIDDLE,
    C_LAST,
    C_STREET_1,
    C_STREET_2,
    C_CITY,
    C_STATE,
    C_ZIP,
    C_PHONE,
    C_SINCE,
    C_CREDIT_LIM,
    C_DISCOUNT,
];

/// A payment.
pub(super) struct Payment {
    pub(super) warehouse: u64,
    pub(super) district: u64,
    pub(super) customer_warehouse: u64,
    pub(super) customer_district: u64,
    pub(super) who: CustomerSelector,
    pub(super) amount: i64,
    pub(super) date: u64,
    /// Customers of a district: history rows of the loading, one each, precede those of the run.
    pub(super) customers: u64,
}

/// Books a payment; returns the customer's number.
///
/// # Errors
/// The database's own.
pub(super) fn pay<E: Environment>(
    tx: &mut Tx<'_, E>,
    tables: &Tables,
    payment: &Payment,
    buffers: &mut Buffers,
) -> Result<u64, Error> {
    let Buffers { row, other, numbers, text } = buffers;
    let (w, d) = (U64(payment.warehouse), U64(payment.district));
    tx.need(&tables.warehouse, &[w], &WAREHOUSE, row)?;
    tx.update(&tables.warehouse, &[w], &[(W_YTD, I64(row.i64(0) + payment.amount))])?;
    tx.need(&tables.district, &[w, d], &DISTRICT, other)?;
    tx.update(&tables.district, &[w, d], &[(D_YTD, I64(other.i64(0) + payment.amount))])?;

    let Payment { customer_warehouse, customer_district, .. } = *payment;
    let number =
        customer::number(tx, tables, customer_warehouse, customer_district, payment.who, numbers)?;
    text.clear();
    text.push_str(row.text(1));
    text.push_str("    ");
    text.push_str(other.text(1));
    let (c_w, c_d, c) = (U64(customer_warehouse), U64(customer_district), U64(number));
    let id = DISTRICTS * payment.customers + payment.date;
    let (date, amount) = (U64(payment.date), I64(payment.amount));
    let history = [U64(id), c, c_d, c_w, d, w, date, amount, Text(text)];
    tx.insert(&tables.history, &history)?;

    let key = [c_w, c_d, c];
    tx.need(&tables.customer, &key, &CUSTOMER, row)?;
    let paid = [
        (C_BALANCE, I64(row.i64(0) - payment.amount)),
        (C_YTD_PAYMENT, I64(row.i64(1) + payment.amount)),
        (C_PAYMENT_CNT, U64(row.u64(2) + 1)),
    ];
    if row.text(3) == "BC" {
        tx.need(&tables.customer, &key, &[C_DATA], other)?;
        bad_credit_data(text, payment, number, other.text(0));
        let [balance, ytd, count] = paid;
        tx.update(&tables.customer, &key, &[balance, ytd, count, (C_DATA, Text(text))])?;
    } else {
        tx.update(&tables.customer, &key, &paid)?;
    }
    Ok(number)
}

/// Notes a payment about a customer of bad credit: this one, before what was noted so far, of which
/// the end falls off (clause 2.5.2.2).
fn bad_credit_data(text: &mut String, payment: &Payment, number: u64, before: &str) {
    text.clear();
    let Payment { warehouse, district, customer_warehouse, customer_district, amount, .. } =
        payment;
    write!(
        text,
        "{number} {customer_district} {customer_warehouse} {district} {warehouse} {}.{:02} | ",
        amount / 100,
        amount % 100
    )
    .expect("a string takes all text");
    text.push_str(before);
    let end = (0..=DATA_BYTES.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    text.truncate(end.unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_credit_notes_come_first_and_are_truncated() {
        let payment = Payment {
            warehouse: 1,
            district: 2,
            customer_warehouse: 3,
            customer_district: 4,
            who: CustomerSelector::Number(5),
            amount: 678_09,
            date: 0,
            customers: 0,
        };
        let mut text = "before".to_owned();
        bad_credit_data(&mut text, &payment, 5, "old");
        assert_eq!(text, "5 4 3 2 1 678.09 | old");
        bad_credit_data(&mut text, &payment, 5, &"x".repeat(500));
        assert_eq!(text.len(), 500);
        assert!(text.starts_with("5 4 3 2 1 678.09 | xxx"));
        bad_credit_data(&mut text, &payment, 5, &"é".repeat(250));
        assert_eq!(text.len(), 499);
    }
}
