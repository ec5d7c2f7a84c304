//! P1's Table 2, executed: the steps of NVM-CoW happen in our order (`docs/paper/table2.md`), and
//! when a step is called synced the trace shows that it is. Each operation is done twice, on two
//! tuples, so that the second batch has the bits of the first one to write back.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Item, Tables, insert_item, schema, small_logs, update_item};
use engines::table2::{
    MARK_PERSISTED, MOVE_MASTER, NVM_COW_DELETE, NVM_COW_INSERT, NVM_COW_SELECT, NVM_COW_UPDATE,
    RECLAIM, SYNC_DIRECTORY, SYNC_TUPLE,
};
use perdura::{Database, EngineKind, Row, Value};
use pm::Step;
use sim::{Event, Recorded, Recording, RecordingFiles, Trace};

fn item(number: u64) -> Item {
    Item {
        name: format!("name number {number}"),
        payload: vec![number as u8; 200],
        count: number as i64,
        flag: b"flag".to_vec(),
        score: 0.5,
    }
}

fn traces() -> BTreeMap<&'static str, Trace> {
    let memory = Recording::pool(1 << 20, 4 << 20).unwrap();
    let media = faults::recorded(memory.clone(), RecordingFiles::new());
    let options = small_logs().engine(EngineKind::NvmCow).chunk_bytes(16 << 10);
    let db: Database<Recorded> = Database::create_on(media, &schema(), &options).unwrap();
    let tables = Tables::of(&db);
    // So many that nothing needs a chunk or an extent.
    for key in 0..8 {
        db.write(|tx| insert_item(tx, &tables, key * 10, &item(key))).unwrap();
    }
    for key in [60, 70] {
        db.write(|tx| tx.delete(&tables.item, &[Value::U64(key)])).unwrap();
    }
    db.write(|tx| update_item(tx, &tables, 0, &item(1), 31)).unwrap();
    let mut traces = BTreeMap::new();
    let mut trace = |name, act: &dyn Fn(&mut perdura::Tx<'_, Recorded>, u64)| {
        memory.start();
        for key in [35, 36] {
            db.write(|tx| {
                act(tx, key);
                Ok(())
            })
            .unwrap();
        }
        traces.insert(name, memory.stop());
    };
    trace("insert", &|tx, key| insert_item(tx, &tables, key, &item(9)).unwrap());
    trace("update", &|tx, key| update_item(tx, &tables, key, &item(5), 31).unwrap());
    trace("select", &|tx, key| {
        assert!(tx.get_into(&tables.item, &[Value::U64(key)], &mut Row::new()).unwrap());
    });
    trace("delete", &|tx, key| tx.delete(&tables.item, &[Value::U64(key)]).unwrap());
    db.abandon();
    traces
}

fn marks(trace: &Trace) -> Vec<Step> {
    let mark = |event: &Event| if let Event::Mark(step) = event { Some(*step) } else { None };
    trace.events.iter().filter_map(|recorded| mark(&recorded.event)).collect()
}

/// Returns what is wrong with the operations and their commits, if anything.
fn verdict(trace: &Trace) -> Result<(), String> {
    let (mut dirty, mut flushed) = (BTreeSet::new(), BTreeSet::new());
    // Since the mark before.
    let (mut stores, mut copies) = (0, 0);
    for recorded in &trace.events {
        match &recorded.event {
            Event::Store { at, .. } => {
                stores += 1;
                dirty.insert(at / 64);
            }
            Event::Copy { at, bytes } => {
                copies += 1;
                dirty.extend(at / 64..(at + bytes.len() as u64).div_ceil(64));
            }
            Event::Flush { first, end } => {
                for line in *first..*end {
                    if dirty.remove(&line) {
                        flushed.insert(line);
                    }
                }
            }
            Event::Fence => flushed.clear(),
            Event::Mark(step) => {
                let wrong = |why: &str| Err(format!("at `{}`: {why}", step.0));
                match *step {
                    // The fence is that of the directory.
                    SYNC_TUPLE if flushed.is_empty() => return wrong("nothing is flushed"),
                    SYNC_DIRECTORY if !(dirty.is_empty() && flushed.is_empty()) => {
                        return wrong("a line that was stored to is not flushed and fenced");
                    }
                    MOVE_MASTER if stores != 1 || copies != 0 => {
                        return wrong("the master record moves by one store");
                    }
                    MOVE_MASTER if !(dirty.is_empty() && flushed.is_empty()) => {
                        return wrong("the master record is not durable");
                    }
                    MARK_PERSISTED if stores == 0 => return wrong("no bit was set"),
                    MARK_PERSISTED | RECLAIM if copies != 0 => {
                        return wrong("it is ordered 8-byte stores, and nothing else");
                    }
                    _ => {}
                }
                (stores, copies) = (0, 0);
            }
            _ => {}
        }
    }
    // The bits of the last batch ride on the next one's first fence.
    Ok(())
}

#[test]
fn the_steps_happen_in_our_order() {
    let traces = traces();
    let twice = |steps: &[Step]| [steps, steps].concat();
    assert_eq!(marks(&traces["insert"]), twice(NVM_COW_INSERT));
    assert_eq!(marks(&traces["update"]), twice(NVM_COW_UPDATE));
    assert_eq!(marks(&traces["delete"]), twice(NVM_COW_DELETE));
    assert_eq!(marks(&traces["select"]), twice(NVM_COW_SELECT));
}

#[test]
fn what_a_step_calls_synced_is_flushed_and_fenced() {
    for (name, trace) in traces() {
        assert_eq!(verdict(&trace), Ok(()), "{name}");
    }
}

/// Test the tester.
#[test]
fn an_operation_without_one_of_its_flushes_or_fences_does_not_pass() {
    let mut dropped = 0;
    for (name, trace) in traces() {
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
    assert!(dropped >= 12, "{dropped}");
}
