//! The copy-on-write tree against a model, over both kinds of pages, with snapshots, aborts,
//! grouped commits and reopenings. After every commit all pages are accounted for.

use std::collections::{BTreeMap, HashSet};
use std::ops::{Bound, ControlFlow};

use heap::{Heap, HeapOptions, Lane, Purpose};
use index::cow::{Pages, Records, Root, TreeBuffers, TreeShape};
use index::pages::{ExtentList, FilePages, PageBackend, PoolPages};
use index::{Direction, IndexError};
use pm::{Bytes, Dram, File, Files, Memory, Off};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::{RecordedFile, Recording, RecordingFiles};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store that shows the test where pages lie.
trait Store: PageBackend {
    fn used(&self) -> Vec<u64>;
    fn reopen(self, room: &mut Self::Room) -> Self;
}

const PAGE_BYTES: u32 = 256;
const CACHE_BYTES: u64 = 20 * PAGE_BYTES as u64;

fn dram() -> Dram {
    Dram::new(1 << 26).unwrap()
}

impl Store for FilePages<RecordedFile, Dram> {
    fn used(&self) -> Vec<u64> {
        (1..=self.mark()).collect()
    }

    fn reopen(self, (): &mut ()) -> Self {
        let mark = self.mark();
        let files = RecordingFiles::new();
        let copy = files.create("pages").unwrap();
        let mut bytes = vec![0; self.file().len().unwrap() as usize];
        self.file().read_at(0, &mut bytes).unwrap();
        copy.write_at(0, &bytes).unwrap();
        FilePages::open(copy, 512, self.page_bytes(), (mark, u64::MAX), dram(), CACHE_BYTES)
            .unwrap()
    }
}

fn file_pages(page_bytes: u32) -> FilePages<RecordedFile, Dram> {
    let file = RecordingFiles::new().create("pages").unwrap();
    FilePages::open(file, 512, page_bytes, (0, 0), dram(), CACHE_BYTES).unwrap()
}

struct Pool {
    heap: Heap<Recording>,
    list: ExtentList,
}

fn pool() -> (Pool, Lane<Recording>) {
    let memory = Recording::new(1 << 26).unwrap();
    let options = HeapOptions { chunk_bytes: 8 << 10, lanes: 1 };
    let heap = Heap::format(memory, options).unwrap();
    let mut lane = heap.lane(0);
    let head = Off::new(lane.allocate(64, Purpose::Log).unwrap());
    let list = ExtentList { newest: head, oldest: Off::new(head.get() + 8) };
    heap.memory().store(list.newest, 0);
    heap.memory().store(list.oldest, 0);
    (Pool { heap, list }, lane)
}

struct PoolStore(PoolPages<Recording>, Pool);

impl std::fmt::Debug for PoolStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl PageBackend for PoolStore {
    type Source = <PoolPages<Recording> as PageBackend>::Source;
    type Room = Lane<Recording>;
    fn source(&self) -> &Self::Source {
        self.0.source()
    }
    fn page_bytes(&self) -> u32 {
        self.0.page_bytes()
    }
    fn take_fresh(&mut self) -> Result<Option<u64>, IndexError> {
        self.0.take_fresh()
    }
    fn fresh(&self) -> u64 {
        self.0.fresh()
    }
    fn extend(&mut self, room: &mut Self::Room, pages: u64) -> Result<(), IndexError> {
        self.0.extend(room, pages)
    }
    fn allocated(&mut self, page: u64) {
        self.0.allocated(page);
    }
    fn write(&mut self, page: u64, image: &[u8]) -> Result<(), IndexError> {
        self.0.write(page, image)
    }
    fn patch(&mut self, page: u64, at: usize, bytes: [u8; 8]) -> Result<(), IndexError> {
        self.0.patch(page, at, bytes)
    }
    fn forget(&mut self, page: u64) {
        self.0.forget(page);
    }
    fn write_back(&mut self) -> Result<(), IndexError> {
        self.0.write_back()
    }
    fn mark(&self) -> u64 {
        self.0.mark()
    }
    fn used_pages(&self) -> Result<u64, IndexError> {
        self.0.used_pages()
    }
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
    fn written_bytes(&self) -> u64 {
        self.0.written_bytes()
    }
    fn enumerate(&mut self, steps: u64) -> Result<(u64, bool), IndexError> {
        self.0.enumerate(steps)
    }
    fn below_mark(&self) -> u64 {
        self.0.below_mark()
    }
    fn is_below(&self, dense: u64) -> bool {
        self.0.is_below(dense)
    }
    fn dense(&self, page: u64) -> Option<u64> {
        self.0.dense(page)
    }
    fn page_at(&self, dense: u64) -> u64 {
        self.0.page_at(dense)
    }
}

