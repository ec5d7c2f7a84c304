//! The growth of a store: the same benchmark with more and more tuples.
//!
//! 1. With several sizes each store is alone on the medium: one size after the other, its files gone
//!    before the next one begins.
//! 2. A store that would not fit is left out at that size, and the report says so with the figures.
//!    What it takes follows from what it took at smaller sizes of the same run: in files by a line
//!    through the last two, in memory likewise, but no more than its cache where it has one. For
//!    the first size there is only a guess, which is too high rather than too low.
//! 3. With one size stores lie side by side, and only what certainly does not fit is refused: each
//!    takes the user's bytes at least.

use std::path::Path;

use command::failure::Failure;
use command::figures::fine;
use command::output::table;
use command::scratch::Scratch;
use command::system::System;
use command::units::{bytes, grouped};
use serde::Serialize;
use workloads::Room;
use workloads::ycsb::TUPLE_USER_BYTES;

use super::fifths::{blocks, resident_bytes};
use super::ycsb_run::Run;

/// Bytes of files for a byte of the user's, where nothing is known yet.
const FIRST_GUESS: u64 = 4;
/// The most that a database takes in memory besides its cache: MemTables, buffers, indexes of
/// files.
const BESIDES_CACHE_BYTES: u64 = 1 << 29;

/// A store that was not measured at some size.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LeftOut {
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<&'static str>,
    tuples: u64,
    /// The bytes that it would take, about.
    needed_bytes: u64,
    /// The bytes that are free.
    free_bytes: u64,
}

/// The bytes that a store takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct SpaceTaken {
    tuples: u64,
    /// Blocks of its files.
    stored_bytes: u64,
    /// Memory of this process that belongs to no file.
    resident_bytes: u64,
}

impl SpaceTaken {
    /// The least that so many tuples can take: once what the user put in, where the store keeps it.
    /// InP keeps it in memory, and compressed besides, of which nothing is certain.
    fn at_least(system: System, tuples: u64) -> Self {
        let user_bytes = tuples.saturating_mul(TUPLE_USER_BYTES);
        let in_memory = match system {
            System::Engine(kind) => !kind.traits().larger_than_memory,
            System::Peer(kind) => !kind.is_durable(),
        };
        match in_memory {
            true => Self { tuples, stored_bytes: 0, resident_bytes: user_bytes },
            false => Self { tuples, stored_bytes: user_bytes, resident_bytes: 0 },
        }
    }

    /// Both at once.
    fn plus(self, other: Self) -> Self {
        Self {
            tuples: self.tuples,
            stored_bytes: self.stored_bytes.saturating_add(other.stored_bytes),
            resident_bytes: self.resident_bytes.saturating_add(other.resident_bytes),
        }
    }
}

/// Refuses stores that cannot fit side by side, before the time is spent, and the machine's memory
/// where that is the medium.
///
/// # Errors
/// They do not fit; or the medium cannot be looked at.
pub(crate) fn require(systems: &[System], tuples: u64, scratch: &Scratch) -> Result<(), Failure> {
    let each = systems.iter().map(|&one| SpaceTaken::at_least(one, tuples));
    let least = each.fold(SpaceTaken { tuples, ..SpaceTaken::default() }, SpaceTaken::plus);
    let Some((needed, free)) = missing(least, scratch.room()?) else { return Ok(()) };
    let (needed, free) = (bytes(needed), bytes(free));
    let alone = match systems.len() {
        0 | 1 => "",
        _ => {
            ", fewer stores at once, or several sizes, at each of which every store is alone (--tuples A,B)"
        }
    };
    let why = format!(
        "{} tuples take at least {needed}, and {free} are free; ask for fewer --tuples{alone}, or choose another directory with --path",
        grouped(tuples),
    );
    Err(Failure::about(scratch.path().display(), why))
}

/// The growth of one store.
#[derive(Debug)]
pub(crate) struct Growth {
    system: System,
    /// The memory of this process before its first size.
    resident_before: u64,
    took: Vec<SpaceTaken>,
}

impl Growth {
    /// Nothing has been measured yet.
    pub(crate) fn new(system: System) -> Self {
        Self { system, resident_before: resident_bytes().unwrap_or(0), took: Vec::new() }
    }

