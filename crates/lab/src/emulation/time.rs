//! The way from counts to time.
//!
//! ```text
//! T       = max(durable + min(charges, 0), unflushed + charges)
//! charges = (latency - dependent_h) * waited
//! waited  = min(dependent + near * near_h / dependent_h
//!               + sequential * sequential_h / dependent_h
//!               + independent * independent_h / dependent_h,
//!               unflushed / dependent_h)
//! ```
//!
//! `durable` and `unflushed` are native times of the same work, with and without flushes; `_h` are
//! this host's own latencies at the size of the data ([`Host`]). The native run has paid the host's
//! latency already, so the difference is charged; where the host's memory is the slower one, the
//! difference is taken off. A line that is one of many under way at a time costs a share of it, the
//! share that it costs here. All lines together cannot have been waited for longer than the native
//! run took: that bounds both ends of the interval. Reads of one transaction overlap with the drain
//! of the fence before: therefore the maximum and not the sum. Stores that miss wait in the store
//! buffer and are charged nothing.
//!
//! Then the work is divided among the workers, may not take less than its lines take at the given
//! bandwidth, and what a slower sync primitive adds comes on top (P1's F16 adds it by spinning).
//!
//! The interval is wide on purpose: one end takes every fetched line for an independent one, the
//! other takes each for a dependent one and adds the charges to the durable time, as if nothing
//! overlapped. A claim holds where it holds at both ends.

use serde::{Deserialize, Serialize};
use sim::LineCounts;

use super::host::Host;

/// The time that the same work takes natively on this host, in seconds, with one worker.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct NativeTimes {
    /// The time with flushes and fences: domain `adr`, modelled.
    pub durable: f64,
    /// The time without: domain `process`.
    pub unflushed: f64,
}

/// The memory and the machine to compute a time for.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct NvmParameters {
    /// Nanoseconds of a load that misses the cache.
    pub latency_ns: f64,
    /// Bandwidth of all loads and stores together, in 10^9 bytes a second; `None` is unlimited.
    pub gigabytes_per_second: Option<f64>,
    /// Cores among which the work is divided evenly; they share the bandwidth.
    pub workers: u32,
    /// Nanoseconds that each fence takes longer.
    pub fence_ns: f64,
    /// Nanoseconds that each line named by a flush takes longer.
    pub flush_ns: f64,
}

/// Cores of P1's machine on which partitions run (P1 5.1).
const PAPER_CORES: f64 = 8.0;

impl NvmParameters {
    /// Returns so many of P1's cores, with their share of its bandwidth: two have a quarter of it,
    /// so that work which is bound by it with eight is bound with two as well.
    #[must_use]
    pub fn of_cores(workers: u32) -> Self {
        let p1 = Self::p1();
        let share = f64::from(workers) / PAPER_CORES;
        let gigabytes_per_second = p1.gigabytes_per_second.map(|all| all * share);
        Self { workers, gigabytes_per_second, ..p1 }
    }

    /// P1 5.2: 160 ns, 9.5 GB/s; one worker.
    #[must_use]
    pub fn p1() -> Self {
        Self {
            latency_ns: 160.0,
            gigabytes_per_second: Some(9.5),
            workers: 1,
            fence_ns: 0.0,
            flush_ns: 0.0,
        }
    }
}

impl NvmParameters {
    /// Seconds that the lines take at the memory's bandwidth, which no run can be shorter than.
    #[must_use]
    pub fn transfer_seconds(&self, counts: &LineCounts) -> f64 {
        let moved = (counts.nvm_loads() + counts.nvm_stores()) as f64 * 64e-9;
        self.gigabytes_per_second.map_or(0.0, |rate| moved / rate)
    }
}

/// An emulated time with its interval, in seconds: `low <= seconds <= high`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Emulated {
    /// The time by the model.
    pub seconds: f64,
    /// The time if all that can overlap did.
    pub low: f64,
    /// The time if nothing overlapped.
    pub high: f64,
}

impl Emulated {
    /// `work / time` with its interval: `low` is the rate of the longest time.
    #[must_use]
    pub fn rate(&self, work: f64) -> Self {
        Self { seconds: work / self.seconds, low: work / self.high, high: work / self.low }
    }

