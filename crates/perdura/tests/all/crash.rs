//! Crash tests of whole databases over recording media.
//!
//! Fault model (`docs/format/crash-model.md`): at any moment power may fail; of every line a prefix
//! of its stores has persisted, lines are independent until flushed and fenced, bulk copies tear.
//! For each state: recover from the image alone, at another address, through
//! `Database::open_on`; every acknowledged transaction must be there, at most the one in flight
//! beside them, whole; indexes and allocator agree; more transactions work; a second recovery
//! changes nothing.

use crate::support::{Driver, Model, Tables, compare, contents, schema};
use perdura::recording::{Recording, RecordingFiles, Replay, Site, Trace};
use perdura::{Database, EngineKind, Error, Media, Options, Recorded, Value};

const LIMIT: u64 = 4 << 20;

fn options(engine: EngineKind) -> Options {
    small_runs().engine(engine).chunk_bytes(16 << 10)
}

/// So small that a story has runs in several levels.
fn small_runs() -> Options {
    Options::new().memtable_bytes(3 << 10).growth(2)
}

fn open(image: &[u8]) -> Result<(Database<Recorded>, Recording), Error> {
    // As `Pool::open`: what lies beyond the size in the header is not there.
    let whole = Recording::from_image(image, LIMIT).unwrap();
    let (header, _) = perdura::recording::read_header(&whole)?;
    let memory = Recording::from_image(&image[..header.size as usize], LIMIT).unwrap();
    memory.start();
    let media = Media::recorded(memory.clone(), RecordingFiles::new());
    Ok((Database::open_on(media, &small_runs())?, memory))
}

/// A trace of random transactions, and the model after each acknowledged one.
struct Story {
    trace: Trace,
    models: Vec<Model>,
}

/// Transactions with few and many operations, aborts, duplicate and missing keys, splits, merges,
/// root changes, growth of pool and log; for NVM-Log MemTables that are frozen, and merged in steps
/// that the commits do.
fn nvm_story(engine: EngineKind, seed: u64, transactions: usize, keys: u64) -> Story {
    let memory = Recording::pool(64 << 10, LIMIT).unwrap();
    let media = Media::recorded(memory.clone(), RecordingFiles::new());
    let db = Database::create_on(media, &schema(), &options(engine)).unwrap();
    let tables = Tables::of(&db);
    let mut driver = Driver::new(seed, keys);
    let mut models = vec![Model::default()];
    memory.start();
    for transaction in 0..transactions {
        let mut model = models[models.len() - 1].clone();
        // Now and then one that needs several log segments.
        let operations = if transaction % 40 == 39 { 150 } else { 1 + transaction % 6 };
        // Each in a thread of its own: no fence may be relied on that another thread makes.
        let mut committed = false;
        let work = || driver.transaction(&db, &tables, &mut model, operations).unwrap();
        std::thread::scope(|scope| committed = scope.spawn(work).join().unwrap());
        if committed {
            models.push(model);
            memory.note(models.len() as u64 - 1);
        }
    }
    compare(&db, &models[models.len() - 1]);
    let trace = memory.stop();
    db.close().unwrap();
    Story { trace, models }
}

/// What is wrong with the state that a crash left behind, if anything.
fn verdict(image: &[u8], story: &Story, acknowledged: u64, deep: bool) -> Result<(), String> {
    let (db, memory) = open(image).map_err(|error| format!("does not open: {error}"))?;
    let found = contents(&db).map_err(|error| format!("cannot be read: {error}"))?;
    let acknowledged = acknowledged as usize;
    let mut possible = story.models[acknowledged..].iter().take(2);
    if !possible.any(|model| *model == found) {
        let earlier = story.models.iter().position(|model| *model == found);
        return Err(format!(
            "after {acknowledged} acknowledged transactions the contents are {}",
            earlier.map_or("those of no moment".into(), |at| format!("those after {at}"))
        ));
    }
    let report = db.check().map_err(|error| format!("is damaged: {error}"))?;
    if report.leaked != 0 || report.dangling != 0 {
        return Err(format!("the allocator disagrees: {report:?}"));
    }
    if deep {
        let mut model = found;
        let mut driver = Driver::new(image.len() as u64 ^ acknowledged as u64, 60);
        let tables = Tables::of(&db);
        for operations in 0..20 {
            driver
                .transaction(&db, &tables, &mut model, operations % 5)
                .map_err(|error| format!("cannot go on: {error}"))?;
        }
        compare(&db, &model);
        db.abandon();
        let (again, _) = open(&memory.contents()).map_err(|error| format!("again: {error}"))?;
        compare(&again, &model);
    } else {
        db.abandon();
    }
    Ok(())
}

