//! Changes for which the log has no room.

use std::sync::Arc;

use paged::PagedError;
use paged::ids::Lsn;
use paged::pool::Pool;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sim::RecordingFiles;

use super::support::{
    AllSettled, Model, Step, Steps, TestLog, TestPool, assert_same, create, transaction, tree,
};

/// Wherever on its way a change is refused: once it is undone the pages are as they were, in memory
/// and in the file, also those that were to come into use.
#[test]
fn a_change_that_the_log_refuses_leaves_nothing_behind() {
    let files = RecordingFiles::new();
    let (log, pool) = create(&files, 512, 16);
    pool.set_settled(Arc::new(AllSettled));
    let (mut source, mut model) = (Steps::new(70, 512), Model::new());
    let mut random = StdRng::seed_from_u64(71);
    let mut refused = 0;
    for number in 0..600 {
        let step = source.next(&model);
        let mut chain = transaction(2 * number + 2);
        log.limit(Some(random.random_range(0..4)));
        let done = step.run(&tree(&pool), &mut chain);
        log.limit(None);
        if let Err(error) = done {
            assert!(matches!(error, PagedError::LogFull { .. }), "{error}");
            if !matches!(step, Step::Load(_)) {
                assert_same(&pool, &model, &format!("refused {step:?}"));
            }
            pool.undo_to(&mut chain, Lsn::NONE).unwrap();
            pool.clean_all().unwrap();
            step.run(&tree(&pool), &mut transaction(2 * number + 3)).unwrap();
            refused += 1;
        }
        step.apply(&mut model);
        if number % 50 == 49 {
            assert_same(&pool, &model, &format!("after {number}"));
            pool.clean_all().unwrap();
            let image = RecordingFiles::from_image(files.image());
            let again: TestPool = Pool::open(&image, "", 16, TestLog::of(Vec::new())).unwrap();
            assert_same(&again, &model, &format!("in the file after {number}"));
        }
    }
    assert!(refused > 100, "{refused}");
}

/// The ghost of a long row that its own transaction inserts again: it is a row again for a moment.
#[test]
fn a_long_row_that_is_inserted_again_and_refused_can_be_inserted() {
    let files = RecordingFiles::new();
    let (log, pool) = create(&files, 512, 16);
    let (tree, mut chain) = (tree(&pool), transaction(2));
    tree.insert(&mut chain, b"key", &[1; 2000]).unwrap();
    let mut chain = transaction(3);
    tree.delete(&mut chain, b"key").unwrap();
    for changes in 0..5 {
        log.limit(Some(changes));
        let done = tree.insert(&mut chain, b"key", &[2; 2000]);
        assert!(matches!(done, Err(PagedError::LogFull { .. })), "{changes}: {done:?}");
        assert_eq!(tree.get(b"key").unwrap(), None, "{changes}");
    }
    log.limit(None);
    tree.insert(&mut chain, b"key", &[2; 2000]).unwrap();
    assert_eq!(tree.get(b"key").unwrap(), Some(vec![2; 2000]));
    pool.undo_to(&mut chain, Lsn::NONE).unwrap();
    assert_eq!(tree.get(b"key").unwrap(), Some(vec![1; 2000]));
}
