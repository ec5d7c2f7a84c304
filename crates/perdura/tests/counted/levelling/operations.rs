//! The rows of the table: operations of the public API, each of which leaves as many tuples of the
//! same sizes as it found.

use std::time::Duration;

use perdura::{
    Commit, Concurrency, Database, EngineKind, Error, Options, Scan, Unfinished, Value,
    WriteOptions,
};

use super::medium::Medium;
use super::subject::{
    JOBS, MOST, ROWS, Subject, TAKEN, Transaction, USUAL, WAITING, job, key, with_row,
};

/// Rows that a large transaction inserts and deletes.
const MANY: u64 = 12;

/// An operation that is repeated.
pub(crate) struct Operation<M: Medium> {
    pub(crate) name: &'static str,
    /// Returns whether an engine has it.
    pub(crate) has: fn(EngineKind) -> bool,
    /// True if it needs a database in files of the host.
    pub(crate) on_host: bool,
    pub(crate) options: fn(Options) -> Options,
    /// Does it for the time with this number.
    pub(crate) act: fn(&mut Subject<M>, u64) -> Result<(), Error>,
}

/// An operation that each engine has, in a database with the usual options.
pub(crate) fn everywhere<M: Medium>(
    name: &'static str,
    act: fn(&mut Subject<M>, u64) -> Result<(), Error>,
) -> Operation<M> {
    Operation { name, has: |_| true, on_host: false, options: |options| options, act }
}

fn is_shared(kind: EngineKind) -> bool {
    kind.traits().concurrency == Concurrency::Shared
}

fn continues(kind: EngineKind) -> bool {
    kind.traits().unfinished == Unfinished::Continued
}

fn has_savepoints(kind: EngineKind) -> bool {
    matches!(kind, EngineKind::NvmInp | EngineKind::NvmLog)
        || EngineKind::P2.contains(&kind)
        || EngineKind::P3.contains(&kind)
}