    /// Looks whether so many tuples fit; if not, what is missing.
    ///
    /// # Errors
    /// The medium cannot be looked at.
    pub(crate) fn fits(&self, tuples: u64, scratch: &Scratch) -> Result<Option<LeftOut>, Failure> {
        let room = scratch.room()?;
        let need = self.expected(tuples);
        Ok(missing(need, room).map(|(needed_bytes, free_bytes)| LeftOut {
            engine: self.system.engine(),
            peer: self.system.peer(),
            tuples,
            needed_bytes,
            free_bytes,
        }))
    }

    /// Remembers what the store takes now, with so many tuples.
    ///
    /// # Errors
    /// Its files cannot be looked at.
    pub(crate) fn measured(&mut self, tuples: u64, directory: &Path) -> Result<(), Failure> {
        let resident = resident_bytes().unwrap_or(0).saturating_sub(self.resident_before);
        let stored_bytes = blocks(directory)?;
        self.took.push(SpaceTaken { tuples, stored_bytes, resident_bytes: resident });
        Ok(())
    }

    /// Returns what so many tuples will take, with a quarter more for what comes and goes
    /// meanwhile.
    fn expected(&self, tuples: u64) -> SpaceTaken {
        let user_bytes = tuples.saturating_mul(TUPLE_USER_BYTES);
        let expected = match self.took.as_slice() {
            [] => SpaceTaken { tuples, stored_bytes: user_bytes * FIRST_GUESS, resident_bytes: 0 },
            [one] => along(SpaceTaken::default(), *one, tuples),
            [.., one, two] => along(*one, *two, tuples),
        };
        let more = |bytes: u64| bytes.saturating_add(bytes / 4);
        let most = match self.system {
            System::Peer(kind) => kind.cache_bytes().map(|bytes| bytes + BESIDES_CACHE_BYTES),
            System::Engine(_) => None,
        };
        SpaceTaken {
            tuples,
            stored_bytes: more(expected.stored_bytes),
            resident_bytes: more(expected.resident_bytes).min(most.unwrap_or(u64::MAX)),
        }
    }
}

/// A line through two measurements; never less than the larger of them says.
fn along(one: SpaceTaken, two: SpaceTaken, tuples: u64) -> SpaceTaken {
    let at = |of: fn(&SpaceTaken) -> u64| {
        let (low, high) = (of(&one), of(&two));
        let (from, to) = (one.tuples.min(two.tuples), one.tuples.max(two.tuples));
        let beyond = u128::from(high.abs_diff(low)) * u128::from(tuples.saturating_sub(to));
        let beyond = beyond / u128::from((to - from).max(1));
        low.max(high).saturating_add(u64::try_from(beyond).unwrap_or(u64::MAX))
    };
    SpaceTaken {
        tuples,
        stored_bytes: at(|took| took.stored_bytes),
        resident_bytes: at(|took| took.resident_bytes),
    }
}

/// Returns what is needed and what is free, if that is not enough.
fn missing(need: SpaceTaken, room: Room) -> Option<(u64, u64)> {
    let in_memory = match room.medium_is_memory {
        true => need.stored_bytes.saturating_add(need.resident_bytes),
        false => need.resident_bytes,
    };
    if need.stored_bytes > room.medium_bytes {
        Some((need.stored_bytes, room.medium_bytes))
    } else if in_memory > room.memory_bytes {
        Some((in_memory, room.memory_bytes))
    } else {
        None
    }
}

