//! The undo log after a kill. What the next process reads of it, and acts upon, is what any later
//! one reads, though power fails meanwhile and the killed process had not made it durable.
//!
//! Fault model (`docs/format/crash-model.md`): a kill after any store; then, while the next process
//! has the log open, a power cut in every state that lines can be in.

use heap::{Heap, HeapOptions, Purpose};
use pm::{LineSet, Memory, Off, Site};
use sim::{Killed, Recording, Trace};
use storage::{MAX_UNDO_ENTRIES, StorageError, UNDO_HEAD_BYTES, UndoEntry, UndoLog, UndoWork};

const LIMIT: u64 = 1 << 20;

/// Transactions of one to three entries that commit, or are undone newest first; and now and then
/// two statements.
fn story() -> (Trace, u64) {
    let memory = Recording::pool(64 << 10, LIMIT).unwrap();
    let heap =
        Heap::format(memory.clone(), HeapOptions { chunk_bytes: 8 << 10, lanes: 1 }).unwrap();
    let mut lane = heap.lane(0);
    let head = lane.allocate(UNDO_HEAD_BYTES, Purpose::Log).unwrap();
    let mut log = UndoLog::create(&mut lane, head).unwrap();
    memory.fence();
    memory.start();
    for transaction in 0..9u64 {
        let mut lines = LineSet::new();
        let entries = 1 + transaction % 3;
        for entry in 0..entries {
            log.append(&memory, UndoEntry::delete(0, transaction * 64 + entry * 8), &mut lines);
            lines.flush(&memory);
            memory.fence();
        }
        if transaction % 2 == 0 {
            log.commit(&memory);
        } else {
            (0..entries as u32).rev().for_each(|first| log.retract(&memory, first));
            log.abort(&memory);
        }
        memory.fence();
        if transaction % 3 != 0 {
            continue;
        }
        for statement in 0..2 {
            let entry = UndoEntry::statement(0, statement * 8, &[], 0);
            log.append_statement(&memory, entry, &mut lines);
            lines.flush(&memory);
            memory.fence();
            log.statement_committed();
        }
    }
    (memory.stop(), head)
}

type Work = (u64, Vec<UndoEntry>, Vec<UndoEntry>, Vec<UndoEntry>);

fn opened(memory: &Recording, head: u64) -> Work {
    let heap = Heap::open(memory.clone()).unwrap();
    let (log, work) = UndoLog::open(heap.memory(), head, |_| Ok(true)).unwrap();
    let UndoWork { committed, statements, open } = work;
    (log.transaction(), committed, statements, open)
}

struct Next {
    killed: Killed,
    trace: Trace,
    work: Work,
}

fn after_kills(trace: &Trace, head: u64) -> Vec<Next> {
    let mut nexts = Vec::new();
    trace.kills(1, |killed| {
        let memory = killed.reopened(LIMIT).unwrap();
        let work = opened(&memory, head);
        memory.note(1);
        // Work after that is not the log's; here it stores nothing durable.
        memory.store(Off::new(head + UNDO_HEAD_BYTES - 8), 1);
        nexts.push(Next { killed: killed.clone(), trace: memory.stop(), work });
    });
    nexts
}

/// Returns whether any process after a power cut would read something else.
fn differs(next: &Next, trace: &Trace, head: u64) -> bool {
    let mut replay = next.killed.replay(trace);
    let mut differs = false;
    while let Some(point) = replay.next_point() {
        if point.last_note.is_none() {
            continue;
        }
        point.for_each_state(200, 3, |image| {
            let memory = Recording::from_image(image, LIMIT).unwrap();
            differs |= opened(&memory, head) != next.work;
        });
    }
    differs
}

#[test]
fn what_was_read_after_a_kill_is_read_ever_after() {
    let (trace, head) = story();
    let nexts = after_kills(&trace, head);
    assert!(nexts.len() >= 30, "{}", nexts.len());
    for next in &nexts {
        let position = next.killed.position();
        assert!(!differs(next, &next.trace, head), "killed after event {position}");
    }
}

#[test]
fn the_test_fails_without_one_flush_or_fence_of_opening() {
    let (trace, head) = story();
    let nexts = after_kills(&trace, head);
    let unseen = |sites: fn(&Trace) -> Vec<Site>, without: fn(&Trace, Site) -> Trace| {
        let mut places: Vec<Site> = nexts.iter().flat_map(|next| sites(&next.trace)).collect();
        places.retain(|site| site.file().ends_with("undo_log.rs"));
        places.sort_by_key(|site| site.line());
        places.dedup();
        assert!(!places.is_empty());
        places.retain(|site| {
            !nexts.iter().any(|next| differs(next, &without(&next.trace, site), head))
        });
        places
    };
    assert_eq!(unseen(Trace::flush_sites, Trace::without_flushes_of), [] as [Site; 0]);
    assert_eq!(unseen(Trace::fence_sites, Trace::without_fences_of), [] as [Site; 0]);
}

/// The longest chain of segments opens again; none gets longer.
#[test]
fn too_large_a_transaction_is_refused_and_the_log_opens() {
    let memory = Recording::pool(64 << 10, 1 << 30).unwrap();
    let options = HeapOptions { chunk_bytes: 256 << 10, lanes: 1 };
    let heap = Heap::format(memory.clone(), options).unwrap();
    let mut lane = heap.lane(0);
    let head = lane.allocate(UNDO_HEAD_BYTES, Purpose::Log).unwrap();
    let mut log = UndoLog::create(&mut lane, head).unwrap();
    log.reserve(&mut lane, MAX_UNDO_ENTRIES as usize).unwrap();
    let refused = log.reserve(&mut lane, MAX_UNDO_ENTRIES as usize + 1);
    assert!(matches!(refused, Err(StorageError::TransactionTooLarge { max: MAX_UNDO_ENTRIES })));
    let mut lines = LineSet::new();
    log.append(&memory, UndoEntry::delete(0, 64), &mut lines);
    lines.flush(&memory);
    memory.fence();
    drop(lane);
    let (_, committed, _, open) = opened(&memory, head);
    assert_eq!((committed.len(), open.len()), (0, 1));
}
