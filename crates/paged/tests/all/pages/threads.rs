//! Several threads in one tree.

use std::collections::BTreeSet;
use std::sync::Arc;

use paged::ids::Lsn;
use paged::latch::{Followed, Latching};
use paged::log::{Kind, LogManager};
use paged::pool::Pool;
use paged::threads::Baton;
use paged::tree::{BATCH_ROWS, Batch, Bound, Direction, Inserted, Met, Permitted, Scan};
use parking_lot::Mutex;
use sim::RecordingFiles;

use super::support::{
    AllSettled, Model, Steps, TestLog, assert_same, create, create_over, transaction, tree,
};

/// Each thread has keys of its own, which lie between the others'.
#[test]
fn threads_change_and_read_the_same_pages() {
    const THREADS: u64 = 4;
    let files = RecordingFiles::new();
    let (log, pool) = create(&files, 512, 64);
    pool.set_settled(Arc::new(AllSettled));
    let models: Vec<Model> = std::thread::scope(|scope| {
        let cleaner = scope.spawn(|| (0..50).for_each(|_| pool.clean(log.durable()).unwrap()));
        let pool = &pool;
        let work = |thread| scope.spawn(move || work(pool, thread, THREADS, 800, 50));
        let workers: Vec<_> = (0..THREADS).map(work).collect();
        let models = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
        cleaner.join().unwrap();
        models
    });
    let all = models.into_iter().flatten().collect();
    assert_same(&pool, &all, "after all threads");
    assert!(pool.stats().evictions > 100, "{:?}", pool.stats());
}

/// Interleavings that follow from a seed: threads change places at every latch and every mutex.
#[test]
fn threads_that_change_places_anywhere_leave_a_whole_tree() {
    const THREADS: usize = 3;
    let mut evictions = 0;
    for seed in 0..24 {
        let log = TestLog::of(Vec::new());
        let files = RecordingFiles::new();
        let pool: Pool<RecordingFiles, Followed> = create_over(&files, 512, 24, log.clone());
        pool.set_settled(Arc::new(AllSettled));
        let baton = Arc::new(Baton::new(seed));
        let models = Mutex::new(Model::new());
        baton.run(THREADS + 1, |thread| {
            Followed::by(baton.clone(), || {
                if thread == THREADS {
                    for _ in 0..10 {
                        pool.clean_some(log.end()).unwrap();
                    }
                    return;
                }
                let own = work(&pool, thread as u64, THREADS as u64, 60, 100 * seed);
                models.lock().extend(own);
            });
        });
        assert_same(&pool, &models.into_inner(), &format!("seed {seed}"));
        evictions += pool.stats().evictions;
        let records = log.records();
        let undone =
            Pool::<RecordingFiles>::open(&files, "", 24, TestLog::of(records.clone())).unwrap();
        for record in records.iter().filter(|record| record.kind == Kind::Change) {
            undone.redo(record).unwrap();
        }
        assert_eq!(undone.check().unwrap(), pool.check().unwrap(), "seed {seed}, redone");
    }
    assert!(evictions > 500, "{evictions}");
}

/// Changes rows of one thread and reads them again; returns those that are there at the end.
fn work<T: Latching>(
    pool: &Pool<RecordingFiles, T>,
    thread: u64,
    threads: u64,
    steps: u64,
    seed: u64,
) -> Model {
    let (mut source, mut model) = (Steps::new(thread + seed, 512), Model::new());
    let own = |mut key: Vec<u8>| {
        key.truncate(53);
        key.push(thread as u8);
        key
    };
    for number in 0..steps {
        let mut chain = transaction(2 + number * threads + thread);
        let (key, row) = (own(source.key()), source.row());
        let tree = tree(pool);
        match (model.contains_key(&key), number % 3) {
            (false, _) => {
                tree.insert(&mut chain, &key, &row).unwrap();
                model.insert(key.clone(), row);
            }
            (true, 0) => {
                tree.update(&mut chain, &key, &row).unwrap();
                model.insert(key.clone(), row);
            }
            (true, _) => {
                tree.delete(&mut chain, &key).unwrap();
                tree.settle(&key).unwrap();
                model.remove(&key);
            }
        }
        pool.log().commit(&mut chain).unwrap();
        assert_eq!(tree.get(&key).unwrap().as_ref(), model.get(&key), "thread {thread}");
        if number % 50 == 49 {
            for direction in [Direction::Forward, Direction::Backward] {
                assert_own_rows(pool, direction, thread, &model);
            }
        }
    }
    model
}

