//! The users of an engine: each a thread that enters TATP's transactions, one after the other.
//!
//! Every sixteenth transaction of a user is a receipt: it adds one to a row of the user's own. The
//! receipts that were acknowledged are the record by which a loss is found.
//!
//! **Emulated latency**: after a transaction its user waits for the fences and syncs that no user
//! has waited for yet, so many nanoseconds for each. So every fence costs one user the latency
//! once, outside of the engine's locks; reads take no longer.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use command::failure::Failure;
use perdura::Value;
use workloads::Outcome;
use workloads::tatp::{Terminal, Workload};

use super::state::{DemoState, idle, say, spec};
use super::task::{Counter, Event};

/// Transactions of which one is a receipt.
const RECEIPT_EVERY: u64 = 16;
/// Transactions that are generated; a user enters them again and again.
const INPUTS: u64 = 16_384;
/// The longest wait for which a thread spins: to sleep takes longer than asked for.
const LONGEST_SPIN: Duration = Duration::from_micros(200);

/// Works as a user until the process ends.
///
/// # Errors
/// The database's.
pub(super) fn work(state: &DemoState, user: usize) -> Result<(), Failure> {
    let mut ns = state.count(Counter::Nanoseconds(user));
    let mut done = state.count(Counter::Transactions(user));
    let receive = |done: &mut u64| -> Result<(), Failure> {
        let key = [Value::from(user as u64)];
        let table = &state.tables.receipt;
        // The row may have one more than was acknowledged: a kill came in between.
        let mut receipts = 0;
        state.database.partition(0).modify(table, &key, |row| {
            receipts = row.u64(1) + 1;
            vec![(1_u16, Value::from(receipts))]
        })?;
        state.acknowledge(Counter::Receipts(user), receipts);
        *done += 1;
        Ok(())
    };
    while user >= state.users.load(Ordering::Relaxed) as usize {
        idle();
    }
    // The first one comes before there are inputs: the curve is to show the engine.
    receive(&mut done)?;
    say(&Event::Committed)?;
    state.acknowledge(Counter::Transactions(user), done);

    let partitions = state.database.partition_count();
    let inputs = INPUTS * partitions as u64;
    let workload = Workload::generate(&spec(&state.task, partitions, inputs, 2 + user as u64))?;
    let mut terminal = Terminal::beside_others(&state.database, &workload, 0)?;
    for number in (0..INPUTS).cycle() {
        while user >= state.users.load(Ordering::Relaxed) as usize {
            idle();
        }
        let started = Instant::now();
        if number % RECEIPT_EVERY == 0 {
            receive(&mut done)?;
        } else if terminal.run(number as usize)? == Outcome::Committed {
            done += 1;
        }
        pay(state);
        ns += started.elapsed().as_nanos() as u64;
        state.acknowledge(Counter::Nanoseconds(user), ns);
        state.acknowledge(Counter::Transactions(user), done);
    }
    Ok(())
}

/// Waits for the fences that no user has waited for.
fn pay(state: &DemoState) {
    let latency = state.latency_ns.load(Ordering::Relaxed);
    if latency == 0 {
        return;
    }
    let counters = state.database.counters();
    let fences = counters.fences + counters.syncs;
    let unpaid = {
        let mut paid = state.paid.lock().unwrap_or_else(PoisonError::into_inner);
        let unpaid = fences.saturating_sub(*paid);
        *paid = fences.max(*paid);
        unpaid
    };
    let wait = Duration::from_nanos(unpaid * latency);
    if wait > LONGEST_SPIN {
        return thread::sleep(wait);
    }
    let started = Instant::now();
    while started.elapsed() < wait {
        std::hint::spin_loop();
    }
}
