//! Crash tests of NVM-CoW over recording memory.
//!
//! Fault model (`docs/format/crash-model.md`): at any moment power may fail; of every line a prefix
//! of its stores has persisted, lines are independent until flushed and fenced, bulk copies tear.
//! For each state: open the image alone through `Database::open_on`; every acknowledged transaction
//! must be there, at most those in flight beside them, in order, whole; trees, pages and the
//! allocator agree; more transactions work; a second opening changes nothing. The stories have
//! splits, merges, growth, aborts, batches of several, lists of several segments, and snapshots
//! that pin what is superseded.

use crate::support::{Driver, Model, Tables, compare, contents, schema};
use perdura::recording::{Recording, RecordingFiles, Replay, Site, Trace};
use perdura::{Commit, Database, EngineKind, Error, Media, Options, Recorded, Snapshot};

const LIMIT: u64 = 4 << 20;

fn options(group: u32) -> Options {
    let commit = if group == 1 { Commit::Durable } else { Commit::Grouped(group) };
    Options::new()
        .engine(EngineKind::NvmCow)
        .commit(commit)
        .chunk_bytes(16 << 10)
        .tree_node_bytes(128)
}

fn open(image: &[u8]) -> Result<(Database<Recorded>, Recording), Error> {
    // As `Pool::open`: what lies beyond the size in the header is not there, and the other copy of
    // the header becomes the same.
    let header = |image: &[u8]| {
        let whole = Recording::from_image(image, LIMIT).unwrap();
        perdura::recording::read_header(&whole).map(|(header, _)| header)
    };
    let mut image = image.to_vec();
    let better = header(&image)?;
    let mut same = image.clone();
    same.copy_within(0..128, 4096);
    if header(&same).is_ok_and(|first| first.sequence == better.sequence) {
        image = same;
    } else {
        image.copy_within(4096..4224, 0);
    }
    let header = better;
    let memory = Recording::from_image(&image[..header.size as usize], LIMIT).unwrap();
    memory.start();
    let media = Media::recorded(memory.clone(), RecordingFiles::new());
    Ok((Database::open_on(media, &Options::new())?, memory))
}

/// A trace of random transactions, and the model after each committed one.
struct Story {
    trace: Trace,
    models: Vec<Model>,
    /// Most transactions that can be committed and not acknowledged.
    in_flight: usize,
}

/// Runs random transactions. Note `n` says that the first `n` are acknowledged.
fn story(seed: u64, transactions: usize, group: u32, keys: u64) -> Story {
    let memory = Recording::pool(64 << 10, LIMIT).unwrap();
    let media = Media::recorded(memory.clone(), RecordingFiles::new());
    let db = Database::create_on(media, &schema(), &options(group)).unwrap();
    let tables = Tables::of(&db);
    let mut driver = Driver::new(seed, keys);
    let mut models = vec![Model::default()];
    let mut snapshots: Vec<Snapshot> = Vec::new();
    memory.start();
    for transaction in 0..transactions {
        let before = models[models.len() - 1].clone();
        let mut model = before.clone();
        // Now and then one whose list needs several segments.
        let operations = if transaction % 40 == 39 { 150 } else { 1 + transaction % 6 };
        let mut durable = false;
        let work = || {
            let mut tx = db.begin().unwrap();
            for _ in 0..operations {
                driver.operation(&mut tx, &tables, &mut model).unwrap();
            }
            if transaction % 7 == 6 {
                tx.abort().unwrap();
                model = before.clone();
            } else {
                durable = tx.commit().unwrap().is_durable();
            }
        };
        // Each in a thread of its own: no fence may be relied on that another thread makes.
        std::thread::scope(|scope| scope.spawn(work).join().unwrap());
        if model != before {
            models.push(model);
        }
        if group > 1 && transaction % 10 == 9 {
            db.sync().unwrap();
            durable = true;
        }
        if durable {
            memory.note(models.len() as u64 - 1);
        }
        match transaction % 9 {
            2 => snapshots.push(db.snapshot().unwrap()),
            7 => snapshots.clear(),
            _ => {}
        }
    }
    db.sync().unwrap();
    memory.note(models.len() as u64 - 1);
    snapshots.clear();
    compare(&db, &models[models.len() - 1]);
    let trace = memory.stop();
    db.close().unwrap();
    Story { trace, models, in_flight: group as usize }
}

