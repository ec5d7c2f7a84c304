//! Transactions that go on after a crash (P4 4.2): scenarios of named ones, and the oracle that
//! continues them.
//!
//! After each crash:
//! - What was committed is there, and nothing else.
//! - Each open transaction is in flight, under its name, with every acknowledged statement and at
//!   most the one that was under way.
//! - It sees what it saw: its snapshot, and its own changes. Others that change what it has changed
//!   are in conflict, and only they.
//! - It goes on with another statement, commits, or is aborted; so it does when the process that
//!   went on crashes in its turn.
//!
//! A step of a scenario is one acknowledgement: a statement of a named transaction, its commit or
//! abort, or a whole transaction without a name.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use perdura::{Database, EngineKind, Error, Tx};
use rand::Rng;
use sim::Recorded;

use crate::driver::{Driver, Operation, expect};
use crate::explorer::Scenario;
use crate::items::{self, Model, Tables};
use crate::medium::{InPool, Medium};
use crate::plot::Plot;
use crate::pool::PoolMedium;
use crate::work::Work;

/// Named transactions that are open at the same time, at most.
const OPEN: u64 = 3;
/// The share of steps that are transactions without a name.
const NAMELESS: f64 = 0.25;
/// The share of a named transaction's steps that commit it, and of those that abort it.
const COMMITS: f64 = 0.12;
const ABORTS: f64 = 0.04;

/// The key of a tuple, of either table.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Key {
    Item(u64),
    Pair(String, i64),
}

impl Key {
    fn of(operation: &Operation) -> Self {
        match operation {
            Operation::Insert { key, .. }
            | Operation::Update { key, .. }
            | Operation::Delete { key } => Self::Item(*key),
            Operation::InsertPair { left, right, .. }
            | Operation::UpdatePair { left, right, .. }
            | Operation::DeletePair { left, right } => Self::Pair(left.clone(), *right),
        }
    }

    /// Gives the tuple in `to` what it has in `from`.
    fn carry(&self, from: &Model, to: &mut Model) {
        match self {
            Self::Item(key) => match from.items.get(key) {
                Some(item) => drop(to.items.insert(*key, item.clone())),
                None => drop(to.items.remove(key)),
            },
            Self::Pair(left, right) => {
                let key = (left.clone(), *right);
                match from.pairs.get(&key) {
                    Some(value) => drop(to.pairs.insert(key, value.clone())),
                    None => drop(to.pairs.remove(&key)),
                }
            }
        }
    }

    /// An operation that changes the tuple.
    fn change(&self, model: &Model) -> Operation {
        match self.clone() {
            Self::Item(key) => match model.items.contains_key(&key) {
                true => Operation::Delete { key },
                false => Operation::Insert { key, item: item() },
            },
            Self::Pair(left, right) => match model.pairs.contains_key(&(left.clone(), right)) {
                true => Operation::DeletePair { left, right },
                false => Operation::InsertPair { left, right, value: Vec::new() },
            },
        }
    }
}

fn item() -> items::Item {
    let (name, payload, flag) = ("n".into(), Vec::new(), Vec::new());
    items::Item { name, payload, count: 0, flag, score: 0.0 }
}

/// An open transaction.
#[derive(Clone, Default, Debug)]
struct Begun {
    /// Commits when it began.
    snapshot: u64,
    /// The tuples that it sees.
    own: Model,
    statements: u64,
    touched: BTreeSet<Key>,
}

/// The state that was promised: committed tuples, and open transactions by their names.
#[derive(Clone, Default, Debug)]
pub struct Promise {
    committed: Model,
    /// Commits with changes so far, and the last one of each key.
    commits: u64,
    changed: BTreeMap<Key, u64>,
    open: BTreeMap<Vec<u8>, Begun>,
}

/// A database shows the same of it.
impl PartialEq for Promise {
    fn eq(&self, other: &Self) -> bool {
        let shown =
            |(name, begun): (&Vec<u8>, &Begun)| (name.clone(), begun.statements, begun.own.clone());
        self.committed == other.committed
            && self.open.iter().map(shown).eq(other.open.iter().map(shown))
    }
}

impl Promise {
    fn begin(&self) -> Begun {
        Begun { snapshot: self.commits, own: self.committed.clone(), ..Begun::default() }
    }

    /// Returns whether a change of a key by the transaction `name` with this snapshot is in
    /// conflict.
    fn is_taken(&self, key: &Key, name: &[u8], snapshot: u64) -> bool {
        let mut others = self.open.iter().filter(|(other, _)| *other != name);
        others.any(|(_, begun)| begun.touched.contains(key))
            || self.changed.get(key).is_some_and(|commit| *commit > snapshot)
    }

