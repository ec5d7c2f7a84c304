//! Is there room for what is going to be measured?
//!
//! To find out half-way that there is not costs the time, and where the medium is memory, the
//! machine. So each cell states about how much it takes at most, on the medium that is measured and
//! in memory, and a run checks before it begins and again before each cell. The figures are upper
//! ends of what was seen, rounded up: the point is to refuse what cannot work, not to fill the
//! machine.

use std::ops::Add;

use peers::PeerKind;
use perdura::EngineKind;
use workloads::{Room, tpcc};

/// Bytes that every measurement takes: histograms, buffers, reserves of logs.
const FIXED_BYTES: u64 = 64 << 20;
/// A tuple of YCSB on the medium: most of all in a log-structured engine that merges.
const TUPLE_ON_MEDIUM: u64 = 2_700;
/// A tuple of YCSB in memory: tables, MemTables and caches of the traditional engines.
const TUPLE_IN_MEMORY: u64 = 1_500;
/// A tuple of YCSB where all of an engine is emulated.
const TUPLE_EMULATED: u64 = 3_000;
/// The same of an engine that keeps everything once, in its pool.
const TUPLE_ONCE: u64 = 1_300;
/// An operation that was generated before the clock starts.
const OPERATION: u64 = 8;
/// A tuple of TPC-C, a fifth the size: on the medium, in memory, emulated.
const SHOP_TUPLE: (u64, u64, u64) = (600, 400, 900);
/// Bytes that a transaction of TPC-C adds: on the medium, in memory, emulated.
const SHOP_TXN: (u64, u64, u64) = (1_000, 300, 1_500);
/// Bytes that databases that are no maps reserve on the medium, however little there is in them.
const PEER_RESERVES: u64 = 256 << 20;
/// Bytes that they have in memory on top of their cache.
const BESIDES_CACHE: u64 = 1 << 29;

/// About what a measurement takes at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Takes {
    /// Bytes on the medium that is measured.
    pub medium_bytes: u64,
    /// Bytes of memory, of this process and of those that it starts.
    pub memory_bytes: u64,
    /// Both together, at the moment when that is most: what is in memory first may be gone before
    /// the medium fills up.
    pub at_once_bytes: u64,
}

impl Add for Takes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            medium_bytes: self.medium_bytes.saturating_add(other.medium_bytes),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
            at_once_bytes: self.at_once_bytes.saturating_add(other.at_once_bytes),
        }
    }
}

impl Takes {
    fn new(medium_bytes: u64, memory_bytes: u64) -> Self {
        let at_once_bytes = medium_bytes.saturating_add(memory_bytes);
        Self { medium_bytes, memory_bytes, at_once_bytes }
    }

    /// Returns so much on the medium, and what everything takes.
    pub(crate) fn on_medium(bytes: u64) -> Self {
        Self::new(bytes, FIXED_BYTES)
    }

    /// Returns so much in memory, and what everything takes.
    pub(crate) fn in_memory(bytes: u64) -> Self {
        Self::new(0, bytes.saturating_add(FIXED_BYTES))
    }

    /// A YCSB database of an engine, and operations for it.
    pub(crate) fn ycsb(engine: EngineKind, tuples: u64, txns: u64) -> Self {
        let (medium, memory) = match engine.traits().needs_files() {
            true => (TUPLE_ON_MEDIUM, TUPLE_IN_MEMORY),
            false => (TUPLE_ONCE, 0),
        };
        Self::on_medium(FIXED_BYTES.saturating_add(tuples.saturating_mul(medium)))
            + Self::in_memory(tuples.saturating_mul(memory).saturating_add(txns * OPERATION))
    }

    /// The same in emulated memory.
    pub(crate) fn emulated(engine: EngineKind, tuples: u64) -> Self {
        let each = if engine.traits().needs_files() { TUPLE_EMULATED } else { TUPLE_ONCE };
        Self::in_memory(tuples.saturating_mul(each))
    }

