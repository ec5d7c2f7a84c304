//! Several threads in one tree.

use std::sync::Arc;

use paged::log::LogManager;
use paged::tree::{Batch, Bound, Direction};
use pm::RecordingFiles;

use super::support::{AllSettled, Model, Steps, assert_same, create, transaction, tree};

/// Each thread has keys of its own, which lie between the others'.
#[test]
fn threads_change_and_read_the_same_pages() {
    const THREADS: u64 = 4;
    let files = RecordingFiles::new();
    let (log, pool) = create(&files, 512, 64);
    pool.set_settled(Arc::new(AllSettled));
    let work = |thread: u64| {
        let (mut source, mut model) = (Steps::new(thread + 50, 512), Model::new());
        let own = |mut key: Vec<u8>| {
            key.truncate(53);
            key.push(thread as u8);
            key
        };
        for number in 0..800 {
            let mut chain = transaction(2 + number * THREADS + thread);
            let (key, row) = (own(source.key()), source.row());
            let tree = tree(&pool);
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
            log.commit(&mut chain).unwrap();
            assert_eq!(tree.get(&key).unwrap().as_ref(), model.get(&key), "thread {thread}");
            if number % 100 == 0 {
                for direction in [Direction::Forward, Direction::Backward] {
                    assert_own_rows(&pool, direction, thread, &model);
                }
            }
        }
        model
    };
    let models: Vec<Model> = std::thread::scope(|scope| {
        let cleaner = scope.spawn(|| (0..50).for_each(|_| pool.clean(log.durable()).unwrap()));
        let workers: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        let models = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
        cleaner.join().unwrap();
        models
    });
    let all = models.into_iter().flatten().collect();
    assert_same(&pool, &all, "after all threads");
    assert!(pool.stats().evictions > 100, "{:?}", pool.stats());
}

/// A scan beside changes has every row that stays, once and in order.
fn assert_own_rows(
    pool: &super::support::TestPool,
    direction: Direction,
    thread: u64,
    model: &Model,
) {
    let tree = tree(pool);
    let mut scan = tree.scan(direction, Bound::Unbounded);
    let (mut batch, mut own, mut last) = (Batch::default(), Vec::new(), None::<Vec<u8>>);
    loop {
        scan.next(&mut batch, &mut |_| true).unwrap();
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
