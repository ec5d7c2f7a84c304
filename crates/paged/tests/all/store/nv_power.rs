//! Power cuts, and kills before them, of a store over an NV log whose cold records lie in a file and that
//! is archived. Memory and files are cut off at the same moment.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use paged::Result;
use paged::log::nv::{NvForm, NvLog, NvOptions, Persist};
use paged::store::{Restart, Store, StoreOptions};
use paged::threads::Host;
use pm::Memory;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sim::{CombinedImage, CombinedReplay, CombinedTrace, Recording, RecordingFiles};

use super::archive::{Copied, FRAMES, Home, STAMP, copy};
use super::crash::change;
use super::support::{Model, TREES, TestSession, TestStore, check, contents, options};

const AT: u64 = 64;
const LIMIT: u64 = 1 << 20;
const FORM: NvForm = NvForm { entries: 256, segments: 32, segment_bytes: 8192, record_bytes: 2048 };
const TRANSACTIONS: u64 = 60;

/// A log, and the manner in which it is used.
#[derive(Clone, Copy, Debug)]
struct Stage {
    persist: Persist,
    restart: Restart,
    archives: bool,
}

#[derive(Clone, Debug)]
struct Media {
    memory: Recording,
    files: RecordingFiles,
}

impl Media {
    fn of(image: &CombinedImage) -> Self {
        let memory = Recording::from_image(&image.memory, LIMIT).expect("memory");
        let files = memory.files(image.files.clone());
        Self { memory, files }
    }

    fn image(&self) -> CombinedImage {
        CombinedImage { memory: self.memory.contents(), files: self.files.image() }
    }

    fn start(&self) {
        self.memory.start();
        self.files.start();
    }

    fn stop(&self) -> CombinedTrace {
        CombinedTrace { memory: self.memory.stop(), files: self.files.stop() }
    }

    fn home(&self) -> Home {
        let now = Arc::new(AtomicU64::new(1_000_000));
        Home { files: self.files.clone(), archive: self.files.clone(), now }
    }
}

impl Stage {
    fn of(seed: u64) -> Self {
        Self {
            persist: if seed & 1 == 0 { Persist::OnInsert } else { Persist::OnCommit },
            restart: if seed & 2 == 0 { Restart::OnDemand } else { Restart::Full },
            archives: seed & 4 == 0,
        }
    }

    fn log_options(&self) -> NvOptions {
        NvOptions { persist: self.persist, lanes: 2, checkpoint_records: 60 }
    }

    fn store_options(&self) -> StoreOptions {
        StoreOptions { restart: self.restart, ..options(FRAMES) }
    }

    fn over(
        &self,
        log: NvLog<Recording, Host>,
        media: &Media,
    ) -> Result<Arc<dyn paged::log::LogManager>> {
        log.keep_cold_in(&media.files, "cold".into(), 7)?;
        if self.archives { media.home().archived(Arc::new(log)) } else { Ok(Arc::new(log)) }
    }

    fn create(&self) -> (Media, Arc<TestStore>) {
        let memory = Recording::new(LIMIT).expect("memory");
        memory.grow(AT + FORM.bytes()).expect("within its limit");
        let media = Media { files: memory.files(Default::default()), memory };
        let of = self.log_options();
        let log = NvLog::create(media.memory.clone(), AT, FORM, 7, of, Arc::default());
        let log = self.over(log, &media).expect("a log");
        let store = Store::create(&media.files, "", STAMP, log, self.store_options(), &TREES);
        (media, store.expect("a store"))
    }

    fn open(&self, media: &Media) -> Result<Arc<TestStore>> {
        let written = TestStore::written(&media.files, "")?;
        let (of, memory) = (self.log_options(), media.memory.clone());
        let log = NvLog::open_under(memory, AT, 7, of, Arc::default(), written)?;
        let log = self.over(log, media)?;
        Ok(Store::open(&media.files, "", log, self.store_options())?.0)
    }
}

/// A transaction that stays open over many others, on rows of its own.
struct Old {
    session: TestSession,
    rows: Model,
    is_open: bool,
}

fn own(key: &[u8]) -> bool {
    key[0] == u8::MAX
}

