//! Locks: a model over interleavings, circles, wakeups, phantoms, early release, inheritance.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use paged::ids::{Lsn, TreeNo};
use paged::lock::{Gap, LockMode, LockOptions, LockTable, Locks, Mode, Name};
use paged::threads::{Baton, Host, Threads};
use paged::{Conflict, PagedError, Result};
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const TABLE: Name = Name::Table(TreeNo(1));

fn row(key: u64) -> Name {
    Name::row(TreeNo(1), &key.to_be_bytes())
}

fn table<T: Threads>(threads: Arc<T>, inherit_after: Option<u64>) -> Arc<LockTable<T>> {
    LockTable::new(threads, LockOptions { inherit_after, ..LockOptions::default() })
}

fn is_deadlock(error: &PagedError) -> bool {
    matches!(error, PagedError::Conflict(Conflict::Deadlock))
}

/// One row of the model: the number of its version, and the transactions that have read and written
/// each.
#[derive(Default)]
struct History {
    version: u64,
    /// By version: the transaction that wrote it, and those that read it.
    writers: BTreeMap<u64, u64>,
    readers: BTreeMap<u64, BTreeSet<u64>>,
}

/// The rows with versions that a committed transaction has read and written.
#[derive(Default)]
struct Did {
    reads: Vec<(usize, u64)>,
    writes: Vec<(usize, u64)>,
}

