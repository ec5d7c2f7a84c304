//! A program of its own: the crate's sources are compiled again at its root, over a scheduler's locks.
//!
//! The allocator, shared by threads whose interleaving a scheduler chooses: at every load, store,
//! flush, fence and lock another thread may go on. The sources are those of the crate, compiled a
//! second time over the scheduler's locks.
//!
//! No slot is handed out twice; and after a power cut at any fence of any interleaving, what a lane
//! had made durable is there, whatever the others were about. A fence covers the flushes of its own
//! thread only.

#![expect(unreachable_pub, dead_code, reason = "modules of a crate, compiled into a test")]

#[path = "../src/block.rs"]
mod block;
#[path = "../src/chunk.rs"]
mod chunk;
#[path = "../src/classes.rs"]
mod classes;
#[path = "../src/error.rs"]
mod error;
#[path = "../src/heap.rs"]
mod heap;
#[path = "../src/known.rs"]
mod known;
#[path = "../src/lane.rs"]
mod lane;
#[path = "../src/lanes.rs"]
mod lanes;
#[path = "../src/layout.rs"]
mod layout;
#[path = "../src/mini.rs"]
mod mini;
#[path = "../src/persisted.rs"]
mod persisted;
#[path = "../src/purpose.rs"]
mod purpose;
#[path = "../src/shared.rs"]
mod shared;
#[path = "../src/span.rs"]
mod span;
mod sync {
    pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;
}

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use pm::{Bad, GrowError, LineSet, Memory, Off, Pod, Range};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::atomic::AtomicBool;
use shuttle::{Config, MaxSteps, Runner, thread};
use sim::{Recording, Replay, Trace};

use crate::heap::HeapOptions;
use crate::lane::Lane;
use crate::lanes::Lanes;
use crate::purpose::Purpose;
use crate::shared::Heap;

const LIMIT: u64 = 1 << 20;

/// A recording memory at which the scheduler can change threads.
#[derive(Clone, Debug)]
struct Shared {
    memory: Recording,
    point: sync::Arc<AtomicBool>,
}

impl Shared {
    fn new(memory: Recording) -> Self {
        Self { memory, point: sync::Arc::new(AtomicBool::new(false)) }
    }

    /// Lets others go on; then this thread does something.
    fn step(&self) -> &Recording {
        self.point.load(Ordering::SeqCst);
        self.alone()
    }

    fn alone(&self) -> &Recording {
        sim::record_as(Some(usize::from(shuttle::current::me()) as u32));
        &self.memory
    }
}

impl Memory for Shared {
    const DURABLE: bool = true;
    type View<'a> = <Recording as Memory>::View<'a>;

    fn len(&self) -> u64 {
        self.memory.len()
    }
    fn grow(&self, to: u64) -> Result<(), GrowError> {
        self.step().grow(to)
    }
    fn headroom(&self) -> u64 {
        self.memory.headroom()
    }
    fn healthy(&self) -> Result<(), Bad> {
        self.memory.healthy()
    }
    fn read<T: Pod>(&self, at: Off<T>) -> Result<T, Bad> {
        self.step().read(at)
    }
    fn read_into(&self, at: Off<u8>, out: &mut [u8]) -> Result<(), Bad> {
        self.step().read_into(at, out)
    }
    fn view(&self, at: Range) -> Result<Self::View<'_>, Bad> {
        self.step().view(at)
    }
    fn gather(&self, parts: &[Range], out: &mut [u8]) -> Result<(), Bad> {
        self.step().gather(parts, out)
    }
    fn load(&self, at: Off<u64>, order: Ordering) -> Result<u64, Bad> {
        self.step().load(at, order)
    }
    #[track_caller]
    fn store(&self, at: Off<u64>, value: u64) {
        self.step().store(at, value);
    }
    #[track_caller]
    fn cas(&self, at: Off<u64>, old: u64, new: u64) -> Result<u64, u64> {
        self.step().cas(at, old, new)
    }
    #[track_caller]
    fn copy(&self, at: Off<u8>, src: &[u8]) {
        self.step().copy(at, src);
    }
    #[track_caller]
    fn flush(&self, at: Range) {
        self.step().flush(at);
    }
    #[track_caller]
    fn fence(&self) {
        self.step().fence();
    }
    fn prefetch(&self, at: Range) {
        self.memory.prefetch(at);
    }
}