    /// A YCSB database of something else. One that has no cache of its own either maps its files,
    /// as floors do, and stores a tuple once, or is a map, which has all of them in memory.
    pub(crate) fn peer(kind: PeerKind, tuples: u64, txns: u64) -> Self {
        let memory = tuples.saturating_mul(TUPLE_IN_MEMORY);
        let (medium, memory) = match (kind.cache_bytes(), kind.is_durable()) {
            (Some(cache), _) => (TUPLE_ON_MEDIUM, memory.min(cache) + BESIDES_CACHE),
            (None, true) => (TUPLE_ONCE, 0),
            (None, false) => (0, memory),
        };
        let reserves = if kind.is_durable() { PEER_RESERVES } else { 0 };
        Self::on_medium(tuples.saturating_mul(medium).saturating_add(reserves))
            + Self::in_memory(memory.saturating_add(txns * OPERATION))
    }

    /// A TPC-C database on the medium, on which so many transactions run.
    pub(crate) fn shop(spec: &tpcc::Spec, txns: u64) -> Self {
        let (tuple, txn) = (SHOP_TUPLE, SHOP_TXN);
        let bytes = |tuple: u64, txn: u64| {
            spec.tuples().saturating_mul(tuple).saturating_add(txns.saturating_mul(txn))
        };
        Self::on_medium(FIXED_BYTES.saturating_add(bytes(tuple.0, txn.0)))
            + Self::in_memory(bytes(tuple.1, txn.1))
    }

    /// The same in emulated memory.
    pub(crate) fn emulated_shop(spec: &tpcc::Spec, txns: u64) -> Self {
        let tuples = spec.tuples().saturating_mul(SHOP_TUPLE.2);
        Self::in_memory(tuples.saturating_add(txns.saturating_mul(SHOP_TXN.2)))
    }

    /// Returns what is needed for both in sequence: the larger of each.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            medium_bytes: self.medium_bytes.max(other.medium_bytes),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
            at_once_bytes: self.at_once_bytes.max(other.at_once_bytes),
        }
    }

    /// Returns what is missing for a measurement, in words; `None` if there is enough.
    #[must_use]
    pub fn lacking(self, room: &Room) -> Option<String> {
        let Self { medium_bytes, memory_bytes, at_once_bytes: both } = self;
        if medium_bytes > room.medium_bytes {
            let (needed, free) = (bytes(medium_bytes), bytes(room.medium_bytes));
            return Some(format!("it takes about {needed} on the medium, where {free} are free"));
        }
        if room.medium_is_memory && both > room.memory_bytes {
            let (needed, free) = (bytes(both), bytes(room.memory_bytes));
            let why = "pools lie in memory, too";
            return Some(format!(
                "it takes about {needed} of memory, of which {free} are free ({why})"
            ));
        }
        if memory_bytes > room.memory_bytes {
            let (needed, free) = (bytes(memory_bytes), bytes(room.memory_bytes));
            return Some(format!("it takes about {needed} of memory, of which {free} are free"));
        }
        None
    }
}

