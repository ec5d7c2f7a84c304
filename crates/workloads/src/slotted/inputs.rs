//! The inputs: keys and operations, a function of the specification alone.

use crate::random::{Random, percent};

/// Keys have so many bits (P3 5: "randomly generated keys").
const KEY_BITS: u32 = 40;
/// The largest record: the largest page holds it in one piece.
const MOST_RECORD_BYTES: u32 = 8 << 10;

/// The operations of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mix {
    /// New records.
    Insert,
    /// New values of records that are there.
    Update,
    /// Records go, each once.
    Delete,
    /// So many percent of the transactions read records, the others insert them.
    Reads(u8),
}

impl Mix {
    /// The name.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Insert => "insert".into(),
            Self::Update => "update".into(),
            Self::Delete => "delete".into(),
            Self::Reads(percent) => format!("read-{percent}"),
        }
    }
}

/// The order of new keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys {
    /// Uniform.
    Random,
    /// Each larger than all before.
    Ascending,
}

impl Keys {
    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Ascending => "ascending",
        }
    }
}

/// A workload as numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    /// The operations.
    pub mix: Mix,
    /// The order of new keys.
    pub keys: Keys,
    /// Records that are there before it begins.
    pub loaded: u64,
    /// Transactions.
    pub transactions: u64,
    /// Operations of a transaction.
    pub per_txn: u32,
    /// Bytes of a value: P3's record.
    pub record_bytes: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// The seed of keys.
    pub seed: u64,
}

impl Default for Spec {
    /// P3's inserts of 64 bytes, on pages of its figures.
    fn default() -> Self {
        Self {
            mix: Mix::Insert,
            keys: Keys::Random,
            loaded: 0,
            transactions: 100_000,
            per_txn: 1,
            record_bytes: 64,
            page_bytes: 1024,
            seed: 1,
        }
    }
}

/// A workload that is impossible.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(String);

impl Spec {
    fn check(&self) -> Result<(), SpecError> {
        let bad = |why: String| Err(SpecError(why));
        if !self.page_bytes.is_power_of_two() || !(512..=32 << 10).contains(&self.page_bytes) {
            return bad(format!(
                "pages of {} bytes: a power of two from 512 to 32768 is possible",
                self.page_bytes
            ));
        }
        if self.record_bytes == 0 || self.record_bytes > MOST_RECORD_BYTES {
            return bad(format!(
                "records of {} bytes: 1 to {MOST_RECORD_BYTES} are possible",
                self.record_bytes
            ));
        }
        if self.per_txn == 0 || self.per_txn > 4096 {
            return bad(format!("{} operations a transaction: 1 to 4096 are", self.per_txn));
        }
        let operations = self.transactions.saturating_mul(self.per_txn.into());
        if operations.saturating_add(self.loaded) > 1 << 32 {
            return bad("more than 4,294,967,296 operations and records".into());
        }
        match self.mix {
            Mix::Delete if operations > self.loaded => bad(format!(
                "{operations} records are to be deleted, and {} are there: load more with --tuples",
                self.loaded
            )),
            Mix::Update | Mix::Reads(1..) if self.loaded == 0 => {
                bad("there is no record to update or read: load some with --tuples".into())
            }
            Mix::Reads(percent) if percent > 100 => {
                bad(format!("{percent}% of reads: 0 to 100 are possible"))
            }
            _ => Ok(()),
        }
    }
}

/// An operation on a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    Put,
    Delete,
    Read,
}

/// A transaction: the number of its first key, and what it does with each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transaction {
    first: usize,
    operation: Operation,
    pub(super) changes: bool,
}

/// A workload, generated.
#[derive(Clone, Debug)]
pub struct Workload {
    spec: Spec,
    loaded: Vec<u64>,
    keys: Vec<u64>,
    transactions: Vec<Transaction>,
}

