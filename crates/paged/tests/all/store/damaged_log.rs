//! Every line of a log in persistent memory is damaged in turn, after a kill of a store with
//! splits, merges, long rows, evicted pages and an open transaction: opening names the place, or
//! the store has what was committed. And no crash is taken for damage.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use paged::PagedError;
use paged::latch::{Followed, Latched};
use paged::log::nv::{NvForm, NvLog, NvOptions, Persist};
use paged::store::Store;
use paged::threads::{Baton, Host, Threads};
use pm::Memory;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sim::{Recording, RecordingFiles};

use super::support::{Model, TREES, TestSession, TestStore, contents, options};

const AT: u64 = 64;
const LIMIT: u64 = 1 << 20;
const LINE: usize = 64;
const FRAMES: usize = 16;
const FORM: NvForm =
    NvForm { entries: 1024, segments: 48, segment_bytes: 8192, record_bytes: 2048 };

fn log_options(persist: Persist) -> NvOptions {
    NvOptions { persist, lanes: 3, checkpoint_records: 400 }
}

/// The log and the files that a kill has left.
struct Left {
    persist: Persist,
    log: Vec<u8>,
    files: BTreeMap<String, Vec<u8>>,
}

impl Left {
    fn of(persist: Persist, memory: &Recording, files: &RecordingFiles) -> Self {
        Self { persist, log: memory.contents(), files: files.image() }
    }

    fn open(&self, log: &[u8]) -> paged::Result<Arc<TestStore>> {
        let memory = Recording::from_image(log, LIMIT).unwrap();
        let files = RecordingFiles::from_image(self.files.clone());
        let written = TestStore::written(&files, "")?;
        let (of, host) = (log_options(self.persist), Arc::<Host>::default());
        let log = NvLog::open_under(memory, AT, 7, of, host, written)?;
        Ok(Store::open(&files, "", Arc::new(log), options(FRAMES))?.0)
    }
}

fn create<T: Latched>(
    threads: &Arc<T>,
    persist: Persist,
) -> (Recording, RecordingFiles, Arc<Store<RecordingFiles, T>>) {
    let (memory, files) = (Recording::new(LIMIT).unwrap(), RecordingFiles::new());
    memory.grow(AT + FORM.bytes()).unwrap();
    let of = log_options(persist);
    let log = NvLog::create(memory.clone(), AT, FORM, 7, of, Arc::clone(threads));
    let log = Arc::new(log);
    let created =
        Store::create_by(Arc::clone(threads), &files, "", 77, log, options(FRAMES), &TREES);
    (memory, files, created.unwrap())
}

fn key(random: &mut StdRng) -> Vec<u8> {
    let mut key = vec![random.random_range(0..120_u8)];
    key.resize(1 + usize::from(key[0] % 30), b'k');
    key
}

/// Inserts, updates or deletes a row.
fn step<T: Latched>(
    session: &mut TestSession<T>,
    random: &mut StdRng,
    models: &mut [Model; 2],
) -> paged::Result<()> {
    let (tree, key) = (random.random_range(0..2), key(random));
    let bytes = if random.random_ratio(1, 12) { 900 } else { random.random_range(0..60) };
    let row = vec![random.random(); bytes];
    match models[tree].contains_key(&key) {
        true if random.random_ratio(1, 3) => {
            session.delete(TREES[tree], &key)?;
            models[tree].remove(&key);
        }
        true => {
            session.update(TREES[tree], &key, &row)?;
            models[tree].insert(key, row);
        }
        false => {
            session.insert(TREES[tree], &key, &row)?;
            models[tree].insert(key, row);
        }
    }
    Ok(())
}

/// Transactions, each of which is durable. Returns what each has left.
fn run(store: &Arc<TestStore>, random: &mut StdRng, moments: &mut Vec<[Model; 2]>, many: u64) {
    let mut session = store.session();
    for age in 0..many {
        session.begin(age, None);
        let mut models = moments.last().unwrap().clone();
        for _ in 0..random.random_range(1..6) {
            step(&mut session, random, &mut models).unwrap();
        }
        if age % 7 == 6 {
            session.abort().unwrap();
            continue;
        }
        let at = session.commit().unwrap();
        store.wait(at).unwrap();
        moments.push(models);
    }
}