impl Old {
    fn step(&mut self, random: &mut StdRng, number: u64, model: &mut [Model; 2]) -> bool {
        if !self.is_open {
            if random.random_ratio(1, 3) {
                self.session.begin(number, None);
                self.is_open = true;
                let rows = model[0].iter().filter(|(key, _)| own(key));
                self.rows = rows.map(|(key, row)| (key.clone(), row.clone())).collect();
            }
            return false;
        }
        if random.random_ratio(1, 14) {
            self.is_open = false;
            if random.random() {
                self.session.abort().expect("aborted");
                return false;
            }
            model[0].retain(|key, _| !own(key));
            model[0].append(&mut self.rows);
            return true;
        }
        if random.random_ratio(1, 2) {
            let savepoint = self.session.savepoint();
            let before = self.rows.clone();
            let key = vec![u8::MAX, random.random_range(0..5)];
            let row = vec![number as u8; random.random_range(0..200)];
            if !self.rows.contains_key(&key) {
                self.session.insert(TREES[0], &key, &row).expect("inserted");
                self.rows.insert(key, row);
            } else if random.random_ratio(1, 3) {
                self.session.delete(TREES[0], &key).expect("deleted");
                self.rows.remove(&key);
            } else {
                self.session.update(TREES[0], &key, &row).expect("updated");
                self.rows.insert(key, row);
            }
            if random.random_ratio(1, 4) {
                self.session.rollback_to(savepoint).expect("rolled back");
                self.rows = before;
            }
        }
        false
    }
}

/// A story: the events, what each acknowledged transaction has left, and a base backup of its begin.
struct Recorded {
    trace: CombinedTrace,
    models: Vec<[Model; 2]>,
    base: Option<Copied>,
    cold: usize,
    kills: u64,
}

fn old_of(store: &Arc<TestStore>) -> Old {
    Old { session: store.session(), rows: Model::new(), is_open: false }
}

fn record(stage: &Stage, seed: u64, kills: bool) -> Recorded {
    let (media, mut store) = stage.create();
    let base = stage.archives.then(|| copy(&store));
    media.start();
    let (mut random, mut models) =
        (StdRng::seed_from_u64(seed), vec![[Model::new(), Model::new()]]);
    media.memory.note(0);
    let (mut cold, mut killed, mut old) = (0, 0, old_of(&store));
    for number in 0..TRANSACTIONS {
        let before = models[models.len() - 1].clone();
        let mut model = before.clone();
        if old.step(&mut random, 2 * number, &mut model) {
            let at = old.session.commit().expect("committed");
            store.wait(at).expect("durable");
            models.push(model.clone());
            media.memory.note(models.len() as u64 - 1);
        }
        let before = models[models.len() - 1].clone();
        let mut session = store.session();
        session.begin(2 * number + 1, None);
        change(&mut session, &mut random, &mut model, number);
        if kills && random.random_ratio(1, 6) {
            killed += 1;
            let call = random.random_range(0..24);
            if random.random_ratio(1, 3) {
                media.files.fail_once_after(call);
            } else {
                media.files.fail_after(Some(call));
            }
            if random.random() {
                let done = session.commit().and_then(|at| store.wait(at));
                let _ = done.and_then(|()| store.checkpoint());
            }
            // Its memory is gone, and what it had begun stays.
            std::mem::forget((session, old));
            drop(store);
            media.files.fail_after(Some(random.random_range(0..24)));
            drop(stage.open(&media).map(std::mem::forget));
            media.files.fail_after(None);
            store = stage.open(&media).expect("recovered");
            old = old_of(&store);
            let found = contents(&store).expect("read");
            assert!(found == before || found == model, "seed {seed}, transaction {number}");
            if found != before {
                models.push(found);
            }
            media.memory.note(models.len() as u64 - 1);
            continue;
        }
        if number % 7 == 3 {
            session.abort().expect("aborted");
            continue;
        }
        let at = session.commit().expect("committed");
        store.wait(at).expect("durable");
        models.push(model);
        media.memory.note(models.len() as u64 - 1);
        if random.random_ratio(1, 5) {
            store.checkpoint().expect("a checkpoint");
        }
        cold = cold.max(media.files.image().get("cold").map_or(0, Vec::len));
    }
    let trace = media.stop();
    drop((old, store));
    Recorded { trace, models, base, cold, kills: killed }
}

/// The states that are looked at.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    /// One crash point in so many.
    pub(crate) stride: u64,
    /// States of each.
    pub(crate) bound: u64,
    /// One of so many states crashes again in its recovery, and another one goes on.
    pub(crate) one_in: u64,
}

