//! Crash tests of CoW: its file under power cuts, in the `disk` mode of the crash model.
//!
//! Fault model (`docs/format/crash-model.md`): of what was written since the last sync each sector
//! may or may not have persisted, and lengths are lost unless synced. The pool holds only the
//! description, which is durable before the first transaction.
//!
//! For each state: open through `Database::open_on`; all acknowledged transactions must be there,
//! at most those in flight beside them, each whole and in order; trees, pages and counts are
//! sound; more transactions work; a second opening finds the same. The story has splits, merges,
//! values of many pages, aborts, large transactions, a cache that is too small for them, and
//! groups.

use std::collections::BTreeMap;

use crate::support::{Driver, Model, Tables, compare, contents, schema};
use perdura::recording::{DiskReplay, Recording, RecordingFiles};
use perdura::{Commit, Database, EngineKind, Error, Media, Options, Recorded, Value};

type Files = BTreeMap<String, Vec<u8>>;

const LIMIT: u64 = 1 << 20;

fn options(commit: Commit) -> Options {
    Options::new().engine(EngineKind::Cow).commit(commit).page_bytes(512).cache_bytes(16 << 10)
}

/// The bytes of the pool, and the model after each committed transaction.
struct Story {
    pool: Vec<u8>,
    models: Vec<Model>,
    /// Most transactions that can be committed and not acknowledged.
    in_flight: usize,
}

/// Runs random transactions. Note `n` says that the first `n` are acknowledged.
fn run(seed: u64, transactions: usize, group: u32, keys: u64) -> (Story, RecordingFiles) {
    let commit = if group == 1 { Commit::Durable } else { Commit::Grouped(group) };
    let memory = Recording::pool(64 << 10, LIMIT).unwrap();
    let files = RecordingFiles::new();
    let media = Media::recorded(memory.clone(), files.clone());
    let db: Database<Recorded> = Database::create_on(media, &schema(), &options(commit)).unwrap();
    let tables = Tables::of(&db);
    let (mut driver, mut models) = (Driver::new(seed, keys), vec![Model::default()]);
    let pool = memory.contents();
    files.start();
    for transaction in 0..transactions {
        let before = models[models.len() - 1].clone();
        let mut model = before.clone();
        let operations = if transaction % 25 == 24 { 60 } else { 1 + transaction % 5 };
        let mut tx = db.begin().unwrap();
        for _ in 0..operations {
            driver.operation(&mut tx, &tables, &mut model).unwrap();
        }
        if transaction % 7 == 6 {
            tx.abort().unwrap();
            continue;
        }
        let ticket = tx.commit().unwrap();
        assert!(group > 1 || ticket.is_durable());
        if model != before {
            models.push(model);
        }
        if transaction % 10 == 9 {
            db.sync().unwrap();
        }
        if ticket.is_durable() || transaction % 10 == 9 {
            files.note(models.len() as u64 - 1);
        }
    }
    db.sync().unwrap();
    files.note(models.len() as u64 - 1);
    compare(&db, &models[models.len() - 1]);
    assert_eq!(memory.contents(), pool, "the pool of an engine with files does not change");
    db.abandon();
    (Story { pool, models, in_flight: group as usize }, files)
}

fn open(story: &Story, files: &RecordingFiles) -> Result<Database<Recorded>, Error> {
    let memory = Recording::from_image(&story.pool, LIMIT).unwrap();
    let media = Media::recorded(memory, files.clone());
    Database::open_on(media, &Options::new().cache_bytes(16 << 10))
}

fn verdict(story: &Story, image: &Files, acknowledged: u64, deep: bool) -> Result<(), String> {
    let files = RecordingFiles::from_image(image.clone());
    let db = open(story, &files).map_err(|error| format!("does not open: {error}"))?;
    let found = contents(&db).map_err(|error| format!("cannot be read: {error}"))?;
    let acknowledged = acknowledged as usize;
    let mut possible = story.models[acknowledged..].iter().take(story.in_flight + 1);
    if !possible.any(|model| *model == found) {
        let earlier = story.models.iter().rposition(|model| *model == found);
        return Err(format!(
            "after {acknowledged} acknowledged transactions the contents are {}",
            earlier.map_or("those of no moment".into(), |at| format!("those after {at}"))
        ));
    }
    db.check().map_err(|error| format!("is damaged: {error}"))?;
    let mut model = found;
    if deep {
        let (tables, mut driver) = (Tables::of(&db), Driver::new(acknowledged as u64, 60));
        for operations in 0..20 {
            driver
                .transaction(&db, &tables, &mut model, operations % 5)
                .map_err(|error| format!("cannot go on: {error}"))?;
        }
        compare(&db, &model);
    }
    db.abandon();
    let again = open(story, &files).map_err(|error| format!("does not open again: {error}"))?;
    if deep {
        compare(&again, &model);
    } else if contents(&again).map_err(|error| error.to_string())? != model {
        return Err("a second opening finds something else".into());
    }
    again.abandon();
    Ok(())
}

#[derive(Default)]
struct Explored {
    points: u64,
    states: u64,
    syncs: u64,
    violation: Option<String>,
}

