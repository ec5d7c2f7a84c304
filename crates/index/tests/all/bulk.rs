//! Trees that are built leaf by leaf and taken apart again, under power cuts
//! (`docs/format/crash-model.md`).
//!
//! At every fence and in every state of the pending lines the tree is sound and the model's before
//! or after the step in flight, and the allocator holds exactly the tree's nodes. Without one of its
//! flushes or fences the test fails.

use std::collections::BTreeSet;

use heap::{Heap, HeapOptions, Lane, Purpose};
use index::{Append, BTree, NodeShape};
use pm::{LineSet, Memory, Off, Site};
use sim::{Recording, Replay, Trace};

const LIMIT: u64 = 2 << 20;
const LEAVES: u64 = 40;
/// Entries of a leaf of 128 bytes.
const CAPACITY: u64 = 7;

type Tree = BTree<u64, Append>;

fn shape() -> NodeShape {
    NodeShape::new(128, 8).unwrap()
}

fn entries_of(leaf: u64) -> Vec<(u64, u64, usize)> {
    // Every third leaf is not full.
    let many = if leaf % 3 == 1 { 2 } else { CAPACITY };
    (0..many).map(|number| (leaf * 10 + number, leaf * 100 + number, 0)).collect()
}

/// After step `n` the tree has the leaves up to the model's `n`th number.
struct Story {
    trace: Trace,
    leaves: Vec<u64>,
}

fn build(tree: &mut Tree, lane: &mut Lane<Recording>, leaf: u64) {
    tree.append_leaf(lane, &entries_of(leaf), &mut LineSet::new()).unwrap();
}

fn story() -> Story {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let heap =
        Heap::format(memory.clone(), HeapOptions { chunk_bytes: 8 << 10, lanes: 1 }).unwrap();
    let mut lane = heap.lane(0);
    let cell = lane.allocate(64, Purpose::Log).unwrap();
    let mut lines = LineSet::new();
    memory.copy(Off::new(cell), &[0; 64]);
    memory.flush(pm::Range::new(cell, 64));
    memory.fence();
    lane.mark_persisted(cell, &mut lines);
    lines.flush(&memory);
    memory.fence();
    heap.set_root("tree", cell).unwrap();
    let mut tree = Tree::open(Off::new(cell), shape());
    let mut leaves = vec![0];
    memory.start();
    for leaf in 0..LEAVES {
        build(&mut tree, &mut lane, leaf);
        leaves.push(leaf + 1);
        memory.note(leaves.len() as u64 - 1);
    }
    assert!(tree.check(&memory, |_, _| {}).unwrap().levels >= 3);
    for leaf in (0..LEAVES).rev() {
        let mut last = Vec::new();
        assert!(tree.last_leaf(&memory, &mut last).unwrap());
        assert!(last.iter().map(|entry| entry.0).eq(entries_of(leaf).iter().map(|e| e.0)));
        tree.drop_last_leaf(&mut lane).unwrap();
        leaves.push(leaf);
        memory.note(leaves.len() as u64 - 1);
    }
    assert!(!tree.exists(&memory).unwrap());
    Story { trace: memory.stop(), leaves }
}

fn verdict(image: &[u8], story: &Story, done: u64) -> Result<(), String> {
    // As `Pool::open`: what lies beyond the size in the header is not there.
    let whole = Recording::from_image(image, LIMIT).map_err(|error| error.to_string())?;
    let (header, _) = pm::read_header(&whole).map_err(|error| error.to_string())?;
    let image = &image[..header.size as usize];
    let memory = Recording::from_image(image, LIMIT).map_err(|error| error.to_string())?;
    let heap = Heap::open(memory.clone()).map_err(|error| error.to_string())?;
    let cell = heap.root("tree").map_err(|error| error.to_string())?.ok_or("no root")?;
    let tree = Tree::open(Off::new(cell), shape());
    let mut objects = BTreeSet::from([cell]);
    let mut found = Vec::new();
    if tree.exists(&memory).map_err(|error| error.to_string())? {
        let nodes = tree.check(&memory, |key, value| found.push((*key, value)));
        objects.extend(nodes.map_err(|error| error.to_string())?.nodes);
    }
    let expected = |leaves: u64| -> Vec<(u64, u64)> {
        (0..leaves).flat_map(entries_of).map(|(key, value, _)| (key, value)).collect()
    };
    let mut possible = story.leaves[done as usize..].iter().take(2);
    if !possible.any(|leaves| expected(*leaves) == found) {
        return Err(format!("after {done} steps there are {} entries", found.len()));
    }
    let mut persisted = BTreeSet::new();
    heap.for_each_persisted(|offset, _| {
        persisted.insert(offset);
    })
    .map_err(|error| error.to_string())?;
    if persisted == objects { Ok(()) } else { Err("the allocator disagrees".into()) }
}

fn violation(story: &Story, trace: &Trace) -> Option<String> {
    let mut replay = Replay::new(trace);
    let mut failed = None;
    while failed.is_none()
        && let Some(point) = replay.next_point()
    {
        let done = point.last_note.unwrap_or(0);
        point.for_each_state(20, 5, |image| {
            if failed.is_none() {
                failed = verdict(image, story, done).err();
            }
        });
    }
    failed
}

#[test]
fn a_tree_that_is_built_or_taken_apart_survives_power_cuts() {
    let story = story();
    assert_eq!(violation(&story, &story.trace), None);
    // How chunks are taken is tested with the heap.
    let ours = |site: &Site| site.file().contains("index");
    for site in story.trace.flush_sites().into_iter().filter(ours) {
        let faulty = story.trace.without_flushes_of(site);
        assert!(violation(&story, &faulty).is_some(), "without the flush at {site}");
    }
    for site in story.trace.fence_sites().into_iter().filter(ours) {
        let faulty = story.trace.without_fences_of(site);
        assert!(violation(&story, &faulty).is_some(), "without the fence at {site}");
    }
}
