//! Mobibench's part of P3 (5.5): one table, and transactions that insert, update or delete one row each; and such
//! that read one.
//!
//! Each mode does the same work through the same SQLite, in a database of its own:
//!
//! 1. The table is made, and loaded off the clock.
//! 2. Each transaction is `BEGIN`, its statements, `COMMIT`: a text that SQLite parses, as Mobibench has it, or
//!    statements that are prepared once. Keys and texts are made off the clock.
//! 3. The database is closed, and SQLite without the VFS reads and checks what is left.
//!
//! In a mode of the VFS its counts have to show a commit for each transaction, or the run is an error: that
//! SQLite wrote past it would not show in anything else.

use std::fmt::Write as _;
use std::path::Path;
use std::str::FromStr;
use std::time::Instant;

use rusqlite::{Connection, OpenFlags, Statement};
use serde::{Deserialize, Serialize};
use workloads::{Measurement, Observer, Progress, StoreError};

use super::connection::{Parameters, Stats, answer, open, open_stock, open_through, stats};
use super::contents::Contents;
use super::inputs::{Operation, Spec, Workload};
use super::lines;
use crate::sqlite::set;

/// Rows that are loaded in a transaction.
const LOADED_TOGETHER: u64 = 1000;

/// The way in which SQLite commits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SqliteMode {
    /// Through the VFS: SQLite's write-ahead log, synchronous FULL.
    Wal,
    /// The same with a differential log, in the domain `adr`.
    WalDiff,
    /// Through the VFS: the words that differ are logged, one fence, and no page is looked into.
    Lean,
    /// Through the VFS: the bytes that differ are logged, one fence.
    Fash1,
    /// Through the VFS: the same bytes, in the order of P3 3.3, three fences.
    Fash,
    /// Through the VFS: as that, but a header that changes alone is stored in place, two fences (P3 3.2).
    Fast,
    /// Through the VFS: NVWAL, which P3 compares its schemes with.
    Nvwal,
    /// Through the VFS: changed pages are logged whole, one fence.
    Full,
    /// Without the VFS: write-ahead log, synchronous FULL.
    StockWal,
    /// The same, where each sync writes back the lines that were written.
    StockWalLines,
    /// Without the VFS: rollback journal, synchronous FULL.
    StockJournal,
}

/// A name that is that of no mode.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ParseModeError(String);

impl SqliteMode {
    /// All.
    pub const ALL: [Self; 11] = [
        Self::Wal,
        Self::WalDiff,
        Self::Lean,
        Self::Fash1,
        Self::Fash,
        Self::Fast,
        Self::Nvwal,
        Self::Full,
        Self::StockWal,
        Self::StockWalLines,
        Self::StockJournal,
    ];

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wal => "wal",
            Self::WalDiff => "wal-diff",
            Self::Lean => "lean",
            Self::Fash1 => "fash1",
            Self::Fash => "fash",
            Self::Fast => "fast",
            Self::Nvwal => "nvwal",
            Self::Full => "full",
            Self::StockWal => "stock-wal",
            Self::StockWalLines => "stock-wal-lines",
            Self::StockJournal => "stock-journal",
        }
    }

    /// Returns whether it has a write-ahead log of SQLite's.
    const fn has_wal(self) -> bool {
        matches!(self, Self::Wal | Self::WalDiff | Self::StockWal | Self::StockWalLines)
    }

    /// The value of `perdura_mode`. A log of SQLite's has none.
    const fn parameter(self) -> Option<&'static str> {
        if self.has_wal() { None } else { Some(self.name()) }
    }

    /// Returns whether it is one of the VFS.
    #[must_use]
    pub const fn is_ours(self) -> bool {
        !matches!(self, Self::StockWal | Self::StockWalLines | Self::StockJournal)
    }

    /// The value of `perdura_wal`.
    const fn wal(self) -> Option<&'static str> {
        match self {
            Self::Wal => Some("on"),
            Self::WalDiff => Some("diff"),
            _ => None,
        }
    }

    /// The only domain of a differential log; `None` for modes that have no domain of their own.
    #[must_use]
    pub const fn own_domain(self) -> Option<&'static str> {
        if matches!(self, Self::WalDiff) { Some("adr") } else { None }
    }

    /// SQLite's journal mode, in its words.
    const fn journal(self) -> &'static str {
        if self.has_wal() { "wal" } else { "delete" }
    }
}

