//! Real threads in one table of the engine with row locks. What they saw has to have a serial order
//! that agrees with real time, whether locks are released early and inherited or not. A deadlock
//! ends with a victim, and the caller that gave the victim to `write` does not see it.

use faults::history::Rule::Serializable;
use faults::racing::Racing;
use faults::sharing::{Mix, Sharer, schema};
use perdura::{Database, Domain, EngineKind, Options};

/// Early lock release and lock inheritance.
pub(crate) const LOCKING: [(u64, u64); 4] = [(1, 1), (1, 0), (0, 1), (0, 0)];

/// Small pages, so that a few rows are several pages; few of them in memory, so that some are
/// evicted.
fn options((early_release, inherit_after): (u64, u64)) -> Options {
    Options::new()
        .domain(Domain::Process)
        .engine(EngineKind::NvDisk)
        .tune("page_bytes", 512)
        .tune("buffer_bytes", 16 << 10)
        .tune("log_bytes", 4 << 20)
        .tune("log_buffer_bytes", 256 << 10)
        .tune("checkpoint_bytes", 64 << 10)
        .tune("early_release", early_release)
        .tune("inherit_after", inherit_after)
}

/// The deadlocks and the waits that the engine has counted.
fn counted(db: &Database) -> (u64, u64) {
    let own = db.stats().unwrap().own;
    let buffer = own.buffer().unwrap();
    (buffer.deadlocks, buffer.lock_waits)
}

/// Runs rounds of transactions, each after the contents that the last one has left, while `more` of
/// their number says so.
pub(crate) fn run(
    locking: (u64, u64),
    keys: u64,
    seed: u64,
    transactions: usize,
    more: impl Fn(u64) -> bool,
) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = Database::create(path, &schema(), &options(locking)).unwrap();
    let (sharer, mut contents) = Sharer::fill(&db, keys, Mix::LOCKS).unwrap();
    let (mut round, mut reruns, mut in_order) = (0, 0, 0);
    while more(round) {
        let seed = seed + round;
        let racing = Racing { threads: 4, transactions, seed };
        let raced = racing.run(&db, &sharer, contents).unwrap();
        let order = raced.history.check(Serializable).unwrap_or_else(|found| {
            panic!("{locking:?}, seed {seed}: {found}\n{:?}", raced.history);
        });
        in_order += order.len();
        reruns += raced.reruns;
        // No thread gives up within the time for reruns.
        contents = raced.contents;
        round += 1;
    }
    let (deadlocks, waits) = counted(&db);
    println!(
        "{locking:?}, {keys} keys: {in_order} in order in {round} rounds, {waits} waits, \
         {deadlocks} deadlocks, {reruns} reruns"
    );
    assert!(in_order > transactions * round as usize / 2, "{in_order}");
    assert!(waits > 10 && deadlocks > 0 && reruns > 0, "{waits}, {deadlocks}, {reruns}");
    let report = db.check().unwrap();
    assert_eq!((report.leaked, report.dangling), (0, 0), "{report:?}");
    db.close().unwrap();
}

#[test]
fn four_threads_in_one_table_are_strictly_serializable() {
    for (locking, seed) in LOCKING.into_iter().zip(1..) {
        run(locking, 8, seed, 700, |round| round < 1);
    }
    run(LOCKING[0], 60, 9, 1_000, |round| round < 1);
}
