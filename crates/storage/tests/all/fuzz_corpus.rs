//! The bodies of the fuzz targets of files (`docs/reliability.md`), over the corpus in the
//! repository and over mutations of it.
//!
//! `PERDURA_MAKE_CORPUS=1` writes the seeds of the corpus anew; what cargo-fuzz has found is added
//! to them by hand.

use std::fs;
use std::path::{Path, PathBuf};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

#[path = "../../../../fuzz/bodies/files.rs"]
mod files;

/// Mutations of each input.
const MUTATIONS: u64 = 400;

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

fn inputs(target: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> =
        fs::read_dir(corpus(target)).unwrap().map(|file| file.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn mutate(random: &mut SmallRng, input: &mut Vec<u8>) {
    for _ in 0..random.random_range(1..5) {
        if input.is_empty() {
            return;
        }
        let at = random.random_range(0..input.len());
        let end = input.len().min(at + random.random_range(1..20));
        match random.random_range(0..7) {
            0 => input[at] ^= 1 << random.random_range(0..8),
            1 => input[at] = random.random(),
            2 => input[at..end].fill([0, 1, 0x7f, 0xff][random.random_range(0..4)]),
            3 => input.truncate(at),
            4 => drop(input.drain(at..end)),
            5 => {
                let part = input[at..end].to_vec();
                let to = random.random_range(0..input.len());
                input.splice(to..to, part);
            }
            // Often enough the checksums are to be mended.
            _ => input[0] |= 1,
        }
    }
}

fn replay(target: &str, body: fn(&[u8])) {
    for (number, input) in inputs(target).iter().enumerate() {
        body(input);
        for round in 0..MUTATIONS {
            let seed = (number as u64) << 32 | round;
            let mut random = SmallRng::seed_from_u64(seed);
            let mut mutated = input.clone();
            mutate(&mut random, &mut mutated);
            if std::panic::catch_unwind(|| body(&mutated)).is_err() {
                panic!("{target}, seed {seed:#x}: {mutated:02x?}");
            }
        }
    }
}

#[test]
fn the_seeds_are_in_the_corpus() {
    for (target, seeds) in files::seeds() {
        if std::env::var_os("PERDURA_MAKE_CORPUS").is_some() {
            fs::create_dir_all(corpus(target)).unwrap();
            for (number, seed) in seeds.iter().enumerate() {
                fs::write(corpus(target).join(format!("seed-{number}")), seed).unwrap();
            }
        }
        assert!(inputs(target).len() >= seeds.len(), "{target}");
    }
}

#[test]
fn wal() {
    replay("wal", files::wal);
}

#[test]
fn checkpoint() {
    replay("checkpoint", files::checkpoint);
}

#[test]
fn sstable() {
    replay("sstable", files::sstable);
}

#[test]
fn manifest() {
    replay("manifest", files::manifest);
}
