//! Random transactions against a model, with aborts and reopenings, for every engine.

use crate::support::{Driver, Model, Tables, compare, schema};
use perdura::{Database, Domain, EngineKind, Options};

fn options(engine: EngineKind) -> Options {
    Options::new()
        .engine(engine)
        .domain(Domain::Process)
        .chunk_bytes(16 << 10)
        .checkpoint_bytes(256 << 10)
        .wal_reserve_bytes(64 << 10)
        .memtable_bytes(16 << 10)
        .growth(3)
        .level0_runs(2)
        .block_bytes(1 << 10)
        .cache_bytes(64 << 10)
        .pool_limit(1 << 30)
        .volatile_limit(1 << 30)
        // Small ones, so that there are many runs.
        .memtable_bytes(16 << 10)
        .growth(2)
}

fn run(engine: EngineKind, seed: u64, rounds: usize, keys: u64) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let mut db = Database::create(&path, &schema(), &options(engine)).unwrap();
    let mut driver = Driver::new(seed, keys);
    let mut model = Model::default();
    for round in 0..rounds {
        let tables = Tables::of(&db);
        for transaction in 0..60 {
            let operations = 1 + (transaction * 7 + round) % 90;
            driver.transaction(&db, &tables, &mut model, operations).unwrap();
        }
        compare(&db, &model);
        if round % 2 == 0 {
            db.close().unwrap();
        } else {
            // As after kill -9: nothing is finished or marked clean.
            db.abandon();
            let copy = directory.path().join(format!("copy-{round}"));
            copy_database(&path, &copy);
            db = Database::open(&copy, &Options::new()).unwrap();
            compare(&db, &model);
            db.close().unwrap();
            move_database(&copy, &path);
        }
        db = Database::open(&path, &options(engine)).unwrap();
        compare(&db, &model);
    }
}

fn files_of(path: &std::path::Path) -> std::path::PathBuf {
    std::path::PathBuf::from(format!("{}.files", path.display()))
}

fn copy_database(from: &std::path::Path, to: &std::path::Path) {
    std::fs::copy(from, to).unwrap();
    if files_of(from).exists() {
        std::fs::create_dir(files_of(to)).unwrap();
        for file in std::fs::read_dir(files_of(from)).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), files_of(to).join(file.file_name())).unwrap();
        }
    }
}

fn move_database(from: &std::path::Path, to: &std::path::Path) {
    std::fs::rename(from, to).unwrap();
    if files_of(from).exists() {
        std::fs::remove_dir_all(files_of(to)).unwrap();
        std::fs::rename(files_of(from), files_of(to)).unwrap();
    }
}

#[test]
fn nvm_inp_agrees_with_a_model() {
    for seed in 0..4 {
        println!("seed {seed}");
        run(EngineKind::NvmInp, seed, 12, [40, 400, 3000, 200][seed as usize]);
    }
}

#[test]
fn nvm_log_agrees_with_a_model() {
    for seed in 0..4 {
        println!("seed {seed}");
        run(EngineKind::NvmLog, seed, 12, [40, 400, 3000, 200][seed as usize]);
    }
}

#[test]
fn inp_agrees_with_a_model() {
    for seed in 0..4 {
        println!("seed {seed}");
        run(EngineKind::Inp, seed, 12, [40, 400, 3000, 200][seed as usize]);
    }
}

#[test]
fn cow_agrees_with_a_model() {
    for seed in 0..4 {
        println!("seed {seed}");
        run(EngineKind::Cow, seed, 12, [40, 400, 3000, 200][seed as usize]);
    }
}

#[test]
fn nvm_cow_agrees_with_a_model() {
    for seed in 0..4 {
        println!("seed {seed}");
        run(EngineKind::NvmCow, seed, 12, [40, 400, 3000, 200][seed as usize]);
    }
}

#[test]
fn log_agrees_with_a_model() {
    for seed in 0..4 {
        println!("seed {seed}");
        run(EngineKind::Log, seed, 12, [40, 400, 3000, 200][seed as usize]);
    }
}
