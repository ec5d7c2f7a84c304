//! The options of `perdura pool`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use command::output::JsonTarget;
use command::units::{parse_number, parse_positive};
use perdura::{EngineChoice, EngineKind, Existing, Until};

use super::{DomainChoice, List, domain};

/// `perdura pool`.
#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Say what a pool is: domain, engine, tables. The file is not changed, not even recovered.
    #[command(after_help = "Example:\n  perdura pool info /dev/shm/accounts --json -")]
    Info {
        /// The pool file.
        file: PathBuf,
        /// Write it as JSON to a file, or to standard output with `-`.
        #[arg(long, value_name = "FILE", value_parser = JsonTarget::parse)]
        json: Option<JsonTarget>,
    },
    /// Open a pool, which recovers it, and verify every tuple, index and object.
    #[command(
        after_help = "Exit code 1: something is damaged.\n\nExample:\n  perdura pool check /dev/shm/accounts --json -\n  perdura pool check accounts --repair-into accounts.new"
    )]
    Check {
        /// The pool file.
        file: PathBuf,
        /// Check a pool of domain `process`, or modelled, that was open when the machine went down,
        /// too. It counts as closed afterwards, and opens without asking.
        #[arg(long)]
        accept_loss: bool,
        /// Take every tuple that can be read over into a new database; FILE stays as it is. One of
        /// domain `process` that was open when the machine went down is taken as it is.
        #[arg(long, value_name = "NEW")]
        repair_into: Option<PathBuf>,
        /// Write what was found as JSON to a file, or to standard output with `-`.
        #[arg(long, value_name = "FILE", value_parser = JsonTarget::parse)]
        json: Option<JsonTarget>,
    },
    /// Create an empty database from a schema in JSON.
    #[command(after_help = CREATE_HELP)]
    Create(CreateArgs),
    /// Write a backup of a database: all of it, as it is at one moment, with checksums.
    #[command(after_help = BACKUP_HELP)]
    Backup(BackupArgs),
    /// Make a database of a backup, of the same engine or another.
    #[command(after_help = RESTORE_HELP)]
    Restore(RestoreArgs),
    /// Bring the archive of a database's log up to date, as after a kill.
    #[command(after_help = ARCHIVE_HELP)]
    Archive(ArchiveArgs),
    /// Write a database as JSON lines, for people and other programs.
    #[command(after_help = DUMP_HELP)]
    Dump(DumpArgs),
    /// Load JSON lines into a database, which is created if it is not there.
    #[command(after_help = LOAD_HELP)]
    Load(LoadArgs),
    /// List what can be chosen about each engine: names, defaults, limits and meaning.
    #[command(after_help = OPTIONS_HELP)]
    Options(OptionsArgs),
}

const OPTIONS_HELP: &str = "`pool create`, `pool restore` and `pool load` take them as --option NAME=VALUE; a program sets all of them, \
each time it opens the database.

Example:
  perdura pool options --engine nvm-log --json -";

const BACKUP_HELP: &str = "A database that another process has open is copied as it is at one moment: the process is stopped until its \
files are copied, as long as that takes, then goes on, whatever becomes of this command; the backup is made of the copy. \
A process that must not stand still backs its database up by itself: `Database::backup`. The file gets its name when all of it is durable; nothing is ever overwritten.

With --archive it is a base backup, of which `perdura pool restore --archive` makes the database as it was at any later moment; \
of a paged engine, and not of a database that is open: its process takes one by itself, `Database::base_backup`.

Example:
  perdura pool backup /dev/shm/accounts accounts-monday.backup
  perdura pool backup orders orders.base --archive /mnt/archive/orders";

const ARCHIVE_HELP: &str = "The database is recovered, and what its archive lacks of the log is copied there; then it is closed. \
A process that has it open does that with each checkpoint (`Options::archive`).

