//! Redo, byte by byte, and crashes between any two records.

use std::collections::HashMap;
use std::sync::Arc;

use paged::change::{Body, Change, Payload};
use paged::ids::{Lsn, TxNo};
use paged::log::{Chain, Kind, LogManager, Logged};
use paged::pool::Pool;
use sim::RecordingFiles;

use super::support::{
    AllSettled, Model, Step, Steps, TestLog, TestPool, assert_same, create, transaction, tree,
};

/// Creates the same file as [`create`], without a tree.
fn fresh(page_bytes: usize, log: &Arc<TestLog>, frames: usize) -> (RecordingFiles, TestPool) {
    let files = RecordingFiles::new();
    drop(create(&files, page_bytes, 8));
    // Nothing was written but the file's begin.
    let pool = Pool::open(&files, "", frames, log.clone()).unwrap();
    (files, pool)
}

fn redo(pool: &TestPool, records: &[Logged]) -> usize {
    let changes =
        records.iter().filter(|record| matches!(record.kind, Kind::Change | Kind::Compensation));
    changes.map(|record| pool.redo(record).unwrap()).sum()
}

/// Undoes what has no commit record, the newest first.
fn undo_losers(pool: &TestPool, records: &[Logged]) -> usize {
    let mut open = HashMap::new();
    for record in records.iter().filter(|record| record.tx != TxNo(0)) {
        if record.kind == Kind::Commit {
            open.remove(&record.tx);
        } else {
            open.insert(record.tx, record.lsn);
        }
    }
    for (tx, last) in &open {
        let mut chain = Chain { tx: *tx, last: *last, ..Chain::default() };
        pool.undo_to(&mut chain, Lsn::NONE).unwrap();
    }
    open.len()
}

struct Run {
    files: RecordingFiles,
    log: Arc<TestLog>,
    pool: TestPool,
    /// The steps, and the record that commits each.
    steps: Vec<(Step, Lsn)>,
}

fn run(seed: u64, page_bytes: usize, count: u64) -> Run {
    let files = RecordingFiles::new();
    let (log, pool) = create(&files, page_bytes, 8);
    pool.set_settled(Arc::new(AllSettled));
    let (mut source, mut model) = (Steps::new(seed, page_bytes), Model::new());
    let mut steps = Vec::new();
    for number in 0..count {
        source.deletes = if number < count / 2 { 10 } else { 50 };
        let step = source.next(&model);
        let mut chain = transaction(number + 2);
        step.run(&tree(&pool), &mut chain).unwrap();
        let lsn = log.commit(&mut chain).unwrap();
        step.apply(&mut model);
        steps.push((step, lsn));
    }
    Run { files, log, pool, steps }
}

fn model_at(run: &Run, durable: Lsn) -> Model {
    let mut model = Model::new();
    for (step, lsn) in &run.steps {
        if *lsn <= durable {
            step.apply(&mut model);
        }
    }
    model
}

#[test]
fn what_is_redone_is_what_was_done_to_the_byte() {
    for (seed, page_bytes) in [(30, 512), (31, 512), (32, 8192)] {
        let run = run(seed, page_bytes, 1200);
        run.pool.clean_all().unwrap();
        let records = run.log.records();
        let (files, pool) = fresh(page_bytes, &TestLog::of(records.clone()), 8);
        assert!(redo(&pool, &records) > records.len() / 2);
        pool.clean_all().unwrap();
        let (done, redone) = (run.files.image(), files.image());
        let pages = |image: &std::collections::BTreeMap<String, Vec<u8>>| {
            let mut pages: Vec<Vec<u8>> =
                image["pages"].chunks(page_bytes).map(<[u8]>::to_vec).collect();
            while pages.last().is_some_and(|page| page.iter().all(|byte| *byte == 0)) {
                pages.pop();
            }
            pages
        };
        let (done, redone) = (pages(&done), pages(&redone));
        assert_eq!(done.len(), redone.len(), "seed {seed}");
        // The header has what batches of pages note, whenever they come.
        for (number, (done, redone)) in done.iter().zip(&redone).enumerate().skip(1) {
            assert!(done == redone, "seed {seed}: page {number}");
        }
        assert_eq!(redo(&pool, &records), 0, "nothing is redone twice");
    }
}

