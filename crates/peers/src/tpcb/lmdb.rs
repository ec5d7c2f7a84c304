//! TPC-B on LMDB: one environment, a table of fixed-size rows for each of the four.
//!
//! LMDB has one writer at a time; the workers wait for each other in `mdb_txn_begin`. The settings are
//! those of [`crate::LmdbStore`].

use std::path::{Path, PathBuf};

use heed::types::Bytes;
use heed::{Database, Env, IntegerComparator, RwTxn};
use workloads::tpcb::{Bank, BankConnection, Books, Entry, Pages, Spec};
use workloads::{Observer, StoreError, allocated_bytes};

use crate::lmdb::open_env;
use crate::shared::{LOAD_BATCH, create_directory};

const NAME: &str = "lmdb";
/// Room for a tuple: a loaded page holds about thirty.
const MAP_BYTES_PER_TUPLE: u64 = 256;
/// Room for a row of the history.
const MAP_BYTES_PER_ENTRY: u64 = 256;
/// Room besides that: for the copies of pages.
const MAP_BYTES_MORE: u64 = 1 << 30;

type Table = Database<Bytes, Bytes, IntegerComparator>;

/// The four tables. A balance is the first eight bytes of its row.
#[derive(Clone, Copy)]
struct Tables {
    branch: Table,
    teller: Table,
    account: Table,
    history: Table,
}

/// An LMDB environment with the tables of TPC-B.
pub struct LmdbBank {
    env: Env,
    tables: Tables,
    directory: PathBuf,
}

impl LmdbBank {
    /// Creates it in the directory `lmdb.0` below an existing one, for so many transactions.
    ///
    /// # Errors
    /// It exists already or cannot be created.
    pub fn create(directory: &Path, spec: &Spec, transactions: u64) -> Result<Self, StoreError> {
        let directory = create_directory(directory, NAME, 0)?;
        let map_bytes = spec.tuples() * MAP_BYTES_PER_TUPLE
            + transactions * MAP_BYTES_PER_ENTRY
            + MAP_BYTES_MORE;
        let env = open_env(&directory, Some(map_bytes as usize), 4)?;
        let mut tx = env.write_txn().map_err(StoreError::engine)?;
        let mut table = |name| {
            env.database_options()
                .types::<Bytes, Bytes>()
                .key_comparator::<IntegerComparator>()
                .name(name)
                .create(&mut tx)
                .map_err(StoreError::engine)
        };
        let tables = Tables {
            branch: table("branch")?,
            teller: table("teller")?,
            account: table("account")?,
            history: table("history")?,
        };
        tx.commit().map_err(StoreError::engine)?;
        Ok(Self { env, tables, directory })
    }

    /// Bytes that its files take.
    ///
    /// # Errors
    /// They cannot be examined.
    pub fn footprint_bytes(&self) -> Result<u64, StoreError> {
        allocated_bytes(&self.directory)
    }

    fn begin(&self) -> Result<RwTxn<'_>, StoreError> {
        self.env.write_txn().map_err(StoreError::engine)
    }
}

