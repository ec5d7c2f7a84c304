//! Calls within calls: each pair of what a thread has open and what it calls meanwhile returns at
//! once, with an answer or with [`Error::Nested`], and as the table of docs/nested-calls.md says.

use crate::support::small_logs;
use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use perdura::{
    ColumnType, Commit, Database, Domain, EngineKind, Error, Existing, Holder, LoadOptions,
    Options, Row, Schema, TableSchema, Ticket, Value,
};

const DOCUMENT: &str = include_str!("../../../../docs/nested-calls.md");
const BEGIN: &str = "<!-- nested calls -->\n";
const END: &str = "<!-- end of nested calls -->\n";

fn schema() -> Schema {
    let table =
        TableSchema::new("t").column("k", ColumnType::U64).column("v", ColumnType::U64).key(&["k"]);
    Schema::new().table(table)
}

struct Subject {
    db: Database,
    directory: tempfile::TempDir,
}

impl Subject {
    fn new(engine: EngineKind, options: Options) -> Self {
        let directory = crate::support::in_memory();
        let options = options.engine(engine).domain(Domain::Process).pool_limit(1 << 30);
        let options = options.volatile_limit(1 << 30).commit(Commit::grouped(1000));
        let db = Database::create(directory.path().join("db"), &schema(), &options).unwrap();
        let t = db.table("t").unwrap();
        for number in 0..db.partition_count() {
            let row = [Value::U64(1), Value::U64(0)];
            db.partition(number).write(|tx| tx.insert(&t, &row)).unwrap();
        }
        Self { db, directory }
    }

    fn update(&self) -> Result<(), Error> {
        let t = self.db.table("t")?;
        self.db.partition(0).update(&t, &[Value::U64(1)], &[(1, Value::U64(1))])
    }

    /// A transaction that is not durable yet, in engines that have such a thing.
    fn pending(&self) -> Option<Ticket> {
        let t = self.db.table("t").unwrap();
        let mut tx = self.db.partition(0).begin().unwrap();
        tx.update(&t, &[Value::U64(1)], &[(1, Value::U64(2))]).unwrap();
        Some(tx.commit().unwrap()).filter(|ticket| !ticket.is_durable())
    }
}

/// Things that a thread has while it calls.
const OUTER: [&str; 5] = [
    "in `read`",
    "in `write`, or with a `Tx`",
    "with an `Exclusive`",
    "in the output of a backup",
    "with a `Snapshot`",
];

/// Calls `inner` in each way to have `outer`; not at all if the engine does not have it.
fn within(outer: usize, subject: &Subject, inner: &mut dyn FnMut()) {
    let db = &subject.db;
    let partition = db.partition(0);
    match outer {
        0 => partition
            .read(|_| {
                inner();
                Ok(())
            })
            .unwrap(),
        1 => {
            partition
                .write(|_| {
                    inner();
                    Ok(())
                })
                .unwrap();
            let tx = partition.begin().unwrap();
            inner();
            tx.abort().unwrap();
            let tx = partition.try_begin(Duration::from_secs(60)).unwrap();
            inner();
            drop(tx);
        }
        2 => {
            let mut exclusive = partition.exclusive().unwrap();
            inner();
            let tx = exclusive.begin();
            inner();
            drop(tx);
            exclusive
                .read(|_| {
                    inner();
                    Ok(())
                })
                .unwrap();
        }
        3 => {
            struct Out<'a>(Option<&'a mut dyn FnMut()>);
            impl Write for Out<'_> {
                fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                    // At the first byte all partitions are taken.
                    if let Some(inner) = self.0.take() {
                        inner();
                    }
                    Ok(bytes.len())
                }

                fn flush(&mut self) -> io::Result<()> {
                    Ok(())
                }
            }
            db.backup_to(&mut Out(Some(inner)), "out", &mut |_| ()).unwrap();
        }
        _ => {
            if let Ok(snapshot) = partition.snapshot() {
                inner();
                drop(snapshot);
            }
        }
    }
}

