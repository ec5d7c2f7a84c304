//! A short run in the middle of which something fails: a call to the kernel, a growth of the pool,
//! a write to a file, an allocation. Whatever it is and wherever it comes, there is an error that
//! says so, the transaction can be aborted, the database goes on or is opened again, every
//! acknowledged transaction is there, and nothing else.
//!
//! The run has everything that an engine does: creation, inserts, updates, deletes and aborts,
//! small and large transactions, splits, rotations of the log, checkpoints, merges, closing,
//! opening, a kill in the middle of a transaction, and recovery.
//!
//! 1. [`Run::go`] runs it on a [`Place`] in which something fails, and says what is wrong with how
//!    that was borne, if anything.
//! 2. [`Run::say`] runs it for a process that may die at any time; [`Run::left`] looks at what such
//!    a process has left.

use perdura::{
    Concurrency, Database, DurableIn, EngineKind, Environment, Error, Options, Row, Tx, Value,
};

use crate::driver::{Driver, Operation};
use crate::items::{Model, Tables, checks, contents, differs};
use crate::plot::options;

/// Rounds of a run; each ends in another way.
const ROUNDS: usize = 3;
/// Keys of a table.
const KEYS: u64 = 40;
/// Operations of a large transaction; there is one in each round.
const LARGE: usize = 40;
/// Bytes of work that is put off, for one step.
const STEP_BYTES: u64 = 4096;
/// Steps in which all work that is put off has been done.
const MOST_STEPS: usize = 1000;

/// The place of the database of a run.
pub trait Place {
    /// The memory and files that it is made of.
    type World: Environment;

    /// Creates the database.
    ///
    /// # Errors
    /// As [`Database::create`].
    fn create(&self) -> Result<Database<Self::World>, Error>;

    /// Opens it.
    ///
    /// # Errors
    /// As [`Database::open`].
    fn open(&self) -> Result<Database<Self::World>, Error>;

    /// Returns true if nothing is there: what a creation that failed has to leave.
    fn is_empty(&self) -> bool;

    /// Ends the failing: from now on nothing fails.
    fn mend(&self);
}

/// The outcome of a run.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Ran {
    /// Errors.
    pub errors: u64,
    /// Errors after which the database went on as it was.
    pub went_on: u64,
    /// Times that the database had to be opened again.
    pub reopened: u64,
    /// Transactions that were acknowledged.
    pub acknowledged: u64,
    /// Steps of work put off that failed without an error in any call: the statistics show them.
    pub failed_steps: u64,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The options with which the database is made and opened.
    pub options: Options,
    /// Chooses the operations.
    pub seed: u64,
    /// True if a transaction goes on after an operation that failed; else it aborts.
    pub goes_on: bool,
}

/// One transaction.
#[derive(Clone, Copy, Debug)]
struct Shape {
    operations: usize,
    aborts: bool,
}

/// The transactions of a round before its work that was put off is done.
fn shapes() -> impl Iterator<Item = Shape> {
    let small = (0..14).map(|number| Shape { operations: 1 + number % 5, aborts: number % 5 == 4 });
    small.chain([Shape { operations: LARGE, aborts: false }])
}

/// The end of a transaction.
enum Ended {
    Committed,
    Aborted,
    AbortFailed(Error),
    CommitFailed(Error),
    /// An operation was done that must fail, or the other way round.
    Wrong(String),
}

impl Run {
    /// The run of an engine whose transactions abort when an operation fails.
    pub fn new(engine: EngineKind) -> Self {
        let options = options(engine).tune("log_bytes", 512 << 10);
        Self { options, seed: 0xfa11, goes_on: false }
    }

    /// Runs it. Errors are what this is about, and borne as an application would: the transaction
    /// goes on or aborts, a handle that has stopped is given up, and the database opened again.
    ///
    /// # Errors
    /// It was not borne: a transaction that is missing or surplus, a database that cannot be used
    /// again.
    pub fn go<P: Place>(&self, place: &P) -> Result<Ran, String> {
        let mut at = At {
            place,
            run: self,
            db: None,
            driver: Driver::new(self.seed, KEYS),
            model: Model::default(),
            instead: Vec::new(),
            ran: Ran::default(),
        };
        at.create()?;
        for round in 0..ROUNDS {
            for shape in shapes() {
                at.transaction(shape)?;
            }
            at.tend(Database::checkpoint)?;
            at.transaction(Shape { operations: 3, aborts: false })?;
            at.tend(put_off)?;
            at.end_of_round(round)?;
        }
        place.mend();
        let db = at.db();
        differs(db, &at.model).map_err(|what| format!("at the end, the database {what}"))?;
        let closed = at.take().close();
        let ran = at.ran;
        closed.map_err(|error| format!("does not close: {error}"))?;
        Ok(ran)
    }