/// Returns whether the transactions could have run one after the other: no circle of "wrote
/// before", "was read by" and "was read before it was overwritten".
fn is_serializable(histories: &[History], committed: u64) -> bool {
    let mut edges: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    let mut edge = |from: u64, to: u64| {
        if from != to {
            edges.entry(from).or_default().insert(to);
        }
    };
    for history in histories {
        for (version, writer) in &history.writers {
            if let Some(next) = history.writers.get(&(version + 1)) {
                edge(*writer, *next);
            }
            for reader in history.readers.get(version).into_iter().flatten() {
                edge(*writer, *reader);
            }
        }
        for (version, readers) in &history.readers {
            if let Some(next) = history.writers.get(&(version + 1)) {
                for reader in readers {
                    edge(*reader, *next);
                }
            }
        }
    }
    // Transactions without an incoming edge go, until none is left or none can go.
    let mut left: BTreeSet<u64> = (1..=committed).collect();
    loop {
        let targets: BTreeSet<u64> = edges
            .iter()
            .filter(|(from, _)| left.contains(from))
            .flat_map(|(_, to)| to.iter().copied())
            .collect();
        let before = left.len();
        left.retain(|tx| targets.contains(tx));
        if left.is_empty() {
            return true;
        }
        if left.len() == before {
            return false;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// Reads take no locks.
    ReadsUnlocked,
    /// Locks of reads are let go at once, and those of writes are taken later.
    ReadsLetGo,
}

struct Outcome {
    serializable: bool,
    victims: u64,
    waits: u64,
    inherited: u64,
}

/// Threads with random transactions over a few rows; every one commits in the end.
fn run_model(seed: u64, wrong: Wrong, inherit_after: Option<u64>) -> Outcome {
    const THREADS: usize = 4;
    const EACH: u64 = 12;
    const ROWS: u64 = 4;
    let baton = Arc::new(Baton::new(seed));
    let locks = table(Arc::clone(&baton), inherit_after);
    let histories: Vec<Mutex<History>> = (0..ROWS).map(|_| Mutex::default()).collect();
    let (ages, commits) = (AtomicU64::new(1), AtomicU64::new(0));
    baton.run(THREADS, |thread| {
        let mut session = locks.session();
        let mut random = SmallRng::seed_from_u64(seed * 10 + thread as u64);
        for _ in 0..EACH {
            let age = ages.fetch_add(1, Ordering::Relaxed);
            let plan: Vec<(usize, u8)> = (0..random.random_range(1..5))
                .map(|_| (random.random_range(0..ROWS) as usize, random.random_range(0..4)))
                .collect();
            loop {
                session.begin(age);
                let mut did = Did::default();
                let mut attempt = || -> Result<()> {
                    for (key, what) in &plan {
                        baton.point();
                        let name = row(*key as u64);
                        match what {
                            0 | 1 => {
                                session.lock(TABLE, Mode::IntentShared)?;
                                if wrong != Wrong::ReadsUnlocked {
                                    session.lock(name, Mode::Shared)?;
                                }
                            }
                            2 => {
                                session.lock(TABLE, Mode::IntentExclusive)?;
                                session.lock(name, Mode::Exclusive)?;
                            }
                            _ => {
                                session.lock(TABLE, Mode::IntentExclusive)?;
                                session.lock(name, Mode::Update)?;
                            }
                        }
                        let mine = did.writes.iter().any(|(row, _)| row == key);
                        if !mine {
                            did.reads.push((*key, histories[*key].lock().version));
                        }
                        if wrong == Wrong::ReadsLetGo && session.holds(name).mode == Mode::Shared {
                            session.unlock(name);
                        }
                        if *what >= 2 {
                            baton.point();
                            session.lock(name, Mode::Exclusive)?;
                            if !mine {
                                let mut history = histories[*key].lock();
                                history.version += 1;
                                did.writes.push((*key, history.version));
                            }
                        }
                    }
                    Ok(())
                };
                match attempt() {
                    Ok(()) => {
                        let tx = commits.fetch_add(1, Ordering::Relaxed) + 1;
                        for (key, version) in did.reads {
                            let mut history = histories[key].lock();
                            history.readers.entry(version).or_default().insert(tx);
                        }
                        for (key, version) in did.writes {
                            histories[key].lock().writers.insert(version, tx);
                        }
                        session.release(Lsn(tx));
                        break;
                    }
                    Err(error) => {
                        assert!(is_deadlock(&error), "seed {seed}: {error}");
                        // Undone under its locks.
                        for (key, version) in did.writes {
                            let mut history = histories[key].lock();
                            assert_eq!(history.version, version, "seed {seed}: overwritten");
                            history.version -= 1;
                        }
                        let again = session.lock(row(0), Mode::Shared);
                        assert!(again.is_err_and(|error| is_deadlock(&error)), "it is doomed");
                        session.release(Lsn::NONE);
                    }
                }
            }
        }
    });
    let committed = commits.load(Ordering::Relaxed);
    assert_eq!(committed, THREADS as u64 * EACH, "seed {seed}");
    let counts = locks.counts();
    assert_eq!((counts.held, counts.timeouts), (0, 0), "seed {seed}");
    let histories: Vec<History> = histories.into_iter().map(Mutex::into_inner).collect();
    Outcome {
        serializable: is_serializable(&histories, committed),
        victims: counts.victims,
        waits: counts.waits,
        inherited: counts.inherited,
    }
}

/// Lets the other threads go on for some time, as the baton counts it.
fn pause(baton: &Baton, micros: u64) {
    let until = baton.now() + Duration::from_micros(micros);
    baton.park(&paged::threads::Waiter::default(), Some(until));
}

#[test]
fn random_transactions_are_serializable_with_and_without_inheritance() {
    let (mut victims, mut waits, mut inherited) = (0, 0, 0);
    for seed in 0..150 {
        let outcome = run_model(seed, Wrong::Nothing, (seed % 2 == 1).then_some(4));
        assert!(outcome.serializable, "seed {seed}");
        victims += outcome.victims;
        waits += outcome.waits;
        inherited += outcome.inherited;
        assert!(seed % 2 == 1 || outcome.inherited == 0);
    }
    println!("{victims} victims, {waits} waits, {inherited} inherited locks");
    assert!(victims > 50 && waits > 1000 && inherited > 500);
}

#[test]
fn transactions_that_lock_too_little_are_noticed() {
    for wrong in [Wrong::ReadsUnlocked, Wrong::ReadsLetGo] {
        assert!((0..20).any(|seed| !run_model(seed, wrong, None).serializable));
    }
}

/// Runs transactions that each lock some rows in an order of their own, until all have committed.
fn contend(seed: u64, orders: &[Vec<(u64, Mode)>]) -> (u64, BTreeSet<usize>) {
    let baton = Arc::new(Baton::new(seed));
    let locks = table(Arc::clone(&baton), None);
    let victims = Mutex::new(BTreeSet::new());
    baton.run(orders.len(), |thread| {
        let mut session = locks.session();
        loop {
            session.begin(thread as u64);
            let mut attempt = || -> Result<()> {
                for (key, mode) in &orders[thread] {
                    session.lock(row(*key), *mode)?;
                    baton.park(
                        &paged::threads::Waiter::default(),
                        Some(baton.now() + Duration::from_micros(30)),
                    );
                }
                Ok(())
            };
            let done = attempt();
            session.release(Lsn::NONE);
            match done {
                Ok(()) => break,
                Err(error) => {
                    assert!(is_deadlock(&error), "{error}");
                    victims.lock().insert(thread);
                }
            }
        }
    });
    let counts = locks.counts();
    assert_eq!((counts.held, counts.timeouts), (0, 0));
    (counts.victims, victims.into_inner())
}

#[test]
fn a_circle_ends_with_its_youngest_as_the_victim() {
    let x = Mode::Exclusive;
    for seed in 0..40 {
        for size in 2..6_u64 {
            let orders: Vec<_> = (0..size).map(|n| vec![(n, x), ((n + 1) % size, x)]).collect();
            let (victims, who) = contend(seed, &orders);
            if victims > 0 {
                assert!(who.contains(&(size as usize - 1)), "seed {seed}: {who:?}");
                assert!(!who.contains(&0), "the oldest is never one");
            }
        }
        let upgrade = vec![(1, Mode::Shared), (1, x)];
        let (victims, who) = contend(seed, &[upgrade.clone(), upgrade.clone(), upgrade]);
        assert!(victims > 0 && !who.contains(&0), "seed {seed}: {who:?}");
        // A transaction that reads with U to write does not run into a circle.
        let update = vec![(1, Mode::Update), (1, x)];
        assert_eq!(contend(seed, &[update.clone(), update.clone(), update]).0, 0);
    }
}

#[test]
fn a_circle_of_two_always_has_exactly_one_victim() {
    let mut circles = 0;
    for seed in 0..100 {
        let (a, b) = ((1, Mode::Exclusive), (2, Mode::Exclusive));
        let (victims, who) = contend(seed, &[vec![a, b], vec![b, a]]);
        assert!(victims <= 1 && who.iter().all(|thread| *thread == 1), "seed {seed}");
        circles += victims;
    }
    assert!(circles > 20, "{circles}");
}

#[test]
fn threads_of_the_system_lose_no_wakeup_and_leave_no_lock() {
    for round in 0..20 {
        // A wait that takes so long is one that no thread ends, not a machine that is busy.
        let timeout = Duration::from_secs(60);
        let inherit_after = (round % 2 == 0).then_some(4);
        let options = LockOptions { inherit_after, timeout, ..LockOptions::default() };
        let locks = LockTable::new(Arc::new(Host::default()), options);
        let inside: Vec<AtomicU64> = (0..3).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..6_u64 {
                let (locks, inside) = (&locks, &inside);
                scope.spawn(move || {
                    let mut session = locks.session();
                    let mut random = SmallRng::seed_from_u64(round * 100 + thread);
                    for turn in 0..100 {
                        let first = random.random_range(0..3);
                        let second = random.random_range(0..3);
                        loop {
                            session.begin(turn * 10 + thread);
                            let mut attempt = || -> Result<()> {
                                session.lock(TABLE, Mode::IntentExclusive)?;
                                session.lock(row(first), Mode::Exclusive)?;
                                session.lock(row(second), Mode::Exclusive)
                            };
                            let done = attempt();
                            if done.is_ok() {
                                let one = &inside[first as usize];
                                assert_eq!(one.fetch_add(1, Ordering::SeqCst), 0);
                                std::thread::yield_now();
                                assert_eq!(one.fetch_sub(1, Ordering::SeqCst), 1);
                            }
                            session.release(Lsn::NONE);
                            match done {
                                Ok(()) => break,
                                Err(error) => assert!(is_deadlock(&error), "{error}"),
                            }
                        }
                    }
                });
            }
        });
        let counts = locks.counts();
        assert_eq!((counts.held, counts.timeouts), (0, 0), "round {round}");
    }
}