    fn commit(&mut self, begun: &Begun) {
        if begun.statements == 0 {
            return;
        }
        self.commits += 1;
        for key in &begun.touched {
            key.carry(&begun.own, &mut self.committed);
            self.changed.insert(key.clone(), self.commits);
        }
    }
}

/// The result of an operation that ended as the model says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Done {
    Changed,
    Nothing,
    Conflict,
}

/// One random operation of an open transaction, on the database and on the model.
fn operation(
    driver: &mut Driver,
    (tx, tables): (&mut Tx<'_, Recorded>, &Tables),
    model: &Promise,
    (name, begun): (&[u8], &mut Begun),
) -> Result<Done, Error> {
    let operation = driver.next(&begun.own);
    let key = Key::of(&operation);
    let is_taken = model.is_taken(&key, name, begun.snapshot);
    match operation.run(tx, tables) {
        Err(Error::Conflict { .. }) if is_taken => Ok(Done::Conflict),
        done @ Err(Error::Invalid(_)) => {
            expect(&done, operation.apply(&mut begun.own)).map(|()| Done::Nothing)
        }
        _ if is_taken => Err(Error::user(format!("no conflict about {key:?}"))),
        done => {
            let changes = operation.apply(&mut begun.own);
            expect(&done, changes)?;
            if !changes {
                return Ok(Done::Nothing);
            }
            begun.touched.insert(key);
            begun.statements += 1;
            Ok(Done::Changed)
        }
    }
}

/// A transaction without a name.
fn nameless(
    driver: &mut Driver,
    (db, tables): (&Database<Recorded>, &Tables),
    model: &mut Promise,
    operations: usize,
) -> Result<bool, Error> {
    if model.open.is_empty() && driver.random.random_bool(0.3) {
        // A statement that commits; no other transaction is in its way.
        let mut begun = model.begin();
        let before = begun.own.clone();
        driver.statement(db, tables, &mut begun.own)?;
        let Model { items, pairs } = &begun.own;
        let items = items.iter().filter(|(key, item)| before.items.get(*key) != Some(*item));
        let pairs = pairs.iter().filter(|(key, value)| before.pairs.get(*key) != Some(*value));
        let items = items.map(|(key, _)| Key::Item(*key));
        let pairs = pairs.map(|((left, right), _)| Key::Pair(left.clone(), *right));
        begun.touched = items.chain(pairs).collect();
        begun.statements = begun.touched.len() as u64;
        model.commit(&begun);
        return Ok(begun.statements > 0);
    }
    let (mut tx, mut begun) = (db.begin()?, model.begin());
    for _ in 0..operations {
        if operation(driver, (&mut tx, tables), model, (b"", &mut begun))? == Done::Conflict {
            tx.abort()?;
            return Ok(false);
        }
    }
    // What a commit changes has to show: else a crash in it could be before it or after it.
    if begun.own == model.committed || driver.random.random_bool(0.15) {
        tx.abort()?;
        return Ok(false);
    }
    if !tx.commit()?.is_durable() {
        return Err(Error::user("a commit is not durable"));
    }
    model.commit(&begun);
    Ok(true)
}

/// A name that no open transaction has.
fn new_name(driver: &mut Driver, model: &Promise) -> Vec<u8> {
    loop {
        let name = match driver.random.random_range(0..2 * OPEN) {
            // The longest.
            0 => vec![b'n'; 48],
            number => format!("order {number}").into_bytes(),
        };
        if !model.open.contains_key(&name) {
            return name;
        }
    }
}

/// The next thing to do.
enum Step {
    Nameless,
    Begin(Vec<u8>),
    Statement(Vec<u8>),
    Commit(Vec<u8>),
    Abort(Vec<u8>),
}

impl Step {
    fn next(driver: &mut Driver, model: &Promise) -> Self {
        let open = model.open.len() as u64;
        let number = driver.random.random_range(0..OPEN);
        if driver.random.random_bool(NAMELESS) {
            return Self::Nameless;
        }
        let Some(name) = model.open.keys().nth(number as usize).cloned() else {
            return if open < OPEN { Self::Begin(new_name(driver, model)) } else { Self::Nameless };
        };
        match driver.random.random::<f64>() {
            share if share < COMMITS => Self::Commit(name),
            share if share < COMMITS + ABORTS => Self::Abort(name),
            _ => Self::Statement(name),
        }
    }
}

/// A named transaction that has done an operation, or none if that ended it.
type GoneOn<'a> = Option<Tx<'a, Recorded>>;

/// The first or the next operation of a named transaction; one without a statement, or in conflict,
/// is aborted. Changes the model, and returns whether it is another one.
fn go_on<'a>(
    driver: &mut Driver,
    (mut tx, tables): (Tx<'a, Recorded>, &Tables),
    model: &mut Promise,
    name: Vec<u8>,
) -> Result<(GoneOn<'a>, bool), Error> {
    let (mut begun, was_open) = match model.open.get(&name) {
        Some(begun) => (begun.clone(), true),
        None => (model.begin(), false),
    };
    let done = operation(driver, (&mut tx, tables), model, (&name, &mut begun))?;
    if done == Done::Conflict || begun.statements == 0 {
        tx.abort()?;
        model.open.remove(&name);
        return Ok((None, was_open));
    }
    model.open.insert(name, begun);
    Ok((Some(tx), done == Done::Changed))
}

/// Commits a named transaction, or aborts it.
fn end(tx: Tx<'_, Recorded>, model: &mut Promise, name: &[u8], commits: bool) -> Result<(), Error> {
    let begun = model.open.remove(name).expect("it is open");
    if !commits {
        return tx.abort();
    }
    if !tx.commit()?.is_durable() {
        return Err(Error::user("a commit is not durable"));
    }
    model.commit(&begun);
    Ok(())
}

/// Goes on with the transaction in flight that has this name.
fn resume<'a>(db: &'a Database<Recorded>, name: &[u8]) -> Result<Tx<'a, Recorded>, Error> {
    let found = db.in_flight()?.into_iter().find(|one| one.name == name);
    db.resume(found.ok_or_else(|| Error::user("a transaction is not in flight"))?.id)
}

