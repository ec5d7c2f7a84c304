//! Engines that keep files: power cuts at every sync, kills between any two calls to the kernel.
//!
//! The pool holds only the description, which is durable before the first transaction, so its image
//! is the same in every state.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use perdura::recording::{DiskReplay, DiskTrace, Recording, RecordingFiles};
use perdura::{Commit, Database, EngineKind, Error, Media, Options, Recorded};
use rand::Rng;

use super::harness::{Again, Medium, ONCE, State, Story, Walked, unnoticed};
use crate::support::{Driver, Model, Tables, compare, contents, schema};

type Files = BTreeMap<String, Vec<u8>>;

const LIMIT: u64 = 1 << 20;

#[derive(Clone)]
struct FileMedium {
    options: Options,
    pool: Vec<u8>,
}

impl FileMedium {
    fn open_on(&self, files: &RecordingFiles) -> Result<Database<Recorded>, Error> {
        let memory = Recording::from_image(&self.pool, LIMIT).unwrap();
        Database::open_on(Media::recorded(memory, files.clone()), &self.options)
    }
}

impl Medium for FileMedium {
    type Image = Files;
    type Trace = DiskTrace;
    type Handle = RecordingFiles;

    fn open(&self, image: &Files) -> Result<(Database<Recorded>, RecordingFiles), Error> {
        let files = RecordingFiles::from_image(image.clone());
        files.start();
        Ok((self.open_on(&files)?, files))
    }

    fn note(files: &RecordingFiles, note: u64) {
        files.note(note);
    }

    fn stop(files: &RecordingFiles) -> DiskTrace {
        files.stop()
    }

    fn now(files: &RecordingFiles) -> Files {
        files.image()
    }

    fn walk(
        trace: &DiskTrace,
        bound: u64,
        visit: &mut dyn FnMut(State<'_, Files>) -> ControlFlow<()>,
    ) -> Walked {
        let (mut replay, mut walked) = (DiskReplay::new(trace), Walked::default());
        let mut flow = ControlFlow::Continue(());
        while flow.is_continue()
            && let Some(point) = replay.next_point()
        {
            walked.points += 1;
            let (position, acknowledged) = (point.position, point.last_note.unwrap_or(0));
            let states = point.for_each_state(bound, 9, |image| {
                if flow.is_continue() {
                    flow = visit(State { position, acknowledged, image });
                }
            });
            walked.states += states.visited;
        }
        walked.barriers = replay.syncs();
        walked
    }

    fn kills(trace: &DiskTrace, visit: &mut dyn FnMut(&Files)) {
        trace.process_states(visit);
    }
}

/// Which story.
#[derive(Clone)]
pub(crate) struct Plot {
    pub(crate) options: Options,
    pub(crate) seed: u64,
    pub(crate) transactions: usize,
    pub(crate) group: u32,
    pub(crate) keys: u64,
    /// Operations of a transaction now and then.
    pub(crate) large: usize,
    /// Mutating calls after which a checkpoint that cannot succeed fails, now and then.
    pub(crate) failing: Option<u64>,
    /// Whether the process is killed now and then in the middle of a commit, between any two calls
    /// to the kernel, its successor in the middle of recovery, and the next one recovers. What that
    /// one has seen counts as acknowledged.
    pub(crate) kill: bool,
}

impl Plot {
    /// Small in every way: runs in three levels, pages that do not fit into the cache, rotations,
    /// transactions larger than the log's space that is reserved ahead.
    fn of(engine: EngineKind, seed: u64, transactions: usize) -> Self {
        let options = Options::new()
            .engine(engine)
            .checkpoint_bytes(12 << 10)
            .wal_reserve_bytes(3 << 10)
            .memtable_bytes(2 << 10)
            .growth(2)
            .level0_runs(2)
            .block_bytes(512)
            .page_bytes(512)
            .cache_bytes(16 << 10);
        let failing = match engine {
            // The next segment is begun, then there is no room for the checkpoint.
            EngineKind::Inp => Some(5),
            EngineKind::Log => Some(1),
            _ => None,
        };
        Self { options, seed, transactions, group: 1, keys: 40, large: 40, failing, kill: false }
    }

    fn groups_of(self, group: u32) -> Self {
        Self { group, ..self }
    }

    fn keys(self, keys: u64) -> Self {
        Self { keys, ..self }
    }

    fn with_kills(self) -> Self {
        Self { kill: true, ..self }
    }

    fn name(&self) -> String {
        format!("seed {}, groups of {}, kills: {}", self.seed, self.group, self.kill)
    }

