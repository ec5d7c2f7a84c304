//! Engines that run many transactions at the same time, as a database uses them. A scripted engine
//! that holds no data shows what the database asks of it.

use crate::support::small_logs;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use engines::below::Catalog;
use engines::{Begin, Engine, EngineError, InFlight, Maker, Resources, Sessions, Setup, TxId};
use perdura::{
    ColumnType, Concurrency, ConflictReason, Database, DurableIn, EngineKind, EngineStats,
    EngineTraits, Error, Footprint, Holder, Isolation, Options, RecoveryReport, Row, Schema, Table,
    TableSchema, Unfinished, Value, WriteOptions,
};
use sim::{Recorded, Recording, RecordingFiles};

/// The engine's orders, and counts of what was asked of it.
#[derive(Default, Debug)]
struct Script {
    /// So many of the next inserts and commits are conflicts.
    conflicts: AtomicU32,
    /// So many of the next reads are conflicts.
    read_conflicts: AtomicU32,
    /// Aborts stop the session.
    breaks: AtomicU32,
    sessions: AtomicU32,
    inserts: AtomicU32,
    commits: AtomicU32,
    aborts: AtomicU32,
    begun: Mutex<Vec<Begin>>,
    /// Another session has ended the transaction that waited.
    gone: AtomicBool,
    /// The names of transactions.
    named: Mutex<Vec<Vec<u8>>>,
    /// Transactions that were left: the first one is [`OTHER`].
    left: AtomicU32,
    /// A name is taken while the transaction that has it waits.
    names: AtomicBool,
    /// This one is sent a message to go on when a name is found taken.
    tells: Mutex<Option<mpsc::Sender<()>>>,
    /// A caller that takes a transaction that waits says so, and stays there until a message lets
    /// it go on.
    held: Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>,
    /// The message has not come.
    gave_up: AtomicBool,
}

impl Script {
    fn conflict(&self) -> Result<(), EngineError> {
        Self::conflict_of(&self.conflicts)
    }

    /// Stays here until a message lets it go on, if it is to.
    fn hold(&self) {
        if let Some((inside, go_on)) = self.held.lock().unwrap().take() {
            inside.send(()).unwrap();
            let gave_up = go_on.recv_timeout(Duration::from_secs(20)).is_err();
            self.gave_up.store(gave_up, SeqCst);
        }
    }

    fn conflict_of(left: &AtomicU32) -> Result<(), EngineError> {
        let one_less = |left: u32| left.checked_sub(1);
        match left.fetch_update(SeqCst, SeqCst, one_less) {
            Ok(_) => Err(EngineError::Conflict { reason: ConflictReason::WriteWrite }),
            Err(_) => Ok(()),
        }
    }
}

struct Scripted {
    script: Arc<Script>,
    stopped: bool,
    root: bool,
}

