//! What small patterns of access are counted as.

use std::sync::atomic::Ordering::Relaxed;

use pm::{Component, Dram, Memory, Off, Range, Step, View, observe};
use sim::{Arena, Emulated, LineCounts, Meter, MeterOptions};

const MIB: u64 = 1 << 20;

fn arena(options: MeterOptions) -> (Meter, Emulated<Arena>) {
    let meter = Meter::new(options);
    let memory = Emulated::new(Arena::new(MIB, 64 * MIB).unwrap(), &meter);
    (meter, memory)
}

fn plain() -> (Meter, Emulated<Arena>) {
    arena(MeterOptions::default())
}

/// Loads, by class: dependent, near, sequential, independent.
fn loads(counts: &LineCounts) -> [u64; 4] {
    [counts.dependent, counts.near, counts.sequential, counts.independent]
}

#[test]
fn a_modified_line_is_written_back_by_the_first_flush_alone() {
    for flush_evicts in [false, true] {
        let (meter, memory) = arena(MeterOptions { flush_evicts, ..MeterOptions::default() });
        memory.store(Off::new(128), 7);
        memory.flush(Range::new(128, 8));
        memory.flush(Range::new(128, 8));
        memory.fence();
        let counts = meter.counts();
        assert_eq!((counts.store_misses, counts.flushed_lines), (1, 1));
        assert_eq!((counts.flush_requests, counts.fences), (2, 1));
        assert_eq!((counts.nvm_loads(), counts.nvm_stores()), (1, 1));
        // CLFLUSH has taken the line out, CLWB has not.
        assert_eq!(memory.load(Off::new(136), Relaxed), Ok(0));
        assert_eq!(meter.counts().load_misses(), u64::from(flush_evicts));
        let wear = meter.wear();
        assert_eq!((wear.lines, wear.writes, wear.most), (1, 1, 1));
    }
}

#[test]
fn loads_are_classed_by_what_they_wait_for() {
    let (meter, memory) = plain();
    let mut seen = LineCounts::default();
    let mut classes = |act: &dyn Fn()| {
        act();
        let counts = meter.counts();
        let new = loads(&counts.since(&seen));
        seen = counts;
        new
    };
    let word = |at: u64| assert_eq!(memory.load(Off::new(at), Relaxed), Ok(0));
    assert_eq!(classes(&|| word(64_000)), [1, 0, 0, 0]);
    assert_eq!(classes(&|| word(64_008)), [0; 4], "a hit");
    assert_eq!(classes(&|| word(64_000 + 512)), [0, 1, 0, 0]);
    assert_eq!(classes(&|| word(64_000 - 576)), [1, 0, 0, 0], "too far");
    let mut out = [0; 1024];
    let copy = |at: u64, out: &mut [u8]| memory.read_into(Off::new(at), out).unwrap();
    assert_eq!(classes(&|| copy(128_000, &mut [0; 256])), [1, 0, 3, 0]);
    let parts = [Range::new(200_000, 64), Range::new(300_032, 128), Range::new(400_000, 64)];
    memory.gather(&parts, &mut out[..256]).unwrap();
    assert_eq!(classes(&|| ()), [1, 0, 1, 2], "places of a gather are known beforehand");
    let view = memory.view(Range::new(500_032, 512)).unwrap();
    assert_eq!(classes(&|| ()), [0; 4], "a view alone reads nothing");
    assert_eq!(classes(&|| assert!(view.bytes(64, 64).equal(&[0; 64]))), [1, 0, 0, 0]);
}

#[test]
fn a_prefetch_is_charged_to_the_load_that_waits_for_it() {
    let (meter, memory) = plain();
    let node = Range::new(10_240, 512);
    memory.prefetch(node);
    memory.prefetch(Range::new(20_480, 64));
    let view = memory.view(node).unwrap();
    view.word(0);
    view.bytes(8, 504);
    assert_eq!(loads(&meter.counts()), [1, 0, 7, 1]);
    let ignoring = MeterOptions { prefetches: false, ..MeterOptions::default() };
    let (meter, memory) = arena(ignoring);
    memory.prefetch(node);
    assert_eq!(meter.counts(), LineCounts::default());
}