    /// Runs it once, without looking at anything, until the first error. `say` is called with zero
    /// when the database exists, and then with the number of acknowledged transactions.
    ///
    /// # Errors
    /// The first one.
    pub fn say<P: Place>(&self, place: &P, plan: &Plan, say: &dyn Fn(u64)) -> Result<(), Error> {
        let mut db = place.create()?;
        say(0);
        let (mut next, mut acknowledged) = (plan.transactions.iter(), 0);
        for round in 0..ROUNDS {
            let tables = Tables::of(&db);
            let mut one = |db: &Database<P::World>| -> Result<(), Error> {
                let (shape, operations) = next.next().expect("a plan for all of them");
                let mut tx = db.begin()?;
                for operation in operations {
                    known(operation.run(&mut tx, &tables))?;
                }
                if shape.aborts {
                    return tx.abort();
                }
                let _durable = tx.commit()?;
                acknowledged += 1;
                say(acknowledged);
                Ok(())
            };
            for _ in shapes() {
                one(&db)?;
            }
            db.checkpoint()?;
            one(&db)?;
            put_off(&db)?;
            if round == 1 {
                let mut tx = db.begin()?;
                for operation in &plan.cut_off {
                    known(operation.run(&mut tx, &tables))?;
                }
                leave(tx, &db)?;
                db.abandon();
            } else {
                db.close()?;
            }
            db = place.open()?;
        }
        db.close()
    }

    /// Judges what a process has left that died in [`Self::say`]. `said` is what it has said last.
    ///
    /// # Errors
    /// The thing that is wrong with it.
    pub fn left<P: Place>(&self, place: &P, plan: &Plan, said: Option<u64>) -> Result<(), String> {
        let db = match (place.open(), said) {
            (Ok(db), _) => db,
            // Creating it was cut off.
            (Err(_), None) => return Ok(()),
            (Err(error), Some(_)) => return Err(format!("does not open: {error}")),
        };
        let from = said.unwrap_or(0) as usize;
        let possible = &plan.models[from..plan.models.len().min(from + 2)];
        let found = contents(&db).map_err(|error| format!("cannot be read: {error}"))?;
        if !possible.contains(&found) {
            let moment = plan.models.iter().position(|model| *model == found);
            return Err(format!(
                "has, after {from} acknowledged transactions, the contents {}",
                moment.map_or("of no moment".into(), |at| format!("of after {at}"))
            ));
        }
        checks(&db)?;
        // It can be used.
        let (tables, mut model) = (Tables::of(&db), found);
        let mut driver = Driver::new(self.seed + 1, KEYS);
        for operations in 1..4 {
            let done = driver.transaction(&db, &tables, &mut model, operations);
            done.map_err(|error| format!("cannot go on: {error}"))?;
        }
        differs(&db, &model)?;
        db.close().map_err(|error| format!("does not close: {error}"))
    }
}

/// Leaves a transaction as a kill does, which drops nothing. A session that is not given back would
/// keep the database open in this process: what undoing it logs is not durable, or, in a log that
/// lies in the pool, shows at a sync that it was not.
fn leave<E: Environment>(tx: Tx<'_, E>, db: &Database<E>) -> Result<(), Error> {
    let traits = db.traits();
    match (traits.concurrency, traits.durable_in) {
        (Concurrency::Serial, _) => std::mem::forget(tx),
        (Concurrency::Shared, DurableIn::Both) => {
            drop(tx);
            return db.sync();
        }
        (Concurrency::Shared, _) => drop(tx),
    }
    Ok(())
}

/// All transactions of a run in which nothing fails, made beforehand.
#[derive(Clone, Debug)]
pub struct Plan {
    transactions: Vec<(Shape, Vec<Operation>)>,
    /// The operations of the transaction that a kill cuts off.
    cut_off: Vec<Operation>,
    /// The contents after so many acknowledged transactions.
    models: Vec<Model>,
}