A database that has an archive and is opened without it keeps the log that is not there; writers wait when the log is full. With --end it has no archive \
any more; what is there stays.

Example:
  perdura pool archive orders /mnt/archive/orders
  perdura pool archive orders --end";

const RESTORE_HELP: &str = "The whole backup is verified before anything is created. The database gets its name when it has been \
checked and compared with the backup. With --partitions N, which must divide the number in the backup, \
partition p goes into p modulo N.

A base backup needs --archive, with the archive of the log that its database has had: it is restored to the end of that, \
or --until a moment. It becomes a database of its own, with no archive.

Example:
  perdura pool restore accounts-monday.backup /dev/shm/accounts --engine nvm-cow
  perdura pool restore orders.base orders.then --archive /mnt/archive/orders \\
      --until 2026-01-31T11:59:00Z";

const DUMP_HELP: &str = "The first line describes the database, the last one says how many tuples there were. In between each line \
is a tuple: {\"table\": \"account\", \"tuple\": {\"id\": 1, \"owner\": \"Ada\", \"balance\": 100}}; with several partitions \
\"partition\" says which. Bytes are in base64. Integers have up to 64 bits; floating-point numbers read as they were, and \
are \"NaN\", \"Infinity\" or \"-Infinity\" where JSON has no number.

Example:
  perdura pool dump /dev/shm/accounts | gzip > accounts.jsonl.gz";

const LOAD_HELP: &str = "A database that is not there is created for a dump, or with --schema for any lines, and is there only if \
all lines are in it. Into one that is there they go in batches, each a transaction: a line that is wrong is named, \
nothing of its batch is loaded, and what came before stays. A dump must end with its last line; lines alone, as \
{\"table\": \"account\", \"tuple\": {\"id\": 1, \"owner\": \"Ada\", \"balance\": 100}}, need no first and last one.

Example:
  perdura pool load /dev/shm/accounts accounts.jsonl
  gunzip < accounts.jsonl.gz | \\
      perdura pool load /dev/shm/copy - --engine nvm-log";

/// The example of `pool create`; a test creates a pool from this schema.
/// Each paragraph is one line: the terminal says where it ends.
const CREATE_HELP: &str = concat!(
    r#"The schema names tables, columns, keys and indexes; "indexes" may be left out. "#,
    r#"Types are "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f64", "bool", "timestamp", "uuid", "#,
    r#"{"text": {"max": BYTES}} and {"bytes": {"max": BYTES}}. "#,
    r#"A column may be NULL with "nullable": true, and have a "default" for inserts that do not name it; "#,
    r#"an index with "unique": true refuses a second tuple with the same values. "#,
    r#"With "inline": true a table keeps text and bytes of up to 1024 bytes within its tuples, "#,
    r#"in nvm-inp: faster to read, and each tuple takes what its columns may hold:"#,
    r#"

  {"tables": [{
    "name": "account",
    "columns": [
      {"name": "id", "kind": "u64"},
      {"name": "owner", "kind": {"text": {"max": 80}}},
      {"name": "balance", "kind": "i64"}
    ],
    "key": ["id"],
    "indexes": [{"name": "by_owner", "columns": ["owner"]}],
    "inline": false
  }]}

Example:
  perdura pool create /dev/shm/accounts --schema accounts.json --limit 1GiB"#
);

/// `perdura pool create`.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// The pool file, which must not exist.
    pub(crate) file: PathBuf,
    /// The tables; see below.
    #[arg(long, value_name = "SCHEMA.json")]
    pub(crate) schema: PathBuf,
    /// The rest.
    #[command(flatten)]
    pub(crate) new: NewDatabase,
    /// Write what was made as JSON to a file, or to standard output with `-`.
    #[arg(long, value_name = "FILE", value_parser = JsonTarget::parse)]
    pub(crate) json: Option<JsonTarget>,
}

