//! The inputs: keys and texts, a function of the specification alone.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use workloads::Random;

/// Keys in random order have so many bits (P3 5: "randomly generated keys").
const KEY_BITS: u32 = 40;
const KEY_MASK: u64 = (1 << KEY_BITS) - 1;
/// The longest text.
const MOST_RECORD_BYTES: u32 = 1 << 20;
/// The letters of texts.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The operations of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Operation {
    /// New rows.
    Insert,
    /// New texts of rows that are there.
    Update,
    /// Rows go, each once.
    Delete,
    /// Texts of rows are read.
    Select,
}

impl Operation {
    /// All.
    pub const ALL: [Self; 4] = [Self::Insert, Self::Update, Self::Delete, Self::Select];

    /// Returns whether it changes anything.
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Select)
    }

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Select => "select",
        }
    }
}

/// The order of the keys of new rows, and of those that are changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Keys {
    /// Each the next one.
    Ascending,
    /// Uniform.
    Random,
}

impl Keys {
    /// All.
    pub const ALL: [Self; 2] = [Self::Ascending, Self::Random];

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ascending => "ascending",
            Self::Random => "random",
        }
    }
}

/// A word that names nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ParseNameError(String);

fn named<T: Copy>(
    text: &str,
    all: &[T],
    name: fn(T) -> &'static str,
    what: &str,
) -> Result<T, ParseNameError> {
    let found = all.iter().copied().find(|one| name(*one) == text);
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
        let names = names.join(", ");
        ParseNameError(format!(
            "`{}` is no {what}; choose one of {names}, or all",
            text.escape_debug()
        ))
    })
}

impl FromStr for Operation {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, ParseNameError> {
        named(text, &Self::ALL, Self::name, "operation")
    }
}

impl FromStr for Keys {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, ParseNameError> {
        named(text, &Self::ALL, Self::name, "order of keys")
    }
}

/// A workload as numbers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// The operations.
    pub operation: Operation,
    /// The order of keys.
    pub keys: Keys,
    /// Rows that are there before it begins.
    pub records: u64,
    /// Transactions.
    pub transactions: u64,
    /// Operations of a transaction.
    pub per_txn: u32,
    /// Bytes of a text.
    pub record_bytes: u32,
    /// Bytes of a page of SQLite's.
    pub page_bytes: u32,
    /// Statements are prepared once; otherwise each transaction is a text that SQLite parses, as Mobibench has
    /// it.
    pub prepared: bool,
    /// SQLite keeps its lock between transactions.
    pub exclusive: bool,
    /// The seed of keys and texts.
    pub seed: u64,
}

/// A workload that is impossible.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(String);

impl SpecError {
    pub(super) fn new(why: String) -> Self {
        Self(why)
    }
}

impl Spec {
    fn check(&self) -> Result<(), SpecError> {
        let bad = |why: String| Err(SpecError(why));
        let operations = self.transactions.saturating_mul(self.per_txn.into());
        if !self.page_bytes.is_power_of_two() || !(512..=64 << 10).contains(&self.page_bytes) {
            return bad(format!(
                "pages of {} bytes: a power of two from 512 to 65536 is possible",
                self.page_bytes
            ));
        }
        if !(1..=MOST_RECORD_BYTES).contains(&self.record_bytes) {
            return bad(format!(
                "records of {} bytes: 1 to {MOST_RECORD_BYTES} are possible",
                self.record_bytes
            ));
        }
        if !(1..=4096).contains(&self.per_txn) {
            return bad(format!("{} operations a transaction: 1 to 4096 are", self.per_txn));
        }
        if operations.saturating_add(self.records) > 1 << 32 {
            return bad("more than 4,294,967,296 operations and records".into());
        }
        match self.operation {
            Operation::Delete if operations > self.records => bad(format!(
                "{operations} rows are to be deleted, and {} are there: load more with --records",
                self.records
            )),
            Operation::Update | Operation::Select if self.records == 0 => {
                let what = self.operation.name();
                bad(format!("there is no row to {what}: load some with --records"))
            }
            _ => Ok(()),
        }
    }
}

/// A workload, generated.
#[derive(Clone, Debug)]
pub struct Workload {
    spec: Spec,
    /// Numbers of the rows that transactions are about, in their order.
    rows: Vec<u32>,
}

