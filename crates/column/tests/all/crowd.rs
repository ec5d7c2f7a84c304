//! Sessions in several threads, which a seed interleaves at every store, flush, fence and latch, on keys
//! that they share; and power cuts at every fence of that.
//!
//! Undisturbed: a transaction sees what had committed up to its snapshot, and its own; of two that change
//! the same row and commit, one began after the other's commit. After a crash: everything acknowledged
//! is there, of each thread at most the call that was under way is done, and every transaction in flight
//! sees what it saw.

use std::sync::{Arc, Mutex};

use column::{ColumnError, Options, Pause, Store, Waiting};
use paged::threads::{Baton, Threads};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::{Recording, Replay, Trace};

use crate::work::{
    Model, Statement, contents, create, durable, explore, from_image, leaks, mixed, open, rebuild,
    small, text,
};

const LIMIT: u64 = 1 << 20;
const KEYS: u64 = 6;

/// A thread's call that was acknowledged.
#[derive(Clone, Debug)]
enum Done {
    /// A statement that changed something.
    Statement(Statement),
    /// A commit, with its number.
    Commit(u64),
    Abort,
    /// A statement that changed nothing.
    Nothing,
}

#[derive(Clone, Debug)]
struct Event {
    thread: usize,
    transaction: usize,
    done: Done,
}

/// A transaction, and what it saw when it began.
#[derive(Clone, Debug)]
struct Transaction {
    name: Vec<u8>,
    snapshot: u64,
    base: Model,
}

#[derive(Default, Debug)]
struct Record {
    /// The event of note `n` is at `n - 1`.
    events: Vec<Event>,
    transactions: Vec<Transaction>,
}

struct Story {
    trace: Trace,
    threads: usize,
    record: Record,
    initial: Model,
}

#[derive(Debug)]
struct Turns(Arc<Baton>);

impl Pause for Turns {
    fn pause(&self) {
        self.0.point();
    }
}

impl Record {
    fn add(&mut self, memory: &Recording, event: Event) {
        self.events.push(event);
        memory.note(self.events.len() as u64);
    }

    /// The rows that these transactions leave, by their statements in the order of acknowledgement:
    /// of those on one key it is the order of its versions.
    fn applied(&self, initial: &Model, counts: impl Fn(usize) -> bool) -> Model {
        let mut model = initial.clone();
        for event in &self.events {
            if let Done::Statement(statement) = &event.done
                && counts(event.transaction)
            {
                assert!(statement.model(&mut model), "{statement:?}");
            }
        }
        model
    }

    fn number(&self, transaction: usize) -> Option<u64> {
        self.events.iter().find_map(|event| match event.done {
            Done::Commit(number) if event.transaction == transaction => Some(number),
            _ => None,
        })
    }
}

/// One thread's transactions.
fn transactions(
    store: &Store<Recording>,
    memory: &Recording,
    record: &Mutex<Record>,
    thread: usize,
    random: &mut SmallRng,
) {
    let mut session = store.session();
    for number in 0..5 {
        let name = format!("thread {thread}, {number}").into_bytes();
        session.begin_named(&name).unwrap();
        let base = contents(&session).unwrap();
        let mut own = base.clone();
        let snapshot = session.snapshot().unwrap();
        let transaction = {
            let mut record = record.lock().unwrap();
            record.transactions.push(Transaction { name, snapshot, base });
            record.transactions.len() - 1
        };
        let add = |done| {
            record.lock().unwrap().add(memory, Event { thread, transaction, done });
        };
        let mut conflict = false;
        for _ in 0..random.random_range(1..5) {
            let statement = Statement::random(random, KEYS);
            let before = own.clone();
            match statement.run(&mut session) {
                Ok(()) => {
                    assert!(statement.model(&mut own), "{statement:?}");
                    add(Done::Statement(statement.clone()));
                }
                Err(ColumnError::Conflict) => {
                    add(Done::Nothing);
                    conflict = true;
                    break;
                }
                Err(ColumnError::DuplicateKey | ColumnError::MissingKey) => {
                    assert!(!statement.model(&mut own), "{statement:?}");
                    own = before;
                    add(Done::Nothing);
                }
                Err(other) => panic!("{other}"),
            }
            let (table, key) = statement.at();
            let found = session.get(table, key.value()).unwrap();
            assert_eq!(found.as_ref(), own.get(&(table, key)), "{statement:?}");
        }
        assert_eq!(contents(&session).unwrap(), own, "a transaction sees its snapshot and its own");
        if conflict || random.random_range(0..4) == 0 {
            session.abort().unwrap();
            add(Done::Abort);
        } else {
            let number = session.commit().unwrap();
            add(Done::Commit(number));
        }
        store.rebuild(400).unwrap();
        store.build_pending().unwrap();
        store.collect(random.random_range(0..12)).unwrap();
    }
}

