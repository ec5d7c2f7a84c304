//! Random transactions against a model: commits, aborts, savepoints, and openings after a kill.

use std::collections::btree_map::Entry;

use paged::PagedError;
use paged::store::{RowBound, RowRange};
use paged::tree::Direction;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sim::RecordingFiles;

use super::support::{Model, TREES, TestSession, check, create, open};

fn key(random: &mut StdRng) -> Vec<u8> {
    let number: u16 = random.random_range(0..400);
    let mut key = number.to_be_bytes().to_vec();
    key.resize(2 + usize::from(number % 23), b'k');
    key
}

fn row(random: &mut StdRng) -> Vec<u8> {
    // Some rows are longer than a quarter of a page, and lie in chains.
    let most = if random.random_ratio(1, 12) { 900 } else { 60 };
    let bytes = random.random_range(0..most);
    (0..bytes).map(|_| random.random()).collect()
}

/// Does a random operation in a session and in the model, and compares what they say.
fn step(random: &mut StdRng, session: &mut TestSession, models: &mut [Model; 2]) {
    let number = random.random_range(0..2);
    let (tree, model) = (TREES[number], &mut models[number]);
    let key = key(random);
    match random.random_range(0..10) {
        0..4 => {
            let row = row(random);
            let done = session.insert(tree, &key, &row);
            match model.entry(key) {
                Entry::Occupied(_) => {
                    assert!(matches!(done, Err(PagedError::Duplicate)), "{done:?}");
                }
                Entry::Vacant(vacant) => {
                    done.expect("inserted");
                    vacant.insert(row);
                }
            }
        }
        4..6 => {
            let row = row(random);
            let done = session.update(tree, &key, &row);
            match model.get_mut(&key) {
                Some(before) => {
                    done.expect("updated");
                    *before = row;
                }
                None => assert!(matches!(done, Err(PagedError::Missing)), "{done:?}"),
            }
        }
        6..8 => {
            let done = session.delete(tree, &key);
            match model.remove(&key) {
                Some(_) => done.expect("deleted"),
                None => assert!(matches!(done, Err(PagedError::Missing)), "{done:?}"),
            }
        }
        8 => assert_eq!(session.get(tree, &key).expect("read").as_ref(), model.get(&key)),
        _ => {
            let low = &key[..2];
            let high = (u16::from_be_bytes([low[0], low[1]]) + 30).to_be_bytes();
            let range = RowRange { low: RowBound::Included(low), high: RowBound::Excluded(&high) };
            let backward = random.random();
            let direction = if backward { Direction::Backward } else { Direction::Forward };
            let mut found = Vec::new();
            let visited = session.scan(tree, &range, direction, &mut |key, row| {
                found.push((key.to_vec(), row.to_vec()));
                Ok(true)
            });
            visited.expect("scanned");
            let mut wanted: Vec<_> = model
                .range(low.to_vec()..high.to_vec())
                .map(|(key, row)| (key.clone(), row.clone()))
                .collect();
            if backward {
                wanted.reverse();
            }
            assert_eq!(found, wanted);
        }
    }
}

#[test]
fn transactions_commit_abort_and_go_back_as_in_a_model() {
    for (seed, frames) in [(1, 16), (2, 16), (3, 64), (4, 24)] {
        let mut files = RecordingFiles::new();
        let mut store = create(&files, frames, 64 << 10);
        let mut random = StdRng::seed_from_u64(seed);
        let mut models = [Model::new(), Model::new()];
        for round in 0..12 {
            let mut session = store.session();
            for age in 0..40 {
                session.begin(age, None);
                let before = models.clone();
                let mut saved = None;
                for _ in 0..random.random_range(1..12) {
                    step(&mut random, &mut session, &mut models);
                    if random.random_ratio(1, 6) {
                        saved = Some((session.savepoint(), models.clone()));
                    }
                }
                if let Some((savepoint, then)) = saved
                    && random.random()
                {
                    session.rollback_to(savepoint).expect("rolled back");
                    models = then;
                }
                if random.random_ratio(1, 4) {
                    session.abort().expect("aborted");
                    models = before;
                } else {
                    let committed = session.commit().expect("committed");
                    store.wait(committed).expect("durable");
                }
            }
            // Unfinished when the process dies: nothing of it is there afterwards.
            session.begin(99, None);
            let before = models.clone();
            for _ in 0..round {
                step(&mut random, &mut session, &mut models);
            }
            models = before;
            if round % 3 == 2 {
                session.abort().expect("aborted");
                store.close().expect("closed");
            } else {
                std::mem::forget(session);
            }
            files = RecordingFiles::from_image(files.image());
            store = open(&files, frames, 64 << 10).expect("opened");
            check(&store, &models).unwrap_or_else(|why| panic!("seed {seed}, {round}: {why}"));
            drop(store);
            store = open(&files, frames, 64 << 10).expect("opened again");
            check(&store, &models).unwrap_or_else(|why| panic!("seed {seed}, {round}: {why}"));
        }
    }
}
