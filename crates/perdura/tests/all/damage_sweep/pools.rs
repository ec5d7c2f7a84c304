//! Pools of the NVM engines: each word of the lines in use.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::{Driver, Model, Tables, schema, small_logs};
use perdura::{Database, EngineKind, Error, Options};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::{Recorded, Recording, RecordingFiles};

use super::{KEYS, Outcome, Sweep, Truth, exercise, thorough};

const LIMIT: u64 = 1 << 22;
/// After the pool's header, whose damage is in `bad_pool.rs`.
const DATA_START: usize = 8192;
/// Images of a killed database.
const KILLED: usize = 12;

fn options(engine: EngineKind) -> Options {
    small_logs()
        .engine(engine)
        .chunk_bytes(8 << 10)
        .tune("node_bytes", 128)
        .tune("tree_node_bytes", 128)
        .tune("page_bytes", 512)
        .tune("memtable_bytes", 2 << 10)
        .tune("growth", 2)
        .tune("level0_runs", 2)
        .tune("most_rows", 64)
        .tune("reserve", 16)
        .tune("slots", 4)
}

fn open(image: &[u8]) -> Result<(Database<Recorded>, Recording), Error> {
    let memory = Recording::pool_from_image(image, LIMIT).unwrap();
    let media = faults::recorded(memory.clone(), RecordingFiles::new());
    // A mark that damage has left for ever is in conflict with every change.
    let options = small_logs().retry_for(Duration::ZERO);
    Ok((Database::open_on(media, &options)?, memory))
}

/// The pool of a database that was closed, and pools that kills of the process leave in the course
/// of the last transactions.
fn images(engine: EngineKind) -> (Vec<u8>, Vec<Vec<u8>>) {
    let memory = Recording::pool(64 << 10, LIMIT).unwrap();
    let media = faults::recorded(memory.clone(), RecordingFiles::new());
    let db: Database<Recorded> = Database::create_on(media, &schema(), &options(engine)).unwrap();
    let (tables, mut driver, mut model) = (Tables::of(&db), Driver::new(5, KEYS), Model::default());
    let mut run = |many: usize| {
        for transaction in 0..many {
            driver.transaction(&db, &tables, &mut model, 1 + transaction % 9).unwrap();
        }
    };
    run(30);
    memory.start();
    run(12);
    let trace = memory.stop();
    db.close().unwrap();
    let mut killed = Vec::new();
    let wanted: BTreeSet<usize> =
        (0..KILLED).map(|number| trace.events.len() * (2 * number + 1) / (2 * KILLED)).collect();
    let mut next = wanted.into_iter().peekable();
    trace.process_states(|event, image| {
        if next.next_if(|wanted| *wanted <= event).is_some() {
            killed.push(image.to_vec());
        }
    });
    (memory.contents(), killed)
}

/// The words of the lines that are in use in any of these pools.
fn words(images: &[Vec<u8>]) -> Vec<usize> {
    let mut lines = BTreeSet::new();
    for image in images {
        let (all, _) = image.as_chunks::<64>();
        let used = all.iter().enumerate().filter(|(_, line)| **line != [0; 64]);
        lines.extend(used.map(|(number, _)| number * 64));
    }
    let within = |line: &usize| *line >= DATA_START;
    lines.into_iter().filter(within).flat_map(|line| (line..line + 64).step_by(8)).collect()
}

/// Values that a word is given in place of the one that it has.
const VALUES: usize = 10;

fn value(kind: usize, old: u64, (other, next): (u64, u64), size: u64) -> u64 {
    [
        0,
        1,
        u64::MAX,
        old ^ 1 << 63,
        other,
        old.wrapping_add(64),
        old ^ 1 << (other % 64),
        size - 64,
        65_535,
        // In a node the next entry's key, so that two are equal, or the next child.
        next,
    ][kind]
}

/// `shift`: which of its values a place gets.
fn sweep(name: &str, engine: EngineKind, images: &[Vec<u8>], shift: usize, one_in: usize) {
    let mut sweep = Sweep::new(format!("{engine}, {name}"));
    let words = words(images);
    let mut random = SmallRng::seed_from_u64(shift as u64);
    let (per_place, step) = if thorough() { (VALUES, 1) } else { (1, 5 * one_in) };
    for (number, at) in words.iter().copied().enumerate().skip(shift % step).step_by(step) {
        for kind in (0..per_place).map(|kind| (number + number / VALUES + shift + kind) % VALUES) {
            let image = &images[random.random_range(0..images.len())];
            let from = words[random.random_range(0..words.len())];
            let (Some(old), Some(other)) = (word(image, at), word(image, from)) else { continue };
            let next = word(image, at + 16).unwrap_or(0);
            let new = value(kind, old, (other, next), image.len() as u64);
            if new == old {
                continue;
            }
            let case = || format!("{new:#x} for {old:#x} at {at:#x}");
            sweep.case(case, || {
                let mut image = image.clone();
                image[at..at + 8].copy_from_slice(&new.to_le_bytes());
                use_it(&image)
            });
        }
    }
    sweep.finish(20);
}

fn word(image: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*image.get(at..)?.first_chunk()?))
}

fn use_it(image: &[u8]) -> Outcome {
    let Ok((db, memory)) = open(image) else { return Outcome::Refused };
    exercise(db, Truth::Anything, || Ok(open(&memory.contents())?.0))
}

