//! The cost of a line that this host fetches from its own memory.
//!
//! Measured in memory of the size of the data: what is smaller than the host's caches or than its
//! address translation reaches is faster, and the charges of the model are differences to what the
//! native run has paid. Each figure is the least of several rounds, since a disturbance only adds.
//!
//! | figure | what is timed |
//! |---|---|
//! | dependent | a chase: each line says where the next one is |
//! | sequential | the further lines of a copy of 16 lines |
//! | independent | the further lines of a gather from eight places |
//! | near | the lines of a search in a node of 512 bytes that the emulator classes as near |
//!
//! In all of them the next place depends on what was read, as in a descent of a tree.

use std::hint::black_box;
use std::io;
use std::time::Instant;

use pm::{Dram, Memory, Off, Range, View};
use serde::{Deserialize, Serialize};
use sim::{Emulated, LineCounts, Meter, MeterOptions};

const LINE: u64 = 64;
/// Lines of the copy, and of the gather.
const COPIED: usize = 16;
const GATHERED: usize = 8;
/// A node: its header is one word, its keys and the places of its children are these many.
const NODE: u64 = 512;
const KEYS: usize = 31;
const KEYS_AT: usize = 8;
const CHILDREN_AT: usize = KEYS_AT + KEYS * 8;
/// Steps of a round, and rounds.
const STEPS: u64 = 50_000;
const ROUNDS: u32 = 7;
/// Memory of which every line stays in the nearest cache.
const TINY: u64 = 8 << 10;

/// The cost of a line here, in nanoseconds, in memory of `arena_bytes`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Host {
    /// Bytes of the memory that was measured.
    pub arena_bytes: u64,
    /// A line that a load waits for alone.
    pub dependent_ns: f64,
    /// A line near one fetched just before.
    pub near_ns: f64,
    /// A further line of a read of many bytes.
    pub sequential_ns: f64,
    /// A further line among several whose places are known.
    pub independent_ns: f64,
}

impl Host {
    /// Returns these latencies with the overlap of others: data that this host's caches hold do not
    /// say how lines overlap that come from memory.
    #[must_use]
    pub fn overlapping_as(&self, others: &Self) -> Self {
        let share = |ns: f64| ns / others.dependent_ns * self.dependent_ns;
        Self {
            near_ns: share(others.near_ns),
            sequential_ns: share(others.sequential_ns),
            independent_ns: share(others.independent_ns),
            ..*self
        }
    }

    /// Measures this host in memory of so many bytes, rounded down to a power of two: a second for
    /// each 2 GiB.
    ///
    /// # Errors
    /// There is not so much memory, or the host cannot reserve it.
    pub fn calibrate(arena_bytes: u64) -> io::Result<Self> {
        let lines = Chase::new(Dram::new(arena_bytes)?, arena_bytes, LINE)?;
        let arena_bytes = lines.bytes();
        let dependent_ns = lines.best(Chase::words);
        let further = |many: f64, one: f64, lines: usize| {
            ((many - one) / (lines - 1) as f64).clamp(0.1, dependent_ns)
        };
        let one = lines.best(|chase| chase.copies(1));
        let sequential_ns = further(lines.best(|chase| chase.copies(COPIED)), one, COPIED);
        let one = lines.best(|chase| chase.gathers(1));
        let independent_ns = further(lines.best(|chase| chase.gathers(GATHERED)), one, GATHERED);
        drop(lines);
        let nodes = Chase::new(Dram::new(arena_bytes)?, arena_bytes, NODE)?;
        let near = nodes.best(Chase::searches);
        drop(nodes);
        let tiny = Chase::new(Dram::new(TINY)?, TINY, NODE)?;
        let classes = search_classes(arena_bytes)?;
        let expected = tiny.best(Chase::searches)
            + classes.dependent * dependent_ns
            + classes.sequential * sequential_ns;
        let near_ns = ((near - expected) / classes.near).clamp(sequential_ns, dependent_ns);
        Ok(Self { arena_bytes, dependent_ns, near_ns, sequential_ns, independent_ns })
    }
}

/// Lines of each class that a search fetches, on average.
struct Classes {
    dependent: f64,
    near: f64,
    sequential: f64,
}

/// The same search in emulated memory.
fn search_classes(arena_bytes: u64) -> io::Result<Classes> {
    let meter = Meter::new(MeterOptions { cache_bytes: 1 << 20, ..MeterOptions::default() });
    let bytes = arena_bytes.min(64 << 20);
    let chase = Chase::new(Emulated::new(Dram::new(bytes)?, &meter), bytes, NODE)?;
    meter.reset();
    chase.searches();
    let LineCounts { dependent, near, sequential, .. } = meter.counts();
    let a_step = |lines: u64| lines as f64 / STEPS as f64;
    Ok(Classes {
        dependent: a_step(dependent),
        near: a_step(near).max(1e-9),
        sequential: a_step(sequential),
    })
}

/// A memory in which every record leads to another one, and all are on the way.
struct Chase<M> {
    memory: M,
    records: u64,
    record_bytes: u64,
}

