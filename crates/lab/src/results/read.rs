//! Reads measurements.

use std::collections::BTreeSet;

use rusqlite::types::ValueRef;
use rusqlite::{Row, params};

use super::rounds::{Unequal, together, unequal};
use super::{Key, Results};
use crate::error::LabError;
use crate::host::Host;
use crate::point::{Point, X};
use crate::setting::Setting;

/// One cell of a study that was measured, without its points.
#[derive(Debug, Clone)]
pub struct Measurement {
    /// Its identity.
    pub key: Key,
    /// The sizes that are smaller than in the paper; empty if none is.
    pub scaled: String,
    /// The time when it was done, in seconds since 1970.
    pub finished_s: i64,
    /// The time that it took.
    pub seconds: f64,
}

/// Results of one commit on one machine at one scale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The commit.
    pub commit: String,
    /// [`Host::key`].
    pub host: String,
    /// `quick`, `full`.
    pub scale: String,
    /// The seed.
    pub seed: u64,
}

/// A selection as a user names it: names of commits and hosts may be cut short.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// The commit.
    pub commit: Option<&'a str>,
    /// The machine.
    pub host: Option<&'a str>,
    /// The scale, whole: `full` is not `full/8`.
    pub scale: Option<&'a str>,
    /// The seed.
    pub seed: Option<u64>,
}

/// A point, and the configuration of its measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Configured {
    /// The configuration, as canonical JSON.
    pub configuration: String,
    /// The point.
    pub point: Point,
}

impl Configured {
    /// The setting in which it was measured.
    #[must_use]
    pub fn setting(&self) -> Setting {
        Setting::of(&self.configuration)
    }
}

impl Results {
    /// All measurements, in the order in which they were made.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn measurements(&self) -> Result<Vec<Measurement>, LabError> {
        let query = "SELECT study, configuration, scale, commit_id, host, seed, scaled, \
                     finished_s, seconds FROM measurement ORDER BY finished_s, id";
        let read = |row: &Row<'_>| {
            Ok(Measurement {
                key: Key {
                    study: row.get(0)?,
                    configuration: row.get(1)?,
                    scale: row.get(2)?,
                    commit: row.get(3)?,
                    host: row.get(4)?,
                    seed: row.get::<_, i64>(5)? as u64,
                },
                scaled: row.get(6)?,
                finished_s: row.get(7)?,
                seconds: row.get(8)?,
            })
        };
        let mut statement = self.connection.prepare(query).map_err(self.failed())?;
        let rows = statement.query_map([], read).map_err(self.failed())?;
        rows.collect::<Result<_, _>>().map_err(self.failed())
    }

    /// The points of a selection, of both settings, those of rounds taken together, in the order in
    /// which they were measured.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn points(&self, selection: &Selection) -> Result<Vec<Point>, LabError> {
        Ok(self.configured(selection)?.into_iter().map(|one| one.point).collect())
    }

    /// The same, each with how it was measured.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn configured(&self, selection: &Selection) -> Result<Vec<Configured>, LabError> {
        Ok(together(self.saved(selection)?))
    }

    /// The counts of a selection that are not the same in each round: none unless there is a bug of
    /// ours.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn unequal(&self, selection: &Selection) -> Result<Vec<Unequal>, LabError> {
        Ok(unequal(&self.saved(selection)?))
    }

    /// The points of a selection as they were saved, each round by itself.
    fn saved(&self, selection: &Selection) -> Result<Vec<Configured>, LabError> {
        let query = "SELECT experiment, panel, series, x, metric, unit, value, low, high, n, exact, \
                     emulated, configuration FROM point JOIN measurement ON measurement.id = measurement \
                     WHERE commit_id = ?1 AND host = ?2 AND scale = ?3 AND seed = ?4 \
                     ORDER BY measurement.id, point.rowid";
        let Selection { commit, host, scale, seed } = selection;
        let mut statement = self.connection.prepare(query).map_err(self.failed())?;
        let read =
            |row: &Row<'_>| Ok(Configured { configuration: row.get(12)?, point: point(row)? });
        let rows = statement.query_map(params![commit, host, scale, *seed as i64], read);
        rows.and_then(Iterator::collect).map_err(self.failed())
    }

    /// The facts of a machine.
    ///
    /// # Errors
    /// The file cannot be read, or does not know it.
    pub fn host(&self, key: &str) -> Result<Host, LabError> {
        let query = "SELECT facts FROM host WHERE key = ?1";
        let read = |row: &Row<'_>| row.get::<_, String>(0);
        let facts = self.connection.query_row(query, params![key], read).map_err(self.failed())?;
        serde_json::from_str(&facts).map_err(|error| LabError::Input {
            path: self.path.clone(),
            what: format!("the facts of host {key}: {error}"),
        })
    }

    /// The selection that a user means: of what was named, else of the measurement that was made
    /// last.
    ///
    /// # Errors
    /// There is nothing like it, or too much.
    pub fn select(&self, wanted: Wanted<'_>) -> Result<Selection, LabError> {
        self.select_like(wanted, Wanted::default())
    }

    /// The same; of several that are meant one that is like another in its seed, host and commit,
    /// as far as there is one.
    ///
    /// # Errors
    /// There is nothing like it, or too much.
    pub fn select_like(&self, wanted: Wanted<'_>, like: Wanted<'_>) -> Result<Selection, LabError> {
        let mut all = self.measurements()?;
        narrow(&mut all, "commit", wanted.commit, |key| &key.commit)?;
        narrow(&mut all, "host", wanted.host, |key| &key.host)?;
        if let Some(scale) = wanted.scale {
            exactly(&mut all, "scale", scale.to_owned(), |key| key.scale.clone())?;
        }
        if let Some(seed) = wanted.seed {
            exactly(&mut all, "seed", seed.to_string(), |key| key.seed.to_string())?;
        }
        let mut prefer = |alike: &dyn Fn(&Key) -> bool| {
            if all.iter().any(|one| alike(&one.key)) {
                all.retain(|one| alike(&one.key));
            }
        };
        prefer(&|key| like.seed == Some(key.seed));
        prefer(&|key| like.host == Some(key.host.as_str()));
        prefer(&|key| like.commit == Some(key.commit.as_str()));
        let Some(Measurement { key, .. }) = all.pop() else {
            return Err(LabError::NoResults { path: self.path.clone() });
        };
        let Key { commit, host, scale, seed, .. } = key;
        Ok(Selection { commit, host, scale, seed })
    }
}