/// Options for making a new database.
#[derive(Debug, Args)]
pub(crate) struct NewDatabase {
    /// The engine: inp, cow, log, nvm-inp, nvm-cow, nvm-log, nv-disk, nv-logging-foi, nv-logging-foc,
    /// fast, fash, nvwal, journal, wal, sofort; or paged, which is nv-disk on a disk and nv-logging-foc on
    /// any other medium [default: that of the backup, if there is one; else nv-disk on a disk, nvm-inp on
    /// any other medium].
    #[arg(long, value_parser = EngineChoice::from_str)]
    pub(crate) engine: Option<EngineChoice>,
    /// Domain, which says what a commit survives: auto (the medium's own), process, adr, eadr, disk
    /// [default: auto].
    #[arg(long, value_name = "DOMAIN", value_parser = domain)]
    pub(crate) domain: Option<DomainChoice>,
    /// Allow a domain that is stronger than the medium's: its instructions are executed, but the
    /// medium does not keep its promise.
    #[arg(long)]
    pub(crate) model: bool,
    /// Number of partitions [default: that of the backup or dump, if there is one; else 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) partitions: Option<u32>,
    /// Size up to which the pool may ever grow [default: 64GiB].
    #[arg(long, value_name = "SIZE", value_parser = parse_number)]
    pub(crate) limit: Option<u64>,
    /// An option of the engine, which can be given several times; `perdura pool options` lists all
    /// with their defaults.
    #[arg(long, value_name = "NAME=VALUE", value_parser = OptionValue::parse)]
    pub(crate) option: Vec<OptionValue>,
}

/// An option of an engine and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OptionValue {
    pub(crate) name: String,
    pub(crate) value: u64,
}

impl OptionValue {
    /// Reads the value of `--option`.
    ///
    /// # Errors
    /// There is no `=`, no engine has such an option, or after it is no number.
    fn parse(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            format!("`{}` is no option with a value, such as `page_bytes=8KiB`", pm::Escaped(text))
        })?;
        EngineKind::check_option_name(name).map_err(|error| error.to_string())?;
        Ok(Self { name: name.into(), value: parse_number(value)? })
    }
}

/// `perdura pool options`.
#[derive(Debug, Args)]
pub(crate) struct OptionsArgs {
    /// Engines, separated by commas [default: all].
    #[arg(long, value_name = "LIST", value_parser = super::engines)]
    pub(crate) engine: Option<List<EngineKind>>,
    /// Write the list as JSON to a file, or to standard output with `-`.
    #[arg(long, value_name = "FILE", value_parser = JsonTarget::parse)]
    pub(crate) json: Option<JsonTarget>,
}

impl NewDatabase {
    /// Returns the options that were given, as the command line has them.
    pub(crate) fn named(&self) -> Vec<&'static str> {
        let Self { engine, domain, model, partitions, limit, option } = self;
        let all = [
            (engine.is_some(), "--engine"),
            (domain.is_some(), "--domain"),
            (*model, "--model"),
            (partitions.is_some(), "--partitions"),
            (limit.is_some(), "--limit"),
            (!option.is_empty(), "--option"),
        ];
        all.into_iter().filter_map(|(given, name)| given.then_some(name)).collect()
    }
}

/// `perdura pool backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The pool file.
    pub(crate) file: PathBuf,
    /// The backup, which must not exist.
    pub(crate) to: PathBuf,
    /// Back up a pool of domain `process`, or modelled, that was open when the machine went down,
    /// too: with what is left. It counts as closed afterwards.
    #[arg(long)]
    pub(crate) accept_loss: bool,
    /// Directory for the copy of a database that another process has open [default: that of the
    /// database, so that the copy is on the same medium].
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
    /// Write a base backup of a database whose log is archived in this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "path")]
    pub(crate) archive: Option<PathBuf>,
    /// Write what was done as JSON to a file, or to standard output with `-`.
    #[arg(long, value_name = "FILE", value_parser = JsonTarget::parse)]
    pub(crate) json: Option<JsonTarget>,
}