/// The heap after a crash, as the crate sees it.
type Found = ::heap::Heap<Recording>;

/// Runs `story` under so many random schedules, and as many that change threads rarely; returns
/// how many there were.
fn interleave(schedules: usize, story: impl Fn() + Send + Sync + Copy + 'static) -> usize {
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        let mut config = Config::new();
        config.stack_size = 256 << 10;
        config.max_steps = MaxSteps::FailAfter(1 << 20);
        Runner::new(scheduler, config).run(story)
    };
    run(Box::new(RandomScheduler::new_from_seed(7, schedules)))
        + run(Box::new(PctScheduler::new_from_seed(8, 3, schedules)))
}

fn formatted(lanes: u32) -> (Shared, Heap<Shared>) {
    let memory = Shared::new(Recording::pool(16 << 10, LIMIT).unwrap());
    let heap = Heap::format(memory.clone(), HeapOptions { chunk_bytes: 8 << 10, lanes }).unwrap();
    (memory, heap)
}

fn contents(stamp: u64, bytes: u64) -> Vec<u8> {
    let mut contents = vec![(stamp * 7 + 1) as u8; bytes as usize];
    contents[..8].copy_from_slice(&stamp.to_le_bytes());
    contents
}

/// An object that is durable and persisted when this returns.
fn durable_object(lane: &mut Lane<Shared>, stamp: u64, bytes: u64) -> u64 {
    let memory = lane.memory().clone();
    let mut lines = LineSet::new();
    let at = lane.allocate(bytes, Purpose::Table).unwrap();
    memory.copy(Off::new(at), &contents(stamp, bytes));
    lines.add(Range::new(at, bytes));
    lines.flush(&memory);
    memory.fence();
    lane.mark_persisted(at, &mut lines);
    lines.flush(&memory);
    memory.fence();
    at
}

fn durably_free(lane: &mut Lane<Shared>, at: u64) {
    let mut lines = LineSet::new();
    lane.clear_persisted(at, &mut lines).unwrap();
    lines.flush(lane.memory());
    lane.memory().fence();
    lane.release(at);
}

/// The objects that the threads of a story have made durable: notes of the trace count the changes.
#[derive(Default)]
struct Ledger {
    now: BTreeMap<u64, (u64, u64)>,
    moments: Vec<BTreeMap<u64, (u64, u64)>>,
}

impl Ledger {
    /// Says that objects are durable, with stamp and size, or about to go. No other thread runs
    /// meanwhile.
    fn note(
        ledger: &Mutex<Self>,
        memory: &Shared,
        change: impl FnOnce(&mut BTreeMap<u64, (u64, u64)>),
    ) {
        let mut ledger = ledger.try_lock().expect("no thread is stopped with it");
        change(&mut ledger.now);
        let now = ledger.now.clone();
        ledger.moments.push(now);
        memory.alone().note(ledger.moments.len() as u64);
    }
}

/// Opens the heap in every state of every crash point (up to a bound) and calls `check` with the
/// number of the last note.
fn every_crash(trace: &Trace, mut check: impl FnMut(&Found, usize)) -> u64 {
    let (mut replay, mut states) = (Replay::new(trace), 0);
    while let Some(point) = replay.next_point() {
        let noted = point.last_note.unwrap_or(0) as usize;
        let seen = point.for_each_state(6, 5, |image| {
            let memory = Recording::pool_from_image(image, LIMIT).unwrap();
            check(&Found::open(memory).unwrap(), noted);
        });
        states += seen.visited;
    }
    states
}

