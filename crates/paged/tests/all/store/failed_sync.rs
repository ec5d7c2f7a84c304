//! A sync fails, the program ends, and begins again in the same kernel: what it reads then is not
//! what the medium has.

use std::sync::Arc;

use sim::{DiskReplay, RecordingFiles};

use super::support::{Model, TREES, TestStore, check, create, open};

const FRAMES: usize = 32;
const PARTITION: u64 = 16 << 10;

/// Gives keys of the first tree other rows, durably.
fn write(store: &Arc<TestStore>, model: &mut Model, keys: std::ops::Range<u8>) {
    let mut session = store.session();
    for key in keys {
        session.begin(0, None);
        let row = vec![key ^ model.len() as u8; 60];
        if model.insert(vec![key], row.clone()).is_none() {
            session.insert(TREES[0], &[key], &row).expect("inserted");
        } else {
            session.update(TREES[0], &[key], &row).expect("updated");
        }
        let at = session.commit().expect("committed");
        store.wait(at).expect("durable");
    }
}

/// Lets the call of this number in a checkpoint fail. Returns false if there are not so many.
fn fail(calls: u64) -> bool {
    let files = RecordingFiles::new();
    files.start();
    let (store, mut model) = (create(&files, FRAMES, PARTITION), Model::new());
    write(&store, &mut model, 0..40);
    store.checkpoint().expect("a checkpoint");
    write(&store, &mut model, 20..60);
    files.fail_once_after(calls);
    let failed = store.checkpoint();
    if files.will_fail() {
        return false;
    }
    assert!(failed.is_err(), "call {calls}");
    drop(store);
    let store = open(&files, FRAMES, PARTITION).unwrap_or_else(|error| panic!("{calls}: {error}"));
    // The log lets go of what the pages are taken to have.
    store.checkpoint().expect("a checkpoint");
    files.note(1);
    drop(store);
    let trace = files.stop();
    let models = [model, Model::new()];
    let (mut replay, mut states) = (DiskReplay::new(&trace), 0);
    while let Some(point) = replay.next_point() {
        if point.last_note != Some(1) {
            continue;
        }
        let seen = point.for_each_state(24, calls, |image| {
            let files = RecordingFiles::from_image(image.clone());
            let recovered = open(&files, FRAMES, PARTITION).map_err(|error| error.to_string());
            recovered
                .and_then(|store| check(&store, &models))
                .unwrap_or_else(|why| panic!("call {calls}: {why}"));
        });
        states += seen.visited;
    }
    assert!(states > 0, "call {calls}");
    true
}

#[test]
fn what_the_kernel_takes_for_written_is_written_once_more() {
    let calls = (0..).take_while(|calls| fail(*calls)).count();
    assert!(calls > 10, "{calls}");
}