impl Workload {
    /// Draws all keys.
    ///
    /// # Errors
    /// The specification is impossible.
    pub fn generate(spec: &Spec) -> Result<Self, SpecError> {
        spec.check()?;
        let mut random = Random::new(spec.seed, 0x510_77ed);
        let mut next = 0;
        let mut new = |random: &mut Random| match spec.keys {
            Keys::Random => random.next_u64() >> (64 - KEY_BITS),
            Keys::Ascending => {
                next += 1;
                next
            }
        };
        let loaded: Vec<u64> = (0..spec.loaded).map(|_| new(&mut random)).collect();
        let per_txn = spec.per_txn as usize;
        let mut left = if spec.mix == Mix::Delete { loaded.clone() } else { Vec::new() };
        let (mut keys, mut transactions) = (Vec::new(), Vec::new());
        for _ in 0..spec.transactions {
            let reads = matches!(spec.mix, Mix::Reads(of) if percent(&mut random, of.into()));
            let operation = match spec.mix {
                Mix::Delete => Operation::Delete,
                _ if reads => Operation::Read,
                _ => Operation::Put,
            };
            let changes = operation != Operation::Read;
            transactions.push(Transaction { first: keys.len(), operation, changes });
            for _ in 0..per_txn {
                keys.push(match spec.mix {
                    Mix::Delete => left.swap_remove(random.below(left.len() as u64) as usize),
                    Mix::Insert | Mix::Reads(_) if !reads => new(&mut random),
                    _ => loaded[random.below(spec.loaded) as usize],
                });
            }
        }
        Ok(Self { spec: spec.clone(), loaded, keys, transactions })
    }

    /// The specification.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Transactions that change something.
    #[must_use]
    pub fn writers(&self) -> u64 {
        self.transactions.iter().filter(|one| one.changes).count() as u64
    }

    pub(super) fn loaded(&self) -> &[u64] {
        &self.loaded
    }

    pub(super) fn transactions(&self) -> &[Transaction] {
        &self.transactions
    }

    pub(super) fn operations(
        &self,
        transaction: &Transaction,
    ) -> impl Iterator<Item = (Operation, u64)> {
        let keys = &self.keys[transaction.first..][..self.spec.per_txn as usize];
        let operation = transaction.operation;
        keys.iter().map(move |key| (operation, *key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_specification_gives_the_same_work() {
        let spec = Spec { loaded: 100, transactions: 50, mix: Mix::Reads(50), ..Spec::default() };
        let [one, two] = [(); 2].map(|()| Workload::generate(&spec).expect("possible"));
        assert_eq!((&one.keys, &one.loaded), (&two.keys, &two.loaded));
        let other = Workload::generate(&Spec { seed: 2, ..spec }).expect("possible");
        assert_ne!(one.keys, other.keys);
        assert!(one.keys.iter().all(|key| *key < 1 << KEY_BITS));
        assert!((10..40).contains(&one.writers()));
    }

    #[test]
    fn keys_are_deleted_once_and_ascend_if_asked_to() {
        let spec = Spec { loaded: 60, transactions: 60, mix: Mix::Delete, ..Spec::default() };
        let mut keys = Workload::generate(&spec).expect("possible").keys;
        let ascend = Spec { keys: Keys::Ascending, ..Spec::default() };
        let ascending = Workload::generate(&ascend).expect("possible").keys;
        assert!(ascending.is_sorted());
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 60);
    }

    #[test]
    fn impossible_workloads_are_refused() {
        let sound = Spec { loaded: 10, transactions: 10, ..Spec::default() };
        assert!(sound.check().is_ok());
        for (wrong, why) in [
            (Spec { page_bytes: 1000, ..sound.clone() }, "power of two"),
            (Spec { record_bytes: 0, ..sound.clone() }, "1 to 8192"),
            (Spec { per_txn: 0, ..sound.clone() }, "0 operations"),
            (Spec { mix: Mix::Delete, per_txn: 2, ..sound.clone() }, "--tuples"),
            (Spec { mix: Mix::Update, loaded: 0, ..sound.clone() }, "--tuples"),
            (Spec { mix: Mix::Reads(101), ..sound }, "0 to 100"),
        ] {
            let error = Workload::generate(&wrong).expect_err("impossible").to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
