//! Recovery of the slots of a store: step 3 of P4 4.1. Steps 1 and 2, the memory and its structures, are done
//! before; step 4 is [`crate::rebuild`].
//!
//! For each slot:
//! - *Committed*: its versions are stamped again, if its entries are there. The first entry is missing if the next
//!   transaction had begun to overwrite it; then the stamps are durable. The last entry, or its row, is missing if
//!   it was to become durable with the commit and did not; then the statement and the commit never happened.
//! - *Active*: its statements are the entries that match. Of the last one the row has to be there, too. The marks
//!   of the last two are set again, since their lines are flushed with later fences. Without a statement, or with
//!   one and without the name that it was given, the transaction never began.
//! - Every other transaction is over. The sequence rises by two, since rows may have marks of a transaction that
//!   began and left no line.
//!
//! Stores of a killed process may not be durable. There are three fences: one for what recovery relies on, before
//! anything that follows from it is stored (a stamp is that of a durable commit, a mark is in a durable entry);
//! one for stamps and marks, before a slot gives up the entries they follow from; one for the slots. Where indexes
//! lie in persistent memory, they are led to the versions of the last two statements of each slot before the slot
//! gives up those entries.

use std::collections::HashMap;

use pm::{Bad, LineSet, Memory};

use crate::Result;
use crate::clock::Clock;
use crate::keys::IndexKey;
use crate::latch::Waiting;
use crate::layout::{Header, MOST_OPENINGS};
use crate::serial::KeptReads;
use crate::slots::{ABORTED, ACTIVE, COMMITTED, FREE, NAMED, SERIAL, STATES};
use crate::stamps::{MOST_SEQUENCE, mark};
use crate::store::{DetachedTransaction, InFlight, Recovered, Shared, TxId};
use crate::table::Table;

/// The state in which a crash has left a slot's transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Over,
    /// With so many statements.
    Committed(u64),
    InFlight(u64),
}

/// Finds the state of every slot, and repairs what follows from it.
///
/// # Errors
/// Damage.
pub(crate) fn run<M: Memory>(shared: &mut Shared<M>, waiting: &Waiting) -> Result<Recovered> {
    let slots = shared.slots.count as u16;
    let mut lines = LineSet::new();
    let (mut clock, mut ends) = (0, Vec::new());
    for slot in 0..slots {
        let header = shared.slots.header(slot)?;
        clock = clock.max(header.number).max(header.snapshot);
        lines.add(shared.slots.line(slot));
        ends.push((header, find_end(shared, slot, &header, &mut lines)?));
    }
    // What recovery relies on.
    lines.flush(&shared.memory);
    shared.memory.fence();
    for (slot, (header, found)) in (0..).zip(&ends) {
        repair(shared, slot, header, *found, &mut lines)?;
    }
    // What follows from it. After this fence the entries of the slots are not needed.
    if !lines.is_empty() {
        lines.flush(&shared.memory);
        shared.memory.fence();
    }
    let mut report = Recovered::default();
    for (slot, (header, found)) in (0..).zip(&ends) {
        if let Found::InFlight(statements) = found {
            restore(shared, slot, header, *statements)?;
            report.in_flight += 1;
        }
        report.stamped += u64::from(matches!(found, Found::Committed(_)));
    }
    // After all of them: the transactions in flight decide which of two versions is newer.
    for (slot, (header, found)) in (0..).zip(&ends) {
        if let Found::InFlight(statements) | Found::Committed(statements) = found {
            redo_index(shared, mark(slot, header.sequence), *statements, &mut lines)?;
        }
    }
    if !lines.is_empty() {
        lines.flush(&shared.memory);
        shared.memory.fence();
    }
    for (slot, (header, found)) in (0..).zip(&ends) {
        if !matches!(found, Found::InFlight(_)) {
            end(shared, slot, header);
        }
        lines.add(shared.slots.line(slot));
    }
    lines.flush(&shared.memory);
    shared.memory.fence();
    shared.clock = Clock::new(clock, waiting);
    shared.opened = clock;
    Ok(report)
}

/// Finds the state of a slot's transaction. Adds the lines that it relies on.
fn find_end<M: Memory>(
    shared: &Shared<M>,
    slot: u16,
    header: &Header,
    lines: &mut LineSet,
) -> Result<Found> {
    let mark = mark(slot, header.sequence);
    let at = shared.slots.line(slot).start;
    if header.sequence > MOST_SEQUENCE {
        return Err(Bad::Damaged { what: "sequence of a transaction slot", at }.into());
    }
    let (state, named) = (header.state & STATES, header.state & NAMED != 0);
    let most = match state {
        FREE | ABORTED => return Ok(Found::Over),
        // No process has gone on with it.
        ACTIVE if header.openings >= MOST_OPENINGS => return Ok(Found::Over),
        ACTIVE => u64::from(u32::MAX),
        COMMITTED => header.state >> 8,
        _ => return Err(Bad::Damaged { what: "state of a transaction slot", at }.into()),
    };
    let statements = whole_statements(shared, mark, most)?;
    // The name is durable with the first statement.
    let nameless = named && shared.slots.name(slot, header.sequence)?.is_empty();
    if statements == 0 || nameless && statements == 1 {
        return Ok(Found::Over);
    }
    if state == COMMITTED && statements + 1 < most {
        return Err(Bad::Damaged { what: "statements of a transaction slot", at }.into());
    }
    lines.add(shared.slots.name_line(slot));
    for index in statements.saturating_sub(2)..statements {
        let statement = shared.statement(mark, index)?;
        lines.add(shared.slots.entry_at(slot, index).range());
        if statement.new != 0 {
            shared.table(usize::from(statement.table))?.add_lines(statement.new, lines)?;
        }
    }
    let committed = state == COMMITTED && statements == most;
    Ok(if committed { Found::Committed(statements) } else { Found::InFlight(statements) })
}