impl Store for PoolStore {
    fn used(&self) -> Vec<u64> {
        let mut pages = Vec::new();
        self.0.for_each_used(|page| pages.push(page)).unwrap();
        pages
    }

    fn reopen(self, _: &mut Self::Room) -> Self {
        let Self(pages, pool) = self;
        let (page_bytes, mark) = (pages.page_bytes(), pages.mark());
        Self(PoolPages::open(&pool.heap, pool.list, page_bytes, mark).unwrap(), pool)
    }
}

fn pool_store(page_bytes: u32) -> (PoolStore, Lane<Recording>) {
    let (pool, lane) = pool();
    (PoolStore(PoolPages::open(&pool.heap, pool.list, page_bytes, 0).unwrap(), pool), lane)
}

struct Test<B: Store> {
    pages: Pages<B>,
    room: B::Room,
    shape: TreeShape,
    buffers: TreeBuffers,
    random: SmallRng,
    keys: u64,
    /// Committed, and as the open transaction sees it.
    committed: (Root, Model),
    open: (Root, Model),
    /// Committed states that must stay readable, with their transactions.
    snapshots: Vec<(u64, Root, Model)>,
    durable: u64,
}

impl<B: Store> Test<B> {
    fn new(store: B, room: B::Room, records: Records, seed: u64, keys: u64) -> Self {
        let max_key = if records == Records::Slotted { 30 } else { 8 };
        let shape = TreeShape::new(store.page_bytes(), records, max_key).unwrap();
        Self {
            pages: Pages::new(store, 0),
            room,
            shape,
            buffers: TreeBuffers::default(),
            random: SmallRng::seed_from_u64(seed),
            keys,
            committed: (Root::EMPTY, Model::new()),
            open: (Root::EMPTY, Model::new()),
            snapshots: Vec::new(),
            durable: 0,
        }
    }