fn story(options: Options, seed: u64, threads: usize) -> Story {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let mut random = SmallRng::seed_from_u64(seed);
    let mut initial = Model::new();
    let store = create(memory.clone(), Options { slots: 6, ..options });
    let mut session = store.session();
    session.begin().unwrap();
    for _ in 0..10 {
        Statement::random(&mut random, KEYS).both(&mut session, &mut initial).unwrap();
    }
    session.commit().unwrap();
    drop((session, store));
    let baton = Arc::new(Baton::new(seed));
    let waiting = Waiting::through(Arc::new(Turns(Arc::clone(&baton))));
    let (store, _) = open(memory.clone(), &waiting).unwrap();
    let record = Mutex::new(Record::default());
    let hook = Arc::clone(&baton);
    memory.call_before_each(move |_| hook.point());
    memory.start();
    baton.run(threads, |thread| {
        let mut random = SmallRng::seed_from_u64(seed * 100 + thread as u64);
        transactions(&store, &memory, &record, thread, &mut random);
    });
    drop(store);
    let trace = memory.stop();
    Story { trace, threads, record: record.into_inner().unwrap(), initial }
}

/// Checks that what committed is a history that snapshot isolation allows.
fn check_history(story: &Story) {
    let record = &story.record;
    let numbers: Vec<Option<u64>> =
        (0..record.transactions.len()).map(|transaction| record.number(transaction)).collect();
    for transaction in &record.transactions {
        let before =
            |other: usize| numbers[other].is_some_and(|at| at != 0 && at <= transaction.snapshot);
        let expected = record.applied(&story.initial, before);
        assert_eq!(transaction.base, expected, "{:?}", transaction.name);
    }
    let written = |transaction: usize| {
        let own = record.events.iter().filter(move |event| event.transaction == transaction);
        own.filter_map(|event| match &event.done {
            Done::Statement(statement) => Some(statement.at()),
            _ => None,
        })
    };
    for one in 0..numbers.len() {
        for other in 0..one {
            let (Some(first), Some(second)) = (numbers[one], numbers[other]) else { continue };
            if written(one).any(|at| written(other).any(|too| too == at)) {
                let apart = first <= record.transactions[other].snapshot
                    || second <= record.transactions[one].snapshot;
                assert!(apart, "a lost update: transactions {one} and {other}");
            }
        }
    }
}

#[test]
fn interleaved_sessions_see_snapshots_and_lose_no_update() {
    let (mut commits, mut conflicts) = (0, 0);
    let placed = (0..12).map(|_| small()).chain((0..6).map(|_| durable()));
    let placed = placed.chain((0..6).map(|_| mixed()));
    for (seed, options) in (0..).zip(placed) {
        let story = story(options, seed, 3);
        check_history(&story);
        let count = |wanted: fn(&Done) -> bool| {
            story.record.events.iter().filter(|event| wanted(&event.done)).count()
        };
        commits += count(|done| matches!(done, Done::Commit(_)));
        conflicts += count(|done| matches!(done, Done::Abort));
    }
    assert!(commits > 60 && conflicts > 20, "{commits} commits, {conflicts} aborts");
}

/// The transaction that a thread has at a moment, the statements of it that are acknowledged, and the
/// thread's next call.
fn at_moment(record: &Record, thread: usize, noted: usize) -> Option<(usize, u64, Option<&Done>)> {
    let own = |event: &&Event| event.thread == thread;
    let next = record.events[noted..].iter().find(own);
    let last = record.events[..noted].iter().rfind(own);
    let open = match (last, next) {
        (Some(last), _) if !matches!(last.done, Done::Commit(_) | Done::Abort) => last.transaction,
        (_, Some(next)) => next.transaction,
        _ => return None,
    };
    let of_it =
        |event: &&Event| event.transaction == open && matches!(event.done, Done::Statement(_));
    let statements = record.events[..noted].iter().filter(of_it).count() as u64;
    let next = next.filter(|next| next.transaction == open).map(|next| &next.done);
    Some((open, statements, next))
}

