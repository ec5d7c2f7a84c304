//! Pages, the central log and recovery under power cuts, with crashes in recovery.
//!
//! A note `n` says: the first `n` commits are acknowledged. What a recovery finds is the state
//! after some number of commits, not fewer than were acknowledged. A page has two sectors, so it
//! can be torn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use paged::ids::{Lsn, TreeNo, TxNo};
use paged::log::LogManager;
use paged::log::central::{Central, CentralOptions};
use paged::pool::{Pool, Settled};
use paged::recovery::{Restarted, Transaction, Transactions, checkpoint, restart, undo};
use paged::threads::Host;
use paged::tree::Direction;
use paged::{PagedError, Result};
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::{DiskReplay, DiskTrace, RecordingFiles};

use super::support::{Model, Step, Steps, TREE, TestPool, create_over, rows, tree};

type Log = Central<RecordingFiles, Host>;

const PAGE_BYTES: usize = 1024;

fn options() -> CentralOptions {
    CentralOptions {
        partitions: 4,
        partition_bytes: 32 << 10,
        buffer_bytes: 16 << 10,
        group_bytes: 4096,
        record_bytes: 4096,
        reserve_bytes: 4096,
        checkpoint_bytes: 12 << 10,
        group_wait: Duration::ZERO,
    }
}

/// The keys that open transactions have changed.
#[derive(Debug, Default)]
struct Taken(Mutex<BTreeMap<Vec<u8>, TxNo>>);

impl Settled for Taken {
    fn is_settled(&self, _tree: TreeNo, key: &[u8]) -> bool {
        !self.0.lock().contains_key(key)
    }

    fn ghost_goes(&self, _tree: TreeNo, key: &[u8]) {
        assert!(!self.0.lock().contains_key(key), "somebody has it");
    }
}

impl Taken {
    /// Takes the keys of a step, if no other transaction has one.
    fn take(&self, keys: &[&[u8]], tx: TxNo) -> bool {
        let mut taken = self.0.lock();
        if keys.iter().any(|key| taken.get(*key).is_some_and(|holder| *holder != tx)) {
            return false;
        }
        taken.extend(keys.iter().map(|key| (key.to_vec(), tx)));
        true
    }

    fn let_go(&self, tx: TxNo) -> Vec<Vec<u8>> {
        let mut taken = self.0.lock();
        let own = taken.iter().filter(|(_, holder)| **holder == tx).map(|(key, _)| key.clone());
        let own: Vec<_> = own.collect();
        taken.retain(|_, holder| *holder != tx);
        own
    }
}

struct Running {
    transaction: Transaction,
    steps: Vec<Step>,
    savepoint: Option<(Lsn, usize)>,
}

struct Run {
    trace: DiskTrace,
    /// The rows after each number of commits.
    states: Vec<Model>,
    full: u64,
    undone: u64,
    checkpoints: u64,
}

fn step_keys(step: &Step) -> Vec<&[u8]> {
    match step {
        Step::Insert(key, _) | Step::Update(key, _) | Step::Delete(key) => vec![key],
        Step::Settle(_) => Vec::new(),
        Step::Load(rows) => rows.iter().map(|(key, _)| key.as_slice()).collect(),
    }
}