/// All operations.
pub(crate) fn operations<M: Medium>() -> Vec<Operation<M>> {
    let some = |has, operation| Operation { has, ..operation };
    vec![
        everywhere("close and open", |subject, _| subject.reopen(Database::close)),
        everywhere("kill and open", |subject, number| {
            subject.touch(number)?;
            subject.reopen(|db| {
                db.abandon();
                Ok(())
            })
        }),
        Operation { on_host: true, ..everywhere("refused opening", refused_opening) },
        everywhere("empty transaction", |subject, _| {
            subject.db().write(|_| Ok(()))?;
            subject.db().read(|_| Ok(()))
        }),
        everywhere("update", |subject, number| subject.touch(number)),
        everywhere("updates of one transaction", |subject, number| {
            let payload = [number as u8; USUAL];
            subject.db().write(|tx| {
                let change = [("payload", Value::Bytes(&payload))];
                (0..MANY).try_for_each(|id| tx.update(&subject.rows, &key(id), &change))
            })
        }),
        Operation {
            has: EngineKind::groups_commits,
            options: |options| options.commit(Commit::grouped(4)),
            ..everywhere("grouped commit", |subject, number| {
                subject.touch(number)?;
                insert(subject, ROWS + number)?;
                delete(subject, ROWS + number)
            })
        },
        everywhere("abort", abort),
        everywhere("large abort", |subject, number| {
            let mut tx = subject.db().begin()?;
            many(subject, &mut tx, number)?;
            (0..ROWS).try_for_each(|id| tx.delete(&subject.rows, &key(id)))?;
            tx.abort()
        }),
        everywhere("conflict", conflict),
        everywhere("refused statements", refused_statements),
        everywhere("insert and delete, one key", |subject, _| {
            insert(subject, ROWS)?;
            delete(subject, ROWS)
        }),
        everywhere("insert and delete, ascending keys", |subject, number| {
            insert(subject, ROWS + number)?;
            delete(subject, ROWS + number)
        }),
        everywhere("insert and delete, scattered keys", |subject, number| {
            let id = ROWS + (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1);
            insert(subject, id)?;
            delete(subject, id)
        }),
        everywhere("insert and delete in one transaction", |subject, number| {
            let id = ROWS + number;
            subject.db().write(|tx| {
                with_row(id, USUAL, |values| tx.insert(&subject.rows, values))?;
                tx.delete(&subject.rows, &key(id))
            })
        }),
        everywhere("large transactions", |subject, number| {
            subject.db().write(|tx| many(subject, tx, number))?;
            subject.db().write(|tx| {
                let first = ROWS + number * MANY;
                (first..first + MANY).try_for_each(|id| tx.delete(&subject.rows, &key(id)))
            })
        }),
        everywhere("update that grows", |subject, number| {
            subject.db().write(|tx| resize(subject, tx, number, MOST))?;
            subject.db().write(|tx| resize(subject, tx, number, USUAL))
        }),
        everywhere("update that grows and shrinks", |subject, number| {
            subject.db().write(|tx| {
                resize(subject, tx, number, MOST)?;
                resize(subject, tx, number, USUAL)
            })
        }),
        everywhere("update of an index", |subject, number| {
            let name = format!("name {:08}", ROWS + number);
            let change = [("name", Value::Text(&name))];
            subject.db().update(&subject.rows, &key(number % ROWS), &change)
        }),
        some(has_savepoints, everywhere("savepoint", savepoint)),
        some(|kind| kind.traits().snapshots, everywhere("snapshot", snapshot)),
        some(is_shared, everywhere("reader of an older state", older_reader)),
        some(continues, everywhere("named transaction", named)),
        Operation {
            has: continues,
            options: |options| options.resume_within(Duration::from_secs(3600)),
            ..everywhere("resume", resume)
        },
        everywhere("queue", |subject, number| queue(subject, number, false)),
        everywhere("queue, skip locked", |subject, number| queue(subject, number, true)),
        everywhere("claim that is given back", |subject, _| {
            let tx = subject.db().begin()?;
            claim(subject, &tx, true)?;
            tx.abort()
        }),
        everywhere("modify, upsert, insert if absent", modify),
        everywhere("exclusive partition", |subject, number| {
            let mut own = subject.db().partition(0).exclusive()?;
            own.update(&subject.rows, &key(number % ROWS), &[("count", Value::U64(number))])?;
            own.write(|tx| with_row(ROWS, USUAL, |values| tx.insert(&subject.rows, values)))?;
            own.write(|tx| tx.delete(&subject.rows, &key(ROWS)))
        }),
        everywhere("iterator that is dropped", |subject, number| {
            subject.db().read(|tx| {
                let mut rows = tx.rows(&subject.rows, Scan::all().by("by_name"));
                rows.nth((number % ROWS) as usize).transpose().map(drop)
            })
        }),
        everywhere("upkeep", |subject, number| {
            subject.touch(number)?;
            let db = subject.db();
            db.sync()?;
            db.checkpoint()?;
            db.background(1 << 10)?;
            db.structures().map(drop)
        }),
        everywhere("check and dump", |subject, _| {
            subject.objects()?;
            subject.db().dump_to(&mut std::io::sink(), "nowhere", &[], &mut |_| ()).map(drop)
        }),
        everywhere("backup", backup),
    ]
}

fn insert<M: Medium>(subject: &Subject<M>, id: u64) -> Result<(), Error> {
    let tuple = |tx: &mut Transaction<'_, M>| {
        with_row(id, USUAL, |values| tx.insert(&subject.rows, values))
    };
    subject.db().write(tuple)
}

fn delete<M: Medium>(subject: &Subject<M>, id: u64) -> Result<(), Error> {
    subject.db().write(|tx| tx.delete(&subject.rows, &key(id)))
}

/// Inserts many rows with keys of their own.
fn many<M: Medium>(
    subject: &Subject<M>,
    tx: &mut Transaction<'_, M>,
    number: u64,
) -> Result<(), Error> {
    let first = ROWS + number * MANY;
    (first..first + MANY)
        .try_for_each(|id| with_row(id, USUAL, |values| tx.insert(&subject.rows, values)))
}

fn resize<M: Medium>(
    subject: &Subject<M>,
    tx: &mut Transaction<'_, M>,
    number: u64,
    bytes: usize,
) -> Result<(), Error> {
    let payload = vec![number as u8; bytes];
    tx.update(&subject.rows, &key(number % ROWS), &[("payload", Value::Bytes(&payload))])
}

