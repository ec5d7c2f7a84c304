//! A tree against a map, in a pool much smaller than the data.

use paged::change::{Body, Change, Payload};
use paged::ids::{PageNo, TreeNo};
use paged::log::{Chain, Kind, LogManager, Record};
use paged::page::PageKind;
use paged::pool::Pool;
use paged::tree::{BATCH_ROWS, Batch, Bound, Direction, Inserted, Met, Permitted, Scan};
use sim::RecordingFiles;
use std::sync::Arc;

use super::support::{
    AllSettled, Model, Step, Steps, TREE, TestLog, TestPool, assert_same, create, rows,
    transaction, tree,
};
use paged::PagedError;
use paged::ids::Lsn;

fn run(seed: u64, page_bytes: usize, steps: u64, settled: bool) {
    let files = RecordingFiles::new();
    let (log, pool) = create(&files, page_bytes, 8);
    if settled {
        pool.set_settled(Arc::new(AllSettled));
    }
    let (mut source, mut model) = (Steps::new(seed, page_bytes), Model::new());
    let what = format!("seed {seed}, pages of {page_bytes} bytes");
    for number in 0..steps {
        // First it grows, then it shrinks.
        source.deletes = if number < steps * 2 / 3 { 10 } else { 60 };
        let step = source.next(&model);
        let mut chain = transaction(number + 2);
        step.run(&tree(&pool), &mut chain)
            .unwrap_or_else(|error| panic!("{what}: {step:?}: {error}"));
        log.commit(&mut chain).unwrap();
        step.apply(&mut model);
        if settled && let Step::Delete(key) = &step {
            tree(&pool).settle(key).unwrap();
        }
        let key = source.key();
        assert_eq!(tree(&pool).get(&key).unwrap(), model.get(&key).cloned(), "{what}");
        if number % (steps / 8) == 0 {
            assert_same(&pool, &model, &what);
        }
    }
    assert_same(&pool, &model, &what);
    assert!(pool.stats().evictions > 100, "{what}: the data were larger than the pool");
    pool.clean_all().unwrap();
    assert_eq!(pool.oldest_unwritten(), None);
    drop(pool);
    let pool: TestPool = Pool::open(&files, "", 8, TestLog::of(log.records())).unwrap();
    assert_same(&pool, &model, &format!("{what}, opened again"));
    assert_eq!(pool.stats().restored, 0);
}

#[test]
fn a_tree_has_what_a_map_has_in_small_pages() {
    for seed in 0..4 {
        run(seed, 512, 3000, seed % 2 == 0);
    }
}

#[test]
fn a_tree_has_what_a_map_has_in_pages_of_the_usual_size() {
    for seed in 4..6 {
        run(seed, 8192, 3000, seed % 2 == 0);
    }
}

#[test]
fn deleting_everything_gives_the_pages_back() {
    let files = RecordingFiles::new();
    let (_, pool) = create(&files, 512, 64);
    pool.set_settled(Arc::new(AllSettled));
    let empty = pool.used_pages().unwrap();
    let (tree, mut chain) = (tree(&pool), transaction(2));
    for key in 0..2000_u32 {
        tree.insert(&mut chain, &key.to_be_bytes(), &[1; 40]).unwrap();
    }
    let full = pool.used_pages().unwrap();
    for key in 0..2000_u32 {
        tree.delete(&mut chain, &key.to_be_bytes()).unwrap();
        tree.settle(&key.to_be_bytes()).unwrap();
    }
    let left = pool.used_pages().unwrap();
    assert!(full > 200 && left < empty + 10, "{empty}, {full}, then {left} pages");
    assert_same(&pool, &Model::new(), "emptied");
}

#[test]
fn keys_that_come_in_order_leave_full_pages() {
    let files = RecordingFiles::new();
    let (_, pool) = create(&files, 8192, 64);
    let (tree, mut chain) = (tree(&pool), transaction(2));
    let before = pool.used_pages().unwrap();
    let all = (0..20_000_u32).map(|key| (key.to_be_bytes(), [7; 100]));
    assert_eq!(tree.load(&mut chain, all).unwrap(), 20_000);
    let loaded = pool.used_pages().unwrap() - before;
    for key in 20_000..40_000_u32 {
        tree.insert(&mut chain, &key.to_be_bytes(), &[7; 100]).unwrap();
    }
    let inserted = pool.used_pages().unwrap() - before - loaded;
    // 120 bytes a row: 67 rows a page.
    assert!((298..316).contains(&loaded), "{loaded} pages");
    assert!((298..316).contains(&inserted), "{inserted} pages");
}

