//! Changes for which the log has no room.

use std::sync::Arc;

use paged::PagedError;
use paged::ids::Lsn;
use paged::pool::Pool;
use pm::RecordingFiles;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::support::{
    AllSettled, Model, Steps, TestLog, TestPool, assert_same, create, transaction, tree,
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
