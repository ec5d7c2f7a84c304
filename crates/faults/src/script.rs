//! The workloads of P1 5.1 as scenarios: YCSB (balanced) and TPC-C (all five transactions, the
//! orders that are rolled back among them), small. What is entered follows from a seed; what there
//! has to be after each transaction is known beforehand.
//!
//! | workload | what is known |
//! |---|---|
//! | YCSB | the version of every column of every tuple, without any database |
//! | TPC-C | a digest of all tuples, from a run of another engine; and the twelve consistency conditions |

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use perdura::{
    ColumnType, Database, EngineKind, Environment, Error, Media, Options, Scan, Schema,
    TableSchema, Value,
};
use sim::{Recorded, Recording, RecordingFiles};
use workloads::tpcc::{self, Terminal};
use workloads::ycsb::{self, COLUMN_BYTES, COLUMNS};

use crate::explorer::Scenario;
use crate::files::FileMedium;
use crate::items::checks;
use crate::medium::InPool;
use crate::plot::{Plot, Workload};
use crate::pool::{LIMIT, PoolMedium};
use crate::work::Work;

/// Tuples of YCSB's table.
const TUPLES: u64 = 24;
/// Name of YCSB's table.
const TABLE: &str = "usertable";
/// Transactions of YCSB that are known, those to go on with after a scenario among them.
const YCSB: u64 = 300;
/// The same of TPC-C.
const TPCC: u64 = 80;
/// The number of first transactions of TPC-C that are of all kinds.
const ALL_KINDS: usize = 25;

/// The contents of a database of a script.
#[derive(Clone, PartialEq, Debug)]
pub enum Held {
    /// The version of every column, by key.
    Versions(BTreeMap<u64, [u64; COLUMNS]>),
    /// A digest of all tuples.
    Digest(u64),
}

/// The transactions of a workload, and what there has to be after each of them. Clones share it.
#[derive(Clone)]
pub struct Script(Arc<Known>);

struct Known {
    inputs: Inputs,
    /// The contents after so many transactions.
    held: Vec<Held>,
}

enum Inputs {
    Ycsb(ycsb::Workload),
    Tpcc(tpcc::Workload),
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("transactions", &(self.0.held.len() - 1)).finish()
    }
}

impl Script {
    /// The script of the plot.
    ///
    /// # Panics
    /// The other engine has failed, from whose run what has to be there is known.
    pub fn of(plot: &Plot) -> Self {
        match plot.workload {
            Workload::Tpcc => Self::tpcc(plot.engine, plot.seed).expect("it runs"),
            _ => Self::ycsb(plot.seed),
        }
    }

    /// YCSB.
    ///
    /// # Panics
    /// Never: the specification is one that can be run.
    pub fn ycsb(seed: u64) -> Self {
        let spec = ycsb::Spec {
            tuples: TUPLES,
            transactions: YCSB,
            mix: ycsb::Mix::Balanced,
            update_columns: 1 + (seed % 3) as usize,
            seed,
            ..ycsb::Spec::default()
        };
        let workload = ycsb::Workload::generate(&spec).expect("a specification that can be run");
        let mut versions: BTreeMap<u64, [u64; COLUMNS]> =
            (0..TUPLES).map(|key| (key, [0; COLUMNS])).collect();
        let mut held = vec![Held::Versions(versions.clone())];
        for (index, operation) in workload.operations(0).iter().enumerate() {
            if operation.is_update() {
                let first = operation.first_column();
                let tuple = versions.get_mut(&operation.key()).expect("keys below the tuples");
                tuple[first..first + spec.update_columns].fill(index as u64 + 1);
            }
            held.push(Held::Versions(versions.clone()));
        }
        Self(Arc::new(Known { inputs: Inputs::Ycsb(workload), held }))
    }