    /// Returns this time, as uncertain as `fastest` and `slowest` of several native runs make it.
    #[must_use]
    pub fn between(&self, fastest: &Self, slowest: &Self) -> Self {
        Self {
            seconds: self.seconds,
            low: self.low.min(fastest.low),
            high: self.high.max(slowest.high),
        }
    }

    /// The ratio of two rates or times, as far apart as the two intervals allow.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        Self {
            seconds: self.seconds / other.seconds,
            low: self.low / other.high,
            high: self.high / other.low,
        }
    }
}

/// The share of the fetching that overlaps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overlap {
    All,
    Expected,
    None,
}

/// Returns the time that work with these counts and these native times would take.
///
/// # Panics
/// If there is no worker.
#[must_use]
pub fn emulate(
    counts: &LineCounts,
    native: &NativeTimes,
    host: &Host,
    nvm: &NvmParameters,
) -> Emulated {
    assert!(nvm.workers > 0, "a worker at least");
    let time = |overlap| {
        let charges = charges(counts, native, host, nvm.latency_ns, overlap) * 1e-9;
        let durable = native.durable.max(native.unflushed);
        let one = match overlap {
            Overlap::None => durable + charges,
            Overlap::All | Overlap::Expected => {
                (durable + charges.min(0.0)).max(native.unflushed + charges)
            }
        };
        let transfer = nvm.transfer_seconds(counts);
        let syncs =
            counts.fences as f64 * nvm.fence_ns + counts.flush_requests as f64 * nvm.flush_ns;
        let workers = f64::from(nvm.workers);
        (one / workers).max(transfer) + syncs * 1e-9 / workers
    };
    let (seconds, all, none) = (time(Overlap::Expected), time(Overlap::All), time(Overlap::None));
    Emulated { seconds, low: seconds.min(all).min(none), high: seconds.max(all).max(none) }
}

