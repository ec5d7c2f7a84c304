//! Any call to the medium fails once, and the program begins anew in the same kernel.

use std::sync::Arc;

use paged::Result;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sim::{DiskReplay, RecordingFiles};

use super::support::{Model, TREES, TestStore, check, create, open};

const FRAMES: usize = 12;
const PARTITION: u64 = 16 << 10;
const TRANSACTIONS: u64 = 50;

/// Does transactions until one fails; returns what the acknowledged ones have left, and what the
/// next one would have. A statement that fails is undone alone, and its transaction goes on.
fn run(store: &Arc<TestStore>, random: &mut StdRng) -> Result<[[Model; 2]; 2]> {
    let mut before = [Model::new(), Model::new()];
    let mut session = store.session();
    for number in 0..TRANSACTIONS {
        session.begin(number, None);
        let mut model = before.clone();
        for _ in 0..random.random_range(1..6) {
            let tree = random.random_range(0..2);
            let key = random.random_range(0..40_u8);
            let bytes = if random.random_ratio(1, 8) { 900 } else { 80 };
            let row = vec![number as u8; random.random_range(0..bytes)];
            let savepoint = session.savepoint();
            let done = match model[tree].contains_key(&[key][..]) {
                true if random.random_ratio(1, 3) => {
                    session.delete(TREES[tree], &[key]).map(|()| model[tree].remove(&[key][..]))
                }
                true => session
                    .update(TREES[tree], &[key], &row)
                    .map(|()| model[tree].insert(vec![key], row)),
                false => session
                    .insert(TREES[tree], &[key], &row)
                    .map(|()| model[tree].insert(vec![key], row)),
            };
            if done.is_err() && session.rollback_to(savepoint).is_err() {
                // There may be a part of the statement.
                assert!(session.commit().is_err(), "a part of a statement is committed");
                return Ok([before.clone(), before]);
            }
        }
        let is_durable = session.commit().and_then(|at| store.wait(at));
        if is_durable.is_err() {
            return Ok([before, model]);
        }
        before = model;
        if number % 8 == 7 && store.checkpoint().is_err() {
            break;
        }
    }
    Ok([before.clone(), before])
}

/// Returns false if there are not so many calls.
fn fail(calls: u64) -> bool {
    let files = RecordingFiles::new();
    files.start();
    let store = create(&files, FRAMES, PARTITION);
    files.fail_once_after(calls);
    let left = run(&store, &mut StdRng::seed_from_u64(3)).expect("it runs");
    if files.will_fail() {
        return false;
    }
    drop(store);
    let store = open(&files, FRAMES, PARTITION).unwrap_or_else(|error| panic!("{calls}: {error}"));
    let found = left.iter().find(|model| check(&store, model).is_ok());
    let found = found.unwrap_or_else(|| panic!("call {calls}: {:?}", check(&store, &left[0])));
    store.checkpoint().expect("a checkpoint");
    files.note(1);
    drop(store);
    let trace = files.stop();
    let mut replay = DiskReplay::new(&trace);
    while let Some(point) = replay.next_point() {
        if point.last_note == Some(1) {
            point.for_each_state(6, calls, |image| {
                let files = RecordingFiles::from_image(image.clone());
                let again = open(&files, FRAMES, PARTITION).map_err(|error| error.to_string());
                again
                    .and_then(|store| check(&store, found))
                    .unwrap_or_else(|why| panic!("call {calls}, after a power cut: {why}"));
            });
        }
    }
    true
}

#[test]
fn a_call_that_fails_once_loses_nothing_that_was_acknowledged() {
    let calls = (0..).step_by(5).take_while(|calls| fail(*calls)).count();
    assert!(calls > 50, "{calls}");
}
