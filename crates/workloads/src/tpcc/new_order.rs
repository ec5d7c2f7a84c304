//! New-Order (clause 2.4): a customer orders 5 to 15 items.

use perdura::Value::{I64, Text, U64};
use perdura::{Environment, Error, Tx};

use super::buffers::Buffers;
use super::inputs::Line;
use super::schema::{
    C_CREDIT, C_DISCOUNT, C_LAST, D_NEXT_O_ID, D_TAX, I_DATA, I_NAME, I_PRICE, NULL, S_DATA,
    S_DIST_01, S_ORDER_CNT, S_QUANTITY, S_REMOTE_CNT, S_YTD, Tables, W_TAX,
};
use crate::reads::Reads;

/// The order names an item that there is not, which rolls it back (clause 2.4.2.3).
#[derive(Debug, thiserror::Error)]
#[error("item number is not valid")]
pub(super) struct UnusedItem;

/// An order to be entered.
pub(super) struct NewOrder<'a> {
    pub(super) warehouse: u64,
    pub(super) district: u64,
    pub(super) customer: u64,
    pub(super) lines: &'a [Line],
    pub(super) date: u64,
}

/// The output at the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entered {
    pub(super) order: u64,
    /// The sum of all lines with discount and taxes, in cents.
    pub(super) total: i64,
    /// Lines whose item and stock are both marked as original.
    pub(super) brand: u32,
}

/// Enters an order.
///
/// # Errors
/// [`UnusedItem`]: the transaction must be aborted. Or the database's own.
pub(super) fn enter<E: Environment>(
    tx: &mut Tx<'_, E>,
    tables: &Tables,
    order: &NewOrder<'_>,
    buffers: &mut Buffers,
) -> Result<Entered, Error> {
    let row = &mut buffers.row;
    let (w, d) = (U64(order.warehouse), U64(order.district));
    tx.need(&tables.warehouse, &[w], &[W_TAX], row)?;
    let warehouse_tax = row.i64(0);
    tx.need(&tables.district, &[w, d], &[D_TAX, D_NEXT_O_ID], row)?;
    let (district_tax, number) = (row.i64(0), row.u64(1));
    tx.update(&tables.district, &[w, d], &[(D_NEXT_O_ID, U64(number + 1))])?;
    let c = U64(order.customer);
    tx.need(&tables.customer, &[w, d, c], &[C_DISCOUNT, C_LAST, C_CREDIT], row)?;
    let discount = row.i64(0);

    let o = U64(number);
    let lines = U64(order.lines.len() as u64);
    let local = order.lines.iter().all(|line| u64::from(line.supply_warehouse) == order.warehouse);
    let all_local = U64(u64::from(local));
    tx.insert(&tables.orders, &[o, d, w, c, U64(order.date), U64(NULL), lines, all_local])?;
    tx.insert(&tables.new_order, &[o, d, w])?;
    let (mut sum, mut brand) = (0, 0);
    for (line, at) in order.lines.iter().zip(1..) {
        let (amount, original) = enter_line(tx, tables, order, (number, at), line, buffers)?;
        sum += amount;
        brand += u32::from(original);
    }
    // Rates are ten-thousandths.
    let total = i128::from(sum) * i128::from(10_000 - discount);
    let total = total * i128::from(10_000 + warehouse_tax + district_tax) / 100_000_000;
    Ok(Entered { order: number, total: total as i64, brand })
}

/// Enters one line; returns its amount, and whether it is marked as original.
fn enter_line<E: Environment>(
    tx: &mut Tx<'_, E>,
    tables: &Tables,
    order: &NewOrder<'_>,
    (number, at): (u64, u64),
    line: &Line,
    buffers: &mut Buffers,
) -> Result<(i64, bool), Error> {
    let Buffers { row: stock, other: item, .. } = buffers;
    let i = U64(u64::from(line.item));
    if !tx.find(&tables.item, &[i], &[I_PRICE, I_NAME, I_DATA], item)? {
        return Err(Error::user(UnusedItem));
    }
    let supply = U64(u64::from(line.supply_warehouse));
    let key = [supply, i];
    let info = S_DIST_01 + order.district as u16 - 1;
    let columns = [S_QUANTITY, S_YTD, S_ORDER_CNT, S_REMOTE_CNT, info, S_DATA];
    tx.need(&tables.stock, &key, &columns, stock)?;
    let ordered = i64::from(line.quantity);
    let left = stock.i64(0) - ordered;
    let left = if left >= 10 { left } else { left + 91 };
    let changes = [
        (S_QUANTITY, I64(left)),
        (S_YTD, I64(stock.i64(1) + ordered)),
        (S_ORDER_CNT, U64(stock.u64(2) + 1)),
        (S_REMOTE_CNT, U64(stock.u64(3) + 1)),
    ];
    let remote = u64::from(line.supply_warehouse) != order.warehouse;
    tx.update(&tables.stock, &key, if remote { &changes } else { &changes[..3] })?;
    let amount = ordered * item.i64(0);
    tx.insert(
        &tables.order_line,
        &[
            U64(number),
            U64(order.district),
            U64(order.warehouse),
            U64(at),
            i,
            supply,
            U64(NULL),
            I64(ordered),
            I64(amount),
            Text(stock.text(4)),
        ],
    )?;
    let original = item.text(2).contains("ORIGINAL") && stock.text(5).contains("ORIGINAL");
    Ok((amount, original))
}