impl FromStr for SqliteMode {
    type Err = ParseModeError;

    fn from_str(text: &str) -> Result<Self, ParseModeError> {
        if let Some(found) = Self::ALL.into_iter().find(|mode| mode.name() == text) {
            return Ok(found);
        }
        let all = Self::ALL.map(Self::name).join(", ");
        Err(ParseModeError(format!(
            "`{}` is no mode; choose one of {all}, or all",
            text.escape_debug()
        )))
    }
}

impl std::fmt::Display for SqliteMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Time, transactions and latencies.
    pub measured: Measurement,
    /// The VFS's counts of the transactions; `None` without it. Where SQLite's own write-ahead log is written back
    /// by lines, those of its syncs, without commits.
    pub stats: Option<Stats>,
    /// The domain that the VFS commits in; `None` without it.
    pub domain: Option<String>,
    /// The rows after it.
    pub contents: Contents,
    /// Bytes of the database file after the last transaction.
    pub database_bytes: u64,
    /// Bytes of its other files: journal, write-ahead log or side file.
    pub log_bytes: u64,
}

/// Makes a database in an empty directory, loads it, and runs a workload on it in `mode`. `domain`
/// is that of the VFS's commits.
///
/// # Errors
/// SQLite's; a setting that it does not take; a mode of the VFS through which SQLite did not
/// commit; a database that is not whole after the run.
pub fn run(
    mode: SqliteMode,
    directory: &Path,
    domain: Option<&str>,
    workload: &Workload,
    progress: &Progress,
) -> Result<Ran, StoreError> {
    let path = directory.join("database");
    let connection = create(mode, &path, domain, workload, progress)?;
    let before = counts(mode, &connection)?;
    let measured = transactions(&connection, workload, progress)?;
    let stats = counted_since(mode, &connection, before, workload.spec())?;
    let domain = answer(&connection, "perdura_domain").map_err(StoreError::engine)?;
    let (database_bytes, log_bytes) = file_bytes(directory, &path)?;
    connection.close().map_err(|(_, error)| StoreError::engine(error))?;
    let contents = Contents::of_plain_file(&path)?;
    Ok(Ran { measured, stats, domain, contents, database_bytes, log_bytes })
}

/// Runs a workload on a new database of this name, through another VFS of Perdura's that is
/// [registered](super::register_with). Calls `begins` when all is loaded. The contents are not read
/// afterwards.
///
/// # Errors
/// As [`run`].
pub fn run_through(
    vfs: &str,
    name: &str,
    mode: SqliteMode,
    workload: &Workload,
    begins: impl FnOnce(),
) -> Result<(Measurement, Stats), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let opened = open_through(vfs, Path::new(name), flags).map_err(StoreError::engine)?;
    set(&opened, "perdura_mode", mode.name(), mode.name())?;
    prepare(mode, &opened, workload)?;
    let progress = Progress::new(1);
    load(&opened, workload, &progress).map_err(StoreError::engine)?;
    let counted =
        || counts(mode, &opened)?.ok_or(StoreError::engine("the VFS is none of Perdura's"));
    let before = counted()?;
    begins();
    let measured = transactions(&opened, workload, &progress)?;
    Ok((measured, counted()?.since(&before)))
}

