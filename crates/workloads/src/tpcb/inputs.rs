//! The inputs of all transactions, generated before the clock starts (clause 5.3).

use super::spec::{Spec, SpecError, TELLERS};
use crate::form::Form;
use crate::random::{Random, between, percent, stream};

/// Keeps the streams of TPC-B apart from those of other workloads.
const DOMAIN: u64 = 0x7470_6362;
/// The largest amount, drawn or paid in.
pub(super) const MOST: u64 = 999_999;

/// A transaction's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Input {
    pub(super) account: u64,
    pub(super) teller: u32,
    pub(super) delta: i32,
}

impl Input {
    /// The teller's branch.
    pub(super) fn branch(&self) -> u64 {
        u64::from(self.teller - 1) / TELLERS + 1
    }
}

/// The transactions of a partition.
#[derive(Debug, Clone)]
struct Sequence {
    /// Number of the first of them in the partition's whole sequence.
    first: u64,
    inputs: Vec<Input>,
    /// The generator after the last of them.
    random: Random,
}

/// A fixed sequence of transactions for each partition. Sequences have no end: what was generated
/// is a piece of them, and [`Workload::after`] gives the next one.
#[derive(Debug, Clone)]
pub struct Workload {
    spec: Spec,
    partitions: Vec<Sequence>,
}

impl Workload {
    /// Generates the first transactions; takes 16 bytes each.
    ///
    /// # Errors
    /// If the specification cannot be run.
    pub fn generate(spec: &Spec) -> Result<Self, SpecError> {
        spec.validate()?;
        let start = |partition: usize| Sequence {
            first: 0,
            inputs: Vec::new(),
            random: stream(DOMAIN, spec.seed, [partition as u64, 0, 0, 0]),
        };
        let partitions = (0..spec.partitions).map(start).collect();
        Self { spec: spec.clone(), partitions }.after(spec.transactions)
    }

    /// The `transactions` that follow on these.
    ///
    /// # Errors
    /// If there are too many.
    pub fn after(&self, transactions: u64) -> Result<Self, SpecError> {
        let spec = Spec { transactions, ..self.spec.clone() };
        spec.validate()?;
        let next = |(partition, last): (usize, &Sequence)| {
            let mut random = last.random.clone();
            let branches = spec.branches_of(partition).count() as u64;
            let inputs = (0..spec.transactions_of(partition))
                .map(|_| draw(&spec, &mut random, partition, branches))
                .collect();
            Sequence { first: last.first + last.inputs.len() as u64, inputs, random }
        };
        let partitions = self.partitions.iter().enumerate().map(next).collect();
        Ok(Self { spec, partitions })
    }

    /// The specification that it was generated from.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The inputs of a partition.
    #[must_use]
    pub fn inputs(&self, partition: usize) -> &[Input] {
        &self.partitions[partition].inputs
    }

    /// The number of the first of a partition's transactions in its whole sequence.
    #[must_use]
    pub fn first(&self, partition: usize) -> u64 {
        self.partitions[partition].first
    }

    /// The key in the history of transaction `number` of a partition: no two partitions have the
    /// same.
    pub(super) fn id(&self, partition: usize, number: usize) -> u64 {
        let in_sequence = self.partitions[partition].first + number as u64;
        in_sequence * self.spec.partitions as u64 + partition as u64
    }
}

/// Draws a teller of the partition, an account, and an amount.
fn draw(spec: &Spec, random: &mut Random, partition: usize, branches: u64) -> Input {
    let place = random.below(branches);
    let branch = 1 + partition as u64 + place * spec.partitions as u64;
    let teller = (branch - 1) * TELLERS + between(random, 1, TELLERS);
    let away = spec.form == Form::Specification && spec.branches > 1 && percent(random, 15);
    let home = if away {
        let other = between(random, 1, u64::from(spec.branches) - 1);
        if other < branch { other } else { other + 1 }
    } else {
        branch
    };
    let accounts = u64::from(spec.accounts);
    let account = (home - 1) * accounts + between(random, 1, accounts);
    let delta = random.below(2 * MOST + 1).cast_signed() - MOST.cast_signed();
    Input { account, teller: teller as u32, delta: delta as i32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(form: Form, partitions: usize) -> Spec {
        Spec { branches: 5, accounts: 100, transactions: 100_000, partitions, form, seed: 1 }
    }

    #[test]
    fn tellers_accounts_and_amounts_are_drawn_as_specified() {
        let workload = Workload::generate(&spec(Form::Specification, 1)).unwrap();
        let (mut away, mut sum, mut tellers) = (0_u64, 0_i64, [0_u64; 50]);
        for input in workload.inputs(0) {
            assert!((1..=50).contains(&input.teller) && (1..=500).contains(&input.account));
            assert!(input.delta.unsigned_abs() <= 999_999);
            let home = (input.account - 1) / 100 + 1;
            away += u64::from(home != input.branch());
            sum += i64::from(input.delta);
            tellers[input.teller as usize - 1] += 1;
        }
        assert!(away.abs_diff(15_000) < 600, "{away} remote accounts of 100,000");
        // Its standard deviation is 5,774.
        assert!((sum / 100_000).abs() < 10_000, "{sum}");
        assert!(tellers.iter().all(|&count| count.abs_diff(2000) < 250), "{tellers:?}");
    }

    #[test]
    fn shore_kits_stays_in_its_branch_and_partition() {
        let workload = Workload::generate(&spec(Form::ShoreKits, 2)).unwrap();
        let mut ids = std::collections::HashSet::new();
        for partition in 0..2 {
            for (number, input) in workload.inputs(partition).iter().enumerate() {
                assert_eq!((input.account - 1) / 100 + 1, input.branch());
                assert_eq!((input.branch() as usize - 1) % 2, partition);
                assert!(ids.insert(workload.id(partition, number)));
            }
        }
        assert_eq!(ids.len(), 100_000);
    }

    #[test]
    fn a_sequence_in_pieces_is_the_same_sequence() {
        let whole = Workload::generate(&spec(Form::ShoreKits, 2)).unwrap();
        let short = Spec { transactions: 40_000, ..spec(Form::ShoreKits, 2) };
        let first = Workload::generate(&short).unwrap();
        let second = first.after(60_000).unwrap();
        for partition in 0..2 {
            let both = [first.inputs(partition), second.inputs(partition)].concat();
            assert_eq!(both, whole.inputs(partition));
            assert_eq!(second.first(partition), 20_000);
            assert_eq!(second.id(partition, 1), whole.id(partition, 20_001));
        }
    }
}
