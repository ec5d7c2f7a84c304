//! The four tables (clause 3.2).
//!
//! A row has 100 bytes, one of the history 50: numbers as in the table, the rest a filler.
//!
//! | kind of value | bytes |
//! |---|---|
//! | branch, teller | 4 |
//! | account, number of a transaction, time stamp | 8 |
//! | balance, amount | 8, signed |

use perdura::{ColumnType, Database, Environment, Error, Schema, Table, TableSchema};

use ColumnType::{I64, U32, U64};

use crate::random::mix;

pub(super) const B_BALANCE: u16 = 1;
pub(super) const T_BALANCE: u16 = 2;
pub(super) const A_BALANCE: u16 = 2;

/// Bytes of the fillers.
pub(super) const BRANCH_FILLER: usize = 88;
pub(super) const TELLER_FILLER: usize = 84;
pub(super) const ACCOUNT_FILLER: usize = 80;
pub(super) const HISTORY_FILLER: usize = 10;

fn filler(bytes: usize) -> ColumnType {
    ColumnType::Bytes { max: bytes as u32 }
}

/// The schema with which a TPC-B database is created.
#[must_use]
pub fn schema() -> Schema {
    let branch = TableSchema::new("branch")
        .column("b_id", U32)
        .column("b_balance", I64)
        .column("b_filler", filler(BRANCH_FILLER))
        .key(&["b_id"]);
    let teller = TableSchema::new("teller")
        .column("t_id", U32)
        .column("t_b_id", U32)
        .column("t_balance", I64)
        .column("t_filler", filler(TELLER_FILLER))
        .key(&["t_id"]);
    let account = TableSchema::new("account")
        .column("a_id", U64)
        .column("a_b_id", U32)
        .column("a_balance", I64)
        .column("a_filler", filler(ACCOUNT_FILLER))
        .key(&["a_id"]);
    let history = TableSchema::new("history")
        .column("h_id", U64)
        .column("h_t_id", U32)
        .column("h_b_id", U32)
        .column("h_a_id", U64)
        .column("h_delta", I64)
        .column("h_time", U64)
        .column("h_filler", filler(HISTORY_FILLER))
        .key(&["h_id"]);
    Schema::new().table(branch).table(teller).table(account).table(history)
}

/// The filler of a row: it distinguishes the row from others.
pub(super) fn fill<const N: usize>(id: u64) -> [u8; N] {
    let mut bytes = [0; N];
    for (at, piece) in bytes.chunks_mut(8).enumerate() {
        let word = mix(mix(id) ^ at as u64).to_le_bytes();
        piece.copy_from_slice(&word[..piece.len()]);
    }
    bytes
}

/// Handles to the four tables of an open database.
#[derive(Debug, Clone)]
pub(super) struct Tables {
    pub(super) branch: Table,
    pub(super) teller: Table,
    pub(super) account: Table,
    pub(super) history: Table,
}

impl Tables {
    /// # Errors
    /// The database has no TPC-B tables, or other ones of these names.
    pub(super) fn of<E: Environment>(database: &Database<E>) -> Result<Self, Error> {
        let table = |name| database.table(name);
        let tables = Self {
            branch: table("branch")?,
            teller: table("teller")?,
            account: table("account")?,
            history: table("history")?,
        };
        // Rows are read by column number and type.
        match database.schema().difference(&schema()) {
            Some(differs) => Err(Error::WrongSchema { differs }),
            None => Ok(tables),
        }
    }
}
