//! The body of the fuzz target of pools (`docs/reliability.md`), over the corpus in the repository and
//! over mutations of it. `PERDURA_MAKE_CORPUS=1` writes the seeds of the corpus anew.

use std::fs;
use std::path::{Path, PathBuf};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

#[path = "../../../../fuzz/bodies/pool.rs"]
mod pool;

/// Mutations of each input.
const MUTATIONS: u64 = 100;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/pool")
}

#[test]
fn pools_of_the_corpus_and_mutations_of_them() {
    let seeds = pool::seeds();
    if std::env::var_os("PERDURA_MAKE_CORPUS").is_some() {
        fs::create_dir_all(corpus()).unwrap();
        for (number, seed) in seeds.iter().enumerate() {
            fs::write(corpus().join(format!("seed-{number}")), seed).unwrap();
        }
    }
    let mut paths: Vec<_> =
        fs::read_dir(corpus()).unwrap().map(|file| file.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= seeds.len());
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