    /// TPC-C: the first seed from `seed` on whose first transactions are of every kind, with an
    /// order that is rolled back. What is known comes from another engine than `engine`.
    ///
    /// # Errors
    /// The other engine has failed.
    ///
    /// # Panics
    /// Never: the specification is one that can be run.
    pub fn tpcc(engine: EngineKind, seed: u64) -> Result<Self, Error> {
        let generate = |seed| {
            let small = tpcc::Spec { items: 20, customers: 10, ..Default::default() };
            let spec = tpcc::Spec { transactions: TPCC, seed, ..small };
            tpcc::Workload::generate(&spec).expect("a specification that can be run")
        };
        let has_all = |workload: &tpcc::Workload| {
            let inputs = &workload.inputs(0).all()[..ALL_KINDS];
            let has = |kind| inputs.iter().any(|input| input.kind() == kind);
            inputs.iter().any(tpcc::Input::is_rolled_back) && tpcc::Kind::ALL.into_iter().all(has)
        };
        let workload = (seed..).map(generate).find(has_all).expect("one in a few has");
        let is_nvm_inp = engine == EngineKind::NvmInp;
        let other = if is_nvm_inp { EngineKind::Inp } else { EngineKind::NvmInp };
        let mut script = Self(Arc::new(Known { inputs: Inputs::Tpcc(workload), held: vec![] }));
        let memory = Recording::pool(64 << 10, LIMIT)
            .map_err(|source| Error::Io { path: "recording".into(), source })?;
        let media = crate::recorded(memory, RecordingFiles::new());
        let db: Database<Recorded> =
            Database::create_on(media, &script.schema(), &script.options(other))?;
        let done = script.follow(&db);
        db.abandon();
        let held = done?;
        let known = Arc::get_mut(&mut script.0).expect("it is not shared yet");
        known.held = held;
        Ok(script)
    }

    /// Loads, runs everything, and says what was held after each transaction.
    fn follow(&self, db: &Database<Recorded>) -> Result<Vec<Held>, Error> {
        self.load(db)?;
        let mut held = vec![self.contents(db)?];
        for index in 0..self.inputs() {
            self.step(db, index)?;
            held.push(self.contents(db)?);
        }
        Ok(held)
    }

    fn inputs(&self) -> usize {
        match &self.0.inputs {
            Inputs::Ycsb(workload) => workload.operations(0).len(),
            Inputs::Tpcc(workload) => workload.inputs(0).len(),
        }
    }

    /// Returns the number of columns that an update of YCSB has.
    pub fn update_columns(&self) -> Option<usize> {
        match &self.0.inputs {
            Inputs::Ycsb(workload) => Some(workload.spec().update_columns),
            Inputs::Tpcc(_) => None,
        }
    }

    /// Returns sizes so small that a few transactions go everywhere.
    pub fn options(&self, engine: EngineKind) -> Options {
        match &self.0.inputs {
            Inputs::Ycsb(_) => crate::plot::options(engine).chunk_bytes(16 << 10),
            Inputs::Tpcc(_) => Options::new()
                .engine(engine)
                .chunk_bytes(16 << 10)
                .tune("checkpoint_bytes", 64 << 10)
                .tune("wal_reserve_bytes", 16 << 10)
                .tune("memtable_bytes", 16 << 10)
                .tune("growth", 2)
                .tune("block_bytes", 1 << 10)
                .tune("cache_bytes", 256 << 10)
                .tune("buffer_bytes", 16 << 10)
                .tune("log_bytes", 512 << 10),
        }
    }

    /// The schema.
    pub fn schema(&self) -> Schema {
        match &self.0.inputs {
            Inputs::Tpcc(_) => tpcc::schema(),
            Inputs::Ycsb(workload) => {
                let key = TableSchema::new(TABLE).column("key", ColumnType::U64);
                let bytes = ColumnType::Bytes { max: COLUMN_BYTES as _ };
                let table = (0..COLUMNS)
                    .fold(key, |table, column| table.column(format!("field{column}"), bytes));
                let table = table.key(&["key"]);
                // Each number of columns that an update has comes with both.
                let is_inlined = workload.spec().seed % 2 == 1;
                Schema::new().table(if is_inlined { table.inline_columns() } else { table })
            }
        }
    }

