//! The operations of a run, generated before it; those of a long run piece by piece.

use std::sync::Arc;

use super::spec::{Spec, SpecError};
use super::values::Values;
use super::{COLUMNS, spec};
use crate::random::{Random, mix};

const UPDATE: u64 = 1 << 63;
const COLUMN_SHIFT: u32 = 56;

/// One transaction in eight bytes:
///
/// ```text
/// 63       59..56         43..0
/// | update | first column | key |
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation(u64);

impl Operation {
    fn read(key: u64) -> Self {
        Self(key)
    }

    fn update(key: u64, first_column: u64) -> Self {
        Self(UPDATE | first_column << COLUMN_SHIFT | key)
    }

    /// Key of the tuple.
    #[must_use]
    #[inline]
    pub const fn key(self) -> u64 {
        self.0 & ((1 << spec::KEY_BITS) - 1)
    }

    /// Returns true if it is an update rather than a read.
    #[must_use]
    #[inline]
    pub const fn is_update(self) -> bool {
        self.0 & UPDATE != 0
    }

    /// First of the columns that an update replaces; 0 for a read.
    #[must_use]
    #[inline]
    pub const fn first_column(self) -> usize {
        (self.0 >> COLUMN_SHIFT & 0xf) as usize
    }
}

/// A fixed sequence of operations for each partition, and the values that go with them.
#[derive(Debug, Clone)]
pub struct Workload {
    spec: Spec,
    values: Values,
    partitions: Arc<[Vec<Operation>]>,
    /// Transactions of each partition before these.
    before: Vec<u64>,
}

impl Workload {
    /// Generates the workload; takes eight bytes a transaction.
    ///
    /// # Errors
    /// If the specification cannot be run.
    pub fn generate(spec: &Spec) -> Result<Self, SpecError> {
        Ok(Pieces::new(spec)?.take(spec.transactions))
    }

    /// The specification that it was generated from.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The values that its transactions write.
    #[must_use]
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// The transactions of a partition, in order.
    #[must_use]
    pub fn operations(&self, partition: usize) -> &[Operation] {
        &self.partitions[partition]
    }

    /// Returns how many transactions of a partition came before, in the pieces before this one (see
    /// [`Pieces`]) or because it was made [`Self::later`]; else 0.
    #[must_use]
    pub fn before(&self, partition: usize) -> u64 {
        self.before[partition]
    }

    /// The same operations with the values of later versions, as if so many transactions of each
    /// partition had come before. Who runs a workload again on the same tuples has to make it later:
    /// otherwise each update writes what is there already, and a store may notice and write nothing
    /// (SQLite does).
    #[must_use]
    pub fn later(&self, transactions: u64) -> Self {
        let mut later = self.clone();
        later.before.iter_mut().for_each(|before| *before += transactions);
        later
    }

    /// A number that differs when any operation differs, for comparing two runs.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.partitions
            .iter()
            .flatten()
            .fold(mix(self.spec.seed), |digest, operation| mix(digest.rotate_left(7) ^ operation.0))
    }
}

/// The choice of tuples of a partition: `hot_percent` of the transactions go to the run of `hot`
/// tuples that starts at `start` (positions in the partition, with wrap-around), the others to the
/// rest.
struct HotSpot {
    hot_percent: u64,
    hot: u64,
    start: u64,
    tuples: u64,
}

impl HotSpot {
    fn new(spec: &Spec, partition: usize, random: &mut Random) -> Self {
        let tuples = spec.tuples_of(partition);
        let start = random.below(tuples);
        match spec.skew.hot_spot_percent() {
            Some((hot_percent, tuple_percent)) => {
                let hot = (tuples * tuple_percent / 100).max(1);
                // A single tuple has nothing besides its hot spot.
                let hot_percent = if hot == tuples { 100 } else { hot_percent };
                Self { hot_percent, hot, start, tuples }
            }
            None => Self { hot_percent: 100, hot: tuples, start, tuples },
        }
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let from_start = if random.below(100) < self.hot_percent {
            random.below(self.hot)
        } else {
            self.hot + random.below(self.tuples - self.hot)
        };
        let at = self.start + from_start;
        if at < self.tuples { at } else { at - self.tuples }
    }
}

/// The operations of a partition, one after the other.
struct Source {
    partition: u64,
    random: Random,
    hot_spot: HotSpot,
}

impl Source {
    fn new(spec: &Spec, partition: usize) -> Self {
        let mut random = Random::new(spec.seed, partition as u64);
        let hot_spot = HotSpot::new(spec, partition, &mut random);
        Self { partition: partition as u64, random, hot_spot }
    }

    fn next(&mut self, spec: &Spec) -> Operation {
        let position = self.hot_spot.draw(&mut self.random);
        let key = self.partition + position * spec.partitions as u64;
        let first_columns = (COLUMNS - spec.update_columns + 1) as u64;
        // Drawn for reads too, so that mixtures of one seed touch the same keys.
        let (kind, first_column) = (self.random.below(100), self.random.below(first_columns));
        if kind < spec.mix.update_percent() {
            Operation::update(key, first_column)
        } else {
            Operation::read(key)
        }
    }
}

/// A workload in pieces, for a run that is too long to hold all of its operations at once. The
/// pieces together are what [`Workload::generate`] gives.
pub struct Pieces {
    spec: Spec,
    values: Values,
    sources: Vec<Source>,
    taken: u64,
}

