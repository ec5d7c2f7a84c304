//! Lines flushed and fences of an insert, splits included: deterministic, so they are tests.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::{Event, Recording};
use slotted::{Fash, Fash1, Fast, Fast1, Journal, Line, Nvwal, Options, Scheme, Store, Wal, Word};

use crate::work::heap_over;

const INSERTS: u64 = 3000;

/// The costs of single inserts.
struct Costs {
    lines: f64,
    fences: f64,
    /// The share of those that have as many fences as a commit in place.
    in_place: f64,
}

/// The costs of single inserts of random 40-bit keys, after as many others; those in place have so
/// many fences.
fn costs<S: Scheme<Recording>>(value_bytes: usize, page_bytes: u32, in_place_fences: u64) -> Costs {
    let memory = Recording::pool(16 << 10, 64 << 20).unwrap();
    let options = Options { page_bytes, ..Options::default() };
    let mut store =
        Store::<Recording, S>::create(heap_over(memory.clone()).lane(0), options).unwrap();
    let mut random = SmallRng::seed_from_u64(1);
    for insert in 0..2 * INSERTS {
        let key = random.random_range(0..1u64 << 40).to_be_bytes();
        if insert == INSERTS {
            memory.start();
        }
        store.put(0, &key[3..], &vec![7; value_bytes]).unwrap();
        store.commit().unwrap();
        memory.note(insert);
    }
    let trace = memory.stop();
    let (all, mut fences, mut in_place) = (trace.counters(), 0, 0);
    for recorded in &trace.events {
        match recorded.event {
            Event::Fence => fences += 1,
            Event::Note(_) => {
                in_place += u64::from(std::mem::take(&mut fences) == in_place_fences);
            }
            _ => {}
        }
    }
    store.check().unwrap();
    let of = |count: u64| count as f64 / INSERTS as f64;
    let (lines, fences, in_place) = (of(all.flushed_lines), of(all.fences), of(in_place));
    println!(
        "{}, {value_bytes} B in {page_bytes}: {lines:.2} lines, {fences:.3} fences, {in_place:.3}",
        S::NAME
    );
    Costs { lines, fences, in_place }
}

#[test]
fn an_insert_of_fast_flushes_few_lines() {
    for (value_bytes, most_lines) in [(16, 3.3), (48, 4.0)] {
        let Costs { lines, fences, in_place } = costs::<Fast<Recording>>(value_bytes, 4096, 2);
        assert!(lines <= most_lines, "{value_bytes} bytes: {lines} lines");
        // Two, and one more with a split.
        assert!((2.0..2.1).contains(&fences), "{value_bytes} bytes: {fences} fences");
        assert!(in_place >= 0.9, "{value_bytes} bytes: {in_place} in place");
    }
}

/// P3's own form: one line, stored whole, so that there is room for more records.
#[test]
fn an_insert_whose_header_is_stored_whole_costs_no_more() {
    for (value_bytes, most_lines) in [(16, 3.3), (48, 4.0)] {
        let Costs { lines, fences, in_place } = costs::<Line<Recording>>(value_bytes, 4096, 2);
        assert!(lines <= most_lines, "{value_bytes} bytes: {lines} lines");
        assert!((2.0..2.1).contains(&fences), "{value_bytes} bytes: {fences} fences");
        assert!(in_place >= 0.9, "{value_bytes} bytes: {in_place} in place");
    }
}

/// A leaf has 25 records, not 28, so that more inserts split one.
#[test]
fn an_insert_of_fast1_has_one_fence() {
    for (value_bytes, most_lines) in [(16, 3.7), (48, 4.2), (64, 5.3)] {
        let Costs { lines, fences, in_place } = costs::<Fast1<Recording>>(value_bytes, 4096, 1);
        assert!(lines <= most_lines, "{value_bytes} bytes: {lines} lines");
        assert!(fences <= 1.1, "{value_bytes} bytes: {fences} fences");
        assert!(in_place >= 0.9, "{value_bytes} bytes: {in_place} in place");
    }
}

/// Most lines of an insert, for value bytes in pages of so many bytes, and bounds of its fences.
fn within<S: Scheme<Recording>>(cases: [(usize, u32, f64); 3], fences: std::ops::Range<f64>) {
    for (value_bytes, page_bytes, most_lines) in cases {
        let found = costs::<S>(value_bytes, page_bytes, 0);
        assert!(found.lines <= most_lines, "{}, {value_bytes} B: {} lines", S::NAME, found.lines);
        assert!(fences.contains(&found.fences), "{}: {} fences", S::NAME, found.fences);
    }
}

#[test]
fn an_insert_of_fash_flushes_its_header_twice() {
    within::<Fash<Recording>>([(16, 1024, 7.8), (64, 1024, 7.9), (64, 4096, 10.3)], 3.0..3.05);
}

#[test]
fn an_insert_of_fash1_has_one_fence() {
    within::<Fash1<Recording>>([(16, 1024, 7.2), (64, 1024, 7.5), (64, 4096, 9.6)], 1.0..1.05);
}

/// Ascending keys, whose records follow all others.
#[test]
fn an_ascending_insert_is_committed_by_one_word() {
    let memory = Recording::pool(16 << 10, 64 << 20).unwrap();
    let heap = heap_over(memory.clone());
    let mut store =
        Store::<Recording, Word<Recording>>::create(heap.lane(0), Options::default()).unwrap();
    memory.start();
    for key in 0..INSERTS {
        store.put(0, &key.to_be_bytes(), &[7; 48]).unwrap();
        store.commit().unwrap();
    }
    let all = memory.stop().counters();
    let of = |count: u64| count as f64 / INSERTS as f64;
    println!("word: {:.2} lines, {:.3} fences", of(all.flushed_lines), of(all.fences));
    assert!(of(all.flushed_lines) <= 5.2 && of(all.fences) <= 2.05);
}

/// With the checkpoint, which is made every thousand frames.
#[test]
fn an_insert_of_nvwal_flushes_what_differs() {
    within::<Nvwal<Recording>>([(16, 1024, 6.7), (64, 1024, 8.9), (64, 4096, 10.5)], 2.0..2.05);
}

/// With the checkpoint, too.
#[test]
fn an_insert_of_the_log_of_pages_flushes_each_page() {
    within::<Wal<Recording>>([(16, 1024, 25.0), (64, 1024, 29.0), (64, 4096, 81.0)], 2.0..2.05);
}

#[test]
fn an_insert_of_the_journal_flushes_each_page_twice() {
    within::<Journal<Recording>>(
        [(16, 1024, 50.0), (64, 1024, 50.0), (64, 4096, 200.0)],
        3.0..3.05,
    );
}
