//! The inputs of all transactions, generated before the clock starts (clauses 2.4.1 to 2.8.1).

use super::draw::{Constants, between, percent, stream};
use super::schema::FIRST_DATE;
use super::spec::{DISTRICTS, Spec, SpecError};
use crate::random::Random;

/// The kinds of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A customer orders 5 to 15 items (clause 2.4).
    NewOrder,
    /// A customer pays (clause 2.5).
    Payment,
    /// A customer asks for the last order (clause 2.6).
    OrderStatus,
    /// The oldest open order of each district is delivered (clause 2.7).
    Delivery,
    /// Counts how much of what was ordered last is running out (clause 2.8).
    StockLevel,
}

impl Kind {
    /// All transactions, in the specification's order.
    pub const ALL: [Self; 5] =
        [Self::NewOrder, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel];

    /// Returns how many of a hundred transactions are of this kind.
    #[must_use]
    pub const fn percent(self) -> u64 {
        match self {
            Self::NewOrder => 45,
            Self::Payment => 43,
            Self::OrderStatus | Self::Delivery | Self::StockLevel => 4,
        }
    }

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewOrder => "new_order",
            Self::Payment => "payment",
            Self::OrderStatus => "order_status",
            Self::Delivery => "delivery",
            Self::StockLevel => "stock_level",
        }
    }

    /// Returns true if it changes nothing.
    #[must_use]
    pub const fn is_read_only(self) -> bool {
        matches!(self, Self::OrderStatus | Self::StockLevel)
    }
}

/// A customer's number or name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CustomerSelector {
    Number(u32),
    /// The number of a last name.
    LastName(u32),
}

/// One line of a new order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) item: u32,
    pub(crate) supply_warehouse: u16,
    pub(crate) quantity: u16,
}

/// The input of a transaction; the warehouse and district are those of its terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    NewOrder {
        customer: u32,
        /// The place of its first line among those of the partition.
        first_line: u32,
        lines: u8,
        /// Its last item is none, and it must be rolled back (clause 2.4.1.4).
        rolled_back: bool,
    },
    Payment {
        who: CustomerSelector,
        customer_warehouse: u16,
        customer_district: u8,
        amount_cents: u32,
    },
    OrderStatus {
        who: CustomerSelector,
    },
    Delivery {
        carrier: u8,
    },
    StockLevel {
        threshold: u8,
    },
}

/// A transaction's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Input {
    pub(crate) warehouse: u16,
    pub(crate) district: u8,
    pub(crate) request: Request,
}

impl Input {
    /// Returns its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self.request {
            Request::NewOrder { .. } => Kind::NewOrder,
            Request::Payment { .. } => Kind::Payment,
            Request::OrderStatus { .. } => Kind::OrderStatus,
            Request::Delivery { .. } => Kind::Delivery,
            Request::StockLevel { .. } => Kind::StockLevel,
        }
    }

    /// Returns true if it is a new order that names an item that there is not.
    #[must_use]
    pub const fn is_rolled_back(&self) -> bool {
        matches!(self.request, Request::NewOrder { rolled_back: true, .. })
    }
}

/// The transactions of a partition.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// Number of the first of them in the partition's whole sequence.
    first: u64,
    inputs: Vec<Input>,
    lines: Vec<Line>,
    /// The generator as it stands after the last of them.
    random: Random,
}

impl Inputs {
    /// Returns how many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inputs.len()
    }

    /// Returns true if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Number of the first of them in the partition's whole sequence.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// All of them in order.
    #[must_use]
    pub fn all(&self) -> &[Input] {
        &self.inputs
    }

    /// The date of transaction `index` of these.
    pub(crate) fn date(&self, index: usize) -> u64 {
        FIRST_DATE + self.first + index as u64
    }

    /// The lines of a new order; none for others.
    pub(crate) fn lines_of(&self, input: &Input) -> &[Line] {
        match input.request {
            Request::NewOrder { first_line, lines, .. } => {
                &self.lines[first_line as usize..][..usize::from(lines)]
            }
            _ => &[],
        }
    }
}

/// A fixed sequence of transactions for each partition. Sequences have no end: what was generated
/// is a piece of them, and [`Workload::after`] gives the next one.
#[derive(Debug, Clone)]
pub struct Workload {
    spec: Spec,
    constants: Constants,
    partitions: Vec<Inputs>,
}

