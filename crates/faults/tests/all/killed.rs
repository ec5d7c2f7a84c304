//! A kill, and a power cut after the next process has gone on: what that one read and acted upon
//! must be durable before what it made of it, though the killed process had only stored it.
//!
//! Fault model (`docs/format/crash-model.md`): the process is killed after any store; another one
//! opens the memory with all that was stored and runs transactions; at any of its fences the power
//! fails, for what the first one had not made durable, too. Then every acknowledged transaction of
//! both must be there, and else at most those in flight, in order and whole; indexes and
//! allocator agree.

use std::cell::RefCell;
use std::collections::HashSet;

use crate::common::{Explained, unexplained};
use faults::driver::Driver;
use faults::items::{Model, Tables, contents, schema};
use perdura::{Database, EngineKind, Error, Options};
use pm::{Site, read_header};
use sim::{Event, Killed, Recorded, Recording, RecordingFiles, Replay, Trace};

const LIMIT: u64 = 4 << 20;
/// One in so many transactions is a statement.
const MIXED: usize = 3;

/// So small that a few transactions split nodes, take chunks, freeze and merge MemTables.
fn options(engine: EngineKind) -> Options {
    Options::new()
        .engine(engine)
        .tune("memtable_bytes", 3 << 10)
        .tune("growth", 2)
        .chunk_bytes(16 << 10)
        .tune("tree_node_bytes", 128)
        .tune("most_rows", 128)
        .tune("reserve", 16)
        .tune("slots", 4)
}

fn open(memory: Recording) -> Result<Database<Recorded>, Error> {
    let options = Options::new().tune("memtable_bytes", 3 << 10).tune("growth", 2);
    Database::open_on(faults::recorded(memory, RecordingFiles::new()), &options)
}

/// Runs transactions with a note for each that is acknowledged; `models` gets what is there then.
/// One in `statements` is an update that is a transaction of its own.
fn run(
    db: &Database<Recorded>,
    memory: &Recording,
    (seed, keys): (u64, u64),
    transactions: usize,
    statements: usize,
    models: &mut Vec<Model>,
) {
    let (tables, mut driver) = (Tables::of(db), Driver::new(seed, keys));
    for transaction in 0..transactions {
        let mut model = models[models.len() - 1].clone();
        let operations = 1 + transaction % 5;
        let mut committed = false;
        let work = || match transaction % statements {
            0 => driver.statement(db, &tables, &mut model).map(|()| true).unwrap(),
            _ => driver.transaction(db, &tables, &mut model, operations).unwrap(),
        };
        // Each in a thread of its own: no fence may be relied on that another thread makes.
        std::thread::scope(|scope| committed = scope.spawn(work).join().unwrap());
        if committed {
            models.push(model);
            memory.note(models.len() as u64 - 1);
        }
    }
}

fn first_process(
    engine: EngineKind,
    (seed, keys): (u64, u64),
    transactions: usize,
    statements: usize,
) -> (Trace, Vec<Model>) {
    let memory = Recording::pool(64 << 10, LIMIT).unwrap();
    let media = faults::recorded(memory.clone(), RecordingFiles::new());
    let db = Database::create_on(media, &schema(), &options(engine)).unwrap();
    let mut models = vec![Model::default()];
    // So that there is something to change before the scenario begins.
    run(&db, &memory, (seed, keys), 40, MIXED, &mut models);
    models.drain(..models.len() - 1);
    memory.start();
    run(&db, &memory, (seed + 1, keys), transactions, statements, &mut models);
    let trace = memory.stop();
    db.abandon();
    (trace, models)
}

/// The next process: opens what a kill has left, and runs transactions. `models` are those of the
/// first one from its last acknowledged transaction on.
fn next_process(killed: &Killed, models: &[Model]) -> (Trace, Vec<Model>) {
    let memory = killed.reopened(LIMIT).unwrap();
    let db = open(memory.clone()).unwrap();
    let found = contents(&db).unwrap();
    assert!(models.iter().take(2).any(|model| *model == found), "as after any kill");
    // Opening has chosen between the two. An error says so at once; a crash need not.
    let mut next = vec![models[0].clone(), found];
    memory.note(1);
    run(&db, &memory, (killed.position() as u64, 40), 3, MIXED, &mut next);
    let trace = memory.stop();
    db.abandon();
    (trace, next)
}

fn verdict(image: &[u8], models: &[Model]) -> Result<(), String> {
    let whole = Recording::from_image(image, LIMIT).unwrap();
    let (header, _) = read_header(&whole).map_err(|bad| bad.to_string())?;
    let memory = Recording::from_image(&image[..header.size as usize], LIMIT).unwrap();
    let db = open(memory).map_err(|error| format!("does not open: {error}"))?;
    let found = contents(&db).map_err(|error| format!("cannot be read: {error}"))?;
    if !models.iter().take(2).any(|model| *model == found) {
        return Err("has lost or torn a transaction".into());
    }
    let report = db.check().map_err(|error| format!("is damaged: {error}"))?;
    db.abandon();
    if report.leaked != 0 || report.dangling != 0 {
        return Err(format!("has an allocator that disagrees: {report:?}"));
    }
    Ok(())
}

/// States that were right, each with the transactions that were acknowledged then.
type Seen = HashSet<(u64, usize)>;

