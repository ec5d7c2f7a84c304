//! Prepared parts of a transaction in a store without SQLite: what a kill or a power cut at any point leaves, and what
//! commits after the recovery do to it.

use perdura_sqlite::store::connection::Store;
use perdura_sqlite::store::error::StoreError;
use perdura_sqlite::store::verdict::Verdict;
use sim::{Recording, Replay, Trace};

use crate::explore::{DATA, SIDE, SLOT, media};
use crate::store_kills::{commit, file_bytes, new, open, page, trace, whole};

const NAME: &[u8] = b"a super-journal";

/// Opens a store and decides about a prepared part.
fn decided(memory: &Recording, verdict: Verdict) -> Result<Store<Recording>, StoreError> {
    let decide = |name: &[u8]| {
        assert_eq!(name, NAME);
        Ok(verdict)
    };
    Store::open_and_decide(media(memory), file_bytes(memory), 2, SLOT, &decide)
}

fn copy_of(image: &[u8]) -> Recording {
    Recording::from_image(image, SIDE + DATA).unwrap()
}

/// The byte that fills page 1.
fn fill(store: &Store<Recording>) -> u8 {
    let bytes = whole(store);
    assert!(bytes[100..].iter().all(|byte| *byte == bytes[500]), "it is one of them, whole");
    bytes[500]
}

/// A trace of a part that is prepared after a commit filled with 7, and holds 8.
fn preparing() -> (Recording, Store<Recording>, Trace) {
    let memory = new();
    let mut one = open(&memory, 1);
    commit(&mut one, &page(1, 7));
    let trace = trace(&memory, || {
        one.write(0, &page(2, 8)).unwrap();
        one.prepare_for(NAME).unwrap();
        memory.note(1);
        media(&memory).side.store(SIDE - 8, 1);
    });
    (memory, one, trace)
}

/// Its number may be that of the part, or of one that was only announced; a file of the same name decides nothing
/// about it.
#[test]
fn commit_after_a_recovery_is_never_a_prepared_part() {
    let (_, _, trace) = preparing();
    let mut states = 0;
    let mut next = |image: &[u8], first: Verdict| {
        let memory = copy_of(image);
        commit(&mut decided(&memory, first).unwrap(), &page(5, 9));
        let again = decided(&memory, Verdict::Discard).unwrap();
        assert_eq!(fill(&again), 9, "{first:?}");
        states += 1;
    };
    for verdict in [Verdict::Discard, Verdict::Apply] {
        trace.process_states(|_, image| next(image, verdict));
        let explored = Replay::new(&trace).explore(8, 1, |image, _| {
            next(image, verdict);
            Ok(())
        });
        assert_eq!(explored.failed, None);
    }
    assert!(states > 200, "{states}");
}

/// A recovery that rolls a part back is final, although the super-journal is gone later, and so is one that is itself
/// cut off once another has ended.
#[test]
fn rolled_back_part_stays_rolled_back() {
    let (memory, _, _) = preparing();
    let whole = crate::store_kills::image(&memory);
    let memory = copy_of(&whole);
    let recovery = trace(&memory, || {
        assert_eq!(fill(&decided(&memory, Verdict::Discard).unwrap()), 7);
        memory.note(1);
        media(&memory).side.store(SIDE - 16, 1);
    });
    let check = |image: &[u8], noted: u64| {
        let memory = copy_of(image);
        if noted == 0 {
            // The super-journal stays until the recovery has ended.
            assert_eq!(fill(&decided(&memory, Verdict::Discard).unwrap()), 7);
        }
        let found = fill(&decided(&memory, Verdict::Apply).unwrap());
        if found == 7 { Ok(()) } else { Err(format!("noted {noted}: {found}")) }
    };
    let explored = Replay::new(&recovery).explore(60, 1, check);
    assert_eq!(explored.failed, None);
    assert!(explored.states > 3, "{explored:?}");
}

/// A part that counts is not undone by a later file of the same name: not once its owner, or a recovery, has applied it.
#[test]
fn applied_part_stays_applied() {
    let (memory, mut one, _) = preparing();
    let prepared = crate::store_kills::image(&memory);
    let by_owner = trace(&memory, || {
        one.commit_prepared().unwrap();
        memory.note(1);
        media(&memory).side.store(SIDE - 16, 1);
    });
    let memory = copy_of(&prepared);
    let by_recovery = trace(&memory, || {
        drop(decided(&memory, Verdict::Apply).unwrap());
        memory.note(1);
        media(&memory).side.store(SIDE - 16, 1);
    });
    for (what, trace) in [("the owner", by_owner), ("a recovery", by_recovery)] {
        let explored = Replay::new(&trace).explore(60, 1, |image, noted| {
            let verdict = if noted == 0 { Verdict::Apply } else { Verdict::Discard };
            let found = fill(&decided(&copy_of(image), verdict).unwrap());
            if found == 8 { Ok(()) } else { Err(format!("{what}, noted {noted}: {found}")) }
        });
        assert_eq!(explored.failed, None);
        assert!(explored.states > 3, "{what}: {explored:?}");
    }
}
