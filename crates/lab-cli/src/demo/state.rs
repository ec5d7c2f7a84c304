//! Everything that the threads of an engine's process share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use command::failure::Failure;
use command::output::print;
use peers::AcknowledgedFile;
use perdura::{Concurrency, Database, Error, Table, Unfinished};
use workloads::{Form, Observer, tatp};

use super::task::{Counter, Event, Settings, Task};

/// Rows over which the statements of a long transaction go.
pub(super) const ROWS: u64 = 16;

/// The database, the settings, the counts.
pub(super) struct DemoState {
    pub(super) task: Task,
    pub(super) database: Database,
    pub(super) tables: Tables,
    /// Users at work.
    pub(super) users: AtomicU32,
    /// Emulated: nanoseconds that each fence takes longer.
    pub(super) latency_ns: AtomicU64,
    /// Fences that a user has waited for.
    pub(super) paid: Mutex<u64>,
    /// The file of counters.
    pub(super) counters: AcknowledgedFile,
}

/// The tables in addition to those of TATP.
pub(super) struct Tables {
    /// A user's receipts.
    pub(super) receipt: Table,
    /// The rows of long transactions.
    pub(super) work: Table,
    /// The committed runs of a long transaction.
    pub(super) run: Table,
}

impl Tables {
    /// The tables of an open database.
    ///
    /// # Errors
    /// It has none of these names.
    pub(super) fn of(database: &Database) -> Result<Self, Error> {
        let table = |name| database.table(name);
        Ok(Self { receipt: table("receipt")?, work: table("work")?, run: table("run")? })
    }
}

impl DemoState {
    /// Returns true if transactions go on after a crash.
    pub(super) fn continues(&self) -> bool {
        self.database.traits().unfinished == Unfinished::Continued
    }

    /// The count so far.
    pub(super) fn count(&self, counter: Counter) -> u64 {
        self.counters.counts()[counter.place()]
    }

    /// Stores a count.
    pub(super) fn acknowledge(&self, counter: Counter, count: u64) {
        self.counters.completed(counter.place(), count);
    }

    /// Takes other settings.
    pub(super) fn hear(&self, settings: Settings) {
        // Counting takes time: it is for those who want to see latency.
        self.database.count(settings.latency_ns > 0);
        self.latency_ns.store(settings.latency_ns, Ordering::Relaxed);
        self.users.store(settings.users, Ordering::Relaxed);
    }
}

/// Writes an event to standard output.
///
/// # Errors
/// The reader is gone.
pub(super) fn say(said: &Event) -> Result<(), Failure> {
    let encoded = serde_json::to_string(said).map_err(|error| Failure::about("an event", error))?;
    print(&(encoded + "\n"))
}

/// Returns the partition of a long transaction: its own if writers need a partition exclusively.
pub(super) fn partition(database: &Database, number: usize) -> usize {
    if database.traits().concurrency == Concurrency::Shared { 0 } else { 1 + number }
}

/// TATP as the demonstration runs it, cut into so many partitions.
pub(super) fn spec(task: &Task, partitions: usize, transactions: u64, seed: u64) -> tatp::Spec {
    let subscribers = task.subscribers.saturating_mul(partitions as u32);
    tatp::Spec { subscribers, transactions, partitions, form: Form::Specification, seed }
}

/// The key of a row of a long transaction.
pub(super) const fn row_of(number: usize, row: u64) -> u64 {
    number as u64 * ROWS + row
}

/// The name of a long transaction.
pub(super) fn name_of(number: usize) -> String {
    format!("long {}", number + 1)
}

/// Waits as long as a thread that has nothing to do does.
pub(super) fn idle() {
    thread::sleep(Duration::from_millis(20));
}