/// Bytes as people read them.
fn bytes(bytes: u64) -> String {
    match bytes {
        small @ 0..0x40_0000 => format!("{} KiB", small.div_ceil(1 << 10)),
        middle @ 0x40_0000..0x1_0000_0000 => format!("{} MiB", middle.div_ceil(1 << 20)),
        large => format!("{:.1} GiB", large as f64 / f64::from(1 << 30)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::{Scale, Sizes};
    use crate::studies::Study;

    const MIB: u64 = 1 << 20;

    fn room(medium: u64, memory: u64, medium_is_memory: bool) -> Room {
        let (medium_bytes, memory_bytes) = (medium * MIB, memory * MIB);
        Room { medium_bytes, memory_bytes, medium_is_memory }
    }

    #[test]
    fn what_is_stored_in_memory_counts_twice_over() {
        let takes = Takes::new(50 * MIB, 20 * MIB);
        assert_eq!(takes.lacking(&room(50, 20, false)), None);
        let medium = takes.lacking(&room(49, 100, false)).expect("too little");
        assert!(medium.contains("50 MiB on the medium, where 49 MiB"), "{medium}");
        let memory = takes.lacking(&room(100, 19, false)).expect("too little");
        assert!(memory.contains("20 MiB of memory, of which 19 MiB"), "{memory}");
        let both = takes.lacking(&room(100, 69, true)).expect("too little");
        assert!(both.contains("70 MiB of memory, of which 69 MiB"), "{both}");
        assert_eq!(takes.lacking(&room(100, 70, true)), None);
        // One after the other.
        let takes = takes.max(Takes::new(0, 60 * MIB));
        assert_eq!(takes.lacking(&room(100, 70, true)), None);
        assert!(takes.lacking(&room(100, 59, false)).is_some());
    }

    #[test]
    fn every_cell_says_what_it_takes() {
        for scale in [Scale::Tiny, Scale::Quick, Scale::Full] {
            for study in Study::ALL {
                for stage in study.stages(&Sizes::new(scale, 32 << 30)) {
                    for cell in stage.cells() {
                        let Takes { memory_bytes, at_once_bytes: all, .. } = cell.takes;
                        assert!(memory_bytes >= FIXED_BYTES, "{}: {:?}", cell.label, cell.takes);
                        assert!(all < 1 << 40, "{}: {:?}", cell.label, cell.takes);
                    }
                }
            }
        }
    }

    #[test]
    fn each_contestant_gets_the_sizes_that_fit() {
        let sizes = Sizes::new(Scale::Full, 24 << 30);
        let stages = |study: Study| study.stages(&sizes).into_iter();
        let cells = |study| -> Vec<(String, String)> {
            let described = |stage: &dyn crate::studies::Stage| {
                let cells = stage.cells().iter();
                cells.map(|cell| (cell.label.clone(), cell.scaled.clone())).collect::<Vec<_>>()
            };
            stages(study).flat_map(|stage| described(&*stage)).collect()
        };
        let peers = cells(Study::Peers);
        let of = |label: &str| peers.iter().find(|(known, _)| known == label).map(|(_, one)| one);
        for who in ["nvm-inp", "nvm-log", "lmdb", "floor-undo", "btreemap", "nvm-inp inline"] {
            assert_eq!(of(&format!("{who}, 10000000 tuples")).expect(who), "", "{who}");
        }
        for who in ["inp", "cow", "sqlite", "redb", "inp grouped"] {
            assert_eq!(of(&format!("{who}, 10000000 tuples")), None, "{who}");
            let scaled = of(&format!("{who}, 2000000 tuples")).expect(who);
            let said = format!("{who}: tuples, at most: 2000000 instead of 10000000");
            assert_eq!(*scaled, said);
        }
        let reopened = cells(Study::Reopening);
        for who in ["nvm-inp", "inp", "sqlite"] {
            let said = format!("{who} killed, YCSB, 4000000 tuples");
            assert!(reopened.iter().any(|(label, _)| label.starts_with(&said)), "{who}");
        }
    }

    #[test]
    fn the_paper_sizes_are_cut_to_what_fits() {
        for gib in [8, 12, 16, 24, 32, 64] {
            let memory_bytes = gib << 30;
            // What a machine can give of its memory while it does little else.
            let free = memory_bytes / 10 * 9;
            let room = Room { medium_bytes: free, memory_bytes: free, medium_is_memory: true };
            for study in Study::ALL {
                for stage in study.stages(&Sizes::new(Scale::Full, memory_bytes)) {
                    for cell in stage.cells() {
                        let lack = cell.takes.lacking(&room);
                        assert_eq!(lack, None, "{gib} GiB: {}: {:?}", cell.label, cell.takes);
                    }
                }
            }
        }
    }
}
