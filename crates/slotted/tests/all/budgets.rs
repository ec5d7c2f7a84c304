//! Lines flushed and fences of an insert, splits included: deterministic, so they are tests.

use pm::{Event, Recording};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use slotted::{Fash, Fast, Nvwal, Options, Scheme, Store};

use crate::work::heap_over;

const INSERTS: u64 = 3000;

/// The costs of single inserts of random 40-bit keys, after as many others, and the share of those
/// that commit with two fences.
fn costs<S: Scheme<Recording>>(value_bytes: usize, page_bytes: u32) -> (f64, f64, f64) {
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
            Event::Note(_) => in_place += u64::from(std::mem::take(&mut fences) == 2),
            _ => {}
        }
    }
    store.check().unwrap();
    let of = |count: u64| count as f64 / INSERTS as f64;
    (of(all.flushed_lines), of(all.fences), of(in_place))
}

#[test]
fn an_insert_of_fast_flushes_few_lines() {
    for (value_bytes, most_lines) in [(16, 3.3), (48, 4.0)] {
        let (lines, fences, in_place) = costs::<Fast<Recording>>(value_bytes, 4096);
        println!("fast, {value_bytes} B: {lines} lines, {fences} fences, {in_place} in place");
        assert!(lines <= most_lines, "{value_bytes} bytes: {lines} lines");
        assert!(fences <= 2.15, "{value_bytes} bytes: {fences} fences");
        assert!(in_place >= 0.9, "{value_bytes} bytes: {in_place} in place");
    }
}

#[test]
fn an_insert_of_fash_flushes_its_header_twice() {
    for (value_bytes, page_bytes, most_lines) in
        [(16, 1024, 7.8), (64, 1024, 7.9), (64, 4096, 10.3)]
    {
        let (lines, fences, _) = costs::<Fash<Recording>>(value_bytes, page_bytes);
        println!("fash, {value_bytes} B in {page_bytes}: {lines} lines, {fences} fences");
        assert!(lines <= most_lines, "{value_bytes} bytes: {lines} lines");
        assert!((3.0..3.05).contains(&fences), "{value_bytes} bytes: {fences} fences");
    }
}

/// With the checkpoint, which is made every thousand frames.
#[test]
fn an_insert_of_nvwal_flushes_what_differs() {
    for (value_bytes, page_bytes, most_lines) in [(64, 1024, 12.0), (64, 4096, 12.0)] {
        let (lines, fences, _) = costs::<Nvwal<Recording>>(value_bytes, page_bytes);
        println!("nvwal, {value_bytes} B in {page_bytes}: {lines} lines, {fences} fences");
        assert!(lines <= most_lines, "{value_bytes} bytes: {lines} lines");
        assert!((2.0..2.05).contains(&fences), "{value_bytes} bytes: {fences} fences");
    }
}
