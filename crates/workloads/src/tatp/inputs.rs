//! The inputs of all transactions, generated before the clock starts.

use super::population::{DOMAIN, LONGEST, STARTS, TYPES};
use super::spec::{Spec, SpecError};
use crate::form::Form;
use crate::random::{Random, between, nurand, stream};

/// A kind of transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// All columns of a subscriber.
    GetSubscriberData,
    /// The number that a call at some time goes to.
    GetNewDestination,
    /// The data of one kind of access.
    GetAccessData,
    /// A flag of a subscriber and a value of a facility change.
    UpdateSubscriberData,
    /// A subscriber, found by the number, has moved.
    UpdateLocation,
    /// Calls are to be forwarded.
    InsertCallForwarding,
    /// Calls are no longer forwarded.
    DeleteCallForwarding,
}

impl Kind {
    /// All transactions.
    pub const ALL: [Self; 7] = [
        Self::GetSubscriberData,
        Self::GetNewDestination,
        Self::GetAccessData,
        Self::UpdateSubscriberData,
        Self::UpdateLocation,
        Self::InsertCallForwarding,
        Self::DeleteCallForwarding,
    ];

    /// The number of transactions of this kind in a hundred.
    #[must_use]
    pub const fn percent(self) -> u64 {
        match self {
            Self::GetSubscriberData | Self::GetAccessData => 35,
            Self::GetNewDestination => 10,
            Self::UpdateLocation => 14,
            Self::UpdateSubscriberData
            | Self::InsertCallForwarding
            | Self::DeleteCallForwarding => 2,
        }
    }

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GetSubscriberData => "get_subscriber_data",
            Self::GetNewDestination => "get_new_destination",
            Self::GetAccessData => "get_access_data",
            Self::UpdateSubscriberData => "update_subscriber_data",
            Self::UpdateLocation => "update_location",
            Self::InsertCallForwarding => "insert_call_forwarding",
            Self::DeleteCallForwarding => "delete_call_forwarding",
        }
    }

    /// Returns true if it changes nothing.
    #[must_use]
    pub const fn is_read_only(self) -> bool {
        matches!(self, Self::GetSubscriberData | Self::GetNewDestination | Self::GetAccessData)
    }
}

/// A transaction's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Input {
    pub(super) kind: Kind,
    /// The kind of access or of facility.
    pub(super) of: u8,
    pub(super) start: u8,
    pub(super) end: u8,
    pub(super) subscriber: u32,
    /// A location, a number to forward to, or a flag and a value above it.
    pub(super) value: u32,
}

impl Input {
    /// The kind of transaction.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The subscriber whose rows it is about.
    #[must_use]
    pub const fn subscriber(&self) -> u32 {
        self.subscriber
    }

    /// The kind of access or of facility.
    #[must_use]
    pub const fn of(&self) -> u8 {
        self.of
    }

    /// The hour at which calls begin to be forwarded.
    #[must_use]
    pub const fn start(&self) -> u8 {
        self.start
    }

    /// The hour at which that ends.
    #[must_use]
    pub const fn end(&self) -> u8 {
        self.end
    }

    /// A location, a number to forward to, or a flag and a value above it.
    #[must_use]
    pub const fn value(&self) -> u32 {
        self.value
    }
}

/// The transactions that a user enters, one after the other and without an end: the same for the same
/// specification, partition, user and sitting.
#[derive(Debug, Clone)]
pub struct Stream {
    spec: Spec,
    partition: usize,
    /// Subscribers of the partition.
    here: u64,
    random: Random,
}

impl Stream {
    /// The transactions of a user who sits down at a partition for this time.
    ///
    /// # Errors
    /// If the specification cannot be run.
    ///
    /// # Panics
    /// There is no such partition.
    pub fn new(spec: &Spec, partition: usize, user: u64, sitting: u64) -> Result<Self, SpecError> {
        spec.validate()?;
        assert!(partition < spec.partitions, "no such partition");
        let here = spec.subscribers_of(partition).count() as u64;
        let random = stream(DOMAIN, spec.seed, [4, partition as u64, user, sitting]);
        Ok(Self { spec: spec.clone(), partition, here, random })
    }
}

impl Iterator for Stream {
    type Item = Input;

    #[inline]
    fn next(&mut self) -> Option<Input> {
        Some(draw(&self.spec, &mut self.random, self.partition, self.here))
    }
}

/// The transactions of a partition.
#[derive(Debug, Clone)]
struct Sequence {
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
    /// Generates the first transactions; takes 12 bytes each.
    ///
    /// # Errors
    /// If the specification cannot be run.
    pub fn generate(spec: &Spec) -> Result<Self, SpecError> {
        spec.validate()?;
        let start = |partition: usize| {
            let random = stream(DOMAIN, spec.seed, [1, partition as u64, 0, 0]);
            Sequence { inputs: Vec::new(), random }
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
            let here = spec.subscribers_of(partition).count() as u64;
            let inputs = (0..spec.transactions_of(partition))
                .map(|_| draw(&spec, &mut random, partition, here))
                .collect();
            Sequence { inputs, random }
        };
        let partitions = self.partitions.iter().enumerate().map(next).collect();
        Ok(Self { spec, partitions })
    }