fn refused_opening<M: Medium>(subject: &mut Subject<M>, _: u64) -> Result<(), Error> {
    let taken = subject.open_again();
    assert!(taken.is_err(), "it is open");
    let exists = subject.create_again();
    assert!(exists.is_err(), "it exists");
    Ok(())
}

/// Ends a transaction with changes of each kind in each of the ways in which it can be undone.
fn abort<M: Medium>(subject: &mut Subject<M>, number: u64) -> Result<(), Error> {
    let change = |tx: &mut Transaction<'_, M>| {
        with_row(ROWS + number, USUAL, |values| tx.insert(&subject.rows, values))?;
        resize(subject, tx, number, MOST)?;
        tx.delete(&subject.rows, &key((number + 1) % ROWS))
    };
    if number.is_multiple_of(3) {
        let undone = subject.db().write(|tx| {
            change(tx)?;
            Err::<(), _>(Error::user("no"))
        });
        assert!(matches!(undone, Err(Error::User(_))), "{undone:?}");
        return Ok(());
    }
    let mut tx = subject.db().begin()?;
    change(&mut tx)?;
    if number % 3 == 1 {
        return tx.abort();
    }
    drop(tx);
    Ok(())
}

/// A transaction that meets another one that is open, and is refused.
fn conflict<M: Medium>(subject: &mut Subject<M>, number: u64) -> Result<(), Error> {
    let how = WriteOptions::new().wait(Duration::ZERO).retry_for(Duration::ZERO);
    let db = subject.db();
    let mut tx = db.begin()?;
    tx.update(&subject.rows, &key(number % ROWS), &[("count", Value::U64(number))])?;
    let refused = db.write_with(how, |tx| -> Result<(), Error> {
        with_row(ROWS + number, USUAL, |values| tx.insert(&subject.rows, values))?;
        tx.update(&subject.rows, &key(number % ROWS), &[("count", Value::U64(0))])
    });
    match refused {
        Err(Error::Conflict { .. }) if is_shared(subject.kind) => {}
        Err(Error::Nested { .. }) if !is_shared(subject.kind) => {}
        other => panic!("{other:?}"),
    }
    tx.commit().map(drop)
}

/// Statements that fail, in a transaction that goes on.
fn refused_statements<M: Medium>(subject: &mut Subject<M>, number: u64) -> Result<(), Error> {
    let rows = &subject.rows;
    subject.db().write(|tx| {
        let twice = with_row(number % ROWS, USUAL, |values| tx.insert(rows, values));
        assert!(matches!(twice, Err(Error::DuplicateKey { .. })), "{twice:?}");
        let missing = tx.update(rows, &key(ROWS), &[("count", Value::U64(0))]);
        assert!(matches!(missing, Err(Error::MissingKey { .. })), "{missing:?}");
        let missing = tx.delete(rows, &key(ROWS + number));
        assert!(matches!(missing, Err(Error::MissingKey { .. })), "{missing:?}");
        let long = with_row(ROWS, MOST + 1, |values| tx.insert(rows, values));
        assert!(matches!(long, Err(Error::Invalid(_))), "{long:?}");
        tx.update(rows, &key(number % ROWS), &[("count", Value::U64(number))])
    })
}

/// Rolls back to savepoints within others, and leaves some as they are.
fn savepoint<M: Medium>(subject: &mut Subject<M>, number: u64) -> Result<(), Error> {
    subject.db().write(|tx| {
        tx.update(&subject.rows, &key(number % ROWS), &[("count", Value::U64(number))])?;
        let outer = tx.savepoint()?;
        with_row(ROWS + number, USUAL, |values| tx.insert(&subject.rows, values))?;
        let inner = tx.savepoint()?;
        resize(subject, tx, number, MOST)?;
        tx.delete(&subject.rows, &key((number + 1) % ROWS))?;
        tx.rollback_to(inner)?;
        resize(subject, tx, number + 2, MOST)?;
        tx.rollback_to(outer)?;
        tx.savepoint()?;
        tx.update(&subject.rows, &key(number % ROWS), &[("count", Value::U64(number + 1))])
    })
}

