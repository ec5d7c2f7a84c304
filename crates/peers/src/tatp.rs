//! TATP on SQLite: one connection, which the workers use in turn, as in [TPC-B](crate::SqliteBank).
//!
//! Every read is one statement, as is every change of one row; the others are transactions.

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, Params, ToSql, params};
use workloads::tatp::{
    Digits, Input, Inspection, Kind, Population, Register, RegisterConnection, Spec, TableOf, Value,
};
use workloads::{Observer, Outcome, StoreError, allocated_bytes};

use crate::shared::{LOAD_BATCH, create_directory};
use crate::sqlite::{Batch, connect, empty_log, execute};

const NAME: &str = "sqlite";

const TABLES: &str = "
    CREATE TABLE access_info (s_id INTEGER NOT NULL, ai_type INTEGER NOT NULL,
                              data1 INTEGER NOT NULL, data2 INTEGER NOT NULL,
                              data3 TEXT NOT NULL, data4 TEXT NOT NULL,
                              PRIMARY KEY (s_id, ai_type)) WITHOUT ROWID;
    CREATE TABLE special_facility (s_id INTEGER NOT NULL, sf_type INTEGER NOT NULL,
                                   is_active INTEGER NOT NULL, error_cntrl INTEGER NOT NULL,
                                   data_a INTEGER NOT NULL, data_b TEXT NOT NULL,
                                   PRIMARY KEY (s_id, sf_type)) WITHOUT ROWID;
    CREATE TABLE call_forwarding (s_id INTEGER NOT NULL, sf_type INTEGER NOT NULL,
                                  start_time INTEGER NOT NULL, end_time INTEGER NOT NULL,
                                  numberx TEXT NOT NULL,
                                  PRIMARY KEY (s_id, sf_type, start_time)) WITHOUT ROWID;";
const SUBSCRIBER_DATA: &str = "SELECT * FROM subscriber WHERE s_id = ?1";
const ACCESS_DATA: &str =
    "SELECT data1, data2, data3, data4 FROM access_info WHERE s_id = ?1 AND ai_type = ?2";
const DESTINATION: &str = "
    SELECT numberx FROM special_facility AS f JOIN call_forwarding AS c
        ON c.s_id = f.s_id AND c.sf_type = f.sf_type
    WHERE f.s_id = ?1 AND f.sf_type = ?2 AND f.is_active = 1 AND c.start_time <= ?3 AND ?4 < c.end_time";
const LOCATION: &str = "UPDATE subscriber SET vlr_location = ?1 WHERE sub_nbr = ?2";
const FLAG: &str = "UPDATE subscriber SET bit_1 = ?1 WHERE s_id = ?2";
const DATA_A: &str = "UPDATE special_facility SET data_a = ?1 WHERE s_id = ?2 AND sf_type = ?3";
const BY_NUMBER: &str = "SELECT s_id FROM subscriber WHERE sub_nbr = ?1";
const FACILITIES: &str = "SELECT sf_type FROM special_facility WHERE s_id = ?1";
const FORWARD: &str = "INSERT INTO call_forwarding VALUES (?1, ?2, ?3, ?4, ?5)";
const END_FORWARDING: &str = "
    DELETE FROM call_forwarding
    WHERE s_id = (SELECT s_id FROM subscriber WHERE sub_nbr = ?1) AND sf_type = ?2 AND start_time = ?3";

/// A SQLite database with the tables of TATP.
pub struct SqliteRegister {
    directory: PathBuf,
    connection: Mutex<Connection>,
}

impl SqliteRegister {
    /// Creates it in the directory `sqlite.0` below an existing one.
    ///
    /// # Errors
    /// It exists already or cannot be created, or SQLite does not take a setting.
    pub fn create(directory: &Path) -> Result<Self, StoreError> {
        let directory = create_directory(directory, NAME, 0)?;
        let connection = connect(&directory, true, 1)?;
        let mut tables =
            "CREATE TABLE subscriber (s_id INTEGER PRIMARY KEY, sub_nbr TEXT NOT NULL UNIQUE"
                .to_owned();
        for name in ["bit", "hex", "byte2"] {
            (1..=10).for_each(|number| tables += &format!(", {name}_{number} INTEGER NOT NULL"));
        }
        tables += ", msc_location INTEGER NOT NULL, vlr_location INTEGER NOT NULL);";
        connection.execute_batch(&(tables + TABLES)).map_err(StoreError::engine)?;
        connection.set_prepared_statement_cache_capacity(32);
        Ok(Self { directory, connection: Mutex::new(connection) })
    }

    /// Bytes that its files take.
    ///
    /// # Errors
    /// They cannot be examined.
    pub fn footprint_bytes(&self) -> Result<u64, StoreError> {
        allocated_bytes(&self.directory)
    }
}

