//! Files of another moment than the log: a file of pages, its staging file, or both, of a copy that
//! was made before or later, of a closed store or of one that was killed. They are refused, or the
//! store has what its log has acknowledged, and goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use paged::PagedError;
use paged::log::LogManager;
use paged::log::nv::{NvForm, NvLog, NvOptions, Persist};
use paged::store::{Restart, Store, StoreOptions};
use paged::threads::Host;
use pm::Memory;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sim::{Recording, RecordingFiles};

use super::support::{Model, TREES, TestStore, contents, open_log, options};

const AT: u64 = 64;
const LIMIT: u64 = 1 << 20;
const FORM: NvForm =
    NvForm { entries: 1024, segments: 48, segment_bytes: 8192, record_bytes: 2048 };
const FRAMES: usize = 16;
const PARTITION: u64 = 64 << 10;
const FILES: [&str; 2] = ["pages", "staging"];

/// Everything that there is of a store, and what it has acknowledged.
#[derive(Clone)]
struct Moment {
    persist: Option<Persist>,
    memory: Vec<u8>,
    files: BTreeMap<String, Vec<u8>>,
    models: [Model; 2],
}

struct World {
    persist: Option<Persist>,
    memory: Recording,
    files: RecordingFiles,
}

impl World {
    fn of(moment: &Moment) -> Self {
        Self {
            persist: moment.persist,
            memory: Recording::from_image(&moment.memory, LIMIT).unwrap(),
            files: RecordingFiles::from_image(moment.files.clone()),
        }
    }

    fn log_options(persist: Persist) -> NvOptions {
        NvOptions { persist, lanes: 2, checkpoint_records: 300 }
    }

    fn create(persist: Option<Persist>) -> (Self, Arc<TestStore>) {
        let (memory, files) = (Recording::new(LIMIT).unwrap(), RecordingFiles::new());
        let Some(policy) = persist else {
            let store = super::support::create(&files, FRAMES, PARTITION);
            return (Self { persist, memory, files }, store);
        };
        memory.grow(AT + FORM.bytes()).unwrap();
        let of = Self::log_options(policy);
        let log: NvLog<_, Host> = NvLog::create(memory.clone(), AT, FORM, 7, of, Arc::default());
        let store = Store::create(&files, "", 77, Arc::new(log), options(FRAMES), &TREES).unwrap();
        (Self { persist, memory, files }, store)
    }

    fn open(&self, restart: Restart) -> paged::Result<Arc<TestStore>> {
        let written = TestStore::written(&self.files, "")?;
        let log: Arc<dyn LogManager> = match self.persist {
            None => Arc::new(open_log(&self.files, PARTITION)),
            Some(persist) => {
                let (memory, of) = (self.memory.clone(), Self::log_options(persist));
                let host = Arc::<Host>::default();
                Arc::new(NvLog::open_under(memory, AT, 7, of, host, written)?)
            }
        };
        let options = StoreOptions { restart, ..options(FRAMES) };
        Ok(Store::open(&self.files, "", log, options)?.0)
    }

    fn now(&self, models: &[Model; 2]) -> Moment {
        let (persist, memory) = (self.persist, self.memory.contents());
        Moment { persist, memory, files: self.files.image(), models: models.clone() }
    }
}

/// Some transactions, which change more pages than there are frames.
fn run(store: &Arc<TestStore>, random: &mut StdRng, models: &mut [Model; 2], many: u64) {
    let mut session = store.session();
    for age in 0..many {
        session.begin(age, None);
        for _ in 0..random.random_range(1..5) {
            let (tree, key) = (random.random_range(0..2), vec![random.random_range(0..200_u8); 12]);
            let row = vec![random.random(); random.random_range(0..90)];
            match models[tree].insert(key.clone(), row.clone()) {
                Some(_) if random.random_ratio(1, 4) => {
                    session.delete(TREES[tree], &key).unwrap();
                    models[tree].remove(&key);
                }
                Some(_) => session.update(TREES[tree], &key, &row).unwrap(),
                None => session.insert(TREES[tree], &key, &row).unwrap(),
            }
        }
        let at = session.commit().unwrap();
        store.wait(at).unwrap();
    }
}

/// Moments of one store: it is killed, closed, or goes on; with a checkpoint or without.
fn moments(persist: Option<Persist>) -> Vec<Moment> {
    let (world, mut store) = World::create(persist);
    let (mut random, mut models) = (StdRng::seed_from_u64(5), [Model::new(), Model::new()]);
    let mut moments = Vec::new();
    for number in 0..8 {
        run(&store, &mut random, &mut models, 25);
        match number % 4 {
            0 => {}
            1 => store.checkpoint().unwrap(),
            2 => store.pool().clean_all().unwrap(),
            _ => store.close().unwrap(),
        }
        moments.push(world.now(&models));
        if number % 2 == 1 {
            drop(store);
            store = world.open(Restart::Full).unwrap();
        }
    }
    moments
}

fn is_named(error: &PagedError) -> bool {
    use PagedError::{DamagedLog, DamagedPage, WrongPages};
    matches!(error, DamagedLog { .. } | DamagedPage { .. } | WrongPages { .. })
}

/// Opens a store and uses it; an error says what is wrong.
fn used(mixed: &Moment, restart: Restart, name: &str) -> paged::Result<()> {
    let (world, mut models) = (World::of(mixed), mixed.models.clone());
    let store = world.open(restart)?;
    let found = contents(&store)?;
    assert!(found == models, "{name}: opened, and wrong");
    store.check().unwrap_or_else(|error| panic!("{name}: {error}"));
    run(&store, &mut StdRng::seed_from_u64(6), &mut models, 30);
    drop(store);
    let store = world.open(restart).unwrap_or_else(|error| panic!("{name}, again: {error}"));
    assert!(contents(&store).unwrap() == models, "{name}: later");
    store.check().unwrap_or_else(|error| panic!("{name}, again: {error}"));
    Ok(())
}

#[test]
fn pages_of_another_moment_than_the_log_are_refused_or_become_those_of_the_log() {
    for persist in [None, Some(Persist::OnInsert), Some(Persist::OnCommit)] {
        let moments = moments(persist);
        let (mut refused, mut right) = (0, 0);
        for (i, j, which) in (0..8).flat_map(|i| {
            (0..8).flat_map(move |j| [&FILES[..1], &FILES[1..], &FILES[..]].map(|of| (i, j, of)))
        }) {
            let mut mixed = moments[i].clone();
            for name in which {
                mixed.files.insert((*name).to_owned(), moments[j].files[*name].clone());
            }
            if i != j && mixed.files == moments[i].files {
                continue;
            }
            let restart = if (i + j) % 2 == 0 { Restart::Full } else { Restart::OnDemand };
            let name = format!("{persist:?}, {which:?} of {j} beside the log of {i}");
            match used(&mixed, restart, &name) {
                Ok(()) => right += 1,
                Err(error) => {
                    assert!(i != j && is_named(&error), "{name}: {error}");
                    refused += 1;
                }
            }
        }
        println!("{persist:?}: {refused} refused, {right} right");
        assert!(refused > 40 && right > 20, "{persist:?}: {refused} refused, {right} right");
    }
}
