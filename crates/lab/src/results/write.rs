//! Adds measurements.

use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::types::Value;
use rusqlite::{OptionalExtension, params};

use super::Results;
use crate::emulation::{FileCosts, Host as Line};
use crate::error::LabError;
use crate::host::Host;
use crate::point::{Point, X};

/// A table that only those files have in which something was measured with other costs of files.
/// Files without it are of the same version: a reader that does not know the table does not need
/// it.
const FILE_COST: &str = "
CREATE TABLE IF NOT EXISTS file_cost (
    host TEXT NOT NULL REFERENCES host (key),
    commit_id TEXT NOT NULL,
    call_ns REAL NOT NULL,
    sync_ns REAL NOT NULL,
    PRIMARY KEY (host, commit_id)
) STRICT";

/// The identity of a measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The study, such as `ycsb`.
    pub study: String,
    /// The configuration, as canonical JSON.
    pub configuration: String,
    /// `quick`, `full`.
    pub scale: String,
    /// The version of the source that measured.
    pub commit: String,
    /// The machine: [`Host::key`].
    pub host: String,
    /// The seed.
    pub seed: u64,
}

impl Results {
    /// Notes the facts of a machine.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note_host(&self, host: &Host) -> Result<(), LabError> {
        let facts = serde_json::to_string(host).expect("plain facts encode");
        let insert = "INSERT INTO host VALUES (?1, ?2) ON CONFLICT DO UPDATE SET facts = ?2";
        self.connection.execute(insert, params![host.key(), facts]).map_err(self.failed())?;
        Ok(())
    }

    /// Returns the measured costs of lines on a host, by the size of the memory.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn calibrations(&self, host: &str, commit: &str) -> Result<Vec<(u64, Line)>, LabError> {
        let query = "SELECT bytes, line FROM calibration WHERE host = ?1 AND commit_id = ?2 \
                     ORDER BY bytes";
        let mut statement = self.connection.prepare(query).map_err(self.failed())?;
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
        let rows = statement.query_map([host, commit], read).map_err(self.failed())?;
        let mut all = Vec::new();
        for row in rows {
            let (bytes, line) = row.map_err(self.failed())?;
            let line = serde_json::from_str(&line).map_err(|error| LabError::Input {
                path: self.path.clone(),
                what: format!("the calibration for {bytes} bytes cannot be read: {error}"),
            })?;
            all.push((bytes as u64, line));
        }
        Ok(all)
    }

    /// Notes what lines cost on a host. What is known already stays.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note_calibrations(
        &self,
        host: &str,
        commit: &str,
        all: &[(u64, Line)],
    ) -> Result<(), LabError> {
        for (bytes, line) in all {
            let line = serde_json::to_string(line).expect("plain facts encode");
            let insert = "INSERT OR IGNORE INTO calibration VALUES (?1, ?2, ?3, ?4)";
            let done = self.connection.execute(insert, params![host, commit, *bytes as i64, line]);
            done.map_err(self.failed())?;
        }
        Ok(())
    }

    /// Returns the measured costs of files on a host, if they were measured.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn file_costs(&self, host: &str, commit: &str) -> Result<Option<FileCosts>, LabError> {
        let there = "SELECT 1 FROM sqlite_schema WHERE name = 'file_cost'";
        let mut statement = self.connection.prepare(there).map_err(self.failed())?;
        if !statement.exists([]).map_err(self.failed())? {
            return Ok(None);
        }
        let query = "SELECT call_ns, sync_ns FROM file_cost WHERE host = ?1 AND commit_id = ?2";
        let read =
            |row: &rusqlite::Row<'_>| Ok(FileCosts { call_ns: row.get(0)?, sync_ns: row.get(1)? });
        let found = self.connection.query_row(query, [host, commit], read).optional();
        found.map_err(self.failed())
    }

    /// Notes what files cost on a host. What is known already stays.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note_file_costs(
        &self,
        host: &str,
        commit: &str,
        FileCosts { call_ns, sync_ns }: &FileCosts,
    ) -> Result<(), LabError> {
        self.connection.execute_batch(FILE_COST).map_err(self.failed())?;
        let insert = "INSERT OR IGNORE INTO file_cost VALUES (?1, ?2, ?3, ?4)";
        let done = self.connection.execute(insert, params![host, commit, call_ns, sync_ns]);
        done.map_err(self.failed())?;
        Ok(())
    }

    /// Returns true if there is such a measurement.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn contains(&self, key: &Key) -> Result<bool, LabError> {
        let query = "SELECT 1 FROM measurement WHERE study = ?1 AND configuration = ?2 \
                     AND commit_id = ?3 AND host = ?4 AND seed = ?5 AND scale = ?6";
        let mut statement = self.connection.prepare(query).map_err(self.failed())?;
        let Key { study, configuration, scale, commit, host, seed } = key;
        let seed = *seed as i64;
        let found = statement.exists(params![study, configuration, commit, host, seed, scale]);
        found.map_err(self.failed())
    }

    /// Adds a measurement with all its points, or nothing. One that is there already is replaced.
    ///
    /// # Errors
    /// The file cannot be written; the disk may be full.
    pub fn save(
        &mut self,
        key: &Key,
        scaled: &str,
        seconds: f64,
        points: &[Point],
    ) -> Result<(), LabError> {
        let failed = self.failed();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
        let Key { study, configuration, scale, commit, host, seed } = key;
        let seed = *seed as i64;
        let transaction = self.connection.transaction().map_err(&failed)?;
        transaction
            .execute(
                "DELETE FROM measurement WHERE study = ?1 AND configuration = ?2 \
                 AND commit_id = ?3 AND host = ?4 AND seed = ?5 AND scale = ?6",
                params![study, configuration, commit, host, seed, scale],
            )
            .map_err(&failed)?;
        transaction
            .execute(
                "INSERT INTO measurement (study, configuration, scale, commit_id, host, seed, \
                 scaled, finished_s, seconds) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![study, configuration, scale, commit, host, seed, scaled, now, seconds],
            )
            .map_err(&failed)?;
        let id = transaction.last_insert_rowid();
        for point in points {
            let x = match &point.x {
                X::Number(number) => Value::Real(*number),
                X::Name(name) => Value::Text(name.clone()),
            };
            let Point { experiment, panel, series, metric, unit, .. } = point;
            let Point { value, low, high, n, exact, emulated, .. } = point;
            transaction
                .execute(
                    "INSERT INTO point VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, \
                     ?13)",
                    params![
                        id, experiment, panel, series, x, metric, unit, value, low, high, n, exact,
                        emulated
                    ],
                )
                .map_err(&failed)?;
        }
        transaction.commit().map_err(&failed)
    }
}