type Inner = (&'static str, fn(&Subject, Ticket) -> Result<(), Error>);

/// The calls; each gets a ticket of the partition that is not durable if the engine has such.
const INNER: [Inner; 19] = [
    ("`read`", |subject, _| {
        let t = subject.db.table("t")?;
        subject
            .db
            .partition(0)
            .read(|tx| tx.get_into(&t, &[Value::U64(1)], &mut Row::new()))
            .map(drop)
    }),
    ("`snapshot`, where the engine has it", |subject, _| {
        match subject.db.partition(0).snapshot() {
            Err(Error::NoSnapshots { .. }) => Ok(()),
            taken => taken.map(drop),
        }
    }),
    ("`write`, `update`", |subject, _| {
        let wrote = subject.db.partition(0).write(|_| Ok(()));
        let updated = subject.update();
        assert_eq!(wrote.is_ok(), updated.is_ok());
        wrote.and(updated)
    }),
    ("`begin`", |subject, _| subject.db.partition(0).begin().map(drop)),
    ("`try_begin`, `write_with`", |subject, _| {
        let partition = subject.db.partition(0);
        let wait = Duration::from_secs(60);
        let begun = partition.try_begin(wait).map(drop);
        let wrote =
            partition.write_with(perdura::WriteOptions::new().wait(wait), |_| Ok::<_, Error>(()));
        assert_eq!(begun.is_ok(), wrote.is_ok());
        begun.and(wrote)
    }),
    ("`exclusive`", |subject, _| subject.db.partition(0).exclusive().map(drop)),
    ("`durable` of a ticket that is not", |subject, ticket| subject.db.durable(ticket).map(drop)),
    ("`wait` for a ticket that is not durable", |subject, ticket| subject.db.wait(ticket)),
    ("`sync`", |subject, _| subject.db.sync()),
    ("`checkpoint`", |subject, _| subject.db.checkpoint()),
    ("`background`", |subject, _| subject.db.background(1).map(drop)),
    ("`stats`", |subject, _| subject.db.stats().map(drop)),
    ("`footprint`", |subject, _| subject.db.footprint().map(drop)),
    ("`check`", |subject, _| subject.db.check().map(drop)),
    ("`examine`", |subject, _| subject.db.examine().map(drop)),
    ("`backup`, `dump`", |subject, _| {
        let path = subject.directory.path().join("backup");
        let done = subject.db.backup(&path);
        let dumped = subject.db.dump_to(&mut io::sink(), "sink", &[], &mut |_| ());
        assert_eq!(done.is_ok(), dumped.is_ok());
        if done.is_ok() {
            std::fs::remove_file(&path).unwrap();
        }
        done.and(dumped).map(drop)
    }),
    ("`load`", |subject, _| {
        let line = br#"{"table":"t","partition":0,"tuple":{"k":1,"v":5}}"#;
        let options = LoadOptions::new("lines").existing(Existing::Replace);
        match subject.db.load(&mut &line[..], &options, &mut |_| ()) {
            Err(Error::Lines(perdura::LinesError::Refused { source, .. })) => Err(*source),
            done => done.map(drop),
        }
    }),
    ("any call, in another partition", |subject, _| {
        let partition = subject.db.partition(1);
        partition.read(|_| Ok(()))?;
        partition.write(|_| Ok(()))?;
        drop(partition.exclusive()?);
        partition.begin().map(drop)
    }),
    ("any call, in another database", |subject, _| {
        let other = Subject::new(subject.db.engine(), small_logs());
        other.update()?;
        other.db.check()?;
        other.db.close()
    }),
];

/// Describes the outcome of a call.
fn outcome(done: Result<(), Error>) -> String {
    match done {
        Ok(()) => "answers".into(),
        Err(Error::Nested { .. }) => "`Nested`".into(),
        Err(other) => format!("{other:?}"),
    }
}

/// Returns what an engine answers to `inner` within `outer`.
fn seen(engine: EngineKind, outer: usize, (name, inner): Inner) -> Option<String> {
    let subject = Subject::new(engine, small_logs().partitions(2));
    let ticket = subject.pending();
    if ticket.is_none() && name.contains("ticket") {
        // Durable with its commit: it need not be waited for.
        return None;
    }
    let ticket = ticket.unwrap_or_else(|| {
        let tx = subject.db.partition(0).begin().unwrap();
        tx.commit().unwrap()
    });
    let outcomes = RefCell::new(Vec::new());
    within(outer, &subject, &mut || {
        outcomes.borrow_mut().push(outcome(inner(&subject, ticket)));
    });
    // Whatever it was, the partition is free again.
    subject.update().unwrap();
    subject.db.check().unwrap();
    let mut outcomes = outcomes.into_inner();
    outcomes.dedup();
    assert!(outcomes.len() < 2, "{engine}, {}: {outcomes:?}", OUTER[outer]);
    outcomes.pop()
}

/// A cell of the table: what all engines with one transaction at a time answer, or first those
/// without snapshots.
fn cell(outer: usize, inner: Inner) -> String {
    let of = |snapshots: bool| {
        let engines = EngineKind::P1.into_iter();
        let engines = engines.filter(|engine| engine.traits().snapshots == snapshots);
        let mut all: Vec<_> = engines.filter_map(|engine| seen(engine, outer, inner)).collect();
        all.dedup();
        all.join(" or ")
    };
    match (of(false), of(true)) {
        (without, with) if without == with || with.is_empty() => without,
        (without, with) if without.is_empty() => with,
        (without, with) => format!("{without}; with snapshots: {with}"),
    }
}

fn table() -> String {
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut head = vec!["call".to_owned()];
    head.extend(OUTER.map(str::to_owned));
    let mut table = row(&head) + &row(&vec!["---".to_owned(); head.len()]);
    for inner in INNER {
        let mut cells = vec![inner.0.to_owned()];
        cells.extend((0..OUTER.len()).map(|outer| cell(outer, inner)));
        table += &row(&cells);
    }
    table
}

#[test]
fn each_call_within_another_one_answers_as_the_table_says() {
    let (told, heard) = mpsc::channel();
    let seen = thread::spawn(move || told.send(table()));
    // A call that waits for itself would never come back.
    let table = match heard.recv_timeout(Duration::from_secs(600)) {
        Ok(table) => table,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("a call waits for itself"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("{:?}", seen.join()),
    };
    let from = DOCUMENT.find(BEGIN).expect("the table's beginning") + BEGIN.len();
    let to = DOCUMENT.find(END).expect("the table's end");
    assert_eq!(&DOCUMENT[from..to], table, "docs/nested-calls.md has another table:\n{table}");
}

#[test]
fn a_transaction_that_is_leaked_keeps_its_partition_but_hangs_nobody() {
    let subject = Subject::new(EngineKind::NvmInp, small_logs());
    std::mem::forget(subject.db.begin().unwrap());
    assert!(matches!(subject.db.begin(), Err(Error::Nested { partition: 0 })));
    let closed = subject.db.close();
    assert!(matches!(closed, Err(Error::Nested { partition: 0 })), "{closed:?}");
}

#[test]
fn a_thread_that_waits_for_another_one_is_told_who_has_the_partition() {
    // One transaction at a time has a partition.
    for engine in EngineKind::P1 {
        let subject = Subject::new(engine, small_logs());
        let busy = || {
            thread::scope(|scope| {
                let tried = || subject.db.try_begin(Duration::from_millis(1)).map(drop);
                match scope.spawn(tried).join().unwrap() {
                    Err(Error::Busy { partition: 0, by }) => by,
                    other => panic!("{engine}: {other:?}"),
                }
            })
        };
        let tx = subject.db.begin().unwrap();
        assert_eq!(busy(), Holder::Writer);
        drop(tx);
        let exclusive = subject.db.partition(0).exclusive().unwrap();
        assert_eq!(busy(), Holder::Owner);
        drop(exclusive);
        assert!(subject.db.try_begin(Duration::ZERO).is_ok());
    }
}

/// Two threads that want each other's partition: none waits for ever.
#[test]
fn crossing_transactions_of_two_threads_end() {
    let options = small_logs().partitions(2).retry_for(Duration::from_millis(50));
    let subject = Subject::new(EngineKind::NvmInp, options);
    let both = std::sync::Barrier::new(2);
    let cross = |mine: usize| {
        let _mine = subject.db.partition(mine).begin().unwrap();
        both.wait();
        subject.db.partition(1 - mine).begin().map(drop)
    };
    let ends = thread::scope(|scope| {
        let other = scope.spawn(|| cross(1));
        [cross(0), other.join().unwrap()]
    });
    // The first that gives up lets the other one have it, if that one is still there.
    assert!(ends.iter().any(|end| matches!(end, Err(Error::Busy { .. }))), "{ends:?}");
    for end in ends {
        assert!(matches!(end, Ok(()) | Err(Error::Busy { by: Holder::Writer, .. })), "{end:?}");
    }
    // Nothing is left of it.
    subject.db.check().unwrap();
}
