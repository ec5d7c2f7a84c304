//! The time for which an operation waits for locks, and the names that are free when they are
//! watched.

use std::sync::Arc;
use std::time::Duration;

use paged::ids::{Lsn, TreeNo};
use paged::lock::{LockOptions, LockTable, Mode, Name};
use paged::threads::{Baton, Host, Threads, Waiter};
use paged::{Conflict, PagedError};

const STEP: Duration = Duration::from_millis(400);

fn row(key: u64) -> Name {
    Name::row(TreeNo(1), &key.to_be_bytes())
}

/// One has three rows, and lets one go every 400 ms. The other one wants them all, of which each
/// alone would be there in time.
fn waits(begins_operations: bool) -> [bool; 3] {
    let baton = Arc::new(Baton::new(7));
    let options = LockOptions { timeout: Duration::from_secs(1), ..LockOptions::default() };
    let locks = LockTable::new(Arc::clone(&baton), options);
    let granted = parking_lot::Mutex::new([false; 3]);
    baton.run(2, |thread| {
        let mut session = locks.session();
        session.begin(thread as u64);
        if thread == 0 {
            (0..3).for_each(|key| session.lock(row(key), Mode::Shared).expect("it is free"));
            for key in 0..3 {
                baton.park(&Waiter::default(), Some(baton.now() + STEP));
                session.unlock(row(key));
            }
            return;
        }
        baton.park(&Waiter::default(), Some(baton.now() + STEP / 4));
        for key in 0..3 {
            if begins_operations {
                session.begin_operation();
            }
            match session.lock(row(key), Mode::Exclusive) {
                Ok(()) => granted.lock()[key as usize] = true,
                Err(PagedError::Conflict(Conflict::Timeout)) => break,
                Err(error) => panic!("{error}"),
            }
        }
        session.release(Lsn::NONE);
    });
    granted.into_inner()
}

#[test]
fn an_operation_waits_for_all_its_locks_together() {
    assert_eq!(waits(false), [true, true, false], "a second is over before the third");
    assert_eq!(waits(true), [true, true, true], "each has a second");
}

#[test]
fn a_watched_name_is_free_when_its_last_lock_goes() {
    let locks = LockTable::new(Arc::<Host>::default(), LockOptions::default());
    let (mut one, mut other) = (locks.session(), locks.session());
    one.begin(1);
    other.begin(2);
    assert!(!locks.watch(row(1)), "nobody has it");
    one.lock(row(1), Mode::Shared).unwrap();
    other.lock(row(1), Mode::Shared).unwrap();
    one.lock(row(2), Mode::Shared).unwrap();
    assert!(locks.watch(row(1)) && locks.watch(row(1)));
    one.release(Lsn::NONE);
    assert!(locks.take_freed(9).is_empty(), "another one has it; nobody has asked for the second");
    other.release(Lsn::NONE);
    assert_eq!(locks.take_freed(9), [row(1)], "once");
    assert!(locks.take_freed(9).is_empty());
    one.begin(3);
    one.lock(row(1), Mode::Exclusive).unwrap();
    one.release(Lsn::NONE);
    assert!(locks.take_freed(9).is_empty(), "it was watched until it was free");
    locks.put_back([row(5), row(6), row(7)]);
    assert_eq!(locks.take_freed(2), [row(5), row(6)]);
    assert_eq!(locks.take_freed(2), [row(7)]);
}
