//! Prepared parts of a transaction in a store without SQLite: what a kill or a power cut at any point leaves, and what
//! commits after the recovery do to it.

use perdura_sqlite::store::connection::Store;
use perdura_sqlite::store::error::StoreError;
use perdura_sqlite::store::verdict::Verdict;
use sim::{Recording, Replay, Trace};

use crate::explore::{DATA, Reader, SIDE, SLOT, media};
use crate::store_kills::{
    PAGE, commit, file_bytes, files_of_inserts, image, new, open, page, refresh, trace, whole,
};

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

/// The granules from which on a commit goes page by page: none, and more than there are.
const STREAMED_FROM: [usize; 2] = [0, usize::MAX];

/// A trace of a part that is prepared after a commit filled with 7, and holds 8.
fn preparing(streamed_from: usize) -> (Recording, Store<Recording>, Trace) {
    let memory = new();
    let mut one = open(&memory, 1);
    one.set_streamed_from(streamed_from);
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
    STREAMED_FROM.into_iter().for_each(commit_after_recovery);
}

fn commit_after_recovery(streamed_from: usize) {
    let (_, _, trace) = preparing(streamed_from);
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

/// A recovery that rolls a part back is final, although the super-journal is gone later.
#[test]
fn recovery_that_rolls_a_part_back_is_final() {
    STREAMED_FROM.into_iter().for_each(final_recovery);
}

fn final_recovery(streamed_from: usize) {
    let (_, _, preparing) = preparing(streamed_from);
    let mut states = 0;
    // After a power cut the words of progress may be older than the part.
    let prepared = Replay::new(&preparing).explore(16, 1, |image, noted| {
        if noted == 0 {
            return Ok(());
        }
        let memory = copy_of(image);
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
        let explored = Replay::new(&recovery).explore(20, 1, check);
        states += explored.states;
        explored.failed.map_or(Ok(()), Err)
    });
    assert_eq!(prepared.failed, None);
    assert!(states > 10, "{states}");
}

/// Neither what the owner has rolled back counts later, nor is a commit before or after it lost.
#[test]
fn part_rolled_back_by_its_owner_stays_so() {
    STREAMED_FROM.into_iter().for_each(rolled_back_part);
}

fn rolled_back_part(streamed_from: usize) {
    let files = files_of_inserts();
    let memory = new();
    let mut one = open(&memory, 1);
    one.set_streamed_from(streamed_from);
    files[..40].iter().for_each(|file| commit(&mut one, file));
    // Each commit leaves stores whose flush is deferred, and each part repeats some of its lines.
    let trace = trace(&memory, || {
        for number in 40..60 {
            commit(&mut one, &files[number]);
            memory.note(2 * number as u64);
            one.write(0, &files[number + 100]).unwrap();
            one.prepare_for(NAME).unwrap();
            one.roll_back_prepared().unwrap();
            one.discard();
            memory.note(2 * number as u64 + 1);
        }
        media(&memory).side.store(SIDE - 16, 1);
    });
    let mut reader = Reader::new();
    let explored = Replay::new(&trace).explore(12, 1, |image, noted| {
        let memory = copy_of(image);
        // The super-journal is there after an even note.
        let verdict = if noted % 2 == 0 { Verdict::Discard } else { Verdict::Apply };
        let store = decided(&memory, verdict).map_err(|error| error.to_string())?;
        let found = reader.read(whole(&store))?.len() as u64;
        let wanted = (noted / 2).max(39) + 1;
        let next = noted == 0 || noted % 2 == 1;
        let right = found == wanted || next && found == wanted + 1;
        if right { Ok(()) } else { Err(format!("{found} rows, noted {noted}")) }
    });
    assert_eq!(explored.failed, None);
    assert!(explored.states > 300, "{explored:?}");
}

/// Others see no interrupted commit then.
#[test]
fn ended_part_leaves_no_commit_begun() {
    let ways = STREAMED_FROM.into_iter().flat_map(|from| [(from, false), (from, true)]);
    for (streamed_from, applies) in ways {
        let (memory, mut one, _) = preparing(streamed_from);
        let mut other = Store::attach(media(&memory), file_bytes(&memory)).unwrap();
        assert!(!refresh(&mut other, || file_bytes(&memory)), "it is prepared");
        if applies {
            one.commit_prepared().unwrap();
        } else {
            one.roll_back_prepared().unwrap();
            one.discard();
        }
        assert!(refresh(&mut other, || file_bytes(&memory)), "{applies}");
        assert_eq!(fill(&other), if applies { 8 } else { 7 });
        // The part's number and name stay in the side file, and mean nothing to later commits.
        commit(&mut one, &page(6, 9));
        let memory = copy_of(&image(&memory));
        let later = Store::open(media(&memory), file_bytes(&memory), 2, SLOT).unwrap();
        assert_eq!(fill(&later), 9, "{applies}");
    }
}

/// SQLite truncates the file after it has removed the super-journal.
#[test]
fn truncation_after_preparing_is_committed_next() {
    let memory = new();
    let mut one = open(&memory, 1);
    commit(&mut one, &[page(1, 7), vec![6; 5 * PAGE]].concat());
    one.write(0, &page(2, 8)).unwrap();
    one.prepare_for(NAME).unwrap();
    one.truncate(2 * PAGE as u64).unwrap();
    one.commit_prepared().unwrap();
    assert_eq!(one.size(), 2 * PAGE as u64, "it is staged");
    assert!(one.has_size_only());
    one.commit().unwrap();
    let memory = copy_of(&image(&memory));
    let found = whole(&Store::open(media(&memory), file_bytes(&memory), 2, SLOT).unwrap());
    assert_eq!(found[100..], [page(2, 8), vec![6; PAGE]].concat()[100..]);
}

/// A part that counts is not undone by a later file of the same name: not once its owner, or a recovery, has applied it.
#[test]
fn applied_part_stays_applied() {
    STREAMED_FROM.into_iter().for_each(applied_part);
}

fn applied_part(streamed_from: usize) {
    let (memory, mut one, _) = preparing(streamed_from);
    let prepared = image(&memory);
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
