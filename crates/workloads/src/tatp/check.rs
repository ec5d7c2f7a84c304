//! Demands on the rows, whatever was run on them.

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
    let sum = |kind: Kind| runs.iter().map(|run| run.committed(kind as usize)).sum::<u64>();
    let changes = Changes {
        inserted: sum(Kind::InsertCallForwarding),
        deleted: sum(Kind::DeleteCallForwarding),
        ..Changes::default()
    };
    Ok(check_changes(database, spec, &changes)?.0)
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
    let checks = [
        ("subscribers", "the subscribers are those that were loaded, each with its number"),
        ("access_info", "the kinds of access of each subscriber are those that were loaded"),
        ("special_facility", "the facilities of each subscriber are those that were loaded"),
        ("call_forwarding", "calls are forwarded by facilities, from 0, 8 or 16 for 1 to 8 hours"),
        ("forwarded", "there are as many rows as were loaded and inserted, less those deleted"),
    ];
    let mut checks = checks.map(|(name, what)| Check { name, what, violation: None });
    let mut counts = Counts::default();
    for partition in 0..database.partition_count() {
        let (found, here) =
            database.partition(partition).read(|tx| look(tx, &tables, spec, partition))?;
        counts.loaded += here.loaded;
        counts.there += here.there;
        for (check, found) in checks.iter_mut().zip(found) {
            check.violation = check.violation.take().or(found);
        }
    }
    let Counts { loaded, there } = counts;
    let Changes { inserted, deleted, maybe_inserted, maybe_deleted } = *changes;
    let expected = (loaded + inserted).saturating_sub(deleted);
    let missing = expected.saturating_sub(maybe_deleted).saturating_sub(there);
    let surplus = there.saturating_sub(expected + maybe_inserted);
    if missing + surplus > 0 {
        checks[4].violation = Some(format!(
            "{there} rows are there; {loaded} were loaded, {inserted} inserted and {deleted} deleted"
        ));
    }
    Ok((checks.into(), missing, surplus))
}

/// Rows of CALL_FORWARDING.
#[derive(Default)]
struct Counts {
    loaded: u64,
    there: u64,
}

/// The contradictions in one partition, in the order of the checks.
fn look<T: Reads>(
    tx: &T,
    tables: &Tables,
    spec: &Spec,
    partition: usize,
) -> Result<([Option<String>; 4], Counts), Error> {
    let shapes = || spec.subscribers_of(partition).map(|id| (id, Shape::of(spec.seed, id)));
    let loaded = shapes().map(|(_, shape)| shape.forwarded()).sum();
    let mut counts = Counts { loaded, there: 0 };
    let by_type = |ids: [u64; 2]| format!("subscriber {}, type {}", ids[0], ids[1]);

    let ids = spec.subscribers_of(partition).map(|id| [id, 0]);
    let mut subscribers = Expected::new(ids, |[id, _]| format!("subscriber {id}"));
    tx.each(&tables.subscriber, &Scan::all(), |row| {
        let id = row.u64(0);
        subscribers.next([id, 0], row.text(1) == Digits::of(id).as_str());
    })?;

    let access = shapes()
        .flat_map(|(id, shape)| numbers(shape.access).map(move |place| [id, place as u64 + 1]));
    let mut access = Expected::new(access, by_type);
    tx.each(&tables.access_info, &Scan::all(), |row| {
        access.next([row.u64(0), row.u64(1)], row.u64(2) < 256 && row.u64(3) < 256);
    })?;

    let facilities = shapes()
        .flat_map(|(id, shape)| shape.facilities.into_iter().map(move |one| [id, one.kind]));
    let mut facilities = Expected::new(facilities, by_type);
    tx.each(&tables.special_facility, &Scan::all(), |row| {
        facilities.next([row.u64(0), row.u64(1)], row.u64(2) < 2 && row.u64(4) < 256);
    })?;

    let mut forwarding = None;
    tx.each(&tables.call_forwarding, &Scan::all(), |row| {
        counts.there += 1;
        if forwarding.is_none() && !is_forwarding(spec, row) {
            let [s, kind, start, end] = [0, 1, 2, 3].map(|column| row.u64(column));
            let what = format!("subscriber {s}, type {kind}: forwarded from {start} to {end}");
            forwarding = Some(what);
        }
    })?;
    Ok(([subscribers.end(), access.end(), facilities.end(), forwarding], counts))
}

/// Returns true if a row of CALL_FORWARDING is possible.
fn is_forwarding(spec: &Spec, row: &Row) -> bool {
    let [s, kind, start, end] = [0, 1, 2, 3].map(|column| row.u64(column));
    let shape = Shape::of(spec.seed, s);
    STARTS.contains(&start)
        && (start + 1..=start + LONGEST).contains(&end)
        && (1..=TYPES).contains(&kind)
        && shape.facilities.iter().any(|facility| facility.kind == kind)
}

/// Keys that are to come, one after the other, and the first thing that is wrong.
struct Expected<I, N> {
    ids: I,
    name: N,
    wrong: Option<String>,
}

impl<I: Iterator<Item = [u64; 2]>, N: Fn([u64; 2]) -> String> Expected<I, N> {
    fn new(ids: I, name: N) -> Self {
        Self { ids, name, wrong: None }
    }

    /// A row has come, whose values make sense or not.
    fn next(&mut self, id: [u64; 2], makes_sense: bool) {
        if self.wrong.is_some() {
            return;
        }
        let expected = self.ids.next();
        if expected != Some(id) {
            let instead = expected.map_or("nothing".into(), &self.name);
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