/// Crashes again at every fence of the recovery from `image`.
fn crash_in_recovery(image: &[u8], story: &Story, acknowledged: u64) -> Result<u64, String> {
    let (db, memory) = open(image).map_err(|error| format!("does not open: {error}"))?;
    let trace = memory.stop();
    db.abandon();
    let mut replay = Replay::new(&trace);
    let (mut states, mut failed) = (0, None);
    while let Some(point) = replay.next_point() {
        let position = point.position;
        states += point
            .for_each_state(6, 3, |image| {
                if failed.is_none()
                    && let Err(why) = verdict(image, story, acknowledged, false)
                {
                    failed = Some(format!("recovery crashed at its event {position}: {why}"));
                }
            })
            .visited;
    }
    failed.map_or(Ok(states), Err)
}

#[derive(Default, Debug)]
struct Explored {
    points: u64,
    states: u64,
    nested: u64,
    fences: u64,
    violations: Vec<String>,
}

/// Looks at every crash point of a trace in up to `bound` states each, and crashes again in the
/// recovery from every `nested`th of them.
fn explore(story: &Story, trace: &Trace, bound: u64, nested: u64, stop_at: usize) -> Explored {
    let mut explored = Explored::default();
    let mut replay = Replay::new(trace);
    let mut count = 0u64;
    while explored.violations.len() < stop_at
        && let Some(point) = replay.next_point()
    {
        explored.points += 1;
        let (position, acknowledged) = (point.position, point.last_note.unwrap_or(0));
        let mut failed = None;
        let mut crashed_again = 0;
        let states = point.for_each_state(bound, 7, |image| {
            count += 1;
            if failed.is_some() {
                return;
            }
            let mut done = verdict(image, story, acknowledged, count.is_multiple_of(16));
            if done.is_ok() && nested > 0 && count.is_multiple_of(nested) {
                done = crash_in_recovery(image, story, acknowledged).map(|more| {
                    crashed_again += more;
                });
            }
            failed = done.err().map(|why| format!("event {position}: the database {why}"));
        });
        explored.states += states.visited;
        explored.nested += crashed_again;
        explored.violations.extend(failed);
    }
    explored.fences = replay.fences();
    explored
}

#[test]
fn nvm_inp_survives_a_power_cut_at_every_fence() {
    power_cuts(EngineKind::NvmInp, [(14, 60, 3), (11, 160, 60), (12, 60, 300)], 20, 100);
}

#[test]
fn nvm_log_survives_a_power_cut_at_every_fence() {
    // Freezing, merging and taking apart have crash points of their own: shorter stories.
    power_cuts(EngineKind::NvmLog, [(14, 60, 3), (11, 50, 60), (12, 30, 300)], 4, 400);
}

fn power_cuts(engine: EngineKind, stories: [(u64, usize, u64); 3], bound: u64, nested: u64) {
    for (seed, transactions, keys) in stories {
        let story = nvm_story(engine, seed, transactions, keys);
        let explored = explore(&story, &story.trace, bound, nested, 1);
        println!(
            "seed {seed}: {} fences, {} points, {} states, {} in recovery",
            explored.fences, explored.points, explored.states, explored.nested
        );
        assert_eq!(explored.violations, [""; 0], "seed {seed}");
        assert!(explored.points > 100 && explored.states > 1_000, "{explored:?}");
    }
}

