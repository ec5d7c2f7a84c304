//! Many threads: sums that stay the same show that transactions do not see halves of each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use paged::PagedError;
use pm::RecordingFiles;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::support::{ALL, TREES, TestSession, create, open, rows};
use paged::tree::Direction;

const ACCOUNTS: u64 = 60;
const THREADS: u64 = 4;

fn amount(row: &[u8]) -> i64 {
    i64::from_le_bytes(row[..8].try_into().expect("an amount"))
}

/// Moves money from one account to another, through `missing` accounts, too: an account without money
/// is deleted, and made again by the next who pays into it.
fn transfer(session: &mut TestSession, random: &mut StdRng) -> paged::Result<()> {
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

fn sum(session: &mut TestSession, direction: Direction) -> paged::Result<i64> {
    let mut sum = 0;
    session.scan(TREES[0], &ALL, direction, &mut |_, row| {
        sum += amount(row);
        Ok(true)
    })?;
    Ok(sum)
}

#[test]
fn a_sum_over_all_rows_stays_what_it_is() {
    let files = RecordingFiles::new();
    let store = create(&files, 48, 256 << 10);
    let ages = AtomicU64::new(1);
    let (committed, conflicts) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, ages) = (Arc::clone(&store), &ages);
            let (committed, conflicts) = (&committed, &conflicts);
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(thread);
                let mut session = store.session();
                for turn in 0..150 {
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
                                committed.fetch_add(1, Ordering::Relaxed);
                                random = again;
                                break;
                            }
                            Err(PagedError::Conflict(_)) => {
                                session.abort().expect("aborted");
                                conflicts.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(committed.load(Ordering::Relaxed), THREADS * 150);
    let before = rows(&store, TREES[0], Direction::Forward).expect("rows");
    assert_eq!(before.iter().map(|(_, row)| amount(row)).sum::<i64>(), 0);
    assert_eq!(store.lock_counts().held, 0, "nobody holds a lock at the end");
    drop(store);
    let store = open(&RecordingFiles::from_image(files.image()), 48, 256 << 10).expect("opened");
    assert_eq!(rows(&store, TREES[0], Direction::Forward).expect("rows"), before);
    store.pool().check().expect("sound");
}
