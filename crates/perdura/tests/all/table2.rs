//! P1's Table 2, executed: the steps of NVM-InP and of NVM-Log happen in the paper's order, and
//! when a step is called synced the trace shows that it is.
//!
//! The engine marks each step when it is done. Between the marks the recording has every store,
//! flush and fence, from which [`Lines`] knows of each cache line whether its newest store has been
//! flushed, and whether a fence has followed. That the check can fail is a test, too: without one
//! of its flushes or fences no operation passes.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Item, Tables, insert_item, schema, small_logs, update_item};
use engines::table2::{
    ADD_TO_INDEXES, ADD_TO_MEMTABLE, COALESCE, DISCARD, FIND, FIND_ENTRIES, MARK_PERSISTED,
    MARK_TOMBSTONE, MODIFY, NVM_INP_DELETE, NVM_INP_INSERT, NVM_INP_SELECT, NVM_INP_UPDATE,
    NVM_LOG_DELETE, NVM_LOG_INSERT, NVM_LOG_SELECT, NVM_LOG_UPDATE, RECLAIM, RECORD, RETRIEVE,
    SYNC_CHANGES, SYNC_LOG_ENTRY, SYNC_TUPLE,
};
use perdura::{Database, EngineKind, Row, Value};
use pm::Step;
use sim::{Event, Recorded, Recording, RecordingFiles, Trace};

/// A note after which the commit begins.
const COMMIT: u64 = 1;
const LOG_ENTRY_BYTES: usize = 64;

fn database(engine: EngineKind) -> (Database<Recorded>, Recording) {
    let memory = Recording::pool(1 << 20, 4 << 20).unwrap();
    let media = faults::recorded(memory.clone(), RecordingFiles::new());
    let options = small_logs().engine(engine).chunk_bytes(16 << 10);
    (Database::create_on(media, &schema(), &options).unwrap(), memory)
}

fn item(number: u64) -> Item {
    Item {
        name: format!("name number {number}"),
        payload: vec![number as u8; 200],
        count: number as i64,
        flag: b"flag".to_vec(),
        score: 0.5,
    }
}

/// The traces of an insert, an update, a delete and a read of one tuple among others, in
/// transactions of their own.
fn traces(engine: EngineKind) -> BTreeMap<&'static str, Trace> {
    let (db, memory) = database(engine);
    let tables = Tables::of(&db);
    // So many that nothing needs a chunk or a split.
    for key in 0..8 {
        db.write(|tx| insert_item(tx, &tables, key * 10, &item(key))).unwrap();
    }
    db.write(|tx| tx.delete(&tables.item, &[Value::U64(70)])).unwrap();
    db.write(|tx| update_item(tx, &tables, 0, &item(1), 2)).unwrap();
    let mut traces = BTreeMap::new();
    let mut trace = |name, act: &dyn Fn(&mut perdura::Tx<'_, Recorded>)| {
        memory.start();
        let mut tx = db.begin().unwrap();
        act(&mut tx);
        memory.note(COMMIT);
        assert!(tx.commit().unwrap().is_durable());
        traces.insert(name, memory.stop());
    };
    trace("insert", &|tx| insert_item(tx, &tables, 35, &item(9)).unwrap());
    trace("update", &|tx| update_item(tx, &tables, 35, &item(5), 31).unwrap());
    trace("select", &|tx| {
        let mut row = Row::new();
        assert!(tx.get_into(&tables.item, &[Value::U64(35)], &mut row).unwrap());
    });
    trace("delete", &|tx| tx.delete(&tables.item, &[Value::U64(35)]).unwrap());
    db.abandon();
    traces
}

fn marks(trace: &Trace) -> Vec<Step> {
    let mark = |event: &Event| if let Event::Mark(step) = event { Some(*step) } else { None };
    trace.events.iter().filter_map(|recorded| mark(&recorded.event)).collect()
}

/// The stores to each line that are not durable yet.
#[derive(Default)]
struct Lines {
    /// Stored to since their last flush.
    dirty: BTreeSet<u64>,
    /// Flushed, but no fence has followed.
    flushed: BTreeSet<u64>,
}

impl Lines {
    fn see(&mut self, event: &Event) {
        let mut stored =
            |at: u64, bytes: u64| self.dirty.extend(at / 64..(at + bytes).div_ceil(64));
        match event {
            Event::Store { at, .. } => stored(*at, 8),
            Event::Copy { at, bytes } => stored(*at, bytes.len() as u64),
            Event::Flush { first, end } => {
                for line in *first..*end {
                    if self.dirty.remove(&line) {
                        self.flushed.insert(line);
                    }
                }
            }
            // A line that was stored to between its flush and the fence stays dirty.
            Event::Fence => self.flushed.clear(),
            _ => {}
        }
    }

    fn all_durable(&self) -> bool {
        self.dirty.is_empty() && self.flushed.is_empty()
    }

    /// Returns true if nothing is pending but stores to the line of `at`: a line persists in the
    /// order of its stores.
    fn all_others_durable(&self, at: u64) -> bool {
        self.dirty.iter().all(|line| *line == at / 64) && self.flushed.is_empty()
    }
}