/// Transactions that interleave on different keys, with rollbacks, steal and checkpoints.
fn run(seed: u64, count: u64) -> Run {
    let files = RecordingFiles::new();
    files.start();
    let log = Arc::new(Log::create(&files, "log-", options(), Arc::default()).unwrap());
    let pool: TestPool = create_over(&files, PAGE_BYTES, 8, log.clone());
    pool.clean_all().unwrap();
    let taken = Arc::new(Taken::default());
    pool.set_settled(taken.clone());
    let transactions = Transactions::new();
    files.note(0);
    let mut random = SmallRng::seed_from_u64(seed);
    let mut source = Steps::new(seed, PAGE_BYTES);
    let (mut running, mut states) = (Vec::<Running>::new(), vec![Model::new()]);
    let (mut next, mut full, mut undone, mut checkpoints) = (2, 0, 0, 0);
    let take = |before| checkpoint::take(&*log, &pool, &transactions, before).unwrap();
    for number in 0..count {
        source.deletes = if number < count / 2 { 10 } else { 50 };
        let pick = random.random_range(0..running.len().max(1));
        match random.random_range(0..20) {
            0..=2 if running.len() < 3 => {
                let transaction = transactions.begin(TxNo(next));
                running.push(Running { transaction, steps: Vec::new(), savepoint: None });
                next += 1;
            }
            3..=11 if !running.is_empty() => {
                let run = &mut running[pick];
                let mut model = states[states.len() - 1].clone();
                run.steps.iter().for_each(|step| step.apply(&mut model));
                let step = source.next(&model);
                if !taken.take(&step_keys(&step), run.transaction.tx()) {
                    continue;
                }
                let before = run.transaction.last();
                match step.run(&tree(&pool), &mut run.transaction) {
                    Ok(()) => run.steps.push(step),
                    Err(PagedError::LogFull { .. }) => {
                        full += 1;
                        undo::rollback_to(&*log, &mut run.transaction, &pool, before).unwrap();
                        take(log.end());
                    }
                    Err(error) => panic!("seed {seed}: {step:?}: {error}"),
                }
            }
            12 if !running.is_empty() => {
                let run = &mut running[pick];
                match run.savepoint.take() {
                    None => run.savepoint = Some((run.transaction.last(), run.steps.len())),
                    Some((savepoint, steps)) => {
                        run.steps.truncate(steps);
                        undone += undo::rollback_to(&*log, &mut run.transaction, &pool, savepoint)
                            .unwrap();
                    }
                }
            }
            13..=15 if !running.is_empty() => {
                let mut run = running.swap_remove(pick);
                let at = run.transaction.commit(&*log).unwrap();
                let mut rows = states[states.len() - 1].clone();
                run.steps.iter().for_each(|step| step.apply(&mut rows));
                states.push(rows);
                if random.random_range(0..3) > 0 {
                    log.force(at).unwrap();
                    files.note(states.len() as u64 - 1);
                }
                let keys = taken.let_go(run.transaction.tx());
                transactions.end(run.transaction);
                for key in keys {
                    match tree(&pool).settle(&key) {
                        Ok(_) | Err(PagedError::LogFull { .. }) => {}
                        Err(error) => panic!("seed {seed}: {error}"),
                    }
                }
            }
            16 if !running.is_empty() => {
                let mut run = running.swap_remove(pick);
                undone += undo::abort(&*log, &mut run.transaction, &pool).unwrap();
                taken.let_go(run.transaction.tx());
                transactions.end(run.transaction);
            }
            17 => {
                pool.clean_some(log.end()).unwrap();
            }
            18 if log.is_due() => {
                take(if random.random() { log.end() } else { log.start() });
                checkpoints += 1;
            }
            _ => {}
        }
    }
    assert!(pool.stats().evictions > 50, "the data were larger than the pool");
    Run { trace: files.stop(), states, full, undone, checkpoints }
}

fn recover(files: &RecordingFiles, states: &[Model]) -> Result<(usize, Restarted, u64)> {
    let log = Arc::new(Log::open(files, "log-", options(), Arc::default())?);
    let pool: TestPool = Pool::open(files, "", 8, log.clone())?;
    let transactions = Transactions::new();
    let restarted = restart(&*log, &transactions, &pool)?;
    checkpoint::take(&*log, &pool, &transactions, log.end())?;
    let checked = pool.check()?;
    assert_eq!(checked.lost, 0, "no page is lost");
    let tree = pool.tree(TREE)?.expect("the tree");
    let there: Model = rows(&tree, Direction::Forward).into_iter().collect();
    let found = states.iter().rposition(|state| *state == there);
    Ok((found.expect("the state after some number of commits"), restarted, pool.stats().restored))
}