/// Makes a new database with its table, and loads it. What was loaded lies in the database file afterwards.
pub(super) fn create(
    mode: SqliteMode,
    path: &Path,
    domain: Option<&str>,
    workload: &Workload,
    progress: &Progress,
) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let connection = connect(mode, path, domain, flags)?;
    prepare(mode, &connection, workload)?;
    load(&connection, workload, progress).map_err(StoreError::engine)?;
    if mode.has_wal() {
        let checkpoint = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        checkpoint.map_err(StoreError::engine)?;
    }
    Ok(connection)
}

/// Opens a database in a mode, without settings.
pub(super) fn connect(
    mode: SqliteMode,
    path: &Path,
    domain: Option<&str>,
    flags: OpenFlags,
) -> Result<Connection, StoreError> {
    let opened = match mode {
        SqliteMode::StockWalLines => lines::register().and_then(|()| {
            let vfs = lines::VFS.to_str().expect("a word");
            open_through(vfs, path, flags)
        }),
        mode if mode.is_ours() => {
            let (mode, domain, wal) = (mode.parameter(), domain.or(mode.own_domain()), mode.wal());
            open(path, Parameters { mode, domain, wal }, flags)
        }
        _ => open_stock(path, flags),
    };
    opened.map_err(StoreError::engine)
}

/// Makes all settings, each of which is read back.
pub(super) fn configure(
    mode: SqliteMode,
    connection: &Connection,
    spec: &Spec,
) -> Result<(), StoreError> {
    set(connection, "page_size", &spec.page_bytes.to_string(), &spec.page_bytes.to_string())?;
    if spec.exclusive {
        set(connection, "locking_mode", "EXCLUSIVE", "exclusive")?;
    }
    set(connection, "journal_mode", mode.journal(), mode.journal())?;
    set(connection, "synchronous", "FULL", "2")
}

/// Makes all settings, and the table.
fn prepare(
    mode: SqliteMode,
    connection: &Connection,
    workload: &Workload,
) -> Result<(), StoreError> {
    configure(mode, connection, workload.spec())?;
    let table = "CREATE TABLE tblMyList0 \
                 (id INTEGER PRIMARY KEY, Value TEXT NOT NULL, creation_date LONG)";
    connection.execute_batch(table).map_err(StoreError::engine)
}

/// The counts of the VFS since `before`, which must show a commit for each transaction of a workload that writes.
pub(super) fn counted_since(
    mode: SqliteMode,
    connection: &Connection,
    before: Option<Stats>,
    spec: &Spec,
) -> Result<Option<Stats>, StoreError> {
    let stats = counts(mode, connection)?.zip(before).map(|(after, before)| after.since(&before));
    if let Some(stats) = stats
        && mode.is_ours()
        && spec.operation.writes()
        && stats.commits < spec.transactions
    {
        let (found, wanted) = (stats.commits, spec.transactions);
        let why = format!("the VFS has seen {found} commits of {wanted} transactions");
        return Err(StoreError::engine(why));
    }
    Ok(stats)
}

/// The counts of the VFS, which has to have the database in its own modes, and in no other; or of the VFS that writes
/// back lines.
pub(super) fn counts(
    mode: SqliteMode,
    connection: &Connection,
) -> Result<Option<Stats>, StoreError> {
    let found = stats(connection).map_err(StoreError::engine)?;
    if mode == SqliteMode::StockWalLines && found.is_none() {
        return Ok(Some(lines::counts()));
    }
    match (mode.is_ours(), &found) {
        (true, None) => Err(StoreError::Unsupported(
            "the VFS has handed the database to SQLite's own, as it does on an ordinary disk: \
             ask for --domain disk, or for a directory in memory with --path"
                .into(),
        )),
        (false, Some(_)) => Err(StoreError::engine("a stock database is one of the VFS")),
        _ => Ok(found),
    }
}