/// A row: the parts one after the other.
fn row<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut row = [0; N];
    let mut at = 0;
    for part in parts {
        row[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    assert_eq!(at, N, "a row has all of its columns");
    row
}

/// The number that a row has at a place.
fn at(row: &[u8], place: usize) -> Result<u64, StoreError> {
    let bytes = row.get(place..place + 8).and_then(|bytes| bytes.try_into().ok());
    let bytes = bytes.ok_or_else(|| StoreError::engine(format!("a row of {} bytes", row.len())))?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Adds to a balance and returns it. The row has `N` bytes.
fn add<const N: usize>(
    tx: &mut RwTxn<'_>,
    table: Table,
    key: u64,
    delta: i64,
) -> Result<i64, StoreError> {
    let found = table.get(tx, &key.to_ne_bytes()).map_err(StoreError::engine)?;
    let found = found.ok_or(StoreError::Missing { key })?;
    let mut row: [u8; N] = found.try_into().map_err(StoreError::engine)?;
    let balance = at(&row, 0)?.cast_signed() + delta;
    row[..8].copy_from_slice(&balance.to_ne_bytes());
    table.put(tx, &key.to_ne_bytes(), &row).map_err(StoreError::engine)?;
    Ok(balance)
}

impl Bank for LmdbBank {
    type Connection<'a> = &'a Self;

    fn name(&self) -> &str {
        NAME
    }

    fn connect(&self) -> Result<&Self, StoreError> {
        Ok(self)
    }

    fn load<O: Observer>(&self, spec: &Spec, progress: &O) -> Result<(), StoreError> {
        let Tables { branch, teller, account, .. } = self.tables;
        let zero = 0_i64.to_ne_bytes();
        let mut rows = 0;
        let mut tx = self.begin()?;
        let mut put = |tx: &mut RwTxn<'_>, table: Table, id: u64, row: &[u8]| {
            rows += 1;
            table.put(tx, &id.to_ne_bytes(), row).map_err(StoreError::engine)
        };
        for (id, filler) in Pages(spec).branches() {
            put(&mut tx, branch, id, &row::<96>(&[&zero, &filler]))?;
        }
        for (id, b, filler) in Pages(spec).tellers() {
            put(&mut tx, teller, id, &row::<100>(&[&zero, &b.to_ne_bytes(), &filler]))?;
        }
        for (number, (id, b, filler)) in Pages(spec).accounts().enumerate() {
            put(&mut tx, account, id, &row::<96>(&[&zero, &b.to_ne_bytes(), &filler]))?;
            if (number + 1) % LOAD_BATCH == 0 {
                tx.commit().map_err(StoreError::engine)?;
                progress.completed(0, number as u64 + 1);
                tx = self.begin()?;
            }
        }
        tx.commit().map_err(StoreError::engine)?;
        progress.completed(0, rows);
        Ok(())
    }

    fn books(&self) -> Result<Books, StoreError> {
        let tx = self.env.read_txn().map_err(StoreError::engine)?;
        let Tables { branch, teller, account, history } = self.tables;
        let mut books = Books::default();
        for (table, balances) in [
            (branch, &mut books.branches),
            (teller, &mut books.tellers),
            (account, &mut books.accounts),
        ] {
            for found in table.iter(&tx).map_err(StoreError::engine)? {
                let (key, row) = found.map_err(StoreError::engine)?;
                balances.insert(at(key, 0)?, at(row, 0)?.cast_signed());
            }
        }
        for found in history.iter(&tx).map_err(StoreError::engine)? {
            let (_, row) = found.map_err(StoreError::engine)?;
            let [branch, teller, account, delta] =
                [at(row, 0), at(row, 8), at(row, 16), at(row, 24)];
            books.add(branch?, teller?, account?, delta?.cast_signed());
        }
        Ok(books)
    }
}

impl BankConnection for &LmdbBank {
    fn book(&mut self, entry: &Entry) -> Result<i64, StoreError> {
        let Entry { id, account, teller, branch, delta } = *entry;
        let tables = self.tables;
        let mut tx = self.begin()?;
        let balance = add::<96>(&mut tx, tables.account, account, delta)?;
        add::<100>(&mut tx, tables.teller, teller, delta)?;
        add::<96>(&mut tx, tables.branch, branch, delta)?;
        let columns =
            [branch, teller, account, delta.cast_unsigned(), id + 1].map(u64::to_ne_bytes);
        let [b, t, a, d, time] = &columns;
        let row = row::<50>(&[b, t, a, d, time, &entry.filler()]);
        tables.history.put(&mut tx, &id.to_ne_bytes(), &row).map_err(StoreError::engine)?;
        tx.commit().map_err(StoreError::engine)?;
        Ok(balance)
    }
}