impl engines::Read for Scripted {
    fn get(
        &self,
        _: u16,
        _: &[Value<'_>],
        _: Option<&[u16]>,
        _: &mut Row,
    ) -> Result<bool, EngineError> {
        Script::conflict_of(&self.script.read_conflicts)?;
        Ok(false)
    }

    fn get_bytes(
        &self,
        _: u16,
        _: &[Value<'_>],
        _: &[u16],
        _: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        Ok(None)
    }

    fn scan(
        &self,
        _: u16,
        _: &engines::Scan<'_>,
        _: &mut Row,
        _: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        Ok(())
    }
}

impl engines::Write for Scripted {
    fn insert(&mut self, _: u16, _: &[Value<'_>]) -> Result<(), EngineError> {
        self.script.inserts.fetch_add(1, SeqCst);
        self.script.conflict()
    }

    fn update(
        &mut self,
        _: u16,
        _: &[Value<'_>],
        _: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        Ok(())
    }

    fn delete(&mut self, _: u16, _: &[Value<'_>]) -> Result<(), EngineError> {
        Ok(())
    }
}

impl Engine for Scripted {
    fn begin(&mut self, how: &Begin) -> Result<(), EngineError> {
        self.script.begun.lock().unwrap().push(*how);
        Ok(())
    }

    fn begin_named(&mut self, how: &Begin, name: &[u8]) -> Result<(), EngineError> {
        self.script.named.lock().unwrap().push(name.to_vec());
        if self.script.names.load(SeqCst) && !self.script.gone.load(SeqCst) {
            // The receiver is gone if the other one has given up.
            self.script.tells.lock().unwrap().take().into_iter().for_each(|other| {
                let _ = other.send(());
            });
            return Err(EngineError::NameTaken);
        }
        self.begin(how)
    }

    fn commit(&mut self) -> Result<(u64, bool), EngineError> {
        self.script.conflict()?;
        Ok((u64::from(self.script.commits.fetch_add(1, SeqCst)) + 1, true))
    }

    fn abort(&mut self) -> Result<(), EngineError> {
        self.script.aborts.fetch_add(1, SeqCst);
        self.stopped = !self.root && self.script.breaks.load(SeqCst) > 0;
        match self.stopped {
            true => Err(EngineError::Stopped { why: "told to".into() }),
            false => Ok(()),
        }
    }

    fn detach(&mut self) -> Result<TxId, EngineError> {
        if self.script.left.fetch_add(1, SeqCst) == 0 {
            return Ok(OTHER);
        }
        self.script.gone.store(false, SeqCst);
        Ok(cut_off().id)
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    fn durable(&self) -> u64 {
        u64::MAX
    }

    fn sessions(&self) -> Option<Arc<dyn Sessions>> {
        Some(Arc::new(Pool(self.script.clone())))
    }

    fn checkpoint(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.stopped
    }

    fn close(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    fn footprint(&self) -> Result<Footprint, EngineError> {
        Ok(Footprint::default())
    }

    fn stats(&self) -> EngineStats {
        EngineStats::from(EngineKind::NvmInp)
    }

    fn check(&self, _: &mut dyn FnMut(u64)) -> Result<u64, EngineError> {
        Ok(0)
    }
}

#[derive(Debug)]
struct Pool(Arc<Script>);

impl Sessions for Pool {
    fn session(&self) -> Result<Box<dyn Engine>, EngineError> {
        self.0.sessions.fetch_add(1, SeqCst);
        Ok(Box::new(Scripted { script: self.0.clone(), stopped: false, root: false }))
    }

    fn in_flight(&self) -> Vec<InFlight> {
        if self.0.gone.load(SeqCst) { Vec::new() } else { vec![cut_off()] }
    }

    /// Another session was faster.
    fn replay(&self, id: TxId) -> Result<Box<dyn Engine>, EngineError> {
        match id {
            OTHER => self.0.hold(),
            _ => self.0.gone.store(true, SeqCst),
        }
        Err(EngineError::NotInFlight { id })
    }

    fn resume(&self, id: TxId) -> Result<Box<dyn Engine>, EngineError> {
        match id {
            TxId(7) => {
                self.0.hold();
                self.session()
            }
            id => Err(EngineError::NotInFlight { id }),
        }
    }
}

/// Another one, which is not listed.
const OTHER: TxId = TxId(5);

fn cut_off() -> InFlight {
    InFlight { id: TxId(7), name: b"seven".to_vec(), statements: 3, openings: 1 }
}

struct Made(Arc<Script>);

impl Made {
    fn root(&self) -> Box<dyn Engine> {
        Box::new(Scripted { script: self.0.clone(), stopped: false, root: true })
    }
}

impl Maker<Recorded> for Made {
    fn name(&self) -> &str {
        "scripted"
    }

    fn traits(&self) -> EngineTraits {
        EngineTraits {
            durable_in: DurableIn::Pool,
            concurrency: Concurrency::Shared,
            isolation: Isolation::Snapshot,
            usual_isolation: Isolation::Snapshot,
            snapshots: false,
            unfinished: Unfinished::Continued,
            larger_than_memory: true,
        }
    }

    fn create(
        &self,
        _: Resources<Recorded>,
        _: &Arc<Catalog>,
        _: &Setup,
    ) -> Result<Box<dyn Engine>, EngineError> {
        Ok(self.root())
    }

    fn open(
        &self,
        _: Resources<Recorded>,
        _: &Arc<Catalog>,
        _: &Setup,
    ) -> Result<(Box<dyn Engine>, RecoveryReport), EngineError> {
        Ok((self.root(), RecoveryReport::default()))
    }
}

struct Subject {
    db: Database<Recorded>,
    memory: Recording,
    script: Arc<Script>,
    table: Table,
}

impl Subject {
    fn new(options: &Options) -> Self {
        let memory = Recording::pool(64 << 10, 1 << 24).unwrap();
        let media = faults::recorded(memory.clone(), RecordingFiles::new());
        let table = TableSchema::new("t").column("k", ColumnType::U64).key(&["k"]);
        let script = Arc::new(Script::default());
        let made = Made(script.clone());
        let schema = Schema::new().table(table);
        let db = Database::create_with(media, &schema, options, &made).unwrap();
        let table = db.table("t").unwrap();
        Self { db, memory, script, table }
    }

    fn insert(&self) -> Result<(), Error> {
        self.db.write(|tx| tx.insert(&self.table, &[Value::U64(1)]))
    }

    fn begun(&self) -> Vec<Begin> {
        std::mem::take(&mut self.script.begun.lock().unwrap())
    }
}

#[test]
fn a_transaction_in_conflict_is_run_again_with_its_first_age() {
    let subject = Subject::new(&small_logs());
    subject.insert().unwrap();
    let first = subject.begun();
    assert_eq!(first.len(), 1);
    subject.script.conflicts.store(4, SeqCst);
    subject.insert().unwrap();
    let tries = subject.begun();
    assert_eq!(tries.len(), 5);
    assert!(tries.iter().all(|begin| begin.age == tries[0].age), "{tries:?}");
    assert!(tries[0].age > first[0].age);
    // Whatever has failed was aborted, in one and the same session.
    assert_eq!(subject.script.aborts.load(SeqCst), 4);
    assert_eq!(subject.script.commits.load(SeqCst), 2);
    assert_eq!(subject.script.sessions.load(SeqCst), 1);
    // One that reads is validated by its commit.
    subject.script.conflicts.store(2, SeqCst);
    let read =
        |row: &mut Row| subject.db.read(|tx| tx.get_into(&subject.table, &[Value::U64(1)], row));
    assert!(!read(&mut Row::new()).unwrap());
    assert_eq!(subject.begun().len(), 3);
    // Each commit that was a conflict was undone, too.
    assert_eq!(subject.script.aborts.load(SeqCst), 6);
}

#[test]
fn a_conflict_comes_back_when_the_time_is_over() {
    let subject = Subject::new(&small_logs().retry_for(Duration::ZERO));
    subject.script.conflicts.store(1, SeqCst);
    let done = subject.insert();
    let reason = ConflictReason::WriteWrite;
    assert!(matches!(done, Err(Error::Conflict { reason: why, tries: 1 }) if why == reason));
    subject.script.conflicts.store(u32::MAX, SeqCst);
    let options = WriteOptions::new().retry_for(Duration::from_millis(20));
    let done = subject.db.write_with(options, |tx| tx.insert(&subject.table, &[Value::U64(1)]));
    assert!(matches!(done, Err(Error::Conflict { tries: 2.., .. })), "{done:?}");
    subject.script.conflicts.store(0, SeqCst);
    // Another error ends it at once.
    let done = subject.db.write(|_| Err::<(), _>(Error::user("mine")));
    assert!(matches!(done, Err(Error::User(_))));
}

/// An application's errors, one of which hides that there was another one.
#[derive(Debug)]
enum Own {
    Hidden,
    Mine,
    Database(Error),
}

impl From<Error> for Own {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

#[test]
fn a_conflict_is_recognised_behind_an_error_of_the_applications_own() {
    let subject = Subject::new(&small_logs());
    let (table, key) = (&subject.table, [Value::U64(1)]);
    subject.script.conflicts.store(3, SeqCst);
    let done = subject.db.write_or(|tx| tx.insert(table, &key).map_err(|_| Own::Hidden));
    assert!(done.is_ok(), "{done:?}");
    assert_eq!((subject.begun().len(), subject.script.commits.load(SeqCst)), (4, 1));
    // Also where nothing of it is left but another decision.
    subject.script.conflicts.store(2, SeqCst);
    let done = subject.db.write_or(|tx| match tx.insert(table, &key) {
        Ok(()) => Ok(()),
        Err(_) => Err(Own::Mine),
    });
    assert!(done.is_ok(), "{done:?}");
    assert_eq!(subject.begun().len(), 3);
    subject.script.read_conflicts.store(2, SeqCst);
    let mut row = Row::new();
    let found =
        subject.db.read_or(|tx| tx.get_into(table, &key, &mut row).map_err(|_| Own::Hidden));
    assert!(matches!(found, Ok(false)), "{found:?}");
    assert_eq!(subject.begun().len(), 3);
    // A conflict of another transaction is no reason to run this one again.
    let foreign = || Error::Conflict { reason: ConflictReason::Deadlock, tries: 7 };
    let done = subject.db.write_or(|_| Err::<(), _>(Own::from(foreign())));
    assert!(matches!(done, Err(Own::Database(Error::Conflict { tries: 7, .. }))), "{done:?}");
    let done = subject.db.read_or(|_| Err::<(), _>(Own::Mine));
    assert!(matches!(done, Err(Own::Mine)), "{done:?}");
    assert_eq!(subject.begun().len(), 2);
}

#[test]
fn when_the_time_is_over_the_conflict_comes_back_as_the_applications_error() {
    let subject = Subject::new(&small_logs().retry_for(Duration::ZERO));
    let (table, key) = (&subject.table, [Value::U64(1)]);
    subject.script.conflicts.store(1, SeqCst);
    let done = subject.db.write_or(|tx| tx.insert(table, &key).map_err(|_| Own::Hidden));
    assert!(matches!(done, Err(Own::Database(Error::Conflict { tries: 1, .. }))), "{done:?}");
    subject.script.conflicts.store(u32::MAX, SeqCst);
    let options = WriteOptions::new().retry_for(Duration::from_millis(20));
    let work = |tx: &mut perdura::Tx<'_, Recorded>| tx.insert(table, &key).map_err(|_| Own::Hidden);
    let done = subject.db.write_with(options, work);
    assert!(matches!(done, Err(Own::Database(Error::Conflict { tries: 2.., .. }))), "{done:?}");
}

#[test]
fn after_a_conflict_every_call_but_abort_returns_it() {
    let subject = Subject::new(&small_logs());
    let (table, key) = (&subject.table, [Value::U64(1)]);
    let mut tx = subject.db.begin().unwrap();
    subject.script.conflicts.store(1, SeqCst);
    let conflict = |done: Result<(), Error>| {
        let reason = ConflictReason::WriteWrite;
        assert!(matches!(done, Err(Error::Conflict { reason: why, .. }) if why == reason));
    };
    conflict(tx.insert(table, &key));
    conflict(tx.insert(table, &key));
    conflict(tx.update(table, &key, &[(0, Value::Null); 0]));
    conflict(tx.delete(table, &key));
    conflict(tx.get_into(table, &key, &mut Row::new()).map(drop));
    conflict(tx.get_for_update_into(table, &key, &mut Row::new()).map(drop));
    conflict(tx.get_bytes(table, &key, &[0], &mut []).map(drop));
    conflict(tx.scan(table, &perdura::Scan::all(), |_| ControlFlow::Continue(())));
    conflict(tx.savepoint().map(drop));
    // None of them has reached the engine.
    assert_eq!(subject.script.inserts.load(SeqCst), 1);
    tx.abort().unwrap();
    let mut tx = subject.db.begin().unwrap();
    subject.script.conflicts.store(1, SeqCst);
    conflict(tx.insert(table, &key));
    conflict(tx.commit().map(drop));
    assert_eq!(subject.script.commits.load(SeqCst), 0);
    // The session is as good as new.
    subject.insert().unwrap();
    assert_eq!(subject.script.sessions.load(SeqCst), 1);
}

#[test]
fn isolation_is_given_or_refused() {
    let subject = Subject::new(&small_logs());
    let with = |level| {
        let wait = Duration::from_millis(3);
        let options = WriteOptions::new().isolation(level).wait(wait);
        subject.db.write_with(options, |_| Ok::<_, Error>(()))
    };
    assert!(matches!(with(Isolation::Serializable), Err(Error::Unsupported { .. })));
    assert!(subject.begun().is_empty());
    for level in [Isolation::Snapshot, Isolation::ReadCommitted] {
        with(level).unwrap();
        let begun = subject.begun();
        assert_eq!((begun[0].isolation, begun[0].wait), (level, Some(Duration::from_millis(3))));
    }
    // Without a wish as much as there is.
    subject.insert().unwrap();
    assert_eq!(subject.begun()[0].isolation, Isolation::Snapshot);
}

#[test]
fn there_are_256_sessions_at_most_and_one_that_has_stopped_is_not_used_again() {
    let subject = Subject::new(&small_logs());
    let mut open: Vec<_> = (0..256).map(|_| subject.db.begin().unwrap()).collect();
    let one_more = || subject.db.try_begin(Duration::ZERO).map(drop);
    assert!(matches!(one_more(), Err(Error::Busy { partition: 0, by: Holder::Transactions })));
    let ticket = open.pop().unwrap().commit().unwrap();
    assert!(subject.db.durable(ticket).unwrap());
    one_more().unwrap();
    assert_eq!(subject.script.sessions.load(SeqCst), 256);
    subject.script.breaks.store(1, SeqCst);
    drop(open);
    subject.script.breaks.store(0, SeqCst);
    subject.insert().unwrap();
    one_more().unwrap();
    assert!(subject.script.sessions.load(SeqCst) <= 257);
}

#[test]
fn a_partition_as_a_whole_waits_for_its_transactions_and_not_for_those_of_its_own_thread() {
    let subject = Subject::new(&small_logs().retry_for(Duration::from_millis(1)));
    let (db, partition) = (&subject.db, subject.db.partition(0));
    let nested = |done: Result<(), Error>| {
        assert!(matches!(done, Err(Error::Nested { partition: 0 })), "{done:?}");
    };
    let tx = db.begin().unwrap();
    // Many in one thread are no harm, and what needs none of them answers.
    drop(db.begin().unwrap());
    db.read(|_| Ok(())).unwrap();
    db.sync().unwrap();
    db.stats().unwrap();
    db.footprint().unwrap();
    nested(db.check().map(drop));
    nested(partition.exclusive().map(drop));
    nested(db.backup_to(&mut std::io::sink(), "sink", &mut |_| ()).map(drop));
    // Another thread waits for it.
    thread::scope(|scope| {
        let checks = scope.spawn(|| db.check().map(drop));
        while !checks.is_finished() && db.try_begin(Duration::ZERO).is_ok() {
            thread::yield_now();
        }
        assert!(!checks.is_finished(), "the check does not wait");
        tx.abort().unwrap();
        checks.join().unwrap().unwrap();
    });
    let mut own = partition.exclusive().unwrap();
    nested(db.begin().map(drop));
    own.write(|tx| tx.insert(&subject.table, &[Value::U64(1)])).unwrap();
    drop(own);
    subject.insert().unwrap();
}

#[test]
fn a_transaction_that_a_crash_has_cut_off_is_continued() {
    let subject = Subject::new(&small_logs());
    let partition = subject.db.partition(0);
    assert_eq!(partition.in_flight(), [cut_off()]);
    let none = partition.resume(TxId(8)).map(drop);
    assert!(matches!(none, Err(Error::Engine(EngineError::NotInFlight { id: TxId(8) }))));
    let mut tx = partition.resume(TxId(7)).unwrap();
    tx.insert(&subject.table, &[Value::U64(1)]).unwrap();
    let _ticket = tx.commit().unwrap();
    assert!(subject.begun().is_empty(), "it has begun before the crash");
    drop(partition.resume(TxId(7)).unwrap());
    assert_eq!(subject.script.aborts.load(SeqCst), 1, "dropped, it is undone");
}

/// While a session takes a transaction that waits, which may take long, others begin and read.
#[test]
fn nobody_waits_for_whoever_goes_on_with_a_transaction() {
    let subject = Subject::new(&small_logs().resume_within(Duration::from_secs(1 << 20)));
    let ((inside, is_inside), (go_on, may_go_on)) = (mpsc::channel(), mpsc::channel());
    *subject.script.held.lock().unwrap() = Some((inside, may_go_on));
    thread::scope(|scope| {
        let resumed = scope.spawn(|| drop(subject.db.partition(0).resume(TxId(7)).unwrap()));
        is_inside.recv().unwrap();
        assert!(subject.db.get(&subject.table, &[Value::U64(1)]).unwrap().is_none());
        subject.insert().unwrap();
        // The receiver is gone if the other one has given up.
        let _ = go_on.send(());
        resumed.join().unwrap();
    });
    assert!(!subject.script.gave_up.load(SeqCst), "the others have waited for him");
}

/// While one session ends an overdue transaction, another one that begins does not wait for it. If
/// the name that it asks for belongs to an overdue transaction, it waits, and ends that one.
#[test]
fn the_name_of_a_transaction_whose_time_is_over_is_free() {
    let subject = Subject::new(&small_logs().resume_within(Duration::ZERO));
    let open: Vec<_> = (0..2).map(|_| subject.db.begin().unwrap()).collect();
    let left: Vec<_> = open.into_iter().map(|tx| tx.detach().unwrap()).collect();
    assert_eq!((&*left, subject.script.gone.load(SeqCst)), (&[OTHER, TxId(7)][..], false));
    subject.script.names.store(true, SeqCst);
    let ((inside, is_inside), (go_on, may_go_on)) = (mpsc::channel(), mpsc::channel());
    *subject.script.held.lock().unwrap() = Some((inside, may_go_on));
    *subject.script.tells.lock().unwrap() = Some(go_on);
    let begun = thread::scope(|scope| {
        scope.spawn(|| subject.insert().unwrap());
        is_inside.recv().unwrap();
        subject.db.begin_named(b"seven").map(drop)
    });
    begun.unwrap();
    assert!(subject.script.gone.load(SeqCst) && !subject.script.gave_up.load(SeqCst));
    assert_eq!(subject.script.named.lock().unwrap().len(), 2);
    // One whose time is not over keeps it.
    let subject = Subject::new(&small_logs().resume_within(Duration::from_secs(1 << 20)));
    subject.script.names.store(true, SeqCst);
    let taken = subject.db.begin_named(b"seven").map(drop);
    assert!(matches!(taken, Err(Error::Engine(EngineError::NameTaken))), "{taken:?}");
    assert_eq!(subject.script.named.lock().unwrap().len(), 2);
}

/// Its time was over, or another thread has gone on with it, since it was found.
#[test]
fn a_transaction_that_is_gone_before_its_closure_runs_begins_anew() {
    let subject = Subject::new(&small_logs());
    let done = subject
        .db
        .partition(0)
        .write_named(b"seven", |tx| tx.insert(&subject.table, &[Value::U64(1)]));
    done.unwrap();
    assert!(subject.script.gone.load(SeqCst));
    assert_eq!(*subject.script.named.lock().unwrap(), [b"seven"]);
    assert_eq!(subject.script.commits.load(SeqCst), 1);
}

/// A build that does not know an engine opens its database with none.
#[test]
fn the_database_of_an_unknown_engine_is_opened_with_no_other() {
    let subject = Subject::new(&small_logs());
    let memory = subject.memory.clone();
    subject.db.close().unwrap();
    let media = || faults::recorded(memory.clone(), RecordingFiles::new());
    let opened = Database::open_on(media(), &small_logs());
    assert!(
        matches!(&opened, Err(Error::WrongEngine { found, .. }) if found == "scripted"),
        "{opened:?}"
    );
    Database::open_with(media(), &small_logs(), &Made(subject.script.clone())).unwrap();
}

/// All that may go to another thread does so; a transaction does not (an example of
/// [`perdura::Tx`]).
#[test]
fn all_but_transactions_can_change_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Database>();
    is_shared::<Table>();
    is_shared::<perdura::Snapshot>();
    is_shared::<perdura::Ticket>();
    is_shared::<perdura::Savepoint>();
    is_shared::<perdura::Partition<'_>>();
    is_shared::<Options>();
    is_shared::<WriteOptions>();
    is_shared::<Row>();
    is_shared::<Error>();
}
