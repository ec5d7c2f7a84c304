//! Backups: a copy of a database as it was at one moment, in a form that no engine stores it in.
//!
//! Invariants:
//! - A backup is what was committed at one moment, in all partitions together.
//! - A backup file has its name only when all of it is there and durable; it is never put in the
//!   place of another file.
//! - Nothing is restored from a backup of which one bit is wrong, and a restored database has its
//!   name only when it has been closed, opened again, checked and compared with the backup.
//!
//! 1. [`Database::backup`] takes all partitions as they are at one moment and writes schema and
//!    tuples, in blocks with checksums, to a file next to the final one; syncs it; renames it;
//!    syncs the directory.
//! 2. [`Backup::restore`] reads the whole backup and compares every checksum before it creates
//!    anything; loads a new database under another name; checks it; and gives it its name.
//!
//! The bytes are drawn in `docs/format/backup.md`; why they are so is in
//! `docs/decisions/0011-backups.md`.

mod base;
mod layout;
mod reader;
mod restore;
mod writer;

use std::io::{BufWriter, Write};
use std::path::Path;

use engines::below::{AroundPath, Environment, Files, NewFile};

pub use base::Until;
pub use restore::Backup;

use crate::administration::progress::{CopySummary, Watch};
use crate::database::Database;
use crate::error::Error;

impl<E: Environment> Database<E> {
    /// Writes a backup to the file `path`, while transactions go on. When this returns the file is
    /// durable, as far as its file system can make it so.
    ///
    /// The backup is what was committed at one moment, in all partitions together. With grouped
    /// commits that may include transactions that are not durable yet.
    ///
    /// In engines with snapshots (`cow`, `nvm-cow`) no transaction waits while the backup is
    /// written. With several partitions, though, taking the moment waits for the open transactions,
    /// and new ones wait meanwhile. In the other engines the writers of a partition wait until that
    /// partition has been copied; partitions are copied one after the other, lowest number first.
    /// Readers never wait.
    ///
    /// All partitions are taken together, lowest number first. So a thread that keeps a transaction
    /// open in one partition and meanwhile begins one in a lower partition may get [`Error::Busy`].
    /// A thread that has a transaction open, or owns a partition ([`crate::Partition::exclusive`]),
    /// gets [`Error::Nested`] from this call, unless the engine has snapshots and there is one
    /// partition.
    ///
    /// ```
    /// # use perdura::*;
    /// # fn main() -> Result<(), Error> {
    /// # let directory = std::env::temp_dir().join(format!("perdura-backup-{}", std::process::id()));
    /// # std::fs::create_dir_all(&directory).unwrap();
    /// # let table = TableSchema::new("t").column("k", ColumnType::U64).key(&["k"]);
    /// # let schema = Schema::new().table(table);
    /// # let db = Database::create(directory.join("db"), &schema, &Options::new())?;
    /// # let t = db.table("t")?;
    /// db.write(|tx| tx.insert(&t, &[Value::U64(1)]))?;
    /// db.backup(directory.join("monday"))?;
    /// // Into another engine, if you like; it is checked before it gets its name.
    /// let backup = Backup::open(directory.join("monday"))?;
    /// let options = Options::new().engine(EngineKind::NvmCow);
    /// backup.restore(directory.join("copy"), &options, &mut |_| ())?;
    /// let copy = Database::open(directory.join("copy"), &Options::new())?;
    /// # let t = copy.table("t")?;
    /// assert!(copy.read(|tx| tx.get_into(&t, &[Value::U64(1)], &mut Row::new()))?);
    /// # drop((db, copy));
    /// # std::fs::remove_dir_all(&directory).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Something exists at `path` already, there is no room for it, or the database cannot be read.
    /// Then nothing is left at `path`.
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<CopySummary, Error> {
        self.backup_watched(path, &mut |_| ())
    }

    /// Works as [`Database::backup`], and reports its progress to `watch`.
    ///
    /// # Errors
    /// As [`Database::backup`].
    pub fn backup_watched(
        &self,
        path: impl AsRef<Path>,
        watch: Watch<'_>,
    ) -> Result<CopySummary, Error> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let error = |source| Error::Io { path: shown.clone(), source };
        let (files, name) = AroundPath::of(path).map_err(error)?;
        self.backup_in(&files, &name, &shown, watch)
    }

    /// Writes a backup to the file `name` of a directory, such as that of a crash test.
    ///
    /// # Errors
    /// As [`Database::backup`].
    #[doc(hidden)]
    pub fn backup_in<F: Files>(
        &self,
        files: &F,
        name: &str,
        shown: &str,
        watch: Watch<'_>,
    ) -> Result<CopySummary, Error> {
        let error = |source| Error::Io { path: shown.into(), source };
        let mut file = NewFile::create(files, name, &layout::MAGIC).map_err(error)?;
        let mut out = BufWriter::with_capacity(64 << 10, &mut file);
        let summary = self.backup_to(&mut out, shown, watch)?;
        // Flushed by now; a buffer that is dropped would write.
        drop(out);
        file.finish().map_err(error)?;
        Ok(summary)
    }

    /// Writes a backup to `out`, such as a pipe; errors call it `name`. The backup is good once
    /// this has returned and the output is durable; one that was cut off is refused when it is
    /// restored. Slow output keeps writers waiting as [`Database::backup`] says.
    ///
    /// # Errors
    /// The output accepts no more, or the database cannot be read.
    pub fn backup_to(
        &self,
        out: &mut dyn Write,
        name: &str,
        watch: Watch<'_>,
    ) -> Result<CopySummary, Error> {
        let description = writer::describe(self)?;
        let all = (&description, &*self.catalog);
        writer::Writer::new(out, name).write(all, self.point_in_time()?, watch)
    }
}