#[test]
fn a_scan_reads_ahead_and_begins_anywhere() {
    let files = RecordingFiles::new();
    let (log, pool) = create(&files, 512, 64);
    let (source, mut chain) = (tree(&pool), transaction(2));
    let key = |number: u32| (number * 2).to_be_bytes();
    source.load(&mut chain, (0..5000).map(|number| (key(number), [1; 20]))).unwrap();
    pool.clean_all().unwrap();
    drop(pool);
    let pool: TestPool = Pool::open(&files, "", 64, TestLog::of(log.records())).unwrap();
    let source = tree(&pool);
    assert_eq!(rows(&source, Direction::Forward).len(), 5000);
    let stats = pool.stats();
    assert!(stats.read_ahead > 3 * stats.reads, "{stats:?}");
    let first = |direction, bound: Bound<'_>| {
        let mut batch = Batch::default();
        let mut scan = Scan::new(direction, bound);
        source.next(&mut scan, &mut batch, 1, &mut |_| Permitted::Yes).unwrap();
        assert!(batch.rows.len() <= 1);
        batch.rows.first().map(|(key, _)| u32::from_be_bytes(key[..].try_into().unwrap()))
    };
    for at in [0, 1, 99, 2000, 7777, 9998, 9999, 12_000_u32] {
        let wanted = at.to_be_bytes();
        let there = |number: &u32| number.is_multiple_of(2) && *number <= 9998;
        let up = |from: u32| (from..=9998).find(there);
        let down = |from: Option<u32>| from.and_then(|from| (0..=from).rev().find(there));
        assert_eq!(first(Direction::Forward, Bound::Included(&wanted)), up(at), "{at}");
        assert_eq!(first(Direction::Forward, Bound::Excluded(&wanted)), up(at + 1), "{at}");
        assert_eq!(first(Direction::Backward, Bound::Included(&wanted)), down(Some(at)), "{at}");
        let below = down(at.checked_sub(1));
        assert_eq!(first(Direction::Backward, Bound::Excluded(&wanted)), below, "{at}");
    }
}

