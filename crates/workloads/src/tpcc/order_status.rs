//! Order-Status (clause 2.6): a customer's last order.

use std::ops::ControlFlow;

use perdura::Value::U64;
use perdura::{Error, Scan};

use super::buffers::Buffers;
use super::customer;
use super::inputs::CustomerSelector;
use super::schema::{
    BY_CUSTOMER, C_BALANCE, C_FIRST, C_LAST, C_MIDDLE, O_CARRIER_ID, O_ENTRY_D, O_ID, OL_AMOUNT,
    OL_DELIVERY_D, OL_I_ID, OL_QUANTITY, OL_SUPPLY_W_ID, Tables,
};
use crate::reads::Reads;

/// The output at the terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) customer: u64,
    pub(super) balance: i64,
    /// 0 for a customer who never ordered.
    pub(super) order: u64,
    pub(super) lines: u64,
    pub(super) amount: i64,
}

/// Looks up the last order of a customer.
///
/// # Errors
/// The database's own.
pub(super) fn look_up(
    tx: &impl Reads,
    tables: &Tables,
    (warehouse, district): (u64, u64),
    who: CustomerSelector,
    buffers: &mut Buffers,
) -> Result<Status, Error> {
    let Buffers { row, numbers, .. } = buffers;
    let customer = customer::number(tx, tables, warehouse, district, who, numbers)?;
    let (w, d, c) = (U64(warehouse), U64(district), U64(customer));
    tx.need(&tables.customer, &[w, d, c], &[C_BALANCE, C_FIRST, C_MIDDLE, C_LAST], row)?;
    let mut status = Status { customer, balance: row.i64(0), ..Status::default() };
    let prefix = [w, d, c];
    let last = Scan::prefix(&prefix[..]).by(BY_CUSTOMER).backward();
    tx.scan(&tables.orders, &last.columns(&[O_ID, O_ENTRY_D, O_CARRIER_ID]), |row| {
        status.order = row.u64(0);
        ControlFlow::Break(())
    })?;
    let prefix = [w, d, U64(status.order)];
    let columns = [OL_AMOUNT, OL_I_ID, OL_SUPPLY_W_ID, OL_QUANTITY, OL_DELIVERY_D];
    tx.each(&tables.order_line, &Scan::prefix(&prefix[..]).columns(&columns), |row| {
        status.lines += 1;
        status.amount += row.i64(0);
    })?;
    Ok(status)
}
