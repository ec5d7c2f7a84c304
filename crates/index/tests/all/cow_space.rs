//! Where copy-on-write trees get pages from: what opening looks at, what the first transactions
//! after a crash wait for, and what they do without memory.

use std::sync::atomic::Ordering::Acquire;

use heap::{Heap, HeapOptions, Lane, Purpose};
use index::IndexError;
use index::cow::{Pages, Records, Root, TreeBuffers, TreeShape};
use index::pages::{ExtentList, FilePages, PageBackend, PageSource, PoolPages};
use pm::{Dram, Files, Memory, Off};
use sim::{Recording, RecordingFiles};

const PAGE_BYTES: u32 = 256;
const PACKED: Records = Records::Packed { key_bytes: 8, value_bytes: 8 };

fn heap() -> (Heap<Recording>, Lane<Recording>, ExtentList) {
    let options = HeapOptions { chunk_bytes: 8 << 10, lanes: 1 };
    let heap = Heap::format(Recording::new(1 << 26).unwrap(), options).unwrap();
    let mut lane = heap.lane(0);
    let words = lane.allocate(64, Purpose::Log).unwrap();
    let list = ExtentList { newest: Off::new(words), oldest: Off::new(words + 8) };
    heap.memory().store(list.newest, 0);
    heap.memory().store(list.oldest, 0);
    (heap, lane, list)
}

/// A process that was killed in a large transaction leaves thousands of extents after the mark.
#[test]
fn opening_looks_at_the_ends_of_the_list_only() {
    let (heap, mut lane, list) = heap();
    let memory = heap.memory();
    for used in [0, 40] {
        let mut pages = PoolPages::open(&heap, list, PAGE_BYTES, 0).unwrap();
        pages.extend(&mut lane, 1000).unwrap();
        for _ in 0..used {
            pages.take_fresh().unwrap().unwrap();
        }
        let (mark, fresh) = (pages.mark(), pages.fresh());
        assert_eq!(used == 0, mark == 0);
        let mut extents = Vec::new();
        pages.for_each_extent(|at| extents.push(at)).unwrap();
        assert!(extents.len() > 30);
        // The list is newest first: what lies between the mark and the newest one is not read.
        let between = &extents[1..extents.len() - 2];
        let magic = memory.load(Off::new(between[0]), Acquire).unwrap();
        between.iter().for_each(|at| memory.store(Off::new(*at), 0));
        let mut pages = PoolPages::open(&heap, list, PAGE_BYTES, mark).unwrap();
        assert_eq!(pages.fresh(), fresh);
        let damage = (0..fresh).find_map(|_| pages.take_fresh().err());
        assert!(matches!(damage, Some(IndexError::Bad(_))), "it is met where it lies: {damage:?}");
        between.iter().for_each(|at| memory.store(Off::new(*at), magic));
        let mut pages = PoolPages::open(&heap, list, PAGE_BYTES, mark).unwrap();
        for _ in 0..fresh {
            pages.take_fresh().unwrap().unwrap();
        }
        assert_eq!((pages.fresh(), pages.take_fresh().unwrap()), (0, None));
    }
}

struct Story<B: PageBackend> {
    pages: Pages<B>,
    shape: TreeShape,
    buffers: TreeBuffers,
    root: Root,
}

impl<B: PageBackend> Story<B> {
    fn new(backend: B) -> Self {
        let shape = TreeShape::new(PAGE_BYTES, PACKED, 8).unwrap();
        let (pages, buffers) = (Pages::new(backend, 0), TreeBuffers::default());
        Self { pages, shape, buffers, root: Root::EMPTY }
    }