/// Stamps the versions of a committed transaction; sets the marks of the last two statements of one in flight.
fn repair<M: Memory>(
    shared: &Shared<M>,
    slot: u16,
    header: &Header,
    found: Found,
    lines: &mut LineSet,
) -> Result<()> {
    let mark = mark(slot, header.sequence);
    let (statements, stamp) = match found {
        Found::Over => return Ok(()),
        Found::Committed(statements) => (0..statements, header.number),
        Found::InFlight(statements) => (statements.saturating_sub(2)..statements, mark),
    };
    if let Found::InFlight(next) = found {
        // The row of a statement that was cut off may be used by a later one, with the same mark.
        shared.slots.forget_entry(mark, next, lines)?;
    }
    for index in statements {
        shared.stamp(&shared.statement(mark, index)?, stamp, lines)?;
    }
    Ok(())
}

/// The number of statements of the transaction with this mark, up to `most`: entries that match, of
/// which the last one's row is there.
fn whole_statements<M: Memory>(shared: &Shared<M>, mark: u64, most: u64) -> Result<u64> {
    let mut statements = 0;
    while statements < most && shared.slots.statement(mark, statements)?.is_some() {
        statements += 1;
    }
    if statements == 0 {
        return Ok(0);
    }
    let last = shared.statement(mark, statements - 1)?;
    let table = shared.table(usize::from(last.table))?;
    let whole = last.new == 0 || table.is_whole(last.new, last.sum)?;
    Ok(if whole { statements } else { statements - 1 })
}

/// Leads indexes in persistent memory to the versions of the last two statements of a transaction, if they lead to
/// older ones.
fn redo_index<M: Memory>(
    shared: &Shared<M>,
    mark: u64,
    statements: u64,
    lines: &mut LineSet,
) -> Result<()> {
    for index in statements.saturating_sub(2)..statements {
        let statement = shared.statement(mark, index)?;
        let table = shared.table(usize::from(statement.table))?;
        if statement.new == 0 || !table.has_durable_index() {
            continue;
        }
        for (index, key) in table.all_keys(statement.new)? {
            if table.indexes[index].read().is_durable() {
                redo_entry(shared, table, (index, key), statement.new, lines)?;
            }
        }
    }
    Ok(())
}

/// Leads a key to a row, unless it leads to a newer one. The entry may be that of a killed process: it is flushed,
/// too.
#[track_caller]
fn redo_entry<M: Memory>(
    shared: &Shared<M>,
    table: &Table<M>,
    (index, key): (usize, IndexKey),
    row: u64,
    lines: &mut LineSet,
) -> Result<()> {
    let there = table.indexes[index].read().peek(&key.bytes)?;
    if let Some(there) = there {
        // Versions of aborted transactions are in front of the version that counts.
        let counts = shared.newest_counting(table, there)?;
        let is_newer = counts == 0 || counts != row && shared.is_newer(table, row, counts)?;
        let row = if is_newer { row } else { there };
        return table.indexes[index].write().replace(&key.bytes, row, lines);
    }
    if !shared.is_last(table, row)? {
        // The key was taken out, since no snapshot sees the row.
        return Ok(());
    }
    let (keys, mut made) = (vec![(index, key)], LineSet::new());
    let rooms = table.prepare(&keys, &shared.lane, &mut made)?;
    table.fill(&keys, &rooms, row, &mut made);
    made.flush(&shared.memory);
    shared.memory.fence();
    table.publish((keys, &rooms), row, &shared.lane, lines)
}

/// Restores a transaction in flight: its rows count, and their keys enter the indexes at once.
fn restore<M: Memory>(
    shared: &mut Shared<M>,
    slot: u16,
    header: &Header,
    statements: u64,
) -> Result<()> {
    let mark = mark(slot, header.sequence);
    let mut rows = HashMap::new();
    for index in 0..statements {
        let statement = shared.statement(mark, index)?;
        if statement.new != 0 {
            let table = shared.table(usize::from(statement.table))?;
            rows.insert((table.at, statement.new), index);
            table.publish_ordinary(statement.new)?;
        }
    }
    shared.recovered.insert(mark, rows);
    shared.epochs.keep_snapshot(header.snapshot);
    let is_serial = header.state & STATES == ACTIVE && header.state & SERIAL != 0;
    shared.slots.store_kept(slot, header.openings + 1, is_serial);
    shared.slots.set_open(slot, header.sequence);
    let name = shared.slots.name(slot, header.sequence)?;
    if !name.is_empty() {
        shared.names.write().insert(name.clone());
    }
    let openings = header.openings + 1;
    let snapshot = header.snapshot;
    let reads = if is_serial { KeptReads::Forgotten } else { KeptReads::None };
    let open = InFlight { id: TxId(mark), name, statements, openings };
    shared.in_flight.write().insert(mark, DetachedTransaction { open, snapshot, reads });
    Ok(())
}

/// Ends a slot's transaction. No row has a mark with the sequence of the next one.
fn end<M: Memory>(shared: &Shared<M>, slot: u16, header: &Header) {
    let sequence = header.sequence + 2;
    shared.slots.store_over(slot, sequence);
    shared.slots.set_over(slot, sequence);
    shared.slots.release(slot, false);
}