fn load(connection: &Connection, workload: &Workload, progress: &Progress) -> rusqlite::Result<()> {
    let mut insert = connection.prepare("INSERT INTO tblMyList0(id, Value) VALUES(?1, ?2)")?;
    let mut text = String::new();
    let records = workload.spec().records;
    for first in (0..records).step_by(LOADED_TOGETHER as usize) {
        connection.execute_batch("BEGIN")?;
        for row in first..records.min(first + LOADED_TOGETHER) {
            text.clear();
            workload.text(row, 0, &mut text);
            insert.execute((workload.key(row), &text))?;
        }
        connection.execute_batch("COMMIT")?;
        progress.completed(0, first);
    }
    Ok(())
}

/// The statements of a workload, prepared once.
struct Prepared<'c> {
    begin: Statement<'c>,
    reads: bool,
    change: Statement<'c>,
    commit: Statement<'c>,
}

impl<'c> Prepared<'c> {
    fn new(connection: &'c Connection, operation: Operation) -> rusqlite::Result<Self> {
        let change = match operation {
            Operation::Insert => "INSERT INTO tblMyList0(id, Value) VALUES(?1, ?2)",
            Operation::Update => "UPDATE tblMyList0 SET Value = ?2 WHERE id = ?1",
            Operation::Delete => "DELETE FROM tblMyList0 WHERE id = ?1",
            Operation::Select => "SELECT Value FROM tblMyList0 WHERE id = ?1",
        };
        Ok(Self {
            begin: connection.prepare("BEGIN")?,
            reads: !operation.writes(),
            change: connection.prepare(change)?,
            commit: connection.prepare("COMMIT")?,
        })
    }

    /// Runs a transaction. Returns how many bytes of texts it has read.
    fn run(&mut self, rows: &[(i64, String)]) -> rusqlite::Result<usize> {
        let mut read = 0;
        self.begin.execute([])?;
        for (key, text) in rows {
            if self.reads {
                read += self.change.query_row([key], text_bytes)?;
                continue;
            }
            match self.change.parameter_count() {
                1 => self.change.execute([key])?,
                _ => self.change.execute((key, text))?,
            };
        }
        self.commit.execute([])?;
        Ok(read)
    }
}

/// The bytes of a row's text.
fn text_bytes(row: &rusqlite::Row<'_>) -> rusqlite::Result<usize> {
    Ok(row.get_ref(0)?.as_bytes()?.len())
}

/// Runs a transaction as texts that SQLite parses. Returns how many bytes of texts it has read.
fn run_text(connection: &Connection, texts: &Texts) -> rusqlite::Result<usize> {
    let mut read = 0;
    match texts {
        Texts::Writing(text) => connection.execute_batch(text)?,
        Texts::Reading(selects) => {
            connection.execute_batch("BEGIN")?;
            for select in selects {
                read += connection.query_row(select, [], text_bytes)?;
            }
            connection.execute_batch("COMMIT")?;
        }
    }
    Ok(read)
}

/// The texts of a transaction.
enum Texts {
    /// All in one, as Mobibench has it.
    Writing(String),
    /// The statements between BEGIN and COMMIT: each has a row to be fetched.
    Reading(Vec<String>),
}

/// The texts of a transaction on these rows.
fn texts(operation: Operation, rows: &[(i64, String)]) -> Texts {
    if !operation.writes() {
        let select =
            |(key, _): &(i64, String)| format!("SELECT Value FROM tblMyList0 WHERE id = {key}");
        return Texts::Reading(rows.iter().map(select).collect());
    }
    let mut out = "BEGIN;".to_owned();
    for (key, text) in rows {
        let written = match operation {
            Operation::Insert => {
                write!(out, "INSERT INTO tblMyList0(id, Value) VALUES({key}, '{text}');")
            }
            Operation::Update => {
                write!(out, "UPDATE tblMyList0 SET Value = '{text}' WHERE id = {key};")
            }
            Operation::Delete => write!(out, "DELETE FROM tblMyList0 WHERE id = {key};"),
            Operation::Select => Ok(()),
        };
        written.expect("a text takes all");
    }
    out.push_str("COMMIT;");
    Texts::Writing(out)
}

