//! SQLite's log with a differential log, as SQLite calls it.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pm::Range;

use crate::database::contract::{Failure, LogFile};
use crate::database::wal::diff::emitter::Emitter;
use crate::database::wal::diff::layout::{HEADER_BYTES, from_media};
use crate::database::wal::log::MappedLog;
use crate::database::wal::media::{WalFile, WalShared};

/// The moments at which a connection logs what SQLite commits without a sync.
pub trait Commits: Send + Sync + Debug {
    /// The connection has got SQLite's lock for writing.
    fn begin_writing(&self);
    /// The connection is about to give up SQLite's lock for writing.
    ///
    /// # Errors
    /// No room, or the medium fails: the next one that writes tries again.
    fn end_writing(&self) -> Result<(), Failure>;
    /// A transaction has ended.
    ///
    /// # Errors
    /// As [`Self::end_writing`].
    fn end_transaction(&self) -> Result<(), Failure>;
    /// A checkpoint is about to store a page in the database. What the index shows at its first page is logged then.
    ///
    /// # Errors
    /// As [`Self::end_writing`]; or another connection has yet to log what it has committed: busy.
    fn before_checkpoint(&self) -> Result<(), Failure>;
    /// A checkpoint has stored its last page.
    fn end_checkpoint(&self);
}

/// The files of a connection.
#[derive(Debug)]
pub struct DiffFiles<F> {
    /// The differential log.
    pub records: F,
    /// SQLite's log, in handles that may see different lengths.
    pub log: [F; 3],
    /// The database.
    pub database: F,
}

/// SQLite's log as one that is not durable.
#[derive(Debug)]
struct Image<F>(F);

impl<F: WalFile> WalFile for Image<F> {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
    fn see(&self) -> Result<(), Failure> {
        self.0.see()
    }
    fn read_into(&self, at: u64, out: &mut [u8]) -> Result<(), Failure> {
        self.0.read_into(at, out)
    }
    fn address(&self, range: Range) -> Result<*const u8, Failure> {
        self.0.address(range)
    }
    fn copy(&self, at: u64, bytes: &[u8]) {
        self.0.copy(at, bytes);
    }
    fn write_at(&self, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.0.write_at(at, bytes)
    }
    fn cut(&self, to: u64) -> Result<(), Failure> {
        self.0.cut(to)
    }
    fn sync_length(&self) -> Result<(), Failure> {
        Ok(())
    }
    fn sync_name(&self) -> Result<(), Failure> {
        Ok(())
    }
    fn outlasts_power(&self) -> bool {
        false
    }
    fn needs_flush(&self) -> bool {
        false
    }
    fn flush(&self, _: Range) {}
    fn fence(&self) {}
    fn healthy(&self) -> Result<(), Failure> {
        self.0.healthy()
    }
}

/// SQLite's log of one connection, with a differential log.
#[derive(Debug)]
pub struct DiffLog<F, S> {
    /// SQLite's log as an image, once a generation has begun.
    image: MappedLog<Image<F>, S>,
    /// The same log before.
    durable: MappedLog<F, S>,
    emitter: Arc<Mutex<Emitter<F, S>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<F: WalFile + 'static, S: WalShared + 'static> DiffLog<F, S> {
    /// The log in files that were just opened.
    pub fn new(files: DiffFiles<F>, mut shared: impl FnMut() -> S) -> Self {
        let [image, durable, log] = files.log;
        let emitter = Emitter::new(files.records, log, files.database, shared());
        Self {
            image: MappedLog::new(Image(image), shared()),
            durable: MappedLog::new(durable, shared()),
            emitter: Arc::new(Mutex::new(emitter)),
        }
    }

    /// The moments that the database file knows of.
    pub fn commits(&self) -> Arc<dyn Commits> {
        Arc::clone(&self.emitter) as Arc<dyn Commits>
    }
}

impl<F: WalFile, S: WalShared> DiffLog<F, S> {
    fn file(&mut self) -> &mut dyn LogFile
    where
        F: 'static,
        S: 'static,
    {
        if lock(&self.emitter).has_begun() { &mut self.image } else { &mut self.durable }
    }
}

impl<F: WalFile + 'static, S: WalShared + 'static> LogFile for DiffLog<F, S> {
    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<usize, Failure> {
        let file = self.file();
        let there = file.read(at, out)?;
        // SQLite reads the header's checksum alone, too.
        if let Some(rest) = HEADER_BYTES.checked_sub(at as usize).filter(|rest| *rest > 0) {
            let mut header = [0; HEADER_BYTES];
            if file.read(0, &mut header)? == HEADER_BYTES
                && let Some(written) = from_media(&header)
            {
                let many = rest.min(there);
                out[..many].copy_from_slice(&written[at as usize..][..many]);
            }
        }
        Ok(there)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        if at == 0 {
            let Ok(header) = bytes.try_into() else {
                return Err(Failure::Io("SQLite's log begins with no header".into()));
            };
            let media = lock(&self.emitter).begin(header)?;
            self.image.write(0, &media)?;
            return lock(&self.emitter).sync_header();
        }
        let mut emitter = lock(&self.emitter);
        if !emitter.has_begun() {
            drop(emitter);
            return self.durable.write(at, bytes);
        }
        let written = emitter.note(at, bytes).and_then(|()| self.image.write(at, bytes));
        if written.is_err() {
            emitter.forget();
        }
        written
    }

    fn truncate(&mut self, to: u64) -> Result<(), Failure> {
        if to == 0 {
            lock(&self.emitter).sync_database()?;
        }
        self.file().truncate(to)
    }

    fn sync(&mut self) -> Result<(), Failure> {
        let mut emitter = lock(&self.emitter);
        if !emitter.has_begun() {
            drop(emitter);
            return self.durable.sync();
        }
        let logged = emitter.log();
        if logged.is_err() {
            emitter.forget();
        }
        logged
    }

    fn size(&mut self) -> Result<u64, Failure> {
        self.file().size()
    }
}

impl<F: WalFile, S: WalShared> Commits for Mutex<Emitter<F, S>> {
    fn begin_writing(&self) {
        let mut emitter = lock(self);
        if emitter.has_begun() {
            emitter.begin_writing();
        }
    }

    fn end_writing(&self) -> Result<(), Failure> {
        let mut emitter = lock(self);
        if !emitter.has_begun() {
            return Ok(());
        }
        let logged = emitter.log_shown();
        emitter.forget();
        logged
    }

    fn end_transaction(&self) -> Result<(), Failure> {
        let mut emitter = lock(self);
        if emitter.has_begun() { emitter.log_own() } else { Ok(()) }
    }

    fn before_checkpoint(&self) -> Result<(), Failure> {
        let mut emitter = lock(self);
        if emitter.has_begun() { emitter.before_checkpoint() } else { Ok(()) }
    }

    fn end_checkpoint(&self) {
        lock(self).end_checkpoint();
    }
}