/// Calls `visit` with states of crash points, what was acknowledged, and the place.
fn states(
    trace: &CombinedTrace,
    look: Look,
    seed: u64,
    visit: &mut dyn FnMut(&CombinedImage, Option<u64>, usize),
) {
    let (mut replay, mut number) = (CombinedReplay::new(trace), seed);
    loop {
        number += 1;
        if !number.is_multiple_of(look.stride) {
            if replay.pass_point() {
                continue;
            }
            return;
        }
        let Some(point) = replay.next_point() else { return };
        let (noted, position) = (point.last_note, point.position);
        point.for_each_state(look.bound, seed, |image| visit(image, noted, position));
    }
}

/// The contents that a restart finds, and the next one again.
fn recovered(stage: &Stage, image: &CombinedImage) -> std::result::Result<[Model; 2], String> {
    let media = Media::of(image);
    let store = stage.open(&media).map_err(|error| error.to_string())?;
    let found = contents(&store).map_err(|error| error.to_string())?;
    check(&store, &found)?;
    drop(store);
    let media = Media::of(&media.image());
    let store = stage.open(&media).map_err(|error| format!("again: {error}"))?;
    check(&store, &found).map_err(|why| format!("again: {why}"))?;
    Ok(found)
}

/// Every state of a crash in the recovery from a state finds the same.
fn crashed_again(stage: &Stage, image: &CombinedImage, found: &[Model; 2]) -> u64 {
    let media = Media::of(image);
    media.start();
    let store = stage.open(&media).expect("opened");
    store.checkpoint().expect("a checkpoint");
    drop(store);
    let (trace, mut count) = (media.stop(), 0);
    states(&trace, Look { stride: 1, bound: 3, one_in: 0 }, 1, &mut |image, _, position| {
        let again = recovered(stage, image);
        assert_eq!(again.as_ref(), Ok(found), "crashed again, before event {position}");
        count += 1;
    });
    count
}

/// It goes on, and what its archive says is what it has.
fn goes_on(stage: &Stage, image: &CombinedImage, found: &[Model; 2], base: Option<&Copied>) {
    let (media, mut model) = (Media::of(image), found.clone());
    let store = stage.open(&media).expect("opened");
    let mut random = StdRng::seed_from_u64(9);
    for number in 0..12 {
        let mut session = store.session();
        session.begin(1000 + number, None);
        change(&mut session, &mut random, &mut model, number);
        let at = session.commit().expect("committed");
        store.wait(at).expect("durable");
    }
    store.close().expect("closed");
    drop(store);
    let media = Media::of(&media.image());
    let store = stage.open(&media).expect("opened");
    check(&store, &model).expect("the same");
    drop(store);
    if let Some(base) = base {
        let to = media.home().reader().expect("an archive").stored().to;
        let restored = media.home().restore(base, to).expect("restored");
        check(&restored, &model).expect("what is restored is the same");
    }
}

/// Looks at stories; returns how many states there were, of the second crashes too.
pub(crate) fn explore(seeds: Range<u64>, kills: &[bool], look: Look) -> (u64, u64) {
    let (mut visited, mut nested) = (0, 0);
    for (seed, kills) in seeds.flat_map(|seed| kills.iter().map(move |kills| (seed, *kills))) {
        let stage = Stage::of(seed);
        let recorded = record(&stage, seed, kills);
        assert!(recorded.cold > 16, "seed {seed}: nothing was put by");
        assert_eq!(recorded.kills > 0, kills, "seed {seed}");
        states(&recorded.trace, look, seed, &mut |image, noted, position| {
            let at = || format!("seed {seed}, {stage:?}, kills {kills}, before event {position}");
            let first = noted.unwrap_or(0) as usize;
            let found = recovered(&stage, image).unwrap_or_else(|why| panic!("{}: {why}", at()));
            let is_sound = recorded.models[first..].iter().take(2).any(|model| *model == found);
            assert!(is_sound, "{}: not what transaction {first} left", at());
            visited += 1;
            if visited % look.one_in == 0 {
                nested += crashed_again(&stage, image, &found);
            }
            if visited % look.one_in == look.one_in / 2 {
                goes_on(&stage, image, &found, recorded.base.as_ref());
            }
        });
        println!("seed {seed}, {stage:?}, kills {kills}: {visited} states, {nested} again");
    }
    (visited, nested)
}

#[test]
fn power_cuts_of_memory_and_files_leave_what_was_acknowledged() {
    let (states, nested) = explore(0..4, &[true], Look { stride: 97, bound: 2, one_in: 23 });
    assert!(states > 100 && nested > 100, "{states} states, {nested} again");
}