#[test]
fn what_is_not_there_or_too_large_is_refused() {
    let files = RecordingFiles::new();
    let (log, pool) = create(&files, 512, 16);
    let (tree, mut chain) = (tree(&pool), transaction(2));
    tree.insert(&mut chain, b"a", b"1").unwrap();
    let records = log.records().len();
    assert!(matches!(tree.insert(&mut chain, b"a", b"2"), Err(PagedError::Duplicate)));
    assert!(matches!(tree.insert(&mut chain, b"a", &[0; 9000]), Err(PagedError::Duplicate)));
    assert!(matches!(tree.update(&mut chain, b"b", b"2"), Err(PagedError::Missing)));
    assert!(matches!(tree.delete(&mut chain, b"b"), Err(PagedError::Missing)));
    let long = [b'k'; 55];
    assert!(matches!(
        tree.insert(&mut chain, &long, b""),
        Err(PagedError::TooLarge { most: 54, .. })
    ));
    assert_eq!(log.records().len(), records, "nothing was logged");
    assert_eq!(tree.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_refused_permit_leaves_everything_as_it_was() {
    let files = RecordingFiles::new();
    let (log, pool) = create(&files, 512, 16);
    let (tree, mut chain) = (tree(&pool), transaction(2));
    for key in [b"b", b"d", b"f"] {
        tree.insert(&mut chain, key, b"row").unwrap();
    }
    let used = pool.used_pages().unwrap();
    let (mut asked, before) = (Vec::new(), log.records().len());
    for key in [b"a", b"c", b"g"] {
        let refused = tree.insert_if(&mut chain, key, b"new", &mut |next| {
            asked.push(next.map(<[u8]>::to_vec));
            Ok(Some(asked.len()))
        });
        assert_eq!(refused.unwrap(), Inserted::Refused(asked.len()));
    }
    assert_eq!(asked, [Some(b"b".to_vec()), Some(b"d".to_vec()), None]);
    assert_eq!(log.records().len(), before);
    let long = tree.insert_if(&mut chain, b"e", &[1; 3000], &mut |_| Ok(Some(())));
    assert_eq!(long.unwrap(), Inserted::Refused(()));
    assert_eq!(pool.used_pages().unwrap(), used, "the pages of the long row are free again");
    let mut scan = Scan::new(Direction::Forward, Bound::Unbounded);
    let mut batch = Batch::default();
    let mut permit = |met: Met<'_>| (met.key() != Some(b"d")).into();
    tree.next(&mut scan, &mut batch, BATCH_ROWS, &mut permit).unwrap();
    assert_eq!((batch.rows.len(), batch.refused.as_deref()), (1, Some(&b"d"[..])));
    tree.next(&mut scan, &mut batch, BATCH_ROWS, &mut |_| Permitted::Yes).unwrap();
    assert_eq!(batch.rows.len(), 2);
}

/// The lock of a key protects the gap before it, but only when it is held: what came into the gap
/// while the scan waited is part of it.
#[test]
fn what_comes_before_a_refused_key_is_not_missed() {
    let files = RecordingFiles::new();
    let (_, pool) = create(&files, 512, 16);
    let (tree, mut chain) = (tree(&pool), transaction(2));
    for key in 0..40_u8 {
        tree.insert(&mut chain, &[key, 0], &[1; 60]).unwrap();
    }
    for refused in 1..40_u8 {
        let mut scan = Scan::new(Direction::Forward, Bound::Unbounded);
        let (mut batch, mut seen) = (Batch::default(), Vec::new());
        let mut is_first = true;
        loop {
            tree.next(&mut scan, &mut batch, BATCH_ROWS, &mut |met| {
                let is_it = met.key() == Some(&[refused, 0]);
                (!is_it || !std::mem::take(&mut is_first)).into()
            })
            .unwrap();
            seen.extend(batch.rows.drain(..).map(|(key, _)| key));
            if batch.refused.take().is_some() {
                tree.insert(&mut chain, &[refused - 1, 1], b"came").unwrap();
            } else if batch.rows.is_empty() && seen.last() == Some(&vec![39, 0]) {
                break;
            }
        }
        assert!(seen.contains(&vec![refused - 1, 1]), "before {refused}");
        assert_eq!(seen.len(), 40 + usize::from(refused));
    }
}

/// Another transaction has a lock of the row, or of the gap before it.
#[test]
fn a_ghost_that_is_locked_stays() {
    let files = RecordingFiles::new();
    let (_, pool) = create(&files, 512, 16);
    let (tree, mut chain) = (tree(&pool), transaction(2));
    tree.insert(&mut chain, b"key", b"row").unwrap();
    tree.delete(&mut chain, b"key").unwrap();
    tree.settle(b"key").unwrap();
    assert_eq!(pool.check().unwrap().ghosts, 1);
    pool.set_settled(Arc::new(AllSettled));
    tree.settle(b"key").unwrap();
    assert_eq!(pool.check().unwrap().ghosts, 0);
}

#[test]
fn a_scan_passes_many_leaves_without_rows() {
    let files = RecordingFiles::new();
    let (_, pool) = create(&files, 512, 64);
    let (tree, mut chain) = (tree(&pool), transaction(2));
    for key in 0..200_u8 {
        tree.insert(&mut chain, &[key, 0], &[1; 100]).unwrap();
    }
    let leaves = pool.check().unwrap().pages;
    for key in 20..80_u8 {
        tree.delete(&mut chain, &[key, 0]).unwrap();
        empty_leaf(&pool, &[key, 0]);
    }
    assert_eq!(pool.check().unwrap().pages, leaves, "nothing was merged");
    for refused in [None, Some([80, 0])] {
        let mut scan = Scan::new(Direction::Forward, Bound::Included(&[10, 0]));
        let (mut batch, mut seen, mut is_first) = (Batch::default(), Vec::new(), true);
        loop {
            let mut permit = |met: Met<'_>| {
                let is_it = refused.is_some() && met.key() == refused.as_ref().map(|key| &key[..]);
                (!is_it || !std::mem::take(&mut is_first)).into()
            };
            tree.next(&mut scan, &mut batch, BATCH_ROWS, &mut permit).unwrap();
            seen.extend(batch.rows.drain(..).map(|(key, _)| key[0]));
            if batch.refused.take().is_some() {
                tree.insert(&mut chain, &[50, 0], b"came").unwrap();
            } else if seen.last() == Some(&199) {
                break;
            }
        }
        let came = refused.map(|_| 50);
        let expected: Vec<u8> = (10..20).chain(came).chain(80..200).collect();
        assert_eq!(seen, expected, "{refused:?}");
    }
}

/// Reclaims a ghost, and leaves its leaf as it is even if that is empty.
fn empty_leaf(pool: &TestPool, key: &[u8]) {
    let body = Body { tree: TREE, change: Change::Reclaim { key } };
    let (mut payload, page) = (Payload::new(), leaf_of(pool, key));
    body.encode(&mut payload);
    let lsn = pool.log().end();
    let record = Record { page, payload: &payload, ..Record::bare(Kind::Change) };
    assert_eq!(pool.log().append(&mut Chain::default(), &record).unwrap(), lsn);
    assert_eq!(pool.redo(&pool.log().read(lsn).unwrap()).unwrap(), 1);
}

fn leaf_of(pool: &TestPool, key: &[u8]) -> PageNo {
    let pages = pool.used_pages().unwrap();
    let leaf = (1..=pages).map(PageNo).find(|page| {
        let page = pool.read(*page).unwrap();
        page.kind() == PageKind::Leaf && page.tree() == TREE && page.find(key).is_ok()
    });
    leaf.expect("a leaf has the key")
}

#[test]
fn undo_brings_everything_back_wherever_it_is() {
    for seed in 20..26 {
        let files = RecordingFiles::new();
        let (log, pool) = create(&files, 512, 16);
        let (mut source, mut model) = (Steps::new(seed, 512), Model::new());
        for number in 0..300 {
            let step = source.next(&model);
            let mut chain = transaction(number + 2);
            step.run(&tree(&pool), &mut chain).unwrap();
            log.commit(&mut chain).unwrap();
            step.apply(&mut model);
        }
        let (mut changed, mut chain) = (model.clone(), transaction(1000));
        let mut savepoint = (Lsn::NONE, model.clone());
        for number in 0..400 {
            if number == 200 {
                savepoint = (chain.last, changed.clone());
            }
            let step = source.next(&changed);
            // A ghost of this transaction is not settled.
            if !matches!(step, Step::Settle(_)) {
                step.run(&tree(&pool), &mut chain).unwrap();
                step.apply(&mut changed);
            }
        }
        assert_same(&pool, &changed, &format!("seed {seed}, before undo"));
        pool.undo_to(&mut chain, savepoint.0).unwrap();
        assert_same(&pool, &savepoint.1, &format!("seed {seed}, back to the savepoint"));
        pool.undo_to(&mut chain, Lsn::NONE).unwrap();
        assert_same(&pool, &model, &format!("seed {seed}, undone"));
    }
}

#[test]
fn a_load_has_a_key_once() {
    let (_, pool) = create(&RecordingFiles::new(), 512, 16);
    for keys in [[b"a", b"b", b"b"], [b"c", b"e", b"d"]] {
        let mut chain = transaction(2);
        let refused = tree(&pool).load(&mut chain, keys.map(|key| (key, b"row")));
        assert!(matches!(refused, Err(PagedError::Duplicate)), "{keys:?}: {refused:?}");
        pool.undo_to(&mut chain, Lsn::NONE).unwrap();
        assert_same(&pool, &Model::new(), "undone");
    }
}

#[test]
fn a_tree_whose_creation_is_undone_is_not_there() {
    const OTHER: TreeNo = TreeNo(8);
    let (_, pool) = create(&RecordingFiles::new(), 512, 16);
    let mut chain = transaction(2);
    pool.create_tree(&mut chain, OTHER).unwrap();
    pool.tree(OTHER).unwrap().unwrap().insert(&mut chain, b"key", b"row").unwrap();
    pool.undo_to(&mut chain, Lsn::NONE).unwrap();
    assert!(pool.tree(OTHER).unwrap().is_none());
    assert_same(&pool, &Model::new(), "undone");
}