/// Every object of the ledger is persisted and whole, and its bytes are not given out.
fn objects_are_there(heap: &Found, objects: &BTreeMap<u64, (u64, u64)>, lanes: u32) {
    let mut taken = BTreeMap::new();
    heap.for_each_persisted(|at, bytes| assert!(taken.insert(at, bytes).is_none())).unwrap();
    for (at, (stamp, bytes)) in objects {
        assert!(taken.get(at).is_some_and(|slot| slot >= bytes), "{at:#x} is not persisted");
        let mut found = vec![0; *bytes as usize];
        heap.memory().read_into(Off::new(*at), &mut found).unwrap();
        assert!(found == contents(*stamp, *bytes), "{at:#x} is not whole");
    }
    let handed_out = ::heap::Lanes::of(heap);
    let handed_out: Vec<_> = (0..3).map(|_| handed_out.take().unwrap()).collect();
    for mut lane in (0..lanes).map(|lane| heap.lane(lane)).chain(handed_out) {
        for bytes in [3000, 100, 3000] {
            let at = lane.allocate(bytes, ::heap::Purpose::Table).unwrap();
            let before = taken.range(..at + bytes).next_back();
            let overlaps = before.is_some_and(|(other, slot)| other + slot > at);
            assert!(!overlaps, "{at:#x} is handed out twice");
            taken.insert(at, bytes);
        }
    }
}

/// Chunks are taken, filled, emptied and given back by three lanes at once; some of them before.
fn lanes_at_once() {
    let (memory, heap) = formatted(3);
    let ledger = Mutex::new(Ledger::default());
    memory.memory.start();
    thread::scope(|scope| {
        for number in 0..3u64 {
            let (heap, memory, ledger) = (&heap, &memory, &ledger);
            scope.spawn(move || {
                let mut lane = heap.lane(number as u32);
                let mut mine = Vec::new();
                for round in 0..4 {
                    let (stamp, bytes) =
                        (number * 100 + round + 1, [3000, 100][round as usize % 2]);
                    let at = durable_object(&mut lane, stamp, bytes);
                    Ledger::note(ledger, memory, |now| {
                        assert!(now.insert(at, (stamp, bytes)).is_none(), "{at:#x} twice");
                    });
                    mine.push(at);
                }
                // Chunks with two slots each: what is emptied beyond two goes to everybody.
                let large: Vec<u64> =
                    (0..6).map(|_| lane.allocate(3000, Purpose::Table).unwrap()).collect();
                large.into_iter().for_each(|at| lane.release(at));
                Ledger::note(ledger, memory, |now| {
                    now.remove(&mine[0]);
                });
                durably_free(&mut lane, mine[0]);
            });
        }
    });
    let trace = memory.memory.stop();
    let moments = ledger.into_inner().unwrap().moments;
    every_crash(&trace, |heap, noted| {
        let nothing = BTreeMap::new();
        objects_are_there(heap, noted.checked_sub(1).map_or(&nothing, |at| &moments[at]), 3);
    });
}

#[test]
fn lanes_that_take_and_give_back_chunks_at_once_keep_theirs() {
    let schedules = interleave(10, lanes_at_once);
    println!("{schedules} schedules");
}

/// A mini-transaction of one lane empties a chunk; another lane takes it. If the record of the
/// mini-transaction were applied again after a crash, it would change what is the other's.
fn a_chunk_goes_from_one_lane_to_another() {
    let (memory, heap) = formatted(2);
    let (mut first, mut second) = (heap.lane(0), heap.lane(1));
    // Four chunks of two slots. Two are emptied and stay with the lane, the third will go.
    let all: Vec<u64> = (1..=8).map(|stamp| durable_object(&mut first, stamp, 3000)).collect();
    all[..4].iter().for_each(|at| durably_free(&mut first, *at));
    let ledger = Mutex::new(Ledger::default());
    memory.memory.start();
    thread::scope(|scope| {
        let (memory, ledger, kept) = (&memory, &ledger, all[6]);
        scope.spawn(move || {
            // A word of a line of its own, in an object.
            first.mini_store(Off::new((kept + 127) & !63), 0xabcd);
            first.mini_free(all[4]).unwrap();
            first.mini_free(all[5]).unwrap();
            first.mini_commit(&mut LineSet::new());
            first.fence_flushed();
        });
        scope.spawn(move || {
            for stamp in 20..23 {
                let at = durable_object(&mut second, stamp, 100);
                Ledger::note(ledger, memory, |now| {
                    now.insert(at, (stamp, 100));
                });
            }
        });
    });
    let trace = memory.memory.stop();
    let moments = ledger.into_inner().unwrap().moments;
    every_crash(&trace, |heap, noted| {
        let nothing = BTreeMap::new();
        objects_are_there(heap, noted.checked_sub(1).map_or(&nothing, |at| &moments[at]), 2);
    });
}

