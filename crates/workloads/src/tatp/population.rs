//! The rows of a subscriber: a function of the seed and of the subscriber alone, so that they are the
//! same in whatever order, in however many partitions and by whichever engine they are loaded.

use perdura::Value::{self, Text, U64};

use super::schema::{Digits, TableOf};
use crate::random::{Random, between, percent, stream};

/// Keeps the streams of TATP apart from those of other workloads.
pub(super) const DOMAIN: u64 = 0x7461_7470;
/// The hours at which calls begin to be forwarded.
pub(super) const STARTS: [u64; 3] = [0, 8, 16];
/// Kinds of access, and of facilities.
pub(super) const TYPES: u64 = 4;
/// The longest that calls are forwarded, in hours.
pub(super) const LONGEST: u64 = 8;

/// Streams of random numbers; those of inputs start with 1, those of users with 4.
const SHAPE: u64 = 2;
const VALUES: u64 = 3;

/// A facility of a subscriber, and when calls to it are forwarded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Facility {
    pub(super) kind: u64,
    pub(super) active: bool,
    /// Bit `i` stands for `STARTS[i]`.
    pub(super) forwarded: u8,
}

/// The rows that a subscriber has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    /// Bit `i` stands for access of kind `i + 1`.
    pub(super) access: u8,
    pub(super) facilities: Vec<Facility>,
}

impl Shape {
    pub(super) fn of(seed: u64, subscriber: u64) -> Self {
        let random = &mut stream(DOMAIN, seed, [SHAPE, subscriber, 0, 0]);
        let access = between(random, 1, TYPES);
        let access = some(random, TYPES, access);
        let count = between(random, 1, TYPES);
        let kinds = some(random, TYPES, count);
        let facilities = numbers(kinds).map(|place| {
            let active = percent(random, 85);
            let times = between(random, 0, STARTS.len() as u64);
            let forwarded = some(random, STARTS.len() as u64, times);
            Facility { kind: place as u64 + 1, active, forwarded }
        });
        Self { access, facilities: facilities.collect() }
    }

    /// The number of times at which calls are forwarded, over all facilities.
    pub(super) fn forwarded(&self) -> u64 {
        self.facilities.iter().map(|facility| u64::from(facility.forwarded.count_ones())).sum()
    }
}

/// Passes on the rows that a subscriber has in the initial population, each with its table; returns how
/// many these are.
pub(super) fn rows_of<E>(
    seed: u64,
    id: u64,
    mut take: impl FnMut(TableOf, &[Value<'_>]) -> Result<(), E>,
) -> Result<u64, E> {
    let (shape, random) = (Shape::of(seed, id), &mut values(seed, id));
    let number = Digits::of(id);
    let row: [Value<'_>; 34] = std::array::from_fn(|column| match column {
        0 => U64(id),
        1 => Text(number.as_str()),
        2..12 => U64(random.below(2)),
        12..22 => U64(random.below(16)),
        22..32 => U64(random.below(256)),
        _ => U64(between(random, 1, u64::from(u32::MAX))),
    });
    take(TableOf::Subscriber, &row)?;
    let s = U64(id);
    let mut rows = 1;
    for place in numbers(shape.access) {
        let (one, two) = (U64(random.below(256)), U64(random.below(256)));
        let (three, four) = (Letters::<3>::draw(random), Letters::<5>::draw(random));
        let kind = U64(place as u64 + 1);
        let row = [s, kind, one, two, Text(three.as_str()), Text(four.as_str())];
        take(TableOf::AccessInfo, &row)?;
        rows += 1;
    }
    for facility in &shape.facilities {
        let (kind, active) = (U64(facility.kind), U64(facility.active.into()));
        let (error, data) = (U64(random.below(256)), U64(random.below(256)));
        let letters = Letters::<5>::draw(random);
        let row = [s, kind, active, error, data, Text(letters.as_str())];
        take(TableOf::SpecialFacility, &row)?;
        rows += 1;
        for place in numbers(facility.forwarded) {
            let start = STARTS[place];
            let end = start + between(random, 1, LONGEST);
            let to = Digits::of(random.below(1_000_000_000_000_000));
            let row = [s, kind, U64(start), U64(end), Text(to.as_str())];
            take(TableOf::CallForwarding, &row)?;
            rows += 1;
        }
    }
    Ok(rows)
}

/// The generator of a subscriber's values.
fn values(seed: u64, subscriber: u64) -> Random {
    stream(DOMAIN, seed, [VALUES, subscriber, 0, 0])
}

/// Chooses `count` of `all`, each set of so many with the same probability.
fn some(random: &mut Random, all: u64, count: u64) -> u8 {
    let mut chosen = 0_u8;
    for last in all - count..all {
        let drawn = between(random, 0, last);
        // Floyd's method: one that is chosen already stands for the last of those to choose from.
        let taken = chosen & 1 << drawn != 0;
        chosen |= 1 << if taken { last } else { drawn };
    }
    chosen
}

/// The numbers of the bits that are set.
pub(super) fn numbers(bits: u8) -> impl Iterator<Item = usize> {
    (0..8).filter(move |bit| bits & 1 << bit != 0)
}

/// Capital letters.
struct Letters<const N: usize>([u8; N]);

impl<const N: usize> Letters<N> {
    fn draw(random: &mut Random) -> Self {
        Self(std::array::from_fn(|_| b'A' + random.below(26) as u8))
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("letters are ASCII")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_drawn_with_equal_probability() {
        let random = &mut stream(DOMAIN, 1, [0; 4]);
        for count in 0..=4 {
            let mut seen = [0_u32; 16];
            for _ in 0..6000 {
                let set = some(random, 4, count);
                assert_eq!(u64::from(set.count_ones()), count);
                seen[usize::from(set)] += 1;
            }
            let sets = seen.iter().filter(|&&times| times > 0).count() as u32;
            assert_eq!(sets, [1, 4, 6, 4, 1][count as usize]);
            let even = 6000 / sets;
            assert!(seen.iter().all(|&times| times == 0 || times.abs_diff(even) < 200), "{seen:?}");
        }
    }

    #[test]
    fn population_has_the_shares_that_success_rates_need() {
        let (mut access, mut facilities, mut active, mut forwarded) = (0, 0, 0, [0_u64; 4]);
        for subscriber in 1..=40_000 {
            let shape = Shape::of(1, subscriber);
            access += u64::from(shape.access.count_ones());
            facilities += shape.facilities.len() as u64;
            for facility in &shape.facilities {
                active += u64::from(facility.active);
                forwarded[facility.forwarded.count_ones() as usize] += 1;
            }
            assert!((1..=4).contains(&shape.facilities.len()) && shape.access != 0);
        }
        assert!(access.abs_diff(100_000) < 1000 && facilities.abs_diff(100_000) < 1000);
        assert!((active * 100).abs_diff(facilities * 85) < facilities / 2, "{active}");
        assert!(forwarded.iter().all(|&times| times.abs_diff(facilities / 4) < 800));
    }
}
