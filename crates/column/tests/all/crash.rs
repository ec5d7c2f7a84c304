//! The store under power cuts and kills (`docs/format/crash-model.md`): at every fence, in the states
//! that lines and their stores can be in.
//!
//! Committed rows are there and nothing else is seen; a transaction that was open is in flight with
//! every acknowledged statement, and at most the one that was under way; it sees what it saw; others
//! get a conflict on its keys; it goes on, or is aborted. So it is when the crash comes while another
//! one is being recovered from.

use std::collections::BTreeMap;

use column::{ColumnError, Field, Options, Store, Value, Waiting};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::{Event, Killed, Recording, Replay, Trace};

use crate::work::{
    Model, Statement, contents, create, durable, explore, from_image, hashed, leaks, mixed,
    noticed_sites, open, rebuild, small, text, values,
};

const LIMIT: u64 = 1 << 20;
const KEYS: u64 = 12;

/// An open transaction, as it is acknowledged.
#[derive(Clone, PartialEq, Debug)]
struct Begun {
    name: Vec<u8>,
    statements: u64,
    /// The rows that it sees.
    own: Model,
}

/// The rows that are there at a moment.
#[derive(Clone, PartialEq, Debug)]
struct State {
    committed: Model,
    open: Option<Begun>,
}

/// The step that a note acknowledges.
#[derive(Clone, Debug)]
struct Acknowledged {
    state: State,
    /// The rows that may be there instead, before it is noted: a statement that was to commit, and has not.
    halfway: Option<State>,
}

/// Statements and transactions, and what each note acknowledges.
struct Story {
    trace: Trace,
    acknowledged: Vec<Acknowledged>,
}

/// Notes what is there.
fn note(memory: &Recording, states: &mut Vec<Acknowledged>, state: State) {
    memory.note(states.len() as u64);
    states.push(Acknowledged { state, halfway: None });
}

/// Runs transactions; each acknowledgement is noted, and the state after it is in `states`.
fn transactions(
    store: &Store<Recording>,
    memory: &Recording,
    random: &mut SmallRng,
    many: u64,
    states: &mut Vec<Acknowledged>,
) {
    let mut session = store.session();
    for number in 0..many {
        if random.random_range(0..3) == 0 {
            session = store.session();
            in_another_thread(random);
        }
        // During an open transaction, and between two.
        if number % 3 != 0 {
            store.collect(12).unwrap();
        }
        let committed = states[states.len() - 1].state.committed.clone();
        let name = if random.random() { format!("tx {number}").into_bytes() } else { Vec::new() };
        session.begin_named(&name).unwrap();
        let mut begun = Begun { name, statements: 0, own: committed.clone() };
        // Some do not fit into their slot.
        let statements = if number % 11 == 7 { 34 } else { random.random_range(1..6) };
        for _ in 0..statements {
            let statement = Statement::random(random, KEYS);
            if statement.both(&mut session, &mut begun.own).unwrap() {
                begun.statements += 1;
                let (committed, open) = (committed.clone(), Some(begun.clone()));
                note(memory, states, State { committed, open });
                if random.random_range(0..4) == 0 {
                    store.collect(4).unwrap();
                }
                if random.random_range(0..3) == 0 {
                    let id = session.detach().unwrap();
                    in_another_thread(random);
                    session = store.resume(id).unwrap();
                }
            }
        }
        let fused = fused(random, &begun.own);
        if number % 4 == 3 {
            session.abort().unwrap();
            note(memory, states, State { committed, open: None });
            continue;
        }
        let mut halfway = None;
        if let Some(Statement::Update(table, key, changes)) = &fused {
            session.update_and_commit(*table, key.value(), &values(changes)).unwrap();
            assert!(fused.unwrap().model(&mut begun.own));
            begun.statements += 1;
            halfway = Some(State { committed, open: Some(begun.clone()) });
        } else {
            session.commit().unwrap();
        }
        note(memory, states, State { committed: begun.own, open: None });
        states.last_mut().unwrap().halfway = halfway;
    }
}