/// A value of a population, as SQLite takes it.
struct Bound<'a>(Value<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self.0 {
            Value::U64(number) => Ok(ToSqlOutput::from(number.cast_signed())),
            Value::Text(text) => Ok(ToSqlOutput::from(text)),
            _ => Err(rusqlite::Error::ToSqlConversionFailure("TATP has numbers and texts".into())),
        }
    }
}

/// Reads all rows of a question, every column of each; returns how many these are.
fn ask<P: Params>(connection: &Connection, sql: &str, values: P) -> Result<usize, StoreError> {
    let read = || {
        let mut statement = connection.prepare_cached(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query(values)?;
        let mut found = 0;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                std::hint::black_box(row.get_ref(column)?);
            }
            found += 1;
        }
        Ok(found)
    };
    read().map_err(|error: rusqlite::Error| StoreError::engine(error))
}

const fn outcome(rows: usize) -> Outcome {
    if rows > 0 { Outcome::Committed } else { Outcome::Failed }
}

/// Changes what one subscriber must have; there must be such a subscriber.
fn of_subscriber<P: Params>(
    connection: &Connection,
    sql: &str,
    values: P,
    input: &Input,
) -> Result<(), StoreError> {
    match execute(connection, sql, values)? {
        1 => Ok(()),
        _ => Err(StoreError::Missing { key: input.subscriber().into() }),
    }
}

fn update_subscriber(connection: &Connection, input: &Input) -> Result<Outcome, StoreError> {
    let mut transaction = Batch::begin(connection)?;
    let (subscriber, value) = (input.subscriber(), input.value());
    of_subscriber(connection, FLAG, [value & 1, subscriber], input)?;
    if execute(connection, DATA_A, [value >> 1, subscriber, input.of().into()])? == 0 {
        return Ok(Outcome::Failed);
    }
    transaction.commit()?;
    Ok(Outcome::Committed)
}

fn insert_forwarding(connection: &Connection, input: &Input) -> Result<Outcome, StoreError> {
    let mut transaction = Batch::begin(connection)?;
    let number = Digits::of(input.subscriber().into());
    let facility = || {
        let mut by_number = connection.prepare_cached(BY_NUMBER)?;
        let id: i64 = by_number.query_row([number.as_str()], |row| row.get(0))?;
        let mut facilities = connection.prepare_cached(FACILITIES)?;
        let mut rows = facilities.query([id])?;
        let mut is_there = false;
        while let Some(row) = rows.next()? {
            is_there |= row.get::<_, u8>(0)? == input.of();
        }
        Ok((id, is_there))
    };
    let (id, is_there) = facility().map_err(|error| match error {
        rusqlite::Error::QueryReturnedNoRows => {
            StoreError::Missing { key: input.subscriber().into() }
        }
        error => StoreError::engine(error),
    })?;
    if !is_there {
        return Ok(Outcome::Failed);
    }
    let to = Digits::of(input.value().into());
    let row = params![id, input.of(), input.start(), input.end(), to.as_str()];
    let insert = || connection.prepare_cached(FORWARD)?.execute(row);
    match insert() {
        Ok(_) => transaction.commit()?,
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            return Ok(Outcome::Failed);
        }
        Err(error) => return Err(StoreError::engine(error)),
    }
    Ok(Outcome::Committed)
}

impl Register for SqliteRegister {
    type Connection<'a> = &'a Self;

    fn name(&self) -> &str {
        NAME
    }

    fn connect(&self) -> Result<&Self, StoreError> {
        Ok(self)
    }

    /// Also takes the log into the database, so that it is not done on the clock.
    fn load<O: Observer>(&self, spec: &Spec, progress: &O) -> Result<(), StoreError> {
        let connection = &*self.connection.lock();
        let mut batch = Some(Batch::begin(connection)?);
        let (mut done, mut committed) = (0, 0);
        let insert = |of: TableOf, row: &[Value<'_>]| {
            let sql = match of {
                TableOf::Subscriber => SUBSCRIBER.as_str(),
                TableOf::AccessInfo => "INSERT INTO access_info VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                TableOf::SpecialFacility => {
                    "INSERT INTO special_facility VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
                }
                TableOf::CallForwarding => FORWARD,
            };
            let values = row.iter().map(|value| Bound(*value));
            execute(connection, sql, rusqlite::params_from_iter(values)).map(drop)
        };
        Population(spec).each(insert, |rows| {
            done = rows;
            if done - committed >= LOAD_BATCH as u64 {
                if let Some(mut batch) = batch.take() {
                    batch.commit()?;
                }
                committed = done;
                progress.completed(0, done);
                batch = Some(Batch::begin(connection)?);
            }
            Ok(())
        })?;
        if let Some(mut batch) = batch {
            batch.commit()?;
        }
        progress.completed(0, done);
        empty_log(connection)
    }

    fn show(&self, to: &mut Inspection<'_>) -> Result<u64, StoreError> {
        let connection = &*self.connection.lock();
        let mut count = 0;
        let mut each =
            |sql: &str, take: &mut dyn FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<()>| {
                let mut statement = connection.prepare(sql)?;
                let mut rows = statement.query([])?;
                while let Some(row) = rows.next()? {
                    count += 1;
                    take(row)?;
                }
                Ok(())
            };
        let four = |row: &rusqlite::Row<'_>| -> rusqlite::Result<[u64; 4]> {
            let number = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
            Ok([number(0)?, number(1)?, number(2)?, number(3)?])
        };
        let read: rusqlite::Result<()> = (|| {
            each("SELECT s_id, sub_nbr FROM subscriber ORDER BY s_id", &mut |row| {
                let number = match row.get_ref(1)? {
                    ValueRef::Text(text) => String::from_utf8_lossy(text),
                    _ => "no text".into(),
                };
                to.subscriber(row.get::<_, i64>(0)?.cast_unsigned(), &number);
                Ok(())
            })?;
            let access = "SELECT s_id, ai_type, data1, data2 FROM access_info ORDER BY 1, 2";
            each(access, &mut |row| {
                to.access(four(row)?);
                Ok(())
            })?;
            let facilities =
                "SELECT s_id, sf_type, is_active, data_a FROM special_facility ORDER BY 1, 2";
            each(facilities, &mut |row| {
                to.facility(four(row)?);
                Ok(())
            })?;
            let forwarding =
                "SELECT s_id, sf_type, start_time, end_time FROM call_forwarding ORDER BY 1, 2, 3";
            each(forwarding, &mut |row| {
                to.forwarding(four(row)?);
                Ok(())
            })
        })();
        read.map_err(StoreError::engine)?;
        Ok(count)
    }
}

