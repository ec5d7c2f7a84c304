//! Opening the log of a connection, which enters WAL mode.

use std::path::Path;
use std::sync::Arc;

use pm::{Memory as _, Plain, PlainOptions};

use crate::database::contract::{Failure, LogFile, LogOpener};
use crate::database::open_close_lock::check_not_forked;
use crate::database::wal::connection::{OpenLog, WalConnection};
use crate::database::wal::diff::DiffFiles;
use crate::database::wal::mapped_file::MappedFile;
use crate::database::wal::native::{Joined, Log, LogWithRecords};
use crate::store::layout::WRITE_VERSION;
use crate::store::page1;
use crate::store::region::Region;

/// Reserved addresses of a log.
const LOG_ADDRESSES: u64 = 64 << 30;

/// Opens the log of a connection.
#[derive(Debug)]
pub(crate) struct WalOpener(pub(crate) Arc<WalConnection>);

impl LogOpener for WalOpener {
    fn open_log(&self, path: &Path) -> Result<Box<dyn LogFile>, Failure> {
        let wal = &self.0;
        check_not_forked(&wal.side)?;
        if !wal.is_allowed() {
            let why = "this connection does not use SQLite's write-ahead log";
            return Err(Failure::CannotOpen(why.into()));
        }
        wal.data.see()?;
        let region = Region::whole(wal.data.clone());
        let header = page1::header(&region, wal.data.len())?;
        if page1::is_marked(&header) {
            // It is about to enter WAL mode, or the log is not ours.
            return Err(match header[WRITE_VERSION] {
                2 => Failure::Busy,
                _ => Failure::CannotOpen("there is a write-ahead log next to it".into()),
            });
        }
        let options = PlainOptions {
            create: true,
            mode: Some(wal.data.mode()?),
            domain: wal.domain,
            reserved_bytes: LOG_ADDRESSES,
            foreign_locks: None,
        };
        let open = || {
            let file = Plain::open(path, &options)
                .map_err(|error| Failure::CannotOpen(format!("its write-ahead log: {error}")))?;
            file.give(wal.data.access()?)?;
            Ok(file)
        };
        let Some(OpenLog { index, log, records }) = wal.open_log(open)? else {
            let why = "stock SQLite has it open in WAL mode";
            return Err(Failure::CannotOpen(why.into()));
        };
        let file = || MappedFile::new(log.clone(), path);
        let joined = |is_log| Joined { index: Arc::clone(&index), wal: Arc::clone(wal), is_log };
        let Some(records) = records else {
            return Ok(Box::new(Log::new(file(), joined(true))));
        };
        let files = DiffFiles {
            records: MappedFile::new(records, wal.records_path()),
            log: [file(), file(), file()],
            database: MappedFile::new(wal.data.clone(), path),
        };
        let mut is_log = true;
        let log = LogWithRecords::new(files, || joined(std::mem::take(&mut is_log)));
        wal.set_commits(&log.commits());
        Ok(Box::new(log))
    }
}
