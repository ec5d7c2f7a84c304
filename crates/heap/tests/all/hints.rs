//! An older hint that has reached the medium, where the newer one has not, leads into no span.

use heap::{Heap, HeapOptions, Purpose};
use pm::{LineSet, Memory, Off, Range};
use sim::{Recording, Replay, Trace};

const LIMIT: u64 = 1 << 20;

#[test]
fn a_hint_that_was_stored_before_leads_into_no_span() {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let options = HeapOptions { chunk_bytes: 8 << 10, lanes: 1 };
    let heap = Heap::format(memory.clone(), options).unwrap();
    let mut lane = heap.lane(0);
    lane.recovered();
    memory.start();
    let mut lines = LineSet::new();
    // Five chunks of two; the middle ones go.
    let all: Vec<u64> = (0..10).map(|_| lane.allocate(3000, Purpose::Table).unwrap()).collect();
    all[..8].iter().for_each(|at| lane.release(*at));
    let span = lane.allocate(12_000, Purpose::Log).unwrap();
    // The second chunk of the span looks like one of this size.
    let second = (span + 8192) / 4096 * 4096;
    let tag = u64::from(u32::from_le_bytes(*b"PDCK")) | 59 << 32;
    memory.copy(Off::new(span), &[0; 12_000]);
    memory.store(Off::new(second), tag);
    lines.add(Range::new(span, 12_000));
    lines.flush(&memory);
    memory.fence();
    lane.mark_persisted(span, &mut lines);
    lines.flush(&memory);
    memory.fence();
    memory.note(1);
    let trace = memory.stop();
    let (states, inside) = into_the_span(&trace, span..span + 12_000);
    assert!(states > 3 && inside == 0, "{states} states, {inside}");
    let (sites, forgets) = (trace.flush_sites(), lines_of_forget_hints());
    let here = |site: &&pm::Site| {
        site.file().ends_with("span.rs") && forgets.contains(&(site.line() as usize))
    };
    let flushes: Vec<_> = sites.iter().filter(here).collect();
    assert!(!flushes.is_empty(), "{sites:?}");
    for site in flushes {
        let without = trace.without_flushes_of(site);
        assert!(into_the_span(&without, span..span + 12_000).1 > 0, "{site}");
    }
}

/// The lines of the source in which the allocator takes hints away.
fn lines_of_forget_hints() -> std::ops::Range<usize> {
    let mut lines = include_str!("../../src/span.rs").lines();
    let start = lines.position(|line| line.contains("fn forget_hints")).unwrap() + 1;
    start..start + lines.position(|line| line == "    }").unwrap() + 1
}

/// Returns how many states there are after the note, and in how many of them a slot lies in the span.
fn into_the_span(trace: &Trace, span: std::ops::Range<u64>) -> (u64, u64) {
    let (mut replay, mut states, mut inside) = (Replay::new(trace), 0, 0);
    while let Some(point) = replay.next_point() {
        let noted = point.last_note.is_some();
        point.for_each_state(40, 1, |image| {
            let heap = Heap::open(Recording::pool_from_image(image, LIMIT).unwrap()).unwrap();
            if noted {
                states += 1;
                let at = heap.lane(0).allocate(3000, Purpose::Table).unwrap();
                inside += u64::from(span.contains(&at));
            }
        });
    }
    (states, inside)
}