#[test]
fn every_change_is_read_as_it_was_written() {
    let records = run(33, 512, 1200).log.records();
    let mut kinds = std::collections::HashSet::new();
    for record in records.iter().filter(|record| record.kind == Kind::Change) {
        let body = Body::decode(&record.payload).unwrap();
        kinds.insert(record.payload[0]);
        let mut again = Payload::new();
        body.encode(&mut again);
        assert_eq!(again[..], record.payload[..]);
        for cut in 0..record.payload.len() {
            assert!(Body::decode(&record.payload[..cut]).is_err(), "{body:?} cut off at {cut}");
        }
    }
    assert!(kinds.len() >= 14, "{} kinds of changes", kinds.len());
}

#[test]
fn a_killed_process_leaves_what_the_log_brings_back() {
    for seed in 40..44 {
        let run = run(seed, 512, 700);
        let records = run.log.durable_records();
        let durable = run.log.durable();
        assert!((records.len()) < run.log.records().len(), "some records are lost");
        let files = RecordingFiles::from_image(run.files.image());
        let log = TestLog::of(records.clone());
        let pool = Pool::open(&files, "", 8, log).unwrap();
        redo(&pool, &records);
        undo_losers(&pool, &records);
        assert_same(&pool, &model_at(&run, durable), &format!("seed {seed}, killed"));
    }
}

#[test]
fn a_log_that_ends_anywhere_leaves_a_whole_tree() {
    let run = run(45, 512, 160);
    let records = run.log.records();
    let (mut unposted, mut losers) = (0, 0);
    for end in 5..records.len() {
        let is_split = Body::decode(&records[end - 1].payload)
            .is_ok_and(|body| matches!(body.change, Change::Split { .. } | Change::Unpost { .. }));
        if !is_split && end % 7 != 0 {
            continue;
        }
        let log = TestLog::of(records[..end].to_vec());
        let (_files, pool) = fresh(512, &log, 32);
        redo(&pool, &records[..end]);
        losers += undo_losers(&pool, &records[..end]);
        unposted += pool.check().unwrap().unposted;
        let mut model = model_at(&run, Lsn(end as u64));
        assert_same(&pool, &model, &format!("{end} records"));
        // Later transactions complete what was left undone.
        let mut chain = transaction(9999);
        for number in 0..3000_u32 {
            let key = [&number.to_be_bytes()[..], b"z"].concat();
            if number % 40 == 0 {
                tree(&pool).insert(&mut chain, &key, b"after").unwrap();
                model.insert(key, b"after".to_vec());
            }
        }
        assert_same(&pool, &model, &format!("{end} records, and more"));
    }
    assert!(unposted > 5, "{unposted} pages were not posted when the log ended");
    assert!(losers > 5, "{losers} transactions were undone");
}

#[test]
fn a_page_is_written_after_its_log() {
    let run = run(46, 512, 400);
    let files = RecordingFiles::from_image(run.files.image());
    let pool: TestPool = Pool::open(&files, "", 8, TestLog::of(Vec::new())).unwrap();
    let durable = run.log.durable();
    let pages = files.image()["pages"].len() / 512;
    let newest =
        (1..pages as u64).map(|page| pool.read(paged::ids::PageNo(page)).unwrap().lsn()).max();
    assert_eq!(newest, Some(durable), "the newest page that was written forced the log");
    // Once more for the tree.
    assert!(run.log.forces() <= run.pool.stats().batches + 1);
}

/// Rows that came with one record lie in several leaves when they are undone, and a crash comes after any
/// of the records of that.
#[test]
fn a_load_that_was_split_is_undone_after_any_crash() {
    let (log, pool) = create(&RecordingFiles::new(), 512, 8);
    let (mut loading, mut model) = (transaction(2), Model::new());
    tree(&pool).load(&mut loading, (0..8_u8).map(|key| ([key, 0], [7; 30]))).unwrap();
    let mut chain = transaction(3);
    for key in (0..8_u8).flat_map(|key| (1..4).map(move |other| [key, other])) {
        tree(&pool).insert(&mut chain, &key, &[1; 30]).unwrap();
        model.insert(key.to_vec(), vec![1; 30]);
    }
    log.commit(&mut chain).unwrap();
    let before = log.records().len();
    pool.undo_to(&mut loading, Lsn::NONE).unwrap();
    assert_same(&pool, &model, "without a crash");
    let records = log.records();
    let undone = records.iter().filter(|record| record.kind == Kind::Compensation).count();
    assert!(undone >= 3, "{undone} leaves");
    for end in before..=records.len() {
        let (_files, pool) = fresh(512, &TestLog::of(records[..end].to_vec()), 64);
        redo(&pool, &records[..end]);
        undo_losers(&pool, &records[..end]);
        assert_same(&pool, &model, &format!("after {} records", end - before));
    }
}
