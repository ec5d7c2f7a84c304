//! Kills and power cuts within an abort, and within that of a part: what was undone is undone, what
//! was not yet is undone by the restart, and nothing twice. The transaction is larger than the
//! buffer pool, so that pages with its changes lie on the medium.

use sim::{DiskReplay, DiskTrace, RecordingFiles};

use super::support::{Model, TREES, check, create, open};

const FRAMES: usize = 16;
const PARTITION: u64 = 128 << 10;
const ROWS: u16 = 120;

fn key(number: u16) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// Rows that are there, and a transaction that changes, deletes and inserts more than fits the
/// pool, goes back to a savepoint and is undone. The note 1 says that the rows are there, 2 that it
/// is over.
fn run() -> (DiskTrace, [Model; 2]) {
    let files = RecordingFiles::new();
    files.start();
    let store = create(&files, FRAMES, PARTITION);
    let mut model = Model::new();
    let mut session = store.session();
    session.begin(1, None);
    for number in (0..ROWS).step_by(2) {
        let row = vec![number as u8; 100 + usize::from(number % 40)];
        session.insert(TREES[0], &key(number), &row).expect("inserted");
        model.insert(key(number), row);
    }
    let at = session.commit().expect("committed");
    store.wait(at).expect("durable");
    files.note(1);
    session.begin(2, None);
    let mut savepoint = None;
    for number in 0..ROWS {
        if number == ROWS / 2 {
            savepoint = Some(session.savepoint());
        }
        match number % 4 {
            0 => session.update(TREES[0], &key(number), &[7; 150]).expect("updated"),
            2 => session.delete(TREES[0], &key(number)).expect("deleted"),
            _ => session.insert(TREES[0], &key(number), &[9; 120]).expect("inserted"),
        }
        session.insert(TREES[1], &key(number), &[8; 90]).expect("inserted");
    }
    let evictions = store.pool_stats().evictions;
    assert!(evictions > 100, "the transaction fits the pool: {evictions} evictions");
    session.rollback_to(savepoint.expect("half of it")).expect("rolled back");
    session.abort().expect("aborted");
    store.sync().expect("durable");
    files.note(2);
    let models = [model, Model::new()];
    check(&store, &models).expect("as before");
    (files.stop(), models)
}

fn recovered(image: &std::collections::BTreeMap<String, Vec<u8>>, models: &[Model; 2]) {
    let files = RecordingFiles::from_image(image.clone());
    let store = open(&files, FRAMES, PARTITION).expect("opened");
    check(&store, models).expect("as before");
    drop(store);
    // Again, from what the first restart has left without closing.
    let files = RecordingFiles::from_image(files.image());
    check(&open(&files, FRAMES, PARTITION).expect("opened again"), models).expect("as before");
}

#[test]
fn a_kill_within_an_abort_is_undone_by_the_restart() {
    let (trace, models) = run();
    let (mut points, mut states) = (0_u64, 0_u64);
    trace.process_states(|_, noted, image| {
        let is_within = noted.is_some();
        points += u64::from(is_within);
        if is_within && points.is_multiple_of(5) {
            states += 1;
            recovered(image, &models);
        }
    });
    println!("{states} states");
    assert!(states > 40, "{states}");
}

#[test]
fn a_power_cut_within_an_abort_is_undone_by_the_restart() {
    let (trace, models) = run();
    let (mut points, mut states, mut replay) = (0_u64, 0, DiskReplay::new(&trace));
    while let Some(point) = replay.next_point() {
        let is_within = point.last_note.is_some();
        points += u64::from(is_within);
        if is_within && points.is_multiple_of(3) {
            states += point.for_each_state(4, 5, |image| recovered(image, &models)).visited;
        }
    }
    println!("{states} states");
    assert!(states > 40, "{states}");
}