/// Readers that scan twice, writers that insert; returns whether a reader saw a phantom.
fn scans(seed: u64, gaps: bool) -> bool {
    let baton = Arc::new(Baton::new(seed));
    let locks = table(Arc::clone(&baton), None);
    let keys: Mutex<BTreeSet<u64>> = Mutex::new([10, 20, 30, 40].into());
    let phantoms = AtomicU64::new(0);
    let name_from = |keys: &BTreeSet<u64>, from: u64| {
        keys.range(from..).next().map_or((Name::End(TreeNo(1)), u64::MAX), |key| (row(*key), *key))
    };
    baton.run(4, |thread| {
        let mut session = locks.session();
        let mut random = SmallRng::seed_from_u64(seed * 10 + thread as u64);
        for turn in 0..8 {
            let age = turn * 4 + thread as u64;
            let scan = |session: &mut Locks<Baton>, low: u64, high: u64| -> Result<Vec<u64>> {
                let (mut found, mut from) = (Vec::new(), low);
                loop {
                    let (name, key) = name_from(&keys.lock(), from);
                    let gap = if gaps { Gap::Shared } else { Gap::None };
                    session.lock(name, LockMode::row(Mode::Shared, gap))?;
                    if name_from(&keys.lock(), from).1 != key {
                        continue;
                    }
                    if key > high {
                        return Ok(found);
                    }
                    found.push(key);
                    from = key + 1;
                }
            };
            let low = random.random_range(0..45);
            let high = low + random.random_range(0..20);
            loop {
                session.begin(age);
                let mut inserted = None;
                let mut attempt = || -> Result<()> {
                    if thread % 2 == 0 {
                        let first = scan(&mut session, low, high)?;
                        baton.point();
                        let second = scan(&mut session, low, high)?;
                        phantoms.fetch_add(u64::from(first != second), Ordering::Relaxed);
                        return Ok(());
                    }
                    loop {
                        let (next, key) = name_from(&keys.lock(), low);
                        if key == low {
                            return Ok(());
                        }
                        session.lock_insert(row(low), next)?;
                        if name_from(&keys.lock(), low).1 == key {
                            break;
                        }
                    }
                    keys.lock().insert(low);
                    inserted = Some(low);
                    baton.point();
                    // It sees its own insert, and no other's.
                    let before = scan(&mut session, low, high)?;
                    assert!(before.contains(&low));
                    Ok(())
                };
                let done = attempt();
                if done.is_err()
                    && let Some(key) = inserted
                {
                    keys.lock().remove(&key);
                }
                session.release(Lsn::NONE);
                match done {
                    Ok(()) => break,
                    Err(error) => assert!(is_deadlock(&error), "seed {seed}: {error}"),
                }
            }
        }
    });
    assert_eq!(locks.counts().held, 0);
    phantoms.load(Ordering::Relaxed) > 0
}