/// A store that was killed once, opened, and killed in a transaction; and what every commit has
/// left.
fn killed(persist: Persist) -> (Left, Vec<[Model; 2]>) {
    let mut random = StdRng::seed_from_u64(3);
    let mut moments = vec![[Model::new(), Model::new()]];
    let (memory, files, store) = create(&Arc::<Host>::default(), persist);
    run(&store, &mut random, &mut moments, 60);
    drop(store);
    let log: NvLog<_, Host> =
        NvLog::open(memory.clone(), AT, 7, log_options(persist), Arc::default()).unwrap();
    let (store, _) = Store::open(&files, "", Arc::new(log), options(FRAMES)).unwrap();
    store.checkpoint().unwrap();
    run(&store, &mut random, &mut moments, 40);
    let mut session = store.session();
    session.begin(1000, None);
    let mut models = moments.last().unwrap().clone();
    for _ in 0..8 {
        step(&mut session, &mut random, &mut models).unwrap();
    }
    println!("{persist:?}: durable up to {} of {}", store.log().durable(), store.log().end());
    (Left::of(persist, &memory, &files), moments)
}

#[test]
fn a_damaged_line_of_the_log_is_named_or_changes_nothing() {
    for persist in [Persist::OnInsert, Persist::OnCommit] {
        let (left, moments) = killed(persist);
        let last = moments.len() - 1;
        let (mut named, mut whole, mut one_less) = (0, 0, 0);
        let used = |at: &usize| left.log[*at..*at + LINE] != [0; LINE];
        let lines = (AT as usize..left.log.len()).step_by(LINE).filter(used);
        // A bit of one line in three, all of the next one.
        for (number, at) in lines.enumerate().filter(|(number, _)| number % 3 < 2) {
            let mut log = left.log.clone();
            match number % 3 {
                0 => log[at + number * 7 % LINE] ^= 1 << (number % 8),
                _ => log[at..at + LINE].fill(0),
            }
            let name = format!("{persist:?}, line {at}");
            match left.open(&log) {
                Err(PagedError::DamagedLog { .. } | PagedError::WrongLog { .. }) => named += 1,
                Err(error) => panic!("{name}: {error}"),
                Ok(store) => {
                    let found = contents(&store).unwrap_or_else(|error| panic!("{name}: {error}"));
                    store.check().unwrap_or_else(|error| panic!("{name}: {error}"));
                    // Nothing came after the last commit that speaks for it.
                    let is_last = found == moments[last];
                    assert!(is_last || found == moments[last - 1], "{name}: wrong");
                    *(if is_last { &mut whole } else { &mut one_less }) += 1;
                }
            }
        }
        println!("{persist:?}: {named} named, {whole} whole, {one_less} without the last commit");
        assert!(named > 300 && one_less < 20, "{persist:?}: {named}, {whole}, {one_less}");
    }
}

const THREADS: usize = 3;
const ROWS: u8 = 24;

/// The log and the files at a moment, and how many rows each thread knew to be durable.
type Moment = (Left, [u8; THREADS]);

/// Threads insert rows, each in a transaction. Another one looks at what a kill would leave:
/// records of several threads on their way, and pages being written.
fn moments(seed: u64, persist: Persist) -> Vec<Moment> {
    let baton = Arc::new(Baton::new(seed));
    let (memory, files, store) = create(&baton, persist);
    let told = Mutex::new([0; THREADS]);
    let moments = Mutex::new(Vec::new());
    baton.run(THREADS + 1, |thread| {
        Followed::by(baton.clone(), || {
            if thread == THREADS {
                for turn in 0..16 {
                    (0..40 + seed * turn % 60).for_each(|_| baton.point());
                    let left = Left::of(persist, &memory, &files);
                    moments.lock().unwrap().push((left, *told.lock().unwrap()));
                }
                return;
            }
            let mut session = store.session();
            for number in 0..ROWS {
                session.begin(u64::from(number), None);
                session.insert(TREES[0], &[number, thread as u8], &[number; 40]).unwrap();
                let at = session.commit().unwrap();
                store.wait(at).unwrap();
                told.lock().unwrap()[thread] = number + 1;
            }
        });
    });
    moments.into_inner().unwrap()
}

#[test]
fn what_kills_leave_of_threads_is_no_damage() {
    let mut pages = 0;
    for (seed, persist) in
        (0..5).flat_map(|seed| [(seed, Persist::OnInsert), (seed, Persist::OnCommit)])
    {
        for (number, (left, told)) in moments(seed, persist).into_iter().enumerate() {
            let name = format!("seed {seed}, {persist:?}, moment {number}");
            pages += usize::from(left.files["staging"].iter().any(|byte| *byte != 0));
            let store = left.open(&left.log).unwrap_or_else(|error| panic!("{name}: {error}"));
            let [found, _] = contents(&store).unwrap();
            for (thread, told) in told.into_iter().enumerate() {
                let rows = (0..ROWS).take_while(|n| found.contains_key(&[*n, thread as u8][..]));
                let rows = rows.count();
                assert!(rows == usize::from(told) || rows == usize::from(told) + 1, "{name}");
            }
        }
    }
    assert!(pages > 60, "{pages}");
}