/// Lines, nodes and runs of bytes that are torn, swapped or filled, several at once.
fn tangle(name: &str, engine: EngineKind, images: &[Vec<u8>], rounds: u64) {
    let mut sweep = Sweep::new(format!("{engine}, {name}"));
    let words = words(images);
    for round in 0..rounds * if thorough() { 20 } else { 1 } {
        let mut random = SmallRng::seed_from_u64(round);
        let mut image = images[round as usize % images.len()].clone();
        for _ in 0..random.random_range(1..5) {
            let mut place = || words[random.random_range(0..words.len())].min(image.len() - 512);
            let (at, from) = (place(), place());
            let bytes = [8, 16, 64, 128, 256][random.random_range(0..5)];
            match random.random_range(0..4) {
                0 => image[at..at + bytes].fill([0, 1, 0xff][random.random_range(0..3)]),
                1 => image.copy_within(from..from + bytes, at),
                2 => image.copy_within(from & !63..(from & !63) + bytes, at & !63),
                _ => image[at + random.random_range(0..8)] ^= 1 << random.random_range(0..8),
            }
        }
        sweep.case(|| format!("round {round}"), || use_it(&image));
    }
    sweep.finish(4);
}

/// Every pointer leads to where it stands itself, to what the pointer before it leads to, and to
/// nodes of other trees and levels: cycles, and nodes with two parents.
fn cross(name: &str, engine: EngineKind, images: &[Vec<u8>], one_in: usize) {
    let step = 11 * one_in;
    let mut sweep = Sweep::new(format!("{engine}, {name}"));
    for (number, image) in images.iter().enumerate() {
        let pointers: Vec<(usize, u64)> = words(std::slice::from_ref(image))
            .into_iter()
            .filter_map(|at| Some((at, word(image, at)?)))
            .filter(|(_, to)| {
                to.is_multiple_of(64) && (DATA_START as u64..image.len() as u64).contains(to)
            })
            .collect();
        for (place, (at, to)) in pointers.iter().enumerate().skip(number % 11) {
            if !thorough() && place % step != number % step {
                continue;
            }
            let before = pointers[place.saturating_sub(1)].1;
            let far = pointers[(place * 7 + 3) % pointers.len()].1;
            for new in [(*at & !63) as u64, before, far] {
                if new == *to {
                    continue;
                }
                sweep.case(
                    || format!("image {number}: pointer at {at:#x} to {new:#x}, not {to:#x}"),
                    || {
                        let mut image = image.clone();
                        image[*at..at + 8].copy_from_slice(&new.to_le_bytes());
                        use_it(&image)
                    },
                );
            }
        }
    }
    sweep.finish(8);
}

/// Returns where a name's root stands in the root directory (`docs/format/heap.md`).
fn root_cells(image: &[u8]) -> Vec<usize> {
    let entries = (DATA_START + 128..DATA_START + 4096).step_by(64);
    entries.filter(|at| image[at + 56..at + 64] == *b"NAME SET").map(|at| at + 48).collect()
}

/// Bad input 8: roots that lead nowhere.
fn roots(engine: EngineKind, image: &[u8]) {
    let mut sweep = Sweep::new(format!("{engine}, roots"));
    let size = image.len() as u64;
    for at in root_cells(image) {
        let sound = word(image, at).unwrap();
        let bad = [0, 1, sound + 1, sound + 8, size, size - 8, size + 64, 1 << 63, u64::MAX - 63];
        for new in bad.into_iter().chain((1..40).map(|back| 0u64.wrapping_sub(back * 8))) {
            sweep.case(
                || format!("root {new:#x} at {at:#x}"),
                || {
                    let mut image = image.to_vec();
                    image[at..at + 8].copy_from_slice(&new.to_le_bytes());
                    let outcome = use_it(&image);
                    assert_ne!(outcome, Outcome::Unnoticed, "there is nothing");
                    outcome
                },
            );
        }
    }
    sweep.finish(1);
}

/// Numbers of a run from which sizes are computed: a filter of half the memory that there is, or
/// sums that overflow.
#[test]
fn impossible_sizes_of_runs_are_refused() {
    let (_, killed) = images(EngineKind::NvmLog);
    let mut sweep = Sweep::new("sizes of runs".into());
    for image in &killed {
        // Some of them are not in use any more.
        let starts = (DATA_START..image.len()).step_by(64);
        let runs = starts.filter(|at| image[*at..*at + 8] == *b"PDRUN001");
        for (run, word) in runs.flat_map(|run| [(run, 8), (run, 16)]) {
            for size in [u64::MAX, u64::MAX - 100, 1 << 63, 1 << 50] {
                sweep.case(
                    || format!("{size:#x} in word {word} of the run at {run:#x}"),
                    || {
                        let mut image = image.clone();
                        image[run + word..run + word + 8].copy_from_slice(&size.to_le_bytes());
                        use_it(&image)
                    },
                );
            }
        }
    }
    sweep.finish(100);
}

pub(crate) fn every_word(engine: EngineKind) {
    words_of(engine, 1);
}

/// One in so many of the cases of [`every_word`].
fn words_of(engine: EngineKind, one_in: usize) {
    let (closed, killed) = images(engine);
    sound(&closed);
    killed.iter().for_each(|image| sound(image));
    roots(engine, &closed);
    cross("crossed", engine, &killed, one_in);
    sweep("closed", engine, std::slice::from_ref(&closed), 0, one_in);
    sweep("killed", engine, &killed, 3, one_in);
    tangle("closed, tangled", engine, &[closed], 300 / one_in as u64);
    tangle("killed, tangled", engine, &killed, 300 / one_in as u64);
}

fn sound(image: &[u8]) {
    assert_eq!(use_it(image), Outcome::Unnoticed, "a sound pool works");
}

#[test]
fn nvm_inp_survives_damage_of_some_words() {
    words_of(EngineKind::NvmInp, 4);
}

#[test]
fn fast_survives_damage_of_some_words() {
    words_of(EngineKind::Fast, 4);
}
