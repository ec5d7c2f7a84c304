//! Finding a customer by number or by last name.

use perdura::Value::{Text, U64};
use perdura::{Error, Scan};

use super::draw::LastName;
use super::inputs::CustomerSelector;
use super::schema::{BY_NAME, C_ID, Tables};
use crate::reads::{Reads, missing};

/// The number of a customer. Of several with the last name it is the one in the middle, in the
/// order of their first names: at place n/2, rounded up (clause 2.5.2.2).
pub(super) fn number(
    tx: &impl Reads,
    tables: &Tables,
    warehouse: u64,
    district: u64,
    who: CustomerSelector,
    found: &mut Vec<u64>,
) -> Result<u64, Error> {
    let name = match who {
        CustomerSelector::Number(number) => return Ok(u64::from(number)),
        CustomerSelector::LastName(name) => LastName::new(u64::from(name)),
    };
    found.clear();
    let prefix = [U64(warehouse), U64(district), Text(name.as_str())];
    let scan = Scan::prefix(&prefix[..]).by(BY_NAME).columns(&[C_ID]);
    tx.each(&tables.customer, &scan, |row| found.push(row.u64(0)))?;
    let place = found.len().div_ceil(2);
    match place.checked_sub(1) {
        Some(index) => Ok(found[index]),
        None => Err(missing(&tables.customer, &prefix)),
    }
}
