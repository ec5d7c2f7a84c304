//! Many threads: sums that stay the same show that transactions do not see halves of each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use paged::PagedError;
use paged::latch::{Followed, Latched};
use paged::store::Store;
use paged::threads::Baton;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sim::RecordingFiles;

use super::support::{ALL, TREES, TestSession, create, create_by, open, rows};
use paged::tree::Direction;

const ACCOUNTS: u64 = 60;
const THREADS: u64 = 4;

fn amount(row: &[u8]) -> i64 {
    i64::from_le_bytes(row[..8].try_into().expect("an amount"))
}

/// Moves money from one account to another, through `missing` accounts, too: an account without
/// money is deleted, and made again by the next payment into it.
fn transfer<T: Latched>(session: &mut TestSession<T>, random: &mut StdRng) -> paged::Result<()> {
    let pick = |random: &mut StdRng| random.random_range(0..ACCOUNTS).to_be_bytes();
    let (from, to, sum) = (pick(random), pick(random), random.random_range(1..100));
    if from == to {
        return Ok(());
    }
    for (account, change) in [(from, -sum), (to, sum)] {
        let before = session.get_for_update(TREES[0], &account)?;
        let after = before.as_deref().map_or(0, amount) + change;
        match (before, after) {
            (Some(_), 0) => session.delete(TREES[0], &account)?,
            (None, 0) => {}
            (Some(_), after) => session.update(TREES[0], &account, &after.to_le_bytes())?,
            (None, after) => session.insert(TREES[0], &account, &after.to_le_bytes())?,
        }
    }
    Ok(())
}

fn sum<T: Latched>(session: &mut TestSession<T>, direction: Direction) -> paged::Result<i64> {
    let mut sum = 0;
    session.scan(TREES[0], &ALL, direction, &mut |_, row| {
        sum += amount(row);
        Ok(true)
    })?;
    Ok(sum)
}

/// Transactions of one thread: transfers, and looks at all accounts. Returns how many times one was
/// a victim.
fn work<T: Latched>(
    store: &Arc<Store<RecordingFiles, T>>,
    seed: u64,
    ages: &AtomicU64,
    transactions: u64,
) -> u64 {
    let mut random = StdRng::seed_from_u64(seed);
    let mut session = store.session();
    let mut conflicts = 0;
    for turn in 0..transactions {
        let age = ages.fetch_add(1, Ordering::Relaxed);
        loop {
            session.begin(age, None);
            let mut again = random.clone();
            let done = match turn % 5 {
                0 => sum(&mut session, Direction::Forward).map(Some),
                1 => sum(&mut session, Direction::Backward).map(Some),
                _ => transfer(&mut session, &mut again).map(|()| None),
            };
            match done {
                Ok(seen) => {
                    let at = session.commit().expect("committed");
                    store.wait(at).expect("durable");
                    assert_eq!(seen.unwrap_or(0), 0, "the sum of all accounts");
                    random = again;
                    break;
                }
                Err(PagedError::Conflict(_)) => {
                    session.abort().expect("aborted");
                    conflicts += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    conflicts
}

#[test]
fn a_sum_over_all_rows_stays_what_it_is() {
    let files = RecordingFiles::new();
    let store = create(&files, 48, 256 << 10);
    let ages = AtomicU64::new(1);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, ages) = (&store, &ages);
            scope.spawn(move || work(store, thread, ages, 150));
        }
    });
    let before = rows(&store, TREES[0], Direction::Forward).expect("rows");
    assert_eq!(before.iter().map(|(_, row)| amount(row)).sum::<i64>(), 0);
    assert_eq!(store.lock_counts().held, 0, "nobody holds a lock at the end");
    drop(store);
    let store = open(&RecordingFiles::from_image(files.image()), 48, 256 << 10).expect("opened");
    assert_eq!(rows(&store, TREES[0], Direction::Forward).expect("rows"), before);
    store.pool().check().expect("sound");
}

/// Interleavings that follow from a seed: threads change places at every lock, latch and mutex, and
/// wait by the baton's clock. Checkpoints run at the same time.
#[test]
fn interleavings_follow_from_a_seed_and_keep_the_sum() {
    let run = |seed: u64| {
        let files = RecordingFiles::new();
        let baton = Arc::new(Baton::new(seed));
        let store = create_by(Arc::clone(&baton), &files, 24, 16 << 10);
        let (ages, conflicts) = (AtomicU64::new(1), AtomicU64::new(0));
        files.start();
        baton.run(3, |thread| {
            Followed::by(baton.clone(), || {
                let victims = work(&store, 10 * seed + thread as u64, &ages, 20);
                conflicts.fetch_add(victims, Ordering::Relaxed);
            });
        });
        assert_eq!(store.lock_counts().held, 0, "nobody holds a lock at the end");
        store.pool().check().expect("sound");
        let events = files.stop().events.into_iter().map(|record| record.event);
        (events.collect::<Vec<_>>(), conflicts.into_inner(), store.lock_counts().waits)
    };
    let (mut conflicts, mut waits) = (0, 0);
    for seed in 0..12 {
        let (events, victims, waited) = run(seed);
        (conflicts, waits) = (conflicts + victims, waits + waited);
        assert!(seed % 6 != 0 || run(seed).0 == events, "seed {seed}: another order");
    }
    println!("{conflicts} conflicts, {waits} waits");
    assert!(conflicts > 0 && waits > 100);
}

/// A transaction that was refused a lock has done half of its work, which cannot be committed.
#[test]
fn a_transaction_that_was_refused_a_lock_can_only_be_aborted() {
    let mut victims = 0;
    for seed in 0..10 {
        let baton = Arc::new(Baton::new(seed));
        let store = create_by(Arc::clone(&baton), &RecordingFiles::new(), 16, 64 << 10);
        let committed = [AtomicU64::new(0), AtomicU64::new(0)];
        baton.run(2, |thread| {
            Followed::by(baton.clone(), || {
                let mut session = store.session();
                session.begin(thread as u64, None);
                session.insert(TREES[thread], b"a", b"row").expect("inserted");
                match session.get_for_update(TREES[1 - thread], b"a") {
                    Ok(_) => {
                        session.commit().expect("committed");
                        committed[thread].store(1, Ordering::Relaxed);
                    }
                    Err(PagedError::Conflict(_)) => {
                        let refused = session.commit();
                        assert!(matches!(refused, Err(PagedError::Conflict(_))), "{refused:?}");
                        session.abort().expect("aborted");
                    }
                    Err(error) => panic!("{error}"),
                }
            });
        });
        let mut session = store.session();
        session.begin(9, None);
        for (tree, committed) in TREES.into_iter().zip(committed) {
            let there = session.get(tree, b"a").expect("read").is_some();
            assert_eq!(there, committed.into_inner() == 1, "seed {seed}");
            victims += u64::from(!there);
        }
    }
    assert!(victims > 2, "{victims}");
}
