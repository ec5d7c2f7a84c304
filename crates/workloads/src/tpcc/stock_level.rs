//! Stock-Level (clause 2.8): how many of the items that were ordered last are running out.

use perdura::Value::U64;
use perdura::{Error, Scan};

use super::buffers::Buffers;
use super::schema::{D_NEXT_O_ID, OL_I_ID, S_QUANTITY, Tables};
use crate::reads::Reads;

/// Orders that are looked at.
const LAST_ORDERS: u64 = 20;

/// Counts the items of the district's last 20 orders whose stock is below the threshold, each once.
///
/// # Errors
/// The database's own.
pub(super) fn count_low(
    tx: &impl Reads,
    tables: &Tables,
    (warehouse, district): (u64, u64),
    threshold: i64,
    buffers: &mut Buffers,
) -> Result<u64, Error> {
    let Buffers { row, numbers: items, .. } = buffers;
    let (w, d) = (U64(warehouse), U64(district));
    tx.need(&tables.district, &[w, d], &[D_NEXT_O_ID], row)?;
    let next = row.u64(0);
    let (low, high) = ([w, d, U64(next.saturating_sub(LAST_ORDERS))], [w, d, U64(next)]);
    items.clear();
    let last = Scan::range(&low[..]..&high[..]).columns(&[OL_I_ID]);
    tx.each(&tables.order_line, &last, |row| items.push(row.u64(0)))?;
    items.sort_unstable();
    items.dedup();
    let mut low = 0;
    for item in items {
        tx.need(&tables.stock, &[w, U64(*item)], &[S_QUANTITY], row)?;
        low += u64::from(row.i64(0) < threshold);
    }
    Ok(low)
}