/// Looks at the power cuts of the next process that are not in `seen`, to which it adds those that are
/// right. Returns the first state that is wrong.
fn power_cuts(killed: &Killed, trace: &Trace, models: &[Model], seen: &mut Seen) -> Option<String> {
    let mut replay: Replay<'_> = killed.replay(trace);
    let mut failed = None;
    while failed.is_none()
        && let Some(point) = replay.next_point()
    {
        let (position, noted) = (point.position, point.last_note.unwrap_or(0) as usize);
        point.for_each_numbered_state(12, 5, |image, number| {
            if failed.is_none()
                && seen.insert((number, noted))
                && let Err(why) = verdict(image, &models[noted..])
            {
                seen.remove(&(number, noted));
                let place = trace.events.get(position).map(|event| event.site);
                failed = Some(format!("before {place:?} of the next one: the database {why}"));
            }
        });
    }
    failed
}

/// Both stories of an engine, with a kill at one in so many stores.
pub(crate) fn kills_then_power_cuts(engine: EngineKind, every: usize) {
    (31..=32).for_each(|seed| kills_in_story(engine, seed, every));
}

pub(crate) fn kills_in_story(engine: EngineKind, seed: u64, every: usize) {
    kills_of(engine, seed, every, first_process(engine, (seed, 40), 20, MIXED));
}

fn kills_of(engine: EngineKind, seed: u64, every: usize, (trace, models): (Trace, Vec<Model>)) {
    let (mut kills, mut states) = (0, 0);
    trace.kills(every, |killed| {
        kills += 1;
        let acknowledged = killed.last_note().unwrap_or(0) as usize;
        let (next, models) = next_process(killed, &models[acknowledged..]);
        let mut seen = Seen::new();
        let failed = power_cuts(killed, &next, &models, &mut seen);
        states += seen.len();
        let place = trace.events[killed.position() - 1].site;
        assert_eq!(failed, None, "{engine}, seed {seed}, killed after {place}");
    });
    println!("{engine}, seed {seed}: {kills} kills, {states} states");
    assert!(kills >= 8 && states > 1_000, "{kills} kills, {states} states");
}

#[test]
fn nvm_inp_survives_a_power_cut_after_a_kill() {
    kills_in_story(EngineKind::NvmInp, 31, 23);
}

/// Nothing but statements, with a kill after each store: the next process relies on a log entry and
/// values that were only stored.
#[test]
fn statements_of_nvm_inp_survive_a_power_cut_after_a_kill() {
    let engine = EngineKind::NvmInp;
    kills_of(engine, 33, 1, first_process(engine, (33, 8), 16, 1));
}

#[test]
fn nvm_log_survives_a_power_cut_after_a_kill() {
    kills_in_story(EngineKind::NvmLog, 31, 13);
}

#[test]
fn fast_survives_a_power_cut_after_a_kill() {
    kills_in_story(EngineKind::Fast, 31, 13);
}

#[test]
fn sofort_survives_a_power_cut_after_a_kill() {
    kills_in_story(EngineKind::Sofort, 31, 13);
}

/// Leaves out in turn each flush and fence of an engine's recovery and its master record: each is
/// noticed or stands in a list with its reason. (The heap's and the undo log's have tests of their
/// own.)
pub(crate) fn openings_without_one(engine: EngineKind, explained: &[Explained]) {
    let mut nexts = Vec::new();
    for (seed, keys, statements, every) in [(31, 40, MIXED, 7), (32, 40, MIXED, 7), (33, 8, 1, 1)] {
        let (trace, models) = first_process(engine, (seed, keys), 20, statements);
        trace.kills(every, |killed| {
            let acknowledged = killed.last_note().unwrap_or(0) as usize;
            let next = next_process(killed, &models[acknowledged..]);
            let mut seen = Seen::new();
            assert_eq!(power_cuts(killed, &next.0, &next.1, &mut seen), None, "{engine}");
            nexts.push((killed.clone(), next, RefCell::new(seen)));
        });
    }
    let unseen = |sites: fn(&Trace) -> Vec<Site>, without: fn(&Trace, Site) -> Trace| {
        let has = |trace: &Trace, site: &Site| sites(&opening(trace)).contains(site);
        let mut places: Vec<Site> =
            nexts.iter().flat_map(|(_, (trace, _), _)| sites(&opening(trace))).collect();
        let examined = |file: &str| {
            let parts = ["pool_master.rs", "table/statement.rs"];
            file.contains("engines/src") || parts.iter().any(|part| file.ends_with(part))
        };
        places.retain(|site| examined(site.file()));
        places.sort_by_key(|site| (site.file(), site.line()));
        places.dedup();
        assert!(!places.is_empty());
        places.retain(|site| {
            let mut concerned = nexts.iter().filter(|(_, (trace, _), _)| has(trace, site));
            // States that have been right once are not looked at again.
            concerned.all(|(killed, (trace, models), seen)| {
                let without = without(trace, site);
                power_cuts(killed, &without, models, &mut seen.borrow_mut()).is_none()
            })
        });
        places.into_iter().map(|site| format!("{}:{}", site.file(), site.line()))
    };
    let flushes = unseen(Trace::flush_sites, Trace::without_flushes_of);
    let all = flushes.chain(unseen(Trace::fence_sites, Trace::without_fences_of));
    let (open, stale) = unexplained(all, explained);
    assert!(open.is_empty(), "{engine}: superfluous, or the test is blind: {open:#?}");
    assert!(stale.is_empty(), "{engine}: noticed now, or gone: {stale:?}");
}

/// The part of a trace before its first note.
fn opening(trace: &Trace) -> Trace {
    let noted = trace.events.iter().position(|one| matches!(one.event, Event::Note(_)));
    Trace { image: Vec::new(), events: trace.events[..noted.unwrap()].to_vec() }
}
