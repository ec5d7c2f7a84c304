//! The B+tree under power cuts (`docs/format/crash-model.md`): prepare, publish, remove, tidy, with
//! splits up to three levels and merges back to one leaf.
//!
//! At every fence and in every state of the pending lines: the tree is sound, it is the model's
//! before or after the operation in flight, and the allocator holds exactly the tree's nodes, so
//! that none is lost and none is free. Without one of its flushes or fences the test fails.

use std::collections::{BTreeMap, BTreeSet};

use heap::{Heap, HeapOptions, Lane, Purpose};
use index::{Append, BTree, Key, LongKey, NodeShape, WideKey};
use pm::{Flushed, LineSet, Memory, Off, fence_for};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::{Recording, Replay, Trace};

const LIMIT: u64 = 2 << 20;
const ROOT: &str = "tree";

/// Keys that a test can draw, and the trees that they need.
pub(crate) trait Drawn: Key {
    const WIDTH: u32;
    const NODE_BYTES: u32;
    fn draw(number: u64) -> Self;
}

impl Drawn for u64 {
    const WIDTH: u32 = 8;
    const NODE_BYTES: u32 = 128;
    fn draw(number: u64) -> Self {
        number
    }
}

impl Drawn for WideKey {
    const WIDTH: u32 = 24;
    const NODE_BYTES: u32 = 256;
    fn draw(number: u64) -> Self {
        Self::new(&[&[b'x'; 16][..], &number.to_be_bytes()].concat(), 24)
    }
}

impl Drawn for LongKey {
    const WIDTH: u32 = 248;
    const NODE_BYTES: u32 = 1024;
    fn draw(number: u64) -> Self {
        Self::new(&[&[b'x'; 240][..], &number.to_be_bytes()].concat(), 248)
    }
}

type Tree<K> = BTree<K, Append>;
type Model<K> = BTreeMap<K, u64>;

/// The model after each operation; note `n` says that operation `n` is durable.
struct Story<K> {
    trace: Trace,
    models: Vec<Model<K>>,
    levels: usize,
}

fn insert<K: Drawn>(tree: &mut Tree<K>, lane: &mut Lane<Recording>, key: K, value: u64) {
    let memory = lane.memory().clone();
    let mut lines = LineSet::new();
    let prepared = tree.prepare(lane, key, value, &mut lines).unwrap();
    let durable = fence_for(&memory, Flushed::lines(&memory, &mut lines, prepared));
    tree.publish(&memory, durable, &mut lines).unwrap();
    lines.flush(&memory);
    memory.fence();
}

/// An insert that is not published: no search may see it, but its split counts.
fn prepare_only<K: Drawn>(tree: &mut Tree<K>, lane: &mut Lane<Recording>, key: K) {
    let memory = lane.memory().clone();
    let mut lines = LineSet::new();
    let _unpublished = tree.prepare(lane, key, 5, &mut lines).unwrap();
    // A split must not be applied again once its words change in another way.
    memory.fence();
}

#[expect(clippy::needless_pass_by_value, reason = "as `insert`")]
fn remove<K: Drawn>(tree: &mut Tree<K>, lane: &mut Lane<Recording>, key: K, value: u64) {
    let memory = lane.memory().clone();
    let mut lines = LineSet::new();
    assert!(tree.remove(&memory, &key, value, &mut lines).unwrap());
    lines.flush(&memory);
    memory.fence();
}