/// Keeps the measurements that have just this.
fn exactly(
    all: &mut Vec<Measurement>,
    what: &'static str,
    given: String,
    of: fn(&Key) -> String,
) -> Result<(), LabError> {
    let known: BTreeSet<String> = all.iter().map(|one| of(&one.key)).collect();
    all.retain(|one| of(&one.key) == given);
    if !all.is_empty() {
        return Ok(());
    }
    let known = known.into_iter().collect::<Vec<_>>().join(", ");
    Err(LabError::Nothing { what, given, known })
}

/// Keeps the measurements whose name begins with `given`.
fn narrow(
    all: &mut Vec<Measurement>,
    what: &'static str,
    given: Option<&str>,
    of: fn(&Key) -> &String,
) -> Result<(), LabError> {
    let Some(given) = given else { return Ok(()) };
    let mut names: Vec<&str> = all.iter().map(|one| of(&one.key).as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let exact: Vec<&str> = names.iter().copied().filter(|name| *name == given).collect();
    let found: Vec<&str> = match exact.is_empty() {
        true => names.iter().copied().filter(|name| name.starts_with(given)).collect(),
        false => exact,
    };
    let given = given.to_owned();
    match found[..] {
        [] => Err(LabError::Nothing { what, given, known: names.join(", ") }),
        [one] => {
            let one = one.to_owned();
            all.retain(|measurement| *of(&measurement.key) == one);
            Ok(())
        }
        _ => Err(LabError::Ambiguous { given, known: found.join(", ") }),
    }
}

fn point(row: &Row<'_>) -> rusqlite::Result<Point> {
    let x = match row.get_ref(3)? {
        ValueRef::Integer(number) => X::Number(number as f64),
        ValueRef::Real(number) => X::Number(number),
        _ => X::Name(row.get(3)?),
    };
    Ok(Point {
        experiment: row.get(0)?,
        panel: row.get(1)?,
        series: row.get(2)?,
        x,
        metric: row.get(4)?,
        unit: row.get(5)?,
        value: row.get(6)?,
        low: row.get(7)?,
        high: row.get(8)?,
        n: row.get(9)?,
        exact: row.get(10)?,
        emulated: row.get(11)?,
    })
}