/// Looks at every crash point in up to `bound` states; stops at the first violation.
fn explore(story: &Story, mut replay: DiskReplay<'_>, bound: u64) -> Explored {
    let mut explored = Explored::default();
    while explored.violation.is_none()
        && let Some(point) = replay.next_point()
    {
        explored.points += 1;
        let (position, acknowledged) = (point.position, point.last_note.unwrap_or(0));
        let (mut count, mut failed) = (explored.states, None);
        let states = point.for_each_state(bound, 9, |image| {
            count += 1;
            if failed.is_none() {
                let done = verdict(story, image, acknowledged, count.is_multiple_of(16));
                failed = done.err().map(|why| format!("event {position}: the database {why}"));
            }
        });
        explored.states += states.visited;
        explored.violation = failed;
    }
    explored.syncs = replay.syncs();
    explored
}

fn survives(seed: u64, transactions: usize, group: u32, keys: u64) {
    let (story, files) = run(seed, transactions, group, keys);
    let trace = files.stop();
    let explored = explore(&story, DiskReplay::new(&trace), 12);
    println!(
        "seed {seed}, groups of {group}: {} transactions, {} syncs, {} points, {} states",
        story.models.len() - 1,
        explored.syncs,
        explored.points,
        explored.states
    );
    assert_eq!(explored.violation, None, "seed {seed}");
}

#[test]
fn cow_survives_a_power_cut_at_every_sync() {
    survives(1, 100, 1, 40);
    survives(2, 100, 1, 400);
}

#[test]
fn grouped_commits_are_safe_once_synced_and_whole_before() {
    survives(3, 120, 4, 40);
    survives(4, 120, 30, 200);
}

/// Crashes in the transactions after an opening, which find free pages again meanwhile.
#[test]
fn a_crash_after_a_crash_is_survived() {
    let (story, files) = run(6, 40, 1, 60);
    let trace = files.stop();
    let mut replay = DiskReplay::new(&trace);
    let mut images = Vec::new();
    while let Some(point) = replay.next_point() {
        let acknowledged = point.last_note.unwrap_or(0);
        point.for_each_state(3, 5, |image| images.push((image.clone(), acknowledged)));
    }
    let mut states = 0;
    for (image, _) in images.iter().step_by(images.len() / 12) {
        let files = RecordingFiles::from_image(image.clone());
        files.start();
        let db = open(&story, &files).unwrap();
        let (tables, mut driver) = (Tables::of(&db), Driver::new(states, 60));
        let mut models = vec![contents(&db).unwrap()];
        files.note(0);
        for operations in 0..12 {
            let mut model = models[models.len() - 1].clone();
            if driver.transaction(&db, &tables, &mut model, 1 + operations % 5).unwrap() {
                models.push(model);
                files.note(models.len() as u64 - 1);
            }
        }
        db.abandon();
        let trace = files.stop();
        let later = Story { pool: story.pool.clone(), models, in_flight: 1 };
        let explored = explore(&later, DiskReplay::new(&trace), 12);
        assert_eq!(explored.violation, None);
        states += explored.states;
    }
    println!("{states} states");
    assert!(states > 1_000);
}

/// Without one of its syncs the engine must fail the test above.
#[test]
fn the_test_fails_without_one_sync() {
    let (story, files) = run(5, 80, 1, 60);
    let trace = files.stop();
    let mut unseen = Vec::new();
    for site in trace.sync_sites() {
        let without = trace.without_syncs_of(site);
        if explore(&story, DiskReplay::new(&without), 16).violation.is_none() {
            unseen.push(format!("{}:{}", site.file(), site.line()));
        }
    }
    println!("{} places sync", trace.sync_sites().len());
    assert!(trace.sync_sites().len() >= 2);
    assert_eq!(unseen, [""; 0]);
}

/// Wherever a call on the file fails nothing acknowledged is lost, and what cannot be undone stops
/// the partition with an error.
#[test]
fn a_full_disk_loses_nothing() {
    let (mut stopped, mut refused) = (0, 0);
    for calls in 0..120 {
        let memory = Recording::pool(64 << 10, LIMIT).unwrap();
        let files = RecordingFiles::new();
        let media = Media::recorded(memory.clone(), files.clone());
        // Pages are written when a batch ends only.
        let options = options(Commit::Durable).cache_bytes(1 << 20);
        let db = Database::create_on(media, &schema(), &options).unwrap();
        let (tables, mut driver, mut model) =
            (Tables::of(&db), Driver::new(3, 60), Model::default());
        let pool = memory.contents();
        files.fail_after(Some(calls));
        let mut possible = vec![];
        for transaction in 0..60 {
            let mut after = model.clone();
            let mut tx = db.begin().unwrap();
            let mut done = Ok(());
            for _ in 0..1 + transaction % 6 {
                done = driver.operation(&mut tx, &tables, &mut after);
                if done.is_err() {
                    break;
                }
            }
            if done.is_err() {
                refused += 1;
                tx.abort().unwrap();
                compare(&db, &model);
                continue;
            }
            match tx.commit() {
                Ok(_) => model = after,
                Err(_) => {
                    // It may or may not be there.
                    possible.push(after);
                    break;
                }
            }
        }
        files.fail_after(None);
        if !possible.is_empty() {
            stopped += 1;
            let again = db.write(|tx| tx.delete(&tables.item, &[Value::U64(1)]));
            assert!(matches!(again, Err(Error::Engine(_))), "{again:?}");
        }
        possible.push(model);
        db.abandon();
        let story = Story { pool, models: possible.clone(), in_flight: 2 };
        let found = contents(&open(&story, &files).unwrap()).unwrap();
        assert!(possible.contains(&found), "after {calls} calls");
    }
    println!("{stopped} stopped, {refused} operations refused");
    assert!(stopped > 20 && refused > 20);
}
