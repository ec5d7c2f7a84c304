//! A PostgreSQL server of our own: its programs found, a cluster made, started and ended.
//!
//! Invariants:
//! - It listens on a socket in its own directory alone, and no network.
//! - It ends with this process, however that ends: the kernel signals it.
//! - It never runs as the administrator, which it refuses: started by that, it becomes the user
//!   `postgres`, whom its package makes.

use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fs, io};

use workloads::StoreError;

/// The user of the cluster.
const USER: &str = "perdura";
/// The database that a cluster has from the start.
const DATABASE: &str = "postgres";
/// The longest name of a socket, with what the server appends.
const MOST_SOCKET_BYTES: usize = 90;
/// The time that a server may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(60);
const INSTALL: &str = "install it (Debian: apt-get install postgresql)";

/// The user that the programs run as, if that is not this process's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Account {
    user: u32,
    group: u32,
}

/// The programs of an installation.
#[derive(Debug, Clone)]
struct Programs {
    directory: PathBuf,
    account: Option<Account>,
}

impl Programs {
    /// Finds them: those of `pg_config`, or the newest below `/usr/lib/postgresql`.
    fn find() -> Result<Self, StoreError> {
        let configured = Command::new("pg_config").arg("--bindir").output().ok();
        let configured = configured.and_then(|output| String::from_utf8(output.stdout).ok());
        let directories = configured.map(|path| PathBuf::from(path.trim()));
        let directory = directories
            .into_iter()
            .chain(installed("/usr/lib/postgresql"))
            .find(|directory| ["initdb", "postgres", "pgbench", "psql"].iter().all(|name| directory.join(name).is_file()))
            .ok_or_else(|| {
                StoreError::Unsupported(format!("PostgreSQL's programs initdb, postgres, pgbench and psql are not found: {INSTALL}"))
            })?;
        // SAFETY: it asks the kernel for a number, and cannot fail.
        let is_administrator = unsafe { libc::geteuid() } == 0;
        let account = if is_administrator { Some(account("postgres")?) } else { None };
        Ok(Self { directory, account })
    }

    /// A program, to be run by the cluster's user in its directory.
    fn command(&self, name: &str, directory: &Path) -> Command {
        let mut command = Command::new(self.directory.join(name));
        command.current_dir(directory).env("LC_ALL", "C").env("HOME", directory);
        // The user's own settings would lead elsewhere.
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("PG") {
                command.env_remove(variable);
            }
        }
        command.stdin(Stdio::null());
        if let Some(Account { user, group }) = self.account {
            command.uid(user).gid(group);
        }
        command
    }
}

/// The folders of programs of all versions below `root`, the newest first.
fn installed(root: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let version = |name: OsString| name.to_string_lossy().parse::<u32>().ok();
    let mut versions: Vec<u32> =
        entries.flatten().filter_map(|entry| version(entry.file_name())).collect();
    versions.sort_unstable_by(|one, other| other.cmp(one));
    versions.iter().map(|version| Path::new(root).join(version.to_string()).join("bin")).collect()
}

/// The account of a user, as `/etc/passwd` has it.
fn account(user: &str) -> Result<Account, StoreError> {
    let path = Path::new("/etc/passwd");
    let users = fs::read_to_string(path).map_err(|error| StoreError::io(path, error))?;
    let found = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, user_id, group) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let account = Account { user: user_id.parse().ok()?, group: group.parse().ok()? };
        (name == user).then_some(account)
    });
    found.ok_or_else(|| {
        let why = "PostgreSQL does not run as the administrator, and there is no user";
        StoreError::Unsupported(format!("{why} '{user}': be another user, or {INSTALL}"))
    })
}

/// A running server with an empty database.
pub(super) struct Server {
    programs: Programs,
    directory: PathBuf,
    process: Child,
    parent: Parent,
}

/// The thread that the server's life is bound to: the kernel signals a process when the thread that
/// made it ends.
struct Parent {
    thread: Option<JoinHandle<()>>,
    /// The thread ends when this is gone.
    lives: Option<Sender<()>>,
}