#[derive(Default, Debug)]
struct Explored {
    states: u64,
    failures: u64,
    first: Option<String>,
    restored: u64,
    undone: u64,
}

/// Recovers what a power cut may leave before every `every`-th event.
fn explore(trace: &DiskTrace, states: &[Model], every: u64, bound: u64) -> Explored {
    let (mut explored, mut replay, mut number) = (Explored::default(), DiskReplay::new(trace), 0);
    while let Some(point) = replay.next_point() {
        number += 1;
        let Some(noted) = point.last_note else { continue };
        if number % every != 0 {
            continue;
        }
        let position = point.position;
        let seen = point.for_each_state(bound, number, |image| {
            let files = RecordingFiles::from_image(image.clone());
            let recovered =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| recover(&files, states)));
            let why = match recovered {
                Err(_) => "it panicked".into(),
                Ok(Err(error)) => error.to_string(),
                Ok(Ok((commits, ..))) if (commits as u64) < noted => {
                    format!("{commits} commits, {noted} acknowledged")
                }
                Ok(Ok((_, restarted, restored))) => {
                    explored.restored += restored;
                    explored.undone += restarted.undone;
                    return;
                }
            };
            explored.failures += 1;
            explored.first.get_or_insert(format!("before event {position}: {why}"));
        });
        explored.states += seen.visited;
    }
    explored
}

#[test]
fn a_power_cut_anywhere_leaves_what_was_acknowledged() {
    let (mut states, mut restored, mut undone, mut full, mut taken_back, mut checkpoints) =
        (0, 0, 0, 0, 0, 0);
    for seed in 70..74 {
        let run = run(seed, 1500);
        let explored = explore(&run.trace, &run.states, 23, 3);
        assert_eq!(explored.failures, 0, "seed {seed}: {explored:?}");
        states += explored.states;
        restored += explored.restored;
        undone += explored.undone;
        full += run.full;
        taken_back += run.undone;
        checkpoints += run.checkpoints;
    }
    assert!(states > 200 && restored > 20 && undone > 200, "{states}, {restored}, {undone}");
    assert!(taken_back > 50 && checkpoints > 5, "{full}, {taken_back}, {checkpoints}");
}

#[test]
fn a_power_cut_in_recovery_is_a_power_cut_like_any_other() {
    let run = run(75, 900);
    let mut images = Vec::new();
    let mut replay = DiskReplay::new(&run.trace);
    while let Some(point) = replay.next_point() {
        if let (Some(noted), 0) = (point.last_note, point.position % 101) {
            point.for_each_state(1, 5, |image| images.push((image.clone(), noted)));
        }
    }
    let mut states = 0;
    for (image, noted) in images.iter().take(12) {
        let files = RecordingFiles::from_image(image.clone());
        files.start();
        files.note(*noted);
        recover(&files, &run.states).unwrap();
        let explored = explore(&files.stop(), &run.states, 13, 2);
        assert_eq!(explored.failures, 0, "{explored:?}");
        states += explored.states;
    }
    assert!(states > 20, "{states}");
}

#[test]
fn each_sync_that_is_left_out_is_noticed() {
    let run = run(76, 1500);
    let mut noticed = BTreeSet::new();
    let mut sites = BTreeSet::new();
    for site in run.trace.sync_sites() {
        let name = format!("{site:?}");
        if !name.contains("pool/") {
            continue;
        }
        sites.insert(name.clone());
        for every in [31, 7] {
            let explored = explore(&run.trace.without_syncs_of(site), &run.states, every, 6);
            if explored.failures > 0 {
                noticed.insert(name.clone());
                break;
            }
        }
    }
    assert!(sites.len() >= 2, "{sites:?}");
    assert_eq!(noticed, sites);
}