impl Plan {
    /// The plan of a run.
    pub fn new(run: &Run) -> Self {
        let (mut driver, mut models) = (Driver::new(run.seed, KEYS), vec![Model::default()]);
        let mut transactions = Vec::new();
        for _ in 0..ROUNDS {
            for shape in shapes().chain([Shape { operations: 3, aborts: false }]) {
                let mut after = models[models.len() - 1].clone();
                let mut operations = Vec::new();
                for _ in 0..shape.operations {
                    let operation = driver.next(&after);
                    operation.apply(&mut after);
                    operations.push(operation);
                }
                if !shape.aborts {
                    models.push(after);
                }
                transactions.push((shape, operations));
            }
        }
        let mut other = Driver::new(run.seed + 2, KEYS);
        // Of the second round's end, but any will do: operations that fail are no matter.
        let cut_off = (0..8).map(|_| other.next(&models[0])).collect();
        Self { transactions, cut_off, models }
    }

    /// Returns the number of transactions that are acknowledged in the end.
    pub fn acknowledged(&self) -> u64 {
        self.models.len() as u64 - 1
    }
}

/// Returns true if the operation itself is at fault: there is such a key or none, or a value is too
/// long.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::DuplicateKey { .. } | Error::MissingKey { .. } | Error::Invalid(_))
}

/// An operation that is refused has done what it can.
fn known(done: Result<(), Error>) -> Result<(), Error> {
    done.or_else(|error| if is_refusal(&error) { Ok(()) } else { Err(error) })
}

fn put_off<E: Environment>(db: &Database<E>) -> Result<(), Error> {
    for _ in 0..MOST_STEPS {
        if db.background(STEP_BYTES)? == 0 {
            break;
        }
    }
    Ok(())
}

/// A run on its way.
struct At<'a, P: Place> {
    place: &'a P,
    run: &'a Run,
    db: Option<Database<P::World>>,
    driver: Driver,
    model: Model,
    /// Contents that may be there instead after a reopening, until the next acknowledgement: a
    /// transaction whose commit has failed may or may not be there.
    instead: Vec<Model>,
    ran: Ran,
}

