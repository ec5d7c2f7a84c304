//! The bodies of the fuzz targets of pools and of JSON lines (`docs/reliability.md`), over the
//! corpus in the repository and over mutations of it. `PERDURA_MAKE_CORPUS=1` writes the seeds of
//! the corpus anew.

use std::fs;
use std::path::{Path, PathBuf};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

#[path = "../../../../fuzz/bodies/lines.rs"]
mod lines;
#[path = "../../../../fuzz/bodies/pool.rs"]
mod pool;

/// Mutations of each input.
const MUTATIONS: u64 = 100;

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

/// The inputs of a target, in the order of their names.
fn inputs(target: &str, seeds: &[Vec<u8>]) -> Vec<PathBuf> {
    if std::env::var_os("PERDURA_MAKE_CORPUS").is_some() {
        fs::create_dir_all(corpus(target)).unwrap();
        for (number, seed) in seeds.iter().enumerate() {
            fs::write(corpus(target).join(format!("seed-{number}")), seed).unwrap();
        }
    }
    let mut paths: Vec<_> =
        fs::read_dir(corpus(target)).unwrap().map(|file| file.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= seeds.len());
    paths
}

/// Bytes that mean something in JSON, and some that cannot be there.
const LETTERS: &[u8] = b"{}[]:,\"\\\n0189-+.eEnut \0\xff";

/// Text is cut, doubled, mixed with others', and has bytes changed to such as mean something.
fn mutate_text(random: &mut SmallRng, text: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..random.random_range(1..5) {
        if text.is_empty() {
            return;
        }
        let at = random.random_range(0..text.len());
        let end = text.len().min(at + random.random_range(1..30));
        match random.random_range(0..8) {
            0 => text[at] ^= 1 << random.random_range(0..8),
            1 => text[at] = LETTERS[random.random_range(0..LETTERS.len())],
            2 => text.truncate(at),
            3 => drop(text.drain(at..end)),
            4 => {
                let (part, to) = (text[at..end].to_vec(), random.random_range(0..text.len()));
                text.splice(to..to, part);
            }
            5 => {
                let from = random.random_range(0..other.len().max(1)).min(other.len());
                let until = other.len().min(from + 200);
                text.splice(at..at, other[from..until].iter().copied());
            }
            6 => {
                let number = [0, 1, 255, 256, 1 << 31, 1 << 53, u64::MAX];
                let number = number[random.random_range(0..number.len())].to_string();
                text.splice(at..at, number.into_bytes());
            }
            // The byte that says how it is loaded.
            _ => text[0] = random.random(),
        }
    }
}

#[test]
fn lines_of_the_corpus_and_mutations_of_them() {
    let paths = inputs("lines", &lines::seeds());
    let inputs: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    for (number, input) in inputs.iter().enumerate() {
        lines::lines(input);
        for round in 0..MUTATIONS {
            let seed = (number as u64) << 32 | round;
            let mut random = SmallRng::seed_from_u64(seed);
            let (mut mutated, other) = (input.clone(), random.random_range(0..inputs.len()));
            mutate_text(&mut random, &mut mutated, &inputs[other]);
            if std::panic::catch_unwind(|| lines::lines(&mutated)).is_err() {
                let text = String::from_utf8_lossy(&mutated);
                panic!("{}, seed {seed:#x}: {text:?}", paths[number].display());
            }
        }
    }
}

#[test]
fn pools_of_the_corpus_and_mutations_of_them() {
    let paths = inputs("pool", &pool::seeds());
    for (number, path) in paths.iter().enumerate() {
        let input = fs::read(path).unwrap();
        pool::pool(&input);
        for round in 0..MUTATIONS {
            let seed = (number as u64) << 32 | round;
            let mut random = SmallRng::seed_from_u64(seed);
            let mut mutated = input.clone();
            for _ in 0..random.random_range(1..6) {
                let value = [0, 1, u64::MAX, random.random(), random.random_range(0..40_000) * 8];
                mutated.extend_from_slice(&random.random::<u32>().to_le_bytes()[..3]);
                mutated.extend_from_slice(&value[random.random_range(0..5)].to_le_bytes());
            }
            if std::panic::catch_unwind(|| pool::pool(&mutated)).is_err() {
                panic!("{}, seed {seed:#x}: {mutated:02x?}", path.display());
            }
        }
    }
}