#[test]
fn a_mini_transaction_leaves_a_chunk_it_emptied_alone() {
    let schedules = interleave(30, a_chunk_goes_from_one_lane_to_another);
    println!("{schedules} schedules");
}

/// Two lanes find the same chunk without a tag, which a crash has left, while both need chunks; the
/// hints lead to chunks that are others' by now.
fn a_chunk_without_a_tag_is_found_twice() {
    let (memory, heap) = formatted(3);
    let mut kept = BTreeMap::new();
    for number in 0..2u64 {
        let at = durable_object(&mut heap.lane(number as u32), number + 1, 3000);
        kept.insert(at, (number + 1, 3000));
    }
    // The third lane's chunk loses its tag, as if it had not been durable.
    let third = heap.lane(2).allocate(3000, Purpose::Table).unwrap();
    let tag = heap.chunk_at(heap.chunk_of(third).unwrap());
    memory.store(Off::new(tag), 0);
    drop(heap);
    let heap = Heap::open(memory.clone()).unwrap();
    let ledger = Mutex::new(Ledger { now: kept, moments: Vec::new() });
    thread::scope(|scope| {
        for number in 0..3u64 {
            let (heap, memory, ledger) = (&heap, &memory, &ledger);
            scope.spawn(move || {
                let mut lane = heap.lane(number as u32);
                for round in 0..3 {
                    let stamp = number * 100 + round + 10;
                    let at = lane.allocate(3000, Purpose::Table).unwrap();
                    memory.copy(Off::new(at), &contents(stamp, 3000));
                    Ledger::note(ledger, memory, |now| {
                        assert!(now.insert(at, (stamp, 3000)).is_none(), "{at:#x} twice");
                    });
                }
            });
        }
    });
    for (at, (stamp, bytes)) in ledger.into_inner().unwrap().now {
        let mut found = vec![0; bytes as usize];
        memory.memory.read_into(Off::new(at), &mut found).unwrap();
        assert!(found == contents(stamp, bytes), "{at:#x} belongs to two");
    }
}

#[test]
fn a_chunk_without_a_tag_goes_to_one_lane() {
    let schedules = interleave(40, a_chunk_without_a_tag_is_found_twice);
    println!("{schedules} schedules");
}

/// One lane needs a chunk when there is no room left, while another gives one back.
fn the_last_chunk() {
    let (memory, heap) = formatted(2);
    let mut lanes = [heap.lane(0), heap.lane(1)];
    let all: Vec<u64> = (0..8).map(|_| lanes[0].allocate(3000, Purpose::Table).unwrap()).collect();
    memory.memory.fail_growth_after(Some(0));
    let [mut giver, mut taker] = lanes;
    let wanted = thread::scope(|scope| {
        scope.spawn(move || all.into_iter().for_each(|at| giver.release(at)));
        let wants = move || {
            let mut tries = 0;
            // An error until there is a chunk; none is lost.
            while taker.allocate(100, Purpose::Table).is_err() {
                tries += 1;
                thread::yield_now();
            }
            tries
        };
        scope.spawn(wants).join().unwrap()
    });
    assert!(wanted < 10_000);
}

#[test]
fn a_lane_without_room_gets_a_chunk_given_back_by_another() {
    let schedules = interleave(40, the_last_chunk);
    println!("{schedules} schedules");
}