/// The statement that inserts a subscriber of 34 columns.
static SUBSCRIBER: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
    let places: Vec<_> = (1..=34).map(|number| format!("?{number}")).collect();
    format!("INSERT INTO subscriber VALUES ({})", places.join(", "))
});

impl RegisterConnection for &SqliteRegister {
    fn submit(&mut self, input: &Input) -> Result<Outcome, StoreError> {
        let connection = &*self.connection.lock();
        let (subscriber, of) = (input.subscriber(), u32::from(input.of()));
        match input.kind() {
            Kind::GetSubscriberData => ask(connection, SUBSCRIBER_DATA, [subscriber]).map(outcome),
            Kind::GetAccessData => ask(connection, ACCESS_DATA, [subscriber, of]).map(outcome),
            Kind::GetNewDestination => {
                let hours = [input.start(), input.end()].map(u32::from);
                ask(connection, DESTINATION, [subscriber, of, hours[0], hours[1]]).map(outcome)
            }
            Kind::UpdateLocation => {
                let number = Digits::of(subscriber.into());
                let values = params![input.value(), number.as_str()];
                of_subscriber(connection, LOCATION, values, input)?;
                Ok(Outcome::Committed)
            }
            Kind::UpdateSubscriberData => update_subscriber(connection, input),
            Kind::InsertCallForwarding => insert_forwarding(connection, input),
            Kind::DeleteCallForwarding => {
                let number = Digits::of(subscriber.into());
                let values = params![number.as_str(), input.of(), input.start()];
                execute(connection, END_FORWARDING, values).map(outcome)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use workloads::tatp::Workload;

    use super::*;

    /// All rows of a table as text.
    fn rows(register: &SqliteRegister, table: &str) -> String {
        let connection = register.connection.lock();
        let columns: Vec<String> = connection
            .prepare(&format!("SELECT * FROM {table}"))
            .expect("there is such a table")
            .column_names()
            .map(|name| format!("quote({name})"))
            .collect();
        let sql =
            format!("SELECT group_concat({}, x'0a') FROM {table}", columns.join(" || ',' || "));
        connection.query_row(&sql, [], |row| row.get(0)).expect("has rows")
    }

    #[test]
    fn a_transaction_that_fails_leaves_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let register = SqliteRegister::create(directory.path()).expect("creates");
        let spec = Spec { subscribers: 50, transactions: 1000, ..Spec::default() };
        register.load(&spec, &()).expect("loads");
        let workload = Workload::generate(&spec).expect("generates");
        let mut failed = [0; 7];
        for input in workload.inputs(0).iter().filter(|input| !input.kind().is_read_only()) {
            let tables = ["subscriber", "special_facility", "call_forwarding"];
            let before = tables.map(|table| rows(&register, table));
            let outcome = (&register).submit(input).expect("runs");
            let after = tables.map(|table| rows(&register, table));
            if outcome == Outcome::Failed {
                failed[input.kind() as usize] += 1;
                assert_eq!(before, after, "{input:?}");
            } else if input.kind() != Kind::UpdateSubscriberData {
                // A flag and a value may be what they were.
                assert_ne!(before, after, "{input:?}");
            }
        }
        let foreseen =
            [Kind::UpdateSubscriberData, Kind::InsertCallForwarding, Kind::DeleteCallForwarding];
        assert!(foreseen.iter().all(|kind| failed[*kind as usize] > 3), "{failed:?}");
    }
}
