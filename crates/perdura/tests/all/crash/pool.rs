//! Engines whose data lie in the pool: power cuts at every fence, kills at every store.

use std::ops::ControlFlow;

use perdura::recording::{Event, Recording, RecordingFiles, Replay, Trace};
use perdura::{Commit, Database, EngineKind, Error, Media, Options, Recorded, Snapshot, Value};

use super::harness::{Again, Medium, ONCE, State, Story, Walked, unnoticed};
use crate::support::{Driver, Item, Model, Tables, compare, insert_item, schema, update_item};

const LIMIT: u64 = 4 << 20;

/// So small that a story has runs in several levels, splits and growth.
fn options(engine: EngineKind) -> Options {
    Options::new()
        .engine(engine)
        .chunk_bytes(16 << 10)
        .memtable_bytes(3 << 10)
        .growth(2)
        .tree_node_bytes(128)
}

#[derive(Clone)]
struct PoolMedium {
    options: Options,
}

impl Medium for PoolMedium {
    type Image = [u8];
    type Trace = Trace;
    type Handle = Recording;

    fn open(&self, image: &[u8]) -> Result<(Database<Recorded>, Recording), Error> {
        let io = |source| Error::Io { path: "recording".into(), source };
        let memory = Recording::pool_from_image(image, LIMIT).map_err(io)?;
        memory.start();
        memory.mark_open()?;
        let media = Media::recorded(memory.clone(), RecordingFiles::new());
        Ok((Database::open_on(media, &self.options)?, memory))
    }

    fn note(memory: &Recording, note: u64) {
        memory.note(note);
    }

    fn stop(memory: &Recording) -> Trace {
        memory.stop()
    }

    fn now(memory: &Recording) -> Vec<u8> {
        memory.contents()
    }