/// Names that are set at once: all are there, each with its own root, after any crash that follows.
fn names_at_once() {
    let (memory, heap) = formatted(1);
    let done = Mutex::new(0u64);
    memory.memory.start();
    thread::scope(|scope| {
        for number in 0..3u64 {
            let (heap, memory, done) = (&heap, &memory, &done);
            scope.spawn(move || {
                for round in 0..2 {
                    heap.set_root(&format!("name {number}"), number * 10 + round + 1).unwrap();
                    let mut done = done.try_lock().unwrap();
                    *done = (*done & !(0xf << (number * 4))) | (round + 1) << (number * 4);
                    memory.alone().note(*done);
                }
            });
        }
    });
    every_crash(&memory.memory.stop(), |heap, noted| {
        for number in 0..3u64 {
            let acknowledged = (noted as u64 >> (number * 4)) & 0xf;
            let found = heap.root(&format!("name {number}")).unwrap();
            let round = found.map_or(0, |root| root - number * 10);
            assert!((acknowledged..=acknowledged + 1).contains(&round), "{number}: {found:?}");
        }
    });
}

#[test]
fn names_that_are_set_at_once_are_all_set() {
    let schedules = interleave(12, names_at_once);
    println!("{schedules} schedules");
}

/// Lanes are taken and dropped by three threads at once; each frees what another one has made.
fn lanes_are_handed_out() {
    let (memory, heap) = formatted(1);
    let ledger = Mutex::new(Ledger::default());
    let made = Mutex::new(Vec::new());
    memory.memory.start();
    thread::scope(|scope| {
        for number in 0..3u64 {
            let (heap, memory, ledger, made) = (&heap, &memory, &ledger, &made);
            scope.spawn(move || {
                let lanes = Lanes::of(heap);
                for round in 0..3 {
                    let mut lane = lanes.take().unwrap();
                    for step in 0..2 {
                        let (stamp, bytes) =
                            (number * 100 + round * 10 + step + 1, [3000, 100][step as usize]);
                        let at = durable_object(&mut lane, stamp, bytes);
                        Ledger::note(ledger, memory, |now| {
                            assert!(now.insert(at, (stamp, bytes)).is_none(), "{at:#x} twice");
                        });
                        made.try_lock().unwrap().push(at);
                    }
                    let mut all = made.try_lock().unwrap();
                    let middle = all.len() / 2;
                    let freed = all.swap_remove(middle);
                    drop(all);
                    Ledger::note(ledger, memory, |now| {
                        now.remove(&freed);
                    });
                    lanes.give_back(freed).unwrap();
                }
            });
        }
    });
    let lanes = Lanes::of(&heap);
    assert_eq!((lanes.count(), lanes.collect().unwrap()), (7, 0));
    let mut there = 0;
    heap.for_each_persisted(|_, _| there += 1).unwrap();
    let trace = memory.memory.stop();
    let Ledger { now, moments } = ledger.into_inner().unwrap();
    assert_eq!(there, now.len(), "what was given back is free");
    every_crash(&trace, |heap, noted| {
        let nothing = BTreeMap::new();
        objects_are_there(heap, noted.checked_sub(1).map_or(&nothing, |at| &moments[at]), 1);
    });
}

#[test]
fn threads_that_are_handed_lanes_at_once_keep_what_is_theirs() {
    let schedules = interleave(10, lanes_are_handed_out);
    println!("{schedules} schedules");
}

