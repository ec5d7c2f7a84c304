//! Recovery of a toy under power cuts, with crashes in recovery.
//!
//! A note `n` says: the first `n` commits are acknowledged. The log is a prefix, so what a recovery
//! finds is the state after some number of commits, and not after fewer than are acknowledged.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use paged::ids::{Lsn, PageNo, TxNo};
use paged::log::central::{Central, CentralOptions};
use paged::log::nv::{NvForm, NvLog, NvOptions, Persist};
use paged::log::{Chain, Kind, LogManager, Logged, Record, RoomWait};
use paged::recovery::checkpoint::{self, Pages};
use paged::recovery::{
    Restarted, Target, Transaction, Transactions, Undoing, analysis, restart, undo,
};
use paged::threads::{Host, Waiter};
use paged::{PagedError, Result};
use pm::{Memory, Site};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::{DiskReplay, DiskTrace, Recording, RecordingFiles};

use crate::toy::{Fault, KEYS, PAGES, Toy, WithLog};

type Log = Central<RecordingFiles, Host>;
type Image = BTreeMap<String, Vec<u8>>;
type Rows = BTreeMap<u64, u64>;

fn options() -> CentralOptions {
    CentralOptions {
        partitions: 4,
        partition_bytes: 4096,
        buffer_bytes: 8192,
        group_bytes: 2048,
        record_bytes: 1024,
        reserve_bytes: 4096,
        checkpoint_bytes: 2048,
        group_wait: Duration::ZERO,
    }
}

/// An open transaction of the workload.
struct Running {
    transaction: Transaction,
    rows: Rows,
    savepoint: Option<(Lsn, Rows)>,
}

/// The trace of a run, and the rows after each number of commits.
struct Run {
    trace: DiskTrace,
    states: Vec<Rows>,
    aborted: u64,
    rolled_back: u64,
    checkpoints: u64,
}

/// Transactions that interleave on disjoint rows, steal, rollbacks, checkpoints, with the central
/// log.
fn run(seed: u64, steps: u64, fault: Fault) -> Run {
    let files = RecordingFiles::new();
    files.start();
    Toy::create(&files);
    let log: Log = Central::create(&files, "log-", options(), Arc::default()).unwrap();
    files.note(0);
    let mut did = Did::default();
    drive(&log, &files, seed, steps, fault, &mut did, &mut |_| {});
    assert!(did.acknowledged > 0);
    let Did { states, aborted, rolled_back, checkpoints, .. } = did;
    Run { trace: files.stop(), states, aborted, rolled_back, checkpoints }
}

/// The results of a workload so far.
#[derive(Default)]
struct Did {
    states: Vec<Rows>,
    acknowledged: u64,
    aborted: u64,
    rolled_back: u64,
    checkpoints: u64,
}