    /// A workload of one transaction.
    #[cfg(test)]
    pub(super) fn of_one(spec: &Spec, input: Input) -> Self {
        let random = stream(DOMAIN, spec.seed, [0; 4]);
        Self { spec: spec.clone(), partitions: vec![Sequence { inputs: vec![input], random }] }
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
}

/// Draws a transaction, and a subscriber of the `here` of a partition.
fn draw(spec: &Spec, random: &mut Random, partition: usize, here: u64) -> Input {
    let mut kind = random.below(100);
    let drawn = Kind::ALL.into_iter().find(|one| {
        let hit = kind < one.percent();
        kind = kind.wrapping_sub(one.percent());
        hit
    });
    let kind = drawn.expect("the percentages sum to a hundred");
    let place = match spec.form {
        Form::Specification => nurand(random, spec.a(), 0, 1, here),
        Form::ShoreKits => between(random, 1, here),
    };
    let subscriber = 1 + partition as u64 + (place - 1) * spec.partitions as u64;
    let of = between(random, 1, TYPES);
    let start = STARTS[random.below(STARTS.len() as u64) as usize];
    let end = match kind {
        Kind::InsertCallForwarding => start + between(random, 1, LONGEST),
        _ => between(random, 1, 24),
    };
    let value = match kind {
        Kind::UpdateSubscriberData => random.below(1 << 9),
        _ => between(random, 1, u64::from(u32::MAX)),
    };
    Input {
        kind,
        of: of as u8,
        start: start as u8,
        end: end as u8,
        subscriber: subscriber as u32,
        value: value as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(spec: &Spec) -> Workload {
        Workload::generate(spec).expect("a valid specification")
    }

    #[test]
    fn inputs_repeat_within_a_sitting_and_differ_between_them() {
        let spec = Spec { subscribers: 501, partitions: 2, ..Spec::default() };
        let stream = |partition, user, sitting| -> Vec<Input> {
            let stream = Stream::new(&spec, partition, user, sitting).expect("valid");
            stream.take(500).collect()
        };
        let first = stream(1, 0, 0);
        assert_eq!(first, stream(1, 0, 0));
        assert!(first != stream(1, 1, 0) && first != stream(1, 0, 1));
        assert!(first.iter().all(|input| input.subscriber() % 2 == 0), "of its partition");
        let kinds: std::collections::BTreeSet<_> =
            first.iter().map(|input| input.kind as usize).collect();
        assert_eq!(kinds.len(), Kind::ALL.len());
    }

    #[test]
    fn the_mix_and_the_ranges_hold() {
        let spec = Spec { subscribers: 501, partitions: 2, ..Spec::default() };
        let workload = workload(&spec);
        let mut kinds = [0_u64; 7];
        for partition in 0..2 {
            for input in workload.inputs(partition) {
                kinds[input.kind as usize] += 1;
                let subscriber = u64::from(input.subscriber);
                assert!(spec.subscribers_of(partition).any(|one| one == subscriber));
                assert!((1..=4).contains(&input.of) && STARTS.contains(&input.start.into()));
                assert!((1..=24).contains(&input.end));
                if input.kind == Kind::InsertCallForwarding {
                    assert!((1..=8).contains(&(input.end - input.start)));
                }
            }
        }
        for kind in Kind::ALL {
            let found = kinds[kind as usize];
            assert!(found.abs_diff(kind.percent() * 1000) < 700, "{kind:?}: {found}");
        }
        assert_eq!(Kind::ALL.map(Kind::percent).iter().sum::<u64>(), 100);
    }

    #[test]
    fn specified_draws_are_more_skewed_than_those_of_shore_kits() {
        let most = |form| {
            let spec = Spec { subscribers: 100_000, form, ..Spec::default() };
            let mut hits = vec![0_u32; 100_001];
            for input in workload(&spec).inputs(0) {
                hits[input.subscriber as usize] += 1;
            }
            assert_eq!(hits[0], 0);
            hits.into_iter().max().unwrap()
        };
        let (skewed, even) = (most(Form::Specification), most(Form::ShoreKits));
        assert!(even < 12 && skewed > 20, "{skewed}, {even}");
    }

    #[test]
    fn a_sequence_in_pieces_is_the_same_sequence() {
        let spec = Spec { subscribers: 50, transactions: 1000, partitions: 2, ..Spec::default() };
        let whole = workload(&spec);
        let first = workload(&Spec { transactions: 400, ..spec });
        let second = first.after(600).unwrap();
        for partition in 0..2 {
            let both = [first.inputs(partition), second.inputs(partition)].concat();
            assert_eq!(both, whole.inputs(partition));
        }
    }
}
