//! A second simulator of a cache, which shares nothing with the emulator's: lines are known by
//! address, the least recently used one is found by its time stamp, and what happens is read from a
//! trace of loads and stores as valgrind's lackey prints it.

use std::fs;
use std::io::{self, BufRead, Read};
use std::path::Path;

/// Bytes of the trace that are taken at a time.
const BATCH: usize = 1 << 16;

/// One line of a set.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// Address of the line; 0 is none.
    line: u64,
    used: u64,
    modified: bool,
}

#[derive(Default)]
struct Tally {
    load_misses: u64,
    store_misses: u64,
    evicted: u64,
    flushed: u64,
}

struct Simulator {
    slots: Vec<Slot>,
    ways: usize,
    sets: u64,
    now: u64,
    keep: bool,
    tally: Tally,
}

impl Simulator {
    fn set(&mut self, line: u64) -> &mut [Slot] {
        let start = (line / 64 % self.sets) as usize * self.ways;
        &mut self.slots[start..start + self.ways]
    }

    fn access(&mut self, line: u64, store: bool) {
        self.now += 1;
        let now = self.now;
        let set = self.set(line);
        if let Some(slot) = set.iter_mut().find(|slot| slot.line == line) {
            slot.used = now;
            slot.modified |= store;
            return;
        }
        let Some(victim) = set.iter_mut().min_by_key(|slot| slot.used) else { return };
        let written = victim.modified;
        *victim = Slot { line, used: now, modified: store };
        self.tally.evicted += u64::from(written);
        *if store { &mut self.tally.store_misses } else { &mut self.tally.load_misses } += 1;
    }

    fn flush(&mut self, line: u64) {
        let keep = self.keep;
        let Some(slot) = self.set(line).iter_mut().find(|slot| slot.line == line) else { return };
        let written = std::mem::replace(&mut slot.modified, false);
        if !keep {
            *slot = Slot::default();
        }
        self.tally.flushed += u64::from(written);
    }
}

/// A traced memory: its address, its bytes, and the address of the bytes that say what is flushed.
#[derive(Clone, Copy)]
struct Region {
    base: u64,
    bytes: u64,
    shadow: u64,
}

struct Regions {
    memories: Vec<Region>,
    control: u64,
}

impl Regions {
    /// Reads the report that the traced process has written, if it has.
    fn read(path: &Path) -> io::Result<Option<Self>> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let mut regions = Self { memories: Vec::new(), control: 0 };
        for line in text.lines() {
            let mut words = line.split(' ');
            let kind = words.next();
            let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
            match (kind, &numbers[..]) {
                (Some("control"), [shadow]) => regions.control = *shadow,
                (Some("memory"), [base, bytes, shadow]) => {
                    let (base, bytes, shadow) = (*base, *bytes, *shadow);
                    regions.memories.push(Region { base, bytes, shadow });
                }
                _ => return Err(io::Error::other(format!("no region: {line}"))),
            }
        }
        Ok(Some(regions))
    }
}

/// Reads a trace from standard input and prints what was counted since the sign to begin.
pub(crate) fn simulate(regions_at: &Path, bytes: u64, ways: u32, keep: bool) -> io::Result<()> {
    let ways = ways as usize;
    let lines = bytes as usize / 64;
    let mut simulator = Simulator {
        slots: vec![Slot::default(); lines],
        ways,
        sets: (lines / ways) as u64,
        now: 0,
        keep,
        tally: Tally::default(),
    };
    let mut input = io::stdin().lock();
    let (mut batch, mut regions) = (Vec::new(), None);
    loop {
        batch.clear();
        input.by_ref().take(BATCH as u64).read_to_end(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        input.read_until(b'\n', &mut batch)?;
        if regions.is_none() {
            // The file is there before anything happens in the memories. What is in this batch
            // happened before the batch was read, so without a file there is nothing in it.
            regions = Regions::read(regions_at)?;
        }
        if let Some(regions) = &regions {
            batch.split(|byte| *byte == b'\n').for_each(|line| step(&mut simulator, regions, line));
        }
    }
    let Tally { load_misses, store_misses, evicted, flushed } = simulator.tally;
    print(load_misses, store_misses, evicted, flushed);
    Ok(())
}

/// A line of the trace: ` L 04222c8,8`, ` S ...`, ` M ...`, or of an instruction, or of a message.
fn step(simulator: &mut Simulator, regions: &Regions, line: &[u8]) {
    let [b' ', kind @ (b'L' | b'S' | b'M'), b' ', rest @ ..] = line else { return };
    let Ok(rest) = std::str::from_utf8(rest) else { return };
    let Some((address, size)) = rest.split_once(',') else { return };
    let (Ok(address), Ok(size)) = (u64::from_str_radix(address, 16), size.trim().parse::<u64>())
    else {
        return;
    };
    if *kind != b'L' && address == regions.control {
        simulator.tally = Tally::default();
        return;
    }
    for region in &regions.memories {
        if (region.base..region.base + region.bytes).contains(&address) {
            for line in address / 64..=(address + size - 1) / 64 {
                if *kind != b'S' {
                    simulator.access(line * 64, false);
                }
                if *kind != b'L' {
                    simulator.access(line * 64, true);
                }
            }
            return;
        }
        let shadow = region.shadow..region.shadow + region.bytes / 64;
        if *kind != b'L' && shadow.contains(&address) {
            simulator.flush(region.base + (address - region.shadow) * 64);
            return;
        }
    }
}

/// Prints counts in the form that both simulators use.
pub(crate) fn print(load_misses: u64, store_misses: u64, evicted: u64, flushed: u64) {
    println!(
        "{{\"load_misses\": {load_misses}, \"store_misses\": {store_misses}, \
         \"evicted\": {evicted}, \"flushed\": {flushed}}}"
    );
}
