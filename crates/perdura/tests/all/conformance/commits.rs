//! Commits, durable and grouped, with their tickets; syncs, checkpoints and work in the background
//! at any time; closing, being killed, opening; what a database says of itself.

use crate::support::small_logs;
use perdura::{Commit, Database, DurableIn, Error, Schema, Table, Value};

use super::operations::{insert, schema, tuple};
use super::{Store, Tuple, each, each_known, holds, small};

pub(super) fn put(db: &Database, table: &Table, id: u64) -> perdura::Ticket {
    let mut tx = db.begin().unwrap();
    insert(&mut tx, table, &tuple(id, id)).unwrap();
    tx.commit().unwrap()
}

fn tuples(many: u64) -> Vec<Tuple> {
    (0..many).map(|id| tuple(id, id)).collect()
}

/// Returns how many of the transactions that inserted 0, 1, 2, ... a database has; they are the
/// first ones.
pub(super) fn prefix(db: &Database) -> u64 {
    let table = db.table("t").unwrap();
    let found = super::scan(db, &table, &perdura::Scan::all());
    assert_eq!(found, tuples(found.len() as u64), "whole, in order, none left out");
    holds(db, &[(&table, found.clone())]);
    found.len() as u64
}

#[test]
fn durable_commits_are_there_after_a_kill() {
    each(|engine| {
        let mut store = Store::new(&schema(), small(engine));
        let mut last = None;
        for id in 0..40 {
            let table = store.db().table("t").unwrap();
            let ticket = put(store.db(), &table, id);
            assert!(ticket.is_durable());
            if let Some(last) = last {
                if engine.is_serial() {
                    assert_eq!(ticket.number(), last + 1, "transactions are numbered one by one");
                }
                assert!(ticket.number() > last, "numbers rise");
            }
            last = Some(ticket.number());
            store.db().wait(ticket).unwrap();
            if id % 8 == 7 {
                store.crash();
                assert_eq!(prefix(store.db()), id + 1);
                last = None;
            }
        }
    });
}

#[test]
fn grouped_commits_are_durable_when_their_ticket_or_a_sync_says_so() {
    each(|engine| {
        for group in [3, 17, 10_000] {
            let mut store = Store::new(&schema(), small(engine).commit(Commit::grouped(group)));
            let mut next = 0;
            for round in 0..12 {
                let table = store.db().table("t").unwrap();
                let mut durable = next;
                let mut tickets = Vec::new();
                for _ in 0..1 + round * 3 % 11 {
                    let ticket = put(store.db(), &table, next);
                    next += 1;
                    if ticket.is_durable() {
                        durable = next;
                    }
                    tickets.push((next, ticket));
                }
                match round % 4 {
                    0 => {
                        store.db().sync().unwrap();
                        durable = next;
                    }
                    1 => {
                        // One in the middle: those before it are durable with it.
                        let (number, ticket) = tickets[tickets.len() / 2];
                        store.db().wait(ticket).unwrap();
                        durable = durable.max(number);
                        tickets.iter().take(3).for_each(|(number, ticket)| {
                            store.db().wait(*ticket).unwrap();
                            durable = durable.max(*number);
                        });
                    }
                    2 => {
                        store.reopen();
                        assert_eq!(prefix(store.db()), next, "closing makes all of it durable");
                        durable = next;
                    }
                    _ => {}
                }
                store.crash();
                let found = prefix(store.db());
                assert!((durable..=next).contains(&found), "{durable}..={next}, found {found}");
                next = found;
            }
        }
    });
}