impl<P: Place> At<'_, P> {
    fn db(&self) -> &Database<P::World> {
        self.db.as_ref().expect("open between the steps")
    }

    /// The database, which is let go of.
    fn take(&mut self) -> Database<P::World> {
        let db = self.db.take().expect("open between the steps");
        self.ran.failed_steps += db.stats().expect("this thread has no transaction open").failures;
        db
    }

    /// An error was seen.
    fn failed(&mut self) {
        self.ran.errors += 1;
        self.place.mend();
    }

    fn create(&mut self) -> Result<(), String> {
        let mut made = self.place.create();
        if made.is_err() {
            self.failed();
            if !self.place.is_empty() {
                return Err("a creation that failed has left something".into());
            }
            made = self.place.create();
        }
        self.db = Some(made.map_err(|error| format!("cannot be created: {error}"))?);
        Ok(())
    }

    /// Opens the database, which may hold what it may.
    fn open(&mut self) -> Result<(), String> {
        let mut opened = self.place.open();
        if opened.is_err() {
            self.failed();
            opened = self.place.open();
        }
        let mut db = opened.map_err(|error| format!("does not open: {error}"))?;
        let mut found = contents(&db);
        if found.is_err() {
            self.failed();
            found = contents(&db);
        }
        if found.is_err() {
            // It has stopped, and says so.
            db.abandon();
            self.ran.reopened += 1;
            db = self.place.open().map_err(|error| format!("does not open: {error}"))?;
            found = contents(&db);
        }
        let found = found.map_err(|error| format!("cannot be read: {error}"))?;
        if found != self.model && !self.instead.contains(&found) {
            return Err("holds something else when it is opened again".into());
        }
        self.db = Some(db);
        (self.model, self.instead) = (found, Vec::new());
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), String> {
        self.ran.reopened += 1;
        self.take().abandon();
        self.open()?;
        checks(self.db()).map(drop)
    }

    /// Checks after an error that the database holds one of these, whether it goes on or is opened
    /// again.
    fn check_after_error(&mut self, error: &Error, possible: Vec<Model>) -> Result<(), String> {
        self.failed();
        match contents(self.db()) {
            Ok(found) if possible.contains(&found) => self.model = found,
            Ok(_) => return Err(format!("holds something else after the error `{error}`")),
            // It has stopped, and says so.
            Err(_) => self.model = possible[0].clone(),
        }
        self.instead.extend(possible);
        // One that goes on must not fail again, since nothing fails any more.
        if self.ran.errors > 1 || contents(self.db()).is_err() {
            return self.reopen();
        }
        self.ran.went_on += 1;
        Ok(())
    }

    fn transaction(&mut self, shape: Shape) -> Result<(), String> {
        let (before, mut after) = (self.model.clone(), self.model.clone());
        let (refused, ended) = {
            let db = self.db.as_ref().expect("open between the steps");
            transact(db, &mut self.driver, &mut after, shape, self.run.goes_on)
        };
        match (ended, refused) {
            (Ended::Committed, refused) => {
                self.acknowledge(after.clone());
                refused.map_or(Ok(()), |error| self.check_after_error(&error, vec![after]))
            }
            (Ended::Aborted, None) => Ok(()),
            (Ended::Aborted, Some(error)) => self.check_after_error(&error, vec![before]),
            (Ended::CommitFailed(error), _) => self.check_after_error(&error, vec![before, after]),
            (Ended::AbortFailed(error), _) => {
                self.failed();
                self.reopen().map_err(|what| format!("after `{error}`, {what}"))
            }
            (Ended::Wrong(operation), _) => Err(format!("is wrong about {operation}")),
        }
    }

    fn acknowledge(&mut self, after: Model) {
        self.model = after;
        self.instead.clear();
        self.ran.acknowledged += 1;
    }

    /// Does what changes no contents.
    fn tend(&mut self, act: fn(&Database<P::World>) -> Result<(), Error>) -> Result<(), String> {
        match act(self.db()) {
            Ok(()) => Ok(()),
            Err(error) => self.check_after_error(&error, vec![self.model.clone()]),
        }
    }

    /// Closes the database or kills it in the middle of a transaction, and opens it.
    fn end_of_round(&mut self, round: usize) -> Result<(), String> {
        let db = self.take();
        if round == 1 {
            let (tables, mut imagined) = (Tables::of(&db), self.model.clone());
            match db.begin() {
                Ok(mut tx) => {
                    let mut done = Ok(());
                    for _ in 0..8 {
                        let operation = self.driver.next(&imagined);
                        done = done.and(known(operation.run(&mut tx, &tables)));
                        if done.is_ok() {
                            operation.apply(&mut imagined);
                        }
                    }
                    // A sync that failed in the last of them shows at the next.
                    let last =
                        tx.get_into(&tables.item, &[Value::U64(0)], &mut Row::new()).map(drop);
                    if done.and(last).is_err() {
                        self.failed();
                    }
                    if leave(tx, &db).is_err() {
                        self.failed();
                    }
                }
                Err(_) => self.failed(),
            }
            db.abandon();
        } else if db.close().is_err() {
            self.failed();
        }
        self.open()
    }
}

/// Runs a transaction; says what was refused of it, and how it ended. `after` is what there is if
/// it has committed.
fn transact<E: Environment>(
    db: &Database<E>,
    driver: &mut Driver,
    after: &mut Model,
    shape: Shape,
    goes_on: bool,
) -> (Option<Error>, Ended) {
    let tables = Tables::of(db);
    let mut tx: Tx<'_, E> = match db.begin() {
        Ok(tx) => tx,
        Err(error) => return (Some(error), Ended::Aborted),
    };
    let mut refused = None;
    for _ in 0..shape.operations {
        let operation = driver.next(after);
        let mut tried = after.clone();
        let possible = operation.apply(&mut tried);
        match operation.run(&mut tx, &tables) {
            Ok(()) if possible => *after = tried,
            Err(error) if is_refusal(&error) && !possible => {}
            Ok(()) => return (refused, Ended::Wrong(format!("{operation:?}"))),
            Err(error) if is_refusal(&error) => {
                return (refused, Ended::Wrong(format!("{operation:?}: {error}")));
            }
            Err(error) => {
                refused = Some(error);
                if !goes_on {
                    break;
                }
            }
        }
    }
    let ended = if shape.aborts || (refused.is_some() && !goes_on) {
        tx.abort().map_or_else(Ended::AbortFailed, |()| Ended::Aborted)
    } else {
        tx.commit().map_or_else(Ended::CommitFailed, |_| Ended::Committed)
    };
    (refused, ended)
}
