//! Power cuts between any two calls to the medium, in transactions, checkpoints and evictions: what
//! was acknowledged is there, and nothing else but perhaps the transaction that was under way. And
//! power cuts after kills, and after calls that failed: what the next process reads and acts upon
//! need not be durable.

use std::collections::BTreeMap;

use paged::tree::Direction;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sim::{DiskReplay, RecordingFiles};

use super::support::{Model, TREES, TestSession, check, create, open, rows};

pub(crate) const FRAMES: usize = 16;
pub(crate) const PARTITION: u64 = 16 << 10;
const TRANSACTIONS: u64 = 40;

/// A run, and what each acknowledged transaction has left.
pub(crate) fn run() -> (sim::DiskTrace, Vec<[Model; 2]>) {
    let files = RecordingFiles::new();
    files.start();
    let store = create(&files, FRAMES, PARTITION);
    let mut random = StdRng::seed_from_u64(7);
    let mut models = vec![[Model::new(), Model::new()]];
    files.note(0);
    let mut session = store.session();
    for number in 0..TRANSACTIONS {
        session.begin(number, None);
        let mut model = models[models.len() - 1].clone();
        change(&mut session, &mut random, &mut model, number);
        if number % 7 == 3 {
            session.abort().expect("aborted");
            continue;
        }
        let at = session.commit().expect("committed");
        store.wait(at).expect("durable");
        models.push(model);
        files.note(models.len() as u64 - 1);
        if number % 9 == 8 {
            store.checkpoint().expect("a checkpoint");
        }
    }
    store.close().expect("closed");
    (files.stop(), models)
}

/// A random transaction on both; without its end.
pub(crate) fn change(
    session: &mut TestSession,
    random: &mut StdRng,
    model: &mut [Model; 2],
    number: u64,
) {
    for _ in 0..random.random_range(1..6) {
        let tree = random.random_range(0..2);
        let key = random.random_range(0..60u16).to_be_bytes().to_vec();
        let bytes = if random.random_ratio(1, 10) { 700 } else { 80 };
        let row = vec![number as u8; random.random_range(0..bytes)];
        if model[tree].contains_key(&key) {
            if random.random_ratio(1, 3) {
                session.delete(TREES[tree], &key).expect("deleted");
                model[tree].remove(&key);
            } else {
                session.update(TREES[tree], &key, &row).expect("updated");
                model[tree].insert(key, row);
            }
        } else {
            session.insert(TREES[tree], &key, &row).expect("inserted");
            model[tree].insert(key, row);
        }
    }
}

/// A run whose process is killed, or has a call that fails, in one of four commits, checkpoints and
/// what evicts; so is the next one when it recovers.
fn run_with_kills(seed: u64) -> (sim::DiskTrace, Vec<[Model; 2]>) {
    let files = RecordingFiles::new();
    files.start();
    let mut store = create(&files, FRAMES, PARTITION);
    let mut random = StdRng::seed_from_u64(seed);
    let mut models = vec![[Model::new(), Model::new()]];
    files.note(0);
    for number in 0..TRANSACTIONS {
        let before = models[models.len() - 1].clone();
        let (mut session, mut model) = (store.session(), before.clone());
        session.begin(number, None);
        change(&mut session, &mut random, &mut model, number);
        if number % 4 != 3 {
            let at = session.commit().expect("committed");
            store.wait(at).expect("durable");
            models.push(model);
            files.note(models.len() as u64 - 1);
            continue;
        }
        let call = random.random_range(0..14);
        if random.random_ratio(1, 3) {
            files.fail_once_after(call);
        } else {
            files.fail_after(Some(call));
        }
        let _ = session.commit().and_then(|at| store.wait(at)).and_then(|()| store.checkpoint());
        files.fail_after(Some(0));
        drop((session, store));
        files.fail_after(Some(random.random_range(0..12)));
        drop(open(&files, FRAMES, PARTITION));
        files.fail_after(None);
        store = open(&files, FRAMES, PARTITION).expect("recovered");
        let mut found = [Model::new(), Model::new()];
        for (tree, found) in TREES.into_iter().zip(&mut found) {
            found.extend(rows(&store, tree, Direction::Forward).expect("read"));
        }
        assert!(found == before || found == model, "transaction {number}");
        if found != before {
            models.push(found);
        }
        files.note(models.len() as u64 - 1);
    }
    store.close().expect("closed");
    (files.stop(), models)
}

#[test]
fn power_cuts_after_kills_leave_what_was_acknowledged() {
    let (mut states, mut points) = (0, 0);
    for seed in 0..6 {
        let (trace, models) = run_with_kills(seed);
        let mut replay = DiskReplay::new(&trace);
        while let Some(point) = replay.next_point() {
            points += 1;
            let (noted, position) = (point.last_note, point.position);
            let visited = point.for_each_state(8, seed, |image| {
                recovered(image, noted, &models)
                    .unwrap_or_else(|why| panic!("seed {seed}, before event {position}: {why}"));
            });
            states += visited.visited;
        }
    }
    println!("{points} crash points, {states} states");
    assert!(points > 600 && states > 2_000, "{points} points, {states} states");
}

fn recovered(
    image: &BTreeMap<String, Vec<u8>>,
    acknowledged: Option<u64>,
    models: &[[Model; 2]],
) -> Result<(), String> {
    let files = RecordingFiles::from_image(image.clone());
    let opened = open(&files, FRAMES, PARTITION);
    // Until it is created whole, nothing has to be there.
    let Some(first) = acknowledged else { return Ok(()) };
    let store = opened.map_err(|error| error.to_string())?;
    let first = first as usize;
    let mut found = [Model::new(), Model::new()];
    for (tree, model) in TREES.into_iter().zip(&mut found) {
        let rows = rows(&store, tree, Direction::Forward).map_err(|error| error.to_string())?;
        model.extend(rows);
    }
    if !models[first..].iter().take(2).any(|model| *model == found) {
        return Err(format!("what is found is not what transaction {first} or the next one left"));
    }
    check(&store, &found)?;
    drop(store);
    // Again, from what the first recovery has left without closing.
    let files = RecordingFiles::from_image(files.image());
    let store = open(&files, FRAMES, PARTITION).map_err(|error| error.to_string())?;
    check(&store, &found)
}

#[test]
fn power_cuts_leave_what_was_acknowledged() {
    let (trace, models) = run();
    let (mut states, mut points) = (0, 0);
    let mut replay = DiskReplay::new(&trace);
    while let Some(point) = replay.next_point() {
        points += 1;
        let (noted, position) = (point.last_note, point.position);
        let visited = point.for_each_state(24, 5, |image| {
            recovered(image, noted, &models)
                .unwrap_or_else(|why| panic!("before event {position}: {why}"));
        });
        states += visited.visited;
    }
    println!("{points} crash points, {states} states");
    assert!(points > 100 && states > 700, "{points} points, {states} states");
}

#[test]
fn kills_leave_what_was_acknowledged() {
    let (trace, models) = run();
    let mut states = 0;
    trace.process_states(|_, noted, image| {
        recovered(image, noted, &models).unwrap_or_else(|why| panic!("{why}"));
        states += 1;
    });
    assert!(states > 200, "{states}");
}
