//! The initial population.

use perdura::Value::{Text, U64};
use perdura::{Database, Environment, Error, Tx, Value};

use super::population::{LONGEST, Letters, STARTS, Shape, numbers, values};
use super::schema::{Digits, Tables};
use super::spec::Spec;
use crate::measure::{Observer, RunError};
use crate::random::between;

/// Populates an empty database that was created with [`super::schema`]; durable when it returns.
/// The observer counts rows.
///
/// # Errors
/// The first error of any worker.
pub fn load<E: Environment, O: Observer>(
    database: &Database<E>,
    spec: &Spec,
    workers: usize,
    observer: &O,
) -> Result<(), RunError> {
    crate::loading::load(database, spec.partitions, workers, observer, |loader| {
        let tables = Tables::of(database)?;
        let subscribers = spec.subscribers_of(loader.number);
        loader.insert(subscribers, |tx, id| subscriber(tx, &tables, spec.seed, id))
    })
}

/// Inserts a subscriber with all that belongs to it; returns how many rows these are.
fn subscriber<E: Environment>(
    tx: &mut Tx<'_, E>,
    tables: &Tables,
    seed: u64,
    id: u64,
) -> Result<u64, Error> {
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
    tx.insert(&tables.subscriber, &row)?;
    let s = U64(id);
    let mut rows = 1;
    for place in numbers(shape.access) {
        let (one, two) = (U64(random.below(256)), U64(random.below(256)));
        let (three, four) = (Letters::<3>::draw(random), Letters::<5>::draw(random));
        let kind = U64(place as u64 + 1);
        let row = [s, kind, one, two, Text(three.as_str()), Text(four.as_str())];
        tx.insert(&tables.access_info, &row)?;
        rows += 1;
    }
    for facility in &shape.facilities {
        let (kind, active) = (U64(facility.kind), U64(facility.active.into()));
        let (error, data) = (U64(random.below(256)), U64(random.below(256)));
        let letters = Letters::<5>::draw(random);
        let row = [s, kind, active, error, data, Text(letters.as_str())];
        tx.insert(&tables.special_facility, &row)?;
        rows += 1;
        for place in numbers(facility.forwarded) {
            let start = STARTS[place];
            let end = start + between(random, 1, LONGEST);
            let to = Digits::of(random.below(1_000_000_000_000_000));
            let row = [s, kind, U64(start), U64(end), Text(to.as_str())];
            tx.insert(&tables.call_forwarding, &row)?;
            rows += 1;
        }
    }
    Ok(rows)
}