/// Returns what is wrong with the state that a crash has left, if anything.
fn verdict(image: &[u8], story: &Story, noted: usize, goes_on: bool) -> Result<(), String> {
    let record = &story.record;
    let (store, heap) = open(from_image(image, LIMIT)?, &Waiting::default())?;
    let mut found = store.in_flight();
    let mut committed: Vec<bool> = (0..record.transactions.len())
        .map(|transaction| {
            let ended = |event: &Event| {
                event.transaction == transaction && matches!(event.done, Done::Commit(_))
            };
            record.events[..noted].iter().any(ended)
        })
        .collect();
    let mut open = Vec::new();
    for thread in 0..story.threads {
        let Some((transaction, statements, next)) = at_moment(record, thread, noted) else {
            continue;
        };
        let name = &record.transactions[transaction].name;
        let listed = found.iter().position(|one| one.name == *name).map(|at| found.remove(at));
        let (possible, needed) = match next {
            Some(Done::Statement(_)) => (vec![statements, statements + 1], statements > 0),
            Some(Done::Commit(_)) => {
                committed[transaction] = listed.is_none();
                (vec![statements], false)
            }
            Some(Done::Abort) => (vec![statements], false),
            Some(Done::Nothing) | None => (vec![statements], statements > 0),
        };
        let Some(listed) = listed else {
            if needed {
                return Err(format!("{name:?} with {statements} statements is gone"));
            }
            continue;
        };
        if !possible.contains(&listed.statements) {
            return Err(format!("{listed:?}, which has {possible:?} statements"));
        }
        open.push((transaction, listed));
    }
    if !found.is_empty() {
        return Err(format!("of no session: {found:?}"));
    }
    let mut model = record.applied_in(&story.initial, &committed, noted);
    let seen = contents(&store.session())?;
    if seen != model {
        return Err(format!("{seen:?} is not {model:?}"));
    }
    for (transaction, listed) in &open {
        let own = record.own(*transaction, listed.statements);
        let mut session = store.resume(listed.id).map_err(text)?;
        let seen = contents(&session)?;
        session.detach().map_err(text)?;
        if seen != own {
            return Err(format!("{listed:?} sees {seen:?}, not {own:?}"));
        }
    }
    leaks(&store, &heap)?;
    if !goes_on {
        return Ok(());
    }
    let mut random = SmallRng::seed_from_u64(noted as u64);
    for (transaction, listed) in open {
        let mut session = store.resume(listed.id).map_err(text)?;
        if random.random() {
            session.commit().map_err(text)?;
            for statement in record.statements(transaction).take(listed.statements as usize) {
                statement.model(&mut model);
            }
        } else {
            session.abort().map_err(text)?;
        }
    }
    let mut session = store.session();
    for _ in 0..3 {
        session.begin().map_err(text)?;
        Statement::random(&mut random, KEYS).both(&mut session, &mut model)?;
        session.commit().map_err(text)?;
    }
    rebuild(&store)?;
    if contents(&session)? != model {
        return Err("what came after recovery is wrong".into());
    }
    leaks(&store, &heap)
}

impl Record {
    fn statements(&self, transaction: usize) -> impl Iterator<Item = &Statement> {
        let own = self.events.iter().filter(move |event| event.transaction == transaction);
        own.filter_map(|event| match &event.done {
            Done::Statement(statement) => Some(statement),
            _ => None,
        })
    }

    /// The rows that a transaction sees after so many statements.
    fn own(&self, transaction: usize, statements: u64) -> Model {
        let mut model = self.transactions[transaction].base.clone();
        for statement in self.statements(transaction).take(statements as usize) {
            statement.model(&mut model);
        }
        model
    }

    /// The rows that the transactions that committed have left, by the statements up to a moment.
    fn applied_in(&self, initial: &Model, committed: &[bool], noted: usize) -> Model {
        let events = self.events[..noted].to_vec();
        let upto = Self { events, transactions: Vec::new() };
        upto.applied(initial, |transaction| committed[transaction])
    }
}

pub(crate) fn survives_power_cuts(options: Options, seed: u64, threads: usize, bound: u64) -> u64 {
    let story = story(options, seed, threads);
    let (points, states, failed) = explore(Replay::new(&story.trace), bound, |image, noted| {
        verdict(image, &story, noted as usize, true)
    });
    println!("seed {seed}: {points} points, {states} states");
    assert_eq!(failed, None, "seed {seed}");
    states
}

#[test]
fn interleaved_sessions_survive_power_cuts_at_fences() {
    interleavings_survive_power_cuts(20);
}

pub(crate) fn interleavings_survive_power_cuts(seed: u64) {
    for options in [small(), mixed(), durable()] {
        let bound = if options.durable_percent == 0 { 10 } else { 5 };
        let states = survives_power_cuts(options, seed, 3, bound);
        assert!(states > 500, "{states}");
    }
}
