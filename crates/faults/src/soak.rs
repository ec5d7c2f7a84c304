//! Killing a process under load over and over. After each kill, the next process must find every
//! acknowledged transaction, and else at most the one in flight.
//!
//! 1. The *victim* opens the database, reads all that it holds, says so (a digest), and runs random
//!    transactions; after each that is durable it says its number. It never ends by itself.
//! 2. Its parent kills it at a random time, half of the times counted from its start, which hits
//!    recovery, and half from what it said first, which hits transactions, checkpoints and merges.
//! 3. What the next victim reads must be what the one before had acknowledged, or that and the
//!    transaction in flight. The parent knows: the transactions follow from a seed.
//!
//! What it shows: the `process` domain. The kernel keeps the pages of a killed process, so a kill
//! says nothing about flushes.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use perdura::{Database, Domain, EngineKind, Error, Options};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

use crate::driver::Driver;
use crate::items::{Model, Tables, checks, contents, schema};
use crate::plot::options;

/// The signal, which has this number everywhere.
const SIGKILL: i32 = 9;
/// Keys of a table.
const KEYS: u64 = 200;
/// The longest that a victim lives by default, from its start or from what it said first.
pub const LIFE: Duration = Duration::from_millis(15);
/// The time that a victim may take to open the database.
const PATIENCE: Duration = Duration::from_secs(60);
/// First of the eight bytes that a victim says, by their highest byte: what it has found.
const FOUND: u64 = 1 << 63;

/// The order for a soak.
#[derive(Clone, Debug)]
pub struct Soak<'a> {
    /// The engine.
    pub engine: EngineKind,
    /// The domain; one that is stronger than the medium's is modelled.
    pub domain: Domain,
    /// The number of kills.
    pub kills: u64,
    /// The longest that a victim lives; more than its start takes.
    pub life: Duration,
    /// Chooses transactions and moments.
    pub seed: u64,
    /// The path of the database; nothing is there yet.
    pub path: &'a Path,
}

/// The outcome of a soak.
#[derive(Clone, Default, Debug, Serialize)]
pub struct Soaked {
    /// Kills.
    pub kills: u64,
    /// The number of [`Self::kills`] before the database was open.
    pub in_recovery: u64,
    /// Transactions that were acknowledged.
    pub acknowledged: u64,
    /// Transactions that were in flight at a kill and are there.
    pub in_flight: u64,
    /// Kills after which an acknowledged transaction was missing.
    pub lost: u64,
    /// Kills after which there was something that was never done.
    pub surplus: u64,
    /// The fault, with the kill's number and the victim's seed. The soak ends with it, and the
    /// database is left as it is.
    pub wrong: Option<String>,
}

/// Returns the options with which the database of a soak is opened.
fn soak_options(engine: EngineKind, domain: Domain) -> Options {
    options(engine).domain(domain).model(true)
}

/// A number that two models have in common only by a chance of 2^-63, without the highest bit.
fn digest(model: &Model) -> u64 {
    xxh3_64(format!("{model:?}").as_bytes()) & !FOUND
}

fn operations(transaction: u64) -> usize {
    1 + (transaction % 5) as usize
}