#[test]
fn a_scan_that_is_repeated_sees_no_phantom() {
    for seed in 0..80 {
        assert!(!scans(seed, true), "seed {seed}");
    }
    assert!((0..80).any(|seed| scans(seed, false)), "without locks of gaps there are some");
}

#[test]
fn the_gap_stays_locked_where_a_key_splits_it() {
    let locks = table(Arc::new(Host::default()), None);
    let (mut own, mut other) = (locks.session(), locks.session());
    own.begin(1);
    own.lock(row(20), LockMode::row(Mode::Shared, Gap::Shared)).unwrap();
    own.lock_insert(row(15), row(20)).unwrap();
    assert_eq!(own.holds(row(15)), LockMode::row(Mode::Exclusive, Gap::Shared));
    assert_eq!(own.holds(row(20)), LockMode::row(Mode::Shared, Gap::Both));
    other.begin(2);
    assert!(!other.try_lock(row(15), Gap::Insert).unwrap(), "12 is not inserted before 15");
    assert!(!other.try_lock(row(20), Gap::Insert).unwrap(), "nor 17 before 20");
    assert!(!locks.is_free(row(15)));
    own.release(Lsn::NONE);
    assert!(other.try_lock(row(15), Gap::Insert).unwrap() && locks.is_free(row(20)));
}

#[test]
fn who_gets_what_was_let_go_early_depends_on_the_commit() {
    let locks = table(Arc::new(Host::default()), None);
    let (mut writer, mut reader) = (locks.session(), locks.session());
    let commit = |writer: &mut Locks<Host>, key, at| {
        writer.begin(1);
        writer.lock(TABLE, Mode::IntentExclusive).unwrap();
        writer.lock(row(key), Mode::Exclusive).unwrap();
        writer.release(Lsn(at));
    };
    commit(&mut writer, 1, 100);
    commit(&mut writer, 2, 90);
    let depends = |reader: &mut Locks<Host>, name, mode| {
        reader.begin(2);
        reader.lock(name, mode).unwrap();
        let depends = reader.depends();
        reader.release(Lsn::NONE);
        depends
    };
    assert_eq!(depends(&mut reader, row(1), Mode::Shared), Lsn(100));
    assert_eq!(depends(&mut reader, row(1), Mode::Shared), Lsn(100), "also after a reader");
    assert_eq!(depends(&mut reader, row(2), Mode::Exclusive), Lsn(90));
    assert_eq!(depends(&mut reader, TABLE, Mode::IntentExclusive), Lsn::NONE);
    assert_eq!(depends(&mut reader, TABLE, Mode::Shared), Lsn(100), "it reads rows without locks");
    let alone = (3..40).filter(|key| depends(&mut reader, row(*key), Mode::Shared) == Lsn::NONE);
    assert!(alone.count() > 30, "what was not written depends on nothing");
    // A request that waits gets the LSN, too.
    writer.begin(1);
    writer.lock(row(1), Mode::Exclusive).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| depends(&mut reader, row(1), Mode::Shared));
        while locks.counts().waits == 0 {
            std::thread::yield_now();
        }
        writer.release(Lsn(200));
        assert_eq!(waiting.join().unwrap(), Lsn(200));
    });
    assert_eq!(locks.counts().held, 0);
}