    fn pins(&self) -> Vec<u64> {
        self.snapshots.iter().map(|snapshot| snapshot.0).collect()
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.random.random_range(0..self.keys);
        match self.shape.stride_is_fixed() {
            true => number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec(),
            false => {
                let mut key = number.to_be_bytes()[5..].to_vec();
                key.resize(3 + (number * 7 % 28) as usize, number as u8);
                key
            }
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.shape.stride_is_fixed() {
            true => 8,
            false => [0, 5, 30, 80, 119, 400, 1500][self.random.random_range(0..7)],
        };
        (0..len).map(|_| self.random.random()).collect()
    }

    fn operation(&mut self) {
        let (key, value) = (self.key(), self.value());
        let needed =
            self.open.0.pages_for_change() + self.shape.overflow_pages(key.len(), value.len());
        self.pages.reserve(needed, &mut self.room).unwrap();
        let Self { pages, shape, buffers, open: (root, model), random, .. } = self;
        let there = model.contains_key(&key);
        match random.random_range(0..8) {
            0..3 => {
                let done = shape.insert(pages, buffers, root, &key, &value).unwrap();
                assert_eq!(done, !there);
                model.entry(key).or_insert(value);
            }
            3..5 => {
                let done = shape.replace(pages, buffers, root, &key, &value).unwrap();
                assert_eq!(done, there);
                model.entry(key).and_modify(|old| *old = value);
            }
            _ => {
                assert_eq!(shape.remove(pages, buffers, root, &key).unwrap(), there);
                model.remove(&key);
            }
        }
    }

    fn compare(&self, root: Root, model: &Model) {
        let (shape, source) = (&self.shape, self.pages.source());
        let mut found = Model::new();
        shape
            .check(source, root, &mut |_| Ok(()), &mut |key, value| {
                found.insert(key.to_vec(), value.to_vec());
                Ok(())
            })
            .unwrap();
        assert_eq!(found, *model);
        for (key, value) in model.iter().step_by(7) {
            let same = shape.get(source, root, key, |found| found.equal(value)).unwrap();
            assert_eq!(same, Some(true));
        }
    }

    fn compare_range(&mut self) {
        let (one, other) = (self.key(), self.key());
        let (low, high) = if one < other { (one, other) } else { (other, one) };
        let bound = |kind: u32, key: &Vec<u8>| match kind {
            0 => Bound::Unbounded,
            1 => Bound::Included(key.clone()),
            _ => Bound::Excluded(key.clone()),
        };
        for kind in 0..9 {
            let range = (bound(kind / 3, &low), bound(kind % 3, &high));
            if low == high && kind / 3 == 2 && kind % 3 == 2 {
                continue;
            }
            let (root, model) = &self.open;
            let expected: Vec<_> = model.range(range.clone()).map(|(key, _)| key.clone()).collect();
            for direction in [Direction::Forward, Direction::Backward] {
                let mut found = Vec::new();
                let range =
                    (range.0.as_ref().map(Vec::as_slice), range.1.as_ref().map(Vec::as_slice));
                let mut visit = |key: Bytes<'_>, _: Bytes<'_>| {
                    found.push(key.to_vec());
                    ControlFlow::<()>::Continue(())
                };
                let source = self.pages.source();
                let flow = self.shape.scan(source, *root, range, direction, &mut visit).unwrap();
                assert!(flow.is_continue());
                if direction == Direction::Backward {
                    found.reverse();
                }
                assert_eq!(found, expected, "{kind} {direction:?}");
            }
        }
    }

    fn commit(&mut self) {
        self.pages.commit(&self.pins());
        self.committed = self.open.clone();
    }

    fn make_durable(&mut self) {
        self.pages.write_back().unwrap();
        self.durable = self.pages.number() - 1;
        self.pages.made_durable(self.durable);
        self.pages.reclaim(&self.pins());
    }

    /// Every page below the mark is reachable from the current directory, or known to be unused;
    /// none is both.
    fn account(&self) {
        let mut seen = HashSet::new();
        let mut reach = |page| {
            assert!(seen.insert(page), "page {page} twice");
            Ok(())
        };
        let source = self.pages.source();
        self.shape.check(source, self.committed.0, &mut reach, &mut |_, _| Ok(())).unwrap();
        self.pages.for_each_unused(|page| assert!(seen.insert(page), "page {page} twice"));
        let used: HashSet<u64> = self.pages.backend().used().into_iter().collect();
        assert_eq!(seen.difference(&used).count(), 0, "pages above the mark");
        if !self.pages.is_collecting() {
            assert_eq!(used.difference(&seen).count(), 0, "lost pages");
        }
    }

    fn round(&mut self, round: usize) {
        for _ in 0..self.random.random_range(1..12) {
            self.operation();
        }
        match self.random.random_range(0..10) {
            0 => {
                self.pages.abort();
                self.open = self.committed.clone();
            }
            _ => self.commit(),
        }
        if self.random.random_range(0..3) == 0 {
            self.make_durable();
        }
        match self.random.random_range(0..8) {
            0 => {
                let (root, model) = self.committed.clone();
                self.snapshots.push((self.pages.number() - 1, root, model));
            }
            1 if !self.snapshots.is_empty() => {
                let at = self.random.random_range(0..self.snapshots.len());
                let (_, root, model) = self.snapshots.swap_remove(at);
                self.compare(root, &model);
                self.pages.unpin(&self.pins());
            }
            _ => {}
        }
        if round.is_multiple_of(40) {
            self.compare(self.open.0, &self.open.1);
            self.compare_range();
            for (_, root, model) in &self.snapshots {
                self.compare(*root, model);
            }
        }
        self.account();
    }

    /// As after a kill: all volatile knowledge is gone. Opened, the free pages are found again,
    /// while transactions go on.
    fn reopen(mut self) -> Self {
        self.make_durable();
        for _ in 0..20 {
            self.operation();
        }
        let (root, number) = (self.committed.0, self.pages.number() - 1);
        let Self { pages, mut room, .. } = self;
        let pages = Pages::new(pages.into_backend().reopen(&mut room), number);
        let open = self.committed.clone();
        let mut test = Self { pages, room, open, snapshots: Vec::new(), durable: number, ..self };
        test.compare(root, &test.committed.1);
        test.pages.start_collection([(test.shape, root)].into_iter(), u64::MAX);
        test.snapshots.push((number, root, test.committed.1.clone()));
        while !test.pages.collect(5).unwrap() {
            test.operation();
            test.commit();
            test.make_durable();
            test.account();
        }
        test.snapshots.clear();
        test.pages.unpin(&[]);
        test.account();
        test
    }
}

fn run<B: Store>(make: impl Fn() -> (B, B::Room), records: Records, seeds: u64) {
    for seed in 0..seeds {
        println!("{records:?}, seed {seed}");
        let (store, room) = make();
        let keys = [30, 300, 2000][seed as usize % 3];
        let mut test = Test::new(store, room, records, seed, keys);
        for round in 0..600 {
            test.round(round);
            if round % 200 == 199 {
                test = test.reopen();
            }
        }
        // Everything goes, and all pages come back.
        test.snapshots.clear();
        test.pages.unpin(&[]);
        let keys: Vec<_> = test.open.1.keys().cloned().collect();
        for key in keys {
            test.pages.reserve(test.open.0.pages_for_change(), &mut test.room).unwrap();
            let Test { pages, shape, buffers, open, .. } = &mut test;
            assert!(shape.remove(pages, buffers, &mut open.0, &key).unwrap());
            open.1.remove(&key);
        }
        assert_eq!(test.open.0, Root::EMPTY);
        test.commit();
        test.make_durable();
        test.account();
        assert_eq!(test.pages.waiting(), 0);
    }
}

const PACKED: Records = Records::Packed { key_bytes: 8, value_bytes: 8 };

#[test]
fn packed_records_in_a_heap() {
    run(|| pool_store(PAGE_BYTES), PACKED, 6);
    run(|| pool_store(128), PACKED, 3);
}

#[test]
fn packed_records_in_a_file() {
    run(|| (file_pages(PAGE_BYTES), ()), PACKED, 3);
}

#[test]
fn slotted_records_in_a_file() {
    run(|| (file_pages(PAGE_BYTES), ()), Records::Slotted, 6);
    run(|| (file_pages(1024), ()), Records::Slotted, 3);
}

#[test]
fn slotted_records_in_a_heap() {
    run(|| pool_store(512), Records::Slotted, 3);
}

#[test]
fn ascending_keys_fill_their_leaves() {
    let (store, room) = pool_store(256);
    let mut test = Test::new(store, room, PACKED, 1, 1);
    for key in 0..3000u64 {
        test.pages.reserve(20, &mut test.room).unwrap();
        let Test { pages, shape, buffers, open, .. } = &mut test;
        let key = key.to_be_bytes();
        assert!(shape.insert(pages, buffers, &mut open.0, &key, &key).unwrap());
        test.pages.commit(&[]);
        test.pages.made_durable(test.pages.number() - 1);
        test.pages.reclaim(&[]);
    }
    let mut pages = 0;
    let count = |_| {
        pages += 1;
        Ok(())
    };
    test.shape.check(test.pages.source(), test.open.0, &mut { count }, &mut |_, _| Ok(())).unwrap();
    // 15 records a page.
    assert!((3000 / 15..3000 / 15 * 11 / 10).contains(&pages), "{pages}");
}

#[test]
fn a_churned_tree_takes_no_more_pages() {
    let mut test = Test::new(file_pages(PAGE_BYTES), (), PACKED, 3, 1000);
    let mut sizes = Vec::new();
    for round in 0..24_000 {
        test.operation();
        test.commit();
        test.make_durable();
        if round % 6000 == 5999 {
            sizes.push(test.pages.backend().mark());
        }
    }
    println!("{sizes:?}");
    assert!(sizes[3] <= sizes[1] + 4, "{sizes:?}");
}

#[test]
fn damaged_pages_are_an_error() {
    let mut test = Test::new(file_pages(PAGE_BYTES), (), Records::Slotted, 5, 300);
    for _ in 0..400 {
        test.operation();
    }
    test.commit();
    test.make_durable();
    let (root, model) = test.committed.clone();
    let shape = test.shape;
    let backend = test.pages.into_backend();
    let (bytes, mark) = (backend.file().len().unwrap(), backend.mark());
    let mut image = vec![0; bytes as usize];
    backend.file().read_at(0, &mut image).unwrap();
    let mut noticed = 0;
    for seed in 0..300 {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut damaged = image.clone();
        let at = random.random_range(512..512 + mark as usize * PAGE_BYTES as usize);
        damaged[at] ^= 1 << random.random_range(0..8);
        let file = RecordingFiles::new().create("pages").unwrap();
        file.write_at(0, &damaged).unwrap();
        let pages =
            FilePages::open(file, 512, PAGE_BYTES, (mark, u64::MAX), dram(), CACHE_BYTES).unwrap();
        let mut found = Model::new();
        let checked = shape.check(pages.source(), root, &mut |_| Ok(()), &mut |key, value| {
            found.insert(key.to_vec(), value.to_vec());
            Ok(())
        });
        match checked {
            Err(IndexError::Bad(_)) => noticed += 1,
            Err(other) => panic!("seed {seed}: {other}"),
            // The flip hit a page that is not needed, or the unused end of one.
            Ok(()) => assert_eq!(found, model, "seed {seed}"),
        }
    }
    println!("{noticed} of 300 noticed");
    assert!(noticed > 100);
}

/// Pages of a heap have no checksum: what is wild must be noticed all the same.
#[test]
fn any_bytes_in_a_page_of_a_heap_are_read_without_a_panic() {
    for records in [PACKED, Records::Slotted] {
        let (store, room) = pool_store(512);
        let mut test = Test::new(store, room, records, 9, 300);
        for _ in 0..600 {
            test.operation();
        }
        test.commit();
        let memory = test.pages.backend().1.heap.memory().clone();
        let pages = test.pages.backend().used();
        let mut random = SmallRng::seed_from_u64(4);
        for _ in 0..2000 {
            let page = pages[random.random_range(0..pages.len())];
            let at = Off::new(page + random.random_range(0..64) * 8);
            let before = memory.load(at, std::sync::atomic::Ordering::Acquire).unwrap();
            memory.store(at, before ^ 1 << random.random_range(0..64));
            let root = test.open.0;
            let source = test.pages.source();
            let _ = test.shape.check(source, root, &mut |_| Ok(()), &mut |_, _| Ok(()));
            let _ = test.shape.get(source, root, &7u64.to_be_bytes(), |_| ());
            memory.store(at, before);
        }
    }
}