/// Runs a workload; calls `after` after each of its steps.
fn drive(
    log: &dyn LogManager,
    files: &RecordingFiles,
    seed: u64,
    steps: u64,
    fault: Fault,
    did: &mut Did,
    after: &mut dyn FnMut(&Did),
) {
    let toy = Toy::open(files, fault);
    let transactions = Transactions::new();
    let mut random = SmallRng::seed_from_u64(seed);
    let mut running: Vec<Running> = Vec::new();
    let mut taken: BTreeMap<u64, TxNo> = BTreeMap::new();
    did.states.push((0..KEYS).map(|key| (key, 0)).collect());
    let mut next = 1;
    let checkpoint = |before| checkpoint::take(log, &WithLog(&toy, log), &transactions, before);
    for _ in 0..steps {
        let pick = random.random_range(0..running.len().max(1));
        match random.random_range(0..20) {
            0..=2 if running.len() < 3 => {
                let transaction = transactions.begin(TxNo(next));
                next += 1;
                running.push(Running { transaction, rows: Rows::new(), savepoint: None });
            }
            3..=9 if !running.is_empty() => {
                let (key, delta) = (random.random_range(0..KEYS), random.random());
                let run = &mut running[pick];
                let tx = run.transaction.tx();
                if *taken.entry(key).or_insert(tx) != tx {
                    continue;
                }
                match toy.add(log, &mut run.transaction, key, delta) {
                    Ok(()) => {
                        let sum = run.rows.entry(key).or_default();
                        *sum = sum.wrapping_add(delta);
                    }
                    Err(PagedError::LogFull { .. }) => {
                        checkpoint(log.end()).unwrap();
                        did.checkpoints += 1;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            10 if !running.is_empty() => {
                let run = &mut running[pick];
                match run.savepoint.take() {
                    None => run.savepoint = Some((run.transaction.last(), run.rows.clone())),
                    Some((savepoint, rows)) => {
                        let undone = undo::rollback_to(log, &mut run.transaction, &toy, savepoint);
                        did.rolled_back += undone.unwrap();
                        run.rows = rows;
                    }
                }
            }
            11 | 12 if !running.is_empty() => {
                let mut run = running.swap_remove(pick);
                let Ok(at) = run.transaction.commit(log) else {
                    running.push(run);
                    continue;
                };
                let mut rows = did.states[did.states.len() - 1].clone();
                for (key, delta) in run.rows {
                    let sum = rows.entry(key).or_default();
                    *sum = sum.wrapping_add(delta);
                }
                did.states.push(rows);
                if random.random_range(0..3) > 0 {
                    log.force(at).unwrap();
                    did.acknowledged = did.states.len() as u64 - 1;
                    files.note(did.acknowledged);
                }
                taken.retain(|_, holder| *holder != run.transaction.tx());
                transactions.end(run.transaction);
            }
            13 if !running.is_empty() => {
                let mut run = running.swap_remove(pick);
                did.aborted += undo::abort(log, &mut run.transaction, &toy).unwrap();
                taken.retain(|_, holder| *holder != run.transaction.tx());
                transactions.end(run.transaction);
            }
            14 => {
                let (key, to) = (random.random_range(0..KEYS), random.random_range(1..=PAGES));
                match toy.relocate(log, key, to) {
                    Ok(()) | Err(PagedError::LogFull { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            15 | 16 => toy.write(log, random.random_range(1..=PAGES)).unwrap(),
            17 if log.is_due() || random.random_range(0..8) == 0 => {
                let before = if random.random() { log.end() } else { log.start() };
                checkpoint(before).unwrap();
                did.checkpoints += 1;
            }
            _ => {}
        }
        after(did);
    }
}

/// Recovers; returns the number of commits whose state it finds.
fn recover(
    files: &RecordingFiles,
    states: &[Rows],
    fault: Fault,
) -> std::result::Result<(usize, Restarted), String> {
    let text = |error: PagedError| error.to_string();
    let log: Log = Central::open(files, "log-", options(), Arc::default()).map_err(text)?;
    recover_with(&log, files, states, fault)
}

fn recover_with(
    log: &dyn LogManager,
    files: &RecordingFiles,
    states: &[Rows],
    fault: Fault,
) -> std::result::Result<(usize, Restarted), String> {
    let text = |error: PagedError| error.to_string();
    let toy = Toy::open(files, fault);
    let transactions = Transactions::new();
    let restarted = restart(log, &transactions, &toy).map_err(text)?;
    if !transactions.is_empty() {
        return Err("a transaction is open after the restart".into());
    }
    // The end of a recovery: a checkpoint, in the middle of which a crash may come, too.
    checkpoint::take(log, &WithLog(&toy, log), &transactions, log.end()).map_err(text)?;
    let rows = toy.rows()?;
    match states.iter().rposition(|state| *state == rows) {
        Some(commits) => Ok((commits, restarted)),
        None => Err(format!("{rows:?} is the state after no number of commits")),
    }
}

#[derive(Default, Debug)]
struct Explored {
    points: u64,
    states: u64,
    failures: u64,
    first: Option<String>,
}

fn explore(
    trace: &DiskTrace,
    bound: u64,
    mut check: impl FnMut(&Image, Option<u64>) -> std::result::Result<(), String>,
) -> Explored {
    let mut explored = Explored::default();
    let mut replay = DiskReplay::new(trace);
    while let Some(point) = replay.next_point() {
        explored.points += 1;
        let (noted, position) = (point.last_note, point.position);
        let states = point.for_each_state(bound, 7, |image| {
            let checked =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(image, noted)));
            let checked = checked.unwrap_or_else(|_| Err("it panicked".into()));
            if let Err(why) = checked {
                explored.failures += 1;
                explored.first.get_or_insert(format!("before event {position}: {why}"));
            }
        });
        explored.states += states.visited;
    }
    explored
}

fn explore_run(run: &Run, bound: u64, fault: Fault) -> Explored {
    explore(&run.trace, bound, |image, noted| {
        let Some(noted) = noted else { return Ok(()) };
        let files = RecordingFiles::from_image(image.clone());
        let (commits, _) = recover(&files, &run.states, fault)?;
        if (commits as u64) < noted {
            return Err(format!("{commits} commits, {noted} acknowledged"));
        }
        Ok(())
    })
}

#[test]
fn losers_are_undone_and_winners_kept_at_every_crash_point() {
    let (mut states, mut undone, mut redone, mut losers) = (0, 0, 0, 0);
    let (mut aborted, mut rolled_back, mut checkpoints) = (0, 0, 0);
    for seed in 0..12 {
        let run = run(seed, 400, Fault::None);
        aborted += run.aborted;
        rolled_back += run.rolled_back;
        checkpoints += run.checkpoints;
        let explored = explore(&run.trace, 12, |image, noted| {
            let Some(noted) = noted else { return Ok(()) };
            let files = RecordingFiles::from_image(image.clone());
            let (commits, restarted) = recover(&files, &run.states, Fault::None)?;
            undone += restarted.undone;
            redone += restarted.redone;
            losers += restarted.losers;
            if (commits as u64) < noted {
                return Err(format!("{commits} commits, {noted} acknowledged"));
            }
            Ok(())
        });
        assert_eq!(explored.first, None, "seed {seed}");
        states += explored.states;
    }
    println!("{states} states, {losers} losers, {undone} changes undone, {redone} redone");
    println!("{aborted} aborted, {rolled_back} rolled back, {checkpoints} checkpoints");
    assert!(states >= 4_000 && undone > 1_000 && redone > 1_000 && losers > 1_000);
    assert!(aborted > 20 && rolled_back > 20 && checkpoints > 20);
}

#[test]
fn a_recovery_that_crashes_is_recovered_again_and_again() {
    let (mut states, mut deeper) = (0, 0);
    for seed in 0..4 {
        let run = run(seed, 300, Fault::None);
        let mut turn = 0_u64;
        let explored = explore(&run.trace, 6, |image, noted| {
            turn += 1;
            if noted.is_none() || !turn.is_multiple_of(6) {
                return Ok(());
            }
            let files = RecordingFiles::from_image(image.clone());
            files.start();
            let (commits, _) = recover(&files, &run.states, Fault::None)?;
            let trace = files.stop();
            let mut again = 0_u64;
            let inner = explore(&trace, 6, |image, _| {
                again += 1;
                let files = RecordingFiles::from_image(image.clone());
                files.start();
                let (found, _) = recover(&files, &run.states, Fault::None)?;
                if found != commits {
                    return Err(format!("{commits} commits became {found}"));
                }
                let trace = files.stop();
                if !again.is_multiple_of(16) {
                    return Ok(());
                }
                let inmost = explore(&trace, 4, |image, _| {
                    let files = RecordingFiles::from_image(image.clone());
                    let (found, _) = recover(&files, &run.states, Fault::None)?;
                    if found == commits { Ok(()) } else { Err("the third differs".into()) }
                });
                deeper += inmost.states;
                inmost.first.map_or(Ok(()), Err)
            });
            states += inner.states;
            inner.first.map_or(Ok(()), Err)
        });
        assert_eq!(explored.first, None, "seed {seed}");
    }
    println!("{states} crashes in recovery, {deeper} in the recovery of those");
    assert!(states >= 2_000 && deeper >= 300);
}

#[test]
fn wrong_policies_are_noticed() {
    let faults = [
        Fault::PageBeforeLog,
        Fault::CleanBeforeSync,
        Fault::RedoAlways,
        Fault::UndoByPage,
        Fault::NoDirtyPages,
    ];
    for fault in faults {
        let failures: u64 =
            (0..3).map(|seed| explore_run(&run(seed, 300, fault), 8, fault).failures).sum();
        println!("{fault:?}: {failures} failures");
        assert!(failures > 0, "{fault:?}");
    }
}

#[test]
fn every_sync_left_out_is_noticed() {
    let run = run(1, 300, Fault::None);
    // Space that is reserved counts on a medium that is full: `central_crash.rs`.
    let is_of_space = |site: &Site| site.file().ends_with("log/central/space.rs");
    for site in run.trace.sync_sites().into_iter().filter(|site| !is_of_space(site)) {
        let trace = run.trace.without_syncs_of(site);
        let faulty = Run { trace, states: run.states.clone(), ..run };
        let explored = explore_run(&faulty, 8, Fault::None);
        println!("{site}: {:?}", explored.first);
        assert!(explored.failures > 0, "{site}");
    }
}

/// With the NV log, which is durable up to every append that has returned: a crash after each step,
/// and a second one after the restart.
#[test]
fn the_same_recovery_works_with_the_nv_log() {
    let form = NvForm { entries: 256, segments: 16, segment_bytes: 4096, record_bytes: 1024 };
    let options = NvOptions { persist: Persist::OnInsert, lanes: 2, checkpoint_records: 60 };
    let open = |memory: &Recording| {
        NvLog::open(memory.clone(), 64, 7, options, Arc::new(Host::default())).unwrap()
    };
    let (mut crashes, mut undone, mut checkpoints) = (0, 0, 0);
    for seed in 0..4 {
        let memory = Recording::new(1 << 20).unwrap();
        memory.grow(64 + form.bytes()).unwrap();
        let log = NvLog::create(memory.clone(), 64, form, 7, options, Arc::new(Host::default()));
        let files = RecordingFiles::new();
        Toy::create(&files);
        let mut did = Did::default();
        drive(&log, &files, seed, 400, Fault::None, &mut did, &mut |did| {
            let memory = Recording::from_image(&memory.contents(), 1 << 20).unwrap();
            let files = RecordingFiles::from_image(files.image());
            for again in 0..2 {
                let log = open(&memory);
                let found = recover_with(&log, &files, &did.states, Fault::None);
                let (commits, restarted) = found.unwrap();
                assert_eq!(commits + 1, did.states.len(), "seed {seed}");
                assert!(again == 0 || restarted.losers == 0, "every loser has its end");
                undone += restarted.undone;
                crashes += 1;
            }
        });
        checkpoints += did.checkpoints;
    }
    println!("{crashes} crashes, {undone} changes undone, {checkpoints} checkpoints");
    assert!(crashes > 2_500 && undone > 1_000 && checkpoints > 5);
}

/// A log in which something happens between a record's LSN and the return of its append.
struct Between<'a> {
    log: &'a Log,
    work: Mutex<Option<Box<dyn FnOnce() + Send + 'a>>>,
}

impl std::fmt::Debug for Between<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Between")
    }
}

impl LogManager for Between<'_> {
    fn reserve(&self, chain: &mut Chain, payload: u64) -> Result<()> {
        self.log.reserve(chain, payload)
    }
    fn await_room(&self, wait: &Arc<RoomWait>) {
        self.log.await_room(wait);
    }
    fn forget_wait(&self, wait: &Arc<RoomWait>) {
        self.log.forget_wait(wait);
    }
    fn unreserve(&self, chain: &mut Chain) {
        self.log.unreserve(chain);
    }
    fn append(&self, chain: &mut Chain, record: &Record<'_>) -> Result<Lsn> {
        let lsn = self.log.append(chain, record);
        if let Some(work) = self.work.lock().unwrap().take() {
            work();
        }
        lsn
    }
    fn commit(&self, chain: &mut Chain) -> Result<Lsn> {
        self.append(chain, &Record::bare(Kind::Commit))
    }
    fn durable(&self) -> Lsn {
        self.log.durable()
    }
    fn end(&self) -> Lsn {
        self.log.end()
    }
    fn force(&self, to: Lsn) -> Result<()> {
        self.log.force(to)
    }
    fn read(&self, at: Lsn) -> Result<Logged> {
        self.log.read(at)
    }
    fn consumed(&self) -> u64 {
        self.log.consumed()
    }
    fn largest(&self) -> usize {
        self.log.largest()
    }
    fn attend(&self, checkpointer: Arc<Waiter>) {
        self.log.attend(checkpointer);
    }
    fn is_due(&self) -> bool {
        self.log.is_due()
    }
    fn start(&self) -> Lsn {
        self.log.start()
    }
    fn truncate(&self, start: Lsn, keep: Lsn) -> Result<()> {
        self.log.truncate(start, keep)
    }
    fn adopt(&self, chain: &mut Chain) {
        self.log.adopt(chain);
    }
    fn scan(&self, from: Lsn, visit: &mut dyn FnMut(Logged) -> Result<()>) -> Result<()> {
        self.log.scan(from, visit)
    }
}

struct NoPages;

impl Pages for NoPages {
    fn write_before(&self, _: Lsn) -> Result<()> {
        Ok(())
    }
    fn dirty(&self) -> Vec<(PageNo, Lsn)> {
        Vec::new()
    }
    fn note(&self, _: Lsn) -> Result<()> {
        Ok(())
    }
}

impl Target for NoPages {
    fn redo(&self, _: &Logged) -> Result<bool> {
        Ok(false)
    }
    fn undo(&self, record: &Logged, undoing: &mut Undoing<'_>) -> Result<()> {
        undoing.compensate(record.page, record.page_before, &record.payload).map(drop)
    }
}

/// Runs a transaction of `changes` changes, with a checkpoint between the LSN of record `at` and
/// the return of its append; the commit is the last. Returns what analysis finds after a crash.
fn with_checkpoint_inside(changes: u64, at: u64) -> (Vec<Chain>, Lsn) {
    let files = RecordingFiles::new();
    let log: Log = Central::create(&files, "log-", options(), Arc::default()).unwrap();
    let transactions = Transactions::new();
    let between = Between { log: &log, work: Mutex::new(None) };
    let mut transaction = transactions.begin(TxNo(5));
    let mut last = Lsn::NONE;
    for number in 0..=changes {
        if number == at {
            let work = || {
                checkpoint::take(&log, &NoPages, &transactions, Lsn::NONE).unwrap();
            };
            *between.work.lock().unwrap() = Some(Box::new(work));
        }
        last = if number < changes {
            let record = Record { payload: &[1; 8], ..Record::bare(Kind::Change) };
            transaction.append(&between, &record).unwrap()
        } else {
            transaction.commit(&between).unwrap()
        };
        if number == at && at < changes {
            break;
        }
    }
    log.force(Lsn(u64::MAX)).unwrap();
    let log: Log = Central::open(&files, "log-", options(), Arc::default()).unwrap();
    let found = analysis::analyse(&log, &NoPages, None).unwrap();
    assert_eq!(found.greatest, TxNo(5));
    (found.losers, last)
}

#[test]
fn a_checkpoint_misses_no_record_that_is_just_being_appended() {
    for at in 0..4 {
        let (losers, last) = with_checkpoint_inside(4, at);
        assert_eq!(losers.len(), 1, "record {at}");
        assert_eq!((losers[0].last, losers[0].used), (last, 72 * (at + 1)), "record {at}");
    }
    let (losers, _) = with_checkpoint_inside(4, 4);
    assert!(losers.is_empty(), "the commit that is just being appended counts");
}

#[test]
fn an_old_transaction_is_known_from_the_checkpoint_alone() {
    let files = RecordingFiles::new();
    let log: Log = Central::create(&files, "log-", options(), Arc::default()).unwrap();
    let transactions = Transactions::new();
    let mut old = transactions.begin(TxNo(3));
    let record = Record { payload: &[1; 8], ..Record::bare(Kind::Change) };
    let first = old.append(&log, &record).unwrap();
    let last = old.append(&log, &record).unwrap();
    let taken = checkpoint::take(&log, &NoPages, &transactions, Lsn::NONE).unwrap();
    assert_eq!((taken.keep, taken.open), (first, 1));
    assert!(taken.start > last);
    // A second one, whose end is lost: its begin is the newest record.
    log.append(&mut Chain::default(), &Record::bare(Kind::CheckpointBegin)).unwrap();
    log.force(Lsn(u64::MAX)).unwrap();
    drop(log);
    let log: Log = Central::open(&files, "log-", options(), Arc::default()).unwrap();
    let found = analysis::analyse(&log, &NoPages, None).unwrap();
    assert_eq!(found.records, 3, "begin, end, begin");
    let [chain] = &found.losers[..] else { panic!("{found:?}") };
    assert_eq!((chain.first, chain.last, chain.used), (first, last, 144));
    assert!(chain.aside >= 144);
    let transactions = Transactions::new();
    let restarted = restart(&log, &transactions, &NoPages).unwrap();
    assert_eq!((restarted.losers, restarted.undone), (1, 2));
    drop(log);
    // Undone once, it is never undone again.
    let log: Log = Central::open(&files, "log-", options(), Arc::default()).unwrap();
    assert_eq!(restart(&log, &transactions, &NoPages).unwrap().losers, 1, "its End was not forced");
}
