//! Many threads on few pages, few frames and a small log: rows come, grow, shrink and go, and the
//! program is killed at any moment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use paged::PagedError;
use paged::store::{Restart, RowBound, RowRange, StoreOptions};
use paged::tree::Direction;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sim::RecordingFiles;

use super::support::{TREES, TestSession, TestStore, create_with, open_with, options};

const THREADS: u64 = 4;
const TRANSACTIONS: u64 = 150;
const KILLS: usize = 8;

/// Does a random statement: every row has the sum of its key and its length in its first bytes.
fn step(session: &mut TestSession, random: &mut StdRng) -> paged::Result<()> {
    let tree = TREES[random.random_range(0..2)];
    let number: u16 = random.random_range(0..200);
    let mut key = number.to_be_bytes().to_vec();
    key.resize(2 + usize::from(number % 40), b'k');
    let bytes = match random.random_range(0..20) {
        0 => random.random_range(100..1500),
        _ => random.random_range(8..90),
    };
    let mut row = vec![number as u8; bytes];
    row[..8].copy_from_slice(&(bytes as u64 + u64::from(number)).to_le_bytes());
    let check = |key: &[u8], row: &[u8]| {
        let number = u64::from(u16::from_be_bytes([key[0], key[1]]));
        let sum = u64::from_le_bytes(row[..8].try_into().unwrap());
        assert_eq!(sum, row.len() as u64 + number, "a row is whole");
    };
    match random.random_range(0..12) {
        0..5 => match session.insert(tree, &key, &row) {
            Err(PagedError::Duplicate) => session.update(tree, &key, &row),
            done => done,
        },
        5..8 => match session.delete(tree, &key) {
            Err(PagedError::Missing) => session.insert(tree, &key, &row),
            done => done,
        },
        8 => {
            if let Some(row) = session.get_for_update(tree, &key)? {
                check(&key, &row);
            }
            Ok(())
        }
        9 => {
            if let Some(row) = session.get(tree, &key)? {
                check(&key, &row);
            }
            Ok(())
        }
        _ => {
            let high = (number + 12).to_be_bytes();
            let range =
                RowRange { low: RowBound::Included(&key[..2]), high: RowBound::Excluded(&high) };
            let direction = if random.random() { Direction::Forward } else { Direction::Backward };
            let mut keys = Vec::new();
            session.scan(tree, &range, direction, &mut |key, row| {
                check(key, row);
                keys.push(key.to_vec());
                Ok(true)
            })?;
            let again = keys.clone();
            keys.clear();
            session.scan(tree, &range, direction, &mut |key, _| {
                keys.push(key.to_vec());
                Ok(true)
            })?;
            assert_eq!(keys, again, "a range that was read stays");
            Ok(())
        }
    }
}

/// The key under which a thread counts its commits.
fn counter(thread: u64) -> [u8; 3] {
    [0xff, 0xff, thread as u8]
}

/// Does transactions, and says in `acknowledged` how many of them are durable. Returns how many.
fn work(store: &Arc<TestStore>, seed: u64, thread: u64, acknowledged: &AtomicU64) -> u64 {
    let mut random = StdRng::seed_from_u64(seed * 100 + thread);
    let mut session = store.session();
    let mut committed = 0;
    for number in 0..TRANSACTIONS {
        session.begin(number * THREADS + thread, None);
        let done = transaction(&mut session, &mut random).and_then(|()| {
            let row = (committed + 1_u64).to_le_bytes();
            match committed {
                0 => session.insert(TREES[0], &counter(thread), &row),
                _ => session.update(TREES[0], &counter(thread), &row),
            }
        });
        match done {
            Ok(()) if random.random_ratio(1, 6) => session.abort().expect("aborted"),
            Ok(()) => {
                let at = session.commit().expect("committed");
                store.wait(at).expect("durable");
                committed += 1;
                acknowledged.store(committed, Ordering::SeqCst);
            }
            Err(PagedError::Conflict(_) | PagedError::LogFull { .. }) => {
                session.abort().expect("aborted");
            }
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    committed
}

fn transaction(session: &mut TestSession, random: &mut StdRng) -> paged::Result<()> {
    for _ in 0..random.random_range(1..7) {
        let savepoint = session.savepoint();
        step(session, random)?;
        if random.random_ratio(1, 10) {
            session.rollback_to(savepoint)?;
        }
    }
    Ok(())
}

/// Opens what a kill has left.
fn open_killed(
    image: &BTreeMap<String, Vec<u8>>,
    (partition, of): (u64, StoreOptions),
    acknowledged: &[u64],
) {
    let files = RecordingFiles::from_image(image.clone());
    let store = open_with(&files, partition, of).expect("opened");
    let mut session = store.session();
    session.begin(0, None);
    for (thread, least) in (0..).zip(acknowledged) {
        let row = session.get(TREES[0], &counter(thread)).expect("read");
        let count = row.map_or(0, |row| u64::from_le_bytes(row.try_into().expect("eight bytes")));
        assert!(count >= *least, "{count} commits, {least} acknowledged");
    }
    session.commit().expect("committed");
    drop(session);
    let checked = store.check().expect("whole");
    assert_eq!(checked.lost, 0);
}

fn run(seed: u64) {
    let (frames, partition) =
        ([40, 64, 200][seed as usize % 3], [16 << 10, 64 << 10][seed as usize % 2]);
    let background = seed % 4 < 2;
    let of = StoreOptions { background, restart: Restart::OnDemand, ..options(frames) };
    let files = RecordingFiles::new();
    let store = create_with(&files, partition, of);
    let acknowledged: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    let (mut killed, running) = (Vec::new(), AtomicU64::new(THREADS));
    std::thread::scope(|scope| {
        for (thread, acknowledged) in (0..).zip(&acknowledged) {
            let (store, running) = (&store, &running);
            scope.spawn(move || {
                let committed = work(store, seed, thread, acknowledged);
                running.fetch_sub(1, Ordering::SeqCst);
                assert!(committed > TRANSACTIONS / 4, "seed {seed}: {committed} commits");
            });
        }
        while running.load(Ordering::SeqCst) == THREADS && killed.len() < KILLS {
            let before: Vec<u64> =
                acknowledged.iter().map(|number| number.load(Ordering::SeqCst)).collect();
            killed.push((files.image(), before));
            std::thread::sleep(std::time::Duration::from_millis(3));
        }
    });
    let checked = store.check().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    assert_eq!(checked.lost, 0, "seed {seed}");
    killed.push((files.image(), acknowledged.into_iter().map(AtomicU64::into_inner).collect()));
    drop(store);
    for (image, acknowledged) in &killed {
        open_killed(image, (partition, of), acknowledged);
    }
}

#[test]
fn kills_under_threads_leave_a_whole_store() {
    let seeds: u64 = std::env::var("SEEDS").map_or(2, |seeds| seeds.parse().expect("a number"));
    for seed in 0..seeds {
        run(seed);
    }
}