/// One transaction that updates both columns of a composite index and then deletes the tuple.
fn two_operations_on_one_tuple(engine: EngineKind, commit: bool) -> Story {
    let memory = Recording::pool(64 << 10, LIMIT).unwrap();
    let media = Media::recorded(memory.clone(), RecordingFiles::new());
    let db = Database::create_on(media, &schema(), &options(engine)).unwrap();
    let tables = Tables::of(&db);
    let item = |count, flag: &[u8]| crate::support::Item {
        name: "n".into(),
        payload: vec![],
        count,
        flag: flag.into(),
        score: 0.0,
    };
    let mut models = vec![Model::default()];
    models[0].items.insert(1, item(1, b"ffff"));
    db.write(|tx| crate::support::insert_item(tx, &tables, 1, &item(1, b"ffff"))).unwrap();
    memory.start();
    let mut tx = db.begin().unwrap();
    crate::support::update_item(&mut tx, &tables, 1, &item(0, b"f"), 4 | 8).unwrap();
    tx.delete(&tables.item, &[Value::U64(1)]).unwrap();
    if commit {
        assert!(tx.commit().unwrap().is_durable());
        models.push(Model::default());
        memory.note(1);
    } else {
        tx.abort().unwrap();
    }
    let trace = memory.stop();
    db.close().unwrap();
    Story { trace, models }
}

/// The second operation's log entry must not persist before the first one's changes, and an
/// operation that is undone must not be undone again after an older one: index keys are made of
/// logged and of stored fields, and half of an update would give keys that never were.
#[test]
fn operations_on_one_tuple_are_ordered() {
    for engine in [EngineKind::NvmInp, EngineKind::NvmLog] {
        for commit in [true, false] {
            let story = two_operations_on_one_tuple(engine, commit);
            let explored = explore(&story, &story.trace, 5_000, 1, 1);
            assert_eq!(explored.violations, [""; 0], "{engine}, committed: {commit}");
        }
    }
}

#[test]
fn nvm_inp_survives_a_kill_at_every_store() {
    kills(EngineKind::NvmInp, 40);
}

#[test]
fn nvm_log_survives_a_kill_at_every_store() {
    kills(EngineKind::NvmLog, 60);
}

fn kills(engine: EngineKind, transactions: usize) {
    let seed = 21;
    let story = nvm_story(engine, seed, transactions, 40);
    // A kill loses no store, so the trace's notes say what was acknowledged at each event.
    let mut acknowledged = vec![0];
    for recorded in &story.trace.events {
        let note = match recorded.event {
            perdura::recording::Event::Note(note) => note,
            _ => acknowledged[acknowledged.len() - 1],
        };
        acknowledged.push(note);
    }
    let mut states = 0;
    story.trace.process_states(|events, image| {
        states += 1;
        let done = verdict(image, &story, acknowledged[events], states % 16 == 0);
        assert_eq!(done, Ok(()), "seed {seed}, killed after event {events}");
    });
    assert!(states > 2_000, "{states} states");
}

/// Without one of its flushes or fences the engine must fail the test above: else either the test
/// is blind or the instruction superfluous.
#[test]
fn the_crash_test_fails_without_any_one_flush_or_fence() {
    sweep(EngineKind::NvmInp);
}

#[test]
fn the_crash_test_of_nvm_log_fails_without_any_one_flush_or_fence() {
    sweep(EngineKind::NvmLog);
}

fn sweep(engine: EngineKind) {
    let stories = [
        (two_operations_on_one_tuple(engine, true), 5_000),
        (two_operations_on_one_tuple(engine, false), 5_000),
        // The short ones first: most faults show there.
        (nvm_story(engine, 14, 60, 3), 10),
        (nvm_story(engine, 12, 60, 300), 10),
        (nvm_story(engine, 11, if engine == EngineKind::NvmInp { 160 } else { 80 }, 60), 20),
    ];
    // A fault must show in one of the stories that run into its place.
    let unseen = |sites: fn(&Trace) -> Vec<Site>, without: fn(&Trace, Site) -> Trace| {
        let mut places: Vec<Site> = Vec::new();
        for site in stories.iter().flat_map(|(story, _)| sites(&story.trace)) {
            if !places.contains(&site) {
                places.push(site);
            }
        }
        places.retain(|site| {
            stories.iter().all(|(story, bound)| {
                !sites(&story.trace).contains(site)
                    || explore(story, &without(&story.trace, site), *bound, 0, 1)
                        .violations
                        .is_empty()
            })
        });
        places
    };
    assert_eq!(unseen(Trace::flush_sites, Trace::without_flushes_of), [] as [Site; 0]);
    assert_eq!(unseen(Trace::fence_sites, Trace::without_fences_of), [] as [Site; 0]);
}