/// Names that are not held share what is remembered of their commits, and one may have been held
/// since before a newer commit of another.
#[test]
fn a_remembered_commit_never_grows_older() {
    const NAMES: u64 = 1000;
    let options = LockOptions { shards: 1, ..LockOptions::default() };
    let locks = LockTable::new(Arc::new(Host::default()), options);
    let (mut holder, mut writer, mut reader) = (locks.session(), locks.session(), locks.session());
    for written in [NAMES, NAMES + 1] {
        holder.begin(1);
        (0..NAMES).for_each(|key| holder.lock(row(key), Mode::Shared).unwrap());
        writer.begin(2);
        writer.lock(row(written), Mode::Exclusive).unwrap();
        writer.release(Lsn(70 + written));
        holder.release(Lsn::NONE);
        reader.begin(3);
        reader.lock(row(written), Mode::Shared).unwrap();
        assert_eq!(reader.depends(), Lsn(70 + written));
        reader.release(Lsn::NONE);
    }
}

#[test]
fn a_session_keeps_the_lock_of_a_table_that_everybody_uses() {
    let locks = table(Arc::new(Host::default()), Some(3));
    let mut session = locks.session();
    for turn in 1..=10 {
        session.begin(turn);
        session.lock(TABLE, Mode::IntentExclusive).unwrap();
        session.lock(row(1), Mode::Exclusive).unwrap();
        session.release(Lsn(turn));
    }
    let counts = locks.counts();
    assert_eq!((counts.inherited, counts.requests, counts.held), (7, 3 + 10, 1));
    // Another one wants the table: the kept lock is taken, and the commits under it are known.
    let mut other = locks.session();
    other.begin(11);
    other.lock(TABLE, Mode::Shared).unwrap();
    assert_eq!((other.depends(), locks.counts().waits, locks.counts().held), (Lsn(10), 0, 1));
    session.begin(12);
    assert!(!session.try_lock(TABLE, Mode::IntentExclusive).unwrap(), "it has gone");
    other.release(Lsn::NONE);
    session.lock(TABLE, Mode::IntentExclusive).unwrap();
    session.release(Lsn(12));
    // A lock in use is waited for, and let go at the end.
    session.begin(13);
    session.lock(TABLE, Mode::IntentExclusive).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            other.begin(14);
            other.lock(TABLE, Mode::Shared).unwrap();
            other.depends()
        });
        while locks.counts().waits == 0 {
            std::thread::yield_now();
        }
        session.release(Lsn(13));
        assert_eq!(waiting.join().unwrap(), Lsn(13));
    });
    other.release(Lsn::NONE);
    // A lock that a transaction does not use is not kept for another.
    session.begin(15);
    session.lock(TABLE, Mode::IntentShared).unwrap();
    session.release(Lsn::NONE);
    session.begin(16);
    session.release(Lsn::NONE);
    drop((session, other));
    assert_eq!(locks.counts().held, 0);
}

#[test]
fn who_waits_too_long_is_doomed_and_the_next_is_served() {
    let baton = Arc::new(Baton::new(3));
    let locks = table(Arc::clone(&baton), None);
    let order = Mutex::new(Vec::new());
    let pause = |micros| pause(&baton, micros);
    baton.run(3, |thread| {
        let mut session = locks.session();
        session.begin(thread as u64);
        match thread {
            0 => {
                session.lock(row(1), Mode::Shared).unwrap();
                pause(2_000_000);
            }
            1 => {
                pause(100);
                let refused = session.lock(row(1), Mode::Exclusive).unwrap_err();
                assert!(matches!(refused, PagedError::Conflict(Conflict::Timeout)));
            }
            _ => {
                pause(200);
                session.lock(row(1), Mode::Shared).unwrap();
            }
        }
        order.lock().push(thread);
        session.release(Lsn::NONE);
    });
    assert_eq!(order.lock().last(), Some(&0), "the reader behind the writer was served before");
    assert_eq!((locks.counts().timeouts, locks.counts().held), (1, 0));
}