    /// Puts in what is there before the first transaction.
    ///
    /// # Errors
    /// The database's.
    pub fn load<E: Environment>(&self, db: &Database<E>) -> Result<(), Error> {
        match &self.0.inputs {
            Inputs::Tpcc(workload) => {
                tpcc::load(db, workload.spec(), 1, &()).map_err(Error::user)?;
            }
            Inputs::Ycsb(workload) => {
                let (table, values) = (db.table(TABLE)?, workload.values());
                for key in 0..TUPLES {
                    let row: [_; COLUMNS] =
                        std::array::from_fn(|column| values.value(key, column, 0));
                    let tuple: [Value<'_>; COLUMNS + 1] = std::array::from_fn(|at| match at {
                        0 => Value::U64(key),
                        _ => Value::Bytes(&row[at - 1]),
                    });
                    db.write(|tx| tx.insert(&table, &tuple))?;
                }
            }
        }
        db.sync()
    }

    /// Runs transaction `index`.
    ///
    /// # Errors
    /// The database's.
    pub fn step<E: Environment>(&self, db: &Database<E>, index: usize) -> Result<(), Error> {
        match &self.0.inputs {
            Inputs::Tpcc(workload) => {
                // It owns the partition: reading needs it back.
                let mut terminal = Terminal::new(db, workload.spec(), 0)?;
                terminal.run(workload.inputs(0), index).map(drop)
            }
            Inputs::Ycsb(workload) => {
                let (table, operation) = (db.table(TABLE)?, workload.operations(0)[index]);
                let key = [Value::U64(operation.key())];
                if !operation.is_update() {
                    let mut row = perdura::Row::new();
                    let found = db.read(|tx| tx.get_into(&table, &key, &mut row))?;
                    return if found { Ok(()) } else { Err(Error::user("a tuple is missing")) };
                }
                let first = operation.first_column();
                let fields: Vec<_> = (first..first + workload.spec().update_columns)
                    .map(|column| {
                        let value =
                            workload.values().value(operation.key(), column, index as u64 + 1);
                        (column as u16 + 1, value)
                    })
                    .collect();
                let changes: Vec<_> =
                    fields.iter().map(|(column, value)| (*column, Value::Bytes(value))).collect();
                // Of one column or of two, inlined or not: statements among other transactions.
                match index % 3 {
                    0 => db.write(|tx| tx.update(&table, &key, &changes)),
                    _ => db.update(&table, &key, &changes),
                }
            }
        }
    }

    /// The contents after so many transactions.
    pub fn held(&self, transactions: usize) -> &Held {
        &self.0.held[transactions]
    }

    /// The next transaction that changes something, if there is one: it and what there is after it.
    pub fn next(&self, held: &Held) -> Option<(usize, &Held)> {
        let last = self.0.held.iter().rposition(|known| known == held)?;
        Some((last, self.0.held.get(last + 1)?))
    }

    /// Reads the contents of the database.
    ///
    /// # Errors
    /// It cannot be read, or what it holds is no version of anything.
    pub fn contents<E: Environment>(&self, db: &Database<E>) -> Result<Held, Error> {
        let Inputs::Ycsb(workload) = &self.0.inputs else {
            return Ok(Held::Digest(workloads::contents(db)?.digest()));
        };
        let (table, mut versions) = (db.table(TABLE)?, BTreeMap::new());
        let mut wrong = None;
        db.read(|tx| {
            tx.scan(&table, &Scan::all(), |row| {
                let key = row.u64(0);
                let mut tuple = [0; COLUMNS];
                for (column, version) in tuple.iter_mut().enumerate() {
                    let field = row.bytes(column + 1);
                    let known = <&[u8; COLUMN_BYTES]>::try_from(field).ok();
                    match known.and_then(|field| workload.values().version_of(key, column, field)) {
                        Some(known) => *version = known,
                        None => wrong = Some(format!("column {column} of tuple {key} is torn")),
                    }
                }
                if versions.insert(key, tuple).is_some() {
                    wrong = Some(format!("a scan shows tuple {key} twice"));
                }
                ControlFlow::Continue(())
            })
        })?;
        wrong.map_or(Ok(Held::Versions(versions)), |wrong| Err(Error::user(wrong)))
    }

    /// Checks a database that holds what it may: the conditions of TPC-C, damage, space that
    /// leaked.
    ///
    /// # Errors
    /// The condition that does not hold.
    pub fn consistent<E: Environment>(&self, db: &Database<E>) -> Result<(), String> {
        if let Inputs::Tpcc(workload) = &self.0.inputs {
            let conditions = tpcc::check(db, workload.spec())
                .map_err(|error| format!("cannot be read: {error}"))?;
            if let Some(wrong) = conditions.iter().find(|condition| !condition.holds()) {
                return Err(format!("breaks a condition of TPC-C: {wrong:?}"));
            }
        }
        checks(db).map(drop)
    }
}