impl<M: Memory> Chase<M> {
    fn new(memory: M, bytes: u64, record_bytes: u64) -> io::Result<Self> {
        let records = 1 << (bytes / record_bytes).max(COPIED as u64).ilog2();
        memory.grow(records * record_bytes).map_err(io::Error::other)?;
        let chase = Self { memory, records, record_bytes };
        let mut record = vec![0_u8; record_bytes as usize];
        for number in 0..records {
            // A linear congruential generator of full period.
            let next =
                chase.place(number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1_442_695));
            if record_bytes == NODE {
                // Any search ends at a child that leads on: to the same one, so that all nodes are
                // on the way.
                for key in 0..KEYS {
                    let word = |at: usize| at..at + 8;
                    record[word(KEYS_AT + key * 8)].copy_from_slice(&spread(key).to_le_bytes());
                    record[word(CHILDREN_AT + key * 8)].copy_from_slice(&next.to_le_bytes());
                }
            }
            record[..8].copy_from_slice(&next.to_le_bytes());
            chase.memory.copy(Off::new(number * record_bytes), &record);
        }
        Ok(chase)
    }

    fn bytes(&self) -> u64 {
        self.records * self.record_bytes
    }

    /// Returns the place of the record that a number stands for.
    #[inline]
    fn place(&self, number: u64) -> u64 {
        number % self.records * self.record_bytes
    }

    /// The least time of a step, in nanoseconds.
    fn best(&self, round: impl Fn(&Self) -> u64) -> f64 {
        let time = || {
            let started = Instant::now();
            black_box(round(self));
            started.elapsed().as_nanos() as f64 / STEPS as f64
        };
        (0..ROUNDS).map(|_| time()).fold(f64::INFINITY, f64::min)
    }

    /// Each record's first word is the place of the next one.
    fn words(&self) -> u64 {
        (0..STEPS).fold(self.start(), |at, _| self.word(at))
    }

    /// Works as [`Self::words`], but so many lines are copied.
    fn copies(&self, lines: usize) -> u64 {
        let mut buffer = [0; COPIED * LINE as usize];
        let out = &mut buffer[..lines * LINE as usize];
        (0..STEPS).fold(self.start(), |at, _| {
            let at = at.min(self.bytes() - out.len() as u64);
            self.memory.read_into(Off::new(at), out).expect("within the memory");
            first_word(out)
        })
    }

    /// Works as [`Self::words`], but so many lines are gathered from all over the memory.
    fn gathers(&self, lines: usize) -> u64 {
        let mut buffer = [0; GATHERED * LINE as usize];
        let out = &mut buffer[..lines * LINE as usize];
        (0..STEPS).fold(self.start(), |at, _| {
            let step = self.bytes() / GATHERED as u64 + 17 * LINE;
            let parts: [Range; GATHERED] = std::array::from_fn(|part| {
                Range::new((at + part as u64 * step) % self.bytes(), LINE)
            });
            self.memory.gather(&parts[..lines], out).expect("within the memory");
            first_word(out)
        })
    }

    /// Searches a key in a node, and goes to the child that is found.
    fn searches(&self) -> u64 {
        (0..STEPS).fold(self.start(), |at, step| {
            let node = self.memory.view(Range::new(at, NODE)).expect("within the memory");
            // The header, as a tree reads it before it trusts the node.
            let skew = node.word(0) & 1;
            let key = spread((at / NODE + step) as usize % KEYS) + skew;
            let rank = node.rank(KEYS_AT, KEYS, key).clamp(1, KEYS);
            node.word(CHILDREN_AT + (rank - 1) * 8)
        })
    }

    /// Another start each time, so that a round does not meet what the last one left in a cache.
    fn start(&self) -> u64 {
        use std::sync::atomic::{AtomicU64, Ordering};
        static ROUND: AtomicU64 = AtomicU64::new(1);
        let round = ROUND.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        self.place(round >> 16)
    }

    #[inline]
    fn word(&self, at: u64) -> u64 {
        let order = std::sync::atomic::Ordering::Relaxed;
        self.memory.load(Off::new(at), order).expect("within the memory")
    }
}

/// The key of a number: keys ascend.
fn spread(key: usize) -> u64 {
    key as u64 * 1_000 + 10
}

#[inline]
fn first_word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("a line at least"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_fetches_the_first_line_alone_and_others_near_it() {
        let classes = search_classes(8 << 20).unwrap();
        assert!((0.8..=1.1).contains(&classes.dependent), "{}", classes.dependent);
        assert!(classes.near > 0.5, "{}", classes.near);
    }

    #[test]
    fn lines_overlap_as_in_other_memory_at_local_cost() {
        let host = |dependent_ns, near_ns| Host {
            arena_bytes: 1 << 20,
            dependent_ns,
            near_ns,
            sequential_ns: near_ns / 2.0,
            independent_ns: near_ns / 4.0,
        };
        let (cached, memory) = (host(8.0, 8.0), host(128.0, 32.0));
        assert_eq!(cached.overlapping_as(&memory), host(8.0, 2.0));
        assert_eq!(memory.overlapping_as(&memory), memory);
    }

    #[test]
    fn what_was_measured_is_in_order() {
        let host = Host::calibrate(4 << 20).unwrap();
        assert_eq!(host.arena_bytes, 4 << 20);
        assert!(host.sequential_ns > 0.0 && host.sequential_ns <= host.near_ns);
        assert!(host.near_ns <= host.dependent_ns && host.independent_ns <= host.dependent_ns);
    }
}