/// Makes what follows count as another thread's: no fence may be relied on that it makes for this one.
fn in_another_thread(random: &mut SmallRng) {
    sim::record_as(Some(random.random_range(100..104)));
}

/// An update of a row that is there, in half of the cases.
fn fused(random: &mut SmallRng, own: &Model) -> Option<Statement> {
    let tries = if random.random() { 30 } else { 0 };
    let all = (0..tries).map(|_| Statement::random(random, KEYS));
    let mut fitting =
        all.filter(|one| matches!(one, Statement::Update(..)) && own.contains_key(&one.at()));
    fitting.next()
}

fn story(options: Options, seed: u64, many: u64) -> Story {
    filled_story(options, seed, many, 0)
}

/// A story with so many rows in the first table that the transactions change nothing of.
fn filled_story(options: Options, seed: u64, many: u64, rows: u64) -> Story {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let store = create(memory.clone(), options);
    let mut random = SmallRng::seed_from_u64(seed);
    let mut acknowledged = Vec::new();
    note(&memory, &mut acknowledged, State { committed: fill(&store, rows), open: None });
    transactions(&store, &memory, &mut random, 4, &mut acknowledged);
    acknowledged.drain(..acknowledged.len() - 1);
    memory.start();
    memory.note(0);
    transactions(&store, &memory, &mut random, many, &mut acknowledged);
    drop(store);
    Story { trace: memory.stop(), acknowledged }
}

/// Fills the first table; returns what is in it.
fn fill(store: &Store<Recording>, rows: u64) -> Model {
    let (mut session, mut model) = (store.session(), Model::new());
    for number in 1000..1000 + rows {
        session.begin().unwrap();
        let fields = [Field::Word(number), Field::Word(number), Field::Null];
        assert!(Statement::Insert(0, fields.into()).both(&mut session, &mut model).unwrap());
        session.commit().unwrap();
    }
    model
}

/// Returns what is wrong with the state that a crash has left, if anything; else the store, and what
/// is there.
fn verdict(
    memory: Recording,
    acknowledged: &[Acknowledged],
    noted: u64,
) -> Result<(Store<Recording>, State), String> {
    let (store, heap) = open(memory, &Waiting::default())?;
    let committed = contents(&store.session())?;
    let in_flight = store.in_flight();
    let open = match &in_flight[..] {
        [] => None,
        [one] => {
            let mut session = store.resume(one.id).map_err(text)?;
            let own = contents(&session)?;
            if session.detach().map_err(text)? != one.id {
                return Err("the transaction has another number".into());
            }
            Some(Begun { name: one.name.clone(), statements: one.statements, own })
        }
        _ => return Err(format!("{} transactions are in flight", in_flight.len())),
    };
    let found = State { committed, open };
    let (now, next) = (&acknowledged[noted as usize], acknowledged.get(noted as usize + 1));
    let next = next.map(|next| [Some(&next.state), next.halfway.as_ref()]);
    let possible: Vec<&State> =
        std::iter::once(&now.state).chain(next.into_iter().flatten().flatten()).collect();
    if !possible.contains(&&found) {
        return Err(format!("note {noted}: {found:?} is none of {possible:?}"));
    }
    leaks(&store, &heap)?;
    Ok((store, found))
}