impl Workload {
    /// Generates the first transactions; takes about 70 bytes each.
    ///
    /// # Errors
    /// If the specification cannot be run.
    pub fn generate(spec: &Spec) -> Result<Self, SpecError> {
        spec.validate()?;
        let constants = Constants::new(spec.seed);
        let start = |partition: usize| Inputs {
            first: 0,
            inputs: Vec::new(),
            lines: Vec::new(),
            random: stream(spec.seed, [1, partition as u64, 0, 0]),
        };
        let partitions = (0..spec.partitions).map(start).collect();
        let start = Self { spec: spec.clone(), constants, partitions };
        start.after(spec.transactions)
    }

    /// The `transactions` that follow on these.
    ///
    /// # Errors
    /// If there are too many.
    pub fn after(&self, transactions: u64) -> Result<Self, SpecError> {
        let spec = Spec { transactions, ..self.spec.clone() };
        spec.validate()?;
        let partitions = self.partitions.iter().enumerate();
        let partitions = partitions.map(|(partition, last)| self.next(&spec, partition, last));
        let partitions = partitions.collect();
        Ok(Self { spec, constants: self.constants, partitions })
    }

    fn next(&self, spec: &Spec, partition: usize, last: &Inputs) -> Inputs {
        let draw = Draw { spec, constants: &self.constants, partition };
        let mut next = Inputs {
            first: last.first + last.inputs.len() as u64,
            inputs: Vec::new(),
            lines: Vec::new(),
            random: last.random.clone(),
        };
        for _ in 0..spec.transactions_of(partition) {
            let input = draw.input(&mut next.random, &mut next.lines);
            next.inputs.push(input);
        }
        next
    }

    /// The specification that it was generated from.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The transactions of a partition.
    #[must_use]
    pub fn inputs(&self, partition: usize) -> &Inputs {
        &self.partitions[partition]
    }
}

/// The source that inputs of a partition are drawn from.
struct Draw<'a> {
    spec: &'a Spec,
    constants: &'a Constants,
    partition: usize,
}

