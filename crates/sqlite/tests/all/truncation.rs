//! A transaction that truncates the database and then writes farther out: zeros lie between, in every crash state.

use perdura_sqlite::store::connection::Store;
use perdura_sqlite::store::mode::Mode;
use perdura_sqlite::store::verdict::Verdict;
use sim::{Recording, Replay, Trace};

use crate::explore::{DATA, SIDE, SLOT, media};
use crate::store_kills::{
    PAGE, commit, file_bytes, files_of_inserts, new, open, page, trace, whole,
};

/// A step of a transaction.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write(usize, usize),
    Truncate(usize),
}
use Step::{Truncate, Write};

/// The byte that every write stores.
const WRITTEN: u8 = 0xee;

/// Transactions on a database of 24 pages. The unit of staging has four of them.
const TRANSACTIONS: &[&[Step]] = &[
    // To a database of the same size, a larger and a smaller one.
    &[Truncate(3 * PAGE), Write(23 * PAGE, PAGE)],
    &[Truncate(PAGE), Write(29 * PAGE, PAGE)],
    &[Truncate(8 * PAGE), Write(17 * PAGE, PAGE)],
    // Extended without a write.
    &[Truncate(5 * PAGE), Truncate(20 * PAGE)],
    // Within a page, and within one that is staged.
    &[Truncate(9 * PAGE + 300), Write(15 * PAGE, PAGE)],
    &[Write(9 * PAGE, PAGE), Truncate(9 * PAGE + 300), Write(11 * PAGE, PAGE)],
    // Staged bytes that are truncated, and a second truncation above the first one.
    &[Write(12 * PAGE, 6 * PAGE), Truncate(2 * PAGE), Write(19 * PAGE, PAGE)],
    &[Truncate(4 * PAGE), Write(14 * PAGE, PAGE), Truncate(13 * PAGE), Truncate(24 * PAGE)],
    // No whole pages: the commit is logged as bytes.
    &[Truncate(6 * PAGE + 40), Write(21 * PAGE + 100, 55)],
];

/// A model of a transaction.
fn after(before: &[u8], steps: &[Step]) -> Vec<u8> {
    let mut bytes = before.to_vec();
    for step in steps {
        match *step {
            Truncate(to) => bytes.resize(to, 0),
            Write(at, len) => {
                bytes.resize(bytes.len().max(at + len), 0);
                bytes[at..at + len].fill(WRITTEN);
            }
        }
    }
    bytes
}

fn stage(store: &mut Store<Recording>, steps: &[Step]) {
    for step in steps {
        match *step {
            Truncate(to) => store.truncate(to as u64).unwrap(),
            Write(at, len) => store.write(at as u64, &vec![WRITTEN; len]).unwrap(),
        }
    }
}

/// The database after a recovery that decides about a prepared part.
fn recovered(image: &[u8], verdict: Verdict) -> Result<Vec<u8>, String> {
    let memory = Recording::from_image(image, SIDE + DATA).unwrap();
    let decide = |_: &[u8]| Ok(verdict);
    let store = Store::open_and_decide(media(&memory), file_bytes(&memory), 2, SLOT, &decide);
    Ok(whole(&store.map_err(|error| error.to_string())?))
}