/// A scan during changes has every row that stays, once and in order.
fn assert_own_rows<T: Latching>(
    pool: &Pool<RecordingFiles, T>,
    direction: Direction,
    thread: u64,
    model: &Model,
) {
    let tree = tree(pool);
    let mut scan = Scan::new(direction, Bound::Unbounded);
    let (mut batch, mut own, mut last) = (Batch::default(), Vec::new(), None::<Vec<u8>>);
    loop {
        tree.next(&mut scan, &mut batch, BATCH_ROWS, &mut |_| Permitted::Yes).unwrap();
        if batch.rows.is_empty() {
            break;
        }
        for (key, row) in batch.rows.drain(..) {
            let is_next = last.as_ref().is_none_or(|last| match direction {
                Direction::Forward => key > *last,
                Direction::Backward => key < *last,
            });
            assert!(is_next, "keys in order");
            last = Some(key.clone());
            if key.last() == Some(&(thread as u8)) {
                own.push((key, row));
            }
        }
    }
    if direction == Direction::Backward {
        own.reverse();
    }
    assert!(own.iter().map(|(key, row)| (key, row)).eq(model), "thread {thread}, {direction:?}");
}

/// The locks of gaps, as a transaction that scans has them: it is asked with each key, and what is
/// inserted before a key that it was asked with is refused.
#[test]
fn a_scan_misses_nothing_that_came_before_a_key_was_locked() {
    let mut came = 0;
    for seed in 0..60 {
        let log = TestLog::of(Vec::new());
        let files = RecordingFiles::new();
        let pool: Pool<RecordingFiles, Followed> = create_over(&files, 512, 48, log);
        for key in (0..120_u8).step_by(4) {
            tree(&pool).insert(&mut transaction(2), &[key], &[1; 90]).unwrap();
        }
        let (baton, locked) = (Arc::new(Baton::new(seed)), Mutex::new(BTreeSet::new()));
        let inserted = Mutex::new(0);
        baton.run(3, |thread| {
            Followed::by(baton.clone(), || {
                let tree = tree(&pool);
                let scanned = || {
                    let mut scan = Scan::new(Direction::Forward, Bound::Unbounded);
                    let (mut batch, mut keys) = (Batch::default(), Vec::new());
                    let mut permit = |met: Met<'_>| {
                        Followed::point();
                        locked.lock().insert(met.key().map(<[u8]>::to_vec));
                        Permitted::Yes
                    };
                    loop {
                        tree.next(&mut scan, &mut batch, BATCH_ROWS, &mut permit).unwrap();
                        if batch.rows.is_empty() {
                            return keys;
                        }
                        keys.extend(batch.rows.drain(..).map(|(key, _)| key));
                    }
                };
                if thread == 0 {
                    let first = scanned();
                    assert_eq!(first, scanned(), "seed {seed}");
                    return;
                }
                for key in (thread as u8..120).step_by(4).rev() {
                    let mut permit = |next: Option<&[u8]>| {
                        Ok(locked.lock().contains(&next.map(<[u8]>::to_vec)).then_some(()))
                    };
                    let mut chain = transaction(2 + thread as u64);
                    if tree.insert_if(&mut chain, &[key], b"", &mut permit).unwrap()
                        == Inserted::Done
                    {
                        *inserted.lock() += 1;
                    }
                }
            });
        });
        came += inserted.into_inner();
    }
    assert!(came > 300, "{came} rows came beside the scans");
}

/// A batch has all frames but those that the reader has latched itself.
#[test]
fn who_needs_a_frame_waits_for_pages_that_are_being_written() {
    const FRAMES: usize = 8;
    let files = RecordingFiles::new();
    let (log, pool) = create(&files, 512, FRAMES);
    let key = |number: u32| number.to_be_bytes();
    for number in 0..60 {
        tree(&pool).insert(&mut transaction(2), &key(number), &[1; 60]).unwrap();
    }
    pool.clean_all().unwrap();
    let root = tree(&pool).root;
    let pool: Pool<RecordingFiles> = Pool::open(&files, "", FRAMES, log).unwrap();
    let mut latched = vec![pool.read(paged::file::CATALOG_ROOT).unwrap(), pool.read(root).unwrap()];
    let leaves: Vec<_> = latched[1].entries().map(|entry| entry.child()).collect();
    let (mut changed, mut at) = (0, 0);
    while changed < FRAMES - latched.len() {
        let before = pool.dirty_pages().len();
        tree(&pool).update(&mut transaction(3), &key(at), &[2; 60]).unwrap();
        changed += pool.dirty_pages().len() - before;
        at += 1;
    }
    let dirty = pool.dirty_pages();
    let other = *leaves.iter().find(|leaf| dirty.iter().all(|(page, _)| page != *leaf)).unwrap();
    let (began, writing) = std::sync::mpsc::channel();
    files.call_before_each(move |_| {
        let _ = began.send(());
        std::thread::sleep(std::time::Duration::from_millis(20));
    });
    std::thread::scope(|scope| {
        scope.spawn(|| pool.clean_some(Lsn(u64::MAX)).unwrap());
        writing.recv().unwrap();
        latched.push(pool.read(other).unwrap());
    });
    assert_eq!(pool.stats().batches, 1);
}
