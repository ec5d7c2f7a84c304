//! Files of the traditional engines, and the pool with their description: each byte, every length.

use std::collections::BTreeMap;

use crate::support::{Driver, Model, Tables, schema, small_logs};
use perdura::{Concurrency, Database, DurableIn, EngineKind, Error, Options};
use sim::{Recorded, Recording, RecordingFiles};

use super::{KEYS, Outcome, Sweep, Truth, exercise, thorough};

type Files = BTreeMap<String, Vec<u8>>;

const LIMIT: u64 = 1 << 20;
const DATA_START: usize = 8192;

fn options(engine: EngineKind) -> Options {
    small_logs()
        .engine(engine)
        .tune("page_bytes", 512)
        .tune("cache_bytes", 64 << 10)
        .tune("memtable_bytes", 2 << 10)
        .tune("growth", 2)
        .tune("level0_runs", 2)
        .tune("block_bytes", 512)
        .tune("checkpoint_bytes", 8 << 10)
        .tune("wal_reserve_bytes", 3 << 10)
        .tune("buffer_bytes", 8 << 10)
        .tune("log_bytes", 128 << 10)
        .chunk_bytes(8 << 10)
}

/// A database as it was left: its files, its pool, and what was in it after each transaction.
struct Left {
    engine: EngineKind,
    closed: bool,
    /// One in so many more of the places of a paged engine's files, and of its log in the pool.
    one_in: usize,
    files: Files,
    pool: Vec<u8>,
    history: Vec<Model>,
}

impl Left {
    fn new(engine: EngineKind, closed: bool, one_in: usize) -> Self {
        let memory = Recording::pool(64 << 10, LIMIT).unwrap();
        let files = RecordingFiles::new();
        let media = faults::recorded(memory.clone(), files.clone());
        let db: Database<Recorded> =
            Database::create_on(media, &schema(), &options(engine)).unwrap();
        let (tables, mut driver) = (Tables::of(&db), Driver::new(7, KEYS));
        let mut history = vec![Model::default()];
        for transaction in 0..40 {
            let mut model = history[history.len() - 1].clone();
            if driver.transaction(&db, &tables, &mut model, 1 + transaction % 5).unwrap() {
                history.push(model);
            }
            if engine == EngineKind::Inp && transaction == 32 {
                db.checkpoint().unwrap();
            }
        }
        let mut image = files.image();
        if closed {
            db.close().unwrap();
            image = files.image();
        } else {
            let mut tx = db.begin().unwrap();
            let mut unfinished = history[history.len() - 1].clone();
            for _ in 0..6 {
                driver.operation(&mut tx, &tables, &mut unfinished).unwrap();
                image = files.image();
            }
            drop(tx);
            db.abandon();
        }
        let sizes: Vec<_> = image.iter().map(|(name, bytes)| (name, bytes.len())).collect();
        println!("{engine}: {sizes:?}");
        Self { engine, closed, one_in, files: image, pool: memory.contents(), history }
    }

    fn open(memory: Recording, files: &RecordingFiles) -> Result<Database<Recorded>, Error> {
        let options = small_logs().tune("buffer_bytes", 8 << 10);
        Database::open_on(faults::recorded(memory, files.clone()), &options)
    }

    fn use_it(&self, pool: &[u8], files: &Files, allowed: &[Model]) -> Outcome {
        let files = RecordingFiles::from_image(files.clone());
        let memory = Recording::from_image(pool, LIMIT).unwrap();
        let Ok(db) = Self::open(memory.clone(), &files) else { return Outcome::Refused };
        exercise(db, Truth::OneOf(allowed), || {
            // A log in the pool has gone on.
            let memory = Recording::from_image(&memory.contents(), LIMIT).unwrap();
            Self::open(memory, &files)
        })
    }

    /// Returns the contents that a database may have one of whose files is damaged, if it opens.
    /// The end of the newest segment of a log may be torn by a crash, and this does not show; so
    /// may the first copy of the master record of a commit that was not acknowledged.
    fn allowed(&self, name: &str) -> &[Model] {
        let newest = |prefix| self.files.keys().rfind(|name| name.starts_with(prefix));
        let last = self.history.len() - 1;
        match name.split('-').next() {
            Some("wal") if newest("wal").is_some_and(|newest| newest == name) => &self.history,
            // After the last synced group nothing was written, and a crash leaves the same.
            Some("paged") if !self.closed && name.contains("-log-") => &self.history[last - 1..],
            Some("cow") => &self.history[last - 1..],
            _ => &self.history[last..],
        }
    }

