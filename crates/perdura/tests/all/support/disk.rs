//! Crash tests of engines with files: their files under power cuts, in the `disk` mode of the crash
//! model.
//!
//! Fault model (`docs/format/crash-model.md`): of what was written since the last sync each sector
//! may or may not have persisted, lengths are lost unless synced, and of the operations on the
//! directory the first few have persisted. The pool holds only the description, which is durable
//! before the first transaction, so its image is the same in every state.
//!
//! For each state: recover through `Database::open_on`; all acknowledged transactions must be
//! there, at most the ones in flight beside them, each whole and in order; more transactions work;
//! a second recovery finds the same.

use std::collections::BTreeMap;

use perdura::recording::{DiskReplay, Recording, RecordingFiles, Site};
use perdura::{Commit, Database, Media, Options, Recorded};
use rand::Rng;

use super::{Driver, Model, Tables, compare, contents, schema};

type Files = BTreeMap<String, Vec<u8>>;

const LIMIT: u64 = 1 << 20;

/// The bytes of the pool, and the model after each committed transaction.
struct Story {
    options: Options,
    pool: Vec<u8>,
    models: Vec<Model>,
    /// Most transactions that can be committed and not acknowledged.
    in_flight: usize,
}

/// Which story.
pub(crate) struct Plot {
    pub(crate) options: Options,
    pub(crate) seed: u64,
    pub(crate) transactions: usize,
    pub(crate) group: u32,
    /// Mutating calls after which a checkpoint that cannot succeed fails, now and then.
    pub(crate) failing: u64,
    /// Whether the process is killed now and then in the middle of a commit, between any two calls
    /// to the kernel, and its successor recovers. What that one has seen counts as acknowledged.
    pub(crate) kill: bool,
}

impl Plot {
    /// Runs random transactions, with checkpoints, aborts and large transactions. Note `n` says
    /// that the first `n` are acknowledged: as they commit, or if they are grouped, as a sync
    /// returns.
    fn run(&self) -> (Story, RecordingFiles) {
        let commit = if self.group == 1 { Commit::Durable } else { Commit::Grouped(self.group) };
        let options = self.options.clone().commit(commit);
        let memory = Recording::pool(64 << 10, LIMIT).unwrap();
        let files = RecordingFiles::new();
        let media = Media::recorded(memory.clone(), files.clone());
        let mut db: Database<Recorded> = Database::create_on(media, &schema(), &options).unwrap();
        let mut tables = Tables::of(&db);
        let (mut driver, mut models) = (Driver::new(self.seed, 40), vec![Model::default()]);
        let pool = memory.contents();
        files.start();
        for transaction in 0..self.transactions {
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
            if self.kill && transaction % 3 == 2 {
                let most = if driver.random.random_bool(0.5) { 3 } else { 12 };
                files.fail_after(Some(driver.random.random_range(0..most)));
                let _ = tx.commit();
                db.abandon();
                files.fail_after(None);
                let memory = Recording::from_image(&pool, LIMIT).unwrap();
                db = Database::open_on(Media::recorded(memory, files.clone()), &options).unwrap();
                tables = Tables::of(&db);
                let found = contents(&db).unwrap();
                assert!(found == model || found == before, "transaction {transaction}");
                if found == model {
                    models.push(model);
                }
                files.note(models.len() as u64 - 1);
                continue;
            }
            let ticket = tx.commit().unwrap();
            assert!(self.group > 1 || ticket.is_durable());
            models.push(model);
            if transaction % 30 == 29 {
                // There is no room for the checkpoint: the log goes on.
                db.sync().unwrap();
                files.fail_after(Some(self.failing));
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
        let in_flight = self.group as usize;
        (Story { options: self.options.clone(), pool, models, in_flight }, files)
    }
}

fn open(story: &Story, files: &RecordingFiles) -> Result<Database<Recorded>, String> {
    let memory = Recording::from_image(&story.pool, LIMIT).unwrap();
    let media = Media::recorded(memory, files.clone());
    Database::open_on(media, &story.options).map_err(|error| format!("does not open: {error}"))
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

/// Every state of the story must be recovered from. Returns the names of all files at its end.
pub(crate) fn survives(plot: &Plot, bound: u64) -> Vec<String> {
    let (story, files) = plot.run();
    let names: Vec<String> = files.image().into_keys().collect();
    let trace = files.stop();
    let explored = explore(&story, DiskReplay::new(&trace), bound);
    println!(
        "seed {}, groups of {}: {} transactions, {} syncs, {} points, {} states; {names:?}",
        plot.seed,
        plot.group,
        story.models.len() - 1,
        explored.syncs,
        explored.points,
        explored.states
    );
    assert_eq!(explored.violation, None, "seed {}", plot.seed);
    names
}

/// Leaves out each place that syncs in turn; returns those that nothing misses in any of the
/// stories.
pub(crate) fn superfluous_syncs(plots: impl IntoIterator<Item = Plot>, bound: u64) -> Vec<String> {
    let name = |site: &Site| format!("{}:{}", site.file(), site.line());
    let mut missed: BTreeMap<String, bool> = BTreeMap::new();
    for plot in plots {
        let (story, files) = plot.run();
        let trace = files.stop();
        for site in trace.sync_sites() {
            let missed = missed.entry(name(&site)).or_default();
            if !*missed {
                let without = trace.without_syncs_of(site);
                *missed = explore(&story, DiskReplay::new(&without), bound).violation.is_some();
            }
        }
    }
    println!("{} places sync", missed.len());
    missed.into_iter().filter(|(_, missed)| !missed).map(|(name, _)| name).collect()
}