    /// A durable transaction that puts keys into the tree.
    fn put(&mut self, keys: impl Iterator<Item = u64>, room: &mut B::Room) {
        let Self { pages, shape, buffers, root } = self;
        for key in keys {
            pages.reserve(root.pages_for_change() + SPARE, room).unwrap();
            let (key, value) = (key.to_be_bytes(), [7; 8]);
            if !shape.replace(pages, buffers, root, &key, &value).unwrap() {
                assert!(shape.insert(pages, buffers, root, &key, &value).unwrap());
            }
        }
        pages.commit(&[]);
        pages.write_back().unwrap();
        let number = pages.number() - 1;
        pages.made_durable(number);
        pages.reclaim(&[]);
        pages.look_ahead(AHEAD, room).unwrap();
    }
}

const SPARE: u64 = 24;
const AHEAD: u64 = 4 * SPARE;
const KEYS: u64 = 20_000;

#[test]
fn first_transactions_do_not_wait_for_the_collection() {
    let (heap, mut lane, list) = heap();
    let mut story = Story::new(PoolPages::open(&heap, list, PAGE_BYTES, 0).unwrap());
    (0..KEYS / 1000).for_each(|part| story.put(part * 1000..part * 1000 + 1000, &mut lane));
    let mut sizes = Vec::new();
    let mut waited = 0;
    for crash in 0..400u64 {
        let number = story.pages.number() - 1;
        let mark = story.pages.backend().mark();
        let backend = PoolPages::open(&heap, list, PAGE_BYTES, mark).unwrap();
        story.pages = Pages::new(backend, number);
        let trees = [(story.shape, story.root)];
        story.pages.start_collection(trees.into_iter(), AHEAD);
        story.put([crash * 37 % KEYS].into_iter(), &mut lane);
        waited += u64::from(!story.pages.is_collecting());
        if crash == 0 {
            assert_eq!(waited, 0, "the first transaction has finished the collection");
        }
        // Every other process lives long enough.
        if crash % 2 == 1 {
            while !story.pages.collect(100).unwrap() {}
            story.put((0..20).map(|at| (at * 991 + crash) % KEYS), &mut lane);
        }
        sizes.push(story.pages.backend().bytes());
    }
    println!("{waited} of 400 waited; {} to {} bytes", sizes[0], sizes[399]);
    assert!(sizes[399] <= sizes[0] + sizes[0] / 4, "crashes cost space: {sizes:?}");
}

#[test]
fn without_memory_for_more_frames_those_there_are_used_again() {
    let file = RecordingFiles::new().create("pages").unwrap();
    // Room for 60 frames in a cache that wants thousands.
    let memory = Dram::new(4096 + 60 * u64::from(PAGE_BYTES)).unwrap();
    let backend = FilePages::open(file, 512, PAGE_BYTES, (0, 0), memory, 1 << 20).unwrap();
    let mut story = Story::new(backend);
    (0..100).for_each(|part| story.put(part * 20..part * 20 + 20, &mut ()));
    assert!(story.pages.backend().mark() > 60, "more pages than frames");
    for key in 0..2000u64 {
        let found =
            story.shape.get(story.pages.source(), story.root, &key.to_be_bytes(), |value| {
                value.equal(&[7; 8])
            });
        assert_eq!(found.unwrap(), Some(true));
    }
    story.pages.source().with(1, |_| ()).unwrap();
}

/// The word that leads to the newest extent has been damaged and leads to an older one: the pages
/// after that one are an error, not room.
#[test]
fn extents_after_the_newest_are_damage() {
    let (heap, mut lane, list) = heap();
    let memory = heap.memory();
    let mut pages = PoolPages::open(&heap, list, PAGE_BYTES, 0).unwrap();
    pages.extend(&mut lane, 1).unwrap();
    let first = memory.load(list.newest, Acquire).unwrap();
    pages.extend(&mut lane, 1).unwrap();
    memory.store(list.newest, first);
    let mut pages = PoolPages::open(&heap, list, PAGE_BYTES, 0).unwrap();
    let room = pages.fresh();
    for left in (0..room).rev() {
        assert!(pages.take_fresh().unwrap().is_some());
        assert_eq!(pages.fresh(), left);
    }
    assert!(pages.take_fresh().is_err(), "there is an extent that there must not be");
    assert_eq!(pages.fresh(), 0);
}