    fn walk(
        trace: &Trace,
        bound: u64,
        visit: &mut dyn FnMut(State<'_, [u8]>) -> ControlFlow<()>,
    ) -> Walked {
        let (mut replay, mut walked) = (Replay::new(trace), Walked::default());
        let mut flow = ControlFlow::Continue(());
        while flow.is_continue()
            && let Some(point) = replay.next_point()
        {
            walked.points += 1;
            let (position, acknowledged) = (point.position, point.last_note.unwrap_or(0));
            let states = point.for_each_state(bound, 7, |image| {
                if flow.is_continue() {
                    flow = visit(State { position, acknowledged, image });
                }
            });
            walked.states += states.visited;
        }
        walked.barriers = replay.fences();
        walked
    }

    fn kills(trace: &Trace, visit: &mut dyn FnMut(&[u8])) {
        let is_note = |event: &perdura::recording::Event| matches!(event, Event::Note(_));
        let end = trace.events.iter().position(|recorded| is_note(&recorded.event));
        let events = trace.events[..end.unwrap_or(trace.events.len())].to_vec();
        let first = Trace { image: trace.image.clone(), events };
        first.process_states(|_, image| visit(image));
    }
}

/// Which story.
#[derive(Clone, Copy)]
struct Plot {
    seed: u64,
    transactions: usize,
    group: u32,
    keys: u64,
}

/// Transactions with few and many operations, aborts, duplicate and missing keys, splits, merges,
/// root changes, growth of pool and log; MemTables that are frozen and merged in steps that the
/// commits do; batches of several, with lists of several segments; snapshots, where there are some,
/// that pin what is superseded.
fn story(engine: EngineKind, plot: Plot) -> Story<PoolMedium> {
    let Plot { seed, transactions, group, keys } = plot;
    let commit = if group == 1 { Commit::Durable } else { Commit::Grouped(group) };
    let memory = Recording::pool(64 << 10, LIMIT).unwrap();
    let media = Media::recorded(memory.clone(), RecordingFiles::new());
    let options = options(engine);
    let db = Database::create_on(media, &schema(), &options.clone().commit(commit)).unwrap();
    let tables = Tables::of(&db);
    let mut driver = Driver::new(seed, keys);
    let mut models = vec![Model::default()];
    let mut snapshots: Vec<Snapshot> = Vec::new();
    memory.start();
    for transaction in 0..transactions {
        let before = &models[models.len() - 1];
        let mut model = before.clone();
        // Now and then one that needs several log segments.
        let operations = if transaction % 40 == 39 { 150 } else { 1 + transaction % 6 };
        // Each in a thread of its own: no fence may be relied on that another thread makes.
        let mut ticket = None;
        let work = || driver.grouped(&db, &tables, &mut model, operations).unwrap();
        std::thread::scope(|scope| ticket = scope.spawn(work).join().unwrap());
        if model != *before {
            models.push(model);
        }
        let mut durable = ticket.is_some_and(|ticket| ticket.is_durable());
        if group > 1 && transaction % 10 == 9 {
            db.sync().unwrap();
            durable = true;
        }
        if durable {
            memory.note(models.len() as u64 - 1);
        }
        match transaction % 9 {
            2 => snapshots.extend(db.snapshot()),
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
    Story { medium: PoolMedium { options }, trace, models, in_flight: group as usize }
}

fn engines() -> impl Iterator<Item = EngineKind> {
    EngineKind::ALL.into_iter().filter(|engine| !engine.uses_files())
}

const fn durable(seed: u64, transactions: usize, keys: u64) -> Plot {
    Plot { seed, transactions, group: 1, keys }
}

fn power_cuts(engine: EngineKind, plots: &[Plot], bound: u64, again: Again) {
    for plot in plots {
        let what = format!("{engine}, seed {}, groups of {}", plot.seed, plot.group);
        let explored = story(engine, *plot).survives(&what, bound, again);
        assert!(explored.points > 15 && explored.states > 200, "{explored:?}");
        assert!(explored.again > 0, "{explored:?}");
    }
}

#[test]
fn nvm_inp_survives_a_power_cut_at_every_fence() {
    inserts_with_updates(EngineKind::NvmInp).survives("inserts with updates", 10, ONCE);
    let plots = [durable(14, 60, 3), durable(11, 160, 60), durable(12, 60, 300)];
    // Whatever the bound, every two lines are seen in all four combinations.
    power_cuts(EngineKind::NvmInp, &plots, 10, Again { every: 500, depth: 2 });
}

#[test]
fn nvm_log_survives_a_power_cut_at_every_fence() {
    inserts_with_updates(EngineKind::NvmLog).survives("inserts with updates", 10, ONCE);
    // Freezing, merging and taking apart have crash points of their own: shorter stories.
    let plots = [durable(14, 60, 3), durable(11, 50, 60), durable(12, 30, 300)];
    power_cuts(EngineKind::NvmLog, &plots, 4, Again { every: 400, depth: 2 });
}

#[test]
fn nvm_cow_survives_a_power_cut_at_every_fence() {
    let plots = [
        durable(14, 60, 3),
        durable(11, 120, 60),
        durable(12, 50, 300),
        Plot { seed: 13, transactions: 160, group: 4, keys: 60 },
        Plot { seed: 15, transactions: 160, group: 30, keys: 60 },
    ];
    power_cuts(EngineKind::NvmCow, &plots, 14, Again { every: 90, depth: 2 });
}

/// Every engine, whichever there are, in a short story.
#[test]
fn every_engine_in_the_pool_survives_power_cuts() {
    for engine in engines() {
        let grouped = Plot { seed: 31, transactions: 30, group: 4, keys: 30 };
        power_cuts(engine, &[durable(30, 20, 40), grouped], 4, Again { every: 60, depth: 2 });
    }
}

/// One transaction that updates both columns of a composite index and then deletes the tuple.
fn two_operations_on_one_tuple(engine: EngineKind, commit: bool) -> Story<PoolMedium> {
    let memory = Recording::pool(64 << 10, LIMIT).unwrap();
    let media = Media::recorded(memory.clone(), RecordingFiles::new());
    let options = options(engine);
    let db = Database::create_on(media, &schema(), &options).unwrap();
    let tables = Tables::of(&db);
    let item = |count, flag: &[u8]| Item {
        name: "n".into(),
        payload: vec![],
        count,
        flag: flag.into(),
        score: 0.0,
    };
    let mut models = vec![Model::default()];
    models[0].items.insert(1, item(1, b"ffff"));
    db.write(|tx| insert_item(tx, &tables, 1, &item(1, b"ffff"))).unwrap();
    memory.start();
    let mut tx = db.begin().unwrap();
    update_item(&mut tx, &tables, 1, &item(0, b"f"), 4 | 8).unwrap();
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
    Story { medium: PoolMedium { options }, trace, models, in_flight: 1 }
}

/// The second operation's log entry must not persist before the first one's changes, and an
/// operation that is undone must not be undone again after an older one: index keys are made of
/// logged and of stored fields, and half of an update would give keys that never were.
#[test]
fn operations_on_one_tuple_are_ordered() {
    for engine in engines() {
        for commit in [true, false] {
            let story = two_operations_on_one_tuple(engine, commit);
            let explored = story.explore(&story.trace, 5_000, Again { every: 97, depth: 1 });
            assert_eq!(explored.violation, None, "{engine}, committed: {commit}");
        }
    }
}

/// Kills at every `stride`th store of a story.
fn kills(engine: EngineKind, transactions: usize, stride: usize) {
    let plot = durable(21, transactions, 40);
    let story = story(engine, plot);
    // A kill loses no store, so the trace's notes say what was acknowledged at each event.
    let mut acknowledged = vec![0];
    for recorded in &story.trace.events {
        let note = match recorded.event {
            Event::Note(note) => note,
            _ => acknowledged[acknowledged.len() - 1],
        };
        acknowledged.push(note);
    }
    let mut states = 0;
    story.trace.process_states(|position, image| {
        states += 1;
        if states % stride == 0 {
            let state = State { position, acknowledged: acknowledged[position], image };
            let done = story.verdict(&state, states % (16 * stride) == 0);
            assert_eq!(done, Ok(()), "seed {}, killed after event {position}", plot.seed);
        }
    });
    println!("{engine}: {states} stores");
    assert!(states > 2_000, "{states} states");
}

#[test]
fn nvm_inp_survives_a_kill_at_every_store() {
    kills(EngineKind::NvmInp, 40, 1);
}

#[test]
fn nvm_log_survives_a_kill_at_every_store() {
    kills(EngineKind::NvmLog, 60, 1);
}

/// Its stores are mostly copies of nodes that nobody sees: one in nine stands for the others.
#[test]
fn nvm_cow_survives_a_kill_at_every_few_stores() {
    kills(EngineKind::NvmCow, 30, 9);
}

/// Without one of its flushes or fences an engine must fail the tests above: else either they are
/// blind or the instruction superfluous.
fn sweep(stories: &[(Story<PoolMedium>, u64)]) {
    let stories: Vec<_> = stories.iter().map(|(story, bound)| (story, *bound)).collect();
    let flushes = unnoticed(&stories, Trace::flush_sites, Trace::without_flushes_of);
    let fences = unnoticed(&stories, Trace::fence_sites, Trace::without_fences_of);
    println!("{} places flush, {} fence", flushes.1, fences.1);
    assert!(flushes.1 >= 5 && fences.1 >= 2);
    assert_eq!((flushes.0, fences.0), (vec![], vec![]));
}

#[test]
fn the_crash_test_of_nvm_inp_fails_without_any_one_flush_or_fence() {
    sweep_in_place(EngineKind::NvmInp, 160);
}

#[test]
fn the_crash_test_of_nvm_log_fails_without_any_one_flush_or_fence() {
    sweep_in_place(EngineKind::NvmLog, 80);
}

/// Transactions that insert a tuple and update it several times, so that one which fills the
/// MemTable has superseded something too.
fn inserts_with_updates(engine: EngineKind) -> Story<PoolMedium> {
    let memory = Recording::pool(64 << 10, LIMIT).unwrap();
    let media = Media::recorded(memory.clone(), RecordingFiles::new());
    let options = options(engine);
    let db = Database::create_on(media, &schema(), &options).unwrap();
    let tables = Tables::of(&db);
    let mut models = vec![Model::default()];
    memory.start();
    for key in 0..24u64 {
        let mut model = models[models.len() - 1].clone();
        let mut tx = db.begin().unwrap();
        for round in 0..4u8 {
            let item = Item {
                name: "n".into(),
                payload: vec![round; 150],
                count: key as i64,
                flag: b"f".into(),
                score: 0.0,
            };
            if round == 0 {
                insert_item(&mut tx, &tables, key, &item).unwrap();
            } else {
                update_item(&mut tx, &tables, key, &item, 2).unwrap();
            }
            model.items.insert(key, item);
        }
        assert!(tx.commit().unwrap().is_durable());
        models.push(model);
        memory.note(models.len() as u64 - 1);
    }
    let trace = memory.stop();
    db.close().unwrap();
    Story { medium: PoolMedium { options }, trace, models, in_flight: 1 }
}

fn sweep_in_place(engine: EngineKind, transactions: usize) {
    sweep(&[
        (inserts_with_updates(engine), 10),
        (two_operations_on_one_tuple(engine, true), 5_000),
        (two_operations_on_one_tuple(engine, false), 5_000),
        // The short ones first: most faults show there.
        (story(engine, durable(14, 60, 3)), 10),
        (story(engine, durable(12, 60, 300)), 10),
        (story(engine, durable(11, transactions, 60)), 20),
    ]);
}

#[test]
fn the_crash_test_of_nvm_cow_fails_without_any_one_flush_or_fence() {
    let grouped = Plot { seed: 13, transactions: 120, group: 4, keys: 60 };
    sweep(&[
        (story(EngineKind::NvmCow, durable(11, 90, 60)), 20),
        (story(EngineKind::NvmCow, grouped), 20),
    ]);
}

/// What the harness calls a violation is one: a trace without any fence has some.
#[test]
fn the_harness_sees_a_missing_fence_in_every_engine() {
    for engine in engines() {
        let story = story(engine, durable(30, 20, 40));
        let mut trace = story.trace.clone();
        for site in story.trace.fence_sites() {
            trace = trace.without_fences_of(site);
        }
        assert!(story.explore(&trace, 20, ONCE).violation.is_some(), "{engine}");
    }
}