#[test]
fn the_number_of_locks_has_a_limit() {
    let options = LockOptions { most: 10, ..LockOptions::default() };
    let locks = LockTable::new(Arc::new(Host::default()), options);
    let mut session = locks.session();
    session.begin(1);
    for key in 0..10 {
        session.lock(row(key), Mode::Shared).unwrap();
        session.lock(row(key), Mode::Exclusive).unwrap();
    }
    let refused = session.lock(row(10), Mode::Shared).unwrap_err();
    assert!(matches!(refused, PagedError::TooManyLocks { most: 10 }), "{refused}");
    session.lock(row(3), Mode::Shared).unwrap();
    session.release(Lsn::NONE);
    session.begin(2);
    session.lock(row(10), Mode::Shared).unwrap();
}

#[test]
fn who_reads_a_whole_table_depends_on_what_its_session_wrote_under_a_kept_lock() {
    let locks = table(Arc::new(Host::default()), Some(1));
    let mut session = locks.session();
    session.begin(1);
    session.lock(TABLE, Mode::IntentExclusive).unwrap();
    session.lock(row(1), Mode::Exclusive).unwrap();
    session.release(Lsn(50));
    session.begin(2);
    session.lock(TABLE, Mode::Shared).unwrap();
    assert_eq!(locks.counts().inherited, 1, "the lock was kept");
    assert_eq!(session.depends(), Lsn(50), "its rows are read without locks");
    session.release(Lsn::NONE);
    // So does the next transaction of a session that has kept such a lock.
    let mut reader = locks.session();
    for inherited in [1, 2] {
        reader.begin(3);
        reader.lock(TABLE, Mode::Shared).unwrap();
        assert_eq!((reader.depends(), locks.counts().inherited), (Lsn(50), inherited));
        reader.release(Lsn::NONE);
    }
}

/// One of two readers of a row wants to write it, after a third session asked for it exclusively.
#[test]
fn a_holder_that_wants_more_goes_before_those_that_wait() {
    let baton = Arc::new(Baton::new(4));
    let locks = table(Arc::clone(&baton), None);
    let order = Mutex::new(Vec::new());
    let pause = |micros| pause(&baton, micros);
    baton.run(3, |thread| {
        let mut session = locks.session();
        session.begin(thread as u64);
        if thread == 2 {
            pause(1_000);
        } else {
            session.lock(row(1), Mode::Shared).unwrap();
            pause([2_000, 4_000][thread]);
        }
        if thread != 1 {
            session.lock(row(1), Mode::Exclusive).unwrap();
            order.lock().push(thread);
        }
        session.release(Lsn::NONE);
    });
    assert_eq!((order.into_inner(), locks.counts().victims), (vec![0, 2], 0));
}

#[test]
fn the_commit_of_a_ghost_that_is_gone_never_grows_older() {
    let locks = table(Arc::new(Host::default()), None);
    let (mut writer, mut reader) = (locks.session(), locks.session());
    for (key, at) in [(1, 100), (2, 90)] {
        writer.begin(key);
        writer.lock(row(key), Mode::Exclusive).unwrap();
        writer.release(Lsn(at));
        locks.ghost_goes(row(key));
        reader.begin(9);
        reader.has_scanned(TABLE);
        assert_eq!(reader.depends(), Lsn(100), "after key {key}");
        reader.release(Lsn::NONE);
    }
}

#[test]
fn a_transaction_with_so_many_locks_has_many() {
    let options = LockOptions { escalate_after: 3, ..LockOptions::default() };
    let locks = LockTable::new(Arc::new(Host::default()), options);
    let mut session = locks.session();
    for turn in 1..3 {
        session.begin(turn);
        for key in 0..5 {
            assert_eq!(session.has_many(), key >= 3, "{key} locks");
            session.lock(row(key), Mode::Shared).unwrap();
        }
        session.release(Lsn::NONE);
    }
}

#[test]
fn a_lock_that_is_waited_for_is_not_kept() {
    let locks = table(Arc::new(Host::default()), Some(1));
    let (mut session, mut other) = (locks.session(), locks.session());
    session.begin(1);
    session.lock(TABLE, Mode::IntentExclusive).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            other.begin(2);
            other.lock(TABLE, Mode::Shared)
        });
        while locks.counts().waits == 0 {
            std::thread::yield_now();
        }
        session.release(Lsn(1));
        waiting.join().unwrap().unwrap();
    });
}