/// Goes on from what was found: the transaction in flight is continued and committed, or aborted.
fn go_on(store: &Store<Recording>, found: State, random: &mut SmallRng) -> Result<(), String> {
    let mut model = found.committed;
    if let Some(begun) = found.open {
        let changed: Vec<_> =
            begun.own.iter().filter(|(at, row)| model.get(*at) != Some(*row)).collect();
        if let Some((at, row)) = changed.first() {
            let mut other = store.session();
            other.begin().map_err(text)?;
            let statement = if model.contains_key(at) {
                Statement::Delete(at.0, at.1.clone())
            } else {
                Statement::Insert(at.0, row.to_vec())
            };
            let result = statement.run(&mut other);
            if !matches!(result, Err(ColumnError::Conflict)) {
                return Err(format!("{statement:?} of another: {result:?}"));
            }
        }
        let mut session = store.resume(store.in_flight()[0].id).map_err(text)?;
        let mut own = begun.own;
        for _ in 0..3 {
            Statement::random(random, KEYS).both(&mut session, &mut own)?;
        }
        if random.random() {
            session.commit().map_err(text)?;
            model = own;
        } else {
            session.abort().map_err(text)?;
        }
    }
    if random.random() {
        rebuild(store)?;
    }
    let mut session = store.session();
    for _ in 0..4 {
        session.begin().map_err(text)?;
        for _ in 0..3 {
            Statement::random(random, KEYS).both(&mut session, &mut model)?;
        }
        session.commit().map_err(text)?;
    }
    if contents(&session)? != model {
        return Err("what came after recovery is wrong".into());
    }
    rebuild(store)?;
    if contents(&session)? != model {
        return Err("what came after recovery is wrong, with the indexes built".into());
    }
    store.check().map_err(text)?;
    Ok(())
}

/// The same, and then it is used.
fn verdict_and_use(image: &[u8], acknowledged: &[Acknowledged], noted: u64) -> Result<(), String> {
    let memory = from_image(image, LIMIT)?;
    let (store, found) = verdict(memory, acknowledged, noted)?;
    go_on(&store, found, &mut SmallRng::seed_from_u64(noted))
}

pub(crate) fn survives_power_cuts(options: Options, seed: u64, many: u64, bound: u64) -> u64 {
    let story = story(options, seed, many);
    let (points, states, failed) = explore(Replay::new(&story.trace), bound, |image, noted| {
        verdict_and_use(image, &story.acknowledged, noted)
    });
    println!("seed {seed}: {points} points, {states} states");
    assert_eq!(failed, None, "seed {seed}");
    states
}

#[test]
fn statements_and_commits_survive_power_cuts_at_every_fence() {
    statements_survive_power_cuts(4);
}

/// Stories of transactions, or of one in so many.
pub(crate) fn statements_survive_power_cuts(one_in: u64) {
    assert!(survives_power_cuts(small(), 1, 16 / one_in, 16) * one_in > 1000);
    assert!(survives_power_cuts(durable(), 1, 16 / one_in, 8) * one_in > 1000);
    assert!(survives_power_cuts(mixed(), 2, 16 / one_in, 4) * one_in > 500);
    assert!(survives_power_cuts(hashed(), 1, 12 / one_in, 6) * one_in > 1000);
}

/// The states of some power cuts are recovered from, and the power is cut again at every fence of that.
fn survives_in_recovery(options: Options, seed: u64, many: u64) -> u64 {
    let story = story(options, seed, many);
    let mut crashes = 0;
    let (.., failed) = explore(Replay::new(&story.trace), 6, |image, noted| {
        let memory = from_image(image, LIMIT)?;
        memory.start();
        drop(open(memory.clone(), &Waiting::default())?);
        let trace = memory.stop();
        let (_, states, failed) = explore(Replay::new(&trace), 6, |image, _| {
            verdict(from_image(image, LIMIT)?, &story.acknowledged, noted).map(drop)
        });
        crashes += states;
        failed.map_or(Ok(()), Err)
    });
    println!("seed {seed}: {crashes} crashes in recovery");
    assert_eq!(failed, None, "seed {seed}");
    crashes
}

#[test]
fn recovery_survives_power_cuts_at_every_fence() {
    assert!(survives_in_recovery(small(), 2, 1) > 100);
    assert!(survives_in_recovery(durable(), 2, 1) > 100);
}

pub(crate) fn longer_recovery_survives_power_cuts() {
    assert!(survives_in_recovery(small(), 2, 6) > 1000);
    assert!(survives_in_recovery(durable(), 2, 3) > 1000);
    assert!(survives_in_recovery(mixed(), 3, 2) > 500);
}

