//! Delivery (clause 2.7): the oldest new order of each of the ten districts, in one transaction.

use std::ops::ControlFlow;

use perdura::Value::{I64, U64};
use perdura::{Environment, Error, Scan, Tx};

use super::buffers::Buffers;
use super::schema::{
    C_BALANCE, C_DELIVERY_CNT, NO_O_ID, O_C_ID, O_CARRIER_ID, OL_AMOUNT, OL_DELIVERY_D, OL_NUMBER,
    Tables,
};
use super::spec::DISTRICTS;
use crate::reads::Reads;

/// Delivers; returns for how many districts. One without new orders is skipped.
///
/// # Errors
/// The database's own.
pub(super) fn deliver<E: Environment>(
    tx: &mut Tx<'_, E>,
    tables: &Tables,
    warehouse: u64,
    carrier: u64,
    date: u64,
    buffers: &mut Buffers,
) -> Result<u64, Error> {
    let mut delivered = 0;
    for district in 1..=DISTRICTS {
        let prefix = [U64(warehouse), U64(district)];
        let mut oldest = None;
        tx.scan(&tables.new_order, &Scan::prefix(&prefix[..]).columns(&[NO_O_ID]), |row| {
            oldest = Some(row.u64(0));
            ControlFlow::Break(())
        })?;
        if let Some(order) = oldest {
            deliver_order(tx, tables, [warehouse, district, order], carrier, date, buffers)?;
            delivered += 1;
        }
    }
    Ok(delivered)
}

fn deliver_order<E: Environment>(
    tx: &mut Tx<'_, E>,
    tables: &Tables,
    order: [u64; 3],
    carrier: u64,
    date: u64,
    buffers: &mut Buffers,
) -> Result<(), Error> {
    let Buffers { row, numbers, .. } = buffers;
    let key @ [w, d, o] = order.map(U64);
    tx.delete(&tables.new_order, &key)?;
    tx.need(&tables.orders, &key, &[O_C_ID], row)?;
    let c = U64(row.u64(0));
    tx.update(&tables.orders, &key, &[(O_CARRIER_ID, U64(carrier))])?;
    let mut sum = 0;
    numbers.clear();
    tx.each(&tables.order_line, &Scan::prefix(&key[..]).columns(&[OL_NUMBER, OL_AMOUNT]), |row| {
        numbers.push(row.u64(0));
        sum += row.i64(1);
    })?;
    for number in numbers {
        let line = [w, d, o, U64(*number)];
        tx.update(&tables.order_line, &line, &[(OL_DELIVERY_D, U64(date))])?;
    }
    tx.need(&tables.customer, &[w, d, c], &[C_BALANCE, C_DELIVERY_CNT], row)?;
    let changes = [(C_BALANCE, I64(row.i64(0) + sum)), (C_DELIVERY_CNT, U64(row.u64(1) + 1))];
    tx.update(&tables.customer, &[w, d, c], &changes)
}
