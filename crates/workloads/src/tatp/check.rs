//! Conditions that the rows must meet after any run.

use perdura::{Database, Environment, Error, Row, Scan};

use super::inputs::Kind;
use super::population::{LONGEST, STARTS, Shape, TYPES, numbers};
use super::schema::{Digits, Tables};
use super::spec::Spec;
use crate::checks::Check;
use crate::reads::Reads;
use crate::terminals::Measured;

/// Checks a whole database on which these runs, and no others, have ended.
///
/// # Errors
/// The database's own. A check that does not hold is no error but the result.
pub fn check<E: Environment>(
    database: &Database<E>,
    spec: &Spec,
    runs: &[&Measured],
) -> Result<Vec<Check>, Error> {
    Ok(check_changes(database, spec, &Changes::of(runs))?.0)
}

/// The rows of CALL_FORWARDING that came and went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Inserts that were acknowledged.
    pub inserted: u64,
    /// Deletes that were acknowledged.
    pub deleted: u64,
    /// Inserts that were under way at a kill: each may be there or not.
    pub maybe_inserted: u64,
    /// Deletes that were under way at a kill.
    pub maybe_deleted: u64,
}

impl Changes {
    /// The changes that these runs have made.
    fn of(runs: &[&Measured]) -> Self {
        let sum = |kind: Kind| runs.iter().map(|run| run.committed(kind as usize)).sum::<u64>();
        Self {
            inserted: sum(Kind::InsertCallForwarding),
            deleted: sum(Kind::DeleteCallForwarding),
            ..Self::default()
        }
    }
}

/// Checks a whole database in which these changes were made and no others. Returns the rows that are
/// missing and those that are too many, too.
///
/// # Errors
/// As [`check`].
pub fn check_changes<E: Environment>(
    database: &Database<E>,
    spec: &Spec,
    changes: &Changes,
) -> Result<(Vec<Check>, u64, u64), Error> {
    let tables = Tables::of(database)?;
    let mut sum = Found::default();
    for partition in 0..database.partition_count() {
        sum.add(database.partition(partition).read(|tx| look(tx, &tables, spec, partition))?);
    }
    Ok(sum.judge(changes))
}

/// The contradictions in some partitions, in the order of the checks, and the rows of CALL_FORWARDING.
#[derive(Default)]
struct Found {
    wrong: [Option<String>; 4],
    loaded: u64,
    there: u64,
}

impl Found {
    fn add(&mut self, other: Self) {
        self.loaded += other.loaded;
        self.there += other.there;
        for (wrong, other) in self.wrong.iter_mut().zip(other.wrong) {
            *wrong = wrong.take().or(other);
        }
    }

    /// Returns the checks, and how many rows are missing and how many are too many after these
    /// changes.
    fn judge(self, changes: &Changes) -> (Vec<Check>, u64, u64) {
        let Self { wrong: [subscribers, access, facilities, forwarding], loaded, there } = self;
        let Changes { inserted, deleted, maybe_inserted, maybe_deleted } = *changes;
        let expected = (loaded + inserted).saturating_sub(deleted);
        let missing = expected.saturating_sub(maybe_deleted).saturating_sub(there);
        let surplus = there.saturating_sub(expected + maybe_inserted);
        let forwarded = (missing + surplus > 0).then(|| {
            format!(
                "{there} rows are there; {loaded} were loaded, {inserted} inserted and {deleted} deleted"
            )
        });
        let checks = [
            (
                "subscribers",
                "the subscribers are those that were loaded, each with its number",
                subscribers,
            ),
            (
                "access_info",
                "the kinds of access of each subscriber are those that were loaded",
                access,
            ),
            (
                "special_facility",
                "the facilities of each subscriber are those that were loaded",
                facilities,
            ),
            (
                "call_forwarding",
                "calls are forwarded by facilities, from 0, 8 or 16 for 1 to 8 hours",
                forwarding,
            ),
            (
                "forwarded",
                "there are as many rows as were loaded and inserted, less those deleted",
                forwarded,
            ),
        ];
        let checks = checks.map(|(name, what, violation)| Check { name, what, violation });
        (checks.into(), missing, surplus)
    }
}