impl Parent {
    /// Starts a program in a thread of its own.
    fn spawn(mut command: Command) -> io::Result<(Self, Child)> {
        let (made, process) = channel();
        let (lives, ends) = channel::<()>();
        let thread = std::thread::spawn(move || {
            if made.send(command.spawn()).is_ok() {
                let _ = ends.recv();
            }
        });
        let parent = Self { thread: Some(thread), lives: Some(lives) };
        let process = process.recv().map_err(|_| io::Error::other("a thread has ended"))??;
        Ok((parent, process))
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        self.lives = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Server {
    /// Makes a cluster in an existing directory and starts its server, for so many connections and
    /// with so many bytes of buffers.
    ///
    /// # Errors
    /// PostgreSQL is not installed, or refuses.
    pub(super) fn start(
        directory: &Path,
        connections: usize,
        buffer_bytes: u64,
    ) -> Result<Self, StoreError> {
        let programs = Programs::find()?;
        let directory =
            directory.canonicalize().map_err(|error| StoreError::io(directory, error))?;
        if directory.as_os_str().len() > MOST_SOCKET_BYTES {
            let path = directory.display();
            let why = format!("{path}: too long for the name of a socket; choose a shorter --path");
            return Err(StoreError::Unsupported(why));
        }
        if let Some(account) = programs.account {
            hand_over(&directory, account)?;
        }
        let data = directory.join("data");
        let mut initdb = programs.command("initdb", &directory);
        initdb.args(["--auth=trust", "--encoding=UTF8", "--locale=C", "-U", USER, "-D"]).arg(&data);
        finish("initdb", initdb)?;
        let log = directory.join("server.log");
        let output = fs::File::create(&log).map_err(|error| StoreError::io(&log, error))?;
        let mut postgres = programs.command("postgres", &directory);
        postgres
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(&directory)
            .args(["-h", "", "-c", "fsync=on", "-c", "synchronous_commit=on", "-c"])
            .arg(format!("max_connections={}", connections + 8))
            .arg("-c")
            .arg(format!("shared_buffers={}kB", buffer_bytes >> 10))
            .stdout(output.try_clone().map_err(|error| StoreError::io(&log, error))?)
            .stderr(output);
        let parent = std::process::id();
        // SAFETY: between fork and exec it makes two system calls, which may be made there.
        unsafe { postgres.pre_exec(move || end_with(parent)) };
        let (parent, process) = Parent::spawn(postgres)
            .map_err(|error| StoreError::io(&programs.directory.join("postgres"), error))?;
        let mut server = Self { programs, directory, process, parent };
        server.wait_until_ready(&log)?;
        Ok(server)
    }

    fn wait_until_ready(&mut self, log: &Path) -> Result<(), StoreError> {
        let begun = Instant::now();
        loop {
            if self.sql("SELECT 1").is_ok() {
                return Ok(());
            }
            let ended = self.process.try_wait().map_err(|error| StoreError::io(log, error))?;
            if ended.is_some() || begun.elapsed() > PATIENCE {
                let text = fs::read_to_string(log).unwrap_or_default();
                let last: Vec<&str> = text.lines().rev().take(5).collect();
                let last: Vec<&str> = last.into_iter().rev().collect();
                let why = if ended.is_some() { "did not start" } else { "does not answer" };
                return Err(StoreError::engine(format!("its server {why}: {}", last.join("; "))));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A program that talks to the server.
    pub(super) fn client(&self, name: &str) -> Command {
        let mut command = self.programs.command(name, &self.directory);
        command.arg("-h").arg(&self.directory).args(["-U", USER]);
        command
    }

    /// Runs SQL and returns the rows: columns separated by `|`, one row a line.
    ///
    /// # Errors
    /// PostgreSQL's, in its words.
    pub(super) fn sql(&self, sql: &str) -> Result<String, StoreError> {
        let mut psql = self.client("psql");
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", DATABASE, "-c", sql]);
        finish("psql", psql)
    }

    /// The name of the database, for `pgbench`.
    pub(super) const fn database() -> &'static str {
        DATABASE
    }

    /// The directory that it was started in, to which its user may write.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Server {
    /// Ends the server in an orderly way: its files are whole afterwards.
    fn drop(&mut self) {
        debug_assert!(self.parent.lives.is_some(), "its parent lives until it has ended");
        let process = self.process.id().cast_signed();
        // SAFETY: it sends a signal to a child that was not waited for yet, so the number is its
        // own.
        unsafe { libc::kill(process, libc::SIGINT) };
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            match self.process.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(20)),
                _ => return,
            }
        }
        // Nothing can be done about one that does not end even so.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Asks the kernel to end this process in an orderly way when its parent ends.
fn end_with(parent: u32) -> io::Result<()> {
    // SAFETY: they ask the kernel, and touch no memory.
    let (asked, now) =
        unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGINT), libc::getppid()) };
    match asked {
        0 if now.cast_unsigned() == parent => Ok(()),
        0 => Err(io::Error::other("its parent has ended")),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Gives a directory to an account, and lets it pass through those above that are this process's.
fn hand_over(directory: &Path, account: Account) -> Result<(), StoreError> {
    let io = |error| StoreError::io(directory, error);
    std::os::unix::fs::chown(directory, Some(account.user), Some(account.group)).map_err(io)?;
    let above = directory.parent().ok_or_else(|| io(io::ErrorKind::NotFound.into()))?;
    let metadata = fs::metadata(above).map_err(io)?;
    let mode = metadata.mode();
    if mode & 0o001 == 0 {
        fs::set_permissions(above, fs::Permissions::from_mode(mode | 0o011)).map_err(io)?;
    }
    Ok(())
}

/// Runs a program to its end and returns what it printed.
///
/// # Errors
/// It failed: what it said.
pub(super) fn finish(name: &str, mut command: Command) -> Result<String, StoreError> {
    let path = PathBuf::from(command.get_program());
    let output = command.output().map_err(|error| StoreError::io(&path, error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(StoreError::engine(format!("{name} failed: {}", said.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