fn snapshot<M: Medium>(subject: &mut Subject<M>, number: u64) -> Result<(), Error> {
    let snapshot = subject.db().snapshot()?;
    let count =
        || Ok::<_, Error>(snapshot.get(&subject.rows, &key(number % ROWS))?.map(|row| row.u64(3)));
    let before = count()?;
    subject.touch(number)?;
    insert(subject, ROWS + number)?;
    delete(subject, ROWS + number)?;
    assert_eq!(count()?, before);
    Ok(())
}

/// A transaction that has read, also where nothing is, stays open while others change rows, and
/// delete the one after that gap.
fn older_reader<M: Medium>(subject: &mut Subject<M>, number: u64) -> Result<(), Error> {
    let (gap, id) = (ROWS + 2 * number, ROWS + 2 * number + 1);
    insert(subject, id)?;
    let reader = subject.db().begin()?;
    assert!(reader.get(&subject.rows, &key(number % ROWS))?.is_some());
    assert!(reader.get(&subject.rows, &key(gap))?.is_none());
    subject.touch(number + 1)?;
    delete(subject, id)?;
    reader.commit().map(drop)
}

fn named<M: Medium>(subject: &mut Subject<M>, number: u64) -> Result<(), Error> {
    subject.db().write_named(format!("name {number}").as_bytes(), |tx| {
        tx.update(&subject.rows, &key(number % ROWS), &[("count", Value::U64(number))])
    })
}

/// A transaction is detached and continued, and committed or undone.
fn resume<M: Medium>(subject: &mut Subject<M>, number: u64) -> Result<(), Error> {
    let mut tx = subject.db().begin_named(b"request")?;
    tx.update(&subject.rows, &key(number % ROWS), &[("count", Value::U64(number))])?;
    let id = tx.detach()?;
    let mut tx = subject.db().resume(id)?;
    resize(subject, &mut tx, number + 1, USUAL)?;
    if number.is_multiple_of(2) { tx.abort() } else { tx.commit().map(drop) }
}

/// Takes the first job that waits, by its state or by its number.
fn claim<M: Medium>(
    subject: &Subject<M>,
    tx: &Transaction<'_, M>,
    skips: bool,
) -> Result<u64, Error> {
    let waiting = Scan::prefix([Value::from(WAITING)]).by("by_state").for_update().limit(1);
    let waiting = if skips { waiting.skip_locked() } else { waiting };
    let first = tx.rows(&subject.jobs, waiting).next().transpose()?;
    Ok(first.expect("jobs wait").u64(0))
}

/// A job comes in, the first one is taken, and goes when it is done.
fn queue<M: Medium>(subject: &mut Subject<M>, number: u64, skips: bool) -> Result<(), Error> {
    let db = subject.db();
    db.write(|tx| tx.insert(&subject.jobs, &job(JOBS + number)))?;
    let taken = db.write(|tx| {
        let taken = claim(subject, tx, skips)?;
        tx.update(&subject.jobs, &key(taken), &[("state", TAKEN.into())])?;
        Ok(taken)
    })?;
    db.write(|tx| tx.delete(&subject.jobs, &key(taken)))
}

fn modify<M: Medium>(subject: &mut Subject<M>, number: u64) -> Result<(), Error> {
    subject.db().write(|tx| {
        let (rows, id) = (&subject.rows, number % ROWS);
        tx.get_for_update(rows, &key(id))?;
        tx.modify(rows, &key(id), |row| vec![("count", Value::U64(row.u64(3) + 1))])?;
        with_row(id, USUAL, |values| tx.upsert(rows, values))?;
        with_row(id, USUAL, |values| tx.insert_if_absent(rows, values))?;
        with_row(ROWS + number, USUAL, |values| tx.upsert(rows, values))?;
        tx.delete(rows, &key(ROWS + number))
    })
}

fn backup<M: Medium>(subject: &mut Subject<M>, _: u64) -> Result<(), Error> {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = directory.map_err(Error::user)?;
    subject.db().backup(directory.path().join("backup")).map(drop)
}