impl Workload {
    /// Draws all keys.
    ///
    /// # Errors
    /// The specification is impossible.
    pub fn generate(spec: &Spec) -> Result<Self, SpecError> {
        spec.check()?;
        let count = spec.transactions * u64::from(spec.per_txn);
        let mut random = Random::new(spec.seed, 0x6d0b_1be7);
        let rows: Vec<u64> = match (spec.operation, spec.keys) {
            (Operation::Insert, _) => (spec.records..spec.records + count).collect(),
            (_, Keys::Ascending) => (0..count).map(|number| number % spec.records).collect(),
            (Operation::Update | Operation::Select, Keys::Random) => {
                (0..count).map(|_| random.below(spec.records)).collect()
            }
            (Operation::Delete, Keys::Random) => {
                let mut left: Vec<u64> = (0..spec.records).collect();
                let mut draw = || left.swap_remove(random.below(left.len() as u64) as usize);
                (0..count).map(|_| draw()).collect()
            }
        };
        let rows = rows.into_iter().map(|row| row as u32).collect();
        Ok(Self { spec: spec.clone(), rows })
    }

    /// The specification.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The numbers of the rows of each transaction.
    pub(super) fn transactions(&self) -> impl Iterator<Item = &[u32]> {
        self.rows.chunks(self.spec.per_txn as usize)
    }

    /// The key of the row of a number. No two rows have the same.
    pub(super) fn key(&self, row: u64) -> i64 {
        match self.spec.keys {
            Keys::Ascending => row.cast_signed() + 1,
            Keys::Random => scattered(row ^ (self.spec.seed & KEY_MASK)).cast_signed(),
        }
    }

    /// Writes the text of a row after so many changes.
    pub(super) fn text(&self, row: u64, version: u64, out: &mut String) {
        let mut random = Random::new(self.spec.seed ^ row, version);
        let mut left = self.spec.record_bytes as usize;
        while left > 0 {
            let mut bits = random.next_u64();
            for _ in 0..left.min(10) {
                out.push(char::from(LETTERS[(bits & 63) as usize]));
                bits >>= 6;
            }
            left = left.saturating_sub(10);
        }
    }
}

/// A number of [`KEY_BITS`] bits for each of another: each step can be undone, so no two become one.
fn scattered(number: u64) -> u64 {
    let mut key = number & KEY_MASK;
    for odd in [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9_u64] {
        key = key.wrapping_mul(odd) & KEY_MASK;
        key ^= key >> 19;
    }
    key
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn spec() -> Spec {
        Spec {
            operation: Operation::Insert,
            keys: Keys::Random,
            records: 1000,
            transactions: 500,
            per_txn: 2,
            record_bytes: 101,
            page_bytes: 4096,
            prepared: false,
            exclusive: false,
            seed: 7,
        }
    }

    #[test]
    fn keys_are_different_and_rows_are_deleted_once() {
        let workload = Workload::generate(&spec()).expect("possible");
        let keys: BTreeSet<i64> = (0..2000).map(|row| workload.key(row)).collect();
        assert_eq!(keys.len(), 2000);
        assert!(keys.iter().all(|key| (0..1 << KEY_BITS).contains(key)));
        assert!(keys.last() > Some(&(1 << (KEY_BITS - 1))), "they are all over");
        for keys in Keys::ALL {
            let delete = Spec { operation: Operation::Delete, keys, ..spec() };
            let workload = Workload::generate(&delete).expect("possible");
            let rows: BTreeSet<&u32> = workload.transactions().flatten().collect();
            assert_eq!(rows.len(), 1000);
            assert_eq!(workload.rows.is_sorted(), keys == Keys::Ascending);
        }
    }

    #[test]
    fn texts_have_their_length_and_no_quotes() {
        let workload = Workload::generate(&spec()).expect("possible");
        let text = |row, version| {
            let mut text = String::new();
            workload.text(row, version, &mut text);
            text
        };
        assert_eq!(text(1, 0).len(), 101);
        assert!(text(1, 0) != text(1, 1) && text(1, 0) != text(2, 0));
        assert!(text(1, 0).bytes().all(|byte| LETTERS.contains(&byte)));
    }

    #[test]
    fn impossible_workloads_are_refused() {
        let delete = Operation::Delete;
        for (bad, says) in [
            (Spec { page_bytes: 1000, ..spec() }, "power of two"),
            (Spec { record_bytes: 0, ..spec() }, "records of 0 bytes"),
            (Spec { per_txn: 0, ..spec() }, "0 operations"),
            (Spec { operation: delete, records: 999, ..spec() }, "--records"),
            (Spec { operation: Operation::Update, records: 0, ..spec() }, "no row to update"),
            (Spec { operation: Operation::Select, records: 0, ..spec() }, "no row to select"),
            (Spec { records: 1 << 33, ..spec() }, "4,294,967,296"),
        ] {
            let why = Workload::generate(&bad).expect_err("impossible").to_string();
            assert!(why.contains(says), "{why}");
        }
    }
}