/// The input of a transaction: its rows, and its texts if SQLite is to parse them.
pub(super) struct Input {
    rows: Vec<(i64, String)>,
    texts: Option<Texts>,
}

impl Input {
    /// The input of a transaction on these rows, which gives each changed one the text of a version.
    pub(super) fn new(
        workload: &Workload,
        operation: Operation,
        rows: &[u32],
        version: u64,
    ) -> Self {
        let row = |row: &u32| {
            let (row, mut text) = (u64::from(*row), String::new());
            if operation.writes() {
                workload.text(row, version, &mut text);
            }
            (workload.key(row), text)
        };
        let rows: Vec<_> = rows.iter().map(row).collect();
        let texts = (!workload.spec().prepared).then(|| texts(operation, &rows));
        Self { rows, texts }
    }
}

/// Runs the transactions of one operation on a connection.
pub(super) struct Runner<'c> {
    connection: &'c Connection,
    prepared: Prepared<'c>,
    record_bytes: usize,
}

impl<'c> Runner<'c> {
    pub(super) fn new(
        connection: &'c Connection,
        operation: Operation,
        record_bytes: u32,
    ) -> Result<Self, StoreError> {
        let prepared = Prepared::new(connection, operation).map_err(StoreError::engine)?;
        Ok(Self { connection, prepared, record_bytes: record_bytes as usize })
    }

    /// Runs transaction `number`, and checks how many bytes it has read or rows it has changed. Returns its nanoseconds.
    #[inline]
    pub(super) fn run(&mut self, number: u64, input: &Input) -> Result<u64, StoreError> {
        let changes = self.connection.total_changes();
        let begun = Instant::now();
        let done = match &input.texts {
            None => self.prepared.run(&input.rows),
            Some(texts) => run_text(self.connection, texts),
        };
        let took_ns = begun.elapsed().as_nanos() as u64;
        let read = done.map_err(StoreError::engine)?;
        let (changed, rows) = (self.connection.total_changes() - changes, input.rows.len());
        if self.prepared.reads {
            let wanted = rows * self.record_bytes;
            if read != wanted {
                let why = format!("transaction {number} has read {read} bytes of {wanted}");
                return Err(StoreError::engine(why));
            }
        } else if changed != rows as u64 {
            let why = format!("transaction {number} has changed {changed} of {rows} rows");
            return Err(StoreError::engine(why));
        }
        Ok(took_ns)
    }
}

fn transactions(
    connection: &Connection,
    workload: &Workload,
    progress: &Progress,
) -> Result<Measurement, StoreError> {
    let spec = workload.spec();
    let mut runner = Runner::new(connection, spec.operation, spec.record_bytes)?;
    let mut measured = Measurement::nothing();
    let mut total_ns = 0;
    for (number, rows) in (1..).zip(workload.transactions()) {
        let input = Input::new(workload, spec.operation, rows, number);
        let took_ns = runner.run(number, &input)?;
        total_ns += took_ns;
        measured.latency_ns.saturating_record(took_ns);
        if number.is_multiple_of(Progress::EVERY) {
            progress.completed(0, spec.records + number);
        }
    }
    measured.transactions = spec.transactions;
    measured.seconds = total_ns as f64 / 1e9;
    Ok(measured)
}