/// Durable transactions are the first ones, also where a later one has changed nothing.
#[test]
fn a_commit_without_changes_is_durable_after_those_before_it() {
    each(|engine| {
        // Nothing is durable before it is waited for.
        let setup = small(engine).commit(Commit::grouped(1000));
        let mut store = Store::new(&schema(), setup.map(|options| options.tune("persister", 0)));
        for round in 0..3 {
            let db = store.db();
            let table = db.table("t").unwrap();
            let before = put(db, &table, round);
            let mut tx = db.begin().unwrap();
            match round {
                1 => assert!(tx.get(&table, &[Value::U64(100)]).unwrap().is_none()),
                2 => assert!(tx.delete(&table, &[Value::U64(100)]).is_err()),
                _ => {}
            }
            let ticket = tx.commit().unwrap();
            assert!(ticket.number() >= before.number());
            assert!(db.durable(before).unwrap() || !ticket.is_durable(), "{engine}: {ticket:?}");
            assert!(db.durable(before).unwrap() || !db.durable(ticket).unwrap(), "{engine}");
            db.wait(ticket).unwrap();
            assert!(db.durable(before).unwrap(), "{engine}: {ticket:?}");
            store.crash();
            assert_eq!(prefix(store.db()), round + 1);
        }
    });
}

/// An abort in a group takes back its own transaction alone, and a group is never seen in part.
#[test]
fn aborts_within_a_group() {
    each(|engine| {
        let mut store = Store::new(&schema(), small(engine).commit(Commit::grouped(50)));
        let table = store.db().table("t").unwrap();
        for id in 0..120u64 {
            let mut tx = store.db().begin().unwrap();
            for other in 0..id {
                if other % 7 == id % 7 {
                    tx.update(&table, &[Value::U64(other)], &[(2, Value::I64(99))]).unwrap();
                }
            }
            insert(&mut tx, &table, &tuple(1000 + id, id)).unwrap();
            tx.abort().unwrap();
            let _ticket = put(store.db(), &table, id);
        }
        assert_eq!(prefix(store.db()), 120);
        store.db().sync().unwrap();
        store.crash();
        assert_eq!(prefix(store.db()), 120);
    });
}

/// Work that is put off changes nothing that can be seen, whenever it is done, and comes to an end.
#[test]
fn checkpoints_syncs_and_background_work_change_nothing() {
    each(|engine| {
        let mut store = Store::new(&schema(), small(engine));
        let look = |db: &Database| {
            let table = db.table("t").unwrap();
            let mut expected = tuples(300);
            expected.retain(|tuple| tuple[0] != super::Own::U64(299));
            holds(db, &[(&table, expected)]);
        };
        store.db().checkpoint().unwrap();
        store.db().sync().unwrap();
        store.db().background(1 << 20).unwrap();
        for id in 0..300 {
            let db = store.db();
            let table = db.table("t").unwrap();
            let _ticket = put(db, &table, id);
            match id % 30 {
                3 => db.checkpoint().unwrap(),
                9 => db.sync().unwrap(),
                15 => drop(db.background(1).unwrap()),
                21 => drop(db.background(u64::MAX).unwrap()),
                27 => drop(db.background(2000).unwrap()),
                _ => {}
            }
            if id % 30 == 28 {
                assert_eq!(prefix(db), id + 1);
            }
        }
        let table = store.db().table("t").unwrap();
        store.db().write(|tx| tx.delete(&table, &[Value::U64(299)])).unwrap();
        let mut steps = 0;
        while store.db().background(512).unwrap() > 0 {
            steps += 1;
            assert!(steps < 100_000, "work in the background comes to an end");
            if steps % 50 == 0 {
                look(store.db());
            }
        }
        look(store.db());
        store.db().checkpoint().unwrap();
        store.thrice(look);
    });
}

#[test]
fn an_empty_database_and_one_that_became_empty() {
    each(|engine| {
        let mut store = Store::new(&schema(), small(engine));
        for _ in 0..2 {
            store.thrice(|db| assert_eq!(prefix(db), 0));
            let table = store.db().table("t").unwrap();
            for id in 0..100 {
                let _ticket = put(store.db(), &table, id);
            }
            store.reopen();
            let table = store.db().table("t").unwrap();
            for id in 0..100 {
                store.db().write(|tx| tx.delete(&table, &[Value::U64(id)])).unwrap();
            }
        }
        store.thrice(|db| assert_eq!(prefix(db), 0));
    });
}