impl Work for Script {
    type Model = Held;
    type More = ();

    fn contents(&self, db: &Database<Recorded>) -> Result<Held, Error> {
        Script::contents(self, db)
    }

    fn reads_differ(&self, db: &Database<Recorded>, _: &Held) -> Result<(), String> {
        self.consistent(db)
    }

    fn more(&self, _: u64) {}

    fn transaction(
        &self,
        (): &mut (),
        db: &Database<Recorded>,
        held: &mut Held,
        _: usize,
    ) -> Result<bool, Error> {
        let Some((index, after)) = self.next(held) else { return Ok(false) };
        self.step(db, index)?;
        *held = after.clone();
        db.sync()?;
        Ok(true)
    }
}

/// A database of the plot's script with what is there before the first transaction.
fn loaded(plot: &Plot, script: &Script, media: Media<Recorded>) -> Database<Recorded> {
    let options = script.options(plot.engine).commit(plot.commit());
    let db = Database::create_on(media, &script.schema(), &options).expect("a database");
    script.load(&db).expect("it is loaded");
    db
}

/// Runs the transactions of a plot; returns what was held after each. `note` is called with the
/// number of acknowledged ones.
fn follow(plot: &Plot, script: &Script, db: &Database<Recorded>, note: &dyn Fn(u64)) -> Vec<Held> {
    let mut models = vec![script.held(0).clone()];
    note(0);
    for index in 0..plot.transactions.min(script.inputs()) {
        // Each in a thread of its own: no fence may be relied on that another thread makes.
        let work = || script.step(db, index).expect("it runs");
        std::thread::scope(|scope| scope.spawn(work).join().expect("it runs"));
        let held = script.held(index + 1);
        if *held != models[models.len() - 1] {
            models.push(held.clone());
        }
        if (index + 1).is_multiple_of(plot.group as usize) {
            db.sync().expect("a sync");
            note(models.len() as u64 - 1);
        }
    }
    db.sync().expect("a sync");
    note(models.len() as u64 - 1);
    script.differs(db, &models[models.len() - 1]).expect("it did as the model says");
    models
}

/// Runs the script of an engine whose data lie in the pool; see [`run_on`].
pub fn run_in_pool(plot: &Plot) -> Scenario<PoolMedium, Script> {
    run_on(plot)
}

/// Runs the script of an engine whose data lie in the pool and in files.
///
/// # Panics
/// The engine fails without any crash.
pub fn run_on<M: InPool>(plot: &Plot) -> Scenario<M, Script> {
    let script = Script::of(plot);
    let handle = M::fresh();
    let db = loaded(plot, &script, M::media(&handle));
    M::start(&handle);
    let models = follow(plot, &script, &db, &|note| M::note(&handle, note));
    db.close().expect("it closes");
    let trace = M::stop(&handle);
    let medium = M::of(script.options(plot.engine), handle);
    let in_flight = plot.group as usize;
    Scenario { work: script, medium, trace, models, in_flight, created: false }
}

/// Runs the script of an engine that keeps files.
///
/// # Panics
/// The engine fails without any crash.
pub fn run_in_files(plot: &Plot) -> Scenario<FileMedium, Script> {
    let script = Script::of(plot);
    let memory = Recording::pool(64 << 10, LIMIT).expect("address space");
    let files = RecordingFiles::new();
    let db = loaded(plot, &script, crate::recorded(memory.clone(), files.clone()));
    let pool = memory.contents();
    files.start();
    let models = follow(plot, &script, &db, &|note| files.note(note));
    db.abandon();
    let medium = FileMedium { options: script.options(plot.engine), pool };
    let in_flight = plot.group as usize;
    Scenario { work: script, medium, trace: files.stop(), models, in_flight, created: false }
}