fn story<K: Drawn>(seed: u64, entries: usize) -> Story<K> {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let heap =
        Heap::format(memory.clone(), HeapOptions { chunk_bytes: 8 << 10, lanes: 1 }).unwrap();
    let mut lane = heap.lane(0);
    let mut lines = LineSet::new();
    let cell = lane.allocate(64, Purpose::Log).unwrap();
    lane.mark_persisted(cell, &mut lines);
    lines.flush(&memory);
    memory.fence();
    let shape = NodeShape::new(K::NODE_BYTES, K::WIDTH).unwrap();
    let mut tree = Tree::<K>::create(&mut lane, Off::new(cell), shape).unwrap();
    heap.set_root(ROOT, cell).unwrap();
    let mut random = SmallRng::seed_from_u64(seed);
    let mut models = vec![Model::new()];
    let (mut levels, mut operation, mut last, mut prepared) = (0, 0, 0, false);
    memory.start();
    for growing in [true, false] {
        loop {
            operation += 1;
            let mut model = models[models.len() - 1].clone();
            // Often near the place of the operation before.
            let fresh = random.random_range(0..1 << 20);
            let before = last;
            last = if random.random_bool(0.4) { last + 1 } else { fresh };
            let mut choice = random.random_range(0..10);
            if std::mem::take(&mut prepared) {
                // The key that was not published: what is removed is its neighbour.
                (last, choice) = (before, 7);
            }
            let key = K::draw(last);
            prepared = choice >= 8 && !model.contains_key(&key);
            let inserts = if growing { 6 } else { 2 };
            // Each operation in a thread of its own: no fence may be relied on that another makes.
            let (tree, lane) = (&mut tree, &mut lane);
            std::thread::scope(|scope| {
                let known = model.range(key.clone()..).next().or(model.iter().next());
                let known = known.map(|(key, value): (&K, &u64)| (key.clone(), *value));
                let (model, prepares) = (&mut model, prepared);
                let act = move || match known {
                    _ if prepares => prepare_only(tree, lane, key),
                    Some((known, value)) if choice >= inserts => {
                        remove(tree, lane, known.clone(), value);
                        model.remove(&known);
                        tree.tidy(lane, &known).unwrap();
                    }
                    _ if !model.contains_key(&key) => {
                        insert(tree, lane, key.clone(), operation * 8);
                        model.insert(key, operation * 8);
                    }
                    _ => {}
                };
                scope.spawn(act).join().unwrap();
            });
            models.push(model);
            memory.note(operation);
            levels = levels.max(tree_use(&memory).unwrap().1);
            let len = models[models.len() - 1].len();
            if (growing && len >= entries) || (!growing && len == 0) {
                break;
            }
        }
    }
    Story { trace: memory.stop(), models, levels }
}

fn tree_use(memory: &Recording) -> Result<(Vec<u64>, usize), String> {
    // Of any kind of key: what is asked for here is the same.
    let heap = Heap::open(Recording::from_image(&memory.contents(), LIMIT).unwrap())
        .map_err(|error| error.to_string())?;
    let cell = heap.root(ROOT).unwrap().unwrap();
    let narrow = Tree::<u64>::open(Off::new(cell), NodeShape::new(128, 8).unwrap());
    let wide = Tree::<WideKey>::open(Off::new(cell), NodeShape::new(256, 24).unwrap());
    let long = Tree::<LongKey>::open(Off::new(cell), NodeShape::new(1024, 248).unwrap());
    let used = narrow
        .check(heap.memory(), |_, _| {})
        .or_else(|_| wide.check(heap.memory(), |_, _| {}))
        .or_else(|_| long.check(heap.memory(), |_, _| {}))
        .map_err(|bad| bad.to_string())?;
    Ok((used.nodes, used.levels))
}

