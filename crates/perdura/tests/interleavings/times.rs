//! The times of transactions that wait to be continued.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use engines::TxId;
use shuttle::thread;

use crate::interleave;
use crate::sync::{AtomicBool, Mutex};
use crate::waits::{IfTaken, Waits};

/// Leaves a transaction to wait from this time on.
fn leave(waits: &Waits, id: u64, at: Instant) {
    waits.leave(|| at, || Ok::<_, ()>(TxId(id))).unwrap();
}

/// The transactions that are ended at this time.
fn ended(waits: &Waits, at: Instant) -> Vec<TxId> {
    let overdue = waits.overdue(IfTaken::Leave, || at);
    let mut ended = Vec::new();
    for id in overdue {
        waits.end_overdue(id, IfTaken::Leave, || at, || ended.push(id));
    }
    ended
}

fn times() {
    let (start, second) = (Instant::now(), Duration::from_secs(1));
    let waits = Waits::new(Some(10 * second));
    let at = |seconds: u32| start + seconds * second;
    assert!(ended(&waits, at(99)).is_empty(), "none waits");
    for (id, seconds) in [(1, 0), (2, 5), (3, 6)] {
        leave(&waits, id, at(seconds));
    }
    assert!(ended(&waits, at(9)).is_empty());
    waits.resume(TxId(2), || Ok::<_, ()>(())).unwrap();
    assert_eq!(ended(&waits, at(10)), [TxId(1)]);
    assert!(ended(&waits, at(15)).is_empty(), "one goes on, and one has a second left");
    leave(&waits, 2, at(15));
    assert_eq!(ended(&waits, at(25)), [TxId(2), TxId(3)]);
    assert!(ended(&waits, at(99)).is_empty());
}

fn no_limit() {
    let (waits, now) = (Waits::new(None), Instant::now());
    leave(&waits, 1, now);
    assert!(ended(&waits, now + Duration::from_secs(1 << 30)).is_empty());
}

#[test]
fn the_time_of_each_counts_from_its_own_moment() {
    interleave(1, times);
}

#[test]
fn without_a_limit_they_wait_for_ever() {
    interleave(1, no_limit);
}

thread_local! {
    /// The seconds that have passed, as the schedule has it.
    static SECONDS: Cell<u32> = const { Cell::new(0) };
}

/// The place of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    /// It waits since then.
    Waits(u32),
    /// A session goes on with it.
    Session,
    Ending,
    Over,
}

/// Two threads go on with a transaction that waits, and leave it again, about when its time is over.
/// Two others look for transactions whose time is over.
fn one_goes_on_as_its_time_is_over() {
    const ID: TxId = TxId(1);
    let start = Instant::now();
    let now = move || start + Duration::from_secs(SECONDS.get().into());
    SECONDS.set(0);
    let waits = Arc::new(Waits::new(Some(Duration::from_secs(10))));
    let at = Arc::new(Mutex::new(At::Waits(0)));
    waits.leave(now, || Ok::<_, ()>(ID)).unwrap();
    let goes_on = || {
        let (waits, at) = (waits.clone(), at.clone());
        thread::spawn(move || {
            let taken = waits.resume(ID, || {
                let mut at = at.lock().unwrap();
                if matches!(*at, At::Waits(_)) {
                    *at = At::Session;
                    return Ok(());
                }
                Err(())
            });
            if taken.is_ok() {
                thread::yield_now();
                let left = waits.leave(now, || {
                    *at.lock().unwrap() = At::Waits(SECONDS.get());
                    Ok::<_, ()>(ID)
                });
                left.unwrap();
            }
        })
    };
    let end = |at: &Mutex<At>| {
        let before = std::mem::replace(&mut *at.lock().unwrap(), At::Ending);
        let At::Waits(left) = before else { panic!("{before:?}") };
        assert!(SECONDS.get() - left >= 10, "it was left at {left}");
        thread::yield_now();
        *at.lock().unwrap() = At::Over;
    };
    let looks = |if_taken| {
        let (waits, at) = (waits.clone(), at.clone());
        thread::spawn(move || {
            for id in waits.overdue(if_taken, now) {
                thread::yield_now();
                waits.end_overdue(id, if_taken, now, || end(&at));
            }
            let found = waits.look(|| *at.lock().unwrap());
            assert_ne!(found, At::Ending, "it is neither there nor over");
            waits.note_all(|| match *at.lock().unwrap() {
                At::Waits(_) => vec![ID],
                _ => Vec::new(),
            });
        })
    };
    let others = [goes_on(), looks(IfTaken::Wait), goes_on(), looks(IfTaken::Leave)];
    for seconds in [9, 10] {
        thread::yield_now();
        SECONDS.set(seconds);
    }
    others.into_iter().for_each(|other| other.join().unwrap());
    // Sooner or later it is ended, if that has not happened yet.
    SECONDS.set(99);
    for id in waits.overdue(IfTaken::Leave, now) {
        waits.end_overdue(id, IfTaken::Leave, now, || end(&at));
    }
    assert_eq!(*at.lock().unwrap(), At::Over);
}

/// A look that does not wait comes to an end while another thread has the latch for ever.
fn one_has_the_latch_for_ever() {
    let (start, over) = (Instant::now(), Instant::now() + Duration::from_secs(1 << 20));
    let waits = Arc::new(Waits::new(Some(Duration::from_secs(10))));
    leave(&waits, 1, start);
    let may_end = Arc::new(AtomicBool::new(false));
    let taker = {
        let (waits, may_end) = (waits.clone(), may_end.clone());
        thread::spawn(move || {
            waits.look(|| {
                while !may_end.load(SeqCst) {
                    thread::yield_now();
                }
            });
        })
    };
    let before = ended(&waits, over);
    may_end.store(true, SeqCst);
    taker.join().unwrap();
    let after = ended(&waits, over);
    assert_eq!([before, after].concat(), [TxId(1)], "it is ended once");
}

#[test]
fn a_look_that_does_not_wait_does_not_hang() {
    interleave(500, one_has_the_latch_for_ever);
}

#[test]
fn earlier_waits_of_a_transaction_do_not_count() {
    let schedules = interleave(2_000, one_goes_on_as_its_time_is_over);
    println!("{schedules} schedules");
}
