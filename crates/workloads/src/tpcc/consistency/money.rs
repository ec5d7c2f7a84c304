//! The conditions about money: 1, 8, 9, 10 and 12. All amounts are in cents.

use std::collections::HashMap;

use perdura::Value::U64;
use perdura::{Error, Row, Scan};

use super::orders::delivered_amounts;
use super::{Books, Found, difference};
use crate::reads::Reads;
use crate::tpcc::schema::{
    C_BALANCE, C_D_ID, C_ID, C_YTD_PAYMENT, D_ID, D_YTD, H_AMOUNT, H_C_D_ID, H_C_ID, H_C_W_ID,
    H_D_ID, W_YTD,
};

fn warehouse_ytd<T: Reads>(books: &Books<'_, T>, warehouse: u64) -> Result<Option<i64>, Error> {
    let mut row = Row::new();
    let found = books.tx.find(&books.tables.warehouse, &[U64(warehouse)], &[W_YTD], &mut row)?;
    Ok(found.then(|| row.i64(0)))
}

/// Checks that a warehouse's W_YTD is a sum of something else.
fn is_ytd(ytd: Option<i64>, sum: i64, of: &str) -> Option<String> {
    match ytd {
        Some(ytd) if ytd == sum => None,
        Some(ytd) => Some(format!("W_YTD is {ytd} cents, the sum of {of} {sum}")),
        None => Some("has no row in WAREHOUSE".into()),
    }
}

/// 1: for each warehouse, W_YTD = sum(D_YTD).
pub(super) fn warehouse_and_districts<T: Reads>(books: &Books<'_, T>) -> Found {
    books.any(|w| {
        let mut sum = 0;
        books.each(&books.tables.district, w, &[D_YTD], |row| sum += row.i64(0))?;
        Ok(is_ytd(warehouse_ytd(books, w)?, sum, "D_YTD"))
    })
}

/// 8: for each warehouse, W_YTD = sum(H_AMOUNT).
pub(super) fn warehouse_and_history<T: Reads>(books: &Books<'_, T>) -> Found {
    books.any(|w| {
        let mut sum = 0;
        books.each(&books.tables.history, w, &[H_AMOUNT], |row| sum += row.i64(0))?;
        Ok(is_ytd(warehouse_ytd(books, w)?, sum, "H_AMOUNT"))
    })
}

/// 9: for each district, D_YTD = sum(H_AMOUNT).
pub(super) fn district_and_history<T: Reads>(books: &Books<'_, T>) -> Found {
    let tables = books.tables;
    books.any(|w| {
        let ytd = books.by_district(&tables.district, w, (D_ID, D_YTD), |ytd, row| {
            *ytd = row.i64(1);
        })?;
        let paid = books.by_district(&tables.history, w, (H_D_ID, H_AMOUNT), |sum, row| {
            *sum += row.i64(1);
        })?;
        Ok(difference(("D_YTD in cents", &ytd), ("the sum of H_AMOUNT", &paid), "district"))
    })
}

/// 10: for each customer, C_BALANCE = sum(OL_AMOUNT of what was delivered) - sum(H_AMOUNT).
pub(super) fn balances<T: Reads>(books: &Books<'_, T>) -> Found {
    // A customer may have paid in another warehouse.
    let mut paid: HashMap<[u64; 3], i64> = HashMap::new();
    let columns = [H_C_W_ID, H_C_D_ID, H_C_ID, H_AMOUNT];
    books.tx.each(&books.tables.history, &Scan::all().columns(&columns), |row| {
        *paid.entry([row.u64(0), row.u64(1), row.u64(2)]).or_default() += row.i64(3);
    })?;
    let wrong = books.any(|w| {
        let mut delivered = delivered_amounts(books, w)?;
        let columns = [C_D_ID, C_ID, C_BALANCE];
        let mut wrong = None;
        books.each(&books.tables.customer, w, &columns, |row| {
            let (district, customer, balance) = (row.u64(0), row.u64(1), row.i64(2));
            let delivered = delivered.remove(&(district, customer)).unwrap_or(0);
            let paid = paid.remove(&[w, district, customer]).unwrap_or(0);
            if wrong.is_none() && balance != delivered - paid {
                wrong = Some(format!(
                    "customer {customer} of district {district}: C_BALANCE is {balance} cents, delivered {delivered}, paid {paid}"
                ));
            }
        })?;
        let strange = delivered.keys().min().map(|(district, customer)| {
            format!("orders of customer {customer} of district {district}, who does not exist")
        });
        Ok(wrong.or(strange))
    })?;
    let strange = paid.keys().min().map(|[warehouse, district, customer]| {
        format!("warehouse {warehouse}: payments of customer {customer} of district {district}, who does not exist")
    });
    Ok(wrong.or(strange))
}

/// 12: for each customer, C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT of what was delivered).
pub(super) fn balances_and_payments<T: Reads>(books: &Books<'_, T>) -> Found {
    books.any(|w| {
        let delivered = delivered_amounts(books, w)?;
        let mut wrong = None;
        let columns = [C_D_ID, C_ID, C_BALANCE, C_YTD_PAYMENT];
        books.each(&books.tables.customer, w, &columns, |row| {
            let (district, customer) = (row.u64(0), row.u64(1));
            let (balance, paid) = (row.i64(2), row.i64(3));
            let delivered = delivered.get(&(district, customer)).copied().unwrap_or(0);
            if wrong.is_none() && balance + paid != delivered {
                wrong = Some(format!(
                    "customer {customer} of district {district}: C_BALANCE is {balance} cents, C_YTD_PAYMENT {paid}, delivered {delivered}"
                ));
            }
        })?;
        Ok(wrong)
    })
}