/// Checks every state that a power cut or a kill can leave. Note 1 stands for the removal of the super-journal of a
/// prepared transaction, note 2 for the acknowledgment. Page 1's header is not compared.
fn check(trace: &Trace, prepared: bool, before: &[u8], after: &[u8], what: &str) {
    let check = |image: &[u8], noted: u64| {
        let verdict = if noted == 0 { Verdict::Discard } else { Verdict::Apply };
        let found = recovered(image, verdict)?;
        let is = |wanted: &[u8]| found.len() == wanted.len() && found[100..] == wanted[100..];
        let right = match (prepared, noted) {
            (false, 0) => is(before) || is(after),
            (true, 0) => is(before),
            _ => is(after),
        };
        let first = found.iter().zip(after).skip(100).position(|(found, after)| found != after);
        let text = || format!("{what}: noted {noted}, {} bytes, {first:?}", found.len());
        if right { Ok(()) } else { Err(text()) }
    };
    let explored = Replay::new(trace).explore(6, 1, check);
    assert_eq!(explored.failed, None);
    assert!(explored.states > 10, "{what}: {explored:?}");
    let notes = trace.events.iter().scan(0, |last, event| {
        if let sim::Event::Note(note) = event.event {
            *last = note;
        }
        Some(*last)
    });
    let notes: Vec<u64> = std::iter::once(0).chain(notes).collect();
    let mut states = 0;
    trace.process_states(|events, image| {
        states += 1;
        if states % 9 == 0 {
            check(image, notes[events]).unwrap();
        }
    });
}

#[test]
fn truncation_and_a_write_farther_out_leave_zeros_between() {
    for mode in Mode::ALL {
        for prepared in [false, true] {
            for steps in TRANSACTIONS {
                let what = format!("{mode:?}, prepared {prepared}, {steps:?}");
                let memory = new();
                let mut one = open(&memory, 1);
                one.set_mode(mode);
                commit(&mut one, &[page(1, 7), vec![0x55; 23 * PAGE]].concat());
                let before = whole(&one);
                let after = after(&before, steps);
                let trace = trace(&memory, || {
                    stage(&mut one, steps);
                    assert_eq!(whole(&one)[100..], after[100..], "{what}: staged");
                    if prepared {
                        one.prepare_for(b"a super-journal").unwrap();
                        memory.note(1);
                        one.commit_prepared().unwrap();
                    } else {
                        one.commit().unwrap();
                    }
                    memory.note(2);
                    // A crash point after the last fence needs another event.
                    media(&memory).side.store(SIDE - 8, 1);
                });
                assert_eq!(whole(&one)[100..], after[100..], "{what}: committed");
                check(&trace, prepared, &before, &after, &what);
            }
        }
    }
}

/// The frames of truncated pages may hold others, and theirs may lie past the end.
#[test]
fn zeros_lie_between_where_pages_have_moved() {
    const BYTES: usize = 512;
    let files = files_of_inserts();
    for mode in Mode::ALL {
        let memory = new();
        let mut one = open(&memory, 1);
        one.set_mode(mode);
        files.iter().for_each(|file| commit(&mut one, file));
        let moves = ![Mode::Lean, Mode::Full, Mode::Nvwal].contains(&mode);
        assert!(one.stats().moved > 10 || !moves, "{mode:?}");
        let before = whole(&one);
        let pages = before.len() / BYTES;
        for (cut, at) in [(4, pages - 1), (pages / 2, pages + 9), (2, pages / 3)] {
            let steps = [Truncate(cut * BYTES), Write(at * BYTES, BYTES)];
            let memory = Recording::from_image(&crate::store_kills::image(&memory), SIDE + DATA);
            let memory = memory.unwrap();
            let mut one = open(&memory, 1);
            one.set_mode(mode);
            let after = after(&before, &steps);
            let what = format!("{mode:?}, {cut}, {at}");
            let trace = trace(&memory, || {
                stage(&mut one, &steps);
                one.commit().unwrap();
                memory.note(2);
                media(&memory).side.store(SIDE - 8, 1);
            });
            let explored = Replay::new(&trace).explore(12, 1, |image, noted| {
                let found = recovered(image, Verdict::Discard)?;
                let gap = cut * BYTES..at * BYTES;
                let is_after = found.len() == after.len()
                    && found[gap.clone()] == after[gap]
                    && found[at * BYTES..] == after[at * BYTES..];
                let is_before = found.len() == before.len() && found[100..] == before[100..];
                if is_after || noted == 0 && is_before { Ok(()) } else { Err(what.clone()) }
            });
            assert_eq!(explored.failed, None);
        }
    }
}
