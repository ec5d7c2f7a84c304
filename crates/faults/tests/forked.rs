//! A program of its own: it forks, and no other thread may be at work then.
//!
//! A forked child has what its parent has open, and not its threads.

use std::cell::RefCell;

use faults::driver::Driver;
use faults::items::{Model, Tables, compare, schema};
use perdura::{Background, Database, Domain, EngineKind, Options};
use pm::in_child;

/// In the child closing is refused and dropping does nothing, and both end: the thread in the
/// background, for which they would wait, is not there, and may have held a partition.
#[test]
fn a_forked_child_can_drop_a_database_that_has_a_thread() {
    for engine in [EngineKind::Inp, EngineKind::Log, EngineKind::NvmCow, EngineKind::NvmLog] {
        let directory = tempfile::tempdir().unwrap();
        let options = Options::new()
            .engine(engine)
            .domain(Domain::Process)
            .background(Background::Thread)
            .tune("checkpoint_bytes", 8 << 10)
            .tune("wal_reserve_bytes", 4 << 10)
            .tune("memtable_bytes", 4 << 10)
            .tune("growth", 2)
            .tune("level0_runs", 2);
        let path = directory.path().join("db");
        let db = Database::create(&path, &schema(), &options).unwrap();
        let (tables, mut driver, mut model) =
            (Tables::of(&db), Driver::new(3, 100), Model::default());
        let shared = RefCell::new(Some(db));
        for round in 0..10 {
            {
                let db = shared.borrow();
                let db = db.as_ref().unwrap();
                for transaction in 0..20 {
                    driver.transaction(db, &tables, &mut model, 1 + transaction % 5).unwrap();
                }
            }
            let said = in_child(|| {
                let db = shared.borrow_mut().take().unwrap();
                match round % 2 {
                    0 => vec![u8::from(db.close().is_ok())],
                    _ => {
                        drop(db);
                        vec![0]
                    }
                }
            });
            assert_eq!(said.unwrap(), [0], "{engine}: a child has closed its parent's database");
        }
        let db = shared.into_inner().unwrap();
        compare(&db, &model);
        db.close().unwrap();
        compare(&Database::open(&path, &options).unwrap(), &model);
    }
}
