//! Each way to read what lies in a memory, in two threads, one of which stores: Miri is to see them
//! (`scripts/miri`).
//!
//! A read that is no atomic load is made under one of two protocols. *The lock* of the owner of the
//! bytes keeps stores to them out. *Publication*: bytes are written before the word that
//! leads to them is stored, and are stored to again only after everybody who may have read that word
//! has said, through a lock, that it does not need them any more; snapshots are read so.

use std::sync::atomic::Ordering::Acquire;
use std::sync::{Mutex, RwLock};
use std::thread;

use pm::{Dram, Memory, Off, Range, View};
use sim::{Arena, Emulated, Meter, MeterOptions, Recording};

const ROUNDS: u64 = if cfg!(miri) { 10 } else { 5_000 };
const WORDS: u64 = 24;
const BYTES: u64 = WORDS * 8;
/// The word that leads to what is published.
const ROOT: Off<u64> = Off::new(64);
const PLACES: [u64; 3] = [4096, 4096 + BYTES, 4096 + 2 * BYTES];
const LIMIT: u64 = 4 << 20;

/// Writes ascending words that tell the round.
fn write<M: Memory>(memory: &M, at: u64, round: u64) {
    let words: Vec<u8> =
        (0..WORDS).flat_map(|index| (round * 1000 + index).to_le_bytes()).collect();
    // One half as a bulk copy, the other one word by word.
    memory.copy(Off::new(at), &words[..BYTES as usize / 2]);
    for index in WORDS / 2..WORDS {
        memory.store(Off::new(at + index * 8), round * 1000 + index);
    }
}

/// Reads them in every way; returns the round.
fn read<M: Memory>(memory: &M, at: u64) -> u64 {
    let (range, last) = (Range::new(at, BYTES), WORDS - 1);
    let view = memory.view(range).unwrap();
    // They are looked at again when everything else has been read.
    let held = view.bytes(0, BYTES as usize);
    let round = view.word(0) / 1000;
    let newest = round * 1000 + last;
    assert_eq!(view.word(last as usize * 8), newest);
    assert_eq!(view.rank(0, WORDS as usize, round * 1000 + 5), 6);
    assert_eq!(view.matches(0, WORDS as usize / 2, round * 1000 + 6), 1 << 3);
    assert_eq!(memory.load(Off::new(at + last * 8), Acquire), Ok(newest));
    assert_eq!(memory.read(Off::<[u64; 2]>::new(at + BYTES - 16)), Ok([newest - 1, newest]));
    let (mut copied, mut gathered) = (vec![0; BYTES as usize], vec![0; BYTES as usize]);
    memory.read_into(Off::new(at), &mut copied).unwrap();
    let parts = [Range::new(at, 100), Range::new(at + 100, BYTES - 100)];
    memory.gather(&parts, &mut gathered).unwrap();
    assert!(held.equal(&copied) && held.equal(&gathered) && held.compare(&copied).is_eq());
    assert_eq!((held.to_vec(), held.byte(9)), (copied.clone(), copied[9]));
    assert_eq!(held.array::<12>(28), copied[28..40]);
    assert_eq!(held.arrays::<8>().map(u64::from_le_bytes).last(), Some(newest));
    held.get(8, BYTES as usize - 8).unwrap().copy_to(&mut gathered[8..]);
    assert_eq!(gathered, copied);
    round
}

fn under_a_lock<M: Memory>(memory: &M) {
    memory.grow(64 << 10).unwrap();
    let lock = RwLock::new(());
    write(memory, PLACES[0], 1);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 2..ROUNDS {
                let _alone = lock.write().unwrap();
                write(memory, PLACES[0], round);
            }
        });
        for _ in 0..ROUNDS {
            let _shared = lock.read().unwrap();
            read(memory, PLACES[0]);
        }
    });
}

/// The writer takes a place that is neither published nor being read, as one that commits takes
/// pages that no snapshot sees. Its stores go to the very lines in which others read.
fn published<M: Memory>(memory: &M) {
    memory.grow(64 << 10).unwrap();
    // Which places are being read. The root changes under the lock, too, as directories do.
    let reading = Mutex::new([0u32; PLACES.len()]);
    write(memory, PLACES[0], 1);
    memory.store(ROOT, PLACES[0]);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 2..ROUNDS {
                let root = memory.load(ROOT, Acquire).unwrap();
                let free = || {
                    let reading = reading.lock().unwrap();
                    (0..PLACES.len()).find(|place| PLACES[*place] != root && reading[*place] == 0)
                };
                let Some(place) = free() else { continue };
                write(memory, PLACES[place], round);
                let _changed = reading.lock().unwrap();
                memory.store(ROOT, PLACES[place]);
            }
        });
        let mut newest = 0;
        for _ in 0..ROUNDS {
            let mut places = reading.lock().unwrap();
            let root = memory.load(ROOT, Acquire).unwrap();
            let place = PLACES.iter().position(|place| *place == root).unwrap();
            places[place] += 1;
            drop(places);
            let round = read(memory, root);
            assert!(round >= newest, "round {round} after {newest}");
            newest = round;
            reading.lock().unwrap()[place] -= 1;
        }
    });
}

/// What is never taken back needs no lock: a thread that loads the word that leads to it may read it,
/// though the memory has grown for it.
fn grown<M: Memory>(memory: &M) {
    memory.grow(8 << 10).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..ROUNDS {
                let at = 4096 + round * BYTES;
                memory.grow(at + BYTES).unwrap();
                write(memory, at, round);
                memory.store(ROOT, at);
            }
        });
        for _ in 0..ROUNDS {
            match memory.load(ROOT, Acquire).unwrap() {
                0 => thread::yield_now(),
                at => assert_eq!(read(memory, at), (at - 4096) / BYTES),
            }
        }
    });
}

/// Words that both threads change.
fn exchanged<M: Memory>(memory: &M) {
    memory.grow(8 << 10).unwrap();
    let work = || {
        for _ in 0..ROUNDS {
            let mut old = memory.load(ROOT, Acquire).unwrap();
            while let Err(found) = memory.cas(ROOT, old, old + 1) {
                old = found;
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    assert_eq!(memory.load(ROOT, Acquire), Ok(2 * ROUNDS));
}

fn dram() -> Dram {
    Dram::new(LIMIT).unwrap()
}

fn recording() -> Recording {
    Recording::new(LIMIT).unwrap()
}

fn emulated() -> Emulated<Arena> {
    let options = MeterOptions { cache_bytes: 1 << 16, ..MeterOptions::default() };
    Emulated::new(Arena::new(4096, LIMIT).unwrap(), &Meter::new(options))
}

// A pool reads through the same mapping as these three.
#[test]
fn a_lock_keeps_stores_away_from_what_is_read() {
    under_a_lock(&dram());
    under_a_lock(&recording());
    under_a_lock(&emulated());
}

#[test]
fn published_bytes_are_read_during_stores_to_others() {
    published(&dram());
    published(&recording());
    published(&emulated());
}

#[test]
fn what_a_memory_has_grown_by_is_read_by_others() {
    grown(&dram());
    grown(&recording());
    grown(&emulated());
}

#[test]
fn words_are_exchanged() {
    exchanged(&dram());
    exchanged(&recording());
    exchanged(&emulated());
}