impl Pieces {
    /// Returns a workload of which nothing is generated yet.
    ///
    /// # Errors
    /// If the specification cannot be run.
    pub fn new(spec: &Spec) -> Result<Self, SpecError> {
        spec.validate()?;
        let sources = (0..spec.partitions).map(|p| Source::new(spec, p)).collect();
        Ok(Self { spec: spec.clone(), values: Values::new(spec.seed), sources, taken: 0 })
    }

    /// Returns how many transactions are still to come, in all partitions together.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.spec.transactions - self.taken
    }

    /// The next `transactions` of all partitions together, or what is left.
    pub fn take(&mut self, transactions: u64) -> Workload {
        let transactions = transactions.min(self.left());
        let until = |taken| Spec { transactions: taken, ..self.spec.clone() };
        let (from, to) = (until(self.taken), until(self.taken + transactions));
        let before: Vec<u64> = (0..from.partitions).map(|p| from.transactions_of(p)).collect();
        let sources = self.sources.iter_mut().enumerate();
        let partitions = sources
            .map(|(p, source)| {
                (before[p]..to.transactions_of(p)).map(|_| source.next(&self.spec)).collect()
            })
            .collect();
        self.taken += transactions;
        let spec = Spec { transactions, ..self.spec.clone() };
        Workload { spec, values: self.values.clone(), partitions, before }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ycsb::{Mix, Skew};

    fn workload(skew: Skew, mix: Mix) -> Workload {
        let spec = Spec {
            tuples: 10_000,
            transactions: 100_000,
            partitions: 4,
            skew,
            mix,
            ..Spec::default()
        };
        Workload::generate(&spec).expect("a valid specification")
    }

    #[test]
    fn the_same_seed_gives_the_same_workload_for_ever() {
        let digests = [
            workload(Skew::Low, Mix::Balanced).digest(),
            workload(Skew::High, Mix::WriteHeavy).digest(),
        ];
        assert_eq!(digests, [2_051_462_050_494_235_702, 9_742_745_521_602_837_362]);
    }

    #[test]
    fn pieces_are_the_whole() {
        let spec = Spec { tuples: 500, transactions: 1001, partitions: 3, ..Spec::default() };
        let whole = Workload::generate(&spec).expect("valid");
        let mut pieces = Pieces::new(&spec).expect("valid");
        let mut done = [0; 3];
        while pieces.left() > 0 {
            let piece = pieces.take(400);
            for (p, done) in done.iter_mut().enumerate() {
                assert_eq!(piece.before(p), *done as u64);
                let operations = piece.operations(p);
                assert_eq!(operations, &whole.operations(p)[*done..*done + operations.len()]);
                *done += operations.len();
            }
        }
        assert_eq!(done.iter().sum::<usize>(), 1001);
    }

    #[test]
    fn what_is_later_has_the_same_operations_and_other_values() {
        let spec = Spec { tuples: 50, transactions: 99, partitions: 2, ..Spec::default() };
        let first = Workload::generate(&spec).expect("valid");
        let second = first.later(99).later(1);
        for p in 0..2 {
            assert_eq!(first.operations(p), second.operations(p));
            assert_eq!((first.before(p), second.before(p)), (0, 100));
        }
    }

    #[test]
    fn another_seed_gives_another_workload() {
        let one = Spec { tuples: 100, transactions: 100, ..Spec::default() };
        let two = Spec { seed: 2, ..one.clone() };
        let digest = |spec: &Spec| Workload::generate(spec).expect("valid").digest();
        assert_ne!(digest(&one), digest(&two));
    }

    #[test]
    fn mixtures_hold_within_one_percent() {
        for mix in Mix::ALL {
            let workload = workload(Skew::Low, mix);
            let all = (0..4).flat_map(|p| workload.operations(p));
            let updates = all.filter(|operation| operation.is_update()).count() as u64;
            assert!(updates.abs_diff(mix.update_percent() * 1000) < 1000, "{mix}: {updates}");
        }
    }

    #[test]
    fn each_partition_has_a_hot_run_of_the_right_weight() {
        for (skew, weight, hot) in [(Skew::Low, 0.5, 500), (Skew::High, 0.9, 250)] {
            let workload = workload(skew, Mix::ReadOnly);
            for p in 0..4 {
                let mut hits = vec![0_u32; 2500];
                for operation in workload.operations(p) {
                    assert_eq!(operation.key() % 4, p as u64);
                    hits[(operation.key() / 4) as usize] += 1;
                }
                let heaviest = (0..2500)
                    .map(|start| (start..start + hot).map(|at| hits[at % 2500]).sum::<u32>())
                    .max();
                let share = f64::from(heaviest.expect("not empty")) / 25_000.0;
                assert!((share - weight).abs() < 0.02, "{skew}, partition {p}: {share}");
            }
        }
    }

    #[test]
    fn updates_stay_within_the_tuple_and_reach_every_column() {
        for update_columns in [1, 3, 10] {
            let spec = Spec { tuples: 50, transactions: 5000, update_columns, ..Spec::default() };
            let workload = Workload::generate(&spec).expect("valid");
            let mut seen = [false; COLUMNS];
            for operation in workload.operations(0).iter().filter(|o| o.is_update()) {
                let first = operation.first_column();
                seen[first..first + update_columns].fill(true);
            }
            assert_eq!(seen, [true; COLUMNS]);
        }
    }

    #[test]
    fn one_tuple_a_partition_is_possible() {
        let spec = Spec { tuples: 2, partitions: 2, transactions: 10, ..Spec::default() };
        let workload = Workload::generate(&spec).expect("valid");
        assert!(workload.operations(1).iter().all(|operation| operation.key() == 1));
    }
}