/// A process is killed at every few stores; the next one finds what it had stored, durable or not,
/// goes on with it, and loses its power.
pub(crate) fn survives_kills(
    options: Options,
    seed: u64,
    many: u64,
    every: usize,
    edit: impl Fn(&Trace) -> Trace,
) -> Option<String> {
    let story = story(options, seed, many);
    let mut failed = None;
    story.trace.kills(every, |killed| {
        if failed.is_none() {
            let why = survives_kill(killed, &story.acknowledged, &edit).err();
            failed = why.map(|why| format!("killed after event {}: {why}", killed.position()));
        }
    });
    failed
}

fn survives_kill(
    killed: &Killed,
    acknowledged: &[Acknowledged],
    edit: &impl Fn(&Trace) -> Trace,
) -> Result<(), String> {
    let memory = killed.reopened(LIMIT).map_err(text)?;
    let noted = killed.last_note().unwrap_or(0);
    let (store, found) = verdict(memory.clone(), acknowledged, noted)?;
    // What has been found and acted upon must stay; before it is, all is possible that was.
    let mut states = vec![acknowledged[noted as usize].clone()];
    note(&memory, &mut states, found.clone());
    states[1].halfway = acknowledged.get(noted as usize + 1).and_then(|next| next.halfway.clone());
    let mut random = SmallRng::seed_from_u64(killed.position() as u64);
    if let Some(mut begun) = found.open {
        let mut session = store.resume(store.in_flight()[0].id).map_err(text)?;
        for _ in 0..2 {
            if Statement::random(&mut random, KEYS).both(&mut session, &mut begun.own)? {
                begun.statements += 1;
                let (committed, open) = (found.committed.clone(), Some(begun.clone()));
                note(&memory, &mut states, State { committed, open });
            }
        }
        session.commit().map_err(text)?;
        note(&memory, &mut states, State { committed: begun.own, open: None });
    }
    // Collections during what follows find rows to be used again.
    if killed.position().is_multiple_of(2) {
        rebuild(&store)?;
        while store.collect(12).map_err(text)?.freed > 0 {}
    }
    transactions(&store, &memory, &mut random, 2, &mut states);
    drop(store);
    let trace = edit(&memory.stop());
    let (.., why) = explore(killed.replay(&trace), 8, |image, noted| {
        verdict(from_image(image, LIMIT)?, &states, noted).map(drop)
    });
    why.map_or(Ok(()), Err)
}

#[test]
fn a_power_cut_after_a_kill_loses_nothing() {
    kills_then_power_cuts(6);
}

/// Kills at some of the stores, or at one in so many of these.
pub(crate) fn kills_then_power_cuts(one_in: usize) {
    assert_eq!(survives_kills(small(), 3, 6, 7 * one_in, Trace::clone), None);
    assert_eq!(survives_kills(durable(), 3, 6, 17 * one_in, Trace::clone), None);
    assert_eq!(survives_kills(mixed(), 4, 6, 17 * one_in, Trace::clone), None);
    assert_eq!(survives_kills(hashed(), 4, 6, 31 * one_in, Trace::clone), None);
}

/// A fence after a mini-transaction of the heap is for a thread that changes one of its words next in
/// another way. The store has no such change; who shares the lane may.
const FOR_OTHERS: &str = "lane.fence_flushed();";
/// Within one session the statement's fence covers the reservation of ids:
/// `reserved_ids_are_durable_when_other_sessions_use_them`.
const FOR_OTHER_SESSIONS: &str = "memory.fence();";

/// Only a slot whose last transaction was found in flight has something else there: `continued.rs`.
const TESTED_ELSEWHERE: &str = "self.put(slot, OPENINGS_AT, 0);";

/// The next fence is that of the mini-transaction's record. A crash would have to keep the record, and to lose
/// the line of the new segment in which the next but some values lie: no test comes to that.
const BEHIND_A_RECORD: &str = "memory.fence();";

/// Every word of the header of a chunk of rows is stored, and flushed, again.
const OVERWRITTEN: &str = "let mut objects = vec![zeroed(lane, words * 8)?];";