/// What is wrong with the state that a crash left behind, if anything.
fn verdict(image: &[u8], story: &Story, acknowledged: u64, deep: bool) -> Result<(), String> {
    let (db, memory) = open(image).map_err(|error| format!("does not open: {error}"))?;
    let found = contents(&db).map_err(|error| format!("cannot be read: {error}"))?;
    let acknowledged = acknowledged as usize;
    let mut possible = story.models[acknowledged..].iter().take(story.in_flight + 1);
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

/// Crashes again in opening `image`, and in the transactions right after it.
fn crash_again(image: &[u8], acknowledged: u64) -> Result<u64, String> {
    let (db, memory) = open(image).map_err(|error| format!("does not open: {error}"))?;
    let (tables, mut driver) = (Tables::of(&db), Driver::new(acknowledged, 60));
    let mut models = vec![contents(&db).map_err(|error| error.to_string())?];
    for operations in 1..4 {
        let mut model = models[models.len() - 1].clone();
        let done = driver.transaction(&db, &tables, &mut model, operations);
        if done.map_err(|error| format!("cannot go on: {error}"))? {
            models.push(model);
            memory.note(models.len() as u64 - 1);
        }
    }
    let trace = memory.stop();
    db.abandon();
    let after = Story { trace, models, in_flight: 1 };
    let explored = explore(&after, &after.trace, 5, 0, 1);
    let first = explored.violations.into_iter().next();
    first.map_or(Ok(explored.states), |why| Err(format!("after an opening: {why}")))
}

#[derive(Default, Debug)]
struct Explored {
    points: u64,
    states: u64,
    nested: u64,
    fences: u64,
    violations: Vec<String>,
}

/// Looks at every crash point of a trace in up to `bound` states each, and crashes again after
/// the opening of every `nested`th of them.
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
                done = crash_again(image, acknowledged).map(|more| {
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
fn nvm_cow_survives_a_power_cut_at_every_fence() {
    for (seed, transactions, group, keys) in
        [(14, 60, 1, 3), (11, 120, 1, 60), (12, 50, 1, 300), (13, 160, 4, 60), (15, 160, 30, 60)]
    {
        let story = story(seed, transactions, group, keys);
        let explored = explore(&story, &story.trace, 14, 200, 1);
        println!(
            "seed {seed}, groups of {group}: {} fences, {} points, {} states, {} after an opening",
            explored.fences, explored.points, explored.states, explored.nested
        );
        assert_eq!(explored.violations, [""; 0], "seed {seed}");
        assert!(explored.points > 15 && explored.states > 200, "{explored:?}");
    }
}

#[test]
fn nvm_cow_survives_a_kill_at_every_store() {
    let seed = 21;
    let story = story(seed, 30, 1, 40);
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
        if states % 9 != 0 {
            return;
        }
        let done = verdict(image, &story, acknowledged[events], states % 63 == 0);
        assert_eq!(done, Ok(()), "seed {seed}, killed after event {events}");
    });
    assert!(states > 4_000, "{states} states");
}

/// Without one of its flushes or fences the engine must fail the test above: else either the test
/// is blind or the instruction superfluous.
#[test]
fn the_crash_test_fails_without_any_one_flush_or_fence() {
    let stories = [story(11, 90, 1, 60), story(13, 120, 4, 60)];
    let unseen = |sites: fn(&Trace) -> Vec<Site>, without: fn(&Trace, Site) -> Trace| {
        let mut places: Vec<Site> = Vec::new();
        for site in stories.iter().flat_map(|story| sites(&story.trace)) {
            if !places.contains(&site) {
                places.push(site);
            }
        }
        println!("{} places", places.len());
        assert!(places.len() >= 5);
        places.retain(|site| {
            stories.iter().all(|story| {
                !sites(&story.trace).contains(site)
                    || explore(story, &without(&story.trace, site), 20, 0, 1).violations.is_empty()
            })
        });
        places.iter().map(|site| format!("{}:{}", site.file(), site.line())).collect::<Vec<_>>()
    };
    let flushes = unseen(Trace::flush_sites, Trace::without_flushes_of);
    let fences = unseen(Trace::fence_sites, Trace::without_fences_of);
    assert_eq!((flushes, fences), (vec![], vec![]));
}