/// The victim: opens the database at `path`, and goes on until it is killed, or until its output is
/// no longer read.
///
/// # Errors
/// The database does not open, is damaged, or a transaction fails.
pub fn victim(
    path: &Path,
    engine: EngineKind,
    domain: Domain,
    seed: u64,
    out: &mut impl Write,
) -> Result<(), Error> {
    let db = Database::open(path, &soak_options(engine, domain))?;
    let mut model = contents(&db)?;
    checks(&db).map_err(Error::user)?;
    let say = |out: &mut dyn Write, number: u64| {
        out.write_all(&number.to_le_bytes()).and_then(|()| out.flush())
    };
    if say(out, digest(&model) | FOUND).is_err() {
        return Ok(());
    }
    let (tables, mut driver) = (Tables::of(&db), Driver::new(seed, KEYS));
    for transaction in 0.. {
        let done = driver.transaction(&db, &tables, &mut model, operations(transaction))?;
        if done && say(out, transaction).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Kills as often as is wanted. `start` makes the command of a victim with a seed; `done` is called
/// for each kill.
///
/// # Errors
/// The database cannot be made, or a victim cannot be started. That it cannot be opened after a
/// kill is no error but what a soak looks for.
pub fn soak(
    soak: &Soak<'_>,
    start: &dyn Fn(u64) -> Command,
    done: &mut dyn FnMut(u64),
) -> Result<Soaked, String> {
    let made = Database::create(soak.path, &schema(), &soak_options(soak.engine, soak.domain));
    made.and_then(Database::close).map_err(|error| error.to_string())?;
    let mut random = SmallRng::seed_from_u64(soak.seed);
    let mut soaked = Soaked::default();
    // What the next victim may find, and what there was before.
    let mut possible = vec![Model::default()];
    let mut earlier = HashSet::new();
    let most = soak.life.as_micros().max(1) as u64;
    for kill in 0..soak.kills {
        let seed = soak.seed.wrapping_mul(1_000_003).wrapping_add(kill);
        let life = Life {
            of: Duration::from_micros(random.random_range(0..most)),
            from_opening: random.random_bool(0.5),
        };
        let said = match live(&mut start(seed), life)? {
            Ok(said) => said,
            Err(why) => {
                // It opens no more, or what it opened is damaged.
                soaked.lost += 1;
                soaked.wrong = Some(format!("before kill {kill}, seed {seed}: {why}"));
                return Ok(soaked);
            }
        };
        soaked.kills += 1;
        let Some((found, acknowledged)) = said.split_first() else {
            // Killed in recovery: the next one may find the same.
            soaked.in_recovery += 1;
            done(soaked.kills);
            continue;
        };
        let Some(at) = possible.iter().position(|model| digest(model) | FOUND == *found) else {
            soaked.misses(earlier.contains(found), &format!("kill {kill}, seed {seed}"));
            return Ok(soaked);
        };
        soaked.in_flight += u64::from(at > 0);
        soaked.acknowledged += acknowledged.len() as u64;
        // What it did, without a database.
        let (mut driver, mut model) = (Driver::new(seed, KEYS), possible.swap_remove(at));
        let last = acknowledged.last();
        let mut acknowledged = acknowledged.iter();
        for transaction in 0..last.map_or(0, |last| last + 1) {
            if let Some(after) = driver.imagine(&model, operations(transaction)) {
                if acknowledged.next() != Some(&transaction) {
                    soaked.surplus += 1;
                    soaked.wrong = Some(format!(
                        "kill {kill}, seed {seed}: transaction {transaction} should have committed"
                    ));
                    return Ok(soaked);
                }
                earlier.insert(digest(&model) | FOUND);
                model = after;
            }
        }
        // Then came some that aborted, and one that may have committed.
        let mut next = last.map_or(0, |last| last + 1);
        let in_flight = loop {
            let after = driver.imagine(&model, operations(next));
            next += 1;
            if let Some(after) = after {
                break after;
            }
        };
        possible = vec![model, in_flight];
        done(soaked.kills);
    }
    match last_look(soak) {
        Ok(left) if possible.contains(&left) => {}
        Ok(left) => soaked.misses(earlier.contains(&(digest(&left) | FOUND)), "the last kill"),
        Err(why) => {
            // As for a victim: it opens no more, or what it opened is damaged.
            soaked.lost += 1;
            soaked.wrong = Some(format!("after the last kill: {why}"));
        }
    }
    Ok(soaked)
}

/// Returns what the database holds in the end.
fn last_look(soak: &Soak<'_>) -> Result<Model, String> {
    let text = |error: Error| error.to_string();
    let db = Database::open(soak.path, &soak_options(soak.engine, soak.domain)).map_err(text)?;
    let left = contents(&db).map_err(text)?;
    checks(&db)?;
    db.close().map_err(text)?;
    Ok(left)
}

impl Soaked {
    /// Records that after `which` kill there was not what there had to be.
    fn misses(&mut self, was_there_before: bool, which: &str) {
        let what = if was_there_before {
            self.lost += 1;
            "the contents of an earlier moment: an acknowledged transaction is missing"
        } else {
            self.surplus += 1;
            "contents of no moment: a transaction is there in part, or one that was never run"
        };
        self.wrong = Some(format!("after {which}: {what}"));
    }
}

/// The time that a victim lives.
#[derive(Clone, Copy)]
struct Life {
    of: Duration,
    /// True if the time begins when the database is open; else it begins at the start.
    from_opening: bool,
}

/// Lets a victim live so long; returns the numbers that it has said; or, if it ended by itself,
/// why.
fn live(command: &mut Command, life: Life) -> Result<Result<Vec<u64>, String>, String> {
    let failed = |error: io::Error| format!("the process to be killed: {error}");
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.as_mut().map_err(|error| format!("cannot start a process: {error}"))?;
    let out = child.stdout.take();
    let (opened, is_open) = channel();
    let reader = std::thread::spawn(move || read_all(out, &opened));
    if life.from_opening {
        // One that ends instead drops the sender.
        let _ = is_open.recv_timeout(PATIENCE);
    }
    std::thread::sleep(life.of);
    // To kill one that has ended is no error until it was waited for.
    child.kill().map_err(failed)?;
    let status = child.wait().map_err(failed)?;
    let bytes = reader.join().map_err(|_| "the reader of a pipe panicked")?.map_err(failed)?;
    if status.signal() != Some(SIGKILL) {
        return Ok(Err(format!("the next process ended by itself, {status}: {}", why(child))));
    }
    // The last number may be cut off: then it was not acknowledged.
    let numbers = bytes.chunks_exact(8);
    let number = |number: &[u8]| u64::from_le_bytes(number.try_into().expect("eight bytes"));
    Ok(Ok(numbers.map(number).collect()))
}

fn read_all(out: Option<ChildStdout>, opened: &Sender<()>) -> io::Result<Vec<u8>> {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    if let Some(mut out) = out {
        loop {
            let read = match out.read(&mut part) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            bytes.extend_from_slice(&part[..read]);
            // The receiver may be gone.
            let _ = opened.send(());
        }
    }
    Ok(bytes)
}

fn why(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_string(&mut text);
    }
    text.trim().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kill that leaves no database is a violation, which leaves the pool to look at, and no
    /// failure of the soak.
    #[test]
    fn a_database_that_does_not_open_after_the_last_kill_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let wanted = Soak {
            engine: EngineKind::NvmInp,
            domain: Domain::Process,
            kills: 1,
            life: LIFE,
            seed: 1,
            path: &path,
        };
        let start = |_| {
            std::fs::write(&path, b"no database").unwrap();
            let mut command = Command::new("sleep");
            command.arg("60");
            command
        };
        let soaked = soak(&wanted, &start, &mut |_| {}).unwrap();
        assert_eq!((soaked.kills, soaked.lost), (1, 1), "{soaked:?}");
        assert!(soaked.wrong.is_some_and(|why| why.starts_with("after the last kill: ")));
        assert!(path.exists());
    }
}