/// Returns what is wrong with one operation and its commit, if anything.
fn verdict(trace: &Trace) -> Result<(), String> {
    let mut lines = Lines::default();
    // Since the mark before.
    let (mut stores, mut copies, mut in_commit) = (0u32, Vec::new(), false);
    for recorded in &trace.events {
        match &recorded.event {
            Event::Store { at, .. } => {
                if in_commit && !lines.all_others_durable(*at) {
                    return Err("the commit is stored before the changes are durable".into());
                }
                stores += 1;
            }
            Event::Copy { bytes, .. } => copies.push(bytes.len()),
            Event::Note(COMMIT) => {
                in_commit = true;
                if !lines.dirty.is_empty() {
                    return Err(format!("lines {:?} are not flushed at the end", lines.dirty));
                }
            }
            Event::Mark(step) => {
                step_is_done(*step, &lines, stores, &copies)?;
                // The tuple and its log entry share a fence: the log entry is looked for where
                // both were written.
                if *step != SYNC_TUPLE && *step != RECORD {
                    (stores, copies) = (0, Vec::new());
                }
            }
            _ => {}
        }
        lines.see(&recorded.event);
    }
    if lines.all_durable() { Ok(()) } else { Err("something is pending after the commit".into()) }
}

fn step_is_done(step: Step, lines: &Lines, stores: u32, copies: &[usize]) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("at `{}`: {why}", step.0));
    match step {
        SYNC_TUPLE | RECORD | SYNC_LOG_ENTRY => {
            if !copies.contains(&LOG_ENTRY_BYTES) {
                return wrong("no log entry was written");
            }
            if step == SYNC_TUPLE && copies.len() < 3 {
                return wrong("the tuple and its fields were not written");
            }
            if !lines.all_durable() {
                return wrong("a line that was stored to is not flushed and fenced");
            }
        }
        MARK_PERSISTED | ADD_TO_INDEXES | ADD_TO_MEMTABLE | MARK_TOMBSTONE | MODIFY | DISCARD => {
            if stores == 0 || !copies.is_empty() {
                return wrong("it is ordered 8-byte stores, and nothing else");
            }
        }
        // The fence comes with the commit: see COMMIT in the verdict.
        SYNC_CHANGES => {
            if !lines.dirty.is_empty() || lines.flushed.is_empty() {
                return wrong("a changed line is not flushed");
            }
        }
        RECLAIM => {
            if !lines.all_durable() {
                return wrong("space is reclaimed before the commit is durable");
            }
        }
        FIND | RETRIEVE | FIND_ENTRIES | COALESCE => {
            if stores != 0 || !copies.is_empty() {
                return wrong("reading stores nothing");
            }
        }
        other => return Err(format!("unknown step `{}`", other.0)),
    }
    Ok(())
}

#[test]
fn the_steps_happen_in_the_order_of_table_2() {
    let traces = self::traces(EngineKind::NvmInp);
    // Space is reclaimed at the end of every transaction; Table 2 lists it where there always is
    // some, under DELETE.
    let with_end = |steps: &[Step]| [steps, &[RECLAIM]].concat();
    assert_eq!(marks(&traces["insert"]), with_end(NVM_INP_INSERT));
    assert_eq!(marks(&traces["update"]), with_end(NVM_INP_UPDATE));
    assert_eq!(marks(&traces["delete"]), NVM_INP_DELETE);
    assert_eq!(marks(&traces["select"]), NVM_INP_SELECT);
}

#[test]
fn the_steps_of_nvm_log_happen_in_the_order_of_table_2() {
    let traces = self::traces(EngineKind::NvmLog);
    assert_eq!(marks(&traces["insert"]), NVM_LOG_INSERT);
    assert_eq!(marks(&traces["update"]), NVM_LOG_UPDATE);
    assert_eq!(marks(&traces["delete"]), NVM_LOG_DELETE);
    assert_eq!(marks(&traces["select"]), NVM_LOG_SELECT);
}

/// The traces of both engines.
fn all_traces() -> impl Iterator<Item = (String, Trace)> {
    [EngineKind::NvmInp, EngineKind::NvmLog].into_iter().flat_map(|engine| {
        traces(engine).into_iter().map(move |(name, trace)| (format!("{engine}: {name}"), trace))
    })
}

#[test]
fn what_a_step_calls_synced_is_flushed_and_fenced() {
    for (name, trace) in all_traces() {
        assert_eq!(verdict(&trace), Ok(()), "{name}");
    }
}

/// Test the tester.
#[test]
fn an_operation_without_one_of_its_flushes_or_fences_does_not_pass() {
    let mut dropped = 0;
    for (name, trace) in all_traces() {
        for site in trace.flush_sites() {
            dropped += 1;
            let place = format!("{name} without the flush at {}:{}", site.file(), site.line());
            assert!(verdict(&trace.without_flushes_of(site)).is_err(), "{place}");
        }
        for site in trace.fence_sites() {
            dropped += 1;
            let place = format!("{name} without the fence at {}:{}", site.file(), site.line());
            assert!(verdict(&trace.without_fences_of(site)).is_err(), "{place}");
        }
    }
    println!("{dropped} flushes and fences dropped in turn");
    assert!(dropped >= 24, "{dropped}");
}