/// Looks at the rows of a partition of ours.
fn look<T: Reads>(tx: &T, tables: &Tables, spec: &Spec, partition: usize) -> Result<Found, Error> {
    let numbers = |row: &Row, columns: [usize; 4]| columns.map(|column| row.u64(column));
    let mut seen = Inspection::of_partition(spec, partition);
    let all = Scan::all();
    tx.each(&tables.subscriber, &all, |row| seen.subscriber(row.u64(0), row.text(1)))?;
    tx.each(&tables.access_info, &all, |row| seen.access(numbers(row, [0, 1, 2, 3])))?;
    tx.each(&tables.special_facility, &all, |row| seen.facility(numbers(row, [0, 1, 2, 4])))?;
    tx.each(&tables.call_forwarding, &all, |row| seen.forwarding(numbers(row, [0, 1, 2, 3])))?;
    Ok(seen.found())
}

/// Reads all rows of a register, each table in the order of its key, for any database.
pub struct Inspection<'a> {
    spec: &'a Spec,
    partition: usize,
    subscribers: Expected,
    access: Expected,
    facilities: Expected,
    forwarding: Option<String>,
    loaded: u64,
    there: u64,
}

impl<'a> Inspection<'a> {
    /// A look at a register of one partition.
    #[must_use]
    pub fn new(spec: &'a Spec) -> Self {
        Self::of_partition(spec, 0)
    }

    fn of_partition(spec: &'a Spec, partition: usize) -> Self {
        let seed = spec.seed;
        let shapes = move |spec: &Spec| {
            spec.subscribers_of(partition).map(move |id| (id, Shape::of(seed, id)))
        };
        let by_type = |ids: [u64; 2]| format!("subscriber {}, type {}", ids[0], ids[1]);
        let ids = spec.subscribers_of(partition).map(|id| [id, 0]);
        let access = shapes(spec)
            .flat_map(|(id, shape)| numbers(shape.access).map(move |place| [id, place as u64 + 1]));
        let facilities = shapes(spec)
            .flat_map(|(id, shape)| shape.facilities.into_iter().map(move |one| [id, one.kind]));
        Self {
            spec,
            partition,
            subscribers: Expected::new(ids, |[id, _]| format!("subscriber {id}")),
            access: Expected::new(access, by_type),
            facilities: Expected::new(facilities, by_type),
            forwarding: None,
            loaded: shapes(spec).map(|(_, shape)| shape.forwarded()).sum(),
            there: 0,
        }
    }

    /// A subscriber, with its telephone number.
    pub fn subscriber(&mut self, id: u64, number: &str) {
        self.subscribers.next([id, 0], number == Digits::of(id).as_str());
    }

    /// A row of ACCESS_INFO: subscriber, type, `data1`, `data2`.
    pub fn access(&mut self, [s, kind, one, two]: [u64; 4]) {
        self.access.next([s, kind], one < 256 && two < 256);
    }

    /// A row of SPECIAL_FACILITY: subscriber, type, `is_active`, `data_a`.
    pub fn facility(&mut self, [s, kind, active, data]: [u64; 4]) {
        self.facilities.next([s, kind], active < 2 && data < 256);
    }

    /// A row of CALL_FORWARDING: subscriber, type, start, end.
    pub fn forwarding(&mut self, row: [u64; 4]) {
        self.there += 1;
        if self.forwarding.is_none() && !is_forwarding(self.spec, self.partition, row) {
            let [s, kind, start, end] = row;
            let what = format!("subscriber {s}, type {kind}: forwarded from {start} to {end}");
            self.forwarding = Some(what);
        }
    }

    fn found(self) -> Found {
        let Self { subscribers, access, facilities, forwarding, loaded, there, .. } = self;
        let wrong = [subscribers.end(), access.end(), facilities.end(), forwarding];
        Found { wrong, loaded, there }
    }

    /// The checks, as [`check`] makes them, of a register in which these runs have ended and no others.
    #[must_use]
    pub fn end(self, runs: &[&Measured]) -> Vec<Check> {
        self.found().judge(&Changes::of(runs)).0
    }
}

/// Returns true if a row of CALL_FORWARDING is possible in a partition. A subscriber that was not loaded there has no
/// facilities, whatever its number would make of it.
fn is_forwarding(spec: &Spec, partition: usize, [s, kind, start, end]: [u64; 4]) -> bool {
    let shape = Shape::of(spec.seed, s);
    spec.has_subscriber(partition, s)
        && STARTS.contains(&start)
        && (start + 1..=start + LONGEST).contains(&end)
        && (1..=TYPES).contains(&kind)
        && shape.facilities.iter().any(|facility| facility.kind == kind)
}

