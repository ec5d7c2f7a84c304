//! The cost of files: what calls of the kernel take here, and what a run takes where they take
//! something else.
//!
//! ```text
//! files(costs) = file_calls * call + syncs * sync
//! unflushed'   = max(unflushed - file_calls * call_h, 0) + files(other)
//! durable'     = max(durable - files(here), 0)           + files(other)
//! ```
//!
//! Without flushes a sync returns at once, and costs nothing here. On the other file system it is a
//! call of the kernel either way. Bytes are charged nothing: they are copied and written back by
//! both, and the model has their lines.
//!
//! This host's costs are measured as P1 measured those of its file system (2.3, Figure 1): chunks of 1
//! to 64 bytes, each durable before the next, one after the other and at random places; the mean over
//! all of them. Of each the least of several rounds is taken, since a disturbance only adds.

use std::io;
use std::path::Path;
use std::time::Instant;

use pm::{Domain, File, Files, HostFiles};
use serde::{Deserialize, Serialize};
use sim::LineCounts;

use super::time::NativeTimes;

/// Chunks of no more than a cache line.
const CHUNK_BYTES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// The file that they are written to.
const FILE_BYTES: u64 = 16 << 20;
/// Writes of a round, and rounds.
const WRITES: u64 = 2_000;
const ROUNDS: u32 = 7;

/// The costs of files, in nanoseconds of a call of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileCosts {
    /// A read or a write.
    pub call_ns: f64,
    /// A sync.
    pub sync_ns: f64,
}

impl FileCosts {
    /// Measures this host's, with files of its own in a directory.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn measure(directory: &Path) -> io::Result<Self> {
        let call_ns = durable_write_ns(&directory.join("calls"), Domain::Process)?;
        let both_ns = durable_write_ns(&directory.join("syncs"), Domain::Adr)?;
        Ok(Self { call_ns, sync_ns: (both_ns - call_ns).max(0.0) })
    }

    /// Seconds that the calls of a run take.
    #[must_use]
    pub fn seconds(&self, counts: &LineCounts) -> f64 {
        let calls = counts.file_calls as f64 * self.call_ns;
        (calls + counts.syncs as f64 * self.sync_ns) * 1e-9
    }
}

impl NativeTimes {
    /// Returns these times without what files cost in them.
    #[must_use]
    pub fn without_files(&self, counts: &LineCounts, here: &FileCosts) -> Self {
        let calls = FileCosts { sync_ns: 0.0, ..*here };
        Self {
            durable: (self.durable - here.seconds(counts)).max(0.0),
            unflushed: (self.unflushed - calls.seconds(counts)).max(0.0),
        }
    }

    /// Returns these times for files that cost something else than here.
    #[must_use]
    pub fn with_files(&self, counts: &LineCounts, here: &FileCosts, other: &FileCosts) -> Self {
        let (without, files) = (self.without_files(counts, here), other.seconds(counts));
        Self { durable: without.durable + files, unflushed: without.unflushed + files }
    }
}

/// Nanoseconds of a write and a sync.
fn durable_write_ns(path: &Path, domain: Domain) -> io::Result<f64> {
    let files = HostFiles::create(path, domain, domain == Domain::Adr)?;
    let file = files.create("chunks")?;
    let zeroes = vec![0; 1 << 20];
    for at in (0..FILE_BYTES).step_by(zeroes.len()) {
        file.write_at(at, &zeroes)?;
    }
    file.sync()?;
    let contents = [0xa5; 64];
    let mut sum = 0.0;
    for chunk in CHUNK_BYTES {
        let places = FILE_BYTES / chunk;
        // One after the other, and far apart.
        for step in [1, 0x5851_f42d_4c95_7f2d_u64] {
            let mut least = f64::INFINITY;
            for _ in 0..ROUNDS {
                let started = Instant::now();
                for number in 0..WRITES {
                    let at = number.wrapping_mul(step) % places * chunk;
                    file.write_at(at, &contents[..chunk as usize])?;
                    file.sync()?;
                }
                least = least.min(started.elapsed().as_nanos() as f64 / WRITES as f64);
            }
            sum += least;
        }
    }
    Ok(sum / (2 * CHUNK_BYTES.len()) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: LineCounts = LineCounts { file_calls: 2_000_000, syncs: 1_000_000, ..NONE };
    const NONE: LineCounts = LineCounts {
        dependent: 0,
        near: 0,
        sequential: 0,
        independent: 0,
        store_misses: 0,
        evicted_lines: 0,
        flushed_lines: 0,
        flush_requests: 0,
        fences: 0,
        accesses: 0,
        loaded_bytes: 0,
        stored_bytes: 0,
        file_calls: 0,
        file_bytes: 0,
        syncs: 0,
    };
    const HERE: FileCosts = FileCosts { call_ns: 100.0, sync_ns: 300.0 };

    fn near(found: NativeTimes, durable: f64, unflushed: f64) {
        let is = |found: f64, wanted: f64| (found - wanted).abs() < 1e-9;
        assert!(is(found.durable, durable) && is(found.unflushed, unflushed), "{found:?}");
    }

    #[test]
    fn calls_and_syncs_are_exchanged_at_each_machines_cost() {
        let native = NativeTimes { durable: 2.0, unflushed: 1.5 };
        // 0.2 s of calls; 0.3 s of syncs, where there are flushes.
        near(native.without_files(&COUNTS, &HERE), 1.5, 1.3);
        let there = FileCosts { call_ns: 400.0, sync_ns: 1000.0 };
        near(native.with_files(&COUNTS, &HERE, &there), 3.3, 3.1);
        // The same file system changes what is durable not at all.
        near(native.with_files(&COUNTS, &HERE, &HERE), 2.0, 1.8);
        assert_eq!(native.with_files(&NONE, &HERE, &there), native);
    }

    #[test]
    fn no_more_is_taken_off_than_there_is() {
        let short = NativeTimes { durable: 0.1, unflushed: 0.1 };
        near(short.with_files(&COUNTS, &HERE, &HERE), 0.5, 0.5);
    }

    #[test]
    fn costs_are_measured_in_files_of_their_own() {
        let directory = tempfile::tempdir().unwrap();
        let costs = FileCosts::measure(directory.path()).unwrap();
        assert!(costs.call_ns > 0.0 && costs.sync_ns.is_finite(), "{costs:?}");
        assert!(directory.path().join("syncs").is_dir());
        assert!(FileCosts::measure(&directory.path().join("nowhere").join("at")).is_err());
    }
}
