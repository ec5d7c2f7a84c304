//! `NAME-perdura-log`, the file of the differential log of one connection's database: who makes it, who joins, and who
//! recovers from it.
//!
//! - The connection that opens SQLite's log while no other one has it open recovers, and says whether there is a
//!   differential log from now on: the index file then has its number.
//! - Later ones join. One that did not ask for it gets it all the same; one that asks and finds none is refused.
//! - The last connection to close the database leaves none.

use std::path::{Path, PathBuf};

use pm::{Domain, Plain, PlainOptions};

use crate::database::contract::Failure;
use crate::database::wal::diff::{HasRecords, create, is_one, recover};
use crate::database::wal::mapped_file::MappedFile;

/// The suffix of the file's name.
pub const RECORDS_SUFFIX: &str = "-perdura-log";
/// Reserved addresses.
const ADDRESSES: u64 = 64 << 30;

/// The file of one connection's database.
#[derive(Debug)]
pub(super) struct RecordsFile {
    data: Plain,
    data_path: PathBuf,
    path: PathBuf,
    domain: Option<Domain>,
    /// The connection asks for a differential log.
    is_wanted: bool,
}

impl RecordsFile {
    pub(super) fn new(data: &Plain, path: &Path, domain: Option<Domain>, is_wanted: bool) -> Self {
        let mut name = path.as_os_str().to_owned();
        name.push(RECORDS_SUFFIX);
        Self { data: data.clone(), data_path: path.into(), path: name.into(), domain, is_wanted }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self, create: bool) -> Result<Option<Plain>, Failure> {
        let options = PlainOptions {
            create,
            mode: Some(self.data.mode()?),
            domain: self.domain,
            reserved_bytes: ADDRESSES,
            foreign_locks: None,
        };
        match Plain::open(&self.path, &options) {
            Ok(file) => Ok(Some(file)),
            Err(error) if !create && error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refused(&error.to_string())),
        }
    }

    /// Joins the differential log of which the other connections' file has this number; 0 if they have none.
    ///
    /// # Errors
    /// They have none, and this connection asks for one; it has been replaced; or this connection is in another domain.
    pub(super) fn join(&self, number: u64) -> Result<Option<Plain>, Failure> {
        if number == 0 {
            return match self.is_wanted {
                false => Ok(None),
                true => Err(refused("other connections have the database open without one")),
            };
        }
        if self.data.domain() != Domain::Adr {
            return Err(refused("other connections use it in the domain adr: perdura_domain=adr"));
        }
        match self.open(false)? {
            Some(file) if file.number() == number => {
                file.give(self.data.access()?)?;
                Ok(Some(file))
            }
            _ => Err(refused("it has been replaced while it was in use")),
        }
    }

    /// Recovers the database, whose log no other connection has open. Then makes an empty differential log if this
    /// connection asks for one, and otherwise removes what was there.
    ///
    /// # Errors
    /// The differential log is missing, or does not belong to SQLite's log; no room; or the medium fails.
    pub(super) fn recover(&self, log: &Plain) -> Result<Option<Plain>, Failure> {
        self.recover_from(Some(log))?;
        if !self.is_wanted {
            return Ok(None);
        }
        let Some(file) = self.open(true)? else { return Err(refused("it cannot be made")) };
        let records = MappedFile::new(file.clone(), &self.path);
        if is_one(&records)? != HasRecords::NotYet {
            return Err(refused("a file of another program, or of another build, has its name"));
        }
        file.give(self.data.access()?)?;
        file.cut(0)?;
        create(&records)?;
        Ok(Some(file))
    }

    /// Recovers the database, and removes the differential log.
    fn recover_from(&self, log: Option<&Plain>) -> Result<(), Failure> {
        let file = self.open(false)?;
        let records = file.clone().map(|file| MappedFile::new(file, &self.path));
        if let Some(log) = log {
            let database = MappedFile::of_database(self.data.clone(), &self.data_path);
            self.data.see()?;
            recover(records.as_ref(), &MappedFile::new(log.clone(), &self.path), &database)?;
        }
        match (file, records) {
            (Some(file), Some(records)) => match is_one(&records)? {
                HasRecords::Foreign(_) => Ok(()),
                _ => Ok(file.remove(&self.path)?),
            },
            _ => Ok(()),
        }
    }
}

fn refused(why: &str) -> Failure {
    Failure::CannotOpen(format!("its differential log: {why}"))
}

/// Leaves a database without a differential log. No connection has the database open, and SQLite has removed its log,
/// unless it was to stay.
///
/// # Errors
/// As those of an open that recovers.
pub(crate) fn recover_closed(
    data: &Plain,
    path: &Path,
    domain: Option<Domain>,
) -> Result<(), Failure> {
    let records = RecordsFile::new(data, path, domain, false);
    if records.open(false)?.is_none() {
        return Ok(());
    }
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let options = PlainOptions { domain, reserved_bytes: ADDRESSES, ..PlainOptions::default() };
    match Plain::open(Path::new(&log), &options) {
        Ok(log) => records.recover_from(Some(&log)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => records.recover_from(None),
        Err(error) => Err(error.into()),
    }
}