/// Returns the bytes of the database, and of all other files in its directory.
pub(super) fn file_bytes(directory: &Path, path: &Path) -> Result<(u64, u64), StoreError> {
    let (mut database, mut others) = (0, 0);
    for entry in std::fs::read_dir(directory).map_err(StoreError::engine)? {
        let entry = entry.map_err(StoreError::engine)?;
        let bytes = entry.metadata().map_err(StoreError::engine)?.len();
        match entry.path() == path {
            true => database = bytes,
            false => others += bytes,
        }
    }
    Ok((database, others))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extension::Keys;

    const LINE_BYTES: u64 = crate::flush::LINE_BYTES as u64;

    fn workload(operation: Operation, keys: Keys, prepared: bool) -> Workload {
        let spec = Spec {
            operation,
            keys,
            records: 120,
            transactions: 40,
            per_txn: 3,
            record_bytes: 100,
            page_bytes: 1024,
            prepared,
            exclusive: prepared,
            seed: 1,
        };
        Workload::generate(&spec).expect("possible")
    }

    fn ran(mode: SqliteMode, workload: &Workload) -> Ran {
        let directory = tempfile::Builder::new().tempdir_in("/dev/shm").expect("a directory");
        run(mode, directory.path(), None, workload, &Progress::new(1)).expect("runs")
    }

    #[test]
    fn all_modes_end_alike_and_only_ours_are_counted() {
        for operation in Operation::ALL {
            for (keys, prepared) in [(Keys::Ascending, false), (Keys::Random, true)] {
                let workload = workload(operation, keys, prepared);
                let all = SqliteMode::ALL.map(|mode| ran(mode, &workload));
                let rows = [240, 120, 0, 120][operation as usize];
                for (mode, ran) in SqliteMode::ALL.into_iter().zip(&all) {
                    assert_eq!(ran.contents, all[0].contents, "{mode}, {operation:?}, {keys:?}");
                    assert_eq!(ran.contents.rows, rows);
                    assert_eq!(ran.measured.latency_ns.len(), 40);
                    let commits = ran.stats.map(|stats| stats.commits);
                    let wanted = if operation.writes() { 40 } else { 0 };
                    let lines = mode == SqliteMode::StockWalLines;
                    assert_eq!(
                        commits,
                        (mode.is_ours() || lines).then_some(if lines { 0 } else { wanted }),
                        "{mode}"
                    );
                    if let Some(stats) = ran.stats {
                        // In memory a store of SQLite's log is durable at once.
                        let flushed = stats.fences >= wanted && stats.lines >= wanted;
                        assert!(flushed || mode == SqliteMode::Wal, "{mode}");
                        assert_eq!(stats.recoveries, 0);
                        assert!(operation.writes() || stats.fences + stats.lines == 0, "{mode}");
                    }
                    assert!(ran.database_bytes > 0 && ran.database_bytes.is_multiple_of(1024));
                }
            }
        }
    }

    /// A page of 1 KB and the header of its frame lie in 17 or 18 lines; most updates of a row change one page.
    #[test]
    fn a_sync_writes_back_the_lines_of_the_frames() {
        let workload = workload(Operation::Update, Keys::Ascending, false);
        let stats = ran(SqliteMode::StockWalLines, &workload).stats.expect("counted");
        assert!(stats.fences >= 40, "a sync for each commit: {stats:?}");
        assert!(stats.bytes >= 40 * (1024 + 24), "{stats:?}");
        let lines = stats.bytes / LINE_BYTES;
        assert!((lines..lines + 6 * stats.fences).contains(&stats.lines), "{lines}: {stats:?}");
    }

    #[test]
    fn whole_pages_log_more_than_what_differs() {
        let workload = workload(Operation::Update, Keys::Random, false);
        let [some, whole] = [SqliteMode::Fash1, SqliteMode::Full].map(|mode| ran(mode, &workload));
        let bytes = |ran: &Ran| ran.stats.expect("counted").bytes;
        assert!(bytes(&whole) > 2 * bytes(&some), "{some:?}, {whole:?}");
    }

    #[test]
    fn every_mode_has_a_name_and_another_one_is_none() {
        for mode in SqliteMode::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
        }
        let why = "fats".parse::<SqliteMode>().expect_err("no mode").to_string();
        assert!(why.contains("is no mode"), "{why}");
    }
}
