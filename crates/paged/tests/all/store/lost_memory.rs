//! A medium that fails under a log in persistent memory: what was acknowledged was stored before.
//!
//! Pages are lost by cutting the file off under its mapping (SIGBUS); from then on no store reaches
//! the file.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

use paged::log::LogManager;
use paged::log::nv::{NvForm, NvLog, NvOptions, Persist};
use paged::store::Store;
use paged::threads::Host;
use pm::{Access, POOL_DATA_START, Pool, PoolOptions};
use sim::RecordingFiles;

use super::support::{Model, TREES, TestStore, contents, options};

const FRAMES: usize = 64;
const FORM: NvForm = NvForm { entries: 512, segments: 32, segment_bytes: 8192, record_bytes: 2048 };

type Log = NvLog<Pool, Host>;

fn log_options(persist: Persist) -> NvOptions {
    NvOptions { persist, lanes: 2, checkpoint_records: 300 }
}

fn create(persist: Persist, path: &Path, files: &RecordingFiles) -> (Arc<Log>, Arc<TestStore>) {
    let initial_bytes = POOL_DATA_START + FORM.bytes();
    let pool = PoolOptions { initial_bytes, ..PoolOptions::default() };
    let (pool, of) = (Pool::create(path, &pool).unwrap(), log_options(persist));
    let log = Arc::new(Log::create(pool, POOL_DATA_START, FORM, 7, of, Arc::default()));
    let manager = Arc::clone(&log) as Arc<dyn LogManager>;
    let store = Store::create(files, "", 77, manager, options(FRAMES), &TREES).unwrap();
    (log, store)
}

/// The rows of a store whose medium has these contents.
fn rows(persist: Persist, path: &Path, pool: &[u8], files: &RecordingFiles) -> Model {
    std::fs::write(path, pool).unwrap();
    let pool = Pool::open(path, &PoolOptions::default(), Access::ReadWrite).unwrap();
    let log = Log::open(pool, POOL_DATA_START, 7, log_options(persist), Arc::default()).unwrap();
    let files = RecordingFiles::from_image(files.image());
    let (store, _) = Store::open(&files, "", Arc::new(log), options(FRAMES)).unwrap();
    let [rows, _] = contents(&store).unwrap();
    rows
}

/// The medium fails before the record of a commit is stored. A persister may come by before the
/// commit is waited for.
#[test]
fn no_commit_is_acknowledged_that_failing_memory_has_lost() {
    let directory = tempfile::tempdir().unwrap();
    for (number, (persist, persister)) in
        [(Persist::OnInsert, false), (Persist::OnCommit, false), (Persist::OnCommit, true)]
            .into_iter()
            .enumerate()
    {
        let path = directory.path().join(number.to_string());
        let files = RecordingFiles::new();
        let (log, store) = create(persist, &path, &files);
        let (mut model, mut session) = (Model::new(), store.session());
        for key in 0..9 {
            session.begin(0, None);
            session.insert(TREES[0], &[key], &[key; 60]).unwrap();
            let committed = session.commit().unwrap();
            store.wait(committed).unwrap();
            model.insert(vec![key], vec![key; 60]);
        }
        session.begin(0, None);
        session.insert(TREES[0], &[9], &[9; 60]).unwrap();
        let arrived = std::fs::read(&path).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(POOL_DATA_START).unwrap();
        let committed = session.commit();
        if persister {
            assert!(log.persist_some().is_err());
        }
        let done = committed.and_then(|committed| store.wait(committed));
        assert!(done.is_err(), "{persist:?}, {persister}: it is acknowledged");
        if persist == Persist::OnCommit {
            // Pages are written up to here.
            assert!(log.durable().0 + 1 < log.end().0, "{persister}: the record counts as durable");
        }
        let found = rows(persist, &directory.path().join("arrived"), &arrived, &files);
        assert_eq!(found, model, "{persist:?}, {persister}");
        drop((session, store, log));
        std::fs::remove_file(directory.path().join("arrived")).unwrap();
    }
}