/// `perdura pool archive`.
#[derive(Debug, Args)]
pub(crate) struct ArchiveArgs {
    /// The pool file.
    pub(crate) file: PathBuf,
    /// The directory with the archive of its log, which is there.
    #[arg(required_unless_present = "end")]
    pub(crate) archive: Option<PathBuf>,
    /// End the archive of the database.
    #[arg(long, conflicts_with = "archive")]
    pub(crate) end: bool,
    /// Take a pool of domain `process`, or modelled, that was open when the machine went down, too:
    /// with what is left. It counts as closed afterwards.
    #[arg(long)]
    pub(crate) accept_loss: bool,
}

/// `perdura pool restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The backup.
    pub(crate) backup: PathBuf,
    /// The pool file to make, which must not exist.
    pub(crate) file: PathBuf,
    /// The directory with the archive of the log, for a base backup.
    #[arg(long, value_name = "DIR")]
    pub(crate) archive: Option<PathBuf>,
    /// Moment to restore a base backup to: `end`, a time such as 2026-01-31T11:59:00Z, or the number
    /// of a transaction's ticket [default: end].
    #[arg(long, value_name = "WHEN", value_parser = Until::from_str, requires = "archive")]
    pub(crate) until: Option<Until>,
    /// The rest.
    #[command(flatten)]
    pub(crate) new: NewDatabase,
    /// Write what was done as JSON to a file, or to standard output with `-`.
    #[arg(long, value_name = "FILE", value_parser = JsonTarget::parse)]
    pub(crate) json: Option<JsonTarget>,
}

/// `perdura pool dump`.
#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    /// The pool file.
    pub(crate) file: PathBuf,
    /// Only this table; can be given several times [default: all].
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Vec<String>,
    /// File to write, which must not exist; `-` is standard output [default: -].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Dump a pool of domain `process`, or modelled, that was open when the machine went down, too:
    /// what is left. It counts as closed afterwards.
    #[arg(long)]
    pub(crate) accept_loss: bool,
    /// Directory for the copy of a database that another process has open [default: that of the
    /// database, so that the copy is on the same medium].
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
}

/// `perdura pool load`.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// The pool file.
    pub(crate) file: PathBuf,
    /// The lines; `-` is standard input.
    pub(crate) input: PathBuf,
    /// Treatment of a tuple whose primary key is there already.
    #[arg(long, value_enum, default_value_t = ExistingForm::Refuse)]
    pub(crate) existing: ExistingForm,
    /// Lines that are loaded together, all or nothing. A batch ends sooner once it has 1 MiB, and
    /// where the next line belongs into another partition.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = parse_positive)]
    pub(crate) batch: u64,
    /// The tables of a new database, as for `perdura pool create` [default: those of the dump].
    #[arg(long, value_name = "SCHEMA.json")]
    pub(crate) schema: Option<PathBuf>,
    /// The rest.
    #[command(flatten)]
    pub(crate) new: NewDatabase,
    /// Load into a pool of domain `process`, or modelled, that was open when the machine went down,
    /// too. It counts as closed afterwards.
    #[arg(long)]
    pub(crate) accept_loss: bool,
    /// Write what was done as JSON to a file, or to standard output with `-`.
    #[arg(long, value_name = "FILE", value_parser = JsonTarget::parse)]
    pub(crate) json: Option<JsonTarget>,
}

/// The treatment of a tuple whose primary key is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExistingForm {
    /// Fail.
    Refuse,
    /// Keep the one that is there.
    Skip,
    /// Replace the one that is there.
    Replace,
}

impl From<ExistingForm> for Existing {
    fn from(form: ExistingForm) -> Self {
        match form {
            ExistingForm::Refuse => Self::Refuse,
            ExistingForm::Skip => Self::Skip,
            ExistingForm::Replace => Self::Replace,
        }
    }
}