#[test]
fn what_a_database_says_of_itself() {
    each_known(|engine| {
        let mut store = Store::new(&schema(), small(engine));
        let db = store.db();
        assert_eq!((db.engine(), db.schema(), db.partition_count()), (engine, &schema(), 1));
        assert!(db.opening_times().is_none(), "this handle has created it");
        let table = db.table("t").unwrap();
        assert_eq!((table.name(), table.column("note"), table.column("x")), ("t", Some(4), None));
        let empty = (db.footprint().unwrap().total(), db.stored_bytes().unwrap());
        db.count(true);
        for id in 0..200 {
            let _ticket = put(db, &table, id);
        }
        db.count(false);
        let full = (db.footprint().unwrap().total(), db.stored_bytes().unwrap());
        assert!(full.0 > empty.0 && full.1 > empty.1, "{empty:?} {full:?}");
        let counters = db.counters();
        // Pages of an engine with its log in the pool are written when a checkpoint is due.
        let writes = engine.traits().durable_in == DurableIn::Files;
        assert_eq!(counters.file_bytes > 0, writes, "{counters:?}");
        assert_eq!((counters.flushed_lines, counters.fences), (0, 0), "domain `process`");
        store.reopen();
        assert!(store.db().opening_times().is_some());
        assert_eq!(store.db().engine(), engine);
        store.db.take().unwrap().close().unwrap();
        let inspection = perdura::inspect(&store.path).unwrap();
        assert_eq!((inspection.engine.as_str(), inspection.partitions), (engine.name(), 1));
        assert_eq!(inspection.schema, schema());
        assert!(inspection.pool.header.clean);
        store.db = Some(Database::open(&store.path, &small_logs()).unwrap());
        assert_eq!(prefix(store.db()), 200, "opened without any options");
    });
}

#[test]
fn opening_or_creating() {
    each_known(|engine| {
        let directory = crate::support::in_memory();
        let path = directory.path().join("db");
        let error = Database::open(&path, &small(engine)).unwrap_err();
        assert!(error.to_string().contains("db"), "{error}");
        for round in 0..3 {
            let db = Database::open_or_create(&path, &schema(), &small(engine)).unwrap();
            assert_eq!(prefix(&db), round);
            let table = db.table("t").unwrap();
            let _ticket = put(&db, &table, round);
            // Dropped, it is closed.
        }
        let other = Schema::new().table(schema().tables()[0].clone().index("more", &["score"]));
        let error = Database::open_or_create(&path, &other, &small(engine)).unwrap_err();
        assert!(matches!(error, Error::WrongSchema { .. }), "{error}");
        assert!(error.to_string().contains("table `t` has no index `more`"), "{error}");
        for other in perdura::EngineKind::ALL {
            if other != engine {
                let error = Database::open(&path, &small(other)).unwrap_err();
                assert!(matches!(error, Error::WrongEngine { .. }), "{error}");
                assert!(error.to_string().contains(engine.name()), "{error}");
            }
        }
        assert!(Database::create(&path, &schema(), &small(engine)).is_err(), "there is one");
        assert_eq!(prefix(&Database::open(&path, &small(engine)).unwrap()), 3);
    });
}