#[test]
fn a_search_reads_all_words_or_every_second_half() {
    for (wide_search, lines) in [(true, 8), (false, 7)] {
        let (meter, memory) = arena(MeterOptions { wide_search, ..MeterOptions::default() });
        for at in 0..64 {
            memory.store(Off::new(at * 8), at * 3);
        }
        let view = memory.view(Range::new(0, 512)).unwrap();
        for key in [0, 1, 96, 97, 189, 190, u64::MAX] {
            meter.reset();
            assert_eq!(view.rank(0, 64, key), 64.min(key / 3 + 1) as usize);
            assert_eq!(meter.counts().accesses, lines);
        }
        assert_eq!(view.matches(0, 32, 96 * 3), 0);
    }
}

#[test]
fn what_does_not_fit_is_evicted_and_written_back_if_modified() {
    let small = MeterOptions { cache_bytes: 4096, ways: 16, ..MeterOptions::default() };
    let (meter, memory) = arena(small);
    memory.copy(Off::new(0), &[1; 4096]);
    assert_eq!((meter.counts().store_misses, meter.counts().evicted_lines), (64, 0));
    memory.copy(Off::new(4096), &[1; 2048]);
    assert_eq!((meter.counts().store_misses, meter.counts().evicted_lines), (96, 32));
    memory.flush(Range::new(0, 8192));
    assert_eq!(meter.counts().flushed_lines, 64, "what was evicted is durable already");
    let wear = meter.wear();
    assert_eq!((wear.lines, wear.writes, wear.most), (96, 96, 1));
    meter.reset();
    assert_eq!((meter.counts(), meter.wear().lines), (LineCounts::default(), 0));
    memory.read::<u64>(Off::new(4096)).unwrap();
    assert_eq!(meter.counts().load_misses(), 0, "the cache stays as it is");
}

#[test]
fn volatile_memory_is_never_flushed_and_shares_the_cache() {
    let meter = Meter::new(MeterOptions { cache_bytes: 1024, ..MeterOptions::default() });
    let [one, two] = [0; 2].map(|_| Emulated::new(Dram::new(MIB).unwrap(), &meter));
    for memory in [&one, &two] {
        memory.grow(4096).unwrap();
        memory.copy(Off::new(0), &[1; 1024]);
        memory.flush(Range::new(0, 1024));
        memory.fence();
    }
    let counts = meter.counts();
    assert_eq!((counts.flush_requests, counts.flushed_lines, counts.fences), (0, 0, 0));
    assert_eq!(counts.evicted_lines, 16, "one pushes the other out");
}

#[test]
fn a_memory_that_is_gone_leaves_its_lines_to_the_next_one() {
    let meter = Meter::new(MeterOptions::default());
    let make = || Emulated::new(Arena::new(MIB, MIB).unwrap(), &meter);
    let first = make();
    first.store(Off::new(0), 1);
    drop(first);
    make().store(Off::new(0), 1);
    assert_eq!(meter.counts().store_misses, 1);
}

#[test]
fn counts_are_kept_by_step_and_by_component() {
    let (meter, memory) = plain();
    memory.store(Off::new(0), 1);
    observe!(Emulated<Arena>: memory.mark(Step("one")));
    observe!(Emulated<Arena>: memory.enter(Component::Recovery));
    memory.store(Off::new(64), 1);
    memory.store(Off::new(128), 1);
    observe!(Emulated<Arena>: memory.mark(Step("two")));
    observe!(Emulated<Arena>: memory.enter(Component::Index));
    memory.store(Off::new(192), 1);
    observe!(Emulated<Arena>: memory.mark(Step("one")));
    let steps = meter.steps();
    let found = steps.iter().map(|s| (s.step.0, s.times, s.counts.store_misses));
    assert_eq!(found.collect::<Vec<_>>(), [("one", 2, 2), ("two", 1, 2)]);
    let components = meter.components().map(|(_, counts)| counts.store_misses);
    assert_eq!(components, [0, 2, 1, 1]);
}

#[test]
fn an_arena_has_its_bytes_where_a_pool_has_them() {
    let place = tempfile::tempdir().unwrap();
    let options = pm::PoolOptions { initial_bytes: 64 << 10, ..pm::PoolOptions::default() };
    let pool = pm::Pool::create(&place.path().join("pool"), &options).unwrap();
    let arena = Arena::new(options.initial_bytes, options.limit_bytes).unwrap();
    for to in [65 << 10, 300 << 10, 20 * MIB, 20 * MIB + 1, 50 * MIB] {
        pool.grow(to).unwrap();
        arena.grow(to).unwrap();
        assert_eq!(pool.len(), arena.len());
    }
}