/// Leaves out each site in turn: of all files, or, with indexes in persistent memory, of these. The stories are one
/// of transactions of every kind, with collections during and between them, and one in which a table grows, which
/// is used afterwards.
pub(crate) fn fails_without_one(options: Options, seed: u64, files: &str) {
    let has_reason = |place: &str, line: &str| {
        line == FOR_OTHERS
            || line == TESTED_ELSEWHERE
            || line == OVERWRITTEN
            || place.starts_with("fence at bytes.rs") && line == BEHIND_A_RECORD
            || place.starts_with("fence at ids.rs") && line == FOR_OTHER_SESSIONS
    };
    let mixed = story(options, seed, 16);
    // All others are the same in both placements.
    let is_of = |place: &str| {
        options.durable_percent == 0
            || files.split(' ').any(|file| place.contains(&format!(" {file}.rs")))
    };
    // The next fences of the collection, after versions have left the indexes, cover that of what was left over.
    let is_covered = |line: &str| options.durable_percent > 0 && line == "self.fence_commits();";
    let has_reason =
        |place: &str, line: &str| has_reason(place, line) || !is_of(place) || is_covered(line);
    let sites = noticed_sites(&mixed.trace, 6, has_reason, |image, noted| {
        verdict(from_image(image, LIMIT)?, &mixed.acknowledged, noted).map(drop)
    });
    let mut noticed: BTreeMap<_, bool> = sites.into_iter().collect();
    let is_done = |place: &str, line: &str| {
        has_reason(place, line) || noticed.get(&(place.into(), line.into())) == Some(&true)
    };
    let grows = filled_story(options, 3, 4, 187);
    let sites = noticed_sites(&grows.trace, 40, is_done, |image, noted| {
        verdict_and_use(image, &grows.acknowledged, noted)
    });
    noticed.extend(sites);
    let unseen: Vec<_> = noticed.iter().filter(|(_, seen)| !**seen).collect();
    assert!(unseen.is_empty(), "{unseen:?}");
    // Stories in which one of them has nothing to do would show less.
    for file in files.split(' ') {
        assert!(noticed.keys().any(|(place, _)| place.contains(&format!(" {file}.rs"))), "{file}");
    }
}

/// One session reserves ids for values, and then finds no room for a long value: nothing of its statement is
/// fenced. Another one uses the ids and commits. Its fence does not cover what the first one has flushed.
#[test]
fn reserved_ids_are_durable_when_other_sessions_use_them() {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let store = create(memory.clone(), Options { slots: 2, ..small() });
    let row = |key| [Value::Word(key), Value::Word(key), Value::Null];
    let (mut reserves, mut uses) = (store.session(), store.session());
    uses.begin().unwrap();
    uses.insert(0, &row(2)).unwrap();
    let too_long = vec![7; LIMIT as usize];
    memory.start();
    sim::record_as(Some(100));
    reserves.begin().unwrap();
    for key in 10..32 {
        let full =
            reserves.insert(0, &[Value::Word(key), Value::Word(key), Value::Bytes(&too_long)]);
        assert!(full.is_err(), "there is no room for its last value");
    }
    sim::record_as(Some(101));
    uses.insert(0, &row(40)).unwrap();
    uses.commit().unwrap();
    memory.note(1);
    let trace = memory.stop();
    sim::record_as(None);
    let look = |trace: &Trace| {
        let mut replay = explore(Replay::new(trace), 16, |image, noted| {
            let (store, _) = open(from_image(image, LIMIT)?, &Waiting::default())?;
            let keys: Vec<_> =
                contents(&store.session())?.into_keys().map(|(_, key)| key).collect();
            let committed = [2, 40].map(Field::Word);
            let fits = keys == committed || keys.is_empty() && noted == 0;
            if fits { Ok(()) } else { Err(format!("{keys:?}")) }
        });
        replay.2.take()
    };
    assert_eq!(look(&trace), None);
    let fences = trace.events.iter().filter(|event| matches!(event.event, Event::Fence));
    let reserving = fences.map(|event| event.site).find(|site| site.file().ends_with("ids.rs"));
    assert!(look(&trace.without_fences_of(reserving.unwrap())).is_some());
}