    /// Runs random transactions, with checkpoints, aborts and large transactions. Note `n` says
    /// that the first `n` are acknowledged: as they commit, or if they are grouped, as a sync
    /// returns. Returns the files' names at the end, too.
    fn run(&self) -> (Story<FileMedium>, Vec<String>) {
        let commit = if self.group == 1 { Commit::Durable } else { Commit::Grouped(self.group) };
        let options = self.options.clone().commit(commit);
        let memory = Recording::pool(64 << 10, LIMIT).unwrap();
        let files = RecordingFiles::new();
        let media = Media::recorded(memory.clone(), files.clone());
        let mut db: Database<Recorded> = Database::create_on(media, &schema(), &options).unwrap();
        let mut tables = Tables::of(&db);
        let (mut driver, mut models) = (Driver::new(self.seed, self.keys), vec![Model::default()]);
        let same = FileMedium { options, pool: memory.contents() };
        files.start();
        for transaction in 0..self.transactions {
            let before = models[models.len() - 1].clone();
            let mut model = before.clone();
            let operations = if transaction % 25 == 24 { self.large } else { 1 + transaction % 5 };
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
                // The first successor is killed during recovery.
                files.fail_after(Some(driver.random.random_range(0..5)));
                if let Ok(db) = same.open_on(&files) {
                    db.abandon();
                }
                files.fail_after(None);
                db = same.open_on(&files).unwrap();
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
            if let Some(failing) = self.failing
                && transaction % 30 == 29
            {
                // There is no room for the checkpoint: the log goes on.
                db.sync().unwrap();
                files.fail_after(Some(failing));
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
        assert_eq!(
            memory.contents(),
            same.pool,
            "the pool of an engine with files does not change"
        );
        db.abandon();
        let names = files.image().into_keys().collect();
        let medium = FileMedium { options: self.options.clone(), pool: same.pool };
        let in_flight = self.group as usize;
        (Story { medium, trace: files.stop(), models, in_flight }, names)
    }
}

fn engines() -> impl Iterator<Item = EngineKind> {
    EngineKind::ALL.into_iter().filter(|engine| engine.uses_files())
}

/// The story has been where it was to go.
fn went_everywhere(engine: EngineKind, names: &[String]) {
    let files = |prefix: &str| names.iter().filter(|name| name.starts_with(prefix)).count();
    match engine {
        EngineKind::Inp => {
            assert!(files("checkpoint-0-") > 0, "{names:?}");
            let newest = names.iter().rfind(|name| name.starts_with("wal-0-")).unwrap();
            assert!(!newest.ends_with("-0000000000000000"), "the log has been rotated: {newest}");
        }
        EngineKind::Log => {
            assert!(files("sstable-0-") >= 2 && files("manifest-0") == 1, "{names:?}");
            let oldest = names.iter().find(|name| name.starts_with("wal-0-")).unwrap();
            assert!(!oldest.ends_with("-0000000000000000"), "the log has been trimmed: {oldest}");
        }
        _ => assert!(!names.is_empty()),
    }
}

/// Every state of the story, which a test of something else has chosen, must be recovered from.
pub(crate) fn survives(plot: &Plot, bound: u64) {
    plot.run().0.survives(&plot.name(), bound, ONCE);
}

fn power_cuts(engine: EngineKind, plot: &Plot, again: Again) {
    let (story, names) = plot.run();
    let explored = story.survives(&format!("{engine}, {}", plot.name()), 12, again);
    assert!(explored.again > 0, "{explored:?}");
    went_everywhere(engine, &names);
}

const TWICE: Again = Again { every: 150, depth: 2 };

#[test]
fn durable_commits_survive_a_power_cut_at_every_sync() {
    for engine in engines() {
        power_cuts(engine, &Plot::of(engine, 1, 120), TWICE);
        power_cuts(engine, &Plot::of(engine, 6, 100).keys(400), TWICE);
    }
}

#[test]
fn kills_in_commits_and_in_recovery_and_then_power_cuts_are_survived() {
    for engine in engines() {
        power_cuts(engine, &Plot::of(engine, 2, 120).with_kills(), TWICE);
    }
}

#[test]
fn grouped_commits_are_safe_once_synced_and_whole_before() {
    for engine in engines() {
        power_cuts(engine, &Plot::of(engine, 3, 120).groups_of(4), TWICE);
        power_cuts(engine, &Plot::of(engine, 4, 120).groups_of(30).keys(200), TWICE);
    }
}

/// In a short story from every few states.
#[test]
fn crashes_after_crashes_after_crashes_are_survived() {
    for engine in engines() {
        let (story, _) = Plot::of(engine, 8, 30).run();
        let again = Again { every: 12, depth: 3 };
        let explored = story.survives(&format!("{engine}, seed 8"), 12, again);
        assert!(explored.again > 50, "{explored:?}");
    }
}

/// Without one of its syncs an engine must fail the tests above.
fn sweep(engine: EngineKind, plots: &[Plot], bound: u64) -> Vec<String> {
    let stories: Vec<_> = plots.iter().map(|plot| plot.run().0).collect();
    let stories: Vec<_> = stories.iter().map(|story| (story, bound)).collect();
    let (unseen, all) = unnoticed(&stories, DiskTrace::sync_sites, DiskTrace::without_syncs_of);
    println!("{engine}: {all} places sync");
    assert!(all >= 2);
    unseen
}

#[test]
fn the_test_of_inp_fails_without_one_sync() {
    let mut unseen = sweep(EngineKind::Inp, &[Plot::of(EngineKind::Inp, 5, 120)], 16);
    // The sync of the directory orders the checkpoint's name before the removal of what it
    // replaces. The model keeps operations on a directory in order anyway; not all file systems do.
    unseen.retain(|site| !site.contains("checkpoint.rs"));
    assert_eq!(unseen, [""; 0]);
}

#[test]
fn the_test_of_cow_fails_without_one_sync() {
    let plot = Plot::of(EngineKind::Cow, 5, 80).keys(60);
    assert_eq!(sweep(EngineKind::Cow, &[plot], 16), [""; 0]);
}

#[test]
fn the_test_of_log_fails_without_one_sync() {
    let plots = [5, 6, 7, 8].map(|seed| {
        let plot = Plot::of(EngineKind::Log, seed, 120).with_kills();
        Plot { large: 50, ..plot }
    });
    let unseen = sweep(EngineKind::Log, &plots, 12);
    // Two syncs of the directory come one behind the other when a database is opened: that of a
    // manifest which was torn, and that of the log's recovery. Each has its test where it stands
    // alone (`storage/tests/manifest.rs`, `wal_crash.rs`).
    let directory = ["manifest.rs", "recovery.rs"];
    assert!(unseen.len() <= 2, "{unseen:?}");
    assert!(
        unseen.iter().all(|site| directory.iter().any(|file| site.contains(file))),
        "{unseen:?}"
    );
}