    fn with(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Outcome {
        let mut files = self.files.clone();
        change(files.get_mut(name).unwrap());
        self.use_it(&self.pool, &files, self.allowed(name))
    }

    /// Flips bits of every byte, one after the other.
    fn flip(&self, sweep: &mut Sweep, shift: usize) {
        // Most of a paged engine's log is no longer needed after a checkpoint.
        let step = match (thorough(), self.is_paged()) {
            (true, _) => 1,
            (false, true) => 61 * self.one_in,
            (false, false) => 29,
        };
        for (name, bytes) in &self.files {
            let used = |at: usize| {
                let near = at.saturating_sub(8)..bytes.len().min(at + 8);
                at.is_multiple_of(61) || bytes[near].iter().any(|byte| *byte != 0)
            };
            for at in (shift % step..bytes.len()).step_by(step).filter(|at| used(*at)) {
                let flip = if thorough() { 0xff } else { 1 << ((at / step + shift) % 8) };
                sweep.case(
                    || format!("byte {at} of {name} flipped by {flip:#x}"),
                    || self.with(name, |bytes| bytes[at] ^= flip),
                );
            }
        }
    }

    /// Cuts every file off at many lengths, and puts garbage after its end.
    fn cut(&self, sweep: &mut Sweep) {
        let step = match (thorough(), self.is_paged()) {
            (true, _) => 1,
            (false, true) => 397 * self.one_in,
            (false, false) => 127,
        };
        for (name, bytes) in &self.files {
            for len in (0..bytes.len()).step_by(step).chain([1, 512, bytes.len().saturating_sub(1)])
            {
                sweep.case(
                    || format!("{name} cut off at {len}"),
                    || self.with(name, |bytes| bytes.truncate(len)),
                );
            }
            for tail in [1, 16, 512, 5000] {
                for fill in [0, 1, 0xff] {
                    sweep.case(
                        || format!("{tail} bytes of {fill} behind {name}"),
                        || self.with(name, |bytes| bytes.resize(bytes.len() + tail, fill)),
                    );
                }
            }
            sweep.case(
                || format!("without {name}"),
                || {
                    let mut files = self.files.clone();
                    files.remove(name);
                    self.use_it(&self.pool, &files, self.allowed(name))
                },
            );
        }
    }

    fn is_paged(&self) -> bool {
        let traits = self.engine.traits();
        traits.concurrency == Concurrency::Shared && traits.needs_files()
    }

    /// Changes every word of the pool that is in use; of a log in it some.
    fn pool(&self, sweep: &mut Sweep, shift: usize) {
        let has_log = self.engine.traits().durable_in == DurableIn::Both;
        // After the last commit nothing was written, and a crash leaves the same.
        let lost = usize::from(has_log && !self.closed);
        let last = &self.history[self.history.len() - 1 - lost..];
        let step = if has_log && !thorough() { 8 * 11 * self.one_in } else { 8 };
        let places = (DATA_START..self.pool.len()).step_by(step);
        for at in places.filter(|at| self.pool[at & !63..][..64] != [0; 64]) {
            let kinds = [0, 1, u64::MAX, 1 << 63];
            let kinds = if thorough() { &kinds[..] } else { &kinds[(at / 8 + shift) % 4..][..1] };
            for flip in kinds {
                let mut pool = self.pool.clone();
                let word = pool[at..at + 8].first_chunk_mut().unwrap();
                *word = if *flip == 0 {
                    [0; 8]
                } else {
                    (u64::from_le_bytes(*word) ^ flip).to_le_bytes()
                };
                sweep.case(
                    || format!("word {at} of the pool flipped by {flip:#x}"),
                    || self.use_it(&pool, &self.files, last),
                );
            }
        }
    }
}

pub(crate) fn every_byte(engine: EngineKind) {
    every_byte_of(engine, 1);
}

fn every_byte_of(engine: EngineKind, one_in: usize) {
    for (closed, shift) in [(true, 0), (false, 1)] {
        let left = Left::new(engine, closed, one_in);
        let last = &left.history[left.history.len() - 1..];
        assert_eq!(left.use_it(&left.pool, &left.files, last), Outcome::Unnoticed, "sound");
        let name = if closed { "closed" } else { "killed" };
        let mut sweep = Sweep::new(format!("{}, {name}, flipped", left.engine));
        left.flip(&mut sweep, shift);
        sweep.finish(8);
        let mut sweep = Sweep::new(format!("{}, {name}, cut", left.engine));
        left.cut(&mut sweep);
        sweep.finish(8);
        let mut sweep = Sweep::new(format!("{}, {name}, pool", left.engine));
        left.pool(&mut sweep, shift);
        sweep.finish(20);
    }
}

#[test]
fn inp_survives_damage_of_every_byte() {
    every_byte(EngineKind::Inp);
}

#[test]
fn nv_disk_survives_damage_of_some_bytes() {
    every_byte_of(EngineKind::NvDisk, 15);
}

#[test]
fn nv_logging_survives_damage_of_every_byte() {
    every_byte_of(EngineKind::NvLoggingFoi, 23);
    every_byte_of(EngineKind::NvLoggingFoc, 23);
}