/// Nanoseconds that fetched lines take longer than they took natively. Less than nothing where the
/// memory is faster than the host's.
fn charges(
    counts: &LineCounts,
    native: &NativeTimes,
    host: &Host,
    latency_ns: f64,
    overlap: Overlap,
) -> f64 {
    let share = |ns: f64| ns / host.dependent_ns;
    let (sequential, independent) = (share(host.sequential_ns), share(host.independent_ns));
    let near = share(host.near_ns);
    let lines = match overlap {
        Overlap::None => counts.load_misses() as f64,
        Overlap::All => counts.load_misses() as f64 * independent.min(sequential),
        Overlap::Expected => {
            counts.dependent as f64
                + counts.near as f64 * near
                + counts.sequential as f64 * sequential
                + counts.independent as f64 * independent
        }
    };
    // Natively they were waited for, too.
    let most = native.unflushed * 1e9 / host.dependent_ns;
    (latency_ns - host.dependent_ns) * lines.min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Host = Host {
        arena_bytes: 1 << 30,
        dependent_ns: 100.0,
        sequential_ns: 10.0,
        independent_ns: 20.0,
        near_ns: 50.0,
    };
    const NATIVE: NativeTimes = NativeTimes { durable: 1.0, unflushed: 0.8 };

    fn at(latency_ns: f64) -> NvmParameters {
        NvmParameters { latency_ns, gigabytes_per_second: None, ..NvmParameters::p1() }
    }

    #[test]
    fn each_class_is_charged_its_share_of_the_difference() {
        // 5 * 10^6 lines of 200 ns more each are a second.
        let line = |counts: LineCounts| emulate(&counts, &NATIVE, &HOST, &at(300.0)).seconds;
        let some = 5_000_000;
        let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-9, "{found}");
        near(line(LineCounts { dependent: some, ..LineCounts::default() }), 1.8);
        near(line(LineCounts { near: some, ..LineCounts::default() }), 1.3);
        near(line(LineCounts { sequential: some, ..LineCounts::default() }), 1.0);
        near(line(LineCounts { sequential: 4 * some, ..LineCounts::default() }), 1.2);
        near(line(LineCounts { independent: 4 * some, ..LineCounts::default() }), 1.6);
        near(line(LineCounts { store_misses: some, ..LineCounts::default() }), 1.0);
    }

    #[test]
    fn memory_that_is_faster_than_the_hosts_makes_the_run_shorter() {
        // 10^6 lines of 50 ns less each are a twentieth of a second.
        let counts = LineCounts { dependent: 1_000_000, ..LineCounts::default() };
        let time = emulate(&counts, &NATIVE, &HOST, &at(50.0));
        assert!((time.seconds - 0.95).abs() < 1e-9, "{time:?}");
        assert!((time.low - 0.95).abs() < 1e-9 && time.high > 0.98, "{time:?}");
    }

    #[test]
    fn lines_are_not_waited_for_longer_than_the_run_took() {
        // Of 10^9 lines at most 8 million, of 100 ns each, can have been waited for in 0.8 s.
        let counts = LineCounts { dependent: 1_000_000_000, ..LineCounts::default() };
        let time = emulate(&counts, &NATIVE, &HOST, &at(800.0));
        assert!((time.seconds - 0.8 * 8.0).abs() < 1e-9, "{time:?}");
        let time = emulate(&counts, &NATIVE, &HOST, &at(10.0));
        assert!((time.seconds - (1.0 - 0.8 * 0.9)).abs() < 1e-9 && time.low > 0.0, "{time:?}");
    }

    #[test]
    fn the_time_lies_within_its_interval() {
        let counts = LineCounts {
            dependent: 3_000_000,
            near: 1_000_000,
            sequential: 9_000_000,
            store_misses: 2_000_000,
            flushed_lines: 1_000_000,
            fences: 500_000,
            flush_requests: 1_500_000,
            ..LineCounts::default()
        };
        for latency_ns in [60.0, 100.0, 160.0, 320.0, 1280.0] {
            for workers in [1, 8] {
                let nvm = NvmParameters { workers, fence_ns: 50.0, ..at(latency_ns) };
                let time = emulate(&counts, &NATIVE, &HOST, &nvm);
                assert!(0.0 < time.low && time.low <= time.seconds && time.seconds <= time.high);
            }
        }
    }

    #[test]
    fn workers_share_the_bandwidth_floor_and_syncs_add_to_it() {
        let counts = LineCounts { sequential: 100_000_000, ..LineCounts::default() };
        let nvm =
            NvmParameters { gigabytes_per_second: Some(1.0), workers: 8, ..at(HOST.dependent_ns) };
        assert!((emulate(&counts, &NATIVE, &HOST, &nvm).seconds - 6.4).abs() < 1e-9);
        let counts = LineCounts { fences: 1_000_000, ..LineCounts::default() };
        let nvm = NvmParameters { fence_ns: 500.0, ..at(HOST.dependent_ns) };
        assert!((emulate(&counts, &NATIVE, &HOST, &nvm).seconds - 1.5).abs() < 1e-9);
    }

    #[test]
    fn work_that_fills_bandwidth_of_eight_cores_fills_twos() {
        let counts = LineCounts { sequential: 100_000_000, ..LineCounts::default() };
        let of = |workers| {
            let nvm =
                NvmParameters { latency_ns: HOST.dependent_ns, ..NvmParameters::of_cores(workers) };
            emulate(&counts, &NATIVE, &HOST, &nvm).seconds
        };
        assert_eq!(NvmParameters::of_cores(8), NvmParameters { workers: 8, ..NvmParameters::p1() });
        assert!((of(8) - 6.4 / 9.5).abs() < 1e-9 && (of(2) - 4.0 * of(8)).abs() < 1e-9);
    }

    #[test]
    fn a_ratio_is_as_uncertain_as_both_of_its_sides() {
        let a = Emulated { seconds: 2.0, low: 1.0, high: 4.0 };
        let b = Emulated { seconds: 1.0, low: 0.5, high: 2.0 };
        assert_eq!(a.over(&b), Emulated { seconds: 2.0, low: 0.5, high: 8.0 });
        assert_eq!(a.rate(8.0), Emulated { seconds: 4.0, low: 2.0, high: 8.0 });
    }
}