/// Two lanes take fresh chunks at once. After a power cut a third lane takes a span where the chunks
/// were; the next opening of the heap follows the hints of the first two.
fn fresh_chunks_at_once() {
    let (memory, heap) = formatted(3);
    memory.memory.start();
    thread::scope(|scope| {
        for number in 0..2 {
            let mut lane = heap.lane(number);
            scope.spawn(move || lane.allocate(3000, Purpose::Table).unwrap());
        }
    });
    every_crash(&memory.memory.stop(), |heap, _| {
        let mut lane = heap.lane(2);
        let at = lane.allocate(20_000, ::heap::Purpose::Log).unwrap();
        lane.mark_persisted(at, &mut LineSet::new());
        heap.memory().copy(Off::new(at), &[0; 20_000]);
        for number in 0..2u64 {
            // Inner chunks that look like those of this lane.
            let tag = u64::from(u32::from_le_bytes(*b"PDCK")) | 59 << 32 | number << 48;
            for inner in 1..3 {
                heap.memory().store(Off::new((at / 8192 + inner) * 8192), tag);
            }
            let memory = Recording::from_image(&heap.memory().contents(), LIMIT).unwrap();
            let next = Found::open(memory).unwrap();
            let slot = next.lane(number as u32).allocate(3000, ::heap::Purpose::Table).unwrap();
            assert!(!(at..at + 20_000).contains(&slot), "{slot:#x} lies in the span at {at:#x}");
        }
    });
}

#[test]
fn a_hint_is_not_durable_before_the_mark_that_it_lies_below() {
    let schedules = interleave(20, fresh_chunks_at_once);
    println!("{schedules} schedules");
}

/// One lane gives a span back and takes a larger one over it; meanwhile another thread looks for
/// chunks that are free.
fn a_span_grows_over_another() {
    let (memory, heap) = formatted(1);
    let mut lane = heap.lane(0);
    lane.recovered();
    // Two chunks each; the last one keeps the others below the mark.
    let mut spans = [(); 3].map(|()| lane.allocate(12_000, Purpose::Log).unwrap());
    thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..4 {
                lane.release(spans[0]);
                lane.release(spans[1]);
                let at = lane.allocate(30_000, Purpose::Log).unwrap();
                memory.copy(Off::new(at), &[0xff; 30_000]);
                lane.release(at);
                spans[..2].fill_with(|| lane.allocate(12_000, Purpose::Log).unwrap());
                assert_eq!(at, spans[0], "the same chunks");
            }
        });
        scope.spawn(|| (0..8).for_each(|_| heap.find_free_chunks().unwrap()));
    });
}

#[test]
fn a_search_for_free_chunks_takes_no_contents_for_a_length() {
    let schedules = interleave(200, a_span_grows_over_another);
    println!("{schedules} schedules");
}

/// Tests that each build of `.ci/run` adds: more schedules.
mod whole {
    use super::*;

    #[test]
    #[ignore = "a build of .ci/run runs it"]
    fn lanes_that_take_and_give_back_chunks_at_once_keep_theirs() {
        interleave(40, lanes_at_once);
    }

    #[test]
    #[ignore = "a build of .ci/run runs it"]
    fn a_mini_transaction_leaves_a_chunk_it_emptied_alone() {
        interleave(150, a_chunk_goes_from_one_lane_to_another);
    }

    #[test]
    #[ignore = "a build of .ci/run runs it"]
    fn a_chunk_without_a_tag_goes_to_one_lane() {
        interleave(200, a_chunk_without_a_tag_is_found_twice);
    }

    #[test]
    #[ignore = "a build of .ci/run runs it"]
    fn a_lane_without_room_gets_a_chunk_given_back_by_another() {
        interleave(200, the_last_chunk);
    }

    #[test]
    #[ignore = "a build of .ci/run runs it"]
    fn names_that_are_set_at_once_are_all_set() {
        interleave(60, names_at_once);
    }

    #[test]
    #[ignore = "a build of .ci/run runs it"]
    fn threads_that_are_handed_lanes_at_once_keep_what_is_theirs() {
        interleave(40, lanes_are_handed_out);
    }

    #[test]
    #[ignore = "a build of .ci/run runs it"]
    fn a_hint_is_not_durable_before_the_mark_that_it_lies_below() {
        interleave(100, fresh_chunks_at_once);
    }

    #[test]
    #[ignore = "a build of .ci/run runs it"]
    fn a_search_for_free_chunks_takes_no_contents_for_a_length() {
        interleave(1000, a_span_grows_over_another);
    }
}
