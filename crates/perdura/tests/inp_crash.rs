//! Crash tests of InP: its files under power cuts, in the `disk` mode of the crash model.
//!
//! Fault model (`docs/format/crash-model.md`): of what was written since the last sync each sector
//! may or may not have persisted, lengths are lost unless synced, and of the operations on the
//! directory the first few have persisted. The pool holds only the description, which is durable
//! before the first transaction, so its image is the same in every state.
//!
//! For each state: recover through `Database::open_on`; all acknowledged transactions must be
//! there, at most the ones in flight beside them, each whole and in order; more transactions work;
//! a second recovery finds the same. The story has checkpoints, rotations, aborts and transactions
//! larger than the log's buffer is reserved ahead.

mod support;

use std::collections::BTreeMap;

use perdura::recording::{DiskReplay, Recording, RecordingFiles};
use perdura::{Commit, Database, EngineKind, Media, Options, Recorded};
use support::{Driver, Model, Tables, compare, contents, schema};

type Files = BTreeMap<String, Vec<u8>>;

const LIMIT: u64 = 1 << 20;

fn options(commit: Commit) -> Options {
    Options::new()
        .engine(EngineKind::Inp)
        .commit(commit)
        .checkpoint_bytes(12 << 10)
        .wal_reserve_bytes(3 << 10)
}

/// The bytes of the pool, and the model after each committed transaction.
struct Story {
    pool: Vec<u8>,
    models: Vec<Model>,
    /// Most transactions that can be committed and not acknowledged.
    in_flight: usize,
}

/// Runs random transactions. Note `n` says that the first `n` are acknowledged: as they commit, or
/// if they are grouped, as a sync returns.
fn run(seed: u64, transactions: usize, group: u32) -> (Story, RecordingFiles) {
    let commit = if group == 1 { Commit::Durable } else { Commit::Grouped(group) };
    let memory = Recording::pool(64 << 10, LIMIT).unwrap();
    let files = RecordingFiles::new();
    let media = Media::recorded(memory.clone(), files.clone());
    let db: Database<Recorded> = Database::create_on(media, &schema(), &options(commit)).unwrap();
    let tables = Tables::of(&db);
    let (mut driver, mut models) = (Driver::new(seed, 40), vec![Model::default()]);
    let pool = memory.contents();
    files.start();
    for transaction in 0..transactions {
        let mut model = models[models.len() - 1].clone();
        let operations = if transaction % 25 == 24 { 40 } else { 1 + transaction % 5 };
        let before = model.clone();
        let mut tx = db.begin().unwrap();
        for _ in 0..operations {
            driver.operation(&mut tx, &tables, &mut model).unwrap();
        }
        if transaction % 7 == 6 || model == before {
            tx.abort().unwrap();
            continue;
        }
        let ticket = tx.commit().unwrap();
        assert!(group > 1 || ticket.is_durable());
        models.push(model);
        if transaction % 30 == 29 {
            // The next segment is begun, then there is no room for the checkpoint: the log goes on.
            db.sync().unwrap();
            files.fail_after(Some(5));
            assert!(db.checkpoint().is_err());
            files.fail_after(None);
        }
        if transaction % 10 == 9 {
            db.sync().unwrap();
            files.note(models.len() as u64 - 1);
        } else if ticket.is_durable() {
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

fn open(story: &Story, files: &RecordingFiles) -> Result<Database<Recorded>, String> {
    let memory = Recording::from_image(&story.pool, LIMIT).unwrap();
    let media = Media::recorded(memory, files.clone());
    let small = Options::new().checkpoint_bytes(12 << 10).wal_reserve_bytes(3 << 10);
    Database::open_on(media, &small).map_err(|error| format!("does not open: {error}"))
}

fn verdict(story: &Story, image: &Files, acknowledged: u64, deep: bool) -> Result<(), String> {
    let files = RecordingFiles::from_image(image.clone());
    let db = open(story, &files)?;
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
    let again = open(story, &files)?;
    if deep {
        compare(&again, &model);
    } else if contents(&again).map_err(|error| error.to_string())? != model {
        return Err("a second recovery finds something else".into());
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

fn survives(seed: u64, transactions: usize, group: u32) {
    let (story, files) = run(seed, transactions, group);
    let names: Vec<String> = files.image().into_keys().collect();
    let trace = files.stop();
    let explored = explore(&story, DiskReplay::new(&trace), 12);
    println!(
        "seed {seed}, groups of {group}: {} transactions, {} syncs, {} points, \
         {} states; {names:?}",
        story.models.len() - 1,
        explored.syncs,
        explored.points,
        explored.states
    );
    assert_eq!(explored.violation, None, "seed {seed}");
    assert!(names.iter().any(|name| name.starts_with("checkpoint-0-")), "{names:?}");
    let newest = names.iter().rfind(|name| name.starts_with("wal-0-")).unwrap();
    assert!(!newest.ends_with("-0000000000000000"), "the log has been rotated: {newest}");
}

#[test]
fn inp_survives_a_power_cut_at_every_sync() {
    survives(1, 120, 1);
    survives(2, 120, 1);
}

#[test]
fn grouped_commits_are_safe_once_synced_and_whole_before() {
    survives(3, 120, 4);
    survives(4, 120, 30);
}

/// Without one of its syncs the engine must fail the test above.
#[test]
fn the_test_fails_without_one_sync() {
    let (story, files) = run(5, 120, 1);
    let trace = files.stop();
    let mut unseen = Vec::new();
    for site in trace.sync_sites() {
        let of_directory = trace
            .events
            .iter()
            .any(|record| record.site == site && format!("{:?}", record.event) == "SyncDirectory");
        if of_directory && site.file().ends_with("checkpoint.rs") {
            // It orders the checkpoint's name before the removal of what it replaces. The model
            // keeps operations on a directory in order anyway; not all file systems do.
            continue;
        }
        let without = trace.without_syncs_of(site);
        if explore(&story, DiskReplay::new(&without), 16).violation.is_none() {
            unseen.push(format!("{}:{}", site.file(), site.line()));
        }
    }
    println!("{} places sync", trace.sync_sites().len());
    assert_eq!(unseen, [""; 0]);
}