fn verdict<K: Drawn>(image: &[u8], story: &Story<K>, noted: u64) -> Result<(), String> {
    let whole = Recording::from_image(image, LIMIT).unwrap();
    let (header, _) = pm::read_header(&whole).map_err(|bad| bad.to_string())?;
    let memory = Recording::from_image(&image[..header.size as usize], LIMIT).unwrap();
    let heap = Heap::open(memory.clone()).map_err(|error| error.to_string())?;
    let cell = heap.root(ROOT).unwrap().ok_or("the tree has no name")?;
    let shape = NodeShape::new(K::NODE_BYTES, K::WIDTH).unwrap();
    let mut tree = Tree::<K>::open(Off::new(cell), shape);
    let mut found = Model::new();
    let used = tree
        .check(&memory, |key, value| {
            found.insert(key.clone(), value);
        })
        .map_err(|bad| bad.to_string())?;
    let before = &story.models[noted as usize];
    let after = story.models.get(noted as usize + 1).unwrap_or(before);
    if found != *before && found != *after {
        return Err(format!("{} entries, neither those before nor after", found.len()));
    }
    let mut persisted = BTreeSet::new();
    heap.for_each_persisted(|at, _| {
        persisted.insert(at);
    })
    .map_err(|bad| bad.to_string())?;
    let expected: BTreeSet<u64> = used.nodes.into_iter().chain([cell]).collect();
    if persisted != expected {
        let leaked: Vec<_> = persisted.difference(&expected).collect();
        let dangling: Vec<_> = expected.difference(&persisted).collect();
        return Err(format!("leaked {leaked:x?}, dangling {dangling:x?}"));
    }
    // The tree goes on working: another insert, and its removal.
    let mut lane = heap.lane(0);
    for number in [1 << 30, 1 << 31] {
        insert(&mut tree, &mut lane, K::draw(number), 16);
        found.insert(K::draw(number), 16);
    }
    let mut now = Model::new();
    tree.check(&memory, |key, value| {
        now.insert(key.clone(), value);
    })
    .map_err(|bad| format!("after two inserts: {bad}"))?;
    if now == found { Ok(()) } else { Err("the tree does not go on".into()) }
}

fn explore<K: Drawn>(trace: &Trace, story: &Story<K>, bound: u64) -> (u64, u64, Option<String>) {
    let mut replay = Replay::new(trace);
    let (mut points, mut states, mut failed) = (0, 0, None);
    while failed.is_none()
        && let Some(point) = replay.next_point()
    {
        points += 1;
        let (position, noted) = (point.position, point.last_note.unwrap_or(0));
        states += point
            .for_each_state(bound, 5, |image| {
                if failed.is_none()
                    && let Err(why) = verdict(image, story, noted)
                {
                    failed = Some(format!("event {position}: {why}"));
                }
            })
            .visited;
    }
    (points, states, failed)
}

pub(crate) fn survives<K: Drawn>(seed: u64, entries: usize, bound: u64) {
    let story = story::<K>(seed, entries);
    assert!(story.levels >= 3, "seed {seed}: {} levels", story.levels);
    let (points, states, failed) = explore(&story.trace, &story, bound);
    println!(
        "seed {seed}: {} operations, {} levels, {points} points, {states} states",
        story.models.len() - 1,
        story.levels
    );
    assert_eq!(failed, None, "seed {seed}");
    assert!(points > 500 && states > 60 * bound);
}

#[test]
fn narrow_trees_survive_a_power_cut_at_every_fence() {
    survives::<u64>(1, 90, 8);
}

#[test]
fn wide_trees_survive_a_power_cut_at_every_fence() {
    survives::<WideKey>(3, 90, 8);
}

#[test]
fn long_trees_survive_a_power_cut_at_every_fence() {
    survives::<LongKey>(4, 60, 3);
}

#[test]
fn the_test_fails_without_one_flush_or_fence() {
    let story = story::<u64>(4, 70);
    let mut unseen = Vec::new();
    let mut sites = 0;
    for site in story.trace.flush_sites() {
        sites += 1;
        if explore(&story.trace.without_flushes_of(site), &story, 30).2.is_none() {
            unseen.push(format!("flush at {}:{}", site.file(), site.line()));
        }
    }
    for site in story.trace.fence_sites() {
        sites += 1;
        if explore(&story.trace.without_fences_of(site), &story, 30).2.is_none() {
            unseen.push(format!("fence at {}:{}", site.file(), site.line()));
        }
    }
    println!("{sites} sites dropped in turn");
    assert_eq!(unseen, [""; 0]);
}