/// A table with a column for each size, and what did not fit.
pub(crate) fn human_text(sizes: &[u64], runs: &[Run], left_out: &[LeftOut]) -> String {
    type Of = fn(&Run) -> Option<f64>;
    let whats: [(&str, Of); 6] = [
        ("us/txn", |run| Some(1e6 / run.throughput_txn_s.max(1e-9))),
        ("p50 us", |run| Some(run.latency_us.p50)),
        ("p99 us", |run| Some(run.latency_us.p99)),
        ("lines/txn", |run| run.per_txn.flushed_lines),
        ("fences/txn", |run| run.per_txn.fences),
        ("space", |run| {
            let stored = run.footprint_bytes.sum();
            (stored > 0).then(|| stored as f64 / run.user_bytes as f64)
        }),
    ];
    let mut head: Vec<String> = ["store", "mix", "skew", "what"].map(str::to_owned).into();
    head.extend(sizes.iter().map(|&tuples| grouped(tuples)));
    head.push("last / first".into());
    let mut names: Vec<[&str; 3]> = Vec::new();
    for run in runs {
        if !names.contains(&run.name()) {
            names.push(run.name());
        }
    }
    let mut rows = Vec::new();
    for name in names {
        for (what, of) in whats {
            let at = |&tuples: &u64| {
                runs.iter().find(|run| run.name() == name && run.tuples == tuples).and_then(of)
            };
            let values: Vec<Option<f64>> = sizes.iter().map(at).collect();
            let known: Vec<f64> = values.iter().copied().flatten().collect();
            let [first, .., last] = known.as_slice() else { continue };
            let mut row: Vec<String> = name.map(str::to_owned).into();
            row.push(what.into());
            row.extend(values.into_iter().map(fine));
            row.push(fine((*first > 0.0).then(|| last / first)));
            rows.push(row);
        }
    }
    let mut text = format!("\nGrowth: by tuples\n\n{}", table(&head, &rows, 4));
    text += "\nSpace: bytes that the store takes for a byte of the user's. Each store was alone on the medium at each size.\n";
    text + &left_out_text(left_out)
}

/// Returns what did not fit, a line each.
pub(crate) fn left_out_text(left_out: &[LeftOut]) -> String {
    let line = |out: &LeftOut| {
        format!(
            "Left out: {} with {} tuples takes about {}, and {} are free.\n",
            out.engine.or(out.peer).unwrap_or_default(),
            grouped(out.tuples),
            bytes(out.needed_bytes),
            bytes(out.free_bytes),
        )
    };
    left_out.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use peers::PeerKind;
    use perdura::EngineKind;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn took(tuples: u64, stored_bytes: u64, resident_bytes: u64) -> SpaceTaken {
        SpaceTaken { tuples, stored_bytes, resident_bytes }
    }

    #[test]
    fn what_is_needed_follows_from_the_last_two_sizes() {
        let mut growth = Growth::new(System::Engine(EngineKind::NvmInp));
        let guess = growth.expected(1000).stored_bytes;
        assert_eq!(guess, 1000 * TUPLE_USER_BYTES * 5);
        growth.took.push(took(1000, 4_000_000, 400_000));
        assert_eq!(growth.expected(2000), took(2000, 10_000_000, 1_000_000));
        // Three million bytes are there in any case.
        growth.took.push(took(2000, 5_000_000, 400_000));
        assert_eq!(growth.expected(10_000), took(10_000, 16_250_000, 500_000));
        // Never less than was seen.
        assert_eq!(growth.expected(10), took(10, 6_250_000, 500_000));
    }

    #[test]
    fn stores_side_by_side_take_the_users_bytes_each() {
        let inp = System::Engine(EngineKind::Inp);
        let others = [
            System::Engine(EngineKind::NvmInp),
            System::Peer(PeerKind::Lmdb),
            System::Peer(PeerKind::HashMap),
        ];
        let all = others.map(|one| SpaceTaken::at_least(one, 1000));
        let all = all.into_iter().fold(SpaceTaken::at_least(inp, 1000), SpaceTaken::plus);
        assert_eq!(all, took(1000, 2 * 1000 * TUPLE_USER_BYTES, 2 * 1000 * TUPLE_USER_BYTES));
        assert_eq!(SpaceTaken::at_least(inp, u64::MAX).resident_bytes, u64::MAX);
    }

    #[test]
    fn a_cache_is_a_bound_of_memory() {
        let mut growth = Growth::new(System::Peer(PeerKind::Sqlite));
        growth.took.push(took(1_000_000, 2 * GIB, GIB));
        let expected = growth.expected(10_000_000);
        assert_eq!((expected.stored_bytes, expected.resident_bytes), (25 * GIB, GIB * 3 / 2));
    }

    #[test]
    fn files_take_memory_where_the_medium_is_memory() {
        let room = |medium_is_memory| Room { medium_bytes: 9, memory_bytes: 6, medium_is_memory };
        assert_eq!(missing(took(1, 5, 2), room(false)), None);
        assert_eq!(missing(took(1, 5, 2), room(true)), Some((7, 6)));
        assert_eq!(missing(took(1, 10, 2), room(false)), Some((10, 9)));
        assert_eq!(missing(took(1, 1, 7), room(false)), Some((7, 6)));
    }
}