/// Transactions with names and without. Between two steps all of them are in flight.
#[derive(Clone, Copy, Debug)]
pub struct Promises {
    keys: u64,
}

impl Promises {
    /// Returns whether the transactions in flight are those of the model, and see what it says.
    fn are_open(
        db: &Database<Recorded>,
        tables: &Tables,
        open: &BTreeMap<Vec<u8>, Begun>,
    ) -> Result<bool, Error> {
        let mut found = db.in_flight()?;
        found.sort_by(|one, other| one.name.cmp(&other.name));
        let listed = found.iter().map(|one| (&one.name, one.statements));
        if !listed.eq(open.iter().map(|(name, begun)| (name, begun.statements))) {
            return Ok(false);
        }
        for (one, begun) in found.iter().zip(open.values()) {
            let tx = db.resume(one.id)?;
            let same = items::view_is(&tx, tables, &begun.own);
            tx.detach()?;
            if !same? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns an error if another transaction may change what an open one has changed.
    fn keeps_others_away(
        db: &Database<Recorded>,
        tables: &Tables,
        model: &Promise,
    ) -> Result<(), String> {
        for (name, begun) in &model.open {
            let Some(key) = begun.touched.first() else { continue };
            let mut tx = db.begin().map_err(|error| error.to_string())?;
            let done = key.change(&model.committed).run(&mut tx, tables);
            if !matches!(done, Err(Error::Conflict { .. })) {
                let name = String::from_utf8_lossy(name);
                return Err(format!("lets others change {key:?} of {name}: {done:?}"));
            }
        }
        Ok(())
    }
}

impl Work for Promises {
    type Model = Promise;
    type More = Driver;

    fn contents(&self, db: &Database<Recorded>) -> Result<Promise, Error> {
        let mut found = Promise { committed: items::contents(db)?, ..Promise::default() };
        let tables = Tables::of(db);
        for one in db.in_flight()? {
            let tx = db.resume(one.id)?;
            let own = items::view(&tx, &tables);
            tx.detach()?;
            let begun = Begun { own: own?, statements: one.statements, ..Begun::default() };
            found.open.insert(one.name, begun);
        }
        Ok(found)
    }

    fn which(&self, db: &Database<Recorded>, models: &[Promise]) -> Result<Option<usize>, Error> {
        let (partition, tables) = (db.try_partition(0)?, Tables::of(db));
        for (number, model) in models.iter().enumerate() {
            if items::holds_in(&partition, &tables, &model.committed)?
                && Self::are_open(db, &tables, &model.open)?
            {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    fn reads_differ(&self, db: &Database<Recorded>, model: &Promise) -> Result<(), String> {
        let tables = Tables::of(db);
        for (name, begun) in &model.open {
            let text = |error: Error| format!("cannot be read: {error}");
            let tx = resume(db, name).map_err(text)?;
            let wrong = items::view_differs(&tx, &tables, &begun.own);
            tx.detach().map_err(text)?;
            if let Some(wrong) = wrong.map_err(text)? {
                return Err(format!("{wrong}, to a transaction in flight"));
            }
        }
        Self::keeps_others_away(db, &tables, model)?;
        items::reads_differ(db, &model.committed)
    }

    fn more(&self, seed: u64) -> Driver {
        Driver::new(seed, self.keys)
    }

    fn transaction(
        &self,
        driver: &mut Driver,
        db: &Database<Recorded>,
        model: &mut Promise,
        operations: usize,
    ) -> Result<bool, Error> {
        let tables = Tables::of(db);
        let (name, tx) = match Step::next(driver, model) {
            Step::Nameless => return nameless(driver, (db, &tables), model, operations),
            Step::Commit(name) => {
                return end(resume(db, &name)?, model, &name, true).map(|()| true);
            }
            Step::Abort(name) => {
                return end(resume(db, &name)?, model, &name, false).map(|()| true);
            }
            Step::Begin(name) => (name.clone(), db.begin_named(&name)?),
            Step::Statement(name) => (name.clone(), resume(db, &name)?),
        };
        let (tx, changed) = go_on(driver, (tx, &tables), model, name)?;
        tx.map_or(Ok(()), |tx| tx.detach().map(drop))?;
        Ok(changed)
    }
}

/// The open transactions of a scenario, each with the number of the thread that it is in.
type Held<'a> = BTreeMap<Vec<u8>, (Tx<'a, Recorded>, u32)>;

/// Runs a scenario in which a process has its open transactions, and hands them from thread to
/// thread now and then.
///
/// # Panics
/// The engine fails without any crash.
pub fn run_in_pool(plot: &Plot) -> Scenario<PoolMedium, Promises> {
    let handle = PoolMedium::fresh();
    // There is no wait for those who are in the way: they are the same thread.
    let options = plot.options.clone().retry_for(Duration::ZERO);
    PoolMedium::start(&handle);
    let media = PoolMedium::media(&handle);
    let db = Database::create_on(media, &plot.schema(), &options).expect("a database");
    PoolMedium::note(&handle, 0);
    let tables = Tables::of(&db);
    let mut driver = Driver::new(plot.seed, plot.keys);
    let (mut models, mut held) = (vec![Promise::default()], Held::new());
    for step in 0..plot.transactions {
        let mut model = models[models.len() - 1].clone();
        // Now and then one that needs more entries than a slot has.
        let operations = if step % 40 == 39 { plot.large } else { 1 + step % 6 };
        let changed = run_step(&mut driver, (&db, &tables), &mut model, &mut held, operations);
        if changed.expect("it runs") {
            models.push(model);
            PoolMedium::note(&handle, models.len() as u64 - 1);
        }
        if step % 8 == 7 && held.is_empty() {
            db.background(4096).expect("it runs");
        }
    }
    for (_, (tx, thread)) in held {
        sim::record_as(Some(thread));
        tx.detach().expect("it has a statement");
    }
    sim::record_as(None);
    let work = Promises { keys: plot.keys };
    work.differs(&db, &models[models.len() - 1]).expect("it holds what was promised");
    db.close().expect("it closes");
    let (trace, medium) = (PoolMedium::stop(&handle), PoolMedium::of(options, handle));
    Scenario { work, medium, trace, models, in_flight: 1, created: true }
}

/// A step of a scenario. No fence may be relied on that another thread makes, so each transaction
/// has a thread of its own.
fn run_step<'a>(
    driver: &mut Driver,
    (db, tables): (&'a Database<Recorded>, &Tables),
    model: &mut Promise,
    held: &mut Held<'a>,
    operations: usize,
) -> Result<bool, Error> {
    let thread = driver.random.random_range(1_000..1_000_000);
    sim::record_as(Some(thread));
    let mut take = |name: &[u8]| {
        let (tx, in_thread) = held.remove(name).expect("it is open");
        sim::record_as(Some(in_thread));
        (tx, in_thread)
    };
    let (name, (tx, thread)) = match Step::next(driver, model) {
        Step::Nameless => return nameless(driver, (db, tables), model, operations),
        Step::Commit(name) => return end(take(&name).0, model, &name, true).map(|()| true),
        Step::Abort(name) => return end(take(&name).0, model, &name, false).map(|()| true),
        Step::Begin(name) => (name.clone(), (db.begin_named(&name)?, thread)),
        Step::Statement(name) => (name.clone(), take(&name)),
    };
    let (mut tx, changed) = go_on(driver, (tx, tables), model, name.clone())?;
    let mut thread = thread;
    if tx.is_some() && driver.random.random_bool(0.2) {
        let id = tx.take().expect("it is there").detach()?;
        thread = driver.random.random_range(1_000..1_000_000);
        sim::record_as(Some(thread));
        tx = Some(db.resume(id)?);
    }
    if let Some(tx) = tx {
        held.insert(name, (tx, thread));
    }
    Ok(changed)
}

/// Short scenarios, in which most faults show soon.
pub fn short(engine: EngineKind, number: usize) -> Option<Scenario<PoolMedium, Promises>> {
    let plot = |seed, steps, keys| Plot::new(engine, seed, steps, keys);
    Some(run_in_pool(&match number {
        0 => plot(1, 8, 3),
        1 => plot(2, 30, 6),
        2 => plot(3, 80, 12),
        3 => plot(4, 200, 40),
        _ => return None,
    }))
}