/// An owner of a partition can leak a transaction in it, which is then never ended.
#[test]
fn a_transaction_that_was_leaked_is_undone_and_keeps_nothing_from_being_durable() {
    each(|engine| {
        let mut store = Store::new(&schema(), small(engine).commit(Commit::grouped(1000)));
        let db = store.db();
        let table = db.table("t").unwrap();
        let mut owned = db.partition(0).exclusive().unwrap();
        let leak = |owned: &mut perdura::Exclusive<'_>, id| {
            let mut tx = owned.begin();
            insert(&mut tx, &table, &tuple(id, id)).unwrap();
            std::mem::forget(tx);
        };
        let put = |owned: &mut perdura::Exclusive<'_>, id| {
            let mut tx = owned.begin();
            insert(&mut tx, &table, &tuple(id, id)).unwrap();
            tx.commit().unwrap()
        };
        // The next one is another transaction, also one that changes nothing.
        leak(&mut owned, 100);
        let _ = put(&mut owned, 0);
        leak(&mut owned, 101);
        let _ = owned.begin().commit().unwrap();
        // Earlier commits are made durable.
        let ticket = put(&mut owned, 1);
        leak(&mut owned, 102);
        owned.sync().unwrap();
        // And the next user of the partition finds none open.
        leak(&mut owned, 103);
        drop(owned);
        db.wait(ticket).unwrap();
        assert_eq!(prefix(db), 2);
        db.sync().unwrap();
        store.crash();
        assert_eq!(prefix(store.db()), 2);
        // Closing and being killed find none open, either.
        let table = store.db().table("t").unwrap();
        let mut owned = store.db().partition(0).exclusive().unwrap();
        let mut tx = owned.begin();
        insert(&mut tx, &table, &tuple(104, 104)).unwrap();
        std::mem::forget(tx);
        drop(owned);
        store.thrice(|db| assert_eq!(prefix(db), 2));
    });
}

/// A group that was committed is written.
#[test]
fn a_sync_beside_a_leaked_transaction_is_a_sync() {
    each(|engine| {
        let store = Store::new(&schema(), small(engine).commit(Commit::grouped(1000)));
        let db = store.db();
        let table = db.table("t").unwrap();
        let mut owned = db.partition(0).exclusive().unwrap();
        let mut tx = owned.begin();
        insert(&mut tx, &table, &tuple(0, 0)).unwrap();
        let durable = tx.commit().unwrap().is_durable();
        let mut tx = owned.begin();
        insert(&mut tx, &table, &tuple(1, 1)).unwrap();
        std::mem::forget(tx);
        db.count(true);
        owned.sync().unwrap();
        let counted = db.counters();
        db.count(false);
        // In `process` a file is written, and a pool has stores in order.
        let synced = counted.file_bytes > 0 || !engine.commits_in_files();
        assert!(durable || synced, "{engine}: {counted:?}");
        drop(owned);
        assert_eq!(prefix(db), 1);
    });
}

/// No caller asks for it, and no other commit comes. Waits for as long as it takes.
#[test]
fn a_group_with_a_time_limit_ends_by_itself() {
    each(|engine| {
        let within = Some(std::time::Duration::from_millis(1));
        let commit = Commit::Grouped { transactions: 1000, within };
        let mut store = Store::new(&schema(), small(engine).commit(commit));
        for id in 0..5 {
            let table = store.db().table("t").unwrap();
            let ticket = put(store.db(), &table, id);
            while !store.db().durable(ticket).unwrap() {
                std::thread::yield_now();
            }
        }
        store.crash();
        assert_eq!(prefix(store.db()), 5);
    });
}

/// An owner of the partition lets the thread in between two transactions.
#[test]
fn a_group_of_an_owner_ends_in_time_too() {
    each(|engine| {
        let within = Some(std::time::Duration::from_millis(1));
        let commit = Commit::Grouped { transactions: u32::MAX, within };
        let store = Store::new(&schema(), small(engine).commit(commit));
        let table = store.db().table("t").unwrap();
        let mut owner = store.db().partition(0).exclusive().unwrap();
        let mut first = None;
        for id in 0.. {
            let mut tx = owner.begin();
            insert(&mut tx, &table, &tuple(id, id)).unwrap();
            let ticket = tx.commit().unwrap();
            first.get_or_insert(ticket);
            if ticket.is_durable() || id % 50 == 49 {
                drop(owner);
                if store.db().durable(first.unwrap()).unwrap() {
                    break;
                }
                owner = store.db().partition(0).exclusive().unwrap();
            }
        }
    });
}