/// Keys that are to come, one after the other, and the first thing that is wrong.
struct Expected {
    ids: Box<dyn Iterator<Item = [u64; 2]>>,
    name: fn([u64; 2]) -> String,
    wrong: Option<String>,
}

impl Expected {
    fn new(ids: impl Iterator<Item = [u64; 2]> + 'static, name: fn([u64; 2]) -> String) -> Self {
        Self { ids: Box::new(ids), name, wrong: None }
    }

    /// A row has come, whose values make sense or not.
    fn next(&mut self, id: [u64; 2], makes_sense: bool) {
        if self.wrong.is_some() {
            return;
        }
        let expected = self.ids.next();
        if expected != Some(id) {
            let instead = expected.map_or("nothing".into(), self.name);
            self.wrong = Some(format!("{} is there, not {instead}", (self.name)(id)));
        } else if !makes_sense {
            self.wrong = Some(format!("{} has values that it cannot have", (self.name)(id)));
        }
    }

    /// There are no more rows.
    fn end(mut self) -> Option<String> {
        let missing = self.ids.next();
        self.wrong.or_else(|| missing.map(|id| format!("{} is missing", (self.name)(id))))
    }
}

#[cfg(test)]
mod tests {
    use perdura::Value;

    use super::super::population::rows_of;
    use super::super::schema::TableOf;
    use super::*;

    /// The checks that do not hold of a partition that has the rows of its subscribers, and in one table those of
    /// another one.
    fn violated(spec: &Spec, partition: usize, other: Option<(u64, TableOf)>) -> Vec<&'static str> {
        let mut seen = Inspection::of_partition(spec, partition);
        let others = other.iter().map(|(id, _)| *id);
        let mut ids: Vec<u64> = spec.subscribers_of(partition).chain(others).collect();
        ids.sort_unstable();
        for id in ids {
            let table = other.filter(|(other, _)| *other == id).map(|(_, table)| table);
            let add = |of, row: &[Value<'_>]| {
                if table.is_some_and(|table| table != of) {
                    return Ok(());
                }
                let word = |column: usize| match row[column] {
                    Value::U64(word) => word,
                    ref other => panic!("{other:?}"),
                };
                match (of, &row[1]) {
                    (TableOf::Subscriber, Value::Text(number)) => seen.subscriber(id, number),
                    (TableOf::Subscriber, other) => panic!("{other:?}"),
                    (TableOf::AccessInfo, _) => seen.access([0, 1, 2, 3].map(word)),
                    (TableOf::SpecialFacility, _) => seen.facility([0, 1, 2, 4].map(word)),
                    (TableOf::CallForwarding, _) => seen.forwarding([0, 1, 2, 3].map(word)),
                }
                Ok::<_, ()>(())
            };
            rows_of(spec.seed, id, add).unwrap();
        }
        let checks = seen.end(&[]).into_iter();
        checks.filter(|check| check.violation.is_some()).map(|check| check.name).collect()
    }

    #[test]
    fn rows_of_subscribers_that_a_partition_has_not_are_noticed() {
        let spec = Spec { subscribers: 40, partitions: 2, ..Spec::default() };
        let forwards = |id: &u64| Shape::of(spec.seed, *id).forwarded() > 0;
        for partition in 0..2 {
            assert_eq!(violated(&spec, partition, None), [""; 0]);
            let elsewhere = spec.subscribers_of(1 - partition).find(forwards);
            let later = (41..).find(forwards);
            for other in elsewhere.into_iter().chain(later).chain([0]) {
                for (table, name) in [
                    (TableOf::Subscriber, "subscribers"),
                    (TableOf::AccessInfo, "access_info"),
                    (TableOf::SpecialFacility, "special_facility"),
                    (TableOf::CallForwarding, "call_forwarding"),
                ] {
                    let violated = violated(&spec, partition, Some((other, table)));
                    let is_there = table != TableOf::CallForwarding || forwards(&other);
                    assert_eq!(violated.contains(&name), is_there, "{other}: {violated:?}");
                }
            }
        }
    }
}