impl Draw<'_> {
    fn input(&self, random: &mut Random, lines: &mut Vec<Line>) -> Input {
        let spec = self.spec;
        let here = u64::from(spec.warehouses) - self.partition as u64;
        let here = here.div_ceil(spec.partitions as u64);
        let warehouse = 1 + self.partition as u64 + random.below(here) * spec.partitions as u64;
        let district = between(random, 1, DISTRICTS);
        let mut kind = random.below(100);
        let drawn = Kind::ALL.into_iter().find(|one| {
            let hit = kind < one.percent();
            kind = kind.wrapping_sub(one.percent());
            hit
        });
        let request = match drawn.expect("the percentages sum to a hundred") {
            Kind::NewOrder => self.new_order(random, warehouse, lines),
            Kind::Payment => self.payment(random, warehouse, district),
            Kind::OrderStatus => Request::OrderStatus { who: self.who(random) },
            Kind::Delivery => Request::Delivery { carrier: between(random, 1, 10) as u8 },
            Kind::StockLevel => Request::StockLevel { threshold: between(random, 10, 20) as u8 },
        };
        Input { warehouse: warehouse as u16, district: district as u8, request }
    }

    fn new_order(&self, random: &mut Random, warehouse: u64, all: &mut Vec<Line>) -> Request {
        let customer = self.constants.customer(random, self.spec.customers) as u32;
        let lines = between(random, 5, 15) as u8;
        let rolled_back = percent(random, 1);
        let first_line = all.len() as u32;
        for number in 1..=lines {
            let unused = rolled_back && number == lines;
            let item = self.constants.item(random, self.spec.items) as u32;
            let supply_warehouse = self.warehouse(random, warehouse, 1) as u16;
            let quantity = between(random, 1, 10) as u16;
            let item = if unused { self.spec.items + 1 } else { item };
            all.push(Line { item, supply_warehouse, quantity });
        }
        Request::NewOrder { customer, first_line, lines, rolled_back }
    }

    fn payment(&self, random: &mut Random, warehouse: u64, district: u64) -> Request {
        let customer_warehouse = self.warehouse(random, warehouse, 15);
        let away = customer_warehouse != warehouse;
        let customer_district = if away { between(random, 1, DISTRICTS) } else { district };
        Request::Payment {
            who: self.who(random),
            customer_warehouse: customer_warehouse as u16,
            customer_district: customer_district as u8,
            amount_cents: between(random, 1_00, 5000_00) as u32,
        }
    }

    /// The terminal's warehouse, or in so many percent of all cases another one.
    fn warehouse(&self, random: &mut Random, home: u64, away_percent: u64) -> u64 {
        if !self.spec.remote || !percent(random, away_percent) {
            return home;
        }
        let other = between(random, 1, u64::from(self.spec.warehouses) - 1);
        if other < home { other } else { other + 1 }
    }

    fn who(&self, random: &mut Random) -> CustomerSelector {
        if percent(random, 60) {
            CustomerSelector::LastName(self.constants.last_name(random, self.spec.customers) as u32)
        } else {
            CustomerSelector::Number(self.constants.customer(random, self.spec.customers) as u32)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(remote: bool) -> Workload {
        let partitions = if remote { 1 } else { 2 };
        let spec = Spec {
            warehouses: 3,
            items: 1000,
            customers: 100,
            transactions: 100_000,
            partitions,
            remote,
            seed: 1,
        };
        Workload::generate(&spec).expect("a valid specification")
    }

    fn count(workload: &Workload, wanted: impl Fn(&Input) -> bool) -> u64 {
        let all = workload.partitions.iter().flat_map(|partition| &partition.inputs);
        all.filter(|input| wanted(input)).count() as u64
    }

    #[test]
    fn the_mix_and_the_shares_hold() {
        let workload = workload(false);
        for kind in Kind::ALL {
            let found = count(&workload, |input| input.kind() == kind);
            assert!(found.abs_diff(kind.percent() * 1000) < 500, "{kind:?}: {found}");
        }
        let orders = count(&workload, |input| input.kind() == Kind::NewOrder);
        let rolled_back = count(&workload, Input::is_rolled_back);
        assert!(rolled_back.abs_diff(orders / 100) < 70, "{rolled_back} of {orders}");
        let payments = count(&workload, |input| input.kind() == Kind::Payment);
        let by_name = count(&workload, |input| {
            matches!(input.request, Request::Payment { who: CustomerSelector::LastName(_), .. })
        });
        assert!((by_name * 100).abs_diff(payments * 60) < payments, "{by_name} of {payments}");
    }

    #[test]
    fn inputs_stay_in_their_partition_and_ranges() {
        let workload = workload(false);
        for partition in 0..2 {
            let inputs = workload.inputs(partition);
            let mut lines = 0;
            for input in inputs.all() {
                let warehouse = u64::from(input.warehouse);
                assert_eq!(workload.spec.partition_of(warehouse), partition);
                assert!((1..=10).contains(&input.district));
                let ordered = inputs.lines_of(input);
                lines += ordered.len();
                if input.kind() == Kind::NewOrder {
                    assert!((5..=15).contains(&ordered.len()));
                }
                for (at, line) in ordered.iter().enumerate() {
                    assert_eq!(line.supply_warehouse, input.warehouse);
                    assert!((1..=10).contains(&line.quantity));
                    let unused = input.is_rolled_back() && at + 1 == ordered.len();
                    assert_eq!(line.item > 1000, unused);
                }
            }
            assert_eq!(lines, inputs.lines.len());
        }
    }

    #[test]
    fn remote_warehouses_are_others_and_as_frequent_as_specified() {
        let workload = workload(true);
        let inputs = workload.inputs(0);
        let (mut lines, mut away) = (0, 0);
        for input in inputs.all() {
            for line in inputs.lines_of(input) {
                assert!((1..=3).contains(&line.supply_warehouse));
                lines += 1;
                away += u64::from(line.supply_warehouse != input.warehouse);
            }
        }
        assert!((away * 100).abs_diff(lines) < lines / 10, "{away} of {lines}");
        let payments = count(&workload, |input| input.kind() == Kind::Payment);
        let away = count(&workload, |input| match input.request {
            Request::Payment { customer_warehouse, .. } => customer_warehouse != input.warehouse,
            _ => false,
        });
        assert!((away * 100).abs_diff(payments * 15) < payments, "{away} of {payments}");
    }

    #[test]
    fn a_sequence_in_pieces_is_the_same_sequence() {
        let whole = workload(false);
        let spec = Spec { transactions: 40_000, ..whole.spec.clone() };
        let first = Workload::generate(&spec).expect("valid");
        let second = first.after(60_000).expect("valid");
        for partition in 0..2 {
            let of = |workload: &Workload| {
                let inputs = workload.inputs(partition);
                let all = inputs
                    .all()
                    .iter()
                    .map(|input| (input.kind(), input.warehouse, inputs.lines_of(input).to_vec()));
                all.collect::<Vec<_>>()
            };
            assert_eq!([of(&first), of(&second)].concat(), of(&whole));
            assert_eq!(second.inputs(partition).first(), 20_000);
        }
    }

    #[test]
    fn an_input_is_small() {
        assert!(size_of::<Input>() <= 24, "{}", size_of::<Input>());
        assert_eq!(size_of::<Line>(), 8);
    }
}
